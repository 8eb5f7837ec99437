//! Nothing hangs: FIFOs, sockets and devices in place of files, locks that are never released, and processes with equal
//! IDs.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::common::mounts::{Mount, tree, wheel};
use crate::common::{copy_all, errno, fixture, program, run, succeeds};

/// Puts something that is no regular file in place of what is there. Opening the device would answer at once, but
/// reading it never ends.
fn replace(path: &Path, kind: &str) {
    fs::remove_file(path).ok();
    match kind {
        "a FIFO" => run(Command::new("mkfifo").arg(path)).clear(),
        "a socket" => drop(UnixListener::bind(path).unwrap()),
        _ => symlink("/dev/zero", path).unwrap(),
    }
}

/// The output of a command that has to end within 300 seconds, and its exit code.
#[track_caller]
fn ends(place: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "300", env!("CARGO_BIN_EXE_kpackfs")]).args(arguments);
    let output = command.current_dir(place).env("KPACKFS_CACHE_DIR", place.join("cache")).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code().filter(|&code| code == 137), None, "{arguments:?} hangs: {said}");
    assert!(output.status.code().is_some(), "{arguments:?} hangs: {said}");
    (output.status.code(), said)
}

/// An installation of a split library, with the wheel's dist-info and a HIP runtime.
fn installation(place: &Path) -> PathBuf {
    let fat = place.join("fat");
    fs::create_dir_all(fat.join("lib")).unwrap();
    fs::write(fat.join("lib/libx.so"), fixture("plain.so")).unwrap();
    succeeds(program().args(["split", "-o"]).arg(place.join("out")).arg(&fat));
    let site = place.join("out/merged-by-hand");
    copy_all(place.join("out/host"), &site);
    copy_all(place.join("out/gfx90a/."), &site);
    fs::create_dir(site.join("x-1.0.dist-info")).unwrap();
    fs::write(site.join("x-1.0.dist-info/METADATA"), "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n").unwrap();
    fs::write(site.join("x-1.0.dist-info/RECORD"), "lib/libx.so,,\n").unwrap();
    site
}

/// Every kind of file at every place where a command opens a file by its name.
#[test]
fn no_command_waits_for_what_is_no_file() {
    let place = tempfile::tempdir().unwrap();
    let site = installation(place.path());
    fs::create_dir(place.path().join("shards")).unwrap();
    let archive = fs::read_dir(site.join(".kpack")).unwrap().next().unwrap().unwrap().path();
    let why = ["why", "out/merged-by-hand", "--target", "gfx90a"];
    for kind in ["a FIFO", "a socket", "a device"] {
        for file in [archive.clone(), site.join("x-1.0.dist-info/RECORD"), site.join("x-1.0.dist-info/METADATA")] {
            let whole = fs::read(&file).unwrap();
            replace(&file, kind);
            let (_, said) = ends(place.path(), &why);
            assert!(file != archive || said.contains(&format!("it is {kind}, not a regular file")), "{said}");
            fs::remove_file(&file).unwrap();
            fs::write(&file, whole).unwrap();
        }
        let runtime = site.join("lib/libamdhip64.so.7");
        replace(&runtime, kind);
        ends(place.path(), &why);
        fs::remove_file(runtime).unwrap();

        let odd = place.path().join("odd");
        replace(&odd, kind);
        let named = format!("it is {kind}, not a regular file");
        for arguments in [
            &["kpack", "list", "odd"][..],
            &["kpack", "extract", "odd", "-o", "code"],
            &["kpack", "unbundle", "odd", "-o", "code"],
            &["recombine", "odd", "shards", "-o", "new"],
        ] {
            let (code, said) = ends(place.path(), arguments);
            assert!(code != Some(0) && said.contains(&named), "{arguments:?}: {said}");
        }
        for arguments in [&["inspect", "odd"][..], &["index", "odd"], &["split", "odd", "-o", "new"], &["why", "odd"]] {
            assert_ne!(ends(place.path(), arguments).0, Some(0), "{arguments:?}");
        }

        let statement = place.path().join("out/.kpackfs/split.json");
        let whole = fs::read(&statement).unwrap();
        replace(&statement, kind);
        assert_ne!(ends(place.path(), &["split", "fat", "-o", "out", "--force"]).0, Some(0));
        ends(place.path(), &["verify", "out"]);
        fs::remove_file(&statement).unwrap();
        fs::write(&statement, whole).unwrap();
    }
}

/// The cache directory, and files in it, that are something else.
#[test]
fn no_mount_waits_for_what_is_no_file_in_the_cache() {
    let place = tempfile::tempdir().unwrap();
    let (input, cache) = (wheel(place.path()), place.path().join("cache"));
    let options = ["--cache-dir", cache.to_str().unwrap()];
    replace(&cache, "a FIFO");
    let Some(mount) = Mount::new(&input, &options) else { return };
    let expected = mount.survey(&["gfx90a"]);
    mount.end();
    fs::remove_file(&cache).unwrap();
    Mount::new(&input, &options).unwrap().end();
    let index = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let index = index.into_iter().find(|path| path.extension().is_some_and(|it| it == "index")).unwrap();
    for name in ["saving", "index"] {
        replace(&index.with_extension(name), "a FIFO");
        let mount = Mount::new(&input, &options).unwrap();
        assert!(mount.survey(&["gfx90a"]) == expected, "{name}");
        mount.end();
    }
}

/// Listed files that are replaced by FIFOs are stale at once, and all others are served.
#[test]
fn listed_files_that_become_fifos_are_stale() {
    let place = tempfile::tempdir().unwrap();
    let input = tree(place.path());
    let Some(mut mount) = Mount::indexed(&input, &place.path().join("cache")) else { return };
    let names = ["demo/deflated.txt", "demo/stored.bin"];
    for name in names {
        replace(&input.join(name), "a FIFO");
    }
    for name in names {
        assert_eq!(errno(mount.read(&format!("host/{name}"), 0, 1000)), libc::ESTALE, "{}", mount.log());
        assert!(mount.log().contains(name), "{}", mount.log());
        assert!(mount.at(format!("host/{name}")).metadata().unwrap().is_file());
    }
    assert_eq!(mount.read("host/demo/small.txt", 0, 5).unwrap(), b"hello");
    mount.is_at_rest();
    mount.end();
}

/// Another process has locked everything in the cache directory, and never releases it.
#[test]
fn locks_that_are_never_released_do_not_stop_a_mount() {
    let place = tempfile::tempdir().unwrap();
    let (input, cache) = (wheel(place.path()), place.path().join("cache"));
    let options = ["--cache-dir", cache.to_str().unwrap()];
    let Some(mount) = Mount::new(&input, &options) else { return };
    let expected = mount.survey(&["gfx90a"]);
    mount.end();
    let listed = run(Command::new("find").arg(&cache).args(["-name", "*.segment", "-o", "-name", "*.index"]));
    let mut held: Vec<_> = listed.lines().map(PathBuf::from).collect();
    assert!(held.iter().any(|path| path.extension().is_some_and(|it| it == "segment")), "{listed}");
    let marks: Vec<_> = held.iter().filter(|path| path.extension().is_some_and(|it| it == "index")).cloned().collect();
    for index in marks {
        File::create(index.with_extension("saving")).unwrap();
        held.push(index.with_extension("saving"));
    }
    let held: Vec<_> = held.iter().map(|path| File::options().write(true).open(path).unwrap()).collect();
    for file in &held {
        flock(file, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
    let mount = Mount::new(&input, &options).unwrap();
    assert!(mount.survey(&["gfx90a"]) == expected, "frames are made again");
    mount.end();
}

/// Two containers with PID namespaces of their own share a cache directory.
#[test]
fn processes_with_equal_ids_save_one_index() {
    let place = tempfile::tempdir().unwrap();
    let (input, cache) = (wheel(place.path()), place.path().join("cache"));
    let indexing = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", env!("CARGO_BIN_EXE_kpackfs"), "index"]).arg(&input);
        command.env("KPACKFS_CACHE_DIR", &cache).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    succeeds(&mut indexing());
    let files = || fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let index = files().find(|path| path.extension().is_some_and(|it| it == "index")).unwrap();
    fs::remove_file(&index).unwrap();
    // What a process with the same ID is writing.
    let other = index.with_extension("1.0.new");
    fs::write(&other, "KPFSIDX\n").unwrap();
    let running: Vec<_> = (0..4).map(|_| indexing().spawn().unwrap()).collect();
    for process in running {
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("cannot be saved"), "{said}");
    }
    assert!(index.exists());
    assert_eq!(fs::read(other).unwrap(), b"KPFSIDX\n");
    assert_eq!(files().filter(|path| path.extension().is_some_and(|it| it == "new")).count(), 1, "nothing stays");
}
