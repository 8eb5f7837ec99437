//! Which archives are made together, and how often bundles are decompressed for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::making_tests::{BUNDLES, CODE, TARGETS, archives_for, archives_of, in_bounded_time, read, together, work};
use super::*;
use crate::fatbin::CodeObject;
use crate::index::Resources;
use crate::rope::{Content, Make, ReadError};

fn related(targets: &[&str], resources: &Arc<Resources>) -> Vec<Arc<Archive>> {
    related_with(targets, resources, |object| object)
}

fn related_with(
    targets: &[&str],
    resources: &Arc<Resources>,
    change: impl Fn(CodeObject) -> CodeObject,
) -> Vec<Arc<Archive>> {
    relate(archives_of(targets, resources, change))
}

pub(super) fn relate(archives: Vec<Arc<Archive>>) -> Vec<Arc<Archive>> {
    Siblings::relate(&archives.iter().cloned().enumerate().collect::<Vec<_>>());
    archives
}

const MANY_TARGETS: [&str; 7] = ["gfx1030", "gfx1100", "gfx1200", "gfx906", "gfx908", "gfx90a", "gfx942"];

/// Budgets with room for none, 2, 3 and 7 archives of 75 % of their original size, beside one bundle, one compressor,
/// and the shares of caches; and how often each bundle is decompressed for all seven archives: for the first one alone,
/// and then for as many at a time as fit.
const ROOMS: [(u64, u64); 4] = [(6_000_000, 7), (7_500_000, 4), (8_000_000, 3), (64 << 20, 2)];

pub(super) fn with_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

/// How often each bundle is decompressed when archives are read in this order.
fn decompressions(resources: &Resources, archives: &[Arc<Archive>], order: impl Iterator<Item = usize>) -> u64 {
    let whole = BUNDLES * (4096 + archives.len() as u64 * CODE);
    let cost = work(resources, || {
        for number in order {
            read(&archives[number]).unwrap();
            // As if nobody had asked for anything for a while.
            resources.budget.release_idle();
        }
    });
    assert_eq!(cost.0 % whole, 0, "{} of {whole}", cost.0);
    assert_eq!(cost.2, BUNDLES * archives.len() as u64, "each code object is compressed once");
    cost.0 / whole
}

#[test]
fn all_architectures_cost_as_many_decompressions_as_there_is_room_for_parts_of_them() {
    with_one_thread(|| {
        for (budget, expected) in ROOMS {
            let resources = Resources::new(budget);
            let archives = related(&MANY_TARGETS, &resources);
            assert_eq!(decompressions(&resources, &archives, 0..7), expected, "budget {budget}");
            assert!(resources.frames.bytes() <= resources.frames.capacity());
            let resources = Resources::new(budget);
            let archives = related(&MANY_TARGETS, &resources);
            let from_within = [4, 5, 6, 0, 1, 2, 3];
            assert_eq!(decompressions(&resources, &archives, from_within.into_iter()), expected, "budget {budget}");
        }
    });
}

#[test]
fn so_they_do_when_their_lengths_are_known_from_another_session() {
    let first = Resources::new(64 << 20);
    let made = archives_for(&MANY_TARGETS, &first);
    together(&made);
    with_one_thread(|| {
        for (budget, expected) in ROOMS.into_iter().skip(1) {
            let resources = Resources::new(budget);
            let archives = related(&MANY_TARGETS, &resources);
            for (archive, made) in archives.iter().zip(&made) {
                assert!(archive.recall(&made.lengths().unwrap()));
            }
            assert_eq!(decompressions(&resources, &archives, 0..7), expected, "budget {budget}");
        }
    });
}

#[test]
fn readers_of_all_views_and_little_memory_do_not_stop_each_other() {
    for budget in [0, 6_000_000, 7_500_000, 16 << 20] {
        in_bounded_time(move || {
            let expected = archives_for(&MANY_TARGETS, &Resources::new(64 << 20));
            let expected: Vec<_> = expected.iter().map(|archive| read(archive).unwrap()).collect();
            let resources = Resources::new(budget);
            let archives = related(&MANY_TARGETS, &resources);
            thread::scope(|scope| {
                for reader in 0..6 {
                    let (archives, expected) = (&archives, &expected);
                    scope.spawn(move || {
                        for turn in 0..14 {
                            let number = (reader * 2 + turn) % 7;
                            assert!(read(&archives[number]).unwrap() == expected[number], "archive {number}");
                        }
                    });
                }
            });
            resources.budget.release_idle();
            assert!(resources.budget.gauges().total() <= budget.max(CODE));
        });
    }
}

#[test]
fn who_asks_for_a_second_architecture_is_given_all() {
    for is_roomy in [true, false] {
        let resources = Resources::new(if is_roomy { 64 << 20 } else { 1 << 20 });
        let archives = related(&TARGETS, &resources);
        let made = |archive: &Archive| {
            archive.make().unwrap();
            // As if nobody had asked for anything for a while.
            resources.budget.release_idle();
            (resources.counters.frames_made.get(), resources.counters.bytes_decompressed.get())
        };
        let [first, second, third] = [0, 1, 2].map(|number: usize| made(&archives[number]));
        let all = BUNDLES * TARGETS.len() as u64;
        // With too little memory to keep all of them each is made alone.
        let expected = if is_roomy { [BUNDLES, all, all] } else { [BUNDLES, BUNDLES * 2, all] };
        assert_eq!([first.0, second.0, third.0], expected);
        assert_eq!(second.1 == third.1, is_roomy, "{second:?} {third:?}");
    }
}

#[test]
fn who_has_looked_into_other_directories_is_given_all_at_once() {
    with_one_thread(|| {
        let resources = Resources::new(64 << 20);
        let archives = related(&MANY_TARGETS, &resources);
        for archive in &archives {
            archive.expect();
        }
        assert_eq!(decompressions(&resources, &archives, 0..7), 1);
    });
}

/// Tells that others are there when it is read for the first time.
#[derive(Debug)]
struct Telling {
    content: Arc<dyn Content>,
    others: Arc<OnceLock<Vec<Arc<Archive>>>>,
    has_told: AtomicBool,
}

impl Content for Telling {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            self.others.get().unwrap().iter().for_each(|archive| archive.expect());
        }
        self.content.read_at(offset, buffer)
    }
}

/// Who lists everything before reading anything comes to the first directory before the others.
#[test]
fn others_join_what_is_being_made() {
    for is_asked_for in [true, false] {
        with_one_thread(|| {
            let resources = Resources::new(64 << 20);
            let others = Arc::<OnceLock<_>>::default();
            let tell = |object: CodeObject| {
                let (content, others) = (object.content, Arc::clone(&others));
                let content = Arc::new(Telling { content, others, has_told: AtomicBool::new(false) });
                CodeObject { content, ..object }
            };
            let archives = related_with(&MANY_TARGETS, &resources, tell);
            others.set(archives.clone()).unwrap();
            let cost = work(&resources, || {
                if !is_asked_for {
                    archives[0].prepare().unwrap();
                }
                for archive in &archives {
                    archive.make().unwrap();
                }
            });
            let all = BUNDLES * MANY_TARGETS.len() as u64;
            let bundle = 4096 + MANY_TARGETS.len() as u64 * CODE;
            // The first bundle was given up by then. Who only looks is given no more than the first archive.
            let times = if is_asked_for { BUNDLES + 1 } else { 2 * BUNDLES };
            assert_eq!((cost.0, cost.2), (times * bundle, all), "asked for: {is_asked_for}");
        });
    }
}
