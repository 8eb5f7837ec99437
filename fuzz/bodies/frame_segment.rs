//! Opens arbitrary bytes as a segment of the frame store, among others.

use std::fs;

use kpackfs::index::{FrameStore, Index};
use kpackfs::rope::{Identity, Xxh3};

use super::support::directory;

/// Bytes of the header of a record.
const HEADER: usize = 64;

/// Checks bytes that may be a segment, and the same bytes with right sums, without which a scan ends at the first record.
pub(crate) fn run(bytes: &[u8]) {
    open(bytes);
    let summed = with_sums(bytes);
    if summed != bytes {
        open(&summed);
    }
}

/// The bytes with right sums of all headers that a scan reaches, and of their blocks.
fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(record) = bytes.get_mut(at..).filter(|record| record.len() >= HEADER) {
        let field = |from: usize| u64::from_le_bytes(*record[from..].first_chunk().expect("in the header"));
        let [length, start, next] = [40, 48, 56].map(|from| usize::try_from(field(from)).expect("64 bits"));
        let sum = Xxh3::of(&[&(at as u64).to_le_bytes()[..], &record[24..HEADER]].concat());
        record[8..24].copy_from_slice(&sum);
        let frame = start.checked_add(length).and_then(|end| record.get(start..end)).map(<[u8]>::to_vec);
        let blocks = frame.as_deref().unwrap_or_default().chunks(16 << 10).enumerate();
        for (number, block) in blocks {
            let place = HEADER + 16 * number;
            if place + 16 <= start {
                let offset = (number as u64 * (16 << 10)).to_le_bytes();
                let sum = Xxh3::of(&[&record[24..40], &offset, block].concat());
                record[place..place + 16].copy_from_slice(&sum);
            }
        }
        match at.checked_add(next) {
            Some(next) if next > at => at = next,
            _ => break,
        }
    }
    bytes
}

fn open(bytes: &[u8]) {
    let place = directory();
    let (cache, input) = (place.path().join("cache"), place.path().join("x.whl"));
    fs::write(&input, "input").expect("a file can be written");
    let index = Index::open(&cache, &input);
    let stem = index.file().and_then(|file| file.file_stem()).expect("it has a place").to_owned();
    let folder = cache.join("frames").join(stem);
    fs::create_dir_all(&folder).expect("a directory");
    fs::write(folder.join("0.segment"), bytes).expect("a file can be written");
    let own = Identity::describe("own").add(bytes).finish();
    for session in 0..2 {
        let store = FrameStore::open(Some(&cache), &input, Some(1 << 20));
        for identity in identities(bytes) {
            // Whatever the segment says, a frame is its bytes or an error.
            if let Some(found) = store.get(&identity) {
                assert!(found.length() <= bytes.len() as u64 || identity == own);
                let mut frame = vec![0; usize::try_from(found.length()).expect("in the file")];
                if let Err(_error) = found.read_at(0, &mut frame) {
                    store.forget(&identity, &found);
                    assert!(store.get(&identity).is_none());
                }
            }
        }
        let write = |write: &mut dyn FnMut(&[u8]) -> std::io::Result<()>| write(b"a frame");
        let put = store.put(&own, 7, write).expect("a file can be written");
        if let Some(stored) = put {
            let mut frame = [0; 7];
            stored.read_at(0, &mut frame).expect("it was written");
            assert_eq!((&frame, session < 2), (b"a frame", true));
        }
        // Merges the segments.
        store.finish();
    }
}

/// What may be identities: the 16 bytes after each magic, format and checksum.
fn identities(bytes: &[u8]) -> Vec<Identity> {
    let at = bytes.windows(4).enumerate().filter(|(_, window)| window == b"KPFR").map(|(at, _)| at + 24);
    at.filter_map(|at| Some(Identity(*bytes.get(at..)?.first_chunk()?))).take(64).collect()
}
