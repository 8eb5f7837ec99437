//! Modification times: unchanged files have those of the input, and files that are made a time that depends on the input and
//! the options.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{is_made, now, paths_below, wait_until};
use crate::mount::mounts::{Entry, Mount, fat};

/// Everything that `stat` says, except about the filesystem.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    number: u64,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
    change: (i64, i64),
    is_made: bool,
}

/// The attributes of everything that is listed, by path.
fn stats(mount: &Mount) -> BTreeMap<PathBuf, Stat> {
    let stat = |path: PathBuf| {
        let place = mount.at(&path);
        let it = place.symlink_metadata().unwrap();
        let stat = Stat {
            number: it.ino(),
            mode: it.mode(),
            owner: (it.uid(), it.gid()),
            links: it.nlink(),
            size: it.size(),
            seconds: it.mtime(),
            nanoseconds: it.mtime_nsec(),
            change: (it.ctime(), it.ctime_nsec()),
            is_made: it.is_file() && is_made(&place),
        };
        (path, stat)
    };
    paths_below(mount.path()).into_iter().map(stat).collect()
}

/// Compares a view of a mount with what `split` has written since the second `since`: files that are made have the time of
/// writing there, and everything else is equal.
#[track_caller]
pub(crate) fn same_but_for_times(
    (view, shown): (&Path, BTreeMap<PathBuf, Entry>),
    mut written: BTreeMap<PathBuf, Entry>,
    since: i64,
) {
    for (path, entry) in &shown {
        let place = view.join(path);
        if place.symlink_metadata().unwrap().is_file() && is_made(&place) {
            let time = &mut written.get_mut(path).unwrap().1;
            assert!((since..=now()).contains(time), "{}: {time}", path.display());
            *time = entry.1;
        }
    }
    crate::mount::mounts::same(&shown, &written);
}

#[test]
fn equal_mounts_are_equal_whenever_they_are_made() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let expected = stats(&mount);
    drop(mount);
    let begun = now();
    wait_until("the next second", || now() > begun);
    for options in [&[][..], &["-j", "1", "--memory", "16"]] {
        let mount = Mount::new(fat.path(), options).unwrap();
        assert_eq!(stats(&mount), expected, "{options:?}");
    }
}

#[test]
fn mounts_that_may_differ_have_other_seconds() {
    let fat = fat();
    let old = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for entry in fs::read_dir(fat.path().join("lib")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
    }
    let options: [&[&str]; 7] = [
        &[],
        &["--compression", "none"],
        &["--compression-level", "9"],
        &["--gpu-targets", "gfx90a"],
        &["--gpu-targets", "gfx90a,gfx1030"],
        &["--no-manifest"],
        &["--arch", "gfx90a"],
    ];
    let Some(first) = Mount::new(fat.path(), options[0]) else { return };
    let mut mounts = vec![("as it was".to_owned(), stats(&first))];
    drop(first);
    for options in &options[1..] {
        mounts.push((format!("{options:?}"), stats(&Mount::new(fat.path(), options).unwrap())));
    }
    fs::write(fat.path().join("share/further"), "notes").unwrap();
    mounts.push(("a changed input".to_owned(), stats(&Mount::new(fat.path(), &[]).unwrap())));
    let binary = Path::new("host/lib/plain.so");
    let seconds: BTreeSet<_> = mounts.iter().map(|(_, stats)| stats[binary].seconds).collect();
    assert_eq!(seconds.len(), mounts.len(), "{seconds:?}");
    for (name, stats) in &mounts {
        let newest = now();
        for (path, stat) in stats {
            let place = format!("{name}: {}", path.display());
            assert_eq!((stat.seconds, stat.nanoseconds), stat.change, "{place}");
            assert!(stat.seconds <= newest, "{place}");
            if stat.is_made {
                assert_eq!((stat.seconds, stat.nanoseconds), (stats[binary].seconds, 0), "{place}");
            } else if let Ok(below) = path.strip_prefix("host") {
                // Directories of archives are not of the input.
                let of_input = fat.path().join(below).symlink_metadata().ok().filter(fs::Metadata::is_file);
                assert!(of_input.is_none_or(|it| it.mtime() == stat.seconds), "{place}");
            }
        }
    }
    let made = mounts[0].1.iter().filter(|(_, stat)| stat.is_made).map(|(path, _)| path.as_path());
    let made: BTreeSet<_> = made.collect();
    for path in [
        "host/bin/exe-pie",
        "gfx90a/.kpack/rocm_gfx90a.kpack",
        "thin/gfx90a/lib/plain.so",
        "merged/gfx90a/lib/plain.so",
    ] {
        assert!(made.contains(Path::new(path)), "{path}: {made:?}");
    }
    assert!(!made.contains(Path::new("host/lib/host-only.so")) && !made.contains(Path::new("thin/gfx90a/share/notes")));
}
