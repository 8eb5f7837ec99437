//! A mount that starts right after another one of the same input ended uses what that one found out.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::common::mounts::{bounded, wheel};
use crate::common::{can_mount, run, wait_until};

/// Mounts with a daemon, calls `work`, and unmounts without waiting for the daemon. `None` if this machine cannot
/// mount. What `work` has opened can still be open in a program that another thread starts.
fn mounted<T>(input: &Path, cache: &Path, work: impl FnOnce(&Path) -> T) -> Option<T> {
    if !can_mount() {
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let mut mount = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    mount.arg("mount").arg("--cache-dir").arg(cache).arg(input).arg(place.path());
    bounded("mounting", move || run(&mut mount));
    let result = work(place.path());
    run(Command::new("umount").arg("--lazy").arg(place.path()));
    Some(result)
}

fn counter(place: &Path, name: &str) -> u64 {
    let status: Value = serde_json::from_slice(&fs::read(place.join(".kpackfs/status.json")).unwrap()).unwrap();
    status.pointer(&format!("/counters/{name}")).and_then(Value::as_u64).unwrap()
}

/// Asks for the sizes of archives, for which frames are compressed.
fn list(place: &Path) {
    run(Command::new("ls").arg("-lR").arg(place.join("gfx90a")));
}

#[test]
fn twenty_mounts_directly_after_umount_are_warm() {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path());
    for number in 0..20 {
        let cache = place.path().join(number.to_string());
        let Some(inflated) = mounted(&input, &cache, |place| {
            list(place);
            counter(place, "bytes_inflated")
        }) else {
            return;
        };
        let work = mounted(&input, &cache, |place| {
            list(place);
            ["bytes_inflated", "bytes_decompressed", "frames_made"].map(|name| counter(place, name))
        });
        let [again, decompressed, frames] = work.unwrap();
        // The dist-info is read by each mount.
        assert!(inflated > 50_000 && again < 10_000, "{number}: {inflated} bytes inflated, then {again}");
        assert_eq!((decompressed, frames), (0, 0), "{number}");
    }
}

#[test]
fn a_second_mount_is_served_while_the_first_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let (input, cache) = (wheel(place.path()), place.path().join("cache"));
    mounted(&input, &cache, |first| {
        list(first);
        mounted(&input, &cache, list);
    });
}

/// The files of `/proc` about each process.
fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path())
}

/// The daemon that serves `place`.
fn daemon(place: &Path) -> String {
    let serves = |process: &PathBuf| {
        fs::read(process.join("cmdline"))
            .is_ok_and(|line| line.split(|&byte| byte == 0).any(|word| word == place.as_os_str().as_bytes()))
    };
    processes().filter(serves).find_map(|process| Some(process.file_name()?.to_str()?.to_owned())).unwrap()
}

/// How many processes have opened the mark that there is something to save.
fn with_mark(cache: &Path) -> usize {
    let is_mark = |file: &PathBuf| file.starts_with(cache) && file.extension().is_some_and(|it| it == "saving");
    let has_mark = |process: &PathBuf| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.flat_map(|file| fs::read_link(file.path())).any(|file| is_mark(&file))
    };
    processes().filter(has_mark).count()
}

/// The old daemon is stopped until the next mount waits for it, so it saves late.
#[test]
fn a_mount_waits_for_one_that_is_still_saving() {
    if !can_mount() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (input, cache) = (wheel(place.path()), place.path().join("cache"));
    let first = tempfile::tempdir().unwrap();
    let mut mount = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    run(mount.arg("mount").arg("--cache-dir").arg(&cache).arg(&input).arg(first.path()));
    let stopped = daemon(first.path());
    run(Command::new("kill").args(["-STOP", &stopped]));
    run(Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(["umount", "--lazy"]).arg(first.path()));
    let is_over = AtomicBool::new(false);
    let inflated = thread::scope(|scope| {
        scope.spawn(|| {
            // Before it was stopped, a slow machine may have given it the time to save.
            wait_until("both have the mark", || with_mark(&cache) == 2 || is_over.load(Ordering::Relaxed));
            run(Command::new("kill").args(["-CONT", &stopped]));
        });
        let inflated = mounted(&input, &cache, |place| counter(place, "bytes_inflated"));
        is_over.store(true, Ordering::Relaxed);
        inflated
    });
    assert!(inflated.is_some_and(|inflated| inflated < 10_000), "{inflated:?}");
}
