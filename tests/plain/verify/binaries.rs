//! Binaries that a loader should refuse.

use std::fs;
use std::path::Path;

use kpackfs::binary::marker;
use kpackfs::verify::Check;

use crate::verify::splits::{Elf, PLAIN, Segment, edit, offset_of, run, write_at};

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
    use Check::Binary;
    run(
        &[
            ("index", |at| wrapper(at, PLAIN, 0, 16, &[7]), Binary, PLAIN, "wrapper 0 asks for index 0x7"),
            ("upper half", |at| wrapper(at, PLAIN, 1, 20, &[1]), Binary, PLAIN, "asks for index 0x100000001"),
            ("version", |at| wrapper(at, PLAIN, 1, 4, &[2]), Binary, PLAIN, "wrapper 1 has version 2 instead of 1"),
            (
                "mixed",
                |at| wrapper(at, PLAIN, 1, 0, b"FPIH"),
                Binary,
                PLAIN,
                "1 of its 2 wrappers still have the magic HIPF",
            ),
            (
                "index without section headers",
                |at| write_at(&at.join(NO_HEADERS), offset_of(&at.join(NO_HEADERS), b"HIPK") + 16, &[7]),
                Binary,
                NO_HEADERS,
                "wrapper 0 asks for index 0x7",
            ),
            (
                "null pointer in a fixed executable",
                |at| wrapper(at, "host/lib/exe-static", 1, 8, &[0; 8]),
                Binary,
                "host/lib/exe-static",
                "wrapper 1 has no marker: malformed: its pointer leads to 0x0, where nothing is loaded",
            ),
            ("magic", |at| wrapper(at, PLAIN, 1, 0, b"oops"), Binary, PLAIN, "there is no wrapper at"),
            (
                "null pointer without relocation",
                |at| wrapper(at, "host/lib/exe-nopie", 0, 8, &[0; 8]),
                Binary,
                "host/lib/exe-nopie",
                "wrapper 0 has no marker: malformed: its pointer leads to 0x0, where nothing is loaded",
            ),
            (
                "null pointer under RELR",
                |at| wrapper(at, "host/lib/relr.so", 0, 8, &[0; 8]),
                Binary,
                "host/lib/relr.so",
                "wrapper 0 points at 0x0, outside of .rocm_kpack_ref",
            ),
            ("stale pointer", |at| wrapper(at, PLAIN, 0, 8, &[0x34, 0x12]), Binary, PLAIN, "in place but"),
            ("garbage", |at| write_marker(at, &[0xc1]), Binary, PLAIN, "wrapper 0: its marker is unreadable"),
            ("a key is missing", |at| write_marker(at, b"\x81\xabkernel_name\xa1x"), Binary, PLAIN, "unreadable"),
            (
                "no paths",
                |at| write_marker(at, &marker("lib/plain-bfd.so", &[])),
                Binary,
                PLAIN,
                "names no search path",
            ),
            (
                "no marker section",
                |at| {
                    let place = offset_of(&at.join(PLAIN), b".rocm_kpack_ref\0");
                    write_at(&at.join(PLAIN), place, b".something");
                },
                Binary,
                PLAIN,
                "it has no section .rocm_kpack_ref",
            ),
            (
                "marker without bytes",
                |at| section_header(at, PLAIN, ".rocm_kpack_ref", 4, &[8]),
                Binary,
                PLAIN,
                ".rocm_kpack_ref is not loaded",
            ),
            (
                "marker behind sections that are not loaded",
                |at| section_header(at, PLAIN, ".dynsym", 8, &[0]),
                Binary,
                PLAIN,
                "section .rocm_kpack_ref: it is loaded but comes after .dynsym",
            ),
            (
                "a search path that leaves the tree",
                |at| {
                    let place = offset_of(&at.join(PLAIN), b"../.kpack");
                    write_at(&at.join(PLAIN), place, b"/");
                },
                Check::Lookup,
                PLAIN,
                "no archive has code for wrapper 0, 1",
            ),
        ],
        false,
    );
}

#[test]
fn broken_segments_are_named() {
    use Check::Binary;
    run(
        &[
            (
                "alignment",
                |at| segment(at, PLAIN, |it| it.is_load && it.offset != it.address, 48, |_| 0x10000),
                Binary,
                PLAIN,
                "differ modulo its alignment 0x10000",
            ),
            ("odd", |at| segment(at, PLAIN, |it| it.is_load, 48, |_| 0x3000), Binary, PLAIN, "is not a power of two"),
            (
                "longer in the file",
                |at| segment(at, PLAIN, |it| it.is_load, 40, |_| 8),
                Binary,
                PLAIN,
                "longer in the file than in memory",
            ),
            (
                "order",
                |at| segment(at, PLAIN, |it| it.is_load, 16, |_| 1 << 32),
                Binary,
                PLAIN,
                "it does not begin behind the segment before it",
            ),
            (
                "end of file",
                |at| segment(at, PLAIN, |it| it.is_load, 32, |_| 1 << 32),
                Binary,
                PLAIN,
                "a segment reaches past the end of the file",
            ),
            (
                "commit charge",
                |at| segment(at, PLAIN, |it| it.is_load && it.is_writable, 40, |old| old + (16 << 20)),
                Binary,
                PLAIN,
                "writable bytes without file content",
            ),
            (
                "PT_PHDR",
                |at| segment(at, "host/lib/exe-pie", |it| it.kind == 6, 32, |old| old + 56),
                Binary,
                "host/lib/exe-pie",
                "PT_PHDR does not describe the program header table",
            ),
            (
                "inner segment",
                |at| segment(at, PLAIN, |it| it.kind == 2, 16, |_| 1 << 40),
                Binary,
                PLAIN,
                "its address and offset belong to no loaded segment",
            ),
        ],
        false,
    );
}

#[test]
fn broken_sections_are_named() {
    use Check::Binary;
    run(
        &[
            (
                "unmapped",
                |at| section_header(at, "host/lib/insert-after-bss.so", ".bss", 16, &(1_u64 << 40).to_le_bytes()),
                Binary,
                "host/lib/insert-after-bss.so",
                "section .bss: it is not inside a loaded segment",
            ),
            (
                "displaced",
                |at| section_header(at, PLAIN, ".dynsym", 24, &[0; 8]),
                Binary,
                PLAIN,
                "section .dynsym: its address and its offset are not the same place",
            ),
            (
                "section behind the end",
                |at| section_header(at, PLAIN, ".comment", 24, &(1_u64 << 32).to_le_bytes()),
                Binary,
                PLAIN,
                "section .comment: it reaches past the end of the file",
            ),
            (
                "overlap",
                |at| {
                    let names = Elf::open(&at.join(PLAIN)).section(".shstrtab").offset;
                    section_header(at, PLAIN, ".comment", 24, &names.to_le_bytes());
                },
                Binary,
                PLAIN,
                "section .comment and section .shstrtab overlap in the file",
            ),
            (
                "names",
                |at| section_header(at, PLAIN, ".comment", 0, &u32::MAX.to_le_bytes()),
                Binary,
                PLAIN,
                "the name of a section lies outside",
            ),
            (
                "truncated",
                |at| edit(&at.join(PLAIN), |bytes| bytes.truncate(bytes.len() - 100)),
                Binary,
                PLAIN,
                "reaches past the end of the file",
            ),
        ],
        false,
    );
}
