//! Files that are offload bundles: whole in the host part, reduced in thin views.

use std::fs;
use std::sync::Arc;

use kpackfs::fatbin::read_bundle;
use kpackfs::kpack::Compression;
use kpackfs::resources::Resources;
use kpackfs::rope::Content;
use kpackfs::source::EntryPath;
use kpackfs::tree::ROOT;
use md5::{Digest, Md5};

use crate::common::fixture;
use crate::shapes::shown::{Shown, whole};

/// A bundle as clang writes it ("Clang Offload Bundler"), with code at multiples of `alignment`.
pub(crate) fn bundle(entries: &[(&str, Vec<u8>)], alignment: usize) -> Vec<u8> {
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((entries.len() as u64).to_le_bytes());
    let mut at = table.len() + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut code = vec![0; at];
    for (id, bytes) in entries {
        at = code.len().next_multiple_of(if bytes.is_empty() { 1 } else { alignment });
        code.resize(at, 0);
        code.extend(bytes);
        for field in [at, bytes.len(), id.len()] {
            table.extend((field as u64).to_le_bytes());
        }
        table.extend(id.as_bytes());
    }
    code[..table.len()].copy_from_slice(&table);
    code
}

/// Version 2 of a compressed bundle.
pub(crate) fn compressed(bundle: &[u8]) -> Vec<u8> {
    let frame = zstd::bulk::compress(bundle, 3).unwrap();
    let mut bytes = b"CCOB\x02\0\x01\0".to_vec();
    for field in [frame.len() + 24, bundle.len()] {
        bytes.extend(u32::try_from(field).unwrap().to_le_bytes());
    }
    bytes.extend(&Md5::digest(bundle)[..8]);
    bytes.extend(frame);
    bytes
}

pub(crate) fn code(seed: u8, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ seed).collect()
}

pub(crate) fn three() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("host-x86_64-unknown-linux--", Vec::new()),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", code(1, 9000)),
        ("hipv4-amdgcn-amd-amdhsa--gfx1030", code(2, 7000)),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100", code(3, 5000)),
    ]
}

/// A tree of these files and a library.
fn tree(files: &[(&str, Vec<u8>)]) -> Shown {
    let fat = tempfile::tempdir().unwrap();
    fs::create_dir(fat.path().join("lib")).unwrap();
    fs::write(fat.path().join("lib/plain.so"), fixture("plain.so")).unwrap();
    for (name, bytes) in files {
        fs::write(fat.path().join("lib").join(name), bytes).unwrap();
    }
    Shown::tree(fat, Compression::default())
}

fn file(shown: &Shown, path: &str) -> Arc<dyn Content> {
    let node = shown.tree.resolve(ROOT, &EntryPath::new(path.as_bytes()).unwrap()).expect(path);
    shown.tree.body(node).expect(path).content().unwrap()
}

/// Code by target.
fn found(content: &Arc<dyn Content>) -> Vec<(String, Vec<u8>)> {
    let objects = read_bundle(content, 0, content.size(), &Resources::new(64 << 20)).unwrap();
    objects.iter().map(|object| (object.target.to_string(), whole(&*object.content))).collect()
}

#[test]
fn thin_views_have_the_code_of_their_gpus() {
    let raw = bundle(&three(), 4096);
    let unaligned = bundle(&three()[1..], 1);
    let packed = compressed(&raw);
    let files = [("Transform.hsaco", raw), ("old.co", unaligned), ("packed.fatbin", packed)];
    let shown = tree(&files);
    for (name, bytes) in &files {
        assert_eq!(whole(&*file(&shown, &format!("host/lib/{name}"))), *bytes, "the host part has all of {name}");
        for (gpu, id, code) in [
            ("gfx90a", "gfx90a:xnack-", code(1, 9000)),
            ("gfx90a:xnack-", "gfx90a:xnack-", code(1, 9000)),
            // No wrapper of the library has code for this target.
            ("gfx1100", "gfx1100", code(3, 5000)),
        ] {
            let thin = file(&shown, &format!("thin/{gpu}/lib/{name}"));
            assert_eq!(found(&thin), [(id.to_owned(), code)], "{name} for {gpu}");
            assert!(thin.size() < bytes.len() as u64, "{name} for {gpu}");
            let is_packed = whole(&*thin).starts_with(b"CCOB");
            assert_eq!(is_packed, bytes.starts_with(b"CCOB"), "{name} stays of its kind");
            assert!(is_packed || thin.size() >= 4096, "HIP reads 4096 bytes of {name}");
        }
        let both = file(&shown, &format!("thin/gfx1030+gfx1100/lib/{name}"));
        assert_eq!(found(&both).len(), 2, "{name}");
        let all = file(&shown, &format!("thin/gfx1030+gfx1100+gfx90a:xnack-/lib/{name}"));
        assert!(name == &"old.co" || whole(&*all) == *bytes, "all of {name} is wanted");
        assert_eq!(found(&all).len(), 3, "{name}");
    }
}

#[test]
fn what_has_no_code_for_the_gpus_keeps_an_empty_bundle() {
    let others = bundle(&three()[1..3], 4096);
    let shown = tree(&[("Transform.hsaco", others)]);
    let thin = file(&shown, "thin/gfx1030/lib/Transform.hsaco");
    assert_eq!(found(&thin).len(), 1);
    let library = file(&shown, "thin/gfx90a:xnack+/lib/Transform.hsaco");
    assert_eq!(found(&library), []);
    assert_eq!(library.size(), 4096, "as much as HIP reads");
}

/// An entry that is not understood is omitted from thin views, as is code for other GPUs.
#[test]
fn a_file_with_an_entry_that_is_not_understood_is_reduced() {
    let entries = [&three()[..], &[("hipv4-amdgcn-amd-amdhsa--GFX1", code(4, 100))]].concat();
    let shown = tree(&[("unknown.co", bundle(&entries, 4096))]);
    let targets: Vec<_> = found(&file(&shown, "thin/gfx1030/lib/unknown.co")).into_iter().map(|(id, _)| id).collect();
    assert!(!targets.is_empty() && targets.iter().all(|id| id.contains("gfx1030")), "{targets:?}");
    assert_eq!(whole(&*file(&shown, "host/lib/unknown.co")), bundle(&entries, 4096));
}

/// Bundles for one target, object files of compilations with `-fgpu-rdc`, and files with more than a bundle stay whole.
#[test]
fn other_files_stay_whole() {
    let raw = bundle(&three(), 4096);
    let mut with_host = three();
    with_host[0].1 = code(9, 100);
    let files = [
        ("one.hsaco", bundle(&three()[..2], 4096)),
        ("object.co", bundle(&with_host, 4096)),
        ("more.co", [&raw[..], b"more"].concat()),
        ("short.co", raw[..raw.len() - 1].to_vec()),
        ("broken.co", compressed(&raw)[..400].to_vec()),
        ("Transform.o", raw),
    ];
    let shown = tree(&files);
    for (name, bytes) in &files {
        assert_eq!(whole(&*file(&shown, &format!("thin/gfx1030/lib/{name}"))), *bytes, "{name}");
    }
}
