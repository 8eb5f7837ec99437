//! Wrappers that lead to one bundle. HIP has a module for each bundle, so they have to share it after a join, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::binary::FatBinary;
use kpackfs::kpack::{Compression, Toc};
use kpackfs::metrics::Progress;
use kpackfs::source::{EntryKind, EntryPath};
use kpackfs::split::PlanOptions;
use kpackfs::{export, view};
use object::{Object, ObjectSection};
use rocm_kpack::Archive;

use super::{FIXTURES, Opened, differences, files, fill, options, overlay, same, write};
use crate::common::ran as kpackfs;

/// For each wrapper of each binary, the first one that leads to the same bundle.
fn sharing(opened: &Opened) -> BTreeMap<String, Vec<usize>> {
    let of = |entry: &kpackfs::source::Entry| {
        let EntryKind::File { content, .. } = &entry.kind else { return None };
        let bundles: Vec<_> = FatBinary::scan(content).ok()??.wrappers().iter().map(|it| it.bundle).collect();
        let first = |bundle| bundles.iter().position(|other| other == bundle).unwrap();
        Some((entry.path.to_string(), bundles.iter().map(first).collect()))
    };
    opened.input.entries.iter().filter_map(of).collect()
}

/// A fixture with two wrappers, both of which lead to the first bundle.
fn on_one_bundle(name: &str) -> Vec<u8> {
    let mut bytes = fs::read(Path::new(FIXTURES).join(name)).unwrap();
    let file = object::File::parse(bytes.as_slice()).unwrap();
    let section = |name| file.section_by_name(name).map(|it| (it.address(), it.file_range().unwrap()));
    let slots = match (section(".hipFatBinSegment"), section(".rela.dyn")) {
        (Some((wrappers, _)), Some((_, (table, size)))) => [wrappers + 8, wrappers + 32].map(|pointer| {
            let mut relocations = (table..table + size).step_by(24).map(|at| usize::try_from(at).unwrap());
            relocations.find(|&at| bytes[at..at + 8] == pointer.to_le_bytes()).unwrap() + 16
        }),
        // Pointers of DLLs are in place.
        _ => [8, 32].map(|at| usize::try_from(section(".hipFatB").unwrap().1.0 + at).unwrap()),
    };
    let first: [u8; 8] = bytes[slots[0]..slots[0] + 8].try_into().unwrap();
    bytes[slots[1]..slots[1] + 8].copy_from_slice(&first);
    bytes
}

/// The fixtures, and binaries whose wrappers lead to one bundle, raw or compressed.
fn fat_tree(root: &Path) {
    fill(root);
    for name in ["plain.so", "compressed.so", "ccob-v3.so", "win.dll"] {
        fs::write(root.join("lib").join(format!("one-{name}")), on_one_bundle(name)).unwrap();
    }
}

/// Splits a tree, and lays the parts over each other.
fn split(fat: &Path, compression: Compression, out: &Path) -> Opened {
    let opened = Opened::new(fat);
    let plan = opened.plan_with(&PlanOptions { compression, ..options() });
    assert_eq!(plan.warnings, Vec::<String>::new());
    write(&opened, &plan, &out.join("parts"));
    fs::create_dir(out.join("installed")).unwrap();
    let parts = ["host".to_owned()].into_iter().chain(plan.keys.iter().map(ToString::to_string));
    parts.for_each(|part| overlay(&out.join("parts").join(part), &out.join("installed")));
    Opened::new(&out.join("installed"))
}

/// Writes a view of a joined tree, and returns its place.
fn shown(opened: &Opened, name: &str, out: &Path) -> PathBuf {
    let place = out.join("views").join(name);
    if place.exists() {
        return place;
    }
    let tree = view::lay_out(&opened.input, &opened.plan(), None, &[]).unwrap();
    export::write(&tree, &[(EntryPath::new(name.as_bytes()).unwrap(), place.clone())], &Progress::default()).unwrap();
    place
}

/// Removes code objects, by name and target, from the archives of a split tree.
fn remove(installed: &Path, code: &[(&str, &str)]) {
    for archive in fs::read_dir(installed.join(".kpack")).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = fs::read(&archive).unwrap();
        let mut toc = Archive::open(bytes.as_slice()).unwrap().toc().unwrap();
        for (key, target) in code {
            toc.toc.get_mut(*key).and_then(|targets| targets.remove(*target));
        }
        let offset = usize::try_from(u64::from_le_bytes(bytes[8..16].try_into().unwrap())).unwrap();
        fs::write(&archive, [&bytes[..offset], &toc.encode()].concat()).unwrap();
    }
}

#[test]
fn wrappers_share_the_bundles_that_they_shared_in_the_fat_tree() {
    for compression in [Compression::default(), Compression::None] {
        let place = tempfile::tempdir().unwrap();
        fat_tree(&place.path().join("fat"));
        let fat = Opened::new(&place.path().join("fat"));
        let joined = split(&place.path().join("fat"), compression, place.path());
        assert_eq!(joined.joined.warnings, Vec::<String>::new());
        same(&joined.code(), &fat.code());
        let found = sharing(&joined);
        assert_eq!(found, sharing(&fat));
        assert_eq!((&*found["lib/rdc.so"], &*found["lib/shared.so"]), (&[0, 0, 0][..], &[0, 1, 0][..]));
        assert_eq!((&*found["lib/one-compressed.so"], &*found["lib/one-win.dll"]), (&[0, 0][..], &[0, 0][..]));
        // Equal bundles were two modules, and stay two.
        assert_eq!(found["lib/twins.so"], [0, 1]);
    }
}

#[test]
fn archives_store_the_code_of_a_shared_bundle_once() {
    let place = tempfile::tempdir().unwrap();
    fat_tree(&place.path().join("fat"));
    split(&place.path().join("fat"), Compression::default(), place.path());
    let bytes = fs::read(place.path().join("installed/.kpack/rocm_gfx90a.kpack")).unwrap();
    let toc: Toc = Archive::open(bytes.as_slice()).unwrap().toc().unwrap();
    let ordinals = |name: &str, count: usize| -> Vec<_> {
        (0..count).map(|wrapper| toc.toc[&format!("lib/{name}#{wrapper}")]["gfx90a"].ordinal).collect()
    };
    let rdc = ordinals("rdc.so", 3);
    assert!(rdc.iter().all(|ordinal| *ordinal == rdc[0]), "{rdc:?}");
    let shared = ordinals("shared.so", 3);
    assert!(shared[0] == shared[2] && shared[0] != shared[1], "{shared:?}");
    let twins = ordinals("twins.so", 2);
    assert_ne!(twins[0], twins[1]);
}

#[test]
fn inspect_counts_the_code_of_a_shared_bundle_once() {
    let place = tempfile::tempdir().unwrap();
    fat_tree(&place.path().join("fat"));
    split(&place.path().join("fat"), Compression::default(), place.path());
    for input in ["fat", "installed"] {
        let (status, said) = kpackfs(place.path(), &["inspect", "--json", input]);
        assert_eq!(status, Some(0), "{said}");
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        let binary = |name: &str| {
            let binaries = report["binaries"].as_array().unwrap();
            let it = binaries.iter().find(|it| it["path"] == format!("lib/{name}")).unwrap();
            ["wrappers", "code_objects", "code_size"].map(|field| it[field].as_u64().unwrap())
        };
        assert_eq!(binary("rdc.so"), [3, 2, 6728 + 7496], "{input}");
        assert_eq!(binary("shared.so"), [3, 4, 2 * (3704 + 4536)], "{input}");
        assert_eq!(binary("twins.so"), [2, 4, 2 * (3704 + 4536)], "{input}");
        let archive = &report["device"]["gfx90a"]["archives"][0];
        let code = report["binaries"].as_array().unwrap().iter();
        let all: u64 = code.map(|it| it["code_objects"].as_u64().unwrap()).sum();
        assert!(archive["code_objects"].as_u64().unwrap() < all, "{input}");
    }
}

/// A joined tree is the same after another split and join, in every view.
#[test]
fn joining_again_gives_the_same_bytes() {
    // The first wrapper of this library lost a target that the others have, so they are on a bundle of their own.
    let lost = [("lib/rdc.so#0", "gfx1030"), ("lib/one-win.dll#1", "gfx1100"), ("lib/shared.so#2", "gfx90a")];
    for (compression, lost) in [(Compression::default(), &[][..]), (Compression::None, &lost[..])] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fat_tree(&at("fat"));
        // Without section headers, a join cannot tell that it has been there, and adds another segment.
        fs::remove_file(at("fat/lib/noheaders.so")).unwrap();
        fs::create_dir(at("first")).unwrap();
        fs::create_dir(at("second")).unwrap();
        split(&at("fat"), compression, &at("first"));
        remove(&at("first/installed"), lost);
        let first = Opened::new(&at("first/installed"));
        let found = sharing(&first);
        let expected: [&[usize]; 3] =
            if lost.is_empty() { [&[0, 0, 0], &[0, 0], &[0, 1, 0]] } else { [&[0, 1, 1], &[0, 1], &[0, 1, 2]] };
        assert_eq!(["rdc.so", "one-win.dll", "shared.so"].map(|name| &*found[&format!("lib/{name}")]), expected);

        let joined = shown(&first, "fat", &at("first"));
        let second = split(&joined, compression, &at("second"));
        assert_eq!(sharing(&second), found);
        for name in ["fat", "thin/gfx90a", "thin/gfx90a:xnack-", "thin/gfx1030+gfx1100", "thin/gfx1151"] {
            let (one, other) = (shown(&first, name, &at("first")), shown(&second, name, &at("second")));
            assert!(files(&one).len() > 40, "{name}");
            assert_eq!(differences(&one, &other), Vec::<String>::new(), "{name}");
        }
    }
}

/// The bytes that are decompressed of a split and its input when these are compared, and the code objects that are compared.
fn work_of_comparing(library: &[u8]) -> (u64, u64) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("fat/lib")).unwrap();
    fs::write(place.path().join("fat/lib/x.so"), library).unwrap();
    let opened = Opened::new(&place.path().join("fat"));
    write(&opened, &opened.plan_with(&options()), &place.path().join("out"));
    let (options, resources) =
        (kpackfs::verify::VerifyOptions::default(), kpackfs::resources::Resources::new(64 << 20));
    let [out, fat] = ["out", "fat"].map(|name| place.path().join(name));
    let report = crate::verify::try_verify(&[out], &[fat], &options, &resources).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    (resources.counters.bytes_decompressed.get(), report.counts.compared_code_objects.get())
}

#[test]
fn a_bundle_is_read_once_however_many_wrappers_lead_to_it() {
    let own = work_of_comparing(&fs::read(Path::new(FIXTURES).join("compressed.so")).unwrap());
    let shared = work_of_comparing(&on_one_bundle("compressed.so"));
    assert_eq!(shared.1, own.1, "each wrapper is judged");
    assert!(shared.0 > 0 && 2 * shared.0 <= own.0 + 1024, "{shared:?} {own:?}");
}
