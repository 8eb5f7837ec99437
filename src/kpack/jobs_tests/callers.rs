//! Which callers wait for what.

use std::sync::{Condvar, Mutex};

use super::*;
use crate::fatbin::OpenBundle;
use crate::kpack::schedule::{BundleTask, Schedule};
use crate::kpack::ticket::Ticket;

/// Readers of single archives and makers of all archives, with room for less than one bundle.
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
                assert_eq!(resources.counters.frames_made.get(), FRAMES_OF_ALL, "each frame is made once");
            }
            resources.budget.release_idle();
            assert!(resources.budget.gauges().total() <= budget.max(CODE));
        });
    }
}

/// A gate that blocks readers while it is closed.
#[derive(Debug, Default)]
struct ReadGate {
    /// Whether it is closed, and how many readers have arrived meanwhile.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl ReadGate {
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
struct GatedContent {
    content: Arc<dyn Content>,
    gate: Arc<ReadGate>,
}

impl Content for GatedContent {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.gate.pass();
        self.content.read_at(offset, buffer)
    }
}

/// While one bundle cannot be opened, readers of others are served. Readers of the same bundle join its job.
#[test]
fn callers_wait_for_their_bundle_only_and_join_its_job() {
    in_bounded_time(|| {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(64 << 20, directory.path(), 1 << 30);
        let gate = Arc::<ReadGate>::default();
        let gated = |number, content| -> Arc<dyn Content> {
            if number == 0 { Arc::new(GatedContent { content, gate: Arc::clone(&gate) }) } else { content }
        };
        let archives = archives_from(&resources, at_once, &gated);
        gate.close();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (bytes, made) = work(&resources, || {
            thread::scope(|scope| {
                for archive in &archives {
                    let frame = archive.frames().next().unwrap();
                    scope.spawn(|| archive.jobs.bytes(frame).unwrap());
                    gate.wait_for_somebody();
                }
                // A caller that comes after the end of the job would start another one.
                while archives[0].jobs.waiting() < archives.len() {
                    thread::yield_now();
                }
                let second = archives[1].frames().nth(1).unwrap();
                pool.install(|| archives[1].jobs.bytes(second).unwrap());
                gate.open();
            });
        });
        // The first bundle for three frames, the second for one.
        assert!(
            (BUNDLE + up_to(1) / BUNDLES..=2 * BUNDLE).contains(&bytes) && made == 4,
            "{bytes} bytes, {made} frames"
        );
    });
}

/// A caller waits neither for frames that nobody waits for, nor for the rest of the bundle.
#[test]
fn a_demand_goes_before_frames_that_nobody_waits_for() {
    let archives = archives(&Resources::new(64 << 20));
    let [first, second, third] = [0, 1, 2].map(|number| Arc::clone(archives[number].frames().next().unwrap()));
    let (mut schedule, ticket) = (Schedule::default(), Arc::<Ticket>::default());
    assert!(schedule.add(&second, None));
    let Some(BundleTask::Open(key, bundle)) = schedule.next() else { panic!("it is opened first") };
    let held = bundle.pin(&|| schedule.needed(key));
    assert!((second.end()..third.end()).contains(&(held.len() as u64)));
    schedule.open(key, OpenBundle::InMemory(held), &[Arc::clone(&first)]);
    assert!(schedule.add(&third, Some(&ticket)));
    ticket.expect(1);
    assert_eq!(schedule.tasks(), 1);
    let Some(BundleTask::Extend(key, bundle, held)) = schedule.next() else { panic!("a caller needs more of it") };
    assert!(schedule.next().is_none(), "its buffer grows");
    let held = bundle.extend(held, &|| schedule.needed(key));
    schedule.open(key, OpenBundle::InMemory(held), &[]);
    let mut next = || match schedule.next() {
        Some(BundleTask::Make(_, frame, _)) => frame.id(),
        _ => panic!("a frame can be made"),
    };
    assert_eq!([next(), next(), next()], [third.id(), second.id(), first.id()]);
    assert_eq!(bundle.decodings(), 1);
}

/// A bundle in memory that cannot be extended is opened again for a caller that needs more of it.
#[test]
fn a_bundle_that_cannot_be_extended_is_opened_again() {
    let archives = archives(&Resources::new(64 << 20));
    let [first, third] = [0, 2].map(|number| Arc::clone(archives[number].frames().next().unwrap()));
    let (mut schedule, ticket) = (Schedule::default(), Arc::<Ticket>::default());
    assert!(schedule.add(&first, None));
    let Some(BundleTask::Open(key, bundle)) = schedule.next() else { panic!("it is opened first") };
    let held = bundle.pin(&|| first.end());
    let reader = Arc::clone(held.bytes());
    schedule.open(key, OpenBundle::InMemory(held), &[]);
    assert!(schedule.add(&third, Some(&ticket)));
    ticket.expect(1);
    let Some(BundleTask::Extend(key, bundle, held)) = schedule.next() else { panic!("a caller needs more of it") };
    let held = bundle.extend(held, &|| schedule.needed(key));
    assert!(Arc::ptr_eq(held.bytes(), &reader), "another thread reads it");
    assert!(schedule.open(key, OpenBundle::InMemory(held), &[]).closed.is_some());
    assert!(matches!(schedule.next(), Some(BundleTask::Open(..))));
}

/// The state after a panic between taking a demand and ending it.
#[test]
fn a_demand_that_is_dropped_ends_with_an_error() {
    in_bounded_time(|| {
        let archives = archives(&Resources::new(64 << 20));
        let frames: Vec<_> = archives[0].frames().take(2).cloned().collect();
        let (mut schedule, ticket) = (Schedule::default(), Arc::<Ticket>::default());
        for frame in &frames {
            assert!(schedule.add(frame, Some(&ticket)));
        }
        ticket.expect(2);
        drop(schedule);
        assert!(matches!(ticket.wait(|_| ()), Err(ReadError::Damaged { .. })));
    });
}

/// Panics at the first read after it was armed.
#[derive(Debug)]
struct PanicsOnce {
    content: Arc<dyn Content>,
    is_armed: std::sync::atomic::AtomicBool,
}

impl Content for PanicsOnce {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        assert!(!self.is_armed.swap(false, std::sync::atomic::Ordering::Relaxed), "on purpose");
        self.content.read_at(offset, buffer)
    }
}

#[test]
fn a_panic_fails_one_frame_and_its_bundle_can_be_used_again() {
    in_bounded_time(|| {
        let resources = Resources::new(64 << 20);
        let armed = Mutex::new(None);
        let panicking = |number, content: Arc<dyn Content>| -> Arc<dyn Content> {
            if number != 0 {
                return content;
            }
            let panicking = Arc::new(PanicsOnce { content, is_armed: false.into() });
            *armed.lock().unwrap() = Some(Arc::clone(&panicking));
            panicking
        };
        let archives = archives_from(&resources, at_once, &panicking);
        let frame = archives[0].frames().next().unwrap();
        let arm = || armed.lock().unwrap().as_ref().unwrap().is_armed.store(true, std::sync::atomic::Ordering::Relaxed);
        arm();
        archives[0].jobs.bytes(frame).unwrap_err();
        let bundle = frame.object.bundle.as_ref().unwrap();
        arm();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bundle.pin_whole())).unwrap_err();
        assert!(!bundle.is_resident());
        let held = bundle.pin_whole().unwrap();
        assert!(bundle.is_resident(), "a panic before does not matter");
        drop(held);
        assert!(archives[0].jobs.bytes(frame).is_ok());
    });
}

#[test]
fn an_archive_says_that_it_is_made_as_long_as_it_is() {
    in_bounded_time(|| {
        let resources = Resources::new(64 << 20);
        let gate = Arc::<ReadGate>::default();
        let gated = |_, content| -> Arc<dyn Content> { Arc::new(GatedContent { content, gate: Arc::clone(&gate) }) };
        let archives = archives_from(&resources, at_once, &gated);
        let archive = &archives[0];
        assert_eq!(archive.progress(), None);
        gate.close();
        thread::scope(|scope| {
            scope.spawn(|| archive.make().unwrap());
            gate.wait_for_somebody();
            assert_eq!(archive.progress(), Some(0));
            assert!(archive.made().is_none(), "asking waits for nothing");
            gate.open();
        });
        assert_eq!(archive.progress(), None);
        assert!(archive.made().is_some());
    });
}
