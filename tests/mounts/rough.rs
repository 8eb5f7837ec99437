//! Unusual inputs, names and machines.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{can_mount, skipped, torch_wheel, wait_until};
use tempfile::TempDir;

/// A name that would forge a row of a table, and colour it.
const FORGED: &str = "x\nFORGED  row\u{1b}[31m";

fn kpackfs(place: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).current_dir(place).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &output.stderr].concat()).unwrap()
}

/// A tree `fat` with these fixtures as libraries.
fn tree(libraries: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("fat/lib")).unwrap();
    for (name, fixture) in libraries {
        fs::copy(Path::new("tests/fixtures").join(fixture), place.path().join("fat/lib").join(name)).unwrap();
    }
    place
}

/// A mount that ends with the test. `None` if this machine cannot mount.
struct Mount(PathBuf);

impl Mount {
    fn new(place: &Path, options: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        fs::create_dir_all(place.join("mount")).unwrap();
        let output = kpackfs(place, &[&["mount", "fat", "mount"], options].concat());
        assert!(output.status.success(), "{}", said(&output));
        Some(Self(place.join("mount")))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        kpackfs(Path::new("/"), &["umount", "--lazy", self.0.to_str().unwrap()]);
    }
}

#[test]
fn names_forge_no_lines() {
    let (good, bad) = (format!("{FORGED}.so"), format!("{FORGED}-bad.so"));
    let place = tree(&[(&good, "plain.so"), (&bad, "extra-pointer.so")]);
    let run = |arguments: &[&str]| kpackfs(place.path(), arguments);
    run(&["split", "fat", "-o", "out"]);
    let archive = "out/gfx90a/.kpack/rocm_gfx90a.kpack";
    // Errors name this file.
    fs::write(place.path().join(FORGED), "no archive").unwrap();
    let calls: [&[&str]; 8] = [
        &["inspect", "fat"],
        &["inspect", "--markdown", "fat"],
        &["inspect", FORGED],
        &["kpack", "list", archive],
        &["kpack", "list", FORGED],
        &["verify", "out"],
        &["verify", FORGED],
        &["split", "fat", "-o", "again", "--group", FORGED],
    ];
    for call in calls {
        let said = said(&run(call));
        assert!(said.contains("FORGED"), "{call:?}: {said}");
        assert!(!said.contains('\u{1b}') && !said.lines().any(|line| line.starts_with("FORGED")), "{call:?}: {said}");
    }
}

#[test]
fn a_status_and_a_log_forge_no_lines() {
    let name = format!("{FORGED}.so");
    let place = tree(&[(&name, "plain.so")]);
    let Some(mount) = Mount::new(place.path(), &["--log-file", "log"]) else { return };
    // The library is longer than before. Reading it is ESTALE, and the log says so.
    let library = place.path().join("fat/lib").join(&name);
    OpenOptions::new().append(true).open(library).unwrap().write_all(b"more").unwrap();
    assert!(fs::read(mount.0.join("host/lib").join(&name)).is_err());
    for text in
        [said(&kpackfs(place.path(), &["status", "mount"])), fs::read_to_string(place.path().join("log")).unwrap()]
    {
        assert!(text.contains("FORGED") && !text.contains('\u{1b}'), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("FORGED")), "{text}");
    }
}

#[test]
fn status_says_that_the_input_has_changed() {
    let place = tree(&[("libx.so", "plain.so"), ("liby.so", "mixed.so")]);
    let Some(mount) = Mount::new(place.path(), &[]) else { return };
    let status = || said(&kpackfs(place.path(), &["status", "mount"]));
    let json = || -> serde_json::Value {
        serde_json::from_str(&said(&kpackfs(place.path(), &["status", "--json", "mount"]))).unwrap()
    };
    assert!(!status().contains("has changed"));
    assert_eq!(json()["changed"], serde_json::Value::Null);
    let other = place.path().join("other");
    fs::copy("tests/fixtures/plain.so", &other).unwrap();
    fs::rename(&other, place.path().join("fat/lib/liby.so")).unwrap();
    // The input is not looked at again for some seconds if a look at it takes long, as on a busy machine.
    wait_until("it is seen", || status().contains("lib/liby.so has changed since it was mounted: "));
    assert_eq!(json()["changed"], "lib/liby.so");
    fs::remove_file(place.path().join("fat/lib/libx.so")).unwrap();
    wait_until("the first one is named", || json()["changed"] == "lib/libx.so");
    drop(mount);
}

#[test]
fn status_says_that_a_wheel_has_changed() {
    let place = tempfile::tempdir().unwrap();
    let wheel = place.path().join("torch-2.10.0+rocm7.1-cp312-cp312-linux_x86_64.whl");
    torch_wheel(&wheel);
    symlink(&wheel, place.path().join("fat")).unwrap();
    let Some(mount) = Mount::new(place.path(), &[]) else { return };
    let status = || said(&kpackfs(place.path(), &["status", "mount"]));
    // Bytes that were read before are cached, so reading them proves nothing.
    fs::read(mount.0.join("host/torch/__init__.py")).ok();
    assert!(!status().contains("has changed"), "{}", status());
    OpenOptions::new().append(true).open(&wheel).unwrap().write_all(b"more").unwrap();
    wait_until("it is seen", || status().contains("has changed since it was mounted: "));
}

/// `FILESYSTEM_MAX_STACK_DEPTH` is 2: a mount with passthrough counts as one level, and each overlayfs as one more.
#[test]
fn without_passthrough_an_overlay_may_lie_upon_another() {
    let place = tree(&[("libx.so", "plain.so")]);
    // The file is large enough for passthrough.
    fs::write(place.path().join("fat/large"), vec![7; 8 << 20]).unwrap();
    let overlay = |name: &str, lower: &Path| {
        let at = |part: &str| place.path().join(format!("{name}-{part}"));
        for part in ["upper", "work", "merged"] {
            fs::create_dir_all(at(part)).unwrap();
        }
        let layers = [("lowerdir", lower.to_owned()), ("upperdir", at("upper")), ("workdir", at("work"))];
        let layers = layers.map(|(option, path)| format!("{option}={}", path.display())).join(",");
        let options = ["-t", "overlay", "overlay", "-o", &layers];
        let mounted = Command::new("mount").args(options).arg(at("merged")).output().unwrap();
        mounted.status.success().then(|| at("merged"))
    };
    let umount = |path: &Path| assert!(Command::new("umount").arg("--lazy").arg(path).status().unwrap().success());
    let Some(mount) = Mount::new(place.path(), &["--no-passthrough"]) else { return };
    fs::read(mount.0.join("host/large")).unwrap();
    let status = said(&kpackfs(place.path(), &["status", "--json", "mount"]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["counters"]["passthrough_opens"], 0);
    let Some(first) = overlay("first", &mount.0.join("host")) else {
        return skipped("no overlayfs here; stacking was NOT tried");
    };
    let second = overlay("second", &first);
    let read = second.as_ref().map(|second| fs::read(second.join("large")).unwrap());
    if let Some(second) = &second {
        umount(second);
    }
    umount(&first);
    assert!(read.is_some_and(|bytes| bytes == vec![7; 8 << 20]), "an overlay upon the overlay");
}

#[test]
fn a_log_file_is_no_fifo() {
    let place = tree(&[("libx.so", "plain.so")]);
    fs::create_dir(place.path().join("mount")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path().join("fifo")).status().unwrap().success());
    let mut command = Command::new("timeout");
    command.args(["300", env!("CARGO_BIN_EXE_kpackfs"), "mount", "fat", "mount", "--log-file", "fifo"]);
    let output = command.current_dir(place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--log-file fifo: it is a FIFO"), "{}", said(&output));
}

#[test]
fn little_address_space_is_an_error() {
    let place = tree(&[("libx.so", "compressed.so")]);
    let (mut refused, mut done) = (0, 0);
    for (number, kilobytes) in [60_000, 100_000, 180_000, 250_000, 400_000, 600_000, 1_200_000].into_iter().enumerate()
    {
        for command in ["inspect fat", &format!("split fat -o out{number}"), "verify fat --memory 64"] {
            let limited = format!("ulimit -v {kilobytes}; exec {} {command}", env!("CARGO_BIN_EXE_kpackfs"));
            let output = Command::new("sh").args(["-c", &limited]).current_dir(place.path()).output().unwrap();
            let text = said(&output);
            match output.status.code() {
                Some(0) => done += 1,
                // The tree is fat.
                Some(2) if text.contains("nothing there was split: 1 file, 1 binary") => done += 1,
                Some(1 | 2) if text.contains("the address space is limited to") => refused += 1,
                code => panic!("{kilobytes} KB, {command}: {code:?}, {text}"),
            }
        }
    }
    assert!(refused > 8 && done > 3, "{refused} refused, {done} done");
}

#[test]
fn without_a_home_nothing_is_kept() {
    let place = tree(&[("libx.so", "plain.so")]);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.args(arguments).current_dir(place.path());
        for variable in ["HOME", "XDG_CACHE_HOME", "KPACKFS_CACHE_DIR"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    };
    assert!(run(&["inspect", "fat"]).status.success());
    for command in [&["index", "fat"][..], &["cache", "list"]] {
        let output = run(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(said(&output).lines().count() == 1 && said(&output).contains("cache"), "{}", said(&output));
    }
}

#[test]
fn deep_trees_have_short_messages() {
    let place = tempfile::tempdir().unwrap();
    // Deeper than any path can name.
    let dig = "import os\nos.mkdir('fat'); os.chdir('fat')\nfor i in range(3000): os.mkdir('deep'); os.chdir('deep')";
    let dug = Command::new("python3").args(["-c", dig]).current_dir(place.path()).output();
    if !dug.is_ok_and(|output| output.status.success()) {
        return skipped("there is no python3; deep trees were NOT tried");
    }
    fs::create_dir(place.path().join("mount")).unwrap();
    let commands =
        [&["inspect", "fat"][..], &["split", "fat", "-o", "out"], &["verify", "fat"], &["mount", "fat", "mount"]];
    for arguments in commands {
        let output = kpackfs(place.path(), arguments);
        let text = said(&output);
        let is_named = text.contains("/fat/deep/deep") && text.contains("File name too long");
        assert!(is_named || text.contains("/dev/fuse"), "{arguments:?}: {text}");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
        assert!(text.contains('…') || !is_named, "{text}");
        assert!(text.len() < 1000 && text.lines().count() <= 2, "{arguments:?}: {} bytes", text.len());
    }
    let removed = Command::new("rm").arg("-rf").arg(place.path().join("fat")).status().unwrap();
    assert!(removed.success());
}

#[test]
fn what_vanishes_meanwhile_is_passed_over() {
    let place = tree(&[("libx.so", "plain.so")]);
    let (is_done, directory) = (AtomicBool::new(false), place.path().join("fat/busy"));
    fs::create_dir(&directory).unwrap();
    thread::scope(|scope| {
        for maker in 0..2 {
            let (is_done, directory) = (&is_done, &directory);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    for number in 0..50 {
                        let below = directory.join(format!("{maker}-{number}"));
                        fs::create_dir(&below).unwrap();
                        symlink("nowhere", below.join("link")).unwrap();
                        fs::write(below.join("file"), "").unwrap();
                    }
                    for number in 0..50 {
                        fs::remove_dir_all(directory.join(format!("{maker}-{number}"))).unwrap();
                    }
                }
            });
        }
        let outputs: Vec<_> = (0..30).map(|_| kpackfs(place.path(), &["inspect", "fat"])).collect();
        is_done.store(true, Ordering::Relaxed);
        for output in outputs {
            assert!(output.status.success(), "{}", said(&output));
        }
    });
}

#[test]
fn the_mount_helper_has_help() {
    let place = tempfile::tempdir().unwrap();
    let helper = place.path().join("mount.kpackfs");
    symlink(env!("CARGO_BIN_EXE_kpackfs"), &helper).unwrap();
    for option in ["--help", "-h"] {
        let output = Command::new(&helper).arg(option).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        assert!(said(&output).starts_with("Usage: mount.kpackfs INPUT DIRECTORY"), "{}", said(&output));
    }
}
