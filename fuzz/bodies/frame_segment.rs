//! Opens arbitrary bytes as a segment of the frame store, among others.

use std::fs;

use kpackfs::index::{FrameStore, Index};
use kpackfs::rope::Identity;

use crate::support::directory;

/// Checks bytes that may be a segment.
pub(crate) fn run(bytes: &[u8]) {
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

/// What may be identities: the 16 bytes after each magic and checksum.
fn identities(bytes: &[u8]) -> Vec<Identity> {
    let at = bytes.windows(4).enumerate().filter(|(_, window)| window == b"KPFR").map(|(at, _)| at + 8);
    at.filter_map(|at| Some(Identity(*bytes.get(at..)?.first_chunk()?))).take(64).collect()
}
