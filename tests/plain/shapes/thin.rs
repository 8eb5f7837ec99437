//! The fixtures, reduced to the code of some GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use kpackfs::binary::FatBinary;
use kpackfs::fatbin::read_bundle;
use kpackfs::gpu::GpuSet;
use kpackfs::kpack::{BundleJobs, Compression};
use kpackfs::resources::Resources;
use kpackfs::rope::Content;
use kpackfs::source::EntryKind;
use kpackfs::split::{Destination, ThinBinary};
use md5::{Digest, Md5};

use crate::common::fixture;
use crate::shapes::shown::{CodeObject, Shown, content, expected, is_rewritten_elf, loads, sha256, whole};

/// The sets of GPUs to which the fixtures are reduced.
const GPUS: [&[&str]; 8] = [
    &["gfx90a"],
    &["gfx1030"],
    &["gfx1100"],
    &["gfx942"],
    &["gfx90a:xnack+"],
    &["gfx90a:xnack-"],
    &["gfx1030", "gfx1100"],
    &["gfx1030", "gfx1100", "gfx90a", "gfx942"],
];

/// Every fixture that can be reduced.
fn thin(shown: &Shown, gpus: &str) -> BTreeMap<String, Arc<dyn Content>> {
    let resources = Resources::new(64 << 20);
    let gpus = Arc::new(gpus.parse::<GpuSet>().unwrap());
    let input = kpackfs::source::Input::open(shown.fat.path(), &resources).unwrap();
    let thin = input.entries.iter().zip(&shown.plan.places).filter_map(|(entry, place)| {
        let (Destination::Rewritten { bundles, .. }, EntryKind::File { content, .. }) = (place, &entry.kind) else {
            return None;
        };
        let name = String::from_utf8(entry.path.name().to_vec()).unwrap();
        let thin = ThinBinary::new(&name, content, &gpus, bundles, &BundleJobs::new(&resources));
        let rewritten: Arc<dyn Content> = thin.rewritten().unwrap_or_else(|error| panic!("{name}: {error}"));
        Some((name, rewritten))
    });
    thin.collect()
}

/// The digests of the code objects of each wrapper, by target, and the offsets of the bundles.
fn code(file: &Arc<dyn Content>) -> (Vec<BTreeMap<String, String>>, Vec<u64>) {
    let resources = Resources::new(64 << 20);
    let fat = FatBinary::scan(file).unwrap().expect("it has device code");
    let wrappers = fat.wrappers();
    let objects = wrappers.iter().map(|wrapper| {
        let objects = read_bundle(file, wrapper.bundle, wrapper.limit, &resources).unwrap();
        objects.iter().map(|object| (object.target.to_string(), sha256(&whole(&*object.content)))).collect()
    });
    (objects.collect(), wrappers.iter().map(|wrapper| wrapper.bundle).collect())
}

/// The code of a wrapper that must stay. The fixtures have generic code for gfx11 only.
fn wanted(gpus: &[&str], objects: &BTreeMap<String, CodeObject>) -> BTreeMap<String, String> {
    let runs_on = |code: &str, gpu: &str| {
        let [(processor, mode), (wanted, fixed)] = [code, gpu].map(|id| id.split_once(':').unwrap_or((id, "")));
        let is_mode = mode.is_empty() || fixed.is_empty() || mode == fixed;
        let is_generic = processor == "gfx11-generic" && wanted == "gfx1100" && !objects.contains_key("gfx1100");
        (processor == wanted && is_mode) || is_generic
    };
    let kept = objects.iter().filter(|(code, _)| gpus.iter().any(|gpu| runs_on(code, gpu)));
    kept.map(|(code, object)| (code.clone(), object.sha256.clone())).collect()
}

#[test]
fn wrappers_lead_to_the_code_of_the_gpus() {
    let (shown, expected) = (super::all(Compression::default()), expected());
    let mut found = 0;
    for gpus in GPUS {
        let thin = thin(&shown, &gpus.join("+"));
        assert_eq!(thin.len(), shown.plan.binaries.len());
        for (name, file) in thin {
            let (objects, _) = code(&file);
            let wanted: Vec<_> = expected[&name].wrappers.iter().map(|objects| wanted(gpus, objects)).collect();
            found += wanted.iter().map(BTreeMap::len).sum::<usize>();
            assert_eq!(objects, wanted, "{name} for {gpus:?}");
            assert!(file.size() <= expected[&name].size, "{name} for {gpus:?}");
        }
    }
    assert!(found > 590, "{found}");
}

/// At each bundle, the bytes that HIP reads can be read, and the loader accepts the file.
#[test]
fn files_can_be_loaded() {
    let shown = super::all(Compression::default());
    for gpus in ["gfx90a", "gfx942"] {
        for (name, file) in thin(&shown, gpus).into_iter().filter(|(name, _)| is_rewritten_elf(name)) {
            let bytes = whole(&*file);
            let (fat, before) = (fixture(&name), loads(&fixture(&name)));
            let loads = loads(&bytes);
            for load in &loads {
                assert_eq!(load.offset % load.alignment, load.address % load.alignment, "{name}: {load:x?}");
            }
            let end =
                |loads: &[crate::shapes::shown::Header]| loads.iter().map(|load| load.address + load.memory_size).max();
            assert!(end(&before) >= end(&loads), "{name}");
            for bundle in code(&file).1 {
                let load =
                    loads.iter().find(|load| (load.offset..load.offset + load.file_size).contains(&bundle)).unwrap();
                let mapped = (load.offset + load.memory_size).next_multiple_of(4096);
                let readable = mapped.min((bytes.len() as u64).next_multiple_of(4096));
                // Some fixtures are smaller than that to begin with.
                assert!(bundle + 4096 <= readable || fat.len() < 16 << 10, "{name} at {bundle:#x} of {readable:#x}");
            }
        }
    }
}

/// A compressed bundle keeps its version and method, and its hash matches its content.
#[test]
fn compressed_bundles_are_of_the_same_kind() {
    let shown = super::all(Compression::default());
    let mut checked = 0;
    for (name, file) in thin(&shown, "gfx90a").into_iter().filter(|(name, _)| name.contains("cco")) {
        let (fat, bytes) = (fixture(&name), whole(&*file));
        let before = code(&content(fat.clone())).1;
        for (old, new) in before.into_iter().zip(code(&file).1) {
            let [old, new] = [(&fat, old), (&bytes, new)].map(|(bytes, at)| &bytes[usize::try_from(at).unwrap()..]);
            assert_eq!(old[..8], new[..8], "{name}: magic, version and method");
            if !new.starts_with(b"CCOB") {
                continue;
            }
            let header = match new[4] {
                1 => 20,
                2 => 24,
                _ => 32,
            };
            let zlib = new[6] == 0;
            let mut inflated = Vec::new();
            let body = &new[header..];
            if zlib {
                std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(body), &mut inflated).unwrap();
            } else {
                let mut decoder = zstd::stream::read::Decoder::new(body).unwrap().single_frame();
                std::io::Read::read_to_end(&mut decoder, &mut inflated).unwrap();
            }
            assert_eq!(Md5::digest(&inflated)[..8], new[header - 8..header], "{name}");
            assert!(inflated.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"));
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn nothing_but_device_code_changes() {
    let shown = super::all(Compression::default());
    for gpus in ["gfx90a", "gfx942", "gfx1030+gfx1100+gfx90a+gfx942"] {
        for (name, file) in thin(&shown, gpus) {
            let fat = FatBinary::scan(&content(fixture(&name))).unwrap().unwrap();
            assert_eq!(fat.first_difference(&file).unwrap(), None, "{name} for {gpus}");
        }
    }
}

/// A thin binary can be reduced again. If all of its code is wanted, it stays as it is.
#[test]
fn cutting_down_again_changes_nothing() {
    let shown = super::all(Compression::default());
    let again = tempfile::tempdir().unwrap();
    std::fs::create_dir(again.path().join("lib")).unwrap();
    let first = thin(&shown, "gfx90a");
    for (name, file) in &first {
        std::fs::write(again.path().join("lib").join(name), whole(&**file)).unwrap();
    }
    let again = Shown::tree(again, Compression::default());
    let second = thin(&again, "gfx90a");
    assert_eq!(first.len(), second.len());
    for (name, file) in second {
        assert!(whole(&*file) == whole(&*first[&name]), "{name}");
    }
}
