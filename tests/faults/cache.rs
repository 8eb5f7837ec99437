//! Faults of the folder in which is kept what was learnt about inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::support::{Mount, Tmpfs, assert_same, run, wheel};

const VIEWS: [&str; 3] = ["host", "gfx90a", "wheels"];

fn options(folder: &Path) -> [&str; 2] {
    ["--cache-dir", folder.to_str().unwrap()]
}

/// Reads everything with a cache folder in some state, while and before something happens to it, and compares.
fn reads_right(folder: &Path, while_mounted: impl FnOnce()) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path());
    let expected = Mount::new(&input, &["--no-cache"])?.survey(&VIEWS);
    let mount = Mount::new(&input, &options(folder))?;
    while_mounted();
    assert_same(&mount.survey(&VIEWS), &expected);
    let log = mount.end();
    // What is there now, or is not, serves the next mount.
    let mount = Mount::new(&input, &options(folder))?;
    assert_same(&mount.survey(&VIEWS), &expected);
    mount.end();
    Some(log)
}

fn indexes(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "index")).collect()
}

#[test]
fn a_full_cache_folder_costs_nothing_but_what_is_learnt() {
    let Some(tmpfs) = Tmpfs::new("size=64k") else { return };
    let folder = tmpfs.0.path();
    // Up to the last page.
    fs::write(folder.join("ballast"), vec![0; 65 << 10]).unwrap_err();
    let Some(log) = reads_right(folder, || ()) else { return };
    assert!(log.contains("cannot be kept") && log.contains("No space left"), "{log}");
    assert!(indexes(folder).is_empty());
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing half written stays");
}

#[test]
fn a_read_only_cache_folder_costs_nothing_but_what_is_learnt() {
    let Some(tmpfs) = Tmpfs::new("size=1m,ro") else { return };
    let Some(log) = reads_right(&tmpfs.0.path().join("cache"), || ()) else { return };
    assert!(log.contains("cannot be kept") && log.contains("Read-only file system"), "{log}");
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
fn a_cache_folder_that_is_a_file_costs_nothing_but_what_is_learnt() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("cache");
    fs::write(&folder, "a file").unwrap();
    let Some(log) = reads_right(&folder, || ()) else { return };
    assert!(log.contains("cannot be kept"), "{log}");
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
        assert_same(&mount.survey(&VIEWS), &expected);
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
    assert_same(&one, &other);
    first.end();
    second.end();
    assert_eq!(indexes(&folder).len(), 1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing half written stays");
    let listed =
        run(Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(["cache", "list"]).env("KPACKFS_CACHE_DIR", &folder));
    assert!(listed.contains("demo-1.0"), "{listed}");
    let third = Mount::new(&input, &options(&folder)).unwrap();
    for (name, bytes) in &one {
        assert_eq!(third.at(name).metadata().unwrap().len(), bytes.len() as u64, "{}", name.display());
    }
    assert_eq!(third.status()["counters"]["frames_made"], 0, "all lengths were known");
    assert_same(&third.survey(&VIEWS), &one);
}
