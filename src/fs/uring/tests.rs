//! Requests of a real kernel, answered through the buffers of a ring and by fuser.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::slice;
use std::thread;

use fuser::{Config, Session, SessionACL};
use proptest::prelude::*;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::entry::RingEntry;
use super::*;
use crate::fs::{Adapter, PassthroughChoice};
use crate::resources::Resources;
use crate::rope::{Content, Materialize, ReadError, Rope, Segment};
use crate::source::{Attributes, EntryPath};
use crate::tree::{Body, NodeKind, Origin, OriginKind, ROOT, Tree};

/// Requests as they were read from `/dev/fuse` of Linux 6.18, one after another, on a mount of [`tree`] that programs
/// listed, read, searched, copied, and, once it was remounted read-write, tried to change.
const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/fuse-requests.bin");

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
        Ok(rope(b"made on another thread"))
    }
}

fn rope(bytes: &[u8]) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes.to_vec())]).unwrap())
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
    add("big", file(Body::Ready(rope(&big)), None));
    add("made", file(Body::Made(Arc::new(MadeElsewhere)), None));
    add("empty", NodeKind::directory());
    add("lib/one", file(Body::Ready(rope(b"linked")), Some(1)));
    add("lib/two", file(Body::Ready(rope(b"linked")), Some(1)));
    add("lib/link", NodeKind::Symlink(Arc::from(&b"../big"[..])));
    for number in 0..200 {
        add(&format!("many/{number:03}{}", "x".repeat(number % 40)), file(Body::Ready(rope(b"x")), None));
    }
    tree
}

fn filesystem() -> Arc<Filesystem> {
    Filesystem::new(PathBuf::new(), Arc::new(tree()), Resources::new(0), 1_000_000)
}

/// fuser, in place of the kernel a socket.
struct Fuser(OwnedFd);

impl Fuser {
    fn new(fs: &Arc<Filesystem>) -> Self {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (fuser, adapter) = (Self(ours), Adapter::new(Arc::clone(fs), PassthroughChoice::Off, None));
        thread::spawn(move || {
            let session = Session::from_fd(adapter, theirs, SessionACL::All, Config::default()).unwrap();
            // The session ends with the socket.
            session.run().ok();
        });
        // INIT: version, readahead, flags (`struct fuse_init_in`)
        let body = [7, 45, 1 << 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes);
        assert!(!fuser.answer(&request(26, 0, body.as_flattened())).is_empty());
        fuser
    }

    fn answer(&self, request: &[u8]) -> Vec<u8> {
        send(&self.0, request, SendFlags::empty()).unwrap();
        let mut reply = vec![0; 1 << 20];
        let (length, _) = recv(&self.0, &mut *reply, RecvFlags::empty()).unwrap();
        reply.truncate(length);
        reply
    }
}

/// A request as it is read from `/dev/fuse`.
fn request(operation: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(IN_HEADER + body.len()).unwrap();
    let head = [length.to_ne_bytes(), operation.to_ne_bytes()].concat();
    [&head, &7_u64.to_ne_bytes()[..], &node.to_ne_bytes(), &[0; 16], body].concat()
}

/// Bytes of the header of an operation.
fn operation_header(operation: u32) -> usize {
    match operation {
        // LOOKUP, READLINK, SYMLINK, UNLINK, RMDIR, STATFS, REMOVEXATTR
        1 | 5 | 6 | 10 | 11 | 17 | 24 => 0,
        // MKDIR, LINK, RENAME, OPEN, SETXATTR, GETXATTR, LISTXATTR, OPENDIR, ACCESS
        9 | 12 | 13 | 14 | 21 | 22 | 23 | 27 | 34 => 8,
        // MKNOD, GETATTR, FSYNC, CREATE, RENAME2, BMAP
        3 | 8 | 20 | 30 | 35 | 45 | 37 => 16,
        // RELEASE, FLUSH, RELEASEDIR, POLL, LSEEK
        18 | 25 | 29 | 40 | 46 => 24,
        // FALLOCATE, IOCTL
        39 | 43 => 32,
        // READ, WRITE, READDIR, READDIRPLUS
        15 | 16 | 28 | 44 => 40,
        // GETLK, SETLK, SETLKW
        31..=33 => 48,
        47 => 56,
        // SETATTR
        4 => 88,
        other => panic!("an operation that is not known here: {other}"),
    }
}

/// The buffers of an entry, in place of the kernel.
struct EntryBuffers {
    owner: Arc<EntryOwner>,
    answers: RingAnswers,
}

impl EntryBuffers {
    fn new(fs: &Arc<Filesystem>) -> Self {
        Self { owner: Arc::new(EntryOwner::new().unwrap()), answers: RingAnswers::new(fs) }
    }

    #[expect(unsafe_code, reason = "in place of the kernel, which writes to the buffers")]
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let (head, body) = request.split_at(IN_HEADER);
        let operation = u32::from_ne_bytes(head[4..8].try_into().unwrap());
        let (argument, rest) = body.split_at(operation_header(operation).min(body.len()));
        let mut header = [0_u8; HEADER];
        header[..IN_HEADER].copy_from_slice(head);
        header[128..][..argument.len()].copy_from_slice(argument);
        header[264..272].copy_from_slice(&head[8..16]);
        header[272..276].copy_from_slice(&u32::try_from(rest.len()).unwrap().to_ne_bytes());
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
        assert_eq!(protocol::commit_id(&header).to_ne_bytes(), head[8..16], "the kernel would not find its request");
        // SAFETY: as above
        [&header[..16], unsafe { slice::from_raw_parts(payload, length as usize) }].concat()
    }
}

fn recorded() -> Vec<&'static [u8]> {
    let mut rest = RECORDED;
    let mut requests = Vec::new();
    while let Some(length) = rest.first_chunk() {
        let (request, after) = rest.split_at(u32::from_ne_bytes(*length) as usize);
        requests.push(request);
        rest = after;
    }
    requests
}

/// What programs do with a mount, whose directory is the argument.
const PROGRAMS: &str = r#"
import ctypes, fcntl, os, select, subprocess, sys

def tried(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        pass

os.chdir(sys.argv[1])
for command in ["ls -lR", "find . -type f", "cat big made lib/one lib/link", "readlink lib/link", "stat -f .", "cp -a . ../copy"]:
    subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, check=True)
file = open("big", "rb")
for seek in (os.SEEK_DATA, os.SEEK_HOLE):
    tried(os.lseek, file.fileno(), 0, seek)
tried(fcntl.flock, file, fcntl.LOCK_SH)
tried(fcntl.lockf, file, fcntl.LOCK_SH)
tried(fcntl.ioctl, file, 0x5401, b" " * 60)
tried(fcntl.ioctl, file, 1, b" " * 60)
poll = select.poll()
poll.register(file)
poll.poll(0)
tried(os.getxattr, "big", "user.kpackfs.kind")
tried(os.getxattr, "big", "user.none")
tried(os.listxattr, "big")
tried(os.stat, "absent")
tried(os.access, "big", os.W_OK)
tried(os.fsync, os.open("lib", os.O_RDONLY))
subprocess.run(["mount", "-i", "-o", "remount,rw", "."], check=True)
tried(os.truncate, "big", 1)
tried(os.chmod, "big", 0o777)
tried(os.open, "big", os.O_RDWR | os.O_TRUNC)
tried(os.open, "new", os.O_RDWR | os.O_CREAT)
tried(os.mkdir, "new")
tried(os.mknod, "new")
tried(os.link, "big", "new")
tried(os.symlink, "big", "new")
tried(os.rename, "big", "new")
tried(os.unlink, "big")
tried(os.rmdir, "empty")
tried(os.setxattr, "big", "user.x", b"x")
tried(os.removexattr, "big", "user.x")
descriptor = os.open("big", os.O_RDWR)
tried(os.write, descriptor, b"x")
tried(os.posix_fallocate, descriptor, 0, 400000)
tried(os.copy_file_range, file.fileno(), descriptor, 10)
"#;

/// Writes the requests of [`RECORDED`]: `cargo test --lib -- --ignored requests_are_recorded`, as root.
#[test]
#[ignore = "writes to the source tree"]
fn requests_are_recorded() {
    let place = tempfile::tempdir().unwrap();
    let mount = place.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let device = Arc::new(File::options().read(true).write(true).open("/dev/fuse").unwrap());
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
        std::os::fd::AsRawFd::as_raw_fd(&device)
    );
    let options = std::ffi::CString::new(options).unwrap();
    rustix::mount::mount("recorded", &mount, "fuse.kpackfs", rustix::mount::MountFlags::RDONLY, &*options).unwrap();
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (ours, adapter) = (Arc::new(ours), Adapter::new(filesystem(), PassthroughChoice::Off, None));
    thread::spawn(|| Session::from_fd(adapter, theirs, SessionACL::All, Config::default()).unwrap().run());
    let (socket, to) = (Arc::clone(&ours), Arc::clone(&device));
    thread::spawn(move || {
        let mut reply = vec![0; 2 << 20];
        while let Ok((length @ 1.., _)) = recv(&socket, &mut *reply, RecvFlags::empty()) {
            rustix::io::write(&to, &reply[..length]).ok();
        }
    });
    let recorder = thread::spawn(move || {
        let (mut bytes, mut recorded) = (vec![0; 2 << 20], Vec::new());
        while let Ok(length) = rustix::io::read(&device, &mut bytes) {
            // Not FORGET, INIT, INTERRUPT, BATCH_FORGET, which have no reply or do not travel through rings.
            if ![2, 26, 36, 42].contains(&bytes[4]) {
                recorded.extend_from_slice(&bytes[..length]);
            }
            send(&ours, &bytes[..length], SendFlags::empty()).unwrap();
        }
        recorded
    });
    let status = std::process::Command::new("python3").args(["-c", PROGRAMS]).arg(&mount).status();
    rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(status.unwrap().success());
    std::fs::write("tests/fixtures/fuse-requests.bin", recorder.join().unwrap()).unwrap();
}

fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

#[test]
fn recorded_requests_get_the_answers_of_fuser() {
    let fs = filesystem();
    let (fuser, buffers) = (Fuser::new(&fs), EntryBuffers::new(&fs));
    let mut operations = std::collections::BTreeSet::new();
    for request in recorded() {
        let expected = fuser.answer(request);
        assert_eq!(buffers.answer(request), expected, "{request:?}");
        operations.insert(request[4]);
    }
    // LOOKUP, GETATTR, READLINK, OPEN, READ, STATFS, GETXATTR, READDIR, READDIRPLUS
    assert!([1, 3, 5, 14, 15, 17, 22, 28, 44].iter().all(|needed| operations.contains(needed)), "{operations:?}");
    assert!(operations.len() >= 20, "{operations:?}");
}

#[test]
fn rare_requests_get_the_answers_of_fuser() {
    let fs = filesystem();
    let (fuser, buffers) = (Fuser::new(&fs), EntryBuffers::new(&fs));
    let long = "n".repeat(300);
    let sized = |size: u32, text: &str| [&size.to_ne_bytes()[..], &[0; 4], &name(text)].concat();
    for (operation, node, body) in [
        (1, ROOT, name("none")),
        (1, ROOT, name(&long)),
        (1, 1 << 40, name("big")),
        (3, 1 << 40, vec![0; 16]),
        (22, ROOT, sized(0, "user.kpackfs.kind")),
        (22, ROOT, sized(1, "user.kpackfs.kind")),
        (22, 2, sized(100, "user.kpackfs.kind")),
        (22, 2, sized(100, "user.none")),
        (22, 2, sized(100, "security.capability")),
        (23, ROOT, vec![0; 8]),
        (23, 2, [&100_u32.to_ne_bytes()[..], &[0; 4]].concat()),
        (18, 2, vec![0; 24]),
        (29, ROOT, vec![0; 24]),
    ] {
        let request = request(operation, node, &body);
        assert_eq!(buffers.answer(&request), fuser.answer(&request), "{request:?}");
    }
    // A name without an end.
    let reply = buffers.answer(&request(1, ROOT, b"big"));
    assert_eq!(reply[4..8], (-libc::EIO).to_ne_bytes());
}

proptest! {
    #[test]
    fn reads_and_listings_get_the_answers_of_fuser(asked in proptest::collection::vec(
        (prop_oneof![Just(15_u32), Just(28), Just(44)], 0_u64..300, 0_u64..400_000, 0_u32..=PAYLOAD), 1..30,
    )) {
        let fs = filesystem();
        let (fuser, buffers) = (Fuser::new(&fs), EntryBuffers::new(&fs));
        for (operation, node, offset, size) in asked {
            let offset = if operation == 15 { offset } else { offset % 300 };
            let body = [&[0; 8], &offset.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 20]].concat();
            let request = request(operation, node, &body);
            prop_assert_eq!(buffers.answer(&request), fuser.answer(&request));
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
    let decoded = RingRequest::decode(&header, b"lib\0more");
    assert_eq!(
        decoded.map(|request| request.operation),
        Some(Operation::Lookup { name: OsStr::new("lib").as_encoded_bytes() })
    );
    header[272] = 3;
    assert_eq!(RingRequest::decode(&header, b"lib\0more"), None);
}
