//! Inode numbers are stable: a backup program or an NFS client may use a number from an earlier mount.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::paths_below;
use crate::mount::mounts::{Mount, fat};

/// The inode number of everything that is listed, by path.
fn numbers(root: &Path) -> BTreeMap<PathBuf, u64> {
    let number = |path: PathBuf| (root.join(&path).symlink_metadata().unwrap().ino(), path);
    let below = paths_below(root).into_iter().chain([PathBuf::new()]);
    below.map(number).map(|(number, path)| (path, number)).collect()
}

#[test]
fn inode_numbers_are_the_same_in_every_mount() {
    let fat = fat();
    let cache = tempfile::tempdir().unwrap();
    let cached = ["--cache-dir", cache.path().to_str().unwrap()];
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let expected = numbers(mount.path());
    assert!(expected.len() > 100);
    drop(mount);
    for options in [&["-j", "1"][..], &["-j", "4", "--memory", "16"], &cached, &cached] {
        let mount = Mount::new(fat.path(), options).unwrap();
        assert_eq!(numbers(mount.path()), expected, "{options:?}");
    }
    // The order of lookups does not matter either.
    let mount = Mount::new(fat.path(), &[]).unwrap();
    for (path, number) in expected.iter().rev() {
        assert_eq!(mount.at(path).symlink_metadata().unwrap().ino(), *number, "{path:?}");
    }
    drop(mount);
    // Nodes that `--arch` adds have new numbers. All other numbers stay.
    let mount = Mount::new(fat.path(), &["--arch", "gfx90a"]).unwrap();
    let with_arch = numbers(mount.path());
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
        with_arch.into_iter().partition(|(path, _)| expected.contains_key(path));
    assert_eq!(old, expected);
    let largest = expected.values().max().unwrap();
    assert!(!new.is_empty() && new.values().all(|number| number > largest), "{new:?}");
}

#[test]
fn extended_attributes_name_entries_of_the_input() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let attribute = |path: &str, name: &str| {
        let mut buffer = [0; 4096];
        let length = rustix::fs::getxattr(mount.at(path), format!("user.kpackfs.{name}"), &mut buffer[..]).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    for (path, kind, origin) in [
        ("host/share/notes", "unchanged", Some("share/notes")),
        ("host/lib/plain.so", "rewritten", Some("lib/plain.so")),
        ("merged/gfx90a/lib/plain.so", "rewritten", Some("lib/plain.so")),
        ("gfx90a/share/miopen/db/gfx90a68.db.txt", "database", Some("share/miopen/db/gfx90a68.db.txt")),
        ("gfx90a/share", "unchanged", Some("share")),
        ("gfx90a/.kpack/rocm_gfx90a.kpack", "archive", None),
        ("merged/gfx90a/.kpack/rocm_gfx90a.kpack", "archive", None),
        ("merged", "made", None),
        (".kpackfs/status.json", "report", None),
    ] {
        assert_eq!(attribute(path, "kind").as_deref(), Some(kind), "{path}");
        assert_eq!(attribute(path, "origin").as_deref(), origin, "{path}");
        assert_eq!(attribute(path, "sha256"), None, "{path}: a tree states no digests");
    }
}
