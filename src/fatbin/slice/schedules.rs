//! Readers with memory for one decoder, under many schedules.

use std::sync::LazyLock;

use crate::fatbin::StoredObject;
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment, head_mut, read_all};
use crate::sync::{Arc, check, thread};

/// Bytes of a code object.
const SIZE: usize = 2 << 20;
/// Bytes of a piece.
const PIECE: usize = 256 << 10;
/// Room for one decoder, or for one decompressed code object.
const MEMORY: u64 = 3 << 19;

/// A frame with a window of this logarithm.
fn packed(window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(window_log).unwrap();
    encoder.set_pledged_src_size(Some(SIZE as u64)).unwrap();
    std::io::Write::write_all(&mut encoder, &vec![7; SIZE]).unwrap();
    encoder.finish().unwrap()
}

static STREAMED: LazyLock<Vec<u8>> = LazyLock::new(|| packed(17));
static IN_MEMORY: LazyLock<Vec<u8>> = LazyLock::new(|| packed(21));

fn objects(frame: &[u8], resources: &Arc<Resources>) -> [Arc<dyn Content>; 2] {
    [0, 1].map(|_| {
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(frame)]).unwrap());
        let stored = StoredObject::frame(&content, 0, frame.len() as u64, SIZE as u64, "x", resources).unwrap();
        Arc::clone(stored.content())
    })
}

/// Reads each object on a thread of its own, and returns the bytes that are decompressed.
fn read(frame: &[u8], read: fn(&dyn Content)) -> u64 {
    let resources = Resources::new(MEMORY);
    let threads = objects(frame, &resources).map(|object| thread::spawn(move || read(&*object)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    resources.budget.release_idle();
    assert_eq!(resources.budget.gauges().total(), 0);
    resources.counters.bytes_decompressed.get()
}

fn in_pieces(object: &dyn Content) {
    let mut buffer = vec![0; PIECE];
    for at in (0..SIZE).step_by(PIECE) {
        object.read_at(at as u64, head_mut(&mut buffer, PIECE)).unwrap();
    }
}

#[test]
fn readers_of_two_frames_decompress_each_of_them_once() {
    for frame in [&STREAMED, &IN_MEMORY] {
        check(move || assert_eq!(read(frame, |object| read_all(object, |_| ()).unwrap()), 2 * SIZE as u64));
    }
}

/// Each piece of a reader that has lost its decoder decompresses everything before it.
#[test]
fn two_readers_in_pieces_with_memory_for_one_decoder_do_not_begin_again_for_each_piece() {
    for frame in [&STREAMED, &IN_MEMORY] {
        check(move || {
            let work = read(frame, in_pieces);
            assert!(work <= 3 * 2 * SIZE as u64, "{work} bytes for two times {SIZE}");
        });
    }
}
