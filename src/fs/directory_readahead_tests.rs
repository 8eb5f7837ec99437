//! Which files are pushed to the kernel's page cache, and which are dropped from it, without a mount.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustix::io::Errno;

use super::super::filesystem::tests::{
    ATTRIBUTES, CountedWork, LONG, file, filesystem, lookup, path, read, reply, rope, wheel,
};
use super::super::filesystem::{Filesystem, PageCache};
use super::super::listing::NamesAndAttributes;
use super::super::nodes::NodeAttributes;
use crate::source::testing::{TestMember, packed};
use crate::tree::{Body, NodeId, Origin, OriginKind, ROOT, Tree};

/// A page cache that records which files were stored.
#[derive(Debug, Default)]
struct Pages {
    stored: Mutex<Vec<(NodeId, Vec<u8>)>>,
    forgotten: Mutex<Vec<NodeId>>,
}

impl PageCache for Arc<Pages> {
    fn store(&self, node: NodeId, bytes: &[u8]) -> bool {
        self.stored.lock().unwrap().push((node, bytes.to_vec()));
        true
    }

    fn forget(&self, node: NodeId) {
        self.forgotten.lock().unwrap().push(node);
    }
}

/// A reply with unlimited room.
#[derive(Default)]
struct All(Vec<NodeId>);

impl NamesAndAttributes for All {
    fn add(&mut self, _: u64, _: &[u8], found: &NodeAttributes) -> bool {
        self.0.push(found.number);
        false
    }
}

/// Directories `a` and `b` of small files. In `a` the 30th file is too large to be pushed, and the 31st has to be made.
struct Directories {
    fs: Arc<Filesystem>,
    pages: Arc<Pages>,
    a: Vec<NodeId>,
    b: Vec<NodeId>,
}

const NONE: [NodeId; 0] = [];
const LARGE: usize = 30;
const MADE: usize = 31;

fn directories() -> Directories {
    let mut tree = Tree::new(ATTRIBUTES);
    for directory in ["a", "b"] {
        for number in 0..40 {
            let body = match (directory, number) {
                ("a", LARGE) => Body::Ready(rope(&vec![7; 600 << 10])),
                ("a", MADE) => Body::Made(Arc::<CountedWork>::default()),
                _ => Body::Ready(rope(format!("{directory}{number}").as_bytes())),
            };
            let path = path(&format!("{directory}/{number:02}"));
            let id = tree.insert(ROOT, &path, ATTRIBUTES, file(body)).unwrap();
            tree.set_origin(id, Origin::of(OriginKind::Unchanged, &path));
        }
    }
    let (fs, pages) = (filesystem(tree), Arc::<Pages>::default());
    fs.set_page_cache(Box::new(Arc::clone(&pages)));
    let numbers = |name: &[u8]| {
        let directory = fs.nodes.lookup(ROOT, name).unwrap();
        fs.nodes.children(directory, 0).map(|(_, child)| child.node).collect()
    };
    let (a, b) = (numbers(b"a"), numbers(b"b"));
    Directories { fs, pages, a, b }
}

impl Directories {
    /// Lists a directory as the kernel does, until no more names are returned.
    fn list(&self, directory: &[u8]) {
        let directory = self.fs.nodes.lookup(ROOT, directory).unwrap();
        self.fs.readdirplus(directory, 0, All::default(), |page, _| assert_eq!(page.0.len(), 42));
        self.fs.readdirplus(directory, 42, All::default(), |page, _| assert_eq!(page.0, NONE));
    }

    /// Reads a file, and returns the files that were pushed afterwards, in order.
    fn read(&self, node: NodeId) -> Vec<NodeId> {
        read(&self.fs, node, 0, 4096).unwrap();
        self.pushed()
    }

    fn pushed(&self) -> Vec<NodeId> {
        let deadline = Instant::now() + LONG;
        while !self.fs.directory_readahead.is_idle() {
            assert!(Instant::now() < deadline, "something is pushed for ever");
            thread::yield_now();
        }
        let stored = std::mem::take(&mut *self.pages.stored.lock().unwrap());
        for (node, bytes) in &stored {
            assert_eq!(read(&self.fs, *node, 1, 1000).unwrap(), bytes[1..], "all bytes of the file");
        }
        stored.into_iter().map(|(node, _)| node).collect()
    }
}

#[test]
fn files_that_come_next_are_pushed_once_two_were_read_in_order() {
    let all = directories();
    all.list(b"a");
    assert_eq!(all.read(all.a[0]), NONE);
    // The last one first, and one is left for the kernel to ask for.
    let first: Vec<_> = [9, 7, 6, 5, 4, 3, 2].map(|position| all.a[position]).into();
    assert_eq!(all.read(all.a[1]), first);
    assert_eq!(all.fs.resources.counters.files_given.get(), 7);
    // The kernel does not ask for pushed files. Its request for the one that was left out causes a push of twice as
    // many.
    let next: Vec<_> = (10..26).rev().filter(|position| *position != 22).map(|position| all.a[position]).collect();
    assert_eq!(all.read(all.a[8]), next);
    // Large files and files that have to be made are left out.
    let last: Vec<_> = (26..40).rev().filter(|position| ![LARGE, MADE].contains(position)).collect();
    assert_eq!(all.read(all.a[22]), last.into_iter().map(|position| all.a[position]).collect::<Vec<_>>());
}

#[test]
fn nothing_is_pushed_for_other_orders_nor_what_the_kernel_does_not_know() {
    let all = directories();
    all.list(b"a");
    for position in [0, 10, 5, 20, 15] {
        assert_eq!(all.read(all.a[position]), NONE, "no order");
    }
    assert_eq!(all.read(all.b[0]), NONE);
    assert_eq!(all.read(all.b[1]), NONE, "it was not listed");
    let all = directories();
    all.list(b"a");
    all.fs.directory_readahead.turn_off();
    assert_eq!([all.read(all.a[0]), all.read(all.a[1])].concat(), NONE, "files are passed through");
}

#[test]
fn listing_the_next_directory_pushes_its_first_files() {
    let all = directories();
    all.list(b"b");
    assert_eq!(all.pushed(), NONE, "nothing was read before");
    all.list(b"a");
    all.read(all.a[0]);
    all.list(b"b");
    let first: Vec<_> = (1..9).rev().filter(|position| *position != 7).map(|position| all.b[position]).collect();
    assert_eq!(all.pushed(), first, "all but the very first");
}

#[test]
fn bytes_written_to_a_mapping_are_dropped_from_the_page_cache() {
    let all = directories();
    assert_eq!(reply(|reply| all.fs.write(all.a[0], false, reply)).0, Errno::ROFS);
    assert_eq!(reply(|reply| all.fs.write(all.a[1], true, reply)).0, Errno::ROFS);
    let deadline = Instant::now() + LONG;
    while all.pages.forgotten.lock().unwrap().is_empty() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    assert_eq!(*all.pages.forgotten.lock().unwrap(), [all.a[1]]);
}

#[test]
fn a_damaged_file_is_not_pushed() {
    let bad = |name: &str| TestMember { crc: 1, ..packed(name, name.as_bytes()) };
    let names: Vec<_> = (0..8).map(|number| format!("x/{number}")).collect();
    let members: Vec<_> =
        names.iter().map(|name| if name == "x/3" { bad(name) } else { packed(name, name.as_bytes()) }).collect();
    let (_place, fs) = wheel(&members);
    let pages = Arc::<Pages>::default();
    fs.set_page_cache(Box::new(Arc::clone(&pages)));
    let nodes: Vec<_> = names.iter().map(|name| lookup(&fs, name).number).collect();
    for &node in &nodes[..2] {
        read(&fs, node, 0, 100).unwrap();
    }
    let deadline = Instant::now() + LONG;
    while !fs.directory_readahead.is_idle() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    let pushed: Vec<_> = pages.stored.lock().unwrap().iter().map(|(node, _)| *node).collect();
    assert_eq!(pushed, [nodes[7], nodes[6], nodes[5], nodes[4]], "from the last one to the damaged one");
    assert_eq!(read(&fs, nodes[3], 0, 100), Err(Errno::IO));
    assert_eq!(read(&fs, nodes[2], 0, 100).unwrap(), b"x/2");
}
