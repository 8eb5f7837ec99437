//! Lists arbitrary bytes as a tar archive, compressed or not, and reads its members completely and in pieces.

use std::fs;

use kpackfs::source::Input;

use super::support::{MOST, Random, content, directory, read, resources, same_in_pieces, stays_in_the_tree};

/// The number of members that are read; more would only take time.
const MEMBERS: usize = 16;

/// Checks bytes that may be a tar archive.
pub(crate) fn run(bytes: &[u8]) {
    let directory = directory();
    let path = directory.path().join("x.tar");
    fs::write(&path, bytes).expect("a file can be written");
    let Ok(input) = Input::open(&path, &resources()) else { return };
    assert!(input.entries.windows(2).all(|pair| pair[0].path < pair[1].path), "sorted, and each path once");
    input.entries.iter().for_each(|entry| stays_in_the_tree(&input, entry));
    let again = Input::open(&path, &resources()).expect("as before");
    let mut random = Random::of(bytes);
    for (entry, counterpart) in input.entries.iter().zip(&again.entries).take(MEMBERS) {
        assert_eq!((&entry.path, entry.attributes), (&counterpart.path, counterpart.attributes));
        let (Some(content), Some(counterpart)) = (content(entry), content(counterpart)) else { continue };
        assert_eq!(content.size(), counterpart.size());
        if content.size() <= MOST
            && let Ok(truth) = read(content)
        {
            assert!(
                same_in_pieces(counterpart, &truth, &mut random),
                "what can be read as a whole can be read in pieces"
            );
        }
    }
}
