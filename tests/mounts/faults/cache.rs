//! Faults of the cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::common::mounts::{Mount, SmallDisk, Tmpfs, wheel};
use crate::common::{assert_same, run, skipped};

const VIEWS: [&str; 3] = ["host", "gfx90a", "wheels"];

fn options(folder: &Path) -> [&str; 2] {
    ["--cache-dir", folder.to_str().unwrap()]
}

/// Reads everything with a cache folder in some state, before and while something happens to it, and compares.
fn reads_right(folder: &Path, while_mounted: impl FnOnce()) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path());
    let expected = Mount::new(&input, &["--no-cache"])?.survey(&VIEWS);
    let mount = Mount::new(&input, &options(folder))?;
    while_mounted();
    assert_same(&mount.survey(&VIEWS), &expected, "survey");
    let log = mount.end();
    // The next mount uses the folder in its present state.
    let mount = Mount::new(&input, &options(folder))?;
    assert_same(&mount.survey(&VIEWS), &expected, "survey");
    mount.end();
    Some(log)
}

fn indexes(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "index")).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// The files that hold compressed code objects.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let inputs = fs::read_dir(folder.join("frames")).unwrap().map(|entry| entry.unwrap().path());
    inputs.flat_map(|input| files(&input)).collect()
}

#[test]
fn a_full_cache_folder_costs_nothing_but_the_index() {
    let Some(tmpfs) = Tmpfs::new("size=64k") else { return };
    let folder = tmpfs.0.path();
    // Fills the disk up to its last page.
    fs::write(folder.join("ballast"), vec![0; 65 << 10]).unwrap_err();
    let Some(log) = reads_right(folder, || ()) else { return };
    assert!(log.contains("cannot be saved") && log.contains("No space left"), "{log}");
    assert!(indexes(folder).is_empty());
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing half written stays");
}

#[test]
fn what_cannot_be_written_is_named_as_the_user_named_it() {
    let place = tempfile::tempdir().unwrap();
    wheel(place.path());
    let kpackfs = |typed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        let output =
            command.args(typed.split(' ')).env("KPACKFS_CACHE_DIR", "").current_dir(place.path()).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    kpackfs("split demo-1.0-py3-none-any.whl -o parts");
    let archive = "parts/gfx90a/demo/.kpack/demo_gfx90a.kpack";
    for (options, reason, remedy) in [
        ("size=4k", "No space left on device", "free some space, or write to another disk"),
        ("size=1m,ro", "Read-only file system", "write to another place"),
    ] {
        let Some(tmpfs) = Tmpfs::new(options) else { return };
        std::os::unix::fs::symlink(tmpfs.0.path(), place.path().join("disk")).unwrap();
        for command in [
            "split demo-1.0-py3-none-any.whl -o disk/out",
            "split demo-1.0-py3-none-any.whl --format wheel -o disk",
            "kpack extract -o disk",
        ] {
            let typed = if command.starts_with("kpack") { format!("{command} {archive}") } else { command.to_owned() };
            let said = kpackfs(&typed);
            let line = said.lines().find(|line| line.contains(reason)).unwrap_or_else(|| panic!("{typed}: {said}"));
            assert!(line.contains("disk") && line.ends_with(remedy) && !line.contains(".kpackfs-"), "{typed}: {line}");
        }
        let left = fs::read_dir(tmpfs.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(
            left.filter_map(|name| name.into_string().ok()).all(|name| !name.starts_with(".kpackfs-")),
            "{options}"
        );
        fs::remove_file(place.path().join("disk")).unwrap();
    }
}

#[test]
fn a_read_only_cache_folder_costs_nothing_but_the_index() {
    let Some(tmpfs) = Tmpfs::new("size=1m,ro") else { return };
    let Some(log) = reads_right(&tmpfs.0.path().join("cache"), || ()) else { return };
    assert!(log.contains("cannot be saved") && log.contains("Read-only file system"), "{log}");
}

#[test]
fn a_deleted_cache_folder_is_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("cache");
    fs::create_dir(&folder).unwrap();
    if reads_right(&folder, || fs::remove_dir_all(&folder).unwrap()).is_some() {
        assert_eq!(indexes(&folder).len(), 1);
    }
}

#[test]
fn a_cache_folder_that_is_a_file_costs_nothing_but_the_index() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("cache");
    fs::write(&folder, "a file").unwrap();
    let Some(log) = reads_right(&folder, || ()) else { return };
    assert!(log.contains("cannot be saved"), "{log}");
    assert_eq!(fs::read(&folder).unwrap(), b"a file");
}

#[test]
fn a_corrupted_index_is_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (wheel(place.path()), place.path().join("cache"));
    let Some(mount) = Mount::new(&input, &options(&folder)) else { return };
    let expected = mount.survey(&VIEWS);
    mount.end();
    let index = indexes(&folder).pop().unwrap();
    let healthy = fs::read(&index).unwrap();
    let half = healthy.len() / 2;
    let flipped = |at: usize| {
        let mut bytes = healthy.clone();
        bytes[at] ^= 1;
        bytes
    };
    for damaged in [flipped(0), flipped(9), flipped(half), flipped(healthy.len() - 1), healthy[..half].to_vec(), vec![]]
    {
        fs::write(&index, damaged).unwrap();
        let mount = Mount::new(&input, &options(&folder)).unwrap();
        assert_same(&mount.survey(&VIEWS), &expected, "survey");
        mount.end();
        assert!(fs::read(&index).unwrap().len() > healthy.len() / 2, "it is made anew");
    }
}

#[test]
fn two_daemons_share_a_cache_folder() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (wheel(place.path()), place.path().join("cache"));
    let Some(first) = Mount::new(&input, &options(&folder)) else { return };
    let second = Mount::new(&input, &options(&folder)).unwrap();
    let [one, other] = thread::scope(|scope| {
        [&first, &second].map(|mount| scope.spawn(|| mount.survey(&VIEWS))).map(|survey| survey.join().unwrap())
    });
    assert_same(&one, &other, "survey");
    first.end();
    second.end();
    assert_eq!(indexes(&folder).len(), 1);
    let mut complete = indexes(&folder);
    complete.insert(0, folder.join("CACHEDIR.TAG"));
    assert_eq!(files(&folder), complete, "nothing half written stays");
    assert_eq!(segments(&folder).len(), 1, "the frames of both sessions were merged");
    let listed =
        run(Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(["cache", "list"]).env("KPACKFS_CACHE_DIR", &folder));
    assert!(listed.contains("demo-1.0"), "{listed}");
    let third = Mount::new(&input, &options(&folder)).unwrap();
    for (name, bytes) in &one {
        assert_eq!(third.at(name).metadata().unwrap().len(), bytes.len() as u64, "{}", name.display());
    }
    assert_same(&third.survey(&VIEWS), &one, "survey");
    assert_eq!(third.status()["counters"]["frames_made"], 0, "all frames were there");
}

/// Segments of earlier sessions, in every state that a crash or a disk can leave them in.
#[test]
fn damaged_frames_are_made_again() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (wheel(place.path()), place.path().join("cache"));
    let Some(mount) = Mount::new(&input, &options(&folder)) else { return };
    let expected = mount.survey(&VIEWS);
    let made = mount.status()["counters"]["frames_made"].as_u64().unwrap();
    mount.end();
    let healthy = fs::read(&segments(&folder)[0]).unwrap();
    let half = healthy.len() / 2;
    let flipped = |at: usize| {
        let mut bytes = healthy.clone();
        bytes[at] ^= 1;
        bytes
    };
    let states = [Vec::new(), healthy[..half].to_vec(), flipped(5), flipped(half), flipped(healthy.len() - 1)];
    for (number, damaged) in states.into_iter().enumerate() {
        let path = segments(&folder).remove(0);
        for other in segments(&folder) {
            fs::remove_file(other).unwrap();
        }
        fs::write(&path, damaged).unwrap();
        let mount = Mount::new(&input, &options(&folder)).unwrap();
        assert_same(&mount.survey(&VIEWS), &expected, "survey");
        let again = mount.status()["counters"]["frames_made"].as_u64().unwrap();
        assert!((1..=made).contains(&again), "state {number}: {again}");
        mount.end();
    }
}

/// The frames are deleted or truncated while a session reads them.
#[test]
fn frames_that_are_deleted_or_truncated_under_a_mount_are_read_or_made_again() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (wheel(place.path()), place.path().join("cache"));
    let Some(mount) = Mount::new(&input, &options(&folder)) else { return };
    let expected = mount.survey(&VIEWS);
    mount.end();
    for truncate in [true, false] {
        let mount = Mount::new(&input, &options(&folder)).unwrap();
        let sizes: Vec<_> = expected.keys().map(|name| mount.at(name).metadata().unwrap().len()).collect();
        assert!(sizes.iter().sum::<u64>() > 0);
        for path in segments(&folder) {
            if truncate {
                fs::File::options().write(true).open(path).unwrap().set_len(100).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        assert_same(&mount.survey(&VIEWS), &expected, "survey");
        mount.end();
    }
}

/// The state after kill -9, and what the next session finds.
#[test]
fn a_killed_session_leaves_frames_that_are_right() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (wheel(place.path()), place.path().join("cache"));
    let Some(mount) = Mount::new(&input, &options(&folder)) else { return };
    let expected = mount.survey(&VIEWS);
    mount.kill();
    let mount = Mount::new(&input, &options(&folder)).unwrap();
    assert_same(&mount.survey(&VIEWS), &expected, "survey");
    assert_eq!(mount.status()["counters"]["frames_made"], 0);
}

/// A disk that gets full while frames are appended, and a directory in memory, where no frames are stored.
#[test]
fn without_room_for_frames_everything_is_read_all_the_same() {
    let Some(tmpfs) = Tmpfs::new("size=1m") else { return };
    let folder = tmpfs.0.path().join("cache");
    if reads_right(&folder, || ()).is_some() {
        assert!(!folder.join("frames").exists(), "tmpfs is memory");
    }
    let Some(disk) = SmallDisk::new() else { return };
    let folder = disk.path().join("cache");
    reads_right(&folder, || {
        // Fills all but a few pages.
        let mut ballast = fs::File::create(disk.path().join("ballast")).unwrap();
        while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
        let left = ballast.metadata().unwrap().len() - (24 << 10);
        ballast.set_len(left).unwrap();
    });
}

/// A part of a slow suite: `scripts/check-disk` without `--only` and `--every` tries all system calls.
#[test]
fn killed_runs_locks_and_other_users_do_no_harm_on_disk() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return skipped("there is no strace; NOTHING was checked");
    }
    let only = ["kill-index", "kill-publish", "users"].map(|case| ["--only", case]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/check-disk");
    let mut command = Command::new(script);
    run(command.args(only.as_flattened()).args(["--every", "20"]).env("KPACKFS", env!("CARGO_BIN_EXE_kpackfs")));
}
