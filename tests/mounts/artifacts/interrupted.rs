//! Splits that are interrupted or killed: files that existed before stay, and no incomplete file has a final name.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::artifacts::place::{Place, set};

const SPLIT: [&str; 5] = ["split", "tree", "-o", "out", "--force"];
const PARTS: [&str; 3] = ["host", "gfx1030", "gfx90a"];

/// A tree that takes a while to write.
fn place() -> Place {
    let place = Place::new();
    for number in 0..40 {
        place.fixture(&format!("tree/lib/lib{number}.so"), "plain.so");
    }
    for number in 0..2000 {
        place.file(&format!("tree/share/{number}"), "data");
    }
    place
}

/// Puts old parts into the output.
fn put_old(place: &Place) {
    for part in PARTS {
        fs::remove_dir_all(place.at("out").join(part)).ok();
        place.file(&format!("out/{part}/old"), part);
    }
}

fn start(place: &Place) -> Child {
    // A background job of a shell ignores SIGINT, and so do its children.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP", env!("CARGO_BIN_EXE_kpackfs")]);
    command.args(SPLIT).current_dir(place.at("")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn hidden(place: &Place) -> Vec<String> {
    place.names("out").into_iter().filter(|name| name.starts_with(".kpackfs-")).collect()
}

/// Files below a directory that is being written or removed.
fn count(directory: &std::path::Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

/// Starts a split, and sends a signal as soon as `files` files are written. Returns whether the signal ended it.
fn interrupt(place: &Place, files: usize, signal: Signal) -> bool {
    let mut child = start(place);
    let is_reached = |place: &Place| hidden(place).iter().any(|name| count(&place.at("out").join(name)) >= files);
    while child.try_wait().unwrap().is_none() && !is_reached(place) {}
    kill_process(Pid::from_child(&child), signal).ok();
    child.wait().unwrap().signal() == Some(signal.as_raw())
}

/// Checks that each part is either the old or the new one.
fn check(place: &Place, new: &[BTreeSet<String>]) {
    for (part, new) in PARTS.iter().zip(new) {
        let found = place.files(&format!("out/{part}"));
        assert!(found == set(["old"]) || found == *new, "{part}: {} files", found.len());
    }
}

#[test]
fn a_split_that_is_interrupted_or_killed_leaves_whole_parts() {
    let place = place();
    place.succeeds(&["split", "tree", "-o", "expected"]);
    let new = PARTS.map(|part| place.files(&format!("expected/{part}")));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let mut ended = 0;
        for files in [0, 1, 100, 1000, 2000, 2041] {
            put_old(&place);
            ended += usize::from(interrupt(&place, files, signal));
            check(&place, &new);
            assert!(signal == Signal::KILL || hidden(&place).is_empty(), "{signal:?} after {files}");
        }
        assert!(ended > 2, "{signal:?} ended {ended} splits");
    }
    // The next run removes what the interrupted one left, and its output is complete.
    place.succeeds(&SPLIT);
    assert_eq!(place.names("out"), PARTS.map(str::to_owned).into());
    assert_eq!(PARTS.map(|part| place.files(&format!("out/{part}"))), new);
    place.succeeds(&["verify", "out", "--against", "tree"]);
}
