//! Making frames together, ahead of a reader, and within a budget: what it costs is counted, not timed.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::making::{Client, make};
use super::*;
use crate::fatbin::{CodeObject, read_bundle};
use crate::index::{Resources, Spool};
use crate::rope::{Content, Make, ReadError, Rope, Segment};
use crate::target::TargetId;

const LONG: Duration = Duration::from_secs(60);
pub(super) const TARGETS: [&str; 3] = ["gfx906", "gfx90a", "gfx942"];
/// Wrappers, each with a compressed bundle of its own.
pub(super) const BUNDLES: u64 = 6;
/// Bytes of a code object. They cannot be compressed well, so that frames take room.
pub(super) const CODE: u64 = 100_000;

/// Fails instead of hanging if `work` does not end.
pub(super) fn in_bounded_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    finished.recv_timeout(LONG).expect("threads wait for each other")
}

pub(super) fn code(seed: u64, size: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0] & 0x3F
    };
    (0..size).map(|_| next()).collect()
}

/// A compressed bundle (version 2 of CCOB) with a code object of `size` bytes for each target.
fn bundle(seed: u64, targets: &[&str], size: u64) -> Vec<u8> {
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((targets.len() as u64).to_le_bytes());
    let mut payload = Vec::new();
    for (number, target) in (0..).zip(targets) {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        for field in [4096 + payload.len() as u64, size, id.len() as u64] {
            table.extend(field.to_le_bytes());
        }
        table.extend(id.as_bytes());
        payload.extend(code(seed * 10 + number, size));
    }
    table.resize(4096, 0);
    table.extend(payload);
    let body = zstd::bulk::compress(&table, 1).unwrap();
    let mut bytes = b"CCOB\x02\0\x01\0".to_vec();
    for size in [24 + body.len(), table.len()] {
        bytes.extend(u32::try_from(size).unwrap().to_le_bytes());
    }
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

pub(super) const BUNDLE: u64 = 4096 + 3 * CODE;

/// An archive for each target.
fn archives(resources: &Arc<Resources>) -> Vec<Arc<Archive>> {
    archives_for(&TARGETS, resources)
}

pub(super) fn archives_for(targets: &[&str], resources: &Arc<Resources>) -> Vec<Arc<Archive>> {
    archives_of(targets, resources, |object| object)
}

/// The same with changed code objects.
pub(super) fn archives_of(
    targets: &[&str],
    resources: &Arc<Resources>,
    change: impl Fn(CodeObject) -> CodeObject,
) -> Vec<Arc<Archive>> {
    archives_from(targets, resources, |_, content| content, |_, object| change(object))
}

/// The same with changed bundles, too. Both changes are given the number of the bundle.
pub(super) fn archives_from(
    targets: &[&str],
    resources: &Arc<Resources>,
    change_bundle: impl Fn(u64, Arc<dyn Content>) -> Arc<dyn Content>,
    change: impl Fn(u64, CodeObject) -> CodeObject,
) -> Vec<Arc<Archive>> {
    let mut entries: Vec<_> = targets.iter().map(|_| Vec::new()).collect();
    for wrapper in 0..BUNDLES {
        let bytes = bundle(wrapper, targets, CODE);
        let size = bytes.len() as u64;
        let content = change_bundle(wrapper, Arc::new(Rope::new([Segment::literal(bytes)]).unwrap()));
        let objects = read_bundle(&content, 0, size, resources).unwrap();
        for (object, entries) in objects.into_iter().zip(&mut entries) {
            let frame = Arc::new(Frame::new(change(wrapper, object), 3, resources));
            let wrapper = usize::try_from(wrapper).unwrap();
            entries.push(ArchiveEntry { binary: 0, kernel_name: "lib/a.so".into(), wrapper, frame });
        }
    }
    let archive = |(target, entries): (&&str, _)| {
        let target: TargetId = target.parse().unwrap();
        Arc::new(Archive::new("torch", target, Compression::default(), entries))
    };
    targets.iter().zip(entries).map(archive).collect()
}

pub(super) fn read(archive: &Archive) -> Result<Vec<u8>, ReadError> {
    let content = archive.make()?;
    let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
    for (number, piece) in bytes.chunks_mut(10_000).enumerate() {
        content.read_at(number as u64 * 10_000, piece)?;
    }
    Ok(bytes)
}

pub(super) fn together(archives: &[Arc<Archive>]) -> u64 {
    let done = AtomicU64::new(0);
    make_together(&archives.iter().map(|archive| &**archive).collect::<Vec<_>>(), &done).unwrap();
    done.into_inner()
}

/// Bytes decompressed, bytes compressed, and frames made, without what planning costs.
pub(super) fn work(resources: &Resources, run: impl FnOnce()) -> (u64, u64, u64) {
    let counters = &resources.counters;
    let now = || (counters.bytes_decompressed.get(), counters.bytes_compressed.get(), counters.frames_made.get());
    let before = now();
    run();
    let after = now();
    (after.0 - before.0, after.1 - before.1, after.2 - before.2)
}

#[test]
fn every_architecture_costs_one_decompression_of_each_bundle_and_so_does_one_alone() {
    let all = (BUNDLES * BUNDLE, 3 * BUNDLES * CODE, 3 * BUNDLES);
    for budget in [64 << 20, 1 << 20, 100_000, 0] {
        let resources = Resources::new(budget);
        let archives = archives(&resources);
        let size = unmade_size(&archives.iter().map(|archive| &**archive).collect::<Vec<_>>());
        assert_eq!(size, 3 * BUNDLES * CODE);
        assert_eq!(work(&resources, || assert_eq!(together(&archives), size)), all, "budget {budget}");
        assert_eq!(work(&resources, || assert_eq!(together(&archives), 0)), (0, 0, 0));
    }
    let resources = Resources::new(64 << 20);
    let one = &archives(&resources)[..1];
    assert_eq!(
        work(&resources, || assert_eq!(together(one), BUNDLES * CODE)),
        (BUNDLES * BUNDLE, BUNDLES * CODE, BUNDLES)
    );
    assert_eq!(work(&resources, || drop(read(&one[0]).unwrap())), (0, 0, 0), "they are in the cache");
}

#[test]
fn nothing_is_held_when_nothing_is_going_on() {
    let resources = Resources::new(64 << 20);
    let archives = archives(&resources);
    together(&archives);
    for archive in &archives {
        read(archive).unwrap();
    }
    resources.budget.release_idle();
    let gauges = resources.budget.gauges();
    assert_eq!(gauges.buffers(), 0, "{gauges:?}");
    assert_eq!(gauges.frames, resources.frames.bytes());
    let lengths: u64 = archives.iter().flat_map(|archive| archive.lengths().unwrap()).sum();
    assert!((lengths..lengths * 2).contains(&gauges.frames), "{gauges:?}");
}

/// A frame is read in many pieces, so it must survive between them.
#[test]
fn frames_ahead_are_made_once_and_only_as_far_as_they_fit() {
    let first = Resources::new(64 << 20);
    let made: Vec<_> = archives(&first);
    together(&made);
    for budget in [64 << 20, 16 << 20] {
        let resources = Resources::new(budget);
        let archives = archives(&resources);
        let (archive, lengths) = (&archives[1], made[1].lengths().unwrap());
        assert!(archive.made().is_none());
        assert!(archive.recall(&lengths));
        assert_eq!(archive.made().unwrap().size(), read(&made[1]).unwrap().len() as u64);
        let content = archive.made().unwrap();
        let whole = usize::try_from(content.size()).unwrap();
        assert!(!content.is_prompt(0, whole) && content.is_prompt(0, 64));
        let expected = read(&made[1]).unwrap();
        let cost = work(&resources, || assert!(read(archive).unwrap() == expected));
        assert_eq!(cost, (BUNDLES * BUNDLE, BUNDLES * CODE, BUNDLES));
        assert!(content.is_prompt(0, whole));
    }
    // Whoever reads the first frame gets others made, also without reading any further.
    let resources = Resources::new(64 << 20);
    let archives = archives(&resources);
    assert!(archives[1].recall(&made[1].lengths().unwrap()));
    let content = archives[1].make().unwrap();
    content.read_at(80, &mut [0; 10]).unwrap();
    let started = std::time::Instant::now();
    while resources.counters.frames_made.get() < BUNDLES {
        assert!(started.elapsed() < LONG);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn lengths_that_are_wrong_are_refused_or_fail_but_never_serve() {
    let made = archives(&Resources::new(64 << 20));
    together(&made);
    let right = made[0].lengths().unwrap();
    let archives = archives(&Resources::new(64 << 20));
    let archive = &archives[0];
    assert_eq!(archive.lengths(), None);
    assert!(!archive.recall(&right[1..]));
    assert!(!archive.recall(&vec![0; right.len()]));
    assert!(!archive.recall(&vec![CODE * 2; right.len()]));
    let wrong: Vec<_> = right.iter().map(|length| length - 1).collect();
    assert!(archive.recall(&wrong));
    assert!(!archive.recall(&right), "now these are known");
    assert!(matches!(read(archive), Err(ReadError::Changed { .. })));
}

#[test]
fn what_was_put_aside_is_read_again_without_work() {
    let directory = tempfile::tempdir().unwrap();
    // No room for any frame but the last.
    let resources = Resources::new(0);
    resources.spool.set(Spool::new(directory.path()).unwrap()).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it has no name");
    let spooled = archives(&resources);
    together(&spooled);
    let resources_of_others = Resources::new(64 << 20);
    let others = archives(&resources_of_others);
    let cost = work(&resources, || {
        for (archive, other) in spooled.iter().zip(&others) {
            assert!(read(archive).unwrap() == read(other).unwrap());
            let content = archive.make().unwrap();
            assert!(content.is_prompt(0, usize::try_from(content.size()).unwrap()));
        }
    });
    assert_eq!(cost, (0, 0, 0));
}

/// Readers of single archives, makers of all, with room for less than one bundle.
#[test]
fn many_readers_and_a_tiny_budget_do_not_stop_each_other() {
    for budget in [0, 200_000, 16 << 20] {
        in_bounded_time(move || {
            let resources = Resources::new(budget);
            let archives = archives(&resources);
            thread::scope(|scope| {
                for number in 0..12 {
                    let archives = &archives;
                    scope.spawn(move || {
                        if number % 4 == 0 {
                            together(archives);
                        }
                        for turn in 0..3 {
                            read(&archives[(number + turn) % 3]).unwrap();
                        }
                    });
                }
            });
            resources.budget.release_idle();
            assert!(resources.budget.gauges().total() <= budget.max(CODE));
        });
    }
}

/// Readers who have come to these frames.
struct Readers(Vec<Arc<Frame>>);

impl Client for Readers {
    fn awaited(&self) -> Vec<Arc<Frame>> {
        self.0.clone()
    }
}

#[test]
fn what_a_reader_waits_for_is_made_of_a_bundle_that_is_decompressed_for_others() {
    let resources = Resources::new(64 << 20);
    let archives = archives(&resources);
    let frames: Vec<_> = archives[0].frames().skip(1).cloned().collect();
    let of_second: Vec<_> = archives[1].frames().take(2).cloned().collect();
    let readers = Readers(of_second.clone());
    let cost = work(&resources, || make(frames, 1, &readers).unwrap());
    assert_eq!(cost, ((BUNDLES - 1) * BUNDLE, BUNDLES * CODE, BUNDLES));
    let are_there: Vec<_> = of_second.iter().map(|frame| frame.is_there()).collect();
    assert_eq!(are_there, [false, true], "nobody decompresses the first bundle");
}

/// Code objects of one bundle, where the first one to be read waits until a second one is.
#[derive(Debug, Default)]
struct Meeting {
    /// How many are being read, and whether two were at the same time.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

#[derive(Debug)]
struct Attending {
    content: Arc<dyn Content>,
    meeting: Arc<Meeting>,
}

impl Content for Attending {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut state = self.meeting.state.lock().unwrap();
        state.0 += 1;
        state.1 |= state.0 > 1;
        self.meeting.changed.notify_all();
        let (mut state, waiting) = self.meeting.changed.wait_timeout_while(state, LONG, |state| !state.1).unwrap();
        state.0 -= 1;
        assert!(!waiting.timed_out(), "the other threads have nothing to do");
        drop(state);
        self.content.read_at(offset, buffer)
    }
}

/// While there is memory for one bundle only, a thread that waited for the next would leave all of this one's work to the
/// other.
#[test]
fn all_threads_work_on_the_only_bundle_that_there_is_memory_for() {
    let bases = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx900", "gfx902", "gfx909"];
    let features = ["", ":sramecc+", ":sramecc-", ":xnack+", ":xnack-", ":sramecc+:xnack+", ":sramecc-:xnack-"];
    let targets: Vec<_> = bases.iter().flat_map(|base| features.map(|features| format!("{base}{features}"))).collect();
    let targets: Vec<_> = targets.iter().map(String::as_str).collect();
    let size = 4096 + targets.len() as u64 * 3 * CODE;
    let compression = Resources::new(0).compressors.memory_for(3 * CODE);
    // The caches' shares are a sixteenth.
    let budget = (size + 2 * compression) * 16 / 15 + 1000;
    assert!(2 * size + budget / 16 > budget, "two bundles fit into {budget} bytes");
    let resources = Resources::new(budget);
    let frames = (0..4).flat_map(|seed| {
        let bytes = bundle(seed, &targets, 3 * CODE);
        let length = bytes.len() as u64;
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
        let meeting = Arc::<Meeting>::default();
        let objects = read_bundle(&content, 0, length, &resources).unwrap();
        let attending = |object: CodeObject| {
            let content = Arc::new(Attending { content: object.content, meeting: Arc::clone(&meeting) });
            Arc::new(Frame::new(CodeObject { content, ..object }, 1, &resources))
        };
        objects.into_iter().map(attending).collect::<Vec<_>>()
    });
    let frames: Vec<_> = frames.collect();
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    in_bounded_time(move || two.install(|| make(frames, 2, &AtomicU64::new(0))).unwrap());
    assert_eq!(resources.counters.bytes_decompressed.get() / size, 4);
}
