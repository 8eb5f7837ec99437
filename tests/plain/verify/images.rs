//! Windows images that a loader should refuse. `win.dll` after a split: `e_lfanew` 0x78, section table 0x180 (entry 6
//! is `.kpackrf`, 7 is `.reloc`), code at 0x400, wrappers at 0x1400, the marker at 0x1600, relocations at 0x1800 (those
//! of wrappers at 0x1820).

use kpackfs::verify::Check;

use crate::verify::splits::{FoundBy, edit, write_at};

const DLL: &str = "host/lib/win.dll";
const EXE: &str = "host/lib/win.exe";
const OPTIONAL: u64 = 0x78 + 24;
const MARKER: u64 = 0x180 + 6 * 40;
const RELOC: u64 = 0x180 + 7 * 40;
const WRAPPERS: u64 = 0x1400;

#[test]
fn wrong_wrappers_of_images_are_named() {
    FoundBy(Check::Binary).each(&[
        ("index", |at| write_at(&at.join(DLL), WRAPPERS + 16, &[7]), DLL, "wrapper 0 asks for index 0x7"),
        ("version", |at| write_at(&at.join(EXE), WRAPPERS + 4, &[2]), EXE, "wrapper 0 has version 2"),
        (
            "mixed",
            |at| write_at(&at.join(DLL), WRAPPERS + 24, b"FPIH"),
            DLL,
            "1 of its 2 wrappers still have the magic HIPF",
        ),
        ("magic", |at| write_at(&at.join(DLL), WRAPPERS, b"oops"), DLL, "there is no wrapper at 0x1400"),
        (
            "null pointer",
            |at| write_at(&at.join(DLL), WRAPPERS + 8, &[0; 8]),
            DLL,
            "wrapper 0 has no marker: malformed: its pointer leads to 0x0",
        ),
        (
            "stale pointer",
            |at| write_at(&at.join(DLL), WRAPPERS + 8, &0x1_8000_1000_u64.to_le_bytes()),
            DLL,
            "wrapper 0 points at 0x180001000, outside of .kpackrf",
        ),
        (
            "no relocation",
            |at| write_at(&at.join(DLL), 0x1820, &[0; 4]),
            DLL,
            "the pointer of wrapper 0 has no base relocation",
        ),
        (
            "a relocation inside a wrapper",
            |at| write_at(&at.join(DLL), 0x1820, &[0]),
            DLL,
            "among the wrappers but not of a pointer",
        ),
        ("no marker section", |at| write_at(&at.join(DLL), MARKER, b".another"), DLL, "it has no section .kpackrf"),
        (
            "device code",
            |at| write_at(&at.join(DLL), MARKER, b".hip_fat"),
            DLL,
            "it still holds device code: .hip_fat has 512 bytes",
        ),
        ("marker", |at| write_at(&at.join(DLL), 0x1600, &[0xc1]), DLL, "its marker is unreadable"),
    ]);
}

#[test]
fn broken_images_are_named() {
    FoundBy(Check::Binary).each(&[
        (
            "a hole between sections",
            |at| write_at(&at.join(DLL), RELOC + 12, &0x4_0000_u32.to_le_bytes()),
            DLL,
            "section .reloc: it begins at 0x40000 instead of",
        ),
        (
            "less memory than before",
            |at| write_at(&at.join(DLL), MARKER + 8, &0x200_u32.to_le_bytes()),
            DLL,
            "section .reloc: it begins at",
        ),
        ("size of image", |at| write_at(&at.join(DLL), OPTIONAL + 57, &[0]), DLL, "SizeOfImage is"),
        ("unaligned", |at| write_at(&at.join(DLL), RELOC + 20, &[8]), DLL, "is not aligned"),
        (
            "stale offset",
            |at| write_at(&at.join(DLL), RELOC + 20, &0x8800_u32.to_le_bytes()),
            DLL,
            "are not in the file",
        ),
        (
            "overlap",
            |at| write_at(&at.join(DLL), MARKER + 16, &0x400_u32.to_le_bytes()),
            DLL,
            "section .kpackrf and section .reloc overlap in the file",
        ),
        ("headers", |at| write_at(&at.join(DLL), OPTIONAL + 60, &[1]), DLL, "SizeOfHeaders is"),
        ("checksum", |at| write_at(&at.join(DLL), OPTIONAL + 64, &[1]), DLL, "its checksum is 0x1 but"),
        (
            "certificates",
            |at| write_at(&at.join(DLL), OPTIONAL + 112 + 4 * 8, &[0, 0, 0, 1, 8, 0, 0, 0]),
            DLL,
            "its certificates reach past the end",
        ),
        (
            "truncated",
            |at| edit(&at.join(EXE), |bytes| bytes.truncate(0x1900)),
            EXE,
            "section .reloc: it reaches past the end of the file",
        ),
    ]);
}

#[test]
fn what_differs_in_split_images_is_named() {
    FoundBy(Check::Against).each(&[
        ("code", |at| write_at(&at.join(DLL), 0x408, &[0xcc]), "lib/win.dll", "the byte at address 0x1008"),
        ("entry point", |at| write_at(&at.join(EXE), OPTIONAL + 16, &[1]), "lib/win.exe", "its headers"),
        (
            "directory",
            |at| write_at(&at.join(EXE), OPTIONAL + 112 + 8 + 4, &[1]),
            "lib/win.exe",
            "its data directories",
        ),
        ("section", |at| write_at(&at.join(DLL), RELOC, b".x"), "lib/win.dll", "has changed"),
        ("overlay", |at| edit(&at.join(DLL), |it| it.push(0)), "lib/win.dll", "what follows its sections"),
    ]);
}
