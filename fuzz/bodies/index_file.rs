//! Opens arbitrary bytes as an index, and as the content of an index with a right checksum.

use std::fs;

use kpackfs::index::{Index, RecordKind, list};
use kpackfs::rope::Identity;
use serde::de::IgnoredAny;

use super::records;
use super::support::directory;

const KINDS: [RecordKind; 6] = [
    RecordKind::Scan,
    RecordKind::Rewritten,
    RecordKind::Stream,
    RecordKind::Frames,
    RecordKind::Digest,
    RecordKind::Spliced,
];

/// Checks bytes that may be an index.
pub(crate) fn run(bytes: &[u8]) {
    let place = directory();
    let input = place.path().join("x.whl");
    fs::write(&input, "input").expect("a file can be written");
    let folder = place.path().join("cache");
    let open = || Index::open(&folder, &input);
    // What this session records is in the index of the next one: each piece of the input under a name made from it.
    let index = open();
    let pieces: Vec<&[u8]> = bytes.chunks(11).take(64).collect();
    let name = |piece: &[u8]| (KINDS[piece.len() % KINDS.len()], Identity::describe("piece").add(piece).finish());
    for piece in &pieces {
        let (kind, identity) = name(piece);
        index.put(kind, &identity, piece);
    }
    index.put(RecordKind::Scan, &Identity([0; 16]), &0);
    index.save().expect("a file can be written");
    let next = open();
    for piece in &pieces {
        let (kind, identity) = name(piece);
        assert_eq!(next.get::<Vec<u8>>(kind, &identity).as_deref(), Some(*piece));
    }
    let index = index.file().expect("it has a place").to_owned();
    let contents = records::open(&fs::read(&index).expect("it was saved")).expect("it is whole");
    let header = contents.first().expect("it has a header");
    for file in [bytes.to_vec(), records::close(&[bytes]), records::close(&[header, bytes])] {
        // Other files in the directory are not touched.
        let is_ours = file.starts_with(b"KPFSIDX\n");
        fs::write(&index, file).expect("a file can be written");
        let index = open();
        for (kind, identity) in identities(bytes) {
            // Whatever the bytes are, they are either read or refused.
            let _ = index.get::<IgnoredAny>(kind, &identity);
        }
        assert_eq!(list(&folder).expect("a folder").len(), usize::from(is_ours));
        // A damaged index does not prevent writing a new one.
        index.put(RecordKind::Digest, &Identity([1; 16]), &"new");
        index.save().expect("a file can be written");
        assert_eq!(open().get::<String>(RecordKind::Digest, &Identity([1; 16])).as_deref(), Some("new"));
    }
}

/// The names of the records in some bytes: u8 kind, identity, u32 day, u32 length, content.
fn identities(mut bytes: &[u8]) -> Vec<(RecordKind, Identity)> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<25>() {
        let kind = KINDS.into_iter().find(|&kind| kind as u8 == head[0]);
        let identity = *head[1..].first_chunk().expect("16 of 24 bytes");
        found.extend(kind.map(|kind| (kind, Identity(identity))));
        let length = u32::from_le_bytes(*head[21..].first_chunk().expect("4 bytes"));
        bytes = usize::try_from(length).ok().and_then(|length| rest.get(length..)).unwrap_or_default();
    }
    found
}
