//! Requests of a real kernel, answered through the buffers of a ring and through a socket in place of `/dev/fuse`.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::slice;
use std::thread;

use proptest::prelude::*;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::entry::RingEntry;
use super::*;
use crate::fs::filesystem::Filesystem;
use crate::fs::protocol::{self, HEADER, Operation, Request};
use crate::fs::serve;
use crate::resources::Resources;
use crate::rope::testing::literal;
use crate::rope::{Content, Materialize, ReadError};
use crate::source::{Attributes, EntryPath};
use crate::tree::{Body, NodeKind, Origin, OriginKind, ROOT, Tree};

/// Requests as they were read from `/dev/fuse` of Linux 6.18, one after another, on a mount of [`tree`] that programs
/// listed, read, searched, copied, and, once it was remounted read-write, tried to change. Behind them, rare ones.
const REQUESTS: &[u8] = include_bytes!("../../../tests/fixtures/fuse-requests.bin");

/// The replies of fuser 0.18.
const REPLIES: &[u8] = include_bytes!("../../../tests/fixtures/fuse-replies.bin");

const ATTRIBUTES: Attributes = Attributes { mode: 0o750, uid: 1, gid: 2, mtime: -3, mtime_nanoseconds: 4 };

/// Bytes of `struct fuse_in_header`.
const IN_HEADER: usize = 40;

#[derive(Debug)]
struct MadeElsewhere;

impl Materialize for MadeElsewhere {
    fn made(&self) -> Option<Arc<dyn Content>> {
        None
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        Ok(literal(b"made on another thread"))
    }
}

fn tree() -> Tree {
    let mut tree = Tree::new(ATTRIBUTES);
    let mut add = |name: &str, kind| {
        let path = EntryPath::new(name.as_bytes()).unwrap();
        let node = tree.insert(ROOT, &path, ATTRIBUTES, kind).unwrap();
        tree.set_origin(node, Origin::of(OriginKind::Unchanged, &path));
    };
    let file = |body, link_group| NodeKind::File { body, link_group };
    // A ring has no room for a longer read.
    let big: Vec<u8> = (0..120_000_u32).map(|at| (at % 251) as u8).collect();
    add("big", file(Body::Ready(literal(&big)), None));
    add("made", file(Body::Made(Arc::new(MadeElsewhere)), None));
    add("empty", NodeKind::directory());
    add("lib/one", file(Body::Ready(literal(b"linked")), Some(1)));
    add("lib/two", file(Body::Ready(literal(b"linked")), Some(1)));
    add("lib/link", NodeKind::Symlink(Arc::from(&b"../big"[..])));
    for number in 0..200 {
        add(&format!("many/{number:03}{}", "x".repeat(number % 40)), file(Body::Ready(literal(b"x")), None));
    }
    tree
}

fn filesystem() -> Arc<Filesystem> {
    Filesystem::new(PathBuf::new(), Arc::new(tree()), Resources::new(0), 1_000_000)
}

/// The transport over `/dev/fuse`, in place of the kernel a socket.
struct Device(OwnedFd);

impl Device {
    fn new(fs: &Arc<Filesystem>) -> Self {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let answers = Answers::new(fs);
        // It ends with the socket.
        thread::spawn(move || serve(&answers, &Arc::new(theirs), 1).unwrap());
        Self(ours)
    }

    fn send(&self, request: &[u8]) {
        send(&self.0, request, SendFlags::empty()).unwrap();
    }

    fn receive(&self) -> Vec<u8> {
        let mut reply = vec![0; 1 << 20];
        let (length, _) = recv(&self.0, &mut *reply, RecvFlags::empty()).unwrap();
        reply.truncate(length);
        reply
    }

    fn answer(&self, request: &[u8]) -> Vec<u8> {
        self.send(request);
        self.receive()
    }
}

/// A request as it is read from `/dev/fuse`.
fn request(operation: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(IN_HEADER + body.len()).unwrap();
    let head = [length.to_ne_bytes(), operation.to_ne_bytes()].concat();
    [&head, &7_u64.to_ne_bytes()[..], &node.to_ne_bytes(), &[0; 16], body].concat()
}

/// The buffers of an entry, in place of the kernel.
struct EntryBuffers {
    owner: Arc<EntryOwner>,
    answers: Arc<Answers>,
}

impl EntryBuffers {
    fn new(fs: &Arc<Filesystem>) -> Self {
        Self { owner: Arc::new(EntryOwner::new().unwrap()), answers: Answers::new(fs) }
    }

    #[expect(unsafe_code, reason = "in place of the kernel, which writes to the buffers")]
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let (mut header, rest) = protocol::in_form_of_rings(request);
        header[264..272].copy_from_slice(&request[8..16]);
        let slot = DEPTH - 1;
        let payload = self.owner.memory.payload(slot);
        // SAFETY: no entry refers to these buffers.
        unsafe {
            *self.owner.memory.header(slot) = header;
            slice::from_raw_parts_mut(payload, rest.len()).copy_from_slice(rest);
        }
        self.answers.answer(RingEntry::new(Arc::clone(&self.owner), slot));
        while self.owner.answered.lock().pop().is_none() {
            thread::yield_now();
        }
        // SAFETY: the entry has been answered.
        let (header, length) = unsafe {
            let header = *self.owner.memory.header(slot);
            (header, u32::from_ne_bytes(header[272..276].try_into().unwrap()))
        };
        assert_eq!(protocol::commit_id(&header).to_ne_bytes(), request[8..16], "the kernel would not find its request");
        // SAFETY: as above
        [&header[..16], unsafe { slice::from_raw_parts(payload, length as usize) }].concat()
    }
}

/// What is recorded, one after another: each begins with its length.
fn recorded(mut rest: &'static [u8]) -> Vec<&'static [u8]> {
    let mut recorded = Vec::new();
    while let Some(length) = rest.first_chunk() {
        let (one, after) = rest.split_at(u32::from_ne_bytes(*length) as usize);
        recorded.push(one);
        rest = after;
    }
    recorded
}

#[test]
fn recorded_requests_get_the_answers_of_fuser() {
    let fs = filesystem();
    let (device, buffers) = (Device::new(&fs), EntryBuffers::new(&fs));
    let (requests, replies) = (recorded(REQUESTS), recorded(REPLIES));
    assert_eq!(requests.len(), replies.len());
    for (request, reply) in requests.iter().zip(replies) {
        assert_eq!(device.answer(request), reply, "{request:?}");
        assert_eq!(buffers.answer(request), reply, "{request:?}");
    }
    let operations: std::collections::BTreeSet<_> = requests.iter().map(|request| request[4]).collect();
    // LOOKUP, GETATTR, READLINK, OPEN, READ, STATFS, GETXATTR, READDIR, READDIRPLUS
    assert!([1, 3, 5, 14, 15, 17, 22, 28, 44].iter().all(|needed| operations.contains(needed)), "{operations:?}");
    assert!(operations.len() >= 20, "{operations:?}");
    // A name without an end.
    let reply = buffers.answer(&request(1, ROOT, b"big"));
    assert_eq!(reply[4..8], (-libc::EIO).to_ne_bytes());
}

#[test]
fn what_needs_no_reply_takes_effect() {
    let fs = filesystem();
    let device = Device::new(&fs);
    let number = |name: &str| {
        let reply = device.answer(&request(1, ROOT, &[name.as_bytes(), &[0]].concat()));
        u64::from_ne_bytes(reply[16..24].try_into().unwrap())
    };
    let [big, made, empty] = ["big", "made", "empty"].map(number);
    let knows = || [big, made, empty].map(|node| fs.nodes.kernel_knows(node));
    assert_eq!(knows(), [true; 3]);
    device.send(&request(2, big, &[1, 0, 0, 0, 0, 0, 0, 0]));
    // The next request of the one thread is taken after it.
    assert!(!device.answer(&request(17, ROOT, &[])).is_empty());
    assert_eq!(knows(), [false, true, true]);
    let both = [2, made, 1, empty, 1].map(u64::to_ne_bytes);
    device.send(&request(42, 0, both.as_flattened()));
    // Of the next request, whose number is 7.
    device.send(&request(36, 0, &7_u64.to_ne_bytes()));
    let reply = device.answer(&request(3, made, &[0; 16]));
    assert_eq!(reply[4..16], [&(-libc::EINTR).to_ne_bytes()[..], &7_u64.to_ne_bytes()].concat());
    assert_eq!(knows(), [false; 3]);
}

proptest! {
    #[test]
    fn reads_and_listings_are_the_same_over_both_transports(asked in proptest::collection::vec(
        (prop_oneof![Just(15_u32), Just(28), Just(44)], 0_u64..300, 0_u64..400_000, 0_u32..=PAYLOAD), 1..30,
    )) {
        let fs = filesystem();
        let (device, buffers) = (Device::new(&fs), EntryBuffers::new(&fs));
        for (operation, node, offset, size) in asked {
            let offset = if operation == 15 { offset } else { offset % 300 };
            let body = [&[0; 8], &offset.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 20]].concat();
            let request = request(operation, node, &body);
            prop_assert_eq!(buffers.answer(&request), device.answer(&request));
        }
    }
}

#[test]
fn an_entry_that_is_dropped_is_an_error_and_is_handed_back() {
    let owner = Arc::new(EntryOwner::new().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| drop(RingEntry::new(Arc::clone(&owner), 3)));
    });
    assert_eq!(*owner.answered.lock(), [3]);
    let mut wakes = [0; 8];
    rustix::io::read(&owner.wake, &mut wakes).expect("another thread wakes the queue");
    // SAFETY: the entry has been answered.
    #[expect(unsafe_code, reason = "in place of the kernel")]
    let header = unsafe { *owner.memory.header(3) };
    assert_eq!(header[4..8], (-libc::EIO).to_ne_bytes());
}

#[test]
fn payloads_that_are_given_back_have_no_pages() {
    let owner = EntryOwner::new().unwrap();
    let payload = owner.memory.payload(1);
    // SAFETY: no entry refers to these buffers.
    #[expect(unsafe_code, reason = "in place of the kernel")]
    let byte = unsafe {
        slice::from_raw_parts_mut(payload, PAYLOAD as usize).fill(7);
        owner.memory.give_back(1);
        *payload
    };
    assert_eq!(byte, 0);
}

#[test]
fn possible_processors_are_counted() {
    for (text, count) in
        [("0\n", Some(1)), ("0-127\n", Some(128)), ("0-3,8-11", Some(8)), ("", None), ("0-70000", None)]
    {
        assert_eq!(processors_in(text), count, "{text}");
    }
}

#[test]
fn the_first_bytes_of_a_name_are_its_name() {
    let mut header = [0; HEADER];
    header[4] = 1;
    header[272] = 4;
    let decoded = Request::decode(&header, b"lib\0more");
    assert_eq!(
        decoded.map(|request| request.operation),
        Some(Operation::Lookup { name: OsStr::new("lib").as_encoded_bytes() })
    );
    header[272] = 3;
    assert_eq!(Request::decode(&header, b"lib\0more"), None);
}
