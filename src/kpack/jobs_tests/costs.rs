//! The costs of making frames, measured by counters.

use super::*;
use crate::fatbin::CodeObject;
use crate::rope::read_all;
use crate::source::testing::{content_of, open_wheel, packed, zipped};

#[test]
fn all_architectures_together_cost_one_decompression_of_each_bundle_and_one_alone_that_of_its_beginning() {
    for budget in [64 << 20, 1 << 20, 100_000, 0] {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(budget, directory.path(), 1 << 30);
        let archives = archives(&resources);
        let size = unmade_size(&archives.iter().map(|archive| &**archive).collect::<Vec<_>>());
        assert_eq!(size, FRAMES_OF_ALL * CODE);
        assert_eq!(
            work(&resources, || assert_eq!(together(&archives), size)),
            (WHOLE, FRAMES_OF_ALL),
            "budget {budget}"
        );
        assert_eq!(work(&resources, || assert_eq!(together(&archives), 0)), (0, 0));
        let read: Vec<_> = archives.iter().map(|archive| read(archive).unwrap()).collect();
        assert!(read == expected());
    }
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(0, directory.path(), 1 << 30);
    let one = &archives(&resources)[..1];
    let (bytes, made) = work(&resources, || assert_eq!(together(one), FRAMES_OF_ONE * CODE));
    assert!((up_to(0)..WHOLE).contains(&bytes) && made == FRAMES_OF_ONE, "{bytes} bytes, {made} frames");
    assert_eq!(work(&resources, || drop(read(&one[0]).unwrap())), (0, 0), "they are in the store");
}

#[test]
fn one_after_the_other_costs_at_most_two_decompressions_whatever_the_memory_is() {
    for budget in [64 << 20, 1 << 20, 0] {
        // The code object of the last target ends where the bundle ends.
        for (order, least, most) in
            [([0, 1, 2], WHOLE + up_to(0), 2 * WHOLE - 1), ([2, 0, 1], WHOLE + up_to(1), 2 * WHOLE)]
        {
            let directory = tempfile::tempdir().unwrap();
            let resources = with_store(budget, directory.path(), 1 << 30);
            let archives = archives(&resources);
            let (bytes, made) = work(&resources, || {
                for number in order {
                    assert!(read(&archives[number]).unwrap() == expected()[number]);
                    // The state after a while without requests.
                    resources.budget.release_idle();
                }
            });
            assert!(
                (least..=most).contains(&bytes) && made == FRAMES_OF_ALL,
                "budget {budget}: {bytes} bytes, {made} frames"
            );
        }
    }
}

#[test]
fn one_architecture_makes_no_frame_of_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let archives = archives(&resources);
    read(&archives[1]).unwrap();
    assert_eq!(resources.counters.frames_made.get(), FRAMES_OF_ONE);
    assert_eq!((archives[0].lengths(), archives[2].lengths()), (None, None));
}

#[test]
fn without_a_disk_a_frame_larger_than_the_cache_is_made_once_for_all_pieces_of_it() {
    // Half of it is the cache's capacity.
    let resources = Resources::new(CODE);
    let archive = &archives(&resources)[0];
    archive.make().unwrap();
    let (_, made) = work(&resources, || assert!(read(archive).unwrap() == expected()[0]));
    let lengths = archive.lengths().unwrap();
    assert!(lengths.iter().all(|length| *length > CODE / 2), "{lengths:?}");
    assert!(made <= FRAMES_OF_ONE, "{made} frames made");
}

#[test]
fn without_a_disk_all_that_fits_into_memory_is_made_at_once() {
    let resources = Resources::new(64 << 20);
    let first = archives(&resources);
    let cost = work(&resources, || {
        read(&first[0]).unwrap();
        wait_for_frames(&resources, FRAMES_OF_ALL);
        for (archive, expected) in first.iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert_eq!(cost, (WHOLE, FRAMES_OF_ALL));
    // Without memory it takes longer, and the result is the same.
    for budget in [0, 1 << 20] {
        for (archive, expected) in archives(&Resources::new(budget)).iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    }
}

#[test]
fn without_room_for_all_each_bundle_is_decompressed_twice_for_all_archives() {
    let (bundles, targets, size) = (12, 3, 1 << 20);
    let shared = code(1, size);
    let code = |number: u64| [&number.to_le_bytes(), &*shared].concat();
    let of = |resources: &Arc<Resources>| {
        archives_of(bundles, &code, &BundleJobs::new(resources), at_once, &|_, content| content)
    };
    let resources = Resources::new(16 << 20);
    let archives = of(&resources);
    let all = bundles * targets * (size + 8);
    let cost = (bundles * 4096 + all, bundles * targets);
    assert_eq!(work(&resources, || assert_eq!(together(&archives), all)), cost);
    let archives: Vec<_> = archives.iter().map(|archive| &**archive).collect();
    let mut found = vec![Vec::new(); archives.len()];
    let read_all = || read_together(&archives, |number, piece| found[number].extend_from_slice(piece)).unwrap();
    let (bytes, made) = work(&resources, read_all);
    assert!((cost.0 / 2..=cost.0).contains(&bytes) && made <= cost.1, "{bytes} bytes, {made} frames");
    let expected: Vec<_> = of(&Resources::new(256 << 20)).iter().map(|archive| read(archive).unwrap()).collect();
    assert!(found == expected);
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
            assert!(archive.made().is_some_and(|content| content.is_nonblocking(0, expected.len())));
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert_eq!(cost, (0, 0));
}

#[test]
fn lengths_that_the_index_has_need_no_frame_store() {
    let directory = tempfile::tempdir().unwrap();
    let first = with_store(64 << 20, directory.path(), 1 << 30);
    let made = archives(&first);
    together(&made);
    first.store.finish();
    let archive = &archives(&with_store(0, directory.path(), 1 << 30))[0];
    assert!(archive.restore_lengths(&made[0].lengths().unwrap()));
    std::fs::remove_dir_all(directory.path()).unwrap();
    assert!(archive.frames().all(|frame| frame.made().is_none()), "the store was read before");
}

/// The lengths of frames outlive the frames.
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
        assert!(!content.is_nonblocking(0, whole) && content.is_nonblocking(0, 64));
        let (bytes, made) = work(&resources, || assert!(read(archive).unwrap() == expected()[1]));
        assert!((up_to(1)..=WHOLE).contains(&bytes) && made == FRAMES_OF_ONE, "{bytes} bytes, {made} frames");
        assert!(content.is_nonblocking(0, whole));
    }
    // The first read makes all of them.
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let archives = archives(&resources);
    assert!(archives[1].restore_lengths(&made[1].lengths().unwrap()));
    archives[1].make().unwrap().read_at(80, &mut [0; 10]).unwrap();
    wait_for_frames(&resources, FRAMES_OF_ONE);
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

/// Frames of an output directory are read from a file in it.
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

/// Bytes of each code object of [`of_many_targets`], and how many an archive has.
const OBJECT: u64 = 64 << 10;
const ROUNDS: u64 = 8;
const MANY: &str =
    "gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1010 gfx1011 gfx1012 gfx1030 gfx1031 gfx1032 gfx1100 gfx1101";

fn size_of_many() -> u64 {
    MANY.split(' ').count() as u64 * ROUNDS * OBJECT
}

/// An archive for each of many targets, whose code objects alternate in a file.
fn of_many_targets(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Vec<ArchiveRope> {
    let jobs = BundleJobs::new(resources);
    let targets: Vec<TargetId> = MANY.split(' ').map(|name| name.parse().unwrap()).collect();
    let mut entries: Vec<_> = targets.iter().map(|_| Vec::new()).collect();
    for (number, offset) in (0..size_of_many()).step_by(to_usize(OBJECT)).enumerate() {
        let (wrapper, target) = (number / targets.len(), number % targets.len());
        let object = Rope::new([Segment::range(Arc::clone(content), offset, OBJECT).unwrap()]).unwrap();
        let object = CodeObject { offset, ..CodeObject::new(targets[target].clone(), Arc::new(object)) };
        let frame = Arc::new(Frame::new(object, 3, resources));
        let entry = ArchiveEntry { binary: 0, kernel_name: "x".into(), wrapper: Some(wrapper), frame };
        entries[target].push(entry);
    }
    let archive = |(target, entries): (&TargetId, _)| {
        ArchiveRope::new("x", target.clone(), Compression::default(), entries, &jobs)
    };
    targets.iter().zip(entries).map(archive).collect()
}

#[test]
fn archives_of_a_deflated_file_inflate_it_a_few_times_however_many_there_are() {
    let size = size_of_many();
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(1 << 23, directory.path(), 1 << 30);
    let input = open_wheel(&zipped(&[packed("x/lib.so", &code(1, size))]), &resources).unwrap();
    let archives = of_many_targets(&content_of(&input, "x/lib.so"), &resources);
    let inflated = || resources.counters.bytes_inflated.get();
    archives[0].make().unwrap();
    assert_eq!(resources.counters.frames_made.get(), ROUNDS, "one alone costs the code of one");
    for archive in &archives {
        archive.make().unwrap();
    }
    assert_eq!(resources.counters.frames_made.get(), ROUNDS * archives.len() as u64);
    assert!(inflated() <= 5 * size, "{} of {size}", inflated());
}

/// A file whose reads wait until all of another one was read.
#[derive(Debug)]
struct ReadBeside {
    file: Arc<dyn Content>,
    other: Arc<dyn Content>,
}

impl Content for ReadBeside {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        read_all(&*self.other, |_| ())?;
        self.file.read_at(offset, buffer)
    }

    fn inflated(&self) -> u64 {
        self.file.inflated()
    }
}

#[test]
fn what_readers_of_other_files_inflate_is_no_reason_to_make_all_archives() {
    let size = size_of_many();
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(1 << 23, directory.path(), 1 << 30);
    let members = [packed("x/lib.so", &code(1, size)), packed("x/other", &code(2, 8 << 20))];
    let input = open_wheel(&zipped(&members), &resources).unwrap();
    let [file, other] = ["x/lib.so", "x/other"].map(|name| content_of(&input, name));
    let content: Arc<dyn Content> = Arc::new(ReadBeside { file: Arc::clone(&file), other: Arc::clone(&other) });
    let archives = of_many_targets(&content, &resources);
    archives[0].make().unwrap();
    assert!(other.inflated() > size && file.inflated() < size);
    archives[1].make().unwrap();
    assert_eq!(resources.counters.frames_made.get(), 2 * ROUNDS);
    archives[2].make().unwrap();
    assert_eq!(resources.counters.frames_made.get(), ROUNDS * archives.len() as u64, "the file was inflated twice");
}
