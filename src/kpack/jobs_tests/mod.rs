//! Shared helpers for tests of [`BundleJobs`]: bundles, archives of them, and counts of the work done.

mod bundles;
mod callers;
mod costs;
mod equal;
#[cfg(feature = "shuttle")]
mod schedules;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::*;
use crate::fatbin::read_bundle;
use crate::gpu::TargetId;
use crate::index::{FrameStore, Index};
use crate::resources::{Resources, WorkPolicy};
use crate::rope::{Content, Materialize, ReadError, Rope, Segment, to_usize};

impl BundleJobs {
    /// The bytes of a frame.
    fn bytes(self: &Arc<Self>, frame: &Arc<Frame>) -> Result<Vec<u8>, ReadError> {
        let length = self.get(frame)?.length();
        let mut bytes = vec![0; to_usize(length)];
        self.read_at(frame, length, 0, &mut bytes)?;
        Ok(bytes)
    }
}

const LONG: Duration = Duration::from_secs(300);
const TARGETS: [&str; 3] = ["gfx906", "gfx90a", "gfx942"];
/// Wrappers, each with a compressed bundle of its own.
const BUNDLES: u64 = 6;
/// Bytes of a code object. They do not compress well, so frames take room.
const CODE: u64 = 100_000;
const BUNDLE: u64 = 4096 + 3 * CODE;
/// Bytes of all bundles.
const WHOLE: u64 = BUNDLES * BUNDLE;
/// Number of frames of one archive.
const FRAMES_OF_ONE: u64 = BUNDLES;
const FRAMES_OF_ALL: u64 = 3 * BUNDLES;

/// Fails instead of hanging if `work` does not end.
fn in_bounded_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    finished.recv_timeout(LONG).expect("threads wait for each other")
}

fn code(seed: u64, size: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0] & 0x3F
    };
    (0..size).map(|_| next()).collect()
}

/// A compressed bundle (version 2 of CCOB) with these code objects, compressed by `compress`.
fn bundle(objects: &[(&str, Vec<u8>)], compress: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((objects.len() as u64).to_le_bytes());
    let mut payload = Vec::<u8>::new();
    for (target, code) in objects {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        for field in [4096 + payload.len(), code.len(), id.len()] {
            table.extend((field as u64).to_le_bytes());
        }
        table.extend(id.as_bytes());
        payload.extend(code);
    }
    table.resize(4096, 0);
    table.extend(payload);
    let body = compress(&table);
    let mut bytes = b"CCOB\x02\0\x01\0".to_vec();
    for size in [24 + body.len(), table.len()] {
        bytes.extend(u32::try_from(size).unwrap().to_le_bytes());
    }
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

fn at_once(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

/// zstd with a window of 128 KiB, in several pieces.
fn with_small_window(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(17).unwrap();
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

type Wrap<'a> = &'a dyn Fn(u64, Arc<dyn Content>) -> Arc<dyn Content>;

/// An archive for each target, of bundles that `compress` compresses and `change` modifies.
fn archives_from(resources: &Arc<Resources>, compress: fn(&[u8]) -> Vec<u8>, change: Wrap) -> Vec<Arc<ArchiveRope>> {
    archives_with(&BundleJobs::new(resources), compress, change)
}

fn archives_with(jobs: &Arc<BundleJobs>, compress: fn(&[u8]) -> Vec<u8>, change: Wrap) -> Vec<Arc<ArchiveRope>> {
    archives_of(BUNDLES, &|number| code(number, CODE), jobs, compress, change)
}

/// The same with so many bundles of other code, which depends on a number.
fn archives_of(
    bundles: u64,
    code: &dyn Fn(u64) -> Vec<u8>,
    jobs: &Arc<BundleJobs>,
    compress: fn(&[u8]) -> Vec<u8>,
    change: Wrap,
) -> Vec<Arc<ArchiveRope>> {
    let resources = jobs.resources();
    let mut entries: Vec<_> = TARGETS.iter().map(|_| Vec::new()).collect();
    for wrapper in 0..bundles {
        let objects: Vec<_> =
            (0..).zip(TARGETS).map(|(number, target)| (target, code(wrapper * 10 + number))).collect();
        let bytes = bundle(&objects, compress);
        let size = bytes.len() as u64;
        let content = change(wrapper, Arc::new(Rope::new([Segment::literal(bytes)]).unwrap()));
        for (object, entries) in read_bundle(&content, 0, size, resources).unwrap().into_iter().zip(&mut entries) {
            let wrapper = usize::try_from(wrapper).unwrap();
            let frame = Arc::new(Frame::new(object, 3, resources));
            entries.push(ArchiveEntry { binary: 0, kernel_name: "lib/a.so".into(), wrapper: Some(wrapper), frame });
        }
    }
    let archive = |(target, entries): (&str, _)| {
        let target: TargetId = target.parse().unwrap();
        Arc::new(ArchiveRope::new("torch", target, Compression::default(), entries, jobs))
    };
    TARGETS.into_iter().zip(entries).map(archive).collect()
}

fn archives(resources: &Arc<Resources>) -> Vec<Arc<ArchiveRope>> {
    archives_from(resources, at_once, &|_, content| content)
}

/// Resources with a budget and a frame store in a directory.
fn with_store(budget: u64, directory: &Path, capacity: u64) -> Arc<Resources> {
    let store = FrameStore::open(Some(directory), &directory.join("a.whl"), Some(capacity));
    Resources::with_store(budget, Index::default(), store, WorkPolicy::default())
}

fn read(archive: &ArchiveRope) -> Result<Vec<u8>, ReadError> {
    let content = archive.make()?;
    let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
    for (number, piece) in bytes.chunks_mut(10_000).enumerate() {
        content.read_at(number as u64 * 10_000, piece)?;
    }
    Ok(bytes)
}

fn together(archives: &[Arc<ArchiveRope>]) -> u64 {
    let done = AtomicU64::new(0);
    make_archives(&archives.iter().map(|archive| &**archive).collect::<Vec<_>>(), &done).unwrap();
    done.into_inner()
}

/// Bytes decompressed and frames made during `run`.
fn work(resources: &Resources, run: impl FnOnce()) -> (u64, u64) {
    let counters = &resources.counters;
    let now = || (counters.bytes_decompressed.get(), counters.frames_made.get());
    let before = now();
    run();
    let after = now();
    (after.0 - before.0, after.1 - before.1)
}

/// Bytes of all bundles up to the end of a target's code object.
fn up_to(target: u64) -> u64 {
    BUNDLES * (4096 + (target + 1) * CODE)
}

/// The expected archives, in the order of the targets.
fn expected() -> Vec<Vec<u8>> {
    archives(&Resources::new(64 << 20)).iter().map(|archive| read(archive).unwrap()).collect()
}

/// Waits until background work has made this many frames.
fn wait_for_frames(resources: &Resources, count: u64) {
    let started = std::time::Instant::now();
    while resources.counters.frames_made.get() < count {
        assert!(started.elapsed() < LONG);
        thread::yield_now();
    }
}
