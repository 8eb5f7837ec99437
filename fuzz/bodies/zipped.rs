//! Zip files with members of any content.

#![allow(dead_code, reason = "each fuzz target takes what it needs")]

/// A member; its sizes and its CRC-32 may be false.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    pub(crate) packed: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) size: u64,
    pub(crate) crc32: u32,
}

impl Member {
    /// A stored member.
    pub(crate) fn stored(name: &str, content: &[u8]) -> Self {
        let (size, crc32) = (content.len() as u64, crc32fast::hash(content));
        Self { name: name.into(), packed: content.to_vec(), method: 0, size, crc32 }
    }
}

/// A wheel with these members and a dist-info (APPNOTE.TXT 4.3.7, 4.3.12 and 4.3.16).
pub(crate) fn zipped(members: &[Member]) -> Vec<u8> {
    let info = [
        Member::stored("x-1.dist-info/METADATA", b"Name: x\nVersion: 1\n"),
        Member::stored("x-1.dist-info/WHEEL", b"Wheel-Version: 1.0\nTag: py3-none-any\n"),
    ];
    let small = |number: usize| u32::try_from(number).expect("a small file").to_le_bytes();
    let (mut file, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for member in members.iter().chain(&info) {
        let offset = small(file.len());
        let mut header = vec![20, 0, 0, 0];
        header.extend(member.method.to_le_bytes());
        header.extend([0, 0x60, 0x5D, 0x58]);
        header.extend(member.crc32.to_le_bytes());
        header.extend(small(member.packed.len()));
        header.extend(small(usize::try_from(member.size).expect("a small file")));
        header.extend([&small(member.name.len())[..2], &[0, 0]].concat());
        file.extend([b"PK\x03\x04", &*header, &member.name, &member.packed].concat());
        directory.extend([b"PK\x01\x02\x14\x03", &*header, &[0; 6], &0x81A4_0000_u32.to_le_bytes(), &offset].concat());
        directory.extend(&member.name);
        count += 1;
    }
    let count = count.to_le_bytes();
    let end =
        [b"PK\x05\x06\0\0\0\0", &count[..], &count, &small(directory.len()), &small(file.len()), &[0, 0]].concat();
    [file, directory, end].concat()
}
