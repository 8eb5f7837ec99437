//! Splits that do not match the fat input.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::slice;

use kpackfs::verify::{Check, Rule, VerifyOptions};

use crate::verify::splits::{
    Elf, FoundBy, GFX90A, GFX1030, PLAIN, Segment, Split, XNACK, copy, edit, edit_toc, replace, verify, write_at,
};

#[test]
fn files_that_differ_are_named() {
    const DATABASE: &str = "lib/rocblas/library/TensileLibrary_gfx90a.dat";
    FoundBy(Check::Against).each(&[
        ("lost", |at| fs::remove_file(at.join("host/share/notes")).unwrap(), "share/notes", "the file is lost"),
        ("changed", |at| write_at(&at.join("host/share/notes"), 2, b"x"), "share/notes", "its bytes differ"),
        ("longer", |at| edit(&at.join("host/share/notes"), |it| it.push(0)), "share/notes", "its bytes differ"),
        ("database lost", |at| fs::remove_file(at.join("gfx90a").join(DATABASE)).unwrap(), DATABASE, "lost"),
        ("database changed", |at| write_at(&at.join("gfx90a").join(DATABASE), 0, b"x"), DATABASE, "bytes differ"),
        ("twice", |at| copy(&at.join("host/share/notes"), &at.join("gfx90a/share/notes")), "share/notes", "in 2 parts"),
        ("added", |at| fs::write(at.join("host/new"), "").unwrap(), "host/new", "the fat input does not have it"),
        (
            "mode",
            |at| fs::set_permissions(at.join("host/share/notes"), fs::Permissions::from_mode(0o600)).unwrap(),
            "share/notes",
            "its mode was 0640 and is 0600",
        ),
        (
            "symlink",
            |at| {
                fs::remove_file(at.join("host/lib/link.so")).unwrap();
                symlink("mixed.so", at.join("host/lib/link.so")).unwrap();
            },
            "lib/link.so",
            "the symlink leads elsewhere",
        ),
        ("empty directory", |at| fs::remove_dir(at.join("host/empty")).unwrap(), "empty", "directory is lost"),
    ]);
}

#[test]
fn what_differs_in_split_binaries_is_named() {
    FoundBy(Check::Against).each(&[
        (
            "code of the host",
            |at| {
                let text = Elf::open(&at.join(PLAIN)).section(".text").offset;
                write_at(&at.join(PLAIN), text, &[0xcc]);
            },
            "lib/plain-bfd.so",
            "the byte at address",
        ),
        (
            "symbols of the host",
            |at| {
                let comment = Elf::open(&at.join(PLAIN)).section(".comment").offset;
                write_at(&at.join(PLAIN), comment, b"?");
            },
            "lib/plain-bfd.so",
            "section .comment has changed",
        ),
        (
            "wrong kernel",
            |at| {
                edit_toc(&at.join(GFX90A), |toc| replace(toc, "lib/plain-bfd.so#0", "lib/plain-bfd.so#1"));
            },
            "lib/plain-bfd.so",
            "wrapper 0: what is found for gfx90a in gfx90a/.kpack/rocm_gfx90a.kpack is other code",
        ),
        (
            "key lost, so that a runtime finds other code",
            |at| {
                let archive = at.join("gfx1100/.kpack/rocm_gfx1100.kpack");
                edit_toc(&archive, |toc| drop(toc.toc.remove("lib/generic.so#2").unwrap()));
            },
            "lib/generic.so",
            "wrapper 2: what is found for gfx11-generic in ",
        ),
        (
            "wrong kernel under an alias",
            |at| {
                edit_toc(&at.join(XNACK), |toc| replace(toc, "lib/plain-bfd.so#0", "lib/plain-bfd.so#1"));
            },
            "lib/plain-bfd.so",
            "wrapper 0: what is found for gfx90a:xnack+",
        ),
        (
            "key lost",
            |at| edit_toc(&at.join(GFX90A), |toc| drop(toc.toc.remove("lib/plain-bfd.so#0"))),
            "lib/plain-bfd.so",
            "wrapper 0: its code for gfx90a is not found",
        ),
        (
            "key added",
            |at| {
                edit_toc(&at.join(GFX90A), |toc| {
                    let copy = toc.toc["lib/plain-bfd.so#0"].clone();
                    toc.toc.insert("lib/plain-bfd.so#9".to_owned(), copy);
                });
            },
            GFX90A,
            "lib/plain-bfd.so#9 for gfx90a: the fat input has no such code object",
        ),
    ]);
}

/// Overwrites bytes of the first program header of a kind.
#[test]
fn code_after_what_cannot_be_read_is_compared() {
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    let split = Split::make(&[]);
    edit(&split.out().join(GFX1030), |bytes| {
        let frames: Vec<_> = memchr::memmem::find_iter(&*bytes, ZSTD).collect();
        for at in frames {
            bytes[at..at + ZSTD.len()].fill(0);
        }
    });
    edit_toc(&split.out().join(GFX90A), |toc| replace(toc, "lib/plain-bfd.so#0", "lib/plain-bfd.so#1"));
    let report = verify(&[split.out()], Some(&split.fat()), &VerifyOptions::default());
    let against = report.findings.iter().filter(|it| it.check == Check::Against && it.path == "lib/plain-bfd.so");
    let found: Vec<_> = against.map(|it| (it.rule, it.reason.as_str())).collect();
    let unread = format!("wrapper 0: what is found for gfx1030 in {GFX1030} cannot be read: ");
    let of_first = |it: &&(Rule, &str)| it.0 == Rule::AgainstUnreadable && it.1.starts_with(&unread);
    assert_eq!(found.iter().filter(of_first).count(), 1, "{found:?}");
    let other = format!("wrapper 0: what is found for gfx90a in {GFX90A} is other code");
    assert!(found.contains(&(Rule::AgainstCodeChanged, &other)), "{found:?}");
    assert!(found.iter().all(|it| it.0 != Rule::AgainstCodeAdded), "{found:?}");
}

fn header(root: &std::path::Path, choose: fn(&Segment) -> bool, field: u64, bytes: &[u8]) {
    let path = root.join(PLAIN);
    let at = Elf::open(&path).segments.iter().find(|segment| choose(segment)).unwrap().header;
    write_at(&path, at + field, bytes);
}

#[test]
fn what_a_loader_reads_of_headers_is_compared() {
    const LIBRARY: &str = "lib/plain-bfd.so";
    FoundBy(Check::Against).each(&[
        (
            "code that is not executable",
            |at| header(at, |it| it.is_load && it.is_executable, 4, &[4]),
            LIBRARY,
            "was r-x and is r--",
        ),
        ("data that is executable", |at| header(at, |it| it.is_load && it.is_writable, 4, &[7]), LIBRARY, "and is rwx"),
        (
            "data that is not writable",
            |at| header(at, |it| it.is_load && it.is_writable, 4, &[4]),
            LIBRARY,
            "was rw- and is r--",
        ),
        ("no RELRO", |at| header(at, |it| it.kind == 0x6474_e552, 0, &[0; 4]), LIBRARY, "PT_GNU_RELRO"),
        ("shorter RELRO", |at| header(at, |it| it.kind == 0x6474_e552, 40, &[1, 0]), LIBRARY, "PT_GNU_RELRO"),
        (
            "executable stack",
            |at| header(at, |it| it.kind == 0x6474_e551, 4, &[7]),
            LIBRARY,
            "type 0x6474e551, which loaders read",
        ),
        ("another ABI", |at| write_at(&at.join(PLAIN), 7, &[9]), LIBRARY, "its file header has changed"),
        // Of win.dll: SizeOfStackCommit and MajorSubsystemVersion.
        (
            "stack of an image",
            |at| write_at(&at.join("host/lib/win.dll"), 0x78 + 24 + 80, &[1]),
            "lib/win.dll",
            "its headers have changed",
        ),
        (
            "subsystem of an image",
            |at| write_at(&at.join("host/lib/win.dll"), 0x78 + 24 + 48, &[99]),
            "lib/win.dll",
            "its headers have changed",
        ),
    ]);
}

/// `split` does not check them.
#[test]
fn wrong_hashes_of_the_fat_input_are_not_blamed_on_the_split() {
    let split = Split::make(&[]);
    edit(&split.fat().join("lib/ccob-v3.so"), |bytes| {
        let bundle = memchr::memmem::find(bytes, b"CCOB\x03\0").unwrap();
        bytes[bundle + 24] ^= 1;
    });
    let report = verify(&[split.out()], Some(&split.fat()), &VerifyOptions::default());
    assert_eq!(report.findings, []);
    let notes: Vec<_> = report.notes.iter().filter(|note| note.contains("hash")).collect();
    assert!(
        notes.len() == 1 && notes[0].starts_with("lib/ccob-v3.so: the fat input has 1 compressed bundle"),
        "{notes:?}"
    );
}

/// Of a long file only what is stored is read, and compared where one of both has a hole.
#[test]
fn files_with_holes_are_compared() {
    let (fat, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy(&Path::new("tests/fixtures").join("plain.so"), &fat.path().join("lib/x.so"));
    let (data, size) = (fat.path().join("data"), (1_u64 << 30) + 5);
    fs::File::create(&data).unwrap().set_len(size).unwrap();
    write_at(&data, 1 << 27, b"x");
    let out = out.path().join("out");
    crate::verify::wheels::split(fat.path(), &out, &[]);
    let found = || verify(slice::from_ref(&out), Some(fat.path()), &VerifyOptions::default()).findings;
    assert_eq!(found(), []);
    for offset in [1 << 27, 1 << 29, size - 1] {
        write_at(&out.join("host/data"), offset, b"y");
        assert_eq!(
            found().iter().map(|it| (it.rule, it.path.as_str())).collect::<Vec<_>>(),
            [(Rule::AgainstChanged, "data")]
        );
        write_at(&out.join("host/data"), offset, if offset == 1 << 27 { b"x" } else { b"\0" });
    }
}
