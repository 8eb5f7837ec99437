//! Windows images that a loader should refuse. `win.dll` after a split: `e_lfanew` 0x78, section table 0x180 (entry 6
//! is `.kpackrf`, 7 is `.reloc`), code at 0x400, wrappers at 0x1400, the marker at 0x1600, relocations at 0x1800 (those
//! of wrappers at 0x1820).

use kpackfs::verify::Check;

use crate::verify::splits::{edit, run, write_at};

const DLL: &str = "host/lib/win.dll";
const EXE: &str = "host/lib/win.exe";
const OPTIONAL: u64 = 0x78 + 24;
const MARKER: u64 = 0x180 + 6 * 40;
const RELOC: u64 = 0x180 + 7 * 40;
const WRAPPERS: u64 = 0x1400;

#[test]
fn wrong_wrappers_of_images_are_named() {
    use Check::Binary;
    run(
        &[
            ("index", |at| write_at(&at.join(DLL), WRAPPERS + 16, &[7]), Binary, DLL, "wrapper 0 asks for index 0x7"),
            ("version", |at| write_at(&at.join(EXE), WRAPPERS + 4, &[2]), Binary, EXE, "wrapper 0 has version 2"),
            (
                "mixed",
                |at| write_at(&at.join(DLL), WRAPPERS + 24, b"FPIH"),
                Binary,
                DLL,
                "1 of its 2 wrappers still have the magic HIPF",
            ),
            ("magic", |at| write_at(&at.join(DLL), WRAPPERS, b"oops"), Binary, DLL, "there is no wrapper at 0x1400"),
            (
                "null pointer",
                |at| write_at(&at.join(DLL), WRAPPERS + 8, &[0; 8]),
                Binary,
                DLL,
                "wrapper 0 has no marker: malformed: its pointer leads to 0x0",
            ),
            (
                "stale pointer",
                |at| write_at(&at.join(DLL), WRAPPERS + 8, &0x1_8000_1000_u64.to_le_bytes()),
                Binary,
                DLL,
                "wrapper 0 points at 0x180001000, outside of .kpackrf",
            ),
            (
                "no relocation",
                |at| write_at(&at.join(DLL), 0x1820, &[0; 4]),
                Binary,
                DLL,
                "the pointer of wrapper 0 has no base relocation",
            ),
            (
                "a relocation inside a wrapper",
                |at| write_at(&at.join(DLL), 0x1820, &[0]),
                Binary,
                DLL,
                "among the wrappers but not of a pointer",
            ),
            (
                "no marker section",
                |at| write_at(&at.join(DLL), MARKER, b".another"),
                Binary,
                DLL,
                "it has no section .kpackrf",
            ),
            (
                "device code",
                |at| write_at(&at.join(DLL), MARKER, b".hip_fat"),
                Binary,
                DLL,
                "it still holds device code: .hip_fat has 512 bytes",
            ),
            ("marker", |at| write_at(&at.join(DLL), 0x1600, &[0xc1]), Binary, DLL, "its marker is unreadable"),
        ],
        false,
    );
}

#[test]
fn broken_images_are_named() {
    use Check::Binary;
    run(
        &[
            (
                "a hole between sections",
                |at| write_at(&at.join(DLL), RELOC + 12, &0x4_0000_u32.to_le_bytes()),
                Binary,
                DLL,
                "section .reloc: it begins at 0x40000 instead of",
            ),
            (
                "less memory than before",
                |at| write_at(&at.join(DLL), MARKER + 8, &0x200_u32.to_le_bytes()),
                Binary,
                DLL,
                "section .reloc: it begins at",
            ),
            ("size of image", |at| write_at(&at.join(DLL), OPTIONAL + 57, &[0]), Binary, DLL, "SizeOfImage is"),
            ("unaligned", |at| write_at(&at.join(DLL), RELOC + 20, &[8]), Binary, DLL, "is not aligned"),
            (
                "stale offset",
                |at| write_at(&at.join(DLL), RELOC + 20, &0x8800_u32.to_le_bytes()),
                Binary,
                DLL,
                "are not in the file",
            ),
            (
                "overlap",
                |at| write_at(&at.join(DLL), MARKER + 16, &0x400_u32.to_le_bytes()),
                Binary,
                DLL,
                "section .kpackrf and section .reloc overlap in the file",
            ),
            ("headers", |at| write_at(&at.join(DLL), OPTIONAL + 60, &[1]), Binary, DLL, "SizeOfHeaders is"),
            ("checksum", |at| write_at(&at.join(DLL), OPTIONAL + 64, &[1]), Binary, DLL, "its checksum is 0x1 but"),
            (
                "certificates",
                |at| write_at(&at.join(DLL), OPTIONAL + 112 + 4 * 8, &[0, 0, 0, 1, 8, 0, 0, 0]),
                Binary,
                DLL,
                "its certificates reach past the end",
            ),
            (
                "truncated",
                |at| edit(&at.join(EXE), |bytes| bytes.truncate(0x1900)),
                Binary,
                EXE,
                "section .reloc: it reaches past the end of the file",
            ),
        ],
        false,
    );
}

#[test]
fn what_differs_in_split_images_is_named() {
    use Check::Against;
    run(
        &[
            (
                "code",
                |at| write_at(&at.join(DLL), 0x408, &[0xcc]),
                Against,
                "lib/win.dll",
                "the byte at address 0x1008",
            ),
            ("entry point", |at| write_at(&at.join(EXE), OPTIONAL + 16, &[1]), Against, "lib/win.exe", "its headers"),
            (
                "directory",
                |at| write_at(&at.join(EXE), OPTIONAL + 112 + 8 + 4, &[1]),
                Against,
                "lib/win.exe",
                "its data directories",
            ),
            ("section", |at| write_at(&at.join(DLL), RELOC, b".x"), Against, "lib/win.dll", "has changed"),
            ("overlay", |at| edit(&at.join(DLL), |it| it.push(0)), Against, "lib/win.dll", "what follows its sections"),
        ],
        true,
    );
}
