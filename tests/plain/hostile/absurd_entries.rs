//! A library with code for twelve GPUs and one entry that cannot be understood. The twelve are split, joined and thinned,
//! and the entry is kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use kpackfs::binary::FatBinary;
use kpackfs::fatbin::read_bundle;
use kpackfs::source::open_file;

use crate::common::ran as kpackfs;
use crate::hostile::elf::fat_with;
use crate::hostile::plain_bundle::plain;
use crate::hostile::support::resources;

/// Processors with their numbers in `e_flags`.
const PROCESSORS: [(&str, u8); 12] = [
    ("gfx900", 0x2c),
    ("gfx906", 0x2f),
    ("gfx908", 0x30),
    ("gfx90a", 0x3f),
    ("gfx942", 0x4c),
    ("gfx950", 0x4f),
    ("gfx1030", 0x36),
    ("gfx1100", 0x41),
    ("gfx1101", 0x46),
    ("gfx1151", 0x4a),
    ("gfx1200", 0x48),
    ("gfx1201", 0x4e),
];

fn code(machine: u8, content: u8) -> Vec<u8> {
    let mut code = vec![content; 5000];
    code[..64].fill(0);
    code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x02");
    (code[18], code[48]) = (224, machine);
    code
}

/// The entries of the twelve, and further ones.
fn library(others: &[(String, Vec<u8>)]) -> Vec<u8> {
    let id = |target: &str| format!("hipv4-amdgcn-amd-amdhsa--{target}");
    let good = PROCESSORS.iter().map(|(name, machine)| (id(name), code(*machine, *machine)));
    let others = others.iter().map(|(target, code)| (id(target), code.clone()));
    let all: Vec<_> = good.chain(others).collect();
    let entries = [("host-x86_64-unknown-linux--", &b""[..])].into_iter();
    let entries: Vec<_> = entries.chain(all.iter().map(|(id, code)| (id.as_str(), code.as_slice()))).collect();
    fat_with(&[plain(&entries)]).bytes
}

/// The code in a library by target.
fn found(library: &Path) -> BTreeMap<String, Vec<u8>> {
    let resources = resources();
    let content = open_file(library, &resources).unwrap();
    let wrapper = FatBinary::scan(&content).unwrap().unwrap().wrappers()[0];
    let objects = read_bundle(&content, wrapper.bundle, wrapper.limit, &resources).unwrap();
    objects.iter().map(|object| (object.target.to_string(), object.content.to_vec().unwrap())).collect()
}

fn succeeds(place: &Path, arguments: &[&str]) -> String {
    let (status, said) = kpackfs(place, arguments);
    assert_eq!(status, Some(0), "{arguments:?}: {said}");
    said
}

/// Lays all parts of `out` over each other.
fn install(place: &Path, out: &str, to: &str) {
    let script = "mkdir \"$2\"; for part in \"$1\"/*; do cp -a \"$part/.\" \"$2\"; done";
    assert!(Command::new("sh").args(["-ec", script, "sh", out, to]).current_dir(place).status().unwrap().success());
}

/// Everything that can be done with a tree, for each GPU.
fn the_twelve_work(place: &Path, odd: &str, odd_code: &[u8]) {
    let twelve = |all: &BTreeMap<String, Vec<u8>>| {
        for (name, machine) in PROCESSORS {
            assert!(all.get(name) == Some(&code(machine, machine)), "{name}: {:?}", all.keys());
        }
    };
    succeeds(place, &["verify", "out", "--against", "tree"]);
    install(place, "out", "installed");
    for (name, _) in PROCESSORS {
        let said = succeeds(place, &["why", "installed", "--target", name]);
        assert!(said.contains("is found"), "{said}");
        let (again, thin) = (format!("again-{name}"), format!("thin/{name}"));
        succeeds(place, &["split", "installed", "-o", &again, "--view", &thin]);
        assert_eq!(found(&place.join(again).join(thin).join("lib/x.so")).into_keys().collect::<Vec<_>>(), [name]);
    }
    succeeds(place, &["split", "installed", "-o", "fat", "--view", "fat"]);
    let joined = found(&place.join("fat/fat/lib/x.so"));
    twelve(&joined);
    assert_eq!((joined.len(), joined.get(odd).map(Vec::as_slice)), (13, Some(odd_code)), "{:?}", joined.keys());
    succeeds(place, &["verify", "installed", "--against", "tree"]);
}

#[test]
fn an_entry_id_that_is_not_understood_concerns_no_other() {
    let odd = code(0x3f, 1);
    for (id, target) in [
        ("GFX1030", "unknown-.47.46.581030"),
        ("gfx90a:x", "unknown-gfx90a.3ax"),
        ("gfx1100", "unknown-gfx1100"),
        ("gfx11-Generic", "unknown-gfx11.2d.47eneric"),
        ("host", "unknown-host"),
        ("../x", "unknown-.2e.2e.2fx"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        fs::create_dir_all(place.join("tree/lib")).unwrap();
        fs::write(place.join("tree/lib/x.so"), library(&[(id.to_owned(), odd.clone())])).unwrap();
        let said = succeeds(place, &["split", "tree", "-o", "out"]);
        assert!(said.contains("lib/x.so: ") && said.contains(&format!("--{id}")), "{said}");
        assert!(place.join(format!("out/unknown/.kpack/rocm_{target}.kpack")).exists());
        assert!(!said.contains("not split"), "{said}");
        the_twelve_work(place, target, &odd);
    }
}

/// Code in an archive that is not for the GPU in its name, as its header says.
#[test]
fn a_code_object_that_is_for_another_gpu_concerns_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::create_dir_all(place.join("tree/lib")).unwrap();
    fs::write(place.join("tree/lib/x.so"), library(&[("gfx803".to_owned(), code(0x2a, 7))])).unwrap();
    succeeds(place, &["split", "tree", "-o", "first", "--compression", "none"]);
    install(place, "first", "damaged");
    let archive = place.join("damaged/.kpack/rocm_gfx803.kpack");
    let mut bytes = fs::read(&archive).unwrap();
    let start = bytes.windows(9).position(|window| window == &code(0x2a, 7)[..9]).unwrap();
    bytes[start + 48] = 0x3f;
    fs::write(&archive, bytes).unwrap();
    let said = succeeds(place, &["split", "damaged", "-o", "out"]);
    assert!(said.contains("lib/x.so#0 for gfx803: it is code for gfx90a; it is kept in unknown/"), "{said}");
    fs::rename(place.join("damaged"), place.join("tree-2")).unwrap();
    fs::remove_dir_all(place.join("tree")).unwrap();
    fs::rename(place.join("tree-2"), place.join("tree")).unwrap();
    the_twelve_work(place, "unknown-gfx803", &code(0x3f, 7));
}

/// An entry whose size contradicts its frame cannot be read. Its archive stays for it.
#[test]
fn an_entry_that_cannot_be_read_concerns_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::create_dir_all(place.join("tree/lib")).unwrap();
    fs::write(place.join("tree/lib/x.so"), library(&[("gfx803".to_owned(), code(0x2a, 7))])).unwrap();
    succeeds(place, &["split", "tree", "-o", "first"]);
    install(place, "first", "installed");
    let archive = place.join("installed/.kpack/rocm_gfx803.kpack");
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, crate::hostile::split_inputs::each_entry(&bytes, |entry| entry.original_size += 1)).unwrap();
    let said = succeeds(place, &["split", "installed", "-o", "out", "--view", "fat"]);
    assert!(said.contains("lib/x.so: joined without 1 of its code objects"), "{said}");
    assert!(said.contains("rocm_gfx803.kpack: it stays for lib/x.so"), "{said}");
    let joined = found(&place.join("out/fat/lib/x.so"));
    assert_eq!(joined.len(), 12);
    assert!(place.join("out/fat/.kpack/rocm_gfx803.kpack").exists());
}

/// The tables of a file's bundles are kept. If all of them do not fit into half of the memory, nothing is written.
#[test]
fn tables_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::create_dir_all(place.join("tree/lib")).unwrap();
    let ids: Vec<_> =
        (0..1700).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}{}", "x".repeat(970))).collect();
    let table = plain(&ids.iter().map(|id| (id.as_str(), &b""[..])).collect::<Vec<_>>());
    fs::write(place.join("tree/lib/absurd.so"), fat_with(&vec![table; 16]).bytes).unwrap();
    fs::write(place.join("tree/lib/x.so"), library(&[])).unwrap();
    let (status, said) = kpackfs(place, &["split", "tree", "-o", "out", "--memory", "64"]);
    assert!(status == Some(1) && said.contains("it needs --memory "), "{said}");
    assert!(!place.join("out").exists(), "{said}");
    let needed = said.rsplit_once("--memory ").unwrap().1.split(' ').next().unwrap();
    succeeds(place, &["split", "tree", "-o", "out", "--memory", needed]);
}
