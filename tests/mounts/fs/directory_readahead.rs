//! Small files that are read one after the other: few of them are requested, and all have the right bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::metrics::RequestKind;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Materialize, ReadError, Rope, Segment};
use kpackfs::source::EntryPath;
use kpackfs::tree::{Body, NodeKind, Origin, OriginKind, ROOT, Tree};

use super::mounts::{DIRECTORY, FILE, Mount, in_one_of_some_tries, pattern};
use crate::common::wait_until;

const FILES: usize = 200;

/// A different size for each file: some are empty, some are just small, some are not small.
fn size(number: usize) -> usize {
    match number % 50 {
        20 => 0,
        30 => 512 << 10,
        40 => (512 << 10) + 1,
        rest => 1 + rest * 1000,
    }
}

fn of_small_files() -> Option<Mount> {
    let mut tree = Tree::new(DIRECTORY);
    for number in 0..FILES {
        insert(&mut tree, &name(number), pattern(size(number)), OriginKind::Database);
    }
    Mount::of(tree, &Resources::new(1 << 20))
}

fn insert(tree: &mut Tree, path: &str, bytes: Vec<u8>, origin: OriginKind) {
    let path = EntryPath::new(path.as_bytes()).unwrap();
    let rope = Rope::new([Segment::literal(bytes)]).unwrap();
    let kind = NodeKind::File { body: Body::Ready(Arc::new(rope)), link_group: None };
    let node = tree.insert(ROOT, &path, FILE, kind).unwrap();
    tree.set_origin(node, Origin::of(origin, &path));
}

fn name(number: usize) -> String {
    format!("many/file_{number:03}")
}

fn read(place: &Path, number: usize) {
    assert!(fs::read(place.join(name(number))).unwrap() == pattern(size(number)), "{number}");
}

fn list(mount: &Mount) {
    let found: Vec<PathBuf> = fs::read_dir(mount.at("many")).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The kernel keeps pushed bytes only for files that it knows. So each file is looked up.
    assert_eq!(found.iter().filter(|place| place.symlink_metadata().is_ok()).count(), FILES);
}

#[test]
fn those_that_come_next_are_given_before_they_are_asked_for() {
    in_one_of_some_tries(|| {
        let mount = of_small_files()?;
        Some(asked_for_two_of_those_that_come_next(&mount))
    });
}

/// Whether the kernel asks for one of the files 2 to 9, which are given to it, and for one of the files 10 to 25.
fn asked_for_two_of_those_that_come_next(mount: &Mount) -> bool {
    let place = mount.place.path();
    list(mount);
    let given = || mount.resources.counters.files_given.get();
    read(place, 0);
    read(place, 1);
    // Eight from the third on, but for the one which tells how far the reader has come.
    wait_until("the first files are given", || given() == 7);
    let reads = mount.of_kind(RequestKind::Read);
    (2..10).for_each(|number| read(place, number));
    let first = mount.of_kind(RequestKind::Read) - reads;
    // That one had the next sixteen given, all but one of which have bytes.
    wait_until("the next files are given", || given() == 21);
    let reads = mount.of_kind(RequestKind::Read);
    (10..26).for_each(|number| read(place, number));
    let next = mount.of_kind(RequestKind::Read) - reads;
    (0..FILES).for_each(|number| read(place, number));
    (first, next) == (1, 1)
}

/// Directories of five files each, as those of a Python package.
fn of_small_directories() -> Option<Mount> {
    let mut tree = Tree::new(DIRECTORY);
    for directory in 0..20 {
        for file in 0..5 {
            let bytes = pattern(1000 * directory + file + 1);
            insert(&mut tree, &format!("{directory:02}/{file}"), bytes, OriginKind::Unchanged);
        }
    }
    Mount::of(tree, &Resources::new(1 << 20))
}

#[test]
fn who_reads_from_listed_directories_is_given_the_files_of_the_next_one() {
    in_one_of_some_tries(|| Some(asked_for_one_file_of_each_directory(&of_small_directories()?)));
}

fn asked_for_one_file_of_each_directory(mount: &Mount) -> bool {
    let given = || mount.resources.counters.files_given.get();
    let list = |directory: usize| fs::read_dir(mount.at(format!("{directory:02}"))).unwrap().count();
    let read = |directory: usize, file: usize| {
        let bytes = fs::read(mount.at(format!("{directory:02}/{file}"))).unwrap();
        assert!(bytes == pattern(1000 * directory + file + 1), "{directory}/{file}");
    };
    assert_eq!((list(0), list(1)), (5, 5));
    read(1, 0);
    let reads = mount.of_kind(RequestKind::Read);
    for directory in 2..20 {
        list(directory);
        let all = 4 * (directory as u64 - 1);
        wait_until("all files but the first are given", || given() >= all);
        (0..5).for_each(|file| read(directory, file));
    }
    mount.of_kind(RequestKind::Read) - reads == 18
}

#[test]
fn who_lists_only_is_given_the_files_of_one_directory() {
    in_one_of_some_tries(|| Some(asked_for_no_file_of_one_directory(&of_small_directories()?)));
}

fn asked_for_no_file_of_one_directory(mount: &Mount) -> bool {
    fs::read_dir(mount.at("00")).unwrap().count();
    fs::read(mount.at("00/0")).unwrap();
    for directory in 1..20 {
        fs::read_dir(mount.at(format!("{directory:02}"))).unwrap().count();
    }
    let counters = &mount.resources.counters;
    wait_until("the files of the first are given", || counters.files_given.get() == 4);
    let asked = |directory: usize| {
        let reads = mount.of_kind(RequestKind::Read);
        (1..5).for_each(|file| drop(fs::read(mount.at(format!("{directory:02}/{file}"))).unwrap()));
        mount.of_kind(RequestKind::Read) - reads
    };
    assert_eq!(mount.of_kind(RequestKind::Read), 1);
    let of_first = asked(1);
    assert!((2..20).all(|directory| asked(directory) > 0));
    of_first == 0
}

#[test]
fn one_file_of_a_directory_that_was_listed_is_no_order() {
    let Some(mount) = of_small_directories() else { return };
    for directory in (0..20).step_by(2) {
        // One directory is listed right after a read, and the other is not.
        for listed in [directory + 1, directory] {
            fs::read_dir(mount.at(format!("{listed:02}"))).unwrap().count();
        }
        let reads = mount.of_kind(RequestKind::Read);
        for file in [1, 3] {
            fs::read(mount.at(format!("{directory:02}/{file}"))).unwrap();
        }
        assert_eq!(mount.of_kind(RequestKind::Read) - reads, 2);
    }
}

/// For example, reading archives in advance would compress each of them.
#[test]
fn what_is_made_of_others_is_not_given() {
    let mut tree = Tree::new(DIRECTORY);
    for number in 0..40 {
        let origin = [OriginKind::Archive, OriginKind::Wheel, OriginKind::Rewritten, OriginKind::Made][number % 4];
        insert(&mut tree, &name(number), pattern(size(number)), origin);
    }
    let Some(mount) = Mount::of(tree, &Resources::new(1 << 20)) else { return };
    fs::read_dir(mount.at("many")).unwrap().count();
    let place = mount.place.path();
    (0..40).for_each(|number| read(place, number));
    assert_eq!(mount.resources.counters.files_given.get(), 0);
}

/// Where sizes are unknown, a long listing returns attributes only for its first names. The kernel accepts no bytes of
/// files whose attributes it does not know.
#[test]
fn only_files_that_the_kernel_knows_are_read_for_it() {
    let mut tree = Tree::new(DIRECTORY);
    let name = |number: usize| format!("long/{number:03}{}", "x".repeat(200));
    for number in 0..500 {
        insert(&mut tree, &name(number), pattern(1000), OriginKind::Unchanged);
    }
    let never: Arc<dyn Materialize> = Arc::new(Never);
    let kind = NodeKind::File { body: Body::Made(never), link_group: None };
    tree.insert(ROOT, &EntryPath::new(b"of/unknown/size").unwrap(), FILE, kind).unwrap();
    let Some(mount) = Mount::of(tree, &Resources::new(1 << 20)) else { return };
    assert_eq!(fs::read_dir(mount.at("long")).unwrap().count(), 500);
    (400..500).for_each(|number| assert!(fs::read(mount.at(name(number))).unwrap() == pattern(1000)));
    assert_eq!(mount.of_kind(RequestKind::Read), 100);
    assert_eq!(mount.resources.counters.files_given.get(), 0);
}

/// Content whose size is never asked for.
#[derive(Debug)]
struct Never;

impl Materialize for Never {
    fn made(&self) -> Option<Arc<dyn Content>> {
        None
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        unreachable!("nobody asks for it")
    }
}

#[test]
fn readers_that_jump_get_what_they_ask_for_only() {
    let Some(mount) = of_small_files() else { return };
    let place = mount.place.path();
    list(&mount);
    (0..FILES).rev().for_each(|number| read(place, number));
    assert_eq!(mount.resources.counters.files_given.get(), 0);
}

#[test]
fn readers_beside_each_other_see_the_same() {
    let Some(mount) = of_small_files() else { return };
    let place = mount.place.path();
    list(&mount);
    std::thread::scope(|scope| {
        for start in [0, 0, 30, 100] {
            scope.spawn(move || (start..FILES).for_each(|number| read(place, number)));
        }
    });
}
