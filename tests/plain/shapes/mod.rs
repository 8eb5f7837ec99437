//! Every shape of fat binary is split through the library and examined from outside: how a runtime finds each code
//! object, and what loaders require of the files.
//!
//! For each failure of rocm-kpack that was found on such binaries, there is a test that fails if kpackfs has it:
//!
//! | failure | test |
//! |---|---|
//! | 1 non-PIE executables: pointers zeroed | `failures::pointers_without_relocations_lead_to_the_marker` |
//! | 2 RELR: pointers zeroed | `failures::pointers_relocated_in_place_lead_to_the_marker` |
//! | 3 running counts instead of wrapper indices | `failures::indices_are_those_of_wrappers` |
//! | 4 order of bundles taken for that of wrappers | `failures::code_is_found_through_pointers` |
//! | 5 magics searched in payload | `failures::payload_is_not_searched` |
//! | 6 `.bss` behind the device code unmapped | `failures::memory_behind_device_code_stays` |
//! | 7 offsets not congruent modulo `p_align` | `offsets_and_addresses_are_congruent` |
//! | 8 keys without index | `failures::keys_have_an_index` |
//! | 9 runtimes stop at the first archive | `failures::the_first_archive_has_everything` |
//! | 10 the input is rewritten | `failures::the_input_is_untouched` |
//! | 11 patchelf'ed files are refused | `failures::patched_files_are_split` |
//! | 12 object, debug, split and odd files abort everything | `failures::files_that_stay_do_not_disturb`, `splitting_again_changes_nothing` |
//! | 13 no section headers; CCOB v1, zlib | `failures::rare_containers_are_understood` |
//! | 15 small files grow, archives are never compressed | `no_file_grows`, `failures::archives_are_compressed` |
//! | 16 writable hole, `PT_PHDR`, alignment | `failures::the_hole_is_not_writable_memory`, `failures::program_headers_describe_themselves` |
//!
//! Failure 14 (PE) is that of `every_code_object_is_found`; 17 to 19 concern Python packaging and a C++ runtime.

mod bundle_files;
mod code_in_frames;
mod device_code;
mod failures;
mod for_linkers;
mod headers;
mod made_code;
mod shown;
mod thin;

use std::fs;

use crate::common::fixture;
use kpackfs::binary::FatBinary;
use kpackfs::kpack::Compression;
use kpackfs::tree::{NodeId, ROOT, Tree};
use object::read::elf::ElfFile64;
use object::{LittleEndian as LE, Object, ObjectSection};
use proptest::prelude::*;
use shown::{Shown, UNCHANGED, content, expected, is_rewritten_elf, loads, sha256, whole, wrappers};

/// All fixtures, split.
fn all(compression: Compression) -> Shown {
    Shown::fixtures(expected().keys().map(String::as_str), compression)
}

/// Number of nodes below a directory.
fn below(tree: &Tree, directory: NodeId) -> usize {
    tree.children(directory).into_iter().flatten().map(|child| 1 + below(tree, child.node)).sum()
}

#[test]
fn what_views_show_is_stored_once() {
    let Shown { tree, .. } = &all(Compression::default());
    let [merged, thin] = [&b"merged"[..], b"thin"].map(|name| tree.lookup(ROOT, name).unwrap());
    let [targets, gpus] = [merged, thin].map(|directory| tree.children(directory).unwrap().count());
    let others: usize = tree
        .children(ROOT)
        .unwrap()
        .filter(|child| ![merged, thin].contains(&child.node))
        .map(|child| 1 + below(tree, child.node))
        .sum();
    assert!(targets > 3 && below(tree, merged) > others, "{targets} {others}");
    assert!(gpus >= targets && below(tree, thin) > others, "{gpus} {others}");
    // The root, `merged`, `thin`, and the name of each view, one of which is `host`.
    assert_eq!(tree.stored().len(), others + 3 + targets + gpus + 1);
}

fn every_code_object_is_found_with(compression: Compression) {
    let expected = expected();
    let shown = all(compression);
    let mut found = 0;
    for (name, expected) in &expected {
        let fat = fixture(name);
        assert_eq!((fat.len() as u64, sha256(&fat)), (expected.size, expected.sha256.clone()), "{name} has changed");
        let host = shown.host(name);
        if UNCHANGED.contains(&name.as_str()) {
            assert!(host == fat, "{name}");
            continue;
        }
        let wrappers = wrappers(host);
        assert_eq!(wrappers.len(), expected.wrappers.len(), "{name}");
        for (wrapper, objects) in wrappers.iter().zip(&expected.wrappers) {
            for (target, object) in objects {
                let code = shown.found(wrapper, target).unwrap_or_default();
                assert_eq!(code.len() as u64, object.size, "{} for {target}", wrapper.key);
                // An entry without code is the same as no entry.
                assert!(object.size == 0 || sha256(&code) == object.sha256, "{} for {target}", wrapper.key);
                found += 1;
            }
        }
    }
    assert!(found >= 160, "{found}");
}

#[test]
fn every_code_object_is_found() {
    every_code_object_is_found_with(Compression::default());
    every_code_object_is_found_with(Compression::None);
}

#[test]
fn what_stays_fat_is_named() {
    let shown = all(Compression::default());
    let [warning] = &shown.plan.warnings[..] else { panic!("{:?}", shown.plan.warnings) };
    assert!(warning.contains("lib/extra-pointer.so") && warning.contains("is not a wrapper's"), "{warning}");
    let rewritten: Vec<_> = shown.plan.binaries.iter().map(|binary| binary.path.to_string()).collect();
    let expected = expected();
    let names = expected.keys().filter(|name| !UNCHANGED.contains(&name.as_str())).map(|name| format!("lib/{name}"));
    assert_eq!(rewritten, names.collect::<Vec<_>>());
}

#[test]
fn no_file_grows() {
    let shown = all(Compression::default());
    for name in expected().keys() {
        let (before, after) = (fixture(name).len(), shown.host(name).len());
        assert!(after <= before, "{name}: {before} bytes became {after}");
    }
}

#[test]
fn splitting_again_changes_nothing() {
    let shown = all(Compression::default());
    let again = tempfile::tempdir().unwrap();
    fs::create_dir(again.path().join("lib")).unwrap();
    let expected = expected();
    for name in expected.keys() {
        fs::write(again.path().join("lib").join(name), shown.host(name)).unwrap();
    }
    let again = Shown::tree(again, Compression::default());
    assert!(again.plan.archives.is_empty() && again.plan.binaries.is_empty());
    assert_eq!(again.plan.warnings.len(), 1, "{:?}", again.plan.warnings);
    for name in expected.keys() {
        assert!(again.host(name) == shown.host(name), "{name}");
    }
}

/// glibc before 2.35 refuses to load anything else.
#[test]
fn offsets_and_addresses_are_congruent() {
    let shown = all(Compression::default());
    for name in expected().keys().filter(|name| is_rewritten_elf(name)) {
        for load in loads(&shown.host(name)) {
            assert!(load.alignment.is_power_of_two(), "{name}: {load:x?}");
            assert_eq!(load.offset % load.alignment, load.address % load.alignment, "{name}: {load:x?}");
        }
    }
}

/// The names of the sections, except that of the device code or the marker, and the location of their table.
fn section_names(bytes: &[u8]) -> (Vec<String>, Option<(u64, u64)>) {
    let elf = ElfFile64::<LE>::parse(bytes).unwrap();
    let names = elf.sections().map(|section| section.name().unwrap().to_owned());
    let names = names.filter(|name| name != ".hip_fatbin" && name != ".rocm_kpack_ref").collect();
    (names, elf.section_by_name(".shstrtab").and_then(|table| table.file_range()))
}

/// llvm-strip and llvm-objcopy corrupt section names if a segment loads their table.
#[test]
fn section_names_are_not_loaded() {
    let shown = all(Compression::default());
    for name in expected().keys().filter(|name| is_rewritten_elf(name)) {
        let (fat, host) = (fixture(name), shown.host(name));
        let ((before, old), (after, new)) = (section_names(&fat), section_names(&host));
        assert_eq!(before, after, "{name}");
        let is_loaded = |bytes: &[u8], table: Option<(u64, u64)>| {
            let Some((start, size)) = table else { return false };
            loads(bytes).iter().any(|load| load.offset < start + size && start < load.offset + load.file_size)
        };
        assert!(is_loaded(&fat, old) || !is_loaded(&host, new), "{name}: {new:x?}");
    }
}

#[test]
fn nothing_but_device_code_changes() {
    let shown = all(Compression::default());
    for name in expected().keys().filter(|name| !UNCHANGED.contains(&name.as_str())) {
        let fat = FatBinary::scan(&content(fixture(name))).unwrap().unwrap();
        assert_eq!(fat.first_difference(&content(shown.host(name))).unwrap(), None, "{name}");
    }
}

#[test]
fn reads_are_slices_of_the_whole() {
    let shown = all(Compression::default());
    let files: Vec<_> = expected().keys().map(|name| shown.content(&format!("host/lib/{name}"))).collect();
    let wholes: Vec<_> = files.iter().map(|file| whole(&**file)).collect();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(20_000));
    let which = (0..files.len(), any::<prop::sample::Index>(), 0..9000_usize);
    let result = runner.run(&which, |(file, at, length)| {
        let (content, whole) = (&files[file], &wholes[file]);
        let start = at.index(whole.len() + 1);
        let end = (start + length).min(whole.len());
        let mut bytes = vec![0; end - start];
        content.read_at(start as u64, &mut bytes).unwrap();
        prop_assert!(bytes == whole[start..end], "{start}..{end} of file {file}");
        let mut beyond = vec![0; whole.len() - start + 1];
        prop_assert!(content.read_at(start as u64, &mut beyond).is_err());
        Ok(())
    });
    result.unwrap();
}
