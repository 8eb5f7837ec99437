//! What a reader of an archive waits for while others read, and what stays for whom.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::making_tests::{
    BUNDLE, BUNDLES, TARGETS, archives_for, archives_from, code, in_bounded_time, read, together, work,
};
use super::siblings_tests::{relate, with_one_thread};
use super::{Archive, ArchiveEntry, Compression, Frame, Siblings};
use crate::fatbin::CodeObject;
use crate::index::Resources;
use crate::rope::{Content, Make, ReadError, Rope, Segment};

/// What lets nobody read while it is closed.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// Those who have come while it was.
    stopped: usize,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        if state.is_closed {
            state.stopped += 1;
            self.changed.notify_all();
        }
        drop(self.changed.wait_while(state, |state| state.is_closed).unwrap());
    }

    fn close(&self) {
        self.state.lock().unwrap().is_closed = true;
    }

    fn wait_for_somebody(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.stopped == 0).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().is_closed = false;
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

/// Archives whose lengths are known, and what they should be, with a closed gate before those bundles.
fn behind(
    gate: &Arc<Gate>,
    bundles: Range<u64>,
    resources: &Arc<Resources>,
    change: impl Fn(u64, CodeObject) -> CodeObject,
) -> Vec<(Arc<Archive>, Vec<u8>)> {
    let made = archives_for(&TARGETS, &Resources::new(64 << 20));
    together(&made);
    let gated = |number, content| -> Arc<dyn Content> {
        if bundles.contains(&number) { Arc::new(Gated { content, gate: Arc::clone(gate) }) } else { content }
    };
    let archives = relate(archives_from(&TARGETS, resources, gated, change));
    gate.close();
    let recalled = archives.into_iter().zip(&made).map(|(archive, made)| {
        assert!(archive.recall(&made.lengths().unwrap()));
        (archive, read(made).unwrap())
    });
    recalled.collect()
}

/// Some bytes of the first frame, which header, count and the frame's length come before.
const BEGINNING: Range<usize> = 72..82;

fn read_beginning(archive: &Archive) -> Vec<u8> {
    let mut bytes = vec![0; BEGINNING.len()];
    archive.make().unwrap().read_at(BEGINNING.start as u64, &mut bytes).unwrap();
    bytes
}

#[test]
fn who_reads_waits_for_the_next_code_object_only() {
    in_bounded_time(|| {
        let gate = Arc::<Gate>::default();
        let resources = Resources::new(64 << 20);
        let archives = behind(&gate, BUNDLES - 1..BUNDLES, &resources, |_, object| object);
        archives[1].0.expect();
        let before = resources.counters.bytes_decompressed.get();
        for (archive, expected) in &archives {
            assert_eq!(read_beginning(archive), expected[BEGINNING]);
        }
        gate.open();
        for (archive, expected) in &archives {
            assert!(read(archive).unwrap() == *expected);
        }
        let decompressed = resources.counters.bytes_decompressed.get() - before;
        assert_eq!(decompressed, BUNDLES * BUNDLE, "they are made together all the same");
    });
}

#[test]
fn code_objects_that_share_nothing_wait_for_nobody() {
    in_bounded_time(|| {
        let gate = Arc::<Gate>::default();
        let resources = Resources::new(64 << 20);
        let archives = behind(&gate, 1..BUNDLES, &resources, |number, object| {
            if number == 0 { CodeObject { bundle: None, ..object } } else { object }
        });
        archives[2].0.expect();
        let (second, expected) = archives[1].clone();
        let other = thread::spawn(move || assert!(read(&second).unwrap() == expected));
        gate.wait_for_somebody();
        assert_eq!(read_beginning(&archives[0].0), archives[0].1[BEGINNING]);
        gate.open();
        other.join().unwrap();
    });
}

#[test]
fn who_reads_alone_is_joined_by_those_who_come_later() {
    in_bounded_time(|| {
        with_one_thread(|| {
            let gate = Arc::<Gate>::default();
            let resources = Resources::new(64 << 20);
            let archives = behind(&gate, 2..3, &resources, |_, object| object);
            let cost = work(&resources, || {
                read_beginning(&archives[0].0);
                gate.wait_for_somebody();
                archives[1].0.ask();
                gate.open();
                for (archive, expected) in &archives {
                    assert!(read(archive).unwrap() == *expected);
                }
            });
            // The first three for one archive alone, and two of them, or all, for the others.
            assert!((BUNDLES + 2..=BUNDLES + 3).contains(&(cost.0 / BUNDLE)), "{cost:?}");
        });
    });
}

#[test]
fn what_a_reader_has_behind_it_leaves_before_what_others_have_before_them() {
    let resources = Resources::new(64 << 20);
    let entry = |wrapper: usize| {
        // As a frame it takes a little more than 700,000 bytes.
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(code(wrapper as u64, 940_000))]).unwrap());
        let object = CodeObject { target: "gfx90a".parse().unwrap(), content, bundle: None };
        let frame = Arc::new(Frame::new(object, 1, &resources));
        ArchiveEntry { binary: 0, kernel_name: "lib/a.so".into(), wrapper, frame }
    };
    let awaited = entry(99).frame;
    awaited.make().unwrap();
    let entries: Vec<_> = (0..8).map(entry).collect();
    let frames: Vec<_> = entries.iter().map(|entry| Arc::clone(&entry.frame)).collect();
    let archive = Arc::new(Archive::new("a", "gfx90a".parse().unwrap(), Compression::Zstd(1), entries));
    Siblings::relate(&[(0, Arc::clone(&archive))]);
    let content = archive.make().unwrap();
    for offset in (0..7 * 700_000).step_by(100_000) {
        content.read_at(offset, &mut vec![0; 100_000]).unwrap();
    }
    // No room for one of them.
    let filler = resources.frames.capacity() - resources.frames.bytes() + 1;
    resources.frames.put(u64::MAX, Arc::new(vec![0; usize::try_from(filler).unwrap()]));
    let there: Vec<_> = frames.iter().map(|frame| frame.is_there()).collect();
    assert!(awaited.is_there() && there[5..].iter().all(|&is_there| is_there), "{there:?}");
    assert!(there.contains(&false), "{there:?}");
}
