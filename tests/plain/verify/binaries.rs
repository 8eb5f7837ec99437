//! Binaries that a loader should refuse.

use std::fs;
use std::path::Path;

use kpackfs::binary::marker;
use kpackfs::verify::Check;

use crate::verify::splits::{Elf, FoundBy, PLAIN, Segment, edit, offset_of, write_at};

const NO_HEADERS: &str = "host/lib/noheaders.so";

fn wrapper(root: &Path, path: &str, index: u64, field: u64, bytes: &[u8]) {
    let path = root.join(path);
    write_at(&path, Elf::open(&path).section(".hipFatBinSegment").offset + index * 24 + field, bytes);
}

fn section_header(root: &Path, path: &str, name: &str, field: u64, bytes: &[u8]) {
    let path = root.join(path);
    write_at(&path, Elf::open(&path).section(name).header + field, bytes);
}

fn segment(root: &Path, path: &str, choose: fn(&Segment) -> bool, field: u64, value: fn(u64) -> u64) {
    let path = root.join(path);
    let elf = Elf::open(&path);
    let at = elf.segments.iter().find(|segment| choose(segment)).unwrap().header + field;
    let bytes = fs::read(&path).unwrap();
    let old = u64::from_le_bytes(bytes[usize::try_from(at).unwrap()..][..8].try_into().unwrap());
    write_at(&path, at, &value(old).to_le_bytes());
}

fn write_marker(root: &Path, bytes: &[u8]) {
    let path = root.join(PLAIN);
    write_at(&path, Elf::open(&path).section(".rocm_kpack_ref").offset, bytes);
}

#[test]
fn wrong_wrappers_and_markers_are_named() {
    FoundBy(Check::Binary).each(&[
        ("index", |at| wrapper(at, PLAIN, 0, 16, &[7]), PLAIN, "wrapper 0 asks for index 0x7"),
        ("upper half", |at| wrapper(at, PLAIN, 1, 20, &[1]), PLAIN, "asks for index 0x100000001"),
        ("version", |at| wrapper(at, PLAIN, 1, 4, &[2]), PLAIN, "wrapper 1 has version 2 instead of 1"),
        ("mixed", |at| wrapper(at, PLAIN, 1, 0, b"FPIH"), PLAIN, "1 of its 2 wrappers still have the magic HIPF"),
        (
            "index without section headers",
            |at| write_at(&at.join(NO_HEADERS), offset_of(&at.join(NO_HEADERS), b"HIPK") + 16, &[7]),
            NO_HEADERS,
            "wrapper 0 asks for index 0x7",
        ),
        (
            "null pointer in a fixed executable",
            |at| wrapper(at, "host/lib/exe-static", 1, 8, &[0; 8]),
            "host/lib/exe-static",
            "wrapper 1 has no marker: malformed: its pointer leads to 0x0, where nothing is loaded",
        ),
        ("magic", |at| wrapper(at, PLAIN, 1, 0, b"oops"), PLAIN, "there is no wrapper at"),
        (
            "null pointer without relocation",
            |at| wrapper(at, "host/lib/exe-nopie", 0, 8, &[0; 8]),
            "host/lib/exe-nopie",
            "wrapper 0 has no marker: malformed: its pointer leads to 0x0, where nothing is loaded",
        ),
        (
            "null pointer under RELR",
            |at| wrapper(at, "host/lib/relr.so", 0, 8, &[0; 8]),
            "host/lib/relr.so",
            "wrapper 0 points at 0x0, outside of .rocm_kpack_ref",
        ),
        ("stale pointer", |at| wrapper(at, PLAIN, 0, 8, &[0x34, 0x12]), PLAIN, "in place but"),
        ("garbage", |at| write_marker(at, &[0xc1]), PLAIN, "wrapper 0: its marker is unreadable"),
        ("a key is missing", |at| write_marker(at, b"\x81\xabkernel_name\xa1x"), PLAIN, "unreadable"),
        ("no paths", |at| write_marker(at, &marker("lib/plain-bfd.so", &[])), PLAIN, "names no search path"),
        (
            "no marker section",
            |at| {
                let place = offset_of(&at.join(PLAIN), b".rocm_kpack_ref\0");
                write_at(&at.join(PLAIN), place, b".something");
            },
            PLAIN,
            "it has no section .rocm_kpack_ref",
        ),
        (
            "marker without bytes",
            |at| section_header(at, PLAIN, ".rocm_kpack_ref", 4, &[8]),
            PLAIN,
            ".rocm_kpack_ref is not loaded",
        ),
        (
            "marker behind sections that are not loaded",
            |at| section_header(at, PLAIN, ".dynsym", 8, &[0]),
            PLAIN,
            "section .rocm_kpack_ref: it is loaded but comes after .dynsym",
        ),
    ]);
}

#[test]
fn broken_segments_are_named() {
    FoundBy(Check::Binary).each(&[
        (
            "alignment",
            |at| segment(at, PLAIN, |it| it.is_load && it.offset != it.address, 48, |_| 0x10000),
            PLAIN,
            "differ modulo its alignment 0x10000",
        ),
        ("odd", |at| segment(at, PLAIN, |it| it.is_load, 48, |_| 0x3000), PLAIN, "is not a power of two"),
        (
            "longer in the file",
            |at| segment(at, PLAIN, |it| it.is_load, 40, |_| 8),
            PLAIN,
            "longer in the file than in memory",
        ),
        (
            "order",
            |at| segment(at, PLAIN, |it| it.is_load, 16, |_| 1 << 32),
            PLAIN,
            "it does not begin behind the segment before it",
        ),
        (
            "end of file",
            |at| segment(at, PLAIN, |it| it.is_load, 32, |_| 1 << 32),
            PLAIN,
            "a segment reaches past the end of the file",
        ),
        (
            "commit charge",
            |at| segment(at, PLAIN, |it| it.is_load && it.is_writable, 40, |old| old + (16 << 20)),
            PLAIN,
            "writable bytes without file content",
        ),
        (
            "PT_PHDR",
            |at| segment(at, "host/lib/exe-pie", |it| it.kind == 6, 32, |old| old + 56),
            "host/lib/exe-pie",
            "PT_PHDR does not describe the program header table",
        ),
        (
            "inner segment",
            |at| segment(at, PLAIN, |it| it.kind == 2, 16, |_| 1 << 40),
            PLAIN,
            "its address and offset belong to no loaded segment",
        ),
    ]);
}

#[test]
fn broken_sections_are_named() {
    FoundBy(Check::Binary).each(&[
        (
            "unmapped",
            |at| section_header(at, "host/lib/insert-after-bss.so", ".bss", 16, &(1_u64 << 40).to_le_bytes()),
            "host/lib/insert-after-bss.so",
            "section .bss: it is not inside a loaded segment",
        ),
        (
            "displaced",
            |at| section_header(at, PLAIN, ".dynsym", 24, &[0; 8]),
            PLAIN,
            "section .dynsym: its address and its offset are not the same place",
        ),
        (
            "section behind the end",
            |at| section_header(at, PLAIN, ".comment", 24, &(1_u64 << 32).to_le_bytes()),
            PLAIN,
            "section .comment: it reaches past the end of the file",
        ),
        (
            "overlap",
            |at| {
                let names = Elf::open(&at.join(PLAIN)).section(".shstrtab").offset;
                section_header(at, PLAIN, ".comment", 24, &names.to_le_bytes());
            },
            PLAIN,
            "section .comment and section .shstrtab overlap in the file",
        ),
        (
            "names",
            |at| section_header(at, PLAIN, ".comment", 0, &u32::MAX.to_le_bytes()),
            PLAIN,
            "the name of a section lies outside",
        ),
        (
            "truncated",
            |at| edit(&at.join(PLAIN), |bytes| bytes.truncate(bytes.len() - 100)),
            PLAIN,
            "reaches past the end of the file",
        ),
    ]);
}
