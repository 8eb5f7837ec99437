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

pub(in crate::fs) const LONG: Duration = Duration::from_secs(300);
pub(in crate::fs) const ATTRIBUTES: Attributes =
    Attributes { mode: 0o644, uid: 1, gid: 2, mtime: 3, mtime_nanoseconds: 4 };

/// A request of a thread that is in no PID namespace of this process.
fn id(number: u64) -> RequestId {
    RequestId { number, thread: 0 }
}

/// A reply, and whether this thread gave it.
pub(in crate::fs) fn reply<T: Send + 'static>(ask: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> (T, ThreadId) {
    let (tell, told) = mpsc::channel();
    ask(Box::new(move |answer| tell.send((answer, thread::current().id())).unwrap()));
    told.recv_timeout(LONG).expect("the reply was dropped, or never came")
}

fn lookup_on(fs: &Arc<Filesystem>, parent: NodeId, name: &[u8]) -> (Result<Option<NodeAttributes>, Errno>, ThreadId) {
    reply(|reply| fs.lookup(id(1), parent, name, reply))
}

pub(in crate::fs) fn lookup(fs: &Arc<Filesystem>, path: &str) -> NodeAttributes {
    let root = reply(|reply| fs.getattr(id(1), ROOT, reply)).0.unwrap();
    path.split('/').fold(root, |parent, name| lookup_on(fs, parent.number, name.as_bytes()).0.unwrap().unwrap())
}

pub(in crate::fs) fn read(fs: &Arc<Filesystem>, node: NodeId, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
    let ask = |reply: Box<dyn FnOnce(_) + Send>| {
        fs.read(id(1), node, offset, size, |bytes| match bytes {
            Ok(bytes) => bytes.read(|bytes| reply(bytes.map(<[u8]>::to_vec))),
            Err(error) => reply(Err(error)),
        });
    };
    reply(ask).0
}

pub(in crate::fs) fn path(text: &str) -> EntryPath {
    EntryPath::new(text.as_bytes()).unwrap()
}

pub(in crate::fs) fn rope(bytes: &[u8]) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes.to_vec())]).unwrap())
}

pub(in crate::fs) fn file(body: Body) -> NodeKind {
    NodeKind::File { body, link_group: None }
}

/// Content that counts how many times it was made, and fails or panics on demand.
#[derive(Debug, Default)]
pub(in crate::fs) struct CountedWork {
    made: Mutex<Option<Arc<dyn Content>>>,
    count: AtomicU32,
    fails: bool,
    panics: bool,
    /// Making waits for its end.
    held: Option<Mutex<mpsc::Receiver<()>>>,
}

impl Materialize for CountedWork {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.made.lock().unwrap().clone()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.count.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "on purpose");
        if let Some(held) = &self.held {
            held.lock().unwrap().recv().unwrap_err();
        }
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

pub(in crate::fs) fn filesystem(tree: Tree) -> Arc<Filesystem> {
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
    assert_eq!(reply(|reply| fs.getattr(id(1), a.number, reply)), (Ok(a), thread::current().id()));

    let (made, thread_of_made) = lookup_on(&fs, d.number, b"made");
    let made = made.unwrap().unwrap();
    assert_eq!((made.size, thread_of_made), (None, thread::current().id()), "a lookup makes nothing");
    let (sized, thread_of_work) = reply(|reply| fs.getattr(id(1), made.number, reply));
    assert_eq!(sized.unwrap().size, Some(4));
    assert_ne!(thread_of_work, thread::current().id(), "a session thread does no work");
    assert_eq!(lookup_on(&fs, d.number, b"made").0.unwrap().unwrap().size, Some(4), "now it is known");
    assert_eq!(work.count.load(Ordering::Relaxed), 1);
    assert_eq!(reply(|reply| fs.getattr(id(1), 1 << 40, reply)).0.unwrap_err(), Errno::STALE);
}

#[test]
fn the_kernel_knows_what_was_looked_up_until_it_forgets_it() {
    let (fs, _) = one_of_each();
    let a = lookup(&fs, "d/a").number;
    assert!(fs.nodes.kernel_knows(a));
    fs.forget(a);
    assert!(!fs.nodes.kernel_knows(a));
    let failed = lookup(&fs, "d/fails").number;
    assert_eq!(reply(|reply| fs.getattr(id(1), failed, reply)).0, Err(Errno::STALE), "the input has changed");
    assert!(fs.nodes.kernel_knows(failed));
}

/// Content that is read when it is released.
#[derive(Debug)]
struct HeldContent(Mutex<mpsc::Receiver<()>>);

impl Content for HeldContent {
    fn size(&self) -> u64 {
        1
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
        self.0.lock().unwrap().recv().unwrap_err();
        Ok(())
    }

    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        false
    }
}

#[test]
fn who_waits_is_answered_once_and_the_work_is_done_once() {
    let (release, held) = mpsc::channel::<()>();
    let (release_read, held_read) = mpsc::channel::<()>();
    let work = Arc::new(CountedWork { held: Some(Mutex::new(held)), ..CountedWork::default() });
    let mut tree = Tree::new(ATTRIBUTES);
    tree.insert(ROOT, &path("made"), ATTRIBUTES, file(Body::Made(Arc::<CountedWork>::clone(&work)))).unwrap();
    let content = Body::Ready(Arc::new(HeldContent(Mutex::new(held_read))));
    tree.insert(ROOT, &path("read"), ATTRIBUTES, file(content)).unwrap();
    let fs = filesystem(tree);
    let [made, read] = ["made", "read"].map(|name| lookup(&fs, name).number);
    let (tell, told) = mpsc::channel();
    let ask = |id: RequestId| {
        let tell = tell.clone();
        fs.getattr(id, made, move |found| tell.send((id.number, found.map(|found| found.size))).unwrap());
    };
    let getattr = |number| ask(id(number));
    let next = || told.recv_timeout(LONG).unwrap();
    (10..100).for_each(getattr);
    let to_read = tell.clone();
    fs.read(id(100), read, 0, 1, move |bytes| to_read.send((100, bytes.map(|_| None))).unwrap());
    assert_eq!(fs.requests().waiting(), 91);
    assert_eq!(fs.resources.executor.threads(), 2, "who waits for one file takes one thread");
    for number in [50, 100, 10] {
        fs.waiting.interrupt(number);
        assert_eq!(next(), (number, Err(Errno::INTR)));
    }
    // Over rings, an interrupt may overtake its request.
    fs.waiting.interrupt(200);
    getattr(200);
    assert_eq!(next(), (200, Err(Errno::INTR)));
    assert_eq!(fs.requests().waiting(), 88);
    // This process lives, so that it gets what it asks for.
    ask(RequestId { number: 100, thread: std::process::id() });
    fs.waiting.interrupt(100);
    fs.waiting.interrupt(60);
    assert_eq!(next(), (60, Err(Errno::INTR)));
    drop(release);
    let mut numbers: Vec<_> = (0..88).map(|_| next()).collect();
    numbers.sort_unstable_by_key(|(number, _)| *number);
    let expected = (11..=100).filter(|number| ![50, 60].contains(number)).map(|number| (number, Ok(Some(4))));
    assert_eq!(numbers, expected.collect::<Vec<_>>());
    drop((tell, release_read));
    assert_eq!(told.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected), "no other reply was given");
    assert_eq!(work.count.load(Ordering::Relaxed), 1);
}

#[test]
fn what_cannot_be_made_fails_once_for_all_who_wait() {
    let (release, held) = mpsc::channel::<()>();
    let work = Arc::new(CountedWork { held: Some(Mutex::new(held)), fails: true, ..CountedWork::default() });
    let mut tree = Tree::new(ATTRIBUTES);
    tree.insert(ROOT, &path("made"), ATTRIBUTES, file(Body::Made(Arc::<CountedWork>::clone(&work)))).unwrap();
    let fs = filesystem(tree);
    let made = lookup(&fs, "made").number;
    let (tell, told) = mpsc::channel();
    for number in 0..20 {
        let tell = tell.clone();
        fs.getattr(id(number), made, move |found| tell.send(found).unwrap());
    }
    drop(release);
    assert!((0..20).all(|_| told.recv_timeout(LONG).unwrap() == Err(Errno::STALE)));
    assert_eq!(work.count.load(Ordering::Relaxed), 1);
}

#[test]
fn at_the_end_of_a_mount_nobody_waits() {
    let (_release, held) = mpsc::channel::<()>();
    let mut tree = Tree::new(ATTRIBUTES);
    let work = CountedWork { held: Some(Mutex::new(held)), ..CountedWork::default() };
    tree.insert(ROOT, &path("made"), ATTRIBUTES, file(Body::Made(Arc::new(work)))).unwrap();
    tree.insert(ROOT, &path("a"), ATTRIBUTES, file(Body::Ready(rope(b"a")))).unwrap();
    let fs = filesystem(tree);
    let made = lookup(&fs, "made").number;
    let ending = Arc::clone(&fs);
    let (tell, told) = mpsc::channel();
    fs.getattr(id(2), made, move |found| tell.send(found).unwrap());
    thread::spawn(move || ending.end_waiting());
    assert_eq!(told.recv_timeout(LONG).unwrap(), Err(Errno::IO), "it waited before");
    assert_eq!(
        reply(|reply| fs.getattr(id(3), made, reply)),
        (Err(Errno::IO), thread::current().id()),
        "nothing begins"
    );
    assert_eq!(read(&fs, lookup(&fs, "a").number, 0, 1).unwrap(), b"a");
}

#[test]
fn a_live_report_is_written_again_at_each_lookup_only() {
    let (fs, _) = one_of_each();
    let first = lookup(&fs, "d/live");
    assert_eq!((first.size, first.is_live), (Some(8), true));
    assert_eq!(read(&fs, first.number, 0, 100).unwrap(), b"0      \n");
    assert_eq!(read(&fs, first.number, 0, 100).unwrap(), b"0      \n");
    assert_eq!(reply(|reply| fs.getattr(id(1), first.number, reply)).0, Ok(first));
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

    let attribute = |name: &str| reply(|reply| fs.getxattr(id(1), a, name.as_bytes(), reply)).0;
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
        assert_eq!(reply(|reply| fs.getattr(id(1), panics, reply)).0, Err(Errno::IO));
        assert_eq!(read(&fs, panics, 0, 1), Err(Errno::IO));
        assert_eq!(read(&fs, lookup(&fs, "d/made").number, 0, 9).unwrap(), b"made");
    }
    let deadline = Instant::now() + LONG;
    while fs.requests().waiting() > 0 {
        assert!(Instant::now() < deadline, "a request counts as waiting although it was answered");
        thread::yield_now();
    }
}

/// A wheel with exactly these members. The directory has to be kept.
pub(in crate::fs) fn wheel(members: &[TestMember]) -> (tempfile::TempDir, Arc<Filesystem>) {
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
