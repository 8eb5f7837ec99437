//! Faults of the input.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kpackfs::fs::PassthroughChoice;
use kpackfs::mount::{MountOptions, Mounted, Served, mount};
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, ReadError, copy_from};
use kpackfs::source::{Attributes, EntryPath};
use kpackfs::tree::{Body, NodeKind, ROOT, Tree};

use crate::common::mounts::{Mount, noise, of_each_input, tree, wheel};
use crate::common::{assert_same, can_mount, errno, transport};

const DEFLATED: &str = "host/demo/deflated.txt";
const STORED: &str = "host/demo/stored.bin";

/// An offset after everything that was read before the fault, including readahead.
const FAR: u64 = 2_500_000;

/// The files that a fault happens to.
fn victims(input: &Path) -> Vec<PathBuf> {
    if input.is_file() {
        return vec![input.to_owned()];
    }
    ["deflated.txt", "stored.bin"].map(|name| input.join("demo").join(name)).to_vec()
}

/// Mounts both kinds of input, reads the beginning of two files, calls `fault` on the input, and then `check`.
fn after(fault: fn(&Path), check: fn(&mut Mount, bool)) {
    of_each_input(|input| {
        let Some(mut mount) = Mount::new(input, &[]) else { return };
        assert_eq!(mount.read(DEFLATED, 0, 1000).unwrap(), noise(1000, 1));
        assert_eq!(mount.read(STORED, 0, 1000).unwrap(), noise(1000, 2));
        for victim in victims(input) {
            fault(&victim);
        }
        check(&mut mount, input.is_file());
        assert_eq!(errno(fs::metadata(mount.at("host/demo/small.txt"))), 0, "it lives on");
        mount.is_at_rest();
        mount.end();
    });
}

/// Both files are stale, and the log names what has changed: the wheel, or the files of a tree.
fn are_stale(mount: &mut Mount, is_wheel: bool) {
    for name in [DEFLATED, STORED] {
        assert_eq!(errno(mount.read(name, FAR, 100_000)), libc::ESTALE, "{name}");
        let changed = if is_wheel { ".whl" } else { name.strip_prefix("host/").unwrap() };
        let log = mount.log();
        assert!(
            log.lines().any(|line| line.contains(&format!("{changed}: "))
                && line.contains("changed since it was opened; unmount and mount it again")),
            "{log}"
        );
    }
    // In a tree, other files are not affected.
    let other = mount.read("host/demo/small.txt", 0, 5);
    assert_eq!(errno(other), if is_wheel { libc::ESTALE } else { 0 });
}

#[test]
fn a_truncated_input_is_stale() {
    let truncate = |victim: &Path| OpenOptions::new().write(true).open(victim).unwrap().set_len(1000).unwrap();
    after(truncate, are_stale);
}

#[test]
fn an_emptied_input_is_stale() {
    after(|victim| fs::write(victim, "").unwrap(), are_stale);
}

#[test]
fn an_input_changed_in_place_is_stale() {
    let change = |victim: &Path| {
        let file = OpenOptions::new().write(true).open(victim).unwrap();
        file.write_all_at(b"wrong", 1_000_000).unwrap();
    };
    after(change, are_stale);
}

#[test]
fn a_longer_input_is_stale() {
    let append = |victim: &Path| {
        let file = OpenOptions::new().append(true).open(victim).unwrap();
        file.write_at(b"more", 0).unwrap();
    };
    after(append, are_stale);
}

/// A file that is made when it is asked for is stale as well, and not damaged.
#[test]
fn what_is_made_of_a_changed_input_is_stale() {
    of_each_input(|input| {
        let Some(mut mount) = Mount::new(input, &[]) else { return };
        let victim = if input.is_file() { input.to_owned() } else { input.join("demo/lib/plain.so") };
        OpenOptions::new().append(true).open(victim).unwrap().write_at(b"more", 0).unwrap();
        let made = ["thin/gfx90a/demo-1.0.dist-info/RECORD", "thin-wheels/gfx90a/demo-1.0-py3-none-any.whl"];
        // What is inflated of a small member stays in memory.
        let binaries = ["host", "merged/gfx90a", "thin/gfx90a"].map(|view| format!("{view}/demo/lib/plain.so"));
        let binaries = binaries.iter().filter(|_| input.is_dir());
        for name in made.into_iter().chain(binaries.map(String::as_str)) {
            assert_eq!(errno(mount.read(name, 0, 1000)), libc::ESTALE, "{name}: {}", mount.log());
        }
        mount.is_at_rest();
        mount.end();
    });
}

/// All bytes of both files are unchanged.
fn are_exact(mount: &mut Mount, _: bool) {
    assert_eq!(mount.read(DEFLATED, 0, 3_500_000).unwrap(), noise(3_500_000, 1));
    assert_eq!(mount.read(STORED, 0, 3_000_000).unwrap(), noise(3_000_000, 2));
}

#[test]
fn a_replaced_input_is_read_as_it_was() {
    let replace = |victim: &Path| {
        let other = victim.with_extension("other");
        fs::write(&other, "another file").unwrap();
        fs::rename(other, victim).unwrap();
    };
    after(replace, are_exact);
}

#[test]
fn a_deleted_input_is_read_as_it_was() {
    after(|victim| fs::remove_file(victim).unwrap(), are_exact);
}

/// Files that are not open when the fault happens can no longer be read.
#[test]
fn files_of_a_tree_that_nobody_has_opened_are_stale() {
    type Fault = fn(&Path);
    let faults: [Fault; 3] = [
        |victim| fs::remove_file(victim).unwrap(),
        |victim| {
            fs::write(victim.with_extension("other"), fs::read(victim).unwrap()).unwrap();
            fs::rename(victim.with_extension("other"), victim).unwrap();
        },
        |victim| fs::rename(victim.parent().unwrap(), victim.ancestors().nth(2).unwrap().join("moved")).unwrap(),
    ];
    for fault in faults {
        let place = tempfile::tempdir().unwrap();
        let input = tree(place.path());
        let Some(mut mount) = Mount::indexed(&input, &place.path().join("cache")) else { return };
        fault(&input.join("demo/deflated.txt"));
        assert_eq!(errno(mount.read(DEFLATED, 0, 1000)), libc::ESTALE, "{}", mount.log());
        assert!(mount.log().contains("demo/deflated.txt"));
        mount.is_at_rest();
        mount.end();
    }
}

/// A file that returns errors on demand.
#[derive(Debug)]
struct Faulty {
    bytes: Vec<u8>,
    fails: Arc<AtomicBool>,
}

impl Content for Faulty {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ReadError::damaged(&"disk".into(), "on purpose"));
        }
        copy_from(&self.bytes, offset, buffer)
    }
}

/// A filesystem with one file, which returns EIO on demand.
fn faulty_disk(name: &str, bytes: Vec<u8>, place: &Path, fails: &Arc<AtomicBool>) -> Mounted {
    let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 1_600_000_000, mtime_nanoseconds: 0 };
    let mut tree = Tree::new(attributes);
    let content = Faulty { bytes, fails: Arc::clone(fails) };
    let kind = NodeKind::File { body: Body::Ready(Arc::new(content)), link_group: None };
    tree.insert(ROOT, &EntryPath::new(name.as_bytes()).unwrap(), attributes, kind).unwrap();
    let options = MountOptions {
        mount_point: place.to_owned(),
        source: "/disk".into(),
        allow_other: false,
        no_exec: false,
        passthrough: PassthroughChoice::Auto,
        transport: transport(),
    };
    mount(&options, Served { tree: Arc::new(tree), resources: Resources::new(0), total_bytes: 0 }).unwrap()
}

#[test]
fn an_input_on_a_failing_disk_gives_errors_until_the_disk_works_again() {
    let place = tempfile::tempdir().unwrap();
    let names = ["demo-1.0-py3-none-any.whl", "demo/deflated.txt"];
    let packed = wheel(place.path());
    let plain = tree(place.path()).join(names[1]);
    for (name, file, at) in [(names[0], packed, names[0]), (names[1], plain, "")] {
        let disk = tempfile::tempdir().unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        if !can_mount() {
            return;
        }
        let mounted = faulty_disk(name, fs::read(file).unwrap(), disk.path(), &fails);
        let Some(mut mount) = Mount::new(&disk.path().join(at), &[]) else { return };
        assert_eq!(mount.read(DEFLATED, 0, 1000).unwrap(), noise(1000, 1));
        fails.store(true, Ordering::SeqCst);
        // Pages of the disk that the kernel has cached do not fail.
        for _ in 0..2 {
            assert_eq!(errno(mount.read(DEFLATED, FAR, 500_000)), libc::EIO, "{}", mount.log());
        }
        let log = mount.log();
        assert!(log.lines().any(|line| line.contains("demo/deflated.txt") && line.contains("os error 5")), "{log}");
        fails.store(false, Ordering::SeqCst);
        assert_eq!(mount.read(DEFLATED, 0, 3_500_000).unwrap(), noise(3_500_000, 1));
        mount.is_at_rest();
        mount.end();
        mounted.unmounter.unmount(true).unwrap();
        mounted.wait().unwrap();
    }
}

#[test]
fn one_damaged_member_does_not_concern_others() {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path());
    let mut bytes = fs::read(&input).unwrap();
    let name = b"demo/deflated.txt";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + name.len() + 1_500_000..][..100].fill(0);
    fs::write(&input, bytes).unwrap();
    let Some(mut mount) = Mount::new(&input, &[]) else { return };
    assert_eq!(errno(mount.read(DEFLATED, 0, 3_500_000)), libc::EIO);
    assert!(mount.log().contains("demo/deflated.txt"), "{}", mount.log());
    assert_eq!(mount.read(STORED, 0, 3_000_000).unwrap(), noise(3_000_000, 2));
    let healthy = mount.survey(&["gfx90a", "merged/gfx90a/demo/lib"]);
    assert_same(&healthy, &mount.survey(&["gfx90a", "merged/gfx90a/demo/lib"]), "survey");
    assert!(!healthy.is_empty());
    mount.is_at_rest();
    mount.end();
}
