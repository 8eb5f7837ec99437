//! A small ELF library with device code, every field of which can be set to a false value.

use crate::hostile::plain_bundle::plain;

/// The bytes of a file, and where its structures are.
#[derive(Clone)]
pub(crate) struct Elf {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rela: u64,
    pub(crate) fatbin: u64,
    pub(crate) wrappers: u64,
    pub(crate) dynamic: u64,
    pub(crate) sections: u64,
}

/// Offsets of the program headers.
pub(crate) const LOAD: u64 = 64;
pub(crate) const WRITABLE: u64 = 64 + 56;
pub(crate) const DYNAMIC: u64 = 64 + 2 * 56;

/// Indices of the sections.
pub(crate) const RELA_SECTION: u64 = 1;
pub(crate) const FATBIN_SECTION: u64 = 2;
pub(crate) const WRAPPER_SECTION: u64 = 3;
pub(crate) const NAMES_SECTION: u64 = 5;

const NAMES: &[u8] = b"\0.rela.dyn\0.hip_fatbin\0.hipFatBinSegment\0.dynamic\0.shstrtab\0";

/// Distance of the writable segment's addresses from its offsets.
const DISTANCE: u64 = 0x1000;

/// A library with `count` wrappers, each with a bundle of its own. Their pointers may be stored in place (RELR).
pub(crate) fn fat(count: u64, in_place: bool) -> Elf {
    let bundle = |number| {
        let code = format!("code object {number}, which is long enough for a marker to take its place");
        plain(&[("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx90a", code.as_bytes())])
    };
    made(&(0..count).map(bundle).collect::<Vec<_>>(), in_place)
}

/// A library with these bundles, each with a wrapper.
pub(crate) fn fat_with(bundles: &[Vec<u8>]) -> Elf {
    made(bundles, false)
}

fn made(bundles: &[Vec<u8>], in_place: bool) -> Elf {
    let count = bundles.len() as u64;
    let mut bytes = vec![0; 64 + 3 * 56];
    let align = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(64), 0);
    align(&mut bytes);
    let rela = bytes.len() as u64;
    let entry = if in_place { 8 } else { 24 };
    bytes.resize(bytes.len() + usize::try_from(count * entry).unwrap(), 0);
    align(&mut bytes);
    let fatbin = bytes.len() as u64;
    let place = |bundle: &Vec<u8>| {
        align(&mut bytes);
        bytes.extend(bundle);
        (bytes.len() - bundle.len()) as u64
    };
    let bundles: Vec<u64> = bundles.iter().map(place).collect();
    let end = bytes.len() as u64;
    align(&mut bytes);
    let wrappers = bytes.len() as u64;
    for &bundle in &bundles {
        bytes.extend(*b"FPIH\x01\0\0\0");
        bytes.extend(if in_place { bundle } else { 0 }.to_le_bytes());
        bytes.extend([0; 8]);
    }
    let dynamic = bytes.len() as u64;
    let (address, size) = if in_place { (36_u64, 35_u64) } else { (7, 8) };
    for word in [address, rela, size, count * entry, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    let data_end = bytes.len() as u64;
    let names = bytes.len() as u64;
    bytes.extend(NAMES);
    align(&mut bytes);
    let sections = bytes.len() as u64;
    bytes.resize(bytes.len() + 6 * 64, 0);
    let mut elf = Elf { bytes, rela, fatbin, wrappers, dynamic, sections };
    elf.put(0, b"\x7FELF\x02\x01\x01");
    for (at, value, length) in [(16, 3, 2), (18, 62, 2), (20, 1, 4), (32, 64, 8), (40, sections, 8)] {
        elf.set(at, value, length);
    }
    for (at, value) in [(52, 64), (54, 56), (56, 3), (58, 64), (60, 6), (62, NAMES_SECTION)] {
        elf.set(at, value, 2);
    }
    elf.segment(LOAD, 1, 4, 0..end, 0);
    elf.segment(WRITABLE, 1, 6, wrappers..data_end, DISTANCE);
    elf.segment(DYNAMIC, 2, 6, dynamic..data_end, DISTANCE);
    let kind = if in_place { 19 } else { 4 };
    for (number, (kind, flags, range, distance)) in [
        (kind, 2, rela..rela + count * entry, 0),
        (1, 2, fatbin..end, 0),
        (1, 3, wrappers..dynamic, DISTANCE),
        (6, 3, dynamic..data_end, DISTANCE),
        (3, 0, names..names + NAMES.len() as u64, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let header = elf.section(number as u64 + 1);
        let name = [1, 11, 23, 41, 50][number];
        elf.set(header, name, 4);
        elf.set(header + 4, kind, 4);
        let address = if flags & 2 == 0 { 0 } else { range.start + distance };
        for (at, value) in [(8, flags), (16, address), (24, range.start), (32, range.end - range.start), (48, 1)] {
            elf.set(header + at, value, 8);
        }
    }
    for (number, &bundle) in bundles.iter().enumerate() {
        let (slot, at) = (wrappers + DISTANCE + number as u64 * 24 + 8, rela + number as u64 * entry);
        elf.set(at, slot, 8);
        if !in_place {
            elf.set(at + 8, 8, 8);
            elf.set(at + 16, bundle, 8);
        }
    }
    elf
}

impl Elf {
    /// The offset of a section header.
    pub(crate) fn section(&self, number: u64) -> u64 {
        self.sections + number * 64
    }

    /// Replaces `length` bytes with a number.
    pub(crate) fn set(&mut self, at: u64, value: u64, length: usize) {
        self.put(at, &value.to_le_bytes()[..length]);
    }

    /// The same with another number.
    pub(crate) fn with(&self, at: u64, value: u64, length: usize) -> Self {
        let mut other = self.clone();
        other.set(at, value, length);
        other
    }

    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn segment(&mut self, header: u64, kind: u64, flags: u64, range: std::ops::Range<u64>, distance: u64) {
        self.set(header, kind, 4);
        self.set(header + 4, flags, 4);
        let (address, size) = (range.start + distance, range.end - range.start);
        for (number, value) in [range.start, address, address, size, size, 16].into_iter().enumerate() {
            self.set(header + 8 + 8 * number as u64, value, 8);
        }
    }
}
