//! Archives of which only a part is used, damaged ones, and archives by other writers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::binary::{FatBinary, Wrapper};
use kpackfs::fatbin::read_bundle;
use kpackfs::kpack::Toc;
use kpackfs::rope::Content;
use kpackfs::source::{EntryKind, EntryPath};
use kpackfs::split::FatBinaries;
use rocm_kpack::{Archive, Blob};

use super::{Code, Opened, Trees, expected, options, same, write};

/// The content of an archive of the device part for gfx1030.
fn gfx1030_of(trees: &Trees, place: &str) -> Vec<(String, Vec<u8>)> {
    let archive = fs::read(trees.at(place).join("gfx1030/.kpack/rocm_gfx1030.kpack")).unwrap();
    let archive = Archive::open(archive.as_slice()).unwrap();
    let names = archive.toc().unwrap().toc.into_keys();
    let with_code = |name: String| (name.clone(), archive.get(&name, "gfx1030").unwrap().unwrap());
    names.map(with_code).collect()
}

/// Gives code in an archive another name as well.
fn add_name(archive: &Path, name: &str, another: &str) {
    let bytes = fs::read(archive).unwrap();
    let mut toc = Archive::open(bytes.as_slice()).unwrap().toc().unwrap();
    toc.toc.insert(another.to_owned(), toc.toc[name].clone());
    let offset = usize::try_from(u64::from_le_bytes(bytes[8..16].try_into().unwrap())).unwrap();
    fs::write(archive, [&bytes[..offset], &toc.encode()].concat()).unwrap();
}

/// The warning that code for gfx1030 is in no binary.
fn not_joined(keys: &str) -> String {
    format!(
        ".kpack/rocm_gfx1030.kpack: no split binary asks for {keys} in it; the device part has this code, and fat/ and thin/ do not"
    )
}

#[test]
fn what_no_binary_asks_for_stays_in_its_archive() {
    let trees = Trees::new(&options());
    fs::remove_file(trees.at("installed/lib/plain.so")).unwrap();
    let split = Opened::new(&trees.at("installed"));
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
    let (out, again) = (gfx1030_of(&trees, "out"), gfx1030_of(&trees, "again"));
    assert!(out == again);
    assert!(out.iter().any(|(name, _)| name == "lib/plain.so#1"));
    let keys: Vec<_> =
        out.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("lib/plain.so#")).collect();
    let keys = keys.join(" and ");
    assert!(plan.warnings.contains(&not_joined(&keys)), "{:?}", plan.warnings);
}

#[test]
fn what_a_split_binary_does_not_ask_for_stays_in_its_archive() {
    let trees = Trees::new(&options());
    add_name(&trees.at("installed/.kpack/rocm_gfx1030.kpack"), "lib/plain.so#1", "lib/plain.so#7");
    let split = Opened::new(&trees.at("installed"));
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
    assert_eq!(plan.warnings, [not_joined("lib/plain.so#7")]);
    let (mut out, mut again) = (gfx1030_of(&trees, "out"), gfx1030_of(&trees, "again"));
    let (_, code) = out.iter().find(|(name, _)| name == "lib/plain.so#1").unwrap().clone();
    out.push(("lib/plain.so#7".to_owned(), code));
    out.sort();
    again.sort();
    assert!(out == again);
}

/// A runtime takes the first entry of a bundle that fits.
#[test]
fn specific_code_comes_first_in_joined_bundles() {
    let trees = Trees::new(&options());
    // A wrapper with code for any gfx90a gets code for one mode.
    add_name(&trees.at("installed/.kpack/rocm_gfx90a:xnack-.kpack"), "lib/features.so#0", "lib/features.so#1");
    let split = Opened::new(&trees.at("installed"));
    assert_eq!(split.joined.warnings, Vec::<String>::new());
    let entry = split.input.entry(&EntryPath::new(b"lib/features.so").unwrap()).unwrap();
    let EntryKind::File { content, .. } = &entry.kind else { panic!("no file") };
    let bundle = FatBinary::scan(content).unwrap().unwrap().wrappers()[1];
    let order = |content: &Arc<dyn Content>, bundle: Wrapper| -> Vec<_> {
        let objects = read_bundle(content, bundle.bundle, bundle.limit, &split.resources).unwrap();
        objects.iter().map(|object| object.target.to_string()).collect()
    };
    assert_eq!(order(content, bundle), ["gfx90a:xnack-", "gfx90a"]);
    let binaries = FatBinaries::new(&split.input, &split.plan(), &[]);
    let gpus = Arc::new("gfx90a".parse().unwrap());
    let thin: Arc<dyn Content> = binaries.thin(&gpus, &entry.path).unwrap().rewritten().unwrap();
    let bundle = FatBinary::scan(&thin).unwrap().unwrap().wrappers()[1];
    assert_eq!(order(&thin, bundle), ["gfx90a:xnack-", "gfx90a"]);
}

#[test]
fn archives_stay_for_a_binary_that_cannot_be_read() {
    let trees = Trees::new(&options());
    let plain = fs::read(trees.at("installed/lib/plain.so")).unwrap();
    fs::create_dir_all(trees.at("installed/other/.kpack")).unwrap();
    let (archive, other) = (".kpack/rocm_gfx90a.kpack", "other/.kpack/rocm_gfx90a.kpack");
    fs::copy(trees.at("installed").join(archive), trees.at("installed").join(other)).unwrap();
    fs::create_dir(trees.at("installed/other/lib")).unwrap();
    fs::write(trees.at("installed/other/lib/other.so"), &plain).unwrap();
    fs::write(trees.at("installed/lib/plain.so"), &plain[..plain.len() - 1]).unwrap();
    let Opened { input, joined, .. } = Opened::new(&trees.at("installed"));
    let is_there = |path: &str| input.entry(&EntryPath::new(path.as_bytes()).unwrap()).is_some();
    assert!(is_there(archive), "{:?}", joined.warnings);
    assert!(joined.warnings.contains(&format!("{archive}: it stays for lib/plain.so")), "{:?}", joined.warnings);
    assert!(!joined.warnings.iter().any(|warning| warning.starts_with("other/")), "{:?}", joined.warnings);
}

/// Writes the archive `to` as other writers do: with all code objects of several archives, in the scheme `none`.
fn join_archives(from: &[PathBuf], to: &Path) {
    let mut bytes = vec![0; 64];
    let mut toc: Option<Toc> = None;
    let mut blobs = Vec::new();
    for path in from {
        let archive = fs::read(path).unwrap();
        let archive = Archive::open(archive.as_slice()).unwrap();
        let mut here = archive.toc().unwrap();
        for (key, targets) in &mut here.toc {
            for (target, entry) in targets {
                let code = archive.get(key, target).unwrap().unwrap();
                entry.ordinal = blobs.len() as u64;
                blobs.push(Blob { offset: bytes.len() as u64, size: code.len() as u64 });
                bytes.extend(code);
            }
        }
        let Some(toc) = &mut toc else {
            toc = Some(here);
            continue;
        };
        toc.gfx_arches.extend(here.gfx_arches);
        for (key, targets) in here.toc {
            toc.toc.entry(key).or_default().extend(targets);
        }
    }
    let mut toc = toc.unwrap();
    "none".clone_into(&mut toc.compression_scheme);
    (toc.zstd_offset, toc.zstd_size, toc.blobs) = (None, None, Some(blobs));
    let offset = bytes.len() as u64;
    let header = [b"KPAK".as_slice(), &1_u32.to_le_bytes(), &offset.to_le_bytes()].concat();
    bytes.splice(..header.len(), header);
    bytes.extend(toc.encode());
    fs::write(to, bytes).unwrap();
}

#[test]
fn an_archive_for_several_targets_is_read_as_a_loader_does() {
    let trees = Trees::new(&options());
    let archives = trees.at("installed/.kpack");
    let all: Vec<_> = fs::read_dir(&archives).unwrap().map(|entry| entry.unwrap().path()).collect();
    join_archives(&all, &trees.at("all.kpack"));
    for path in &all {
        // A loader finds the same file for each target.
        fs::copy(trees.at("all.kpack"), path).unwrap();
    }
    let split = Opened::new(&trees.at("installed"));
    same(&split.code(), &expected());
    // Such archives cannot be reproduced, so binaries get new markers, and nothing is lost.
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
}

#[test]
fn damaged_and_foreign_archives_are_named() {
    let trees = Trees::new(&options());
    let archive = |target: &str| trees.at(&format!("installed/.kpack/rocm_{target}.kpack"));
    let (gfx90a, gfx1030) = (fs::read(archive("gfx90a")).unwrap(), fs::read(archive("gfx1030")).unwrap());
    let check = |reason: &str, is_joined: bool, archive_stays: bool| {
        let opened = Opened::new(&trees.at("installed"));
        let (input, joined) = (&opened.input, &opened.joined);
        let of_plain = |warning: &&String| warning.starts_with("lib/plain.so: ") && warning.contains(reason);
        assert!(joined.warnings.iter().any(|warning| of_plain(&warning)), "{reason}: {:?}", joined.warnings);
        let entry = input.entry(&EntryPath::new(b"lib/plain.so").unwrap()).unwrap();
        let EntryKind::File { content, .. } = &entry.kind else { panic!("no file") };
        assert_eq!(content.to_vec().unwrap() == fs::read(trees.at("installed/lib/plain.so")).unwrap(), !is_joined);
        let stays = input.entry(&EntryPath::new(b".kpack/rocm_gfx90a.kpack").unwrap()).is_some();
        assert_eq!(stays, archive_stays, "{reason}");
        // Code for the other GPU is not concerned.
        let code = opened.code();
        let others = |code: &Code| code.iter().filter_map(|it| it.get("gfx1030").cloned()).collect::<Vec<_>>();
        assert!(!is_joined || others(&code["plain.so"]) == others(&expected()["plain.so"]));
    };
    fs::write(archive("gfx90a"), &gfx90a[..gfx90a.len() / 2]).unwrap();
    check("rocm_gfx90a.kpack: ", false, true);
    // Puts code for another GPU under the name of this one.
    let swap = |bytes: &[u8], from: &str, to: &str| {
        let archive = Archive::open(bytes).unwrap();
        let mut toc = archive.toc().unwrap();
        toc.gfx_arches = vec![to.to_owned()];
        for targets in toc.toc.values_mut() {
            let entry = targets.remove(from).unwrap();
            targets.insert(to.to_owned(), entry);
        }
        let offset = usize::try_from(u64::from_le_bytes(bytes[8..16].try_into().unwrap())).unwrap();
        [&bytes[..offset], &toc.encode()].concat()
    };
    fs::write(archive("gfx90a"), swap(&gfx1030, "gfx1030", "gfx90a")).unwrap();
    check("it is code for gfx1030; it is kept in unknown/", true, false);
    // A size that the frame contradicts.
    let mut larger = Archive::open(gfx90a.as_slice()).unwrap().toc().unwrap();
    larger.toc.values_mut().flat_map(|targets| targets.values_mut()).for_each(|entry| entry.original_size += 1);
    let offset = usize::try_from(u64::from_le_bytes(gfx90a[8..16].try_into().unwrap())).unwrap();
    fs::write(archive("gfx90a"), [&gfx90a[..offset], &larger.encode()].concat()).unwrap();
    check("the table of contents says", true, true);
    fs::write(archive("gfx90a"), &gfx90a).unwrap();
    assert_eq!(Opened::new(&trees.at("installed")).joined.warnings, Vec::<String>::new());
}
