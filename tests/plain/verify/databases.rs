//! Files of databases where no manifest lists them: in parts of a split, and in installations with which RECORD agrees.

use std::fs;
use std::io::Write;
use std::path::Path;

use kpackfs::verify::{Rule, VerifyOptions};
use md5::Digest;

use crate::verify::agreed::{agree, without_statements};
use crate::verify::installations::{fat, installed, wheel, wheels};
use crate::verify::splits::{Split, verify};

const GFX1030: u8 = 0x36;
const GFX1100: u8 = 0x41;
const GFX942: u8 = 0x4c;

const CODE: &str = "fat/lib/rocblas/library/TensileLibrary_gfx1100.co";
const CATALOGUE: &str = "fat/lib/rocblas/library/TensileLibrary_Type_HH_fallback.dat";

/// Content of a file, and what is found in it.
type Case = (Vec<u8>, Option<&'static str>);

/// The header of an AMDGPU ELF file (LLVM's "User Guide for AMDGPU Backend") with a table of sections at `table`.
fn code(mach: u8, table: u8) -> Vec<u8> {
    let mut code = vec![0; 128];
    code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x02");
    (code[18], code[40], code[48], code[58], code[60]) = (224, table, mach, 64, 1);
    code
}

/// An uncompressed bundle (clang's documentation, "Clang Offload Bundler") with one code object.
fn bundle(target: &str, code: &[u8]) -> Vec<u8> {
    let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
    let table = [1, 256, code.len() as u64, id.len() as u64].map(u64::to_le_bytes).concat();
    let mut bundle = [b"__CLANG_OFFLOAD_BUNDLE__", &*table, id.as_bytes()].concat();
    bundle.resize(256, 0);
    [bundle, code.to_vec()].concat()
}

/// The same as clang compresses it: version 2 of CCOB, zlib, and this hash.
fn compressed(bundle: &[u8], hash: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bundle).unwrap();
    let packed = encoder.finish().unwrap();
    let sizes = [packed.len() + 24, bundle.len()].map(|size| u32::try_from(size).unwrap().to_le_bytes()).concat();
    [b"CCOB\x02\0\0\0", &*sizes, &hash[..8], &packed].concat()
}

/// The header of code with a segment of 200 bytes, by a table at 64, and without a table of sections.
fn segment() -> Vec<u8> {
    let mut code = code(GFX1100, 0);
    (code[32], code[54], code[56], code[58], code[60], code[96]) = (64, 56, 1, 0, 0, 200);
    code
}

/// Code whose header says that XNACK is on.
fn with_xnack(mut code: Vec<u8>) -> Vec<u8> {
    code[49] = 3;
    code
}

fn codes() -> Vec<Case> {
    let plain = bundle("gfx1100", &code(GFX1100, 64));
    let hash = md5::Md5::digest(&plain);
    vec![
        (code(GFX1100, 64), None),
        (code(GFX942, 64), Some("it is code for gfx942")),
        (with_xnack(code(GFX1100, 64)), Some("its header says xnack+, and gfx1100 has no such mode")),
        (code(GFX1100, 96), Some("it has 128 bytes, but its headers need 160")),
        (segment(), Some("it has 128 bytes, but its headers need 200")),
        (vec![0; 128], Some("it is neither an AMDGPU ELF file nor SPIR-V")),
        (Vec::new(), Some("it is empty")),
        (plain.clone(), None),
        (plain[..300].to_vec(), Some("offload bundle at 0x0: an entry reaches past the end")),
        (bundle("gfx942", &code(GFX942, 64)), Some("it has code for gfx942, and none for gfx1100")),
        (bundle("gfx1100", &code(GFX942, 64)), Some("the code object for gfx1100: it is code for gfx942")),
        (
            bundle("gfx1100", &with_xnack(code(GFX1100, 64))),
            Some("the code object for gfx1100: its header says xnack+, and gfx1100 has no such mode"),
        ),
        (compressed(&plain, &hash), None),
        (compressed(&plain, &[0; 8]), Some("its hash is not that of the bundle that it is compressed from")),
    ]
}

fn catalogues() -> Vec<Case> {
    vec![
        (b"\x82\x01\x02\x03\x04".to_vec(), None),
        (b"\x82\x01\x02\x03".to_vec(), Some("it is no whole msgpack tree")),
        (b"<html>".to_vec(), Some("it is no msgpack tree")),
        (Vec::new(), Some("it is empty")),
    ]
}

#[test]
fn files_of_databases_are_whole_and_for_the_gpu_in_their_path() {
    let fat = fat();
    fs::write(fat.path().join(CODE), code(GFX1100, 64)).unwrap();
    fs::write(fat.path().join(CATALOGUE), b"\x80").unwrap();
    let out = wheels(fat.path(), &[]);
    let all = ["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it));
    let site = installed(&all);
    without_statements(site.path());
    let cases = codes().into_iter().map(|case| (CODE, Rule::DatabaseCode, case));
    let cases = cases.chain(catalogues().into_iter().map(|case| (CATALOGUE, Rule::DatabaseCatalogue, case)));
    for (path, rule, (content, expected)) in cases {
        let place = site.path().join(path);
        let healthy = fs::read(&place).unwrap();
        fs::write(&place, content).unwrap();
        agree(site.path(), &[]);
        let found = verify(&[site.path().to_owned()], None, &VerifyOptions::default()).findings;
        fs::write(&place, healthy).unwrap();
        let reasons: Vec<_> = found.iter().map(|it| (it.rule, &*it.path, &*it.reason)).collect();
        assert_eq!(reasons, expected.map(|reason| (rule, path, reason)).into_iter().collect::<Vec<_>>());
    }
}

/// What is found, by rule, path and reason.
fn found(path: &Path) -> Vec<(Rule, String, String)> {
    let report = verify(&[path.to_owned()], None, &VerifyOptions::default());
    report.findings.into_iter().map(|it| (it.rule, it.path, it.reason)).collect()
}

#[test]
fn files_of_databases_in_a_split_without_manifest_are_whole() {
    let split = Split::make(&[]);
    assert_eq!(found(&split.out()), []);
    let library = "gfx1030/lib/rocblas/library";
    for (name, content, expected) in [
        ("TensileLibrary_gfx1030.co", code(GFX1030, 64), None),
        (
            "TensileLibrary_gfx1030.co",
            code(GFX1030, 96),
            Some((Rule::DatabaseCode, "it has 128 bytes, but its headers need 160")),
        ),
        ("TensileLibrary_gfx1030.co", code(GFX942, 64), Some((Rule::DatabaseCode, "it is code for gfx942"))),
        (
            "TensileLibrary_gfx1030.dat",
            b"\x91\xabfor".to_vec(),
            Some((Rule::DatabaseCatalogue, "it is no whole msgpack tree")),
        ),
    ] {
        let path = format!("{library}/{name}");
        let place = split.out().join(&path);
        let before = fs::read(&place);
        fs::write(&place, content).unwrap();
        let expected = expected.map(|(rule, reason)| (rule, path.clone(), reason.to_owned()));
        assert_eq!(found(&split.out()), expected.into_iter().collect::<Vec<_>>());
        match before {
            Ok(before) => fs::write(&place, before).unwrap(),
            Err(_) => fs::remove_file(&place).unwrap(),
        }
    }
}

/// A lazy catalogue: an array of names.
fn lazy(names: &[&str]) -> Vec<u8> {
    rmp_serde::to_vec(names).unwrap()
}

/// Parts of a split and an installation need what a lazy catalogue names. Without the host part, nothing is known.
#[test]
fn files_to_which_a_catalogue_leads_exist() {
    let split = Split::make(&["merged/gfx1030"]);
    let (fallback, own) = ("TensileLibrary_SS_fallback", "TensileLibrary_SS_gfx1030");
    let files = [
        ("host", format!("{fallback}.dat"), lazy(&[])),
        ("gfx1030", "TensileLibrary_lazy_gfx1030.dat".to_owned(), lazy(&[fallback, own])),
        ("gfx1030", format!("{fallback}_gfx1030.hsaco"), code(GFX1030, 64)),
        ("gfx1030", format!("{own}.dat"), lazy(&[])),
        ("gfx1030", format!("{own}.co"), code(GFX1030, 64)),
        ("gfx1030", "Kernels.so-000-gfx1030.hsaco".to_owned(), code(GFX1030, 64)),
    ];
    let all = split.out();
    let merged = all.join("merged/gfx1030");
    let place = |part: &str, name: &str| all.join(part).join("lib/rocblas/library").join(name);
    for (part, name, content) in &files {
        for part in [*part, "merged/gfx1030"] {
            fs::create_dir_all(place(part, "")).unwrap();
            fs::write(place(part, name), content).unwrap();
        }
    }
    let path = "lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat";
    let said = |name: &str| match name.rsplit_once('.').unwrap() {
        (stem, "dat") => format!("it names what does not exist: {stem}.dat"),
        (stem, "co") => format!("it leads to what does not exist: {stem}.co or .hsaco"),
        (stem, _) if stem.starts_with("Kernels") => "there are no helper kernels for gfx1030".to_owned(),
        _ => format!("it leads to what does not exist: {name}"),
    };
    assert_eq!((found(&all), found(&merged)), (vec![], vec![]));
    for (part, name, content) in files.iter().filter(|(_, name, _)| !name.contains("lazy")) {
        for (root, part, path) in
            [(&all, *part, format!("gfx1030/{path}")), (&merged, "merged/gfx1030", path.to_owned())]
        {
            fs::remove_file(place(part, name)).unwrap();
            assert_eq!(found(root), [(Rule::DatabaseMissing, path, said(name))], "{name}");
            fs::write(place(part, name), content).unwrap();
        }
    }
    // A library that is not built for a GPU has no catalogue for it.
    fs::remove_file(place("merged/gfx1030", "TensileLibrary_lazy_gfx1030.dat")).unwrap();
    fs::remove_file(place("merged/gfx1030", &format!("{own}.co"))).unwrap();
    assert_eq!(found(&merged), []);
}

/// A symlink of an unpacked root leads where it leads for a process of that root.
#[test]
fn files_of_a_catalogue_are_found_in_the_root_that_they_are_in() {
    let split = Split::make(&["merged/gfx1030"]);
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap().join("root");
    let (rocm, elsewhere) = (root.join("opt/rocm"), place.path().join("elsewhere.co"));
    for directory in ["usr", "etc", "srv", "opt"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::rename(split.out().join("merged/gfx1030"), &rocm).unwrap();
    let library = rocm.join("lib/rocblas/library");
    fs::create_dir_all(&library).unwrap();
    let own = "TensileLibrary_SS_gfx1030";
    for (file, content) in [
        (library.join("TensileLibrary_lazy_gfx1030.dat"), lazy(&[own])),
        (library.join("TensileLibrary_SS_gfx1030.dat"), lazy(&[])),
        (library.join("Kernels.so-000-gfx1030.hsaco"), code(GFX1030, 64)),
        (root.join("srv/kpackfs-a.co"), code(GFX1030, 64)),
        (rocm.join("kpackfs-b.co"), code(GFX1030, 64)),
        (elsewhere.clone(), code(GFX1030, 64)),
    ] {
        fs::write(file, content).unwrap();
    }
    for (target, in_root, without) in [
        ("/srv/kpackfs-a.co", 0, 1),
        ("/opt/rocm/kpackfs-b.co", 0, 1),
        ("../../../../../srv/kpackfs-a.co", 0, 0),
        // Nothing is above a root.
        ("../../../../../../../../../../../../srv/kpackfs-a.co", 0, 1),
        ("/../srv/kpackfs-a.co", 0, 1),
        (elsewhere.to_str().unwrap(), 1, 0),
        ("/srv/kpackfs-none.co", 1, 1),
    ] {
        let link = library.join(format!("{own}.co"));
        std::os::unix::fs::symlink(target, &link).unwrap();
        fs::write(root.join("etc/os-release"), "ID=demo\n").unwrap();
        assert_eq!(found(&rocm).len(), in_root, "{target}");
        fs::remove_file(root.join("etc/os-release")).unwrap();
        assert_eq!(found(&rocm).len(), without, "{target}, without a root");
        fs::remove_file(link).unwrap();
    }
}
