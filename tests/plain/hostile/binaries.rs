//! Binaries with device code, malformed in every way.

use std::sync::Arc;
use std::time::Instant;

use kpackfs::binary::{BinaryError, FatBinary, SplitBinary, marker};
use kpackfs::rope::{Content, Rope, Segment};

use crate::common::PATIENCE;
use crate::hostile::Kind;
use crate::hostile::elf::{
    DYNAMIC, Elf, FATBIN_SECTION, LOAD, NAMES_SECTION, RELA_SECTION, WRAPPER_SECTION, WRITABLE, fat,
};
use crate::hostile::plain_bundle::plain;
use crate::hostile::support::Watched;

/// A kind, its bytes, and a part of the refusal; empty if the binary can be split.
type Case = (&'static str, Vec<u8>, &'static str);

fn elf_cases() -> Vec<Case> {
    let good = fat(2, false);
    let (rela, wrappers, dynamic) = (good.rela, good.wrappers, good.dynamic);
    let section = |number: u64, field: u64, value: u64| good.with(good.section(number) + field, value, 8);
    let mut twice = good.clone();
    // The dynamic section gets the name of the section with the device code.
    twice.set(good.section(4), 11, 4);
    let mut in_place = fat(2, true);
    in_place.set(in_place.rela, u64::MAX, 8);
    // The third wrapper and its relocation are zeros, which make the relocation R_X86_64_NONE at address 0.
    let mut nothing = fat(3, false);
    for at in [0, 8, 16] {
        nothing.set(nothing.rela + 48 + at, 0, 8);
        nothing.set(nothing.wrappers + 48 + at, 0, 8);
    }
    vec![
        ("a good one", good.bytes.clone(), ""),
        ("a good one with RELR", fat(2, true).bytes, ""),
        ("a good one without section headers", good.with(40, 0, 8).bytes, ""),
        ("magic only", good.bytes[..4].to_vec(), ""),
        ("half a header", good.bytes[..40].to_vec(), ""),
        (
            "truncated in the device code",
            good.bytes[..usize::try_from(good.fatbin + 60).unwrap()].to_vec(),
            "past the end",
        ),
        ("program headers past the end", good.with(32, u64::MAX - 9, 8).bytes, "past the end"),
        ("65534 program headers", good.with(56, 65534, 2).bytes, "the limit is 1024"),
        ("program headers of no size", good.with(54, 0, 2).bytes, "unusual size"),
        ("section headers past the end", good.with(40, u64::MAX - 70, 8).bytes, "past the end"),
        ("2^60 sections", good.with(60, 0, 2).with(good.sections + 32, 1 << 60, 8).bytes, "sections"),
        ("names past the end", section(NAMES_SECTION, 32, 1 << 20).bytes, "past the end"),
        ("names without an end", section(NAMES_SECTION, 32, 1 << 60).bytes, "section names"),
        ("no such section of names", good.with(62, 0xFFF0, 2).bytes, ""),
        ("two sections of device code", twice.bytes, "more than one .hip_fatbin"),
        ("device code past the end", section(FATBIN_SECTION, 32, 1 << 40).bytes, "not loaded"),
        ("device code everywhere", section(FATBIN_SECTION, 32, u64::MAX).bytes, "not loaded"),
        ("device code at another address", section(FATBIN_SECTION, 16, u64::MAX - 5).bytes, "not loaded"),
        ("wrappers without device code", section(FATBIN_SECTION, 32, 0).bytes, "no .hip_fatbin"),
        ("wrappers past the end", section(WRAPPER_SECTION, 32, 1 << 20).bytes, "past the end"),
        ("wrappers of all there is", section(WRAPPER_SECTION, 32, 1 << 40).bytes, "the limit is"),
        ("wrappers past all addresses", section(WRAPPER_SECTION, 16, u64::MAX - 8).bytes, "not loaded"),
        ("wrappers in the device code", section(WRAPPER_SECTION, 24, good.fatbin).bytes, "no fat binary wrapper"),
        ("one wrapper is split", good.with(wrappers, 0x4B50_4948, 4).bytes, "some of its"),
        ("a wrapper of version 2", good.with(wrappers + 4, 2, 4).bytes, "no fat binary wrapper"),
        ("a wrapper points elsewhere", good.with(rela + 16, 64, 8).bytes, "points outside"),
        ("a wrapper points past all addresses", good.with(rela + 16, u64::MAX, 8).bytes, "points outside"),
        ("a pointer is relocated twice", good.with(rela + 24, wrappers + 0x1008, 8).bytes, "relocated twice"),
        ("an unusual relocation", good.with(rela + 8, 7, 8).bytes, "unusual relocation"),
        ("a relocation of nothing", nothing.bytes, ""),
        ("a relocation in the headers", good.with(rela, 72, 8).bytes, "inside its headers"),
        ("a relocation in the device code", good.with(rela, good.fatbin + 8, 8).bytes, "inside the device code"),
        ("no relocations", good.with(dynamic, 0, 8).bytes, "not relocated"),
        ("relocations past the end", good.with(dynamic + 24, 1 << 40, 8).bytes, "not in the file"),
        ("relocations past all addresses", good.with(dynamic + 8, u64::MAX, 8).bytes, "too long"),
        ("RELR of a bitmap only", in_place.bytes, "inside its headers"),
        ("a segment past the end", good.with(LOAD + 32, 1 << 40, 8).bytes, "past the end"),
        ("a segment past all addresses", good.with(WRITABLE + 16, u64::MAX - 5, 8).bytes, "past the end"),
        ("an alignment of 3", good.with(LOAD + 48, 3, 8).bytes, "power of two"),
        ("no dynamic section", good.with(DYNAMIC, 0, 4).bytes, "not relocated"),
        ("a dynamic section past the end", good.with(DYNAMIC + 8, 1 << 60, 8).bytes, "not loaded"),
        (
            "wrappers in an unused section",
            good.with(good.section(WRAPPER_SECTION) + 4, 0, 4).bytes,
            "no fat binary wrappers",
        ),
        ("a table of no sections", good.with(60, 0, 2).bytes, ""),
        (
            "two segments in one place",
            good.with(DYNAMIC, 1, 4).with(DYNAMIC + 16, 0x10_0000, 8).bytes,
            "the same bytes",
        ),
        ("segments out of order", good.with(DYNAMIC, 1, 4).with(DYNAMIC + 16, 0, 8).bytes, "one after the other"),
        ("an unknown machine", good.with(18, 0xFFFF, 2).bytes, "machine"),
        ("relocations are the wrappers", good.with(dynamic + 8, wrappers + 0x1000, 8).bytes, "in a fat binary wrapper"),
        ("section headers in the device code", good.with(40, good.fatbin, 8).bytes, "the limit is"),
        ("relocations are no section", section(RELA_SECTION, 24, u64::MAX).bytes, ""),
    ]
}

pub(crate) fn elf_kinds() -> Vec<Kind> {
    elf_cases().into_iter().map(|(kind, bytes, _)| (kind, bytes)).collect()
}

/// A DLL with one wrapper: device code at 512, wrappers at 1024, relocations at 1536; RVAs 4096, 8192 and 12288.
fn dll() -> Elf {
    let bytes = vec![0; 2048];
    let mut dll = Elf { bytes, rela: 1536, fatbin: 512, wrappers: 1024, dynamic: 0, sections: 328 };
    dll.put(0, b"MZ");
    dll.set(60, 64, 4);
    dll.put(64, b"PE\0\0");
    for (at, value, length) in [(68, 0x8664, 2), (70, 3, 2), (84, 240, 2), (86, 0x2022, 2), (88, 0x20B, 2)] {
        dll.set(at, value, length);
    }
    // Image base, alignments, sizes of image and headers, number of directories.
    for (at, value) in [(112 + 8, 4096), (112 + 12, 512), (144, 0x4000), (148, 512), (196, 16)] {
        dll.set(at, value, 4);
    }
    dll.set(112, 0x1_8000_0000, 8);
    dll.set(200 + 5 * 8, 0x3000, 4);
    dll.set(200 + 5 * 8 + 4, 12, 4);
    for (number, (name, flags)) in
        [(b".hip_fat", 0x4000_0040), (b".hipFatB", 0xC000_0040), (b".reloc\0\0", 0x4200_0040)].into_iter().enumerate()
    {
        let header = 328 + 40 * number as u64;
        dll.put(header, name);
        for (at, value) in
            [(8, 512), (12, 4096 * (number as u64 + 1)), (16, 512), (20, 512 * (number as u64 + 1)), (36, flags)]
        {
            dll.set(header + at, value, 4);
        }
    }
    dll.set(328 + 40 + 8, 24, 4);
    dll.set(328 + 80 + 8, 12, 4);
    dll.put(512, &plain(&[("hip-amdgcn-amd-amdhsa--gfx90a", &[7; 300])]));
    dll.put(1024, b"FPIH\x01\0\0\0");
    dll.set(1032, 0x1_8000_1000, 8);
    dll.set(1536, 0x2000, 4);
    dll.set(1540, 12, 4);
    dll.set(1544, 0xA008, 2);
    dll
}

fn coff_cases() -> Vec<Case> {
    let good = dll();
    let section = |number: u64, field: u64, value: u64| good.with(328 + 40 * number + field, value, 4).bytes;
    let mut twice = good.clone();
    twice.put(328 + 80, b".hip_fat");
    vec![
        ("a good one", good.bytes.clone(), ""),
        ("MZ only", good.bytes[..2].to_vec(), ""),
        ("headers past the end", good.with(60, u64::MAX, 4).bytes, ""),
        ("a short optional header", good.with(84, 100, 2).bytes, "too short"),
        ("65535 sections", good.with(70, 65535, 2).bytes, "it has 65535 sections"),
        ("two sections of device code", twice.bytes, "more than one"),
        ("device code past the end", section(0, 16, 1 << 30), "past the end"),
        ("device code in the headers", section(0, 20, 64), "the headers"),
        ("device code over the wrappers", section(0, 8, 0x2000), "not loaded"),
        ("device code in the file over the wrappers", section(0, 16, 1024), "the same bytes"),
        (
            "device code at an odd place",
            good.with(328 + 20, 520, 4).with(328 + 16, 480, 4).bytes,
            "not where sections are",
        ),
        ("wrappers of all there is", good.with(328 + 48, 1 << 30, 4).with(328 + 56, 1 << 30, 4).bytes, "the limit is"),
        ("wrappers past all addresses", section(1, 12, u64::from(u32::MAX)), "one after the other"),
        ("a wrapper of version 2", good.with(1028, 2, 4).bytes, "no fat binary wrapper"),
        ("a wrapper points elsewhere", good.with(1032, 0x1_8000_2000, 8).bytes, "points outside"),
        ("a wrapper points below the image", good.with(1032, 5, 8).bytes, "out of the image"),
        ("relocations past the end", good.with(244, 1 << 20, 4).bytes, "not in the file"),
        ("relocations of all there is", good.with(244, u64::from(u32::MAX), 4).bytes, "the limit is"),
        ("a block of no size", good.with(1540, 0, 4).bytes, "impossible size"),
        ("a block past the end", good.with(1540, 1 << 20, 4).bytes, "impossible size"),
        ("a relocation of an unknown type", good.with(1544, 0x5008, 2).bytes, "not understood"),
        ("a relocation in the device code", good.with(1536, 0x1000, 4).bytes, "inside the device code"),
        ("a relocation of no pointer", good.with(1546, 0xA000, 2).bytes, "not those of their pointers"),
        ("sections out of order", section(2, 12, 0x2008), "one after the other"),
        ("no file alignment", good.with(124, 0, 4).bytes, "file alignment"),
        (
            "an image base past all addresses",
            good.with(112, u64::MAX - 4095, 8).with(1032, 5, 8).bytes,
            "out of the image",
        ),
        ("a directory in the device code", good.with(200, 0x1010, 4).with(204, 8, 4).bytes, "lies in its device code"),
        ("certificates everywhere", good.with(200 + 32, 1, 4).with(200 + 36, u64::from(u32::MAX), 4).bytes, ""),
        (
            "debug data of all there is",
            good.with(200 + 48, 0x2000, 4).with(200 + 52, u64::from(u32::MAX), 4).bytes,
            "debug directory",
        ),
        (
            "debug data over the relocations",
            good.with(200 + 48, 0x3000, 4).with(200 + 52, 28, 4).bytes,
            "overlaps its debug directory",
        ),
        ("a checksum", good.with(152, 1, 4).bytes, ""),
    ]
}

pub(crate) fn coff_kinds() -> Vec<Kind> {
    coff_cases().into_iter().map(|(kind, bytes, _)| (kind, bytes)).collect()
}

fn content(bytes: Vec<u8>) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes)]).unwrap())
}

fn rewritten(bytes: Vec<u8>) -> Result<Option<Rope>, BinaryError> {
    match FatBinary::scan(&content(bytes))? {
        Some(fat) => fat.rewrite(&marker("x", &["y".to_owned()])).map(Some),
        None => Ok(None),
    }
}

#[test]
fn what_cannot_be_split_is_refused_with_a_reason() {
    let mut wrong = Vec::new();
    for (kind, bytes, reason) in elf_cases().into_iter().chain(coff_cases()) {
        match rewritten(bytes) {
            Err(error) if !reason.is_empty() && error.to_string().contains(reason) => {}
            Ok(rope) if reason.is_empty() && (rope.is_some() || !kind.starts_with("a good one")) => {}
            Err(error) => wrong.push(format!("{kind}: {error}")),
            Ok(rope) => wrong.push(format!("{kind}: {}", rope.map_or("no code", |_| "split"))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fails if scanning or reading a split takes long, or reads much more than the file's size.
fn quick(kind: &str, bytes: &[u8]) -> Result<(), BinaryError> {
    let watched = Watched::new(bytes);
    let content: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    let begin = Instant::now();
    let scanned = FatBinary::scan(&content);
    drop(SplitBinary::read(&content));
    watched.check(kind);
    // A busy machine keeps this bound, too. Quadratic work takes longer.
    assert!(begin.elapsed() < PATIENCE, "{kind}: {:?}", begin.elapsed());
    scanned.map(drop)
}

/// Structures that refer to the same bytes many times.
#[test]
fn work_is_bounded_by_the_size_of_a_file() {
    // Names: each of 2000 sections uses all of a name of 1 MB.
    let mut elf = fat(1, false);
    let names = elf.bytes.len() as u64;
    elf.bytes.extend(vec![b'x'; 1 << 20]);
    let sections = elf.bytes.len() as u64;
    elf.bytes.extend(vec![0; 2000 * 64]);
    for number in 0..2000 {
        elf.set(sections + number * 64, number, 4);
    }
    {
        let (at, value) = (40, sections);
        elf.set(at, value, 8);
    }
    elf.set(60, 2000, 2);
    elf.set(62, 1, 2);
    elf.set(sections + 64 + 24, names, 8);
    elf.set(sections + 64 + 32, 1 << 20, 8);
    let error = quick("names", &elf.bytes).unwrap_err().to_string();
    assert!(error.contains("4096"), "{error}");

    // RELR: words that point back and forth, each to another page.
    let mut elf = fat(1, true);
    let (table, count) = (elf.bytes.len() as u64, 100_000_u64);
    for number in 0..count {
        let page = if number % 2 == 0 { number } else { count - number };
        elf.bytes.extend((page * 8 / 16 * 16).to_le_bytes());
    }
    let size = elf.bytes.len() as u64;
    for (at, value) in [(LOAD + 32, size), (LOAD + 40, size), (elf.dynamic + 8, table), (elf.dynamic + 24, count * 8)] {
        elf.set(at, value, 8);
    }
    drop(quick("RELR", &elf.bytes));

    // Segments that span the whole file and are searched for wrappers.
    let mut elf = fat(1, false);
    elf.set(40, 0, 8);
    let (segments, count) = (elf.bytes.len() as u64, 1000_u64);
    for number in 0..count {
        let header = [1_u32, 6].map(u32::to_le_bytes).concat();
        elf.bytes.extend(header);
        for field in [0, number << 32, number << 32, segments, segments, 16] {
            elf.bytes.extend(field.to_le_bytes());
        }
    }
    elf.set(32, segments, 8);
    elf.set(56, count, 2);
    let error = quick("segments", &elf.bytes).unwrap_err().to_string();
    assert!(error.contains("overlap"), "{error}");

    // Thousands of wrappers, one of them without a relocation. Each points at another marker.
    let mut elf = fat(20_000, false);
    for number in 0..20_000 {
        elf.set(elf.wrappers + number * 24, 0x4B50_4948, 4);
        elf.set(elf.rela + number * 24 + 16, 64 + number, 8);
    }
    elf.set(elf.rela + 8, 7, 8);
    drop(quick("wrappers", &elf.bytes));
    let split = SplitBinary::read(&content(elf.bytes)).unwrap().unwrap();
    assert_eq!(split.wrappers.len(), 20_000);
    assert_eq!(split.wrappers.iter().filter(|wrapper| wrapper.marker.is_ok()).count(), 64);
    assert!(split.problems.len() <= 101, "{}", split.problems.len());
}

/// Bundles whose tables overlap: each bundle is read only up to the next one.
#[test]
fn bundles_end_where_the_next_one_begins() {
    let elf = fat(3, false);
    let content = content(elf.bytes);
    let fat = FatBinary::scan(&content).unwrap().unwrap();
    let wrappers = fat.wrappers();
    let ends: Vec<_> = wrappers.iter().map(|wrapper| wrapper.limit).collect();
    assert_eq!(&ends[..2], wrappers[1..].iter().map(|wrapper| wrapper.bundle).collect::<Vec<_>>());
    assert!(ends[2] > wrappers[2].bundle);
}

/// Output of linkers and patchelf, and versions of it that were altered to mislead. Each case says whether the file is
/// split, or else why not.
#[test]
fn files_of_other_tools_are_split_as_they_are_or_refused() {
    let split = "";
    let none = "no device code";
    for (kind, expected) in [
        ("program-headers-behind-the-device-code", split),
        ("program-headers-at-the-end,-by-patchelf", split),
        ("a-section-in-the-gap,-by-patchelf", split),
        ("a-segment-in-the-gap", split),
        ("section-headers-in-the-gap,-by-patchelf", split),
        ("a-table-of-nothing,-by-mold", split),
        ("debug-information-only,-by-eu-strip", none),
        ("no-section-headers,-by-patchelf", split),
        ("segments-aligned-to-16", split),
        ("an-executable-aligned-to-16", split),
        ("two-tables-of-relocations", split),
        ("symbols-over-the-dynamic-segment", split),
        ("symbols-over-code", split),
        ("section-names-in-the-device-code", "is that of the section names"),
        ("a-dynamic-segment-in-the-device-code", "another program header"),
        ("a-note-in-the-device-code", "another program header"),
        ("relative-relocations-in-the-device-code", "in its device code"),
        ("symbol-names-in-the-device-code", "in its device code"),
        ("a-marker-is-there", "already"),
        ("a-split-wrapper-leads-into-the-device-code", "looks like wrappers"),
        ("an-executable-with-65-false-markers", "looks like wrappers"),
        ("a-wrapper-in-the-dynamic-segment", "in a fat binary wrapper"),
        ("a-relocated-index", "in a fat binary wrapper"),
        ("device-code-in-section-0", "no .hip_fatbin section"),
    ] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/regressions/elf/").to_owned() + kind;
        let original = std::fs::read(path).unwrap();
        let found = match rewritten(original.clone()) {
            Ok(Some(rope)) => {
                let bytes = rope.to_vec().unwrap();
                assert!(bytes.len() < original.len(), "{kind}");
                // The bytes of .comment are not loaded, and still must stay.
                let linker = b"Linker: LLD";
                let has = |bytes: &[u8]| bytes.windows(linker.len()).any(|there| there == linker);
                assert_eq!(has(&bytes), has(&original), "{kind}");
                String::new()
            }
            Ok(None) => none.to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{kind}: {found:?}");
    }
}

/// Odd headers make no difference: of a section that is not loaded and says that it is executable, and of an unknown type whose
/// memory is device code. A section with code that begins before a tail is in it. The tail of a segment that nobody may read does not join memory that can be read.
#[test]
fn odd_headers_make_no_difference_to_loaders() {
    for name in [
        "executable-section-that-is-not-loaded",
        "unknown-program-header-of-device-code",
        "segment-without-permissions",
        "code-section-over-everything",
    ] {
        let original = std::fs::read(format!("{}/fuzz/regressions/elf/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let fat = FatBinary::scan(&content(original.clone())).unwrap().unwrap();
        let new = rewritten(original).unwrap().unwrap().to_vec().unwrap();
        assert_eq!(fat.first_difference(&content(new)).unwrap(), None, "{name}");
    }
}
