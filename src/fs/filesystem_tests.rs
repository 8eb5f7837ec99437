//! The answers of a filesystem, without a mount.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::*;
use crate::fs::nodes::FileKind;
use crate::rope::{Materialize, ReadError, Rope, Segment};
use crate::source::testing::{TestMember, made, packed, zipped};
use crate::source::{Attributes, EntryKind, EntryPath, Input};
use crate::tree::{Body, LiveReport, NodeKind, Origin, OriginKind, ROOT};

const LONG: Duration = Duration::from_secs(60);
const ATTRIBUTES: Attributes = Attributes { mode: 0o644, uid: 1, gid: 2, mtime: 3, mtime_nanoseconds: 4 };

/// A reply, and whether this thread gave it.
fn reply<T: Send + 'static>(ask: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> (T, ThreadId) {
    let (tell, told) = mpsc::channel();
    ask(Box::new(move |answer| tell.send((answer, thread::current().id())).unwrap()));
    told.recv_timeout(LONG).expect("the reply was dropped, or never came")
}

fn lookup_on(fs: &Arc<Filesystem>, parent: NodeId, name: &[u8]) -> (Result<Option<NodeAttributes>, Errno>, ThreadId) {
    reply(|reply| fs.lookup(parent, name, reply))
}

fn lookup(fs: &Arc<Filesystem>, path: &str) -> NodeAttributes {
    let root = reply(|reply| fs.getattr(ROOT, reply)).0.unwrap();
    path.split('/').fold(root, |parent, name| lookup_on(fs, parent.number, name.as_bytes()).0.unwrap().unwrap())
}

fn read(fs: &Arc<Filesystem>, node: NodeId, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
    reply(|reply| fs.read(node, offset, size, |bytes| reply(bytes.map(<[u8]>::to_vec)))).0
}

fn path(text: &str) -> EntryPath {
    EntryPath::new(text.as_bytes()).unwrap()
}

fn rope(bytes: &[u8]) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes.to_vec())]).unwrap())
}

fn file(body: Body) -> NodeKind {
    NodeKind::File { body, link_group: None }
}

/// Content that counts how many times it was made, and fails or panics on demand.
#[derive(Debug, Default)]
struct CountedWork {
    made: Mutex<Option<Arc<dyn Content>>>,
    count: AtomicU32,
    fails: bool,
    panics: bool,
}

impl Materialize for CountedWork {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.made.lock().unwrap().clone()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.count.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "on purpose");
        if self.fails {
            return Err(ReadError::Changed { entry: "input".into() });
        }
        Ok(self.made.lock().unwrap().insert(rope(b"made")).clone())
    }
}

/// Its text is the number of times that it was written.
#[derive(Debug, Default)]
struct Live(AtomicU32);

impl LiveReport for Live {
    fn text(&self) -> String {
        self.0.fetch_add(1, Ordering::Relaxed).to_string()
    }

    fn size(&self) -> u64 {
        8
    }
}

fn filesystem(tree: Tree) -> Arc<Filesystem> {
    Filesystem::new(PathBuf::from("/mnt"), Arc::new(tree), Resources::new(64 << 20), 10_000)
}

/// A tree with one node of each kind.
fn one_of_each() -> (Arc<Filesystem>, Arc<CountedWork>) {
    let work = Arc::<CountedWork>::default();
    let mut tree = Tree::new(ATTRIBUTES);
    for (name, kind) in [
        ("d/a", file(Body::Ready(rope(b"0123456789")))),
        ("d/link", NodeKind::Symlink(Arc::from(&b"a"[..]))),
        ("d/made", file(Body::Made(Arc::<CountedWork>::clone(&work)))),
        ("d/fails", file(Body::Made(Arc::new(CountedWork { fails: true, ..CountedWork::default() })))),
        ("d/panics", file(Body::Made(Arc::new(CountedWork { panics: true, ..CountedWork::default() })))),
        ("d/live", file(Body::Live(Arc::<Live>::default()))),
    ] {
        let id = tree.insert(ROOT, &path(name), ATTRIBUTES, kind).unwrap();
        tree.set_origin(id, Origin::of(OriginKind::Unchanged, &path(name)));
    }
    (filesystem(tree), work)
}

#[test]
fn names_lead_to_nodes_and_work_is_done_on_other_threads() {
    let (fs, work) = one_of_each();
    let d = lookup(&fs, "d");
    assert_eq!((d.kind, d.links, d.size, d.is_live), (FileKind::Directory, 2, Some(4096), false));
    assert_eq!(lookup_on(&fs, d.number, b"gone"), (Ok(None), thread::current().id()));
    assert_eq!(lookup_on(&fs, d.number, &[b'x'; 256]).0, Err(Errno::NAMETOOLONG));
    assert_eq!(lookup_on(&fs, d.number, &[b'x'; 255]).0, Ok(None));
    let (a, thread_of_a) = lookup_on(&fs, d.number, b"a");
    let a = a.unwrap().unwrap();
    assert_eq!((a.kind, a.size, a.mode, a.uid, a.gid), (FileKind::File, Some(10), 0o644, 1, 2));
    assert_eq!(thread_of_a, thread::current().id(), "its size is known");
    assert_eq!(lookup_on(&fs, a.number, b"x").0, Ok(None), "a file has no entries");
    assert_eq!(reply(|reply| fs.getattr(a.number, reply)), (Ok(a), thread::current().id()));

    let (made, thread_of_made) = lookup_on(&fs, d.number, b"made");
    assert_eq!(made.unwrap().unwrap().size, Some(4));
    assert_ne!(thread_of_made, thread::current().id(), "a session thread does no work");
    assert_eq!(lookup_on(&fs, d.number, b"made").1, thread::current().id(), "now it is known");
    assert_eq!(work.count.load(Ordering::Relaxed), 1);
    assert_eq!(reply(|reply| fs.getattr(1 << 40, reply)).0.unwrap_err(), Errno::STALE);
}

#[test]
fn the_kernel_knows_what_was_looked_up_until_it_forgets_it() {
    let (fs, _) = one_of_each();
    let a = lookup(&fs, "d/a").number;
    assert!(fs.nodes.kernel_knows(a));
    fs.forget(a);
    assert!(!fs.nodes.kernel_knows(a));
    let d = lookup(&fs, "d").number;
    let failed = fs.nodes.lookup(d, b"fails").unwrap();
    assert_eq!(lookup_on(&fs, d, b"fails").0, Err(Errno::STALE), "the input has changed");
    assert!(!fs.nodes.kernel_knows(failed));
}

#[test]
fn a_live_report_is_written_again_at_each_lookup_only() {
    let (fs, _) = one_of_each();
    let first = lookup(&fs, "d/live");
    assert_eq!((first.size, first.is_live), (Some(8), true));
    assert_eq!(read(&fs, first.number, 0, 100).unwrap(), b"0      \n");
    assert_eq!(read(&fs, first.number, 0, 100).unwrap(), b"0      \n");
    assert_eq!(reply(|reply| fs.getattr(first.number, reply)).0, Ok(first));
    let second = lookup(&fs, "d/live");
    assert!(second.time > first.time, "the kernel has to drop its pages");
    assert_eq!(read(&fs, first.number, 0, 100).unwrap(), b"1      \n");
}

#[test]
fn each_request_has_its_answer_or_its_errno() {
    let (fs, work) = one_of_each();
    let number = |path: &str| lookup(&fs, path).number;
    let (a, d, link) = (number("d/a"), number("d"), number("d/link"));
    let unread = fs.nodes.lookup(d, b"made").unwrap();

    assert_eq!(read(&fs, a, 3, 4).unwrap(), b"3456");
    assert_eq!(read(&fs, a, 8, 100).unwrap(), b"89");
    assert_eq!(read(&fs, a, 10, 1).unwrap(), b"");
    assert_eq!(read(&fs, a, u64::MAX, u32::MAX).unwrap(), b"");
    assert_eq!(read(&fs, unread, 0, 100).unwrap(), b"made");
    assert_eq!(work.count.load(Ordering::Relaxed), 1);
    assert_eq!((read(&fs, d, 0, 1), read(&fs, link, 0, 1)), (Err(Errno::ISDIR), Err(Errno::LOOP)));

    let target = |node| reply(|reply| fs.readlink(node, |target| reply(target.map(<[u8]>::to_vec)))).0;
    assert_eq!((target(link).unwrap(), target(a)), (b"a".to_vec(), Err(Errno::INVAL)));

    let open = |node, is_writing| fs.open(node, is_writing, |content| Ok(content.map(Content::size)));
    assert_eq!((open(a, false), open(a, true)), (Ok(Some(10)), Err(Errno::ROFS)));
    let unmade = fs.nodes.lookup(d, b"fails").unwrap();
    assert_eq!(open(unmade, false), Ok(None), "opening makes nothing");

    let attribute = |name: &str| reply(|reply| fs.getxattr(a, name.as_bytes(), reply)).0;
    assert_eq!(attribute("user.kpackfs.kind").unwrap(), b"unchanged");
    assert_eq!(attribute("user.kpackfs.origin").unwrap(), b"d/a");
    assert_eq!(attribute("user.other"), Err(Errno::NODATA));
    assert_eq!(attribute("security.selinux"), Err(Errno::OPNOTSUPP));

    assert_eq!(reply(|reply| fs.statfs(reply)).0, Usage { blocks: 3, nodes: 8 });
    assert_eq!(reply(|reply| fs.write(a, false, reply)).0, Errno::ROFS);
}

/// A panic is an error of its request, and affects no thread and no other request.
#[test]
fn a_panic_is_an_error_of_one_request() {
    let (fs, _) = one_of_each();
    let d = lookup(&fs, "d").number;
    let panics = fs.nodes.lookup(d, b"panics").unwrap();
    for _ in 0..3 {
        assert_eq!(lookup_on(&fs, d, b"panics").0, Err(Errno::IO));
        assert_eq!(reply(|reply| fs.getattr(panics, reply)).0, Err(Errno::IO));
        assert_eq!(read(&fs, panics, 0, 1), Err(Errno::IO));
        assert_eq!(read(&fs, lookup(&fs, "d/made").number, 0, 9).unwrap(), b"made");
    }
    let deadline = Instant::now() + LONG;
    while fs.requests().waiting() > 0 {
        assert!(Instant::now() < deadline, "a request counts as waiting although it was answered");
        thread::yield_now();
    }
}

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

/// A wheel with exactly these members. The directory has to be kept.
fn wheel(members: &[TestMember]) -> (tempfile::TempDir, Arc<Filesystem>) {
    let place = tempfile::tempdir().unwrap();
    let location = place.path().join("x-1-py3-none-any.whl");
    std::fs::write(&location, zipped(members)).unwrap();
    let resources = Resources::new(64 << 20);
    let mut tree = Tree::new(ATTRIBUTES);
    for entry in Input::open(&location, &resources).unwrap().entries {
        if let EntryKind::File { content, .. } = entry.kind {
            let id = tree.insert(ROOT, &entry.path, entry.attributes, file(Body::Ready(content))).unwrap();
            tree.set_origin(id, Origin::of(OriginKind::Unchanged, &entry.path));
        }
    }
    (place, Filesystem::new(PathBuf::new(), Arc::new(tree), resources, 0))
}

/// Four pages, a bundle's header, and zeros; the CRC-32 is wrong.
fn damaged(name: &str) -> TestMember {
    let mut bytes: Vec<u8> = (0..4096_u32).flat_map(u32::to_le_bytes).collect();
    bytes.extend(b"__CLANG_OFFLOAD_BUNDLE__");
    bytes.resize(3 << 20, 0);
    let whole = packed(name, &bytes);
    TestMember { crc: whole.crc ^ 1, ..whole }
}

#[test]
fn damage_is_an_error_of_one_file_and_no_byte_of_it_is_served_any_more() {
    let (_place, fs) = wheel(&[packed("x/a", &[1; 5000]), damaged("x/b"), made("x/c", b"stored")]);
    let [a, b, c] = ["x/a", "x/b", "x/c"].map(|path| lookup(&fs, path).number);
    // The damage is in a part that nobody has read.
    assert_eq!(read(&fs, b, 4 * 4096, 24).unwrap(), b"__CLANG_OFFLOAD_BUNDLE__");
    assert_eq!(read(&fs, b, (3 << 20) - 1, 1), Err(Errno::IO));
    // From now on neither cached chunks, nor captured headers, nor the beginning are served.
    for (offset, size) in [(0, 16), (4 * 4096, 24), (1 << 20, 4096), (2 << 20, 1)] {
        assert_eq!(read(&fs, b, offset, size), Err(Errno::IO), "{offset}");
    }
    assert_eq!(lookup(&fs, "x/b").size, Some(3 << 20), "it is listed, and has its attributes");
    assert_eq!((read(&fs, a, 0, 5000).unwrap(), read(&fs, c, 0, 9).unwrap()), (vec![1; 5000], b"stored".to_vec()));
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
