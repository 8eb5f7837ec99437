//! What making frames costs, counted, and which callers wait for what.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::*;
use crate::fatbin::{CodeObject, read_bundle};
use crate::gpu::TargetId;
use crate::index::{FrameStore, Index};
use crate::resources::Resources;
use crate::rope::{Content, Make, ReadError, Rope, Segment};

const LONG: Duration = Duration::from_secs(60);
const TARGETS: [&str; 3] = ["gfx906", "gfx90a", "gfx942"];
/// Wrappers, each with a compressed bundle of its own.
const BUNDLES: u64 = 6;
/// Bytes of a code object. They cannot be compressed well, so that frames take room.
const CODE: u64 = 100_000;
const BUNDLE: u64 = 4096 + 3 * CODE;
/// Frames of one archive.
const OF_ONE: u64 = BUNDLES;
const OF_ALL: u64 = 3 * BUNDLES;

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

/// A compressed bundle (version 2 of CCOB) with these code objects. zstd compresses it as `compress` says.
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

/// With a window of 128 KiB, in several pieces.
fn with_small_window(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(17).unwrap();
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

type Change<'a> = &'a dyn Fn(u64, Arc<dyn Content>) -> Arc<dyn Content>;

/// An archive for each target, out of bundles that `compress` makes and `change` changes.
fn archives_from(resources: &Arc<Resources>, compress: fn(&[u8]) -> Vec<u8>, change: Change) -> Vec<Arc<Archive>> {
    let jobs = BundleJobs::of(resources);
    let mut entries: Vec<_> = TARGETS.iter().map(|_| Vec::new()).collect();
    for wrapper in 0..BUNDLES {
        let objects: Vec<_> =
            (0..).zip(TARGETS).map(|(number, target)| (target, code(wrapper * 10 + number, CODE))).collect();
        let bytes = bundle(&objects, compress);
        let size = bytes.len() as u64;
        let content = change(wrapper, Arc::new(Rope::new([Segment::literal(bytes)]).unwrap()));
        for (object, entries) in read_bundle(&content, 0, size, resources).unwrap().into_iter().zip(&mut entries) {
            let wrapper = usize::try_from(wrapper).unwrap();
            let frame = Arc::new(Frame::new(object, 3, &jobs));
            entries.push(ArchiveEntry { binary: 0, kernel_name: "lib/a.so".into(), wrapper, frame });
        }
    }
    let archive = |(target, entries): (&str, _)| {
        let target: TargetId = target.parse().unwrap();
        Arc::new(Archive::new("torch", target, Compression::default(), entries))
    };
    TARGETS.into_iter().zip(entries).map(archive).collect()
}

fn archives(resources: &Arc<Resources>) -> Vec<Arc<Archive>> {
    archives_from(resources, at_once, &|_, content| content)
}

/// A budget, and a frame store in a directory.
fn with_store(budget: u64, directory: &Path, capacity: u64) -> Arc<Resources> {
    let store = FrameStore::open(Some(directory), &directory.join("a.whl"), Some(capacity));
    Resources::with_store(budget, Index::default(), store)
}

fn read(archive: &Archive) -> Result<Vec<u8>, ReadError> {
    let content = archive.make()?;
    let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
    for (number, piece) in bytes.chunks_mut(10_000).enumerate() {
        content.read_at(number as u64 * 10_000, piece)?;
    }
    Ok(bytes)
}

fn together(archives: &[Arc<Archive>]) -> u64 {
    let done = AtomicU64::new(0);
    make_archives(&archives.iter().map(|archive| &**archive).collect::<Vec<_>>(), &done).unwrap();
    done.into_inner()
}

/// Bundles decompressed, and frames made.
fn work(resources: &Resources, run: impl FnOnce()) -> (u64, u64) {
    let counters = &resources.counters;
    let now = || (counters.bytes_decompressed.get(), counters.frames_made.get());
    let before = now();
    run();
    let after = now();
    assert_eq!((after.0 - before.0) % BUNDLE, 0, "a part of a bundle");
    ((after.0 - before.0) / BUNDLE, after.1 - before.1)
}

/// What archives are like, in the order of the targets.
fn expected() -> Vec<Vec<u8>> {
    archives(&Resources::new(64 << 20)).iter().map(|archive| read(archive).unwrap()).collect()
}

/// Waits until background work has made so many frames.
fn wait_for_frames(resources: &Resources, count: u64) {
    let started = std::time::Instant::now();
    while resources.counters.frames_made.get() < count {
        assert!(started.elapsed() < LONG);
        thread::yield_now();
    }
}

#[test]
fn all_architectures_together_cost_one_decompression_of_each_bundle_and_so_does_one_alone() {
    for budget in [64 << 20, 1 << 20, 100_000, 0] {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(budget, directory.path(), 1 << 30);
        let archives = archives(&resources);
        let size = unmade_size(&archives.iter().map(|archive| &**archive).collect::<Vec<_>>());
        assert_eq!(size, OF_ALL * CODE);
        assert_eq!(work(&resources, || assert_eq!(together(&archives), size)), (BUNDLES, OF_ALL), "budget {budget}");
        assert_eq!(work(&resources, || assert_eq!(together(&archives), 0)), (0, 0));
        let read: Vec<_> = archives.iter().map(|archive| read(archive).unwrap()).collect();
        assert!(read == expected());
    }
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(0, directory.path(), 1 << 30);
    let one = &archives(&resources)[..1];
    assert_eq!(work(&resources, || assert_eq!(together(one), OF_ONE * CODE)), (BUNDLES, OF_ONE));
    assert_eq!(work(&resources, || drop(read(&one[0]).unwrap())), (0, 0), "they are in the store");
}

#[test]
fn one_after_the_other_costs_two_decompressions_whatever_the_memory_is() {
    for budget in [64 << 20, 1 << 20, 0] {
        for order in [[0, 1, 2], [2, 0, 1]] {
            let directory = tempfile::tempdir().unwrap();
            let resources = with_store(budget, directory.path(), 1 << 30);
            let archives = archives(&resources);
            let cost = work(&resources, || {
                for number in order {
                    assert!(read(&archives[number]).unwrap() == expected()[number]);
                    // As if nothing had been asked for in a while.
                    resources.budget.release_idle();
                }
            });
            assert_eq!(cost, (2 * BUNDLES, OF_ALL), "budget {budget}");
        }
    }
}

#[test]
fn one_architecture_makes_no_frame_of_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let archives = archives(&resources);
    read(&archives[1]).unwrap();
    assert_eq!(resources.counters.frames_made.get(), OF_ONE);
    assert_eq!((archives[0].lengths(), archives[2].lengths()), (None, None));
}

#[test]
fn without_a_disk_all_that_fits_into_memory_is_made_at_once() {
    let resources = Resources::new(64 << 20);
    let first = archives(&resources);
    let cost = work(&resources, || {
        read(&first[0]).unwrap();
        wait_for_frames(&resources, OF_ALL);
        for (archive, expected) in first.iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert_eq!(cost, (BUNDLES, OF_ALL));
    // With no memory either it takes longer, and is the same.
    for budget in [0, 1 << 20] {
        for (archive, expected) in archives(&Resources::new(budget)).iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    }
}

#[test]
fn the_next_session_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = with_store(64 << 20, directory.path(), 1 << 30);
    together(&archives(&first));
    first.store.finish();
    let second = with_store(0, directory.path(), 1 << 30);
    let archives = archives(&second);
    let cost = work(&second, || {
        for (archive, expected) in archives.iter().zip(expected()) {
            assert!(archive.made().is_some_and(|content| content.is_prompt(0, expected.len())));
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert_eq!(cost, (0, 0));
}

/// Lengths are remembered longer than frames.
#[test]
fn a_reader_of_a_whole_archive_finds_the_next_frames_made() {
    let made = archives(&Resources::new(64 << 20));
    together(&made);
    for budget in [64 << 20, 1 << 20] {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(budget, directory.path(), 1 << 30);
        let archives = archives(&resources);
        let (archive, lengths) = (&archives[1], made[1].lengths().unwrap());
        assert!(archive.made().is_none());
        assert!(archive.restore_lengths(&lengths));
        let content = archive.made().unwrap();
        let whole = usize::try_from(content.size()).unwrap();
        assert!(!content.is_prompt(0, whole) && content.is_prompt(0, 64));
        let cost = work(&resources, || assert!(read(archive).unwrap() == expected()[1]));
        assert_eq!(cost, (BUNDLES, OF_ONE));
        assert!(content.is_prompt(0, whole));
    }
    // The first read has all of them made.
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let archives = archives(&resources);
    assert!(archives[1].restore_lengths(&made[1].lengths().unwrap()));
    archives[1].make().unwrap().read_at(80, &mut [0; 10]).unwrap();
    wait_for_frames(&resources, OF_ONE);
}

#[test]
fn lengths_that_are_wrong_are_refused_or_fail_but_never_serve() {
    let made = archives(&Resources::new(64 << 20));
    together(&made);
    let right = made[0].lengths().unwrap();
    let archives = archives(&Resources::new(64 << 20));
    let archive = &archives[0];
    assert_eq!(archive.lengths(), None);
    assert!(!archive.restore_lengths(&right[1..]));
    assert!(!archive.restore_lengths(&vec![0; right.len()]));
    assert!(!archive.restore_lengths(&vec![CODE * 2; right.len()]));
    let wrong: Vec<_> = right.iter().map(|length| length - 1).collect();
    assert!(archive.restore_lengths(&wrong));
    assert!(!archive.restore_lengths(&right), "now these are known");
    assert!(matches!(read(archive), Err(ReadError::Changed { .. })));
}

#[test]
fn nothing_is_held_when_nothing_is_going_on() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let archives = archives(&resources);
    read(&archives[0]).unwrap();
    together(&archives);
    resources.budget.release_idle();
    let gauges = resources.budget.gauges();
    assert_eq!((gauges.buffers(), gauges.frames), (0, 0), "{gauges:?}");
}

/// What is in output that is written next is read from a file beside it.
#[test]
fn what_was_spooled_is_read_again_without_work() {
    let directory = tempfile::tempdir().unwrap();
    let resources = Resources::new(0);
    resources.store.spool_to(directory.path());
    let spooled = archives(&resources);
    together(&spooled);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it has no name");
    let cost = work(&resources, || {
        for (archive, expected) in spooled.iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert_eq!(cost, (0, 0));
}

/// Readers of single archives, makers of all, with room for less than one bundle.
#[test]
fn many_readers_and_a_tiny_budget_do_not_stop_each_other() {
    for (budget, capacity) in
        [(0, 0), (0, 1 << 30), (200_000, 0), (200_000, 1 << 30), (16 << 20, 0), (16 << 20, 1 << 20)]
    {
        in_bounded_time(move || {
            let directory = tempfile::tempdir().unwrap();
            let resources = with_store(budget, directory.path(), capacity);
            let (archives, expected) = (archives(&resources), expected());
            thread::scope(|scope| {
                for number in 0..12 {
                    let (archives, expected) = (&archives, &expected);
                    scope.spawn(move || {
                        if number % 4 == 0 {
                            together(archives);
                        }
                        for turn in 0..3 {
                            let number = (number + turn) % 3;
                            assert!(read(&archives[number]).unwrap() == expected[number]);
                        }
                    });
                }
            });
            if capacity == 1 << 30 {
                assert_eq!(resources.counters.frames_made.get(), OF_ALL, "each frame is made once");
            }
            resources.budget.release_idle();
            assert!(resources.budget.gauges().total() <= budget.max(CODE));
        });
    }
}

/// What lets nobody read while it is closed.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it is closed, and how many have come while it was.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        if state.0 {
            state.1 += 1;
            self.changed.notify_all();
        }
        drop(self.changed.wait_while(state, |state| state.0).unwrap());
    }

    fn close(&self) {
        self.state.lock().unwrap().0 = true;
    }

    fn wait_for_somebody(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.1 == 0).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = false;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Gated {
    content: Arc<dyn Content>,
    gate: Arc<Gate>,
}

impl Content for Gated {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.gate.pass();
        self.content.read_at(offset, buffer)
    }
}

/// While one bundle cannot be opened, readers of others are served, and those that come for the same one join its job.
#[test]
fn callers_wait_for_their_bundle_only_and_join_its_job() {
    in_bounded_time(|| {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(64 << 20, directory.path(), 1 << 30);
        let gate = Arc::<Gate>::default();
        let gated = |number, content| -> Arc<dyn Content> {
            if number == 0 { Arc::new(Gated { content, gate: Arc::clone(&gate) }) } else { content }
        };
        let archives = archives_from(&resources, at_once, &gated);
        gate.close();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let cost = work(&resources, || {
            thread::scope(|scope| {
                for archive in &archives {
                    let frame = archive.frames().next().unwrap();
                    scope.spawn(|| frame.bytes().unwrap());
                    gate.wait_for_somebody();
                }
                let second = archives[1].frames().nth(1).unwrap();
                pool.install(|| second.bytes().unwrap());
                gate.open();
            });
        });
        assert_eq!(cost, (2, 4), "the first bundle for three frames, the second for one");
    });
}

#[test]
fn a_damaged_bundle_is_an_error_of_its_frames() {
    let resources = Resources::new(64 << 20);
    let damage = |number, content: Arc<dyn Content>| -> Arc<dyn Content> {
        if number != 3 {
            return content;
        }
        let size = content.size();
        let half = size / 2;
        let head = Segment::range(Arc::clone(&content), 0, half).unwrap();
        Arc::new(Rope::new([head, Segment::zeros(size - half)]).unwrap())
    };
    let archives = archives_from(&resources, at_once, &damage);
    for archive in &archives {
        assert!(matches!(read(archive), Err(ReadError::Damaged { .. })));
        let frames: Vec<_> = archive.frames().map(|frame| frame.bytes().is_ok()).collect();
        assert_eq!(frames, [true, true, true, false, true, true]);
    }
}

/// A bundle that does not fit is decoded in the order of its code objects, if its window is smaller than itself.
#[test]
fn bundles_with_small_windows_are_streamed() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(400_000, directory.path(), 1 << 30);
    let archives = archives_from(&resources, with_small_window, &|_, content| content);
    let decompressed = |run: &dyn Fn()| {
        let before = resources.counters.bytes_decompressed.get();
        run();
        resources.counters.bytes_decompressed.get() - before
    };
    let bytes = decompressed(&|| assert!(read(&archives[0]).unwrap() == expected()[0]));
    assert_eq!(bytes, BUNDLES * (4096 + CODE), "no further than to the end of the first code object");
    let bytes = decompressed(&|| {
        for (archive, expected) in archives.iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert!(bytes <= BUNDLES * BUNDLE, "{bytes}");
    assert_eq!(resources.counters.frames_made.get(), OF_ALL);
    // As they are, without compression.
    for (archive, number) in archives.iter().zip(0..) {
        let object = &archive.entries()[2].frame.object;
        let mut bytes = vec![0; usize::try_from(CODE).unwrap()];
        object.content.read_at(0, &mut bytes).unwrap();
        assert!(bytes == code(20 + number, CODE));
        object.content.read_at(5, &mut bytes[..10]).unwrap();
        assert!(bytes[..10] == code(20 + number, CODE)[5..15]);
    }
}

/// Frames of large code objects do not depend on where the bytes come from, nor on the memory.
#[test]
fn large_code_objects_are_compressed_as_streams() {
    let size = crate::memory::STREAMED + 12_345;
    let mut large = code(7, 1 << 20);
    large.resize(usize::try_from(size).unwrap(), 3);
    let large = [&large[..], &code(8, 1 << 20)].concat();
    let frame_of = |object: CodeObject, resources: &Arc<Resources>| {
        Arc::new(Frame::new(object, 3, &BundleJobs::of(resources))).bytes().unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let target: TargetId = "gfx942".parse().unwrap();
    let raw: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(large.clone())]).unwrap());
    let object = CodeObject { target, content: Arc::clone(&raw), bundle: None, offset: 0 };
    let expected = frame_of(object.clone(), &Resources::new(64 << 20));
    assert_eq!(zstd::bulk::decompress(&expected, large.len()).unwrap(), large);
    assert!(frame_of(object, &with_store(0, directory.path(), 1 << 30)) == expected);
    for compress in [at_once, with_small_window] {
        for budget in [256 << 20, 16 << 20] {
            let bytes = bundle(&[("gfx942", large.clone())], compress);
            let limit = bytes.len() as u64;
            let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
            let resources = with_store(budget, directory.path(), 1 << 30);
            let object = read_bundle(&content, 0, limit, &resources).unwrap().remove(0);
            assert!(frame_of(object, &resources) == expected);
        }
    }
}
