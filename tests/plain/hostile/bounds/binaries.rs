//! Binaries with large tables.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::Costly;
use crate::hostile::elf::{Elf, fat, fat_with};
use crate::hostile::plain_bundle::plain;

/// A small library with device code.
pub(super) fn library() -> Vec<u8> {
    fat(2, false).bytes
}

/// A tree with libraries of these bytes.
fn tree(place: &Path, count: usize, bytes: &[u8]) -> PathBuf {
    let tree = place.join("tree");
    fs::create_dir_all(tree.join("lib")).unwrap();
    for number in 0..count {
        fs::write(tree.join(format!("lib/lib{number}.so")), bytes).unwrap();
    }
    tree
}

/// Libraries with further section headers, at the end of the file, with names of some bytes. Each split library keeps its
/// changed headers in memory.
pub(super) fn sections(place: &Path, scale: usize) -> Costly {
    const COUNT: u64 = 2048;
    let mut elf = fat(1, false);
    let old: Vec<u8> = elf.bytes[usize::try_from(elf.sections).unwrap()..].to_vec();
    let names = elf.bytes.len() as u64;
    let place_of_names = elf.section(crate::hostile::elf::NAMES_SECTION) - elf.sections;
    let before =
        elf.bytes[usize::try_from(elf.section(crate::hostile::elf::NAMES_SECTION)).unwrap() + 24..][..16].to_vec();
    let [start, size] = [0, 8].map(|at| u64::from_le_bytes(before[at..at + 8].try_into().unwrap()));
    let old_names = elf.bytes[usize::try_from(start).unwrap()..usize::try_from(start + size).unwrap()].to_vec();
    elf.bytes.extend(&old_names);
    elf.bytes.extend([b'n'; 120]);
    elf.bytes.push(0);
    let table = (elf.bytes.len() as u64).next_multiple_of(64);
    elf.bytes.resize(usize::try_from(table).unwrap(), 0);
    elf.bytes.extend(&old);
    elf.bytes.resize(usize::try_from(table + COUNT * 64).unwrap(), 0);
    for number in old.len() as u64 / 64..COUNT {
        elf.set(table + number * 64, size, 4);
        elf.set(table + number * 64 + 4, 1, 4);
    }
    elf.set(table + place_of_names + 24, names, 8);
    elf.set(table + place_of_names + 32, size + 121, 8);
    elf.set(40, table, 8);
    elf.set(60, COUNT, 2);
    let files = 32 * scale;
    Costly::new(tree(place, files, &elf.bytes), files as u64, files as u64 * COUNT * 64)
}

pub(super) fn wrappers(place: &Path, scale: usize) -> Costly {
    let count = 2000 * scale as u64;
    Costly::new(tree(place, 4, &fat(count, false).bytes), 8 * count, 80 * count)
}

/// An image with as many section headers as its header can state.
pub(super) fn pe_sections(place: &Path, _: usize) -> Costly {
    let mut bytes = vec![0; 0x200];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[0x3c] = 0x80;
    bytes[0x80..0x84].copy_from_slice(b"PE\0\0");
    for (at, value) in [(0x84, 0x8664_u16), (0x86, 0xffff), (0x94, 240), (0x96, 0x2022), (0x98, 0x20b)] {
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    bytes[0x98 + 108] = 16;
    bytes.resize(0x188 + 40 * 0xffff, b'.');
    Costly::new(tree(place, 32, &bytes), 32, 1000)
}

pub(super) fn large_tables(place: &Path, scale: usize) -> Costly {
    let entries = 4096;
    let ids: Vec<_> = (0..entries).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let table = plain(&ids.iter().map(|id| (id.as_str(), &b""[..])).collect::<Vec<_>>());
    let (files, bundles) = (4, 2 * scale);
    let tables = (files * bundles * entries) as u64;
    Costly::new(tree(place, files, &fat_with(&vec![table; bundles]).bytes), tables, 30 * tables)
}

/// The ID of each entry is the beginning of another bundle, whose entries are those that follow. There is a wrapper for
/// each of them.
pub(super) fn nested_tables(place: &Path, scale: usize) -> Costly {
    let count = 300 * u64::try_from(scale.min(4)).unwrap();
    let begin = |left: u64| [&b"__CLANG_OFFLOAD_BUNDLE__"[..], &left.to_le_bytes()].concat();
    let mut bundle = begin(count);
    for left in (0..count).rev() {
        bundle.extend([0_u64, 0, 32].into_iter().flat_map(u64::to_le_bytes));
        bundle.extend(begin(left));
    }
    // Each of the wrappers has a bundle of its own at first, so that there is room for all.
    let empty = vec![vec![0; 8]; usize::try_from(count).unwrap() - 1];
    let mut elf: Elf = fat_with(&[vec![bundle], empty].concat());
    let first = elf.bytes.windows(24).position(|bytes| bytes == b"__CLANG_OFFLOAD_BUNDLE__").unwrap() as u64;
    for number in 0..count {
        elf.set(elf.rela + number * 24 + 16, first + number * 56, 8);
    }
    Costly::new(tree(place, 1, &elf.bytes), count * count / 2, 32 * count * count / 2)
}

/// Libraries that need as many others as fit into the ceiling, all of which have a name of their own.
pub(super) fn imports(place: &Path, scale: usize) -> Costly {
    const COUNT: u64 = 1900;
    let (dynamic, strings) = (64 + 2 * 56, 64 + 2 * 56 + (COUNT + 3) * 16);
    let names: Vec<u8> = (0..COUNT).flat_map(|number| format!("{number:07}\0").into_bytes()).collect();
    let end = strings + names.len() as u64;
    let mut bytes = vec![0; usize::try_from(strings).unwrap()];
    bytes.extend(names);
    let mut put = |at: u64, value: u64, width: usize| {
        let at = usize::try_from(at).unwrap();
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    };
    let header =
        [(0, u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 8), (16, 3, 2), (18, 62, 2), (20, 1, 4), (32, 64, 8)];
    header
        .into_iter()
        .chain([(52, 64, 2), (54, 56, 2), (56, 2, 2)])
        .for_each(|(at, value, width)| put(at, value, width));
    for (at, kind, start) in [(64, 1, 0), (64 + 56, 2, dynamic)] {
        put(at, kind, 4);
        put(at + 4, 4, 4);
        for (field, value) in [start, start, start, end - start, end - start, 8].into_iter().enumerate() {
            put(at + 8 + 8 * field as u64, value, 8);
        }
    }
    let needed = (0..COUNT).map(|number| (1, number * 8));
    for (entry, (tag, value)) in (0..).zip([(5, strings), (10, end - strings)].into_iter().chain(needed)) {
        put(dynamic + entry * 16, tag, 8);
        put(dynamic + entry * 16 + 8, value, 8);
    }
    let files = 100 * scale;
    Costly::new(tree(place, files, &bytes), files as u64, files as u64 * COUNT * 56)
}

/// A code object with a symbol table of some MB, all of whose symbols have one long name.
pub(super) fn symbols(place: &Path, scale: usize) -> Costly {
    let count = 4000 * scale as u64;
    let name = 64 + 56 + 64;
    let (symbols, length) = (16_384_u64 + 64, 16_000_u64);
    let end = symbols + count * 24;
    let mut code = vec![0; usize::try_from(end.next_multiple_of(64) + 3 * 64).unwrap()];
    let mut put = |at: u64, value: u64, width: usize| {
        let at = usize::try_from(at).unwrap();
        code[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    };
    let table = end.next_multiple_of(64);
    for (at, value, width) in [
        (0, u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\x40"), 8),
        (8, 4, 1),
        (16, 3, 2),
        (18, 224, 2),
        (20, 1, 4),
        (32, 64, 8),
        (40, table, 8),
        (48, 0x4c, 4),
        (52, 64, 2),
        (54, 56, 2),
        (56, 1, 2),
        (58, 64, 2),
        (60, 3, 2),
        (64, 1, 4),
        (68, 4, 4),
        (96, end, 8),
        (104, end, 8),
        (table + 64 + 4, 11, 4),
        (table + 64 + 24, symbols, 8),
        (table + 64 + 32, count * 24, 8),
        (table + 64 + 40, 2, 4),
        (table + 64 + 56, 24, 8),
        (table + 128 + 4, 3, 4),
        (table + 128 + 24, name, 8),
        (table + 128 + 32, length, 8),
    ] {
        put(at, value, width);
    }
    for number in 0..count {
        // A global object.
        put(symbols + number * 24, number % 8000, 4);
        put(symbols + number * 24 + 4, 0x11, 1);
    }
    let at = usize::try_from(name).unwrap();
    code[at..at + 15_996].fill(b'k');
    code[at + 15_996..at + 16_000].copy_from_slice(b".kd\0");
    let library = |code: &[u8]| {
        fat_with(&[plain(&[("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942", code)])])
    };
    let after = tree(place, 4, &library(&code).bytes);
    // `diff` reads the symbols of code that differs.
    *code.last_mut().unwrap() ^= 1;
    let before = tree(&place.join("before"), 4, &library(&code).bytes);
    Costly { before: Some(before), ..Costly::new(after, 8 * count, 0) }
}

/// Static libraries with offload binaries (LLVM's `OffloadBinary.h`) for as many targets as are kept.
pub(super) fn offload_binaries(place: &Path, scale: usize) -> Costly {
    const TARGETS: usize = 600;
    let (header, entry, string, text) = (32, 40, 48, 16);
    let texts = header + TARGETS * (entry + string);
    let mut bytes = b"\x10\xff\x10\xad\x02\0\0\0".to_vec();
    let size = texts + 32 + TARGETS * text;
    let mut put = |fields: &[usize]| fields.iter().for_each(|field| bytes.extend((*field as u64).to_le_bytes()));
    put(&[size, header, TARGETS]);
    (0..TARGETS).for_each(|at| put(&[2 << 16, header + TARGETS * entry + at * string, 2, size, 0]));
    (0..TARGETS).for_each(|at| put(&[texts, texts + 7, 6, texts + 14, texts + 32 + at * text, 9]));
    bytes.extend(b"triple\0amdgcn\0arch\0");
    bytes.resize(texts + 32, 0);
    for at in 0..TARGETS {
        bytes.extend(format!("gfx9{at:05}").bytes().chain([0; 7]));
    }
    let files = 20 * scale;
    Costly::new(tree(place, files, &[b"!<arch>\n", &*bytes].concat()), (files * TARGETS) as u64, 0)
}

/// Frames that hold 128 KiB each, and gzip around zstd around gzip around zeros, in static libraries.
pub(super) fn frames(place: &Path, scale: usize) -> Costly {
    // A block that repeats a byte for 128 KiB (RFC 8878, 3.1.1.2).
    let block = b"\x28\xb5\x2f\xfd\x00\x58\x03\x00\x10\x00";
    let mut nested = vec![0; 64 << 20];
    for _ in 0..2 {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&nested).unwrap();
        nested = zstd::bulk::compress(&gzip.finish().unwrap(), 3).unwrap();
    }
    let all = [b"!<arch>\n", &*block.repeat(100_000), &*nested.repeat(100)].concat();
    Costly::new(tree(place, 4 * scale, &all), 0, 0)
}
