//! Commands that are interrupted, killed or refused a large file: files that existed before stay, and no incomplete file has a
//! final name.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::artifacts::place::{Place, set};
use crate::artifacts::recombine::split_shards;
use crate::common::mounts::wheel;

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

fn start(place: &Place, arguments: &[&str]) -> Child {
    // A background job of a shell ignores SIGINT, and so do its children.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP", env!("CARGO_BIN_EXE_kpackfs")]);
    command.args(arguments).current_dir(place.at("")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
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
    let mut child = start(place, &SPLIT);
    let is_reached = |place: &Place| hidden(place).iter().any(|name| count(&place.at("out").join(name)) >= files);
    while child.try_wait().unwrap().is_none() && !is_reached(place) {
        std::thread::yield_now();
    }
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
            // The split may be complete before the signal comes.
            ended += usize::from((0..3).any(|_| {
                put_old(&place);
                let is_ended = interrupt(&place, files, signal);
                check(&place, &new);
                assert!(signal == Signal::KILL || hidden(&place).is_empty(), "{signal:?} after {files}");
                is_ended
            }));
        }
        assert!(ended > 2, "{signal:?} ended {ended} splits");
    }
    // The next run removes what the interrupted one left, and its output is complete.
    place.succeeds(&SPLIT);
    assert_eq!(place.names("out"), PARTS.map(str::to_owned).into());
    assert_eq!(PARTS.map(|part| place.files(&format!("out/{part}"))), new);
    place.succeeds(&["verify", "out", "--against", "tree"]);
}

/// A command that writes to `out`, and a place with what it reads.
type Writer = (&'static [&'static str], fn() -> Place);

const WRITERS: [Writer; 6] = [
    (&["split", "tree", "-o", "out"], place),
    (&["split", "demo-1.0-py3-none-any.whl", "--format", "index", "-o", "out"], || {
        let place = Place::new();
        wheel(&place.at(""));
        place
    }),
    (&["collect", "tree/lib", "--from", "tree", "--gpu-targets", "gfx90a", "-o", "out"], place),
    (&["kpack", "extract", "tree_gfx90a.kpack", "-o", "out/"], archive),
    (&["kpack", "create", "code", "-o", "out"], || {
        let place = archive();
        place.succeeds(&["kpack", "extract", "tree_gfx90a.kpack", "-o", "code/"]);
        place
    }),
    (&["recombine", "config.json", "shards", "-o", "out"], || {
        let place = split_shards();
        for number in 0..1000 {
            place.file(&format!("shards/a/x_lib_generic/stage/share/{number}"), [b'x'; 10_000]);
        }
        place
    }),
];

/// A tree, and an archive with so much of its code that writing it takes a while.
fn archive() -> Place {
    let place = Place::new();
    for number in 0..600 {
        place.fixture(&format!("tree/lib/lib{number}.so"), "plain.so");
    }
    place.succeeds(&["split", "tree", "-o", "parts", "--group", "tree"]);
    fs::rename(place.at("parts/gfx90a/.kpack/tree_gfx90a.kpack"), place.at("tree_gfx90a.kpack")).unwrap();
    place
}

/// The files that a command has written.
fn written(place: &Place) -> BTreeSet<String> {
    if place.at("out").exists() { place.files("out") } else { BTreeSet::new() }
}

/// Whether a command is writing.
fn is_writing(place: &Place) -> bool {
    let names = |directory: &str| fs::read_dir(place.at(directory)).into_iter().flatten().flatten();
    names("").chain(names("out")).any(|entry| entry.file_name().as_encoded_bytes().starts_with(b".kpackfs-"))
}

#[test]
fn every_command_that_writes_leaves_all_or_nothing() {
    let mut interrupted = 0;
    for (arguments, input) in WRITERS {
        let place = input();
        place.run(arguments);
        let whole = written(&place);
        let removed = || fs::remove_dir_all(place.at("out")).is_ok();
        assert!(removed() && !whole.is_empty(), "{arguments:?}");
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            // Small output may be complete before the signal comes.
            let is_ended = (0..5).any(|_| {
                let mut child = start(&place, arguments);
                while child.try_wait().unwrap().is_none() && !is_writing(&place) {
                    std::thread::yield_now();
                }
                kill_process(Pid::from_child(&child), signal).ok();
                let is_ended = child.wait().unwrap().signal() == Some(signal.as_raw());
                assert!(!is_writing(&place), "{arguments:?}, {signal:?}");
                let left = written(&place);
                assert!(left.is_empty() || left == whole, "{arguments:?}, {signal:?}: {left:?}");
                removed();
                is_ended
            });
            interrupted += usize::from(is_ended);
        }
        // The kernel sends SIGXFSZ to a process that writes more.
        let limited = "ulimit -f 8; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_kpackfs")]).args(arguments);
        let output = command.current_dir(place.at("")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code().is_some_and(|code| code != 0), "{arguments:?}: {said}");
        assert!(said.contains("File too large"), "{arguments:?}: {said}");
        assert!(!is_writing(&place) && written(&place).is_empty(), "{arguments:?}: {said}");
    }
    assert!(interrupted >= WRITERS.len(), "{interrupted} of {} were interrupted", 3 * WRITERS.len());
}
