//! Hand-made wheels and members for tests.

#![expect(clippy::cast_possible_truncation, reason = "the hand-made zip files are small")]

use super::decoders::Decoders;
use super::deflated::Deflated;
use super::facts::MemberFacts;
use super::open_members::CloseMember;
use super::path::EntryPath;
use super::stream::Stream;
use super::{EntryKind, Input, SourceError};
use crate::resources::Resources;
use crate::rope::{Content, Identity, Rope, Segment};
use crate::sync::{Arc, Weak};

pub(crate) use super::inflate::testing::{
    Z_DEFAULT_STRATEGY, Z_FIXED, Z_FULL_FLUSH, Z_HUFFMAN_ONLY, Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, deflated,
    deflated_by,
};

/// The path of an entry.
pub(crate) fn path(text: &str) -> EntryPath {
    EntryPath::new(text.as_bytes()).unwrap()
}

/// A member of a hand-made zip file. Each field can be given a wrong value.
#[derive(Clone)]
pub(crate) struct TestMember {
    pub(crate) name: Vec<u8>,
    pub(crate) local_name: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) packed_size: u64,
    pub(crate) crc: u32,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) system: u8,
    pub(crate) mode: u32,
    pub(crate) date: u16,
    pub(crate) zip64: bool,
    /// Replaces the offset of the local header.
    pub(crate) offset: Option<u32>,
}

/// APPNOTE.TXT 4.4.6.
pub(crate) fn date(year: u16, month: u16, day: u16) -> u16 {
    (year - 1980) * 512 + month * 32 + day
}

/// A stored member with truthful headers.
pub(crate) fn made(name: &str, content: &[u8]) -> TestMember {
    TestMember {
        name: name.into(),
        local_name: name.into(),
        bytes: content.into(),
        size: content.len() as u64,
        packed_size: content.len() as u64,
        crc: crc32fast::hash(content),
        method: 0,
        flags: 0,
        system: 3,
        mode: 0o100_644,
        date: date(2024, 2, 29),
        zip64: false,
        offset: None,
    }
}

/// A deflated member with truthful headers.
pub(crate) fn packed(name: &str, content: &[u8]) -> TestMember {
    let bytes = deflated(content, 6, content.len().max(1), Z_NO_FLUSH);
    TestMember { packed_size: bytes.len() as u64, bytes, method: 8, ..made(name, content) }
}

impl TestMember {
    /// The fields from the version needed to the extra field's length, which the local and the central header share.
    fn header(&self, name: &[u8]) -> Vec<u8> {
        let sizes = if self.zip64 { [u32::MAX; 2] } else { [self.packed_size, self.size].map(|size| size as u32) };
        let mut header = Vec::new();
        for half in [20, self.flags, self.method, 0x6000, self.date] {
            header.extend(half.to_le_bytes());
        }
        for word in [self.crc, sizes[0], sizes[1]] {
            header.extend(word.to_le_bytes());
        }
        for half in [name.len() as u16, if self.zip64 { 20 } else { 0 }] {
            header.extend(half.to_le_bytes());
        }
        header
    }

    fn extra(&self) -> Vec<u8> {
        let field = [&[1, 0, 16, 0][..], &self.size.to_le_bytes(), &self.packed_size.to_le_bytes()].concat();
        if self.zip64 { field } else { Vec::new() }
    }
}

/// A zip file of these members. A dist-info is added unless they have one.
pub(crate) fn zipped(members: &[TestMember]) -> Vec<u8> {
    let mut members = members.to_vec();
    if !members.iter().any(|member| member.name.ends_with(b".dist-info/WHEEL")) {
        members.push(packed("x-1.dist-info/METADATA", b"Name: x"));
        members.push(made("x-1.dist-info/WHEEL", b""));
    }
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for member in &members {
        let start = member.offset.unwrap_or(file.len() as u32);
        file.extend(
            [b"PK\x03\x04", &member.header(&member.local_name)[..], &member.local_name, &member.extra()].concat(),
        );
        file.extend(&member.bytes);
        directory.extend([b"PK\x01\x02", &[20, member.system][..], &member.header(&member.name)].concat());
        directory.extend([0; 6]);
        directory.extend([(member.mode << 16).to_le_bytes(), start.to_le_bytes()].concat());
        directory.extend([&member.name[..], &member.extra()].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let end = [(directory.len() as u32).to_le_bytes(), (file.len() as u32).to_le_bytes()].concat();
    [&file[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &end, &[0, 0]].concat()
}

/// Ranges that resemble text, noise and constants, so that blocks of all kinds and lengths occur.
pub(crate) fn data(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(size + 70_000);
    while bytes.len() < size {
        let length = usize::try_from(next() % 60_000).unwrap() + 1;
        match next() % 4 {
            0 => bytes.extend((0..length).map(|_| next().to_le_bytes()[0])),
            1 => bytes.extend((0..length).map(|_| b"abcdefgh \n"[usize::try_from(next() % 10).unwrap()])),
            2 => bytes.extend(std::iter::repeat_n(next().to_le_bytes()[0], length)),
            _ => {
                let from = bytes.len().saturating_sub(32_768);
                bytes.extend_from_within(from..(from + length).min(bytes.len()));
            }
        }
    }
    bytes.truncate(size);
    bytes
}

/// Opens a wheel with these bytes.
pub(crate) fn open_wheel(bytes: &[u8], resources: &Arc<Resources>) -> Result<Input, SourceError> {
    let place = tempfile::tempdir().unwrap();
    let location = place.path().join("x-1-py3-none-any.whl");
    std::fs::write(&location, bytes).unwrap();
    Input::open(&location, resources)
}

/// The content of a file of an input.
pub(crate) fn content_of(input: &Input, path: &str) -> Arc<dyn Content> {
    match &input.entry(&EntryPath::new(path.as_bytes()).unwrap()).unwrap().kind {
        EntryKind::File { content, .. } => Arc::clone(content),
        other => panic!("{other:?}"),
    }
}

/// A member with this deflate stream, size and CRC-32.
pub(crate) fn deflated_member(packed: &[u8], size: u64, crc32: u32) -> Arc<dyn Content> {
    let resources = Resources::new(1 << 30);
    let stream = Stream {
        entry: EntryPath::root().child(b"x"),
        packed: Arc::new(Rope::new([Segment::literal(packed)]).unwrap()),
        size,
        crc32,
        identity: Identity::describe("test").finish(),
        hashes: Some(Arc::default()),
        resources: Arc::clone(&resources),
    };
    Arc::new(opened(stream, &Decoders::new(&resources.budget), MemberFacts::default()))
}

/// The content of a deflated member that is never closed.
pub(super) fn opened(stream: Stream, decoders: &Arc<Decoders>, facts: MemberFacts) -> Deflated {
    Deflated::new(stream, Arc::clone(decoders), decoders.members.add(Weak::<NeverClosed>::new()), facts)
}

#[derive(Debug)]
struct NeverClosed;

impl CloseMember for NeverClosed {
    fn close(&self) -> bool {
        false
    }
}
