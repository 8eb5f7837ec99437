//! Mounts a tree with every kind of node, and examines it with the standard library and with real tools.

mod changes;
mod directory_readahead;
mod lifecycle;
mod model;
mod mounts;
mod opening;
mod semantics;
mod waiting;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use crate::common::{errno, paths_below, skipped};
use kpackfs::mount::list_mounts;
use mounts::{BIG_SIZE, MADE_SIZE, Mount, SOURCE, output, pattern, run};

/// Every path below `root` with what a copy must keep: kind and permissions, time, content.
fn survey(root: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let keep = |path: PathBuf| {
        let place = root.join(&path);
        let metadata = place.symlink_metadata().unwrap();
        let content = if metadata.is_symlink() {
            place.read_link().unwrap().as_os_str().as_bytes().to_vec()
        } else if metadata.is_dir() {
            Vec::new()
        } else {
            let content = fs::read(&place).unwrap();
            assert_eq!(content.len() as u64, metadata.size(), "{}", place.display());
            content
        };
        (path, (metadata.mode(), metadata.mtime(), content))
    };
    paths_below(root).into_iter().map(keep).collect()
}

#[test]
fn the_standard_library_sees_what_the_tree_holds() {
    let Some(mount) = Mount::new() else { return };
    assert_eq!(fs::read(mount.at("host/lib/small.txt")).unwrap(), b"hello");
    assert_eq!(fs::read(mount.at("host/lib/link.txt")).unwrap(), b"hello");
    assert_eq!(fs::read(mount.at("host/lib/empty")).unwrap(), b"");
    assert_eq!(fs::read(mount.at("host/lib/big.bin")).unwrap(), pattern(BIG_SIZE));
    assert_eq!(fs::read(mount.at("host").join(OsStr::from_bytes(&[b'n'; 255]))).unwrap(), b"long");
    assert_eq!(fs::read(mount.at("host").join(OsStr::from_bytes(b"\xff\xfe"))).unwrap(), b"odd");

    let metadata = mount.at("host/lib/big.bin").metadata().unwrap();
    assert_eq!((metadata.size(), metadata.blocks(), metadata.blksize()), (3_000_001, 5860, 131_072));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_600_000_000, 123_456_789));
    assert_eq!((metadata.mode(), metadata.nlink()), (0o100_644, 1));
    let (one, two) = (mount.at("host/lib/one").metadata().unwrap(), mount.at("host/two").metadata().unwrap());
    assert_eq!((one.ino(), one.nlink(), two.nlink()), (two.ino(), 2, 2));
    assert_eq!(mount.at("host").metadata().unwrap().nlink(), 4);

    let names: Vec<_> = fs::read_dir(mount.place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["gfx942", "host", "many", "odd"]);
    assert_eq!(errno(fs::metadata(mount.at("host/nothing"))), libc::ENOENT);
    assert_eq!(errno(fs::metadata(mount.at("host/two/x"))), libc::ENOTDIR);
    let place = mount.place.path().canonicalize().unwrap();
    let entry = list_mounts().unwrap().into_iter().find(|entry| entry.mount_point == place).unwrap();
    assert_eq!(entry.source, SOURCE);
    let df = run("df", [&"--output=size,used,avail", &"-B1", &mount.place.path()]);
    assert_eq!(df.split_whitespace().skip(3).collect::<Vec<_>>(), ["10002432", "10002432", "0"]);
}

#[test]
fn reads_at_and_past_the_end_are_short() {
    let Some(mount) = Mount::new() else { return };
    let expected = pattern(BIG_SIZE);
    for flags in [0, libc::O_DIRECT] {
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(mount.at("host/lib/big.bin")).unwrap();
        let mut buffer = vec![0; 2 << 20];
        for offset in [0, 1, 4096, 1_000_000, 2_999_000, BIG_SIZE, 5_000_000, 1 << 50] {
            let mut filled = 0;
            loop {
                let read = file.read_at(&mut buffer[filled..], (offset + filled) as u64).unwrap();
                filled += read;
                if read == 0 {
                    break;
                }
            }
            let rest = expected.get(offset..).unwrap_or_default();
            assert!(buffer[..filled] == rest[..rest.len().min(buffer.len())], "{filled} bytes at {offset}");
        }
        assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 3_000_000);
    }
}

#[test]
fn listing_makes_nothing_and_stat_makes_once() {
    let Some(mount) = Mount::new() else { return };
    let find = || run("find", [&mount.at("gfx942"), &"-name", &"*.kpack"]);
    assert!(find().contains("kernels.kpack"));
    assert_eq!(run("ls", [&"-f", &mount.at("gfx942/.kpack")]).split_whitespace().count(), 4);
    assert_eq!(mount.made(), 0);
    // `find` calls statfs.
    assert_eq!(mount.fewest_requests(|| drop(find())), 1, "a second listing costs no request but STATFS");
    for _ in 0..2 {
        assert!(run("ls", [&"-l", &mount.at("gfx942/.kpack")]).contains(&MADE_SIZE.to_string()));
        assert_eq!(mount.made(), 1);
    }
    assert_eq!(fs::read(mount.at("gfx942/.kpack/kernels.kpack")).unwrap(), pattern(MADE_SIZE));
    assert_eq!(mount.made(), 1);
}

#[test]
fn a_made_file_can_be_the_first_thing_that_is_asked_for() {
    let Some(mount) = Mount::new() else { return };
    let place = mount.at("gfx942/.kpack/kernels.kpack");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(fs::read(&place).unwrap(), pattern(MADE_SIZE)));
        }
    });
    assert_eq!(mount.made(), 1);
    assert_eq!(fs::read_dir(mount.at("gfx942/.kpack")).unwrap().count(), 2);
}

#[test]
fn long_listings_are_complete_and_cheap() {
    let Some(mount) = Mount::new() else { return };
    let listed = |arguments: [&str; 1]| run("ls", [&arguments[0], &mount.at("many")]).lines().count();
    let plain = mount.requests(|| assert_eq!(listed(["-1"]), 3000));
    let long = mount.requests(|| assert_eq!(listed(["-l"]), 3001));
    eprintln!("3000 files: ls {plain} requests, ls -l then {long}");
    assert!(plain < 40 && long < 3000, "{plain} {long}");
    // `ls -l` asks once for security labels, and once for access control lists.
    assert!(mount.fewest_requests(|| assert_eq!(listed(["-l"]), 3001)) <= 2);
}

#[test]
fn a_report_is_written_anew_when_its_name_is_looked_up() {
    let Some(mount) = Mount::new() else { return };
    let place = mount.at(".kpackfs/status");
    let written = |text: &str| text.split('\n').next().unwrap().to_owned();
    let mut file = File::open(&place).unwrap();
    // Reads in pieces, between which the kernel could send requests again.
    let mut text = vec![0; 8192];
    for piece in text.chunks_mut(100) {
        file.read_exact(piece).unwrap();
    }
    assert_eq!(written(std::str::from_utf8(&text).unwrap()), "opened 1 times");
    for time in 2..6 {
        let text = fs::read_to_string(&place).unwrap();
        assert_eq!((written(&text), text.len()), (format!("opened {time} times"), 8192));
    }
    let times: Vec<_> = (0..3).map(|_| place.metadata().unwrap().modified().unwrap()).collect();
    assert!(times.is_sorted() && times[0] < times[2], "{times:?}");
    assert_eq!(run("cat", [&place]).len(), 8192);
    assert_eq!(file.read_at(&mut [0; 10], 8187).unwrap(), 5);
    assert_eq!(file.read_at(&mut [0; 10], 9000).unwrap(), 0);
    assert!(mount.requests(|| assert!(place.metadata().unwrap().is_file())) > 0, "its attributes are not cached");
}

#[test]
fn damage_and_panics_are_errors_of_one_file() {
    let Some(mount) = Mount::new() else { return };
    for _ in 0..20 {
        assert_eq!(errno(fs::read(mount.at("odd/panics"))), libc::EIO);
        assert_eq!(errno(fs::read(mount.at("odd/damaged"))), libc::EIO);
    }
    assert_eq!(errno(fs::metadata(mount.at("odd/made/bad"))), libc::EIO);
    let names: Vec<_> = fs::read_dir(mount.at("odd/made")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["bad"]);
    assert_eq!(errno(fs::metadata(mount.at("odd/made/bad"))), libc::EIO);
    assert_eq!(fs::read(mount.at("host/lib/small.txt")).unwrap(), b"hello");
}

#[test]
fn tools_copy_the_tree_exactly() {
    let Some(mount) = Mount::new() else { return };
    for view in ["host", "gfx942"] {
        let copies = tempfile::tempdir().unwrap();
        let at = |name: &str| copies.path().join(name);
        let expected = survey(&mount.at(view));
        run("cp", [&"-a", &mount.at(view), &at("cp")]);
        assert_eq!(survey(&at("cp")), expected, "cp");
        run("tar", [&"-C", &mount.place.path(), &"-cf", &at("archive"), &view]);
        run("tar", [&"-C", &copies.path(), &"-xf", &at("archive")]);
        assert_eq!(survey(&at(view)), expected, "tar");
        if output("sh", [&"-c", &"command -v rsync"]).status.success() {
            run("rsync", [&"-aHX", &mount.at(view).join("."), &at("rsync")]);
            assert_eq!(survey(&at("rsync")), expected, "rsync");
        } else {
            skipped("no rsync");
        }
        if view == "host" {
            assert!(["cp", view].iter().all(|copy| at(copy).join("two").metadata().unwrap().nlink() == 2));
        }
        run("diff", [&"-r", &mount.at(view), &at(view)]);
    }
}

#[test]
fn nothing_is_asked_twice() {
    let Some(mount) = Mount::new() else { return };
    let visit = || {
        run("find", [&mount.at("host"), &"-printf", &"%s %l\n"]);
        fs::metadata(mount.at("host/nothing")).unwrap_err();
        fs::read_link(mount.at("host/lib/link.txt")).unwrap();
    };
    let first = mount.requests(visit);
    // `find` calls statfs.
    assert_eq!(mount.fewest_requests(visit), 1, "nothing but STATFS");
    let read = || drop(fs::read(mount.at("host/lib/big.bin")).unwrap());
    let cold = mount.requests(read);
    let warm = mount.fewest_requests(read);
    eprintln!("find of 9 files in 3 directories: {first} requests; 3 MB cold: {cold}, warm: {warm}");
    assert_eq!(warm, 0);
}
