//! One test for each failure of rocm-kpack. The table is in `main.rs`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kpackfs::binary::{FatBinary, marker};
use kpackfs::kpack::Compression;

use crate::common::fixture;
use crate::shapes::shown::{
    Header, LOAD, PHDR, RELRO, STACK, Shown, UNCHANGED, UNKNOWN, address, content, expected, is_rewritten_elf, loads,
    pointers, program_headers, sha256, whole, word, wrappers,
};

/// Checks all code objects of a fixture, including the unit number in each of them.
#[track_caller]
fn check(name: &str, units: &[usize]) {
    let shown = Shown::one(name);
    assert_eq!(shown.plan.warnings, Vec::<String>::new());
    let expected = &expected()[name].wrappers;
    let wrappers = wrappers(shown.host(name));
    assert_eq!((wrappers.len(), expected.len()), (units.len(), units.len()), "{name}");
    for ((wrapper, objects), unit) in wrappers.iter().zip(expected).zip(units) {
        for (target, object) in objects.iter().filter(|(_, object)| object.size > 0) {
            let code = shown.found(wrapper, target).unwrap();
            assert_eq!(sha256(&code), object.sha256, "{} for {target}", wrapper.key);
            let text = format!("unit {unit} of a kpackfs fixture");
            assert!(code.windows(text.len()).any(|window| window == text.as_bytes()), "{}: {text}", wrapper.key);
        }
    }
}

#[track_caller]
fn all_lead_to_the_marker(name: &str) {
    let host = Shown::one(name).host(name);
    let pointers = pointers(&host);
    assert_eq!(pointers.len(), expected()[name].wrappers.len());
    assert!(pointers.iter().all(|&pointer| pointer == address(&host, ".rocm_kpack_ref")), "{name}: {pointers:x?}");
}

/// Failure 1: with no relocation to patch, pointers became NULL.
#[test]
fn pointers_without_relocations_lead_to_the_marker() {
    for name in ["exe-nopie", "exe-nopie-bfd", "exe-static"] {
        all_lead_to_the_marker(name);
    }
}

/// Failure 2: only RELA was patched, so that pointers became the load base.
#[test]
fn pointers_relocated_in_place_lead_to_the_marker() {
    all_lead_to_the_marker("relr.so");
    // The same for all others, by any linker.
    for name in expected().keys().filter(|name| is_rewritten_elf(name) && name.as_str() != "noheaders.so") {
        all_lead_to_the_marker(name);
    }
}

/// Failure 3: the index was a running count for each target.
#[test]
fn indices_are_those_of_wrappers() {
    check("mixed.so", &[0, 1]);
    check("features.so", &[0, 1, 2]);
    check("generic.so", &[0, 1, 2]);
    check("empty-entry.so", &[0, 1]);
}

/// Failure 4: the n-th wrapper was taken for that of the n-th bundle.
#[test]
fn code_is_found_through_pointers() {
    check("shuffled.so", &[1, 0]);
    check("compressed-shuffled.so", &[1, 0]);
    check("mixed-shuffled.so", &[2, 1, 0]);
    check("shared.so", &[1, 0, 1]);
    check("orphan.so", &[0, 2]);
    check("twins.so", &[0, 0]);
}

/// Failure 5: bytes of device data that look like a bundle were taken for one.
#[test]
fn payload_is_not_searched() {
    check("payload.so", &[0, 1]);
}

/// Failure 6: the memory after the device code was unmapped.
#[test]
fn memory_behind_device_code_stays() {
    for name in expected().keys().filter(|name| is_rewritten_elf(name)) {
        let (old, new) = (loads(&fixture(name)), loads(&Shown::one(name).host(name)));
        for load in old {
            let end = load.address + load.memory_size;
            let is_mapped = |at: u64| new.iter().any(|new| (new.address..new.address + new.memory_size).contains(&at));
            assert!(is_mapped(end - 1) || load.memory_size == load.file_size, "{name}: nothing at {end:#x}");
        }
    }
    let host = Shown::one("insert-before-bss.so").host("insert-before-bss.so");
    let bss = address(&host, ".bss");
    let is_writable =
        |load: &&Header| load.is_writable && (load.address..load.address + load.memory_size).contains(&bss);
    assert!(loads(&host).iter().any(|load| is_writable(&load)));
}

/// Failure 8: names had no index. No runtime asks for such names, and two wrappers of a binary had the same one.
#[test]
fn keys_have_an_index() {
    let shown = Shown::one("plain.so");
    let keys: Vec<_> = wrappers(shown.host("plain.so")).into_iter().map(|wrapper| wrapper.key).collect();
    assert_eq!(keys, ["lib/plain.so#0", "lib/plain.so#1"]);
    let paths = &wrappers(shown.host("plain.so"))[0].search_paths;
    for (reader, _) in shown.archives(paths, "gfx90a").iter().chain(&shown.archives(paths, "gfx1030")) {
        assert_eq!(reader.names().collect::<Vec<_>>(), ["lib/plain.so#0", "lib/plain.so#1"]);
    }
}

/// Failure 9: if there is code for gfx90a and gfx90a:xnack+, a runtime opens only one archive.
#[test]
fn the_first_archive_has_everything() {
    for name in ["features.so", "generic.so", "mixed.so", "mixed-shuffled.so"] {
        let shown = Shown::one(name);
        let expected = &expected()[name].wrappers;
        for target in ["gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx1100", "gfx1030"] {
            let candidates = target.parse::<kpackfs::gpu::TargetId>().unwrap().candidates();
            for (wrapper, objects) in wrappers(shown.host(name)).iter().zip(expected) {
                let best = candidates.iter().find_map(|candidate| objects.get(&candidate.to_string()));
                let found = shown.found(wrapper, target).map(|code| sha256(&code));
                assert_eq!(found.as_ref(), best.map(|object| &object.sha256), "{} for {target}", wrapper.key);
            }
        }
    }
}

/// Failure 10: the input was rewritten in place.
#[test]
fn the_input_is_untouched() {
    let name = "shuffled.so";
    let shown = Shown::one(name);
    let path = shown.fat.path().join("lib").join(name);
    let state = |path: &Path| {
        let metadata = path.metadata().unwrap();
        (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime_nsec(), fs::read(path).unwrap())
    };
    let before = state(&path);
    let again = Shown::tree(shown.fat, Compression::None);
    let wrappers = wrappers(again.host(name));
    again.found(&wrappers[0], "gfx90a").unwrap();
    assert!(before == state(&path) && before.4 == fixture(name));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

/// Failure 11: an unused program header was treated as an error.
#[test]
fn patched_files_are_split() {
    check("patchelf.so", &[0, 1]);
    check("spare-phdr.so", &[0, 1]);
}

/// Failure 12: one file that cannot be split aborted the whole tree.
#[test]
fn files_that_stay_do_not_disturb() {
    let shown = Shown::fixtures(UNCHANGED.into_iter().chain(["plain.so"]), Compression::default());
    assert_eq!(shown.plan.warnings.len(), 1);
    assert_eq!(shown.plan.binaries.len(), 1);
    for name in UNCHANGED {
        assert!(shown.host(name) == fixture(name), "{name}");
    }
    assert!(shown.found(&wrappers(shown.host("plain.so"))[0], "gfx90a").is_some());
}

/// Failure 13: files without section headers stayed fat, old and zlib containers were errors.
#[test]
fn rare_containers_are_understood() {
    check("noheaders.so", &[0, 1]);
    for name in ["ccob-v1.so", "ccob-v1-zlib.so", "ccob-zlib.so", "ccob-v3-zlib.so", "ccob-v3.so"] {
        check(name, &[0, 1]);
    }
    check("ccob-mixed.so", &[0, 1, 2]);
}

/// Failure 15: archives were never compressed.
#[test]
fn archives_are_compressed() {
    let sizes = [Compression::default(), Compression::None].map(|compression| {
        let shown = Shown::fixtures(["plain.so"], compression);
        shown.content("gfx90a/.kpack/rocm_gfx90a.kpack").size()
    });
    assert!(sizes[0] * 3 < sizes[1], "{sizes:?}");
}

/// Failure 16: the hole where the device code was became writable memory, charged to every process.
#[test]
fn the_hole_is_not_writable_memory() {
    // Pages that the loader protects after relocation do not count.
    let writable = |bytes: &[u8]| -> u64 {
        let headers = program_headers(bytes);
        let sum =
            |choose: fn(&&Header) -> bool| -> u64 { headers.iter().filter(choose).map(|it| it.memory_size).sum() };
        sum(|it| it.kind == LOAD && it.is_writable) - sum(|it| it.kind == RELRO)
    };
    for name in expected().keys().filter(|name| is_rewritten_elf(name)) {
        let (old, new) = (fixture(name), Shown::one(name).host(name));
        // Two segments that are merged include the bytes between them.
        assert!(
            writable(&new) < writable(&old) + 4096,
            "{name}: {} writable bytes became {}",
            writable(&old),
            writable(&new)
        );
    }
    for name in ["insert-before-bss.so", "insert-after-bss.so"] {
        let (old, new) = (fixture(name), Shown::one(name).host(name));
        assert!(writable(&new) + 4096 < writable(&old), "{name}: device code still takes writable memory");
        assert!(loads(&new).iter().all(|load| load.memory_size - load.file_size <= 4 * 4096), "{name}");
    }
}

/// Failure 16: `PT_PHDR` had the size of another table.
#[test]
fn program_headers_describe_themselves() {
    let mut seen = 0;
    for name in expected().keys().filter(|name| is_rewritten_elf(name)) {
        let host = Shown::one(name).host(name);
        let headers = program_headers(&host);
        let table = word(&host, 32) as u64;
        for header in headers.iter().filter(|header| header.kind == PHDR) {
            let size = headers.len() as u64 * 56;
            assert_eq!((header.offset, header.file_size, header.memory_size), (table, size, size), "{name}");
            let covers = |load: &&Header| {
                load.kind == LOAD && load.offset <= table && table + size <= load.offset + load.file_size
            };
            let load = headers.iter().find(covers).expect(name);
            assert_eq!(header.address - load.address, table - load.offset, "{name}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

/// A program header can describe bytes after the section names. When the names get longer, these bytes move.
#[test]
fn notes_that_are_not_loaded_are_found_again() {
    const NOTE: &[u8] = b"\x05\0\0\0\x04\0\0\0\x01\0\0\0note\0\0\0\0\x12\x34\x56\x78";
    let marker = marker("lib/x.so", &["../.kpack/x_@GFXARCH@.kpack".to_owned()]);
    let number = |bytes: &[u8], kind| program_headers(bytes).iter().position(|header| header.kind == kind);
    let place = |bytes: &[u8], number: usize| word(bytes, 32) + number * 56;
    let mut seen = 0;
    for name in expected().keys().filter(|name| is_rewritten_elf(name)) {
        let mut bytes = fixture(name);
        let Some(header) = number(&bytes, STACK).map(|number| place(&bytes, number)) else { continue };
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        bytes[header..][..4].copy_from_slice(&UNKNOWN.to_le_bytes());
        for (field, value) in [(8, bytes.len()), (32, NOTE.len()), (40, NOTE.len()), (48, 4)] {
            bytes[header + field..][..8].copy_from_slice(&(value as u64).to_le_bytes());
        }
        bytes.extend(NOTE);
        let fat = FatBinary::scan(&content(bytes)).unwrap().expect(name);
        let mut host = whole(&fat.rewrite(&marker).unwrap());
        let header = place(&host, number(&host, UNKNOWN).expect(name));
        let at = word(&host, header + 8);
        assert_eq!(&host[at..at + NOTE.len()], NOTE, "{name}");
        assert_eq!(fat.first_difference(&content(host.clone())).unwrap(), None, "{name}");
        host[header + 8] ^= 16;
        assert!(fat.first_difference(&content(host)).unwrap().is_some(), "{name}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}
