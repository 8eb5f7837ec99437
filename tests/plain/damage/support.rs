//! Wheels made byte by byte, so that the place of damage is known.

use std::fs;
use std::path::Path;

use flate2::{Compress, Compression, FlushCompress};

pub(crate) use crate::common::mounts::noise;

/// A member of a wheel with what the zip file claims about it.
pub(crate) struct Member {
    pub(crate) name: String,
    /// The bytes in the zip file.
    pub(crate) packed: Vec<u8>,
    pub(crate) deflated: bool,
    pub(crate) size: usize,
    pub(crate) crc32: u32,
}

impl Member {
    /// An undamaged member.
    pub(crate) fn new(name: &str, content: &[u8], deflated: bool) -> Self {
        let packed = if deflated { deflate(content, &[]).0 } else { content.to_vec() };
        Self { name: name.to_owned(), packed, deflated, size: content.len(), crc32: crc32fast::hash(content) }
    }
}

/// A raw deflate stream of `content`, and the offsets in it at which the content at each of `ends` begins. Each is the
/// beginning of a block and of a byte.
pub(crate) fn deflate(content: &[u8], ends: &[usize]) -> (Vec<u8>, Vec<usize>) {
    let mut encoder = Compress::new(Compression::new(6), false);
    let mut packed = Vec::with_capacity(content.len() + 4096 + 64 * ends.len());
    let mut places = Vec::new();
    let mut at = 0;
    for &end in ends {
        encoder.compress_vec(&content[at..end], &mut packed, FlushCompress::Full).unwrap();
        assert_eq!(encoder.total_in(), end as u64);
        places.push(packed.len());
        at = end;
    }
    encoder.compress_vec(&content[at..], &mut packed, FlushCompress::Finish).unwrap();
    assert_eq!(encoder.total_in(), content.len() as u64);
    (packed, places)
}

/// Writes a wheel (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.16). RECORD states no digests.
pub(crate) fn write_wheel(place: &Path, members: &[Member]) {
    let lines: Vec<_> = members.iter().map(|member| member.name.as_str()).chain([""]).collect();
    let texts = [
        ("METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"),
        ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"),
        ("RECORD", &lines.join(",,\n")),
    ];
    let texts = texts.map(|(name, text)| Member::new(&format!("demo-1.0.dist-info/{name}"), text.as_bytes(), true));
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for member in members.iter().chain(&texts) {
        let numbers = [member.crc32, length(member.packed.len()), length(member.size), length(member.name.len())];
        let mut common = vec![20, 0, 0, 0, if member.deflated { 8 } else { 0 }, 0, 0, 0, 0x21, 0];
        common.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let offset = length(bytes.len());
        bytes.extend(b"PK\x03\x04".iter().chain(&common).chain(member.name.as_bytes()));
        bytes.extend(&member.packed);
        directory.extend(b"PK\x01\x02\x14\x03".iter().chain(&common));
        // Comment, disk, internal attributes, mode.
        directory.extend([0; 6]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes().iter().chain(&offset.to_le_bytes()));
        directory.extend(member.name.as_bytes());
    }
    let count = u16::try_from(members.len() + texts.len()).unwrap().to_le_bytes();
    let numbers = [length(directory.len()), length(bytes.len())];
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0".iter().chain(&count).chain(&count));
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([0, 0]);
    fs::write(place, bytes).unwrap();
}

fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap()
}
