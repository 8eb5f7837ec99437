//! The memory that the tables of entries take for the life of a mount. This is a test program of its own, since it
//! counts all memory.

#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "clippy allows it in test functions only")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kpackfs::database::Databases;
use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::Input;
use kpackfs::split::{Plan, PlanOptions};
use kpackfs::tree::{Body, NodeId, NodeKind, ROOT, Tree};
use kpackfs::view::lay_out;
use kpackfs::wheelparts::{WheelOptions, WheelSet};

struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that glibc's malloc takes for an allocation: the allocation and a length before it, rounded up to a multiple
/// of 16 (malloc.c, `request2size`).
fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all methods forward to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(taken(layout), Ordering::Relaxed);
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: the caller follows the rules of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A zip file of stored members (APPNOTE.TXT 4.3), each of 64 bytes or more, so that planning reads it.
fn zipped(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let start = file.len() as u32;
        let size = (bytes.len() as u32).to_le_bytes();
        let crc = crc32fast::hash(bytes).to_le_bytes();
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0x60, 0x5d, 0x58][..], &crc, &size, &size].concat();
        let length = [&(name.len() as u16).to_le_bytes()[..], &[0; 2]].concat();
        file.extend([b"PK\x03\x04", &common[..], &length, name.as_bytes(), bytes].concat());
        directory.extend([b"PK\x01\x02\x14\x03", &common[..], &length, &[0; 6]].concat());
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend([&start.to_le_bytes()[..], name.as_bytes()].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let end = [(directory.len() as u32).to_le_bytes(), (file.len() as u32).to_le_bytes()].concat();
    [&file[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &end, &[0, 0]].concat()
}

/// A wheel of `count` members and its dist-info, whose RECORD lists all of them.
fn wheel(place: &Path, count: usize) {
    let text = |number| format!("text of member {number}, which is long enough to be a program as well").into_bytes();
    let name = |number| format!("package/module_{:03}/file_{number:06}.txt", number / 500);
    let mut members: Vec<_> = (0..count).map(|number| (name(number), text(number))).collect();
    let info = |name: &str| format!("package-1.0.dist-info/{name}");
    members.push((info("METADATA"), b"Metadata-Version: 2.1\nName: package\nVersion: 1.0\n".to_vec()));
    members.push((info("WHEEL"), b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_vec()));
    let line = |(name, text): &(String, Vec<u8>)| {
        format!("{name},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,{}\n", text.len())
    };
    let record = members.iter().map(line).collect::<String>() + &info("RECORD") + ",,\n";
    members.push((info("RECORD"), record.into_bytes()));
    fs::write(place, zipped(&members)).unwrap();
}

/// Visits everything that `find` visits.
fn visit(tree: &Tree, node: NodeId) -> usize {
    if let Some(NodeKind::File { .. }) = tree.node(node).map(|node| &node.kind) {
        tree.body(node).as_ref().and_then(Body::known_size);
    }
    let children: Vec<_> = tree.children(node).into_iter().flatten().map(|child| child.node).collect();
    1 + children.into_iter().map(|child| visit(tree, child)).sum::<usize>()
}

/// Bytes that are allocated after a wheel of `count` members was shown and its tree was walked.
fn held(count: usize) -> usize {
    let place = tempfile::tempdir().unwrap();
    let location = place.path().join("package-1.0-py3-none-any.whl");
    wheel(&location, count);
    let before = TAKEN.load(Ordering::Relaxed);
    let resources = Resources::new(64 << 20);
    let tree = {
        let input = Input::open(&location, &resources).unwrap();
        let options = PlanOptions { databases: Databases::all(), ..PlanOptions::default() };
        let plan = Plan::make(&input, &options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
        let wheels = WheelSet::new(&input, &plan, &WheelOptions::default(), &resources).unwrap();
        lay_out(&input, &plan, wheels.as_ref(), &[]).unwrap()
    };
    assert!(visit(&tree, ROOT) > count);
    TAKEN.load(Ordering::Relaxed) - before
}

/// The limit is 400 bytes in the daemon, including what an allocator wastes.
#[test]
fn a_member_of_a_wheel_takes_less_than_400_bytes() {
    // The first run allocates memory of threads and caches that the process keeps.
    held(100);
    let (few, many) = (held(2000), held(22_000));
    let each = many.saturating_sub(few) / 20_000;
    println!("{each} bytes a member");
    assert!(each <= 360, "{each} bytes a member");
}
