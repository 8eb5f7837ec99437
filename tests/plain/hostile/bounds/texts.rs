//! Texts and records that are read whole.

use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use kpackfs::artifact::{Kpm, KpmEntry};
use kpackfs::index::{Index, RecordKind};
use kpackfs::rope::{Identity, Xxh3};

use super::Costly;
use super::binaries::library;
use super::listed::{dist_info, wheel};

fn wheel_with(place: &Path, file: &str, bytes: Vec<u8>) -> Costly {
    let members = [("x/x.so".to_owned(), library())].into_iter().chain(dist_info(&[(file, bytes)]));
    Costly::new(wheel(place, members, None), 10, 1000)
}

pub(super) fn record(place: &Path, scale: usize) -> Costly {
    let count = 100_000 * scale;
    let mut text = String::new();
    for number in 0..count {
        writeln!(text, "x/{number},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0").unwrap();
    }
    let costly = wheel_with(place, "RECORD", text.into());
    Costly { tables: costly.tables + 400 * count as u64, ..costly }
}

/// A RECORD whose files have no digest.
pub(super) fn installed(place: &Path, scale: usize) -> Costly {
    let (tree, count) = (place.join("installed"), 300_000 + 30_000 * scale);
    let info = tree.join("x-1.0.dist-info");
    fs::create_dir_all(&info).unwrap();
    fs::write(tree.join("x.so"), library()).unwrap();
    fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n").unwrap();
    let lines: Vec<_> = (0..count).map(|number| format!("x/{number},,\n")).collect();
    fs::write(info.join("RECORD"), lines.concat()).unwrap();
    Costly::new(tree, count as u64, 8 * count as u64)
}

pub(super) fn metadata(place: &Path, _: usize) -> Costly {
    wheel_with(
        place,
        "METADATA",
        [&b"Metadata-Version: 2.1\nName: x\nVersion: "[..], &vec![b'1'; 100 << 20], b"\n"].concat(),
    )
}

pub(super) fn wheel_file(place: &Path, _: usize) -> Costly {
    let tags = "Tag: py3-none-any\n".repeat(6 << 20);
    wheel_with(place, "WHEEL", format!("Wheel-Version: 1.0\nRoot-Is-Purelib: false\n{tags}").into())
}

pub(super) fn statement(place: &Path, _: usize) -> Costly {
    let out = place.join("tree");
    fs::create_dir_all(out.join(".kpackfs")).unwrap();
    fs::create_dir_all(out.join("host/lib")).unwrap();
    fs::write(out.join("host/lib/x.so"), library()).unwrap();
    let parts = r#""host","#.repeat(15 << 20);
    fs::write(out.join(".kpackfs/split.json"), format!(r#"{{"json_version":1,"parts":[{parts}"host"]}}"#)).unwrap();
    Costly::new(out, 10, 100)
}

/// The libraries of a result for as many GPUs as a statement of 6 MB can name.
pub(super) fn collection(place: &Path, _: usize) -> Costly {
    let out = place.join("out-of-collect");
    fs::create_dir_all(out.join(".kpackfs")).unwrap();
    fs::create_dir_all(out.join("lib")).unwrap();
    fs::write(out.join("lib/x.so"), library()).unwrap();
    let gpus = r#""","#.repeat(2 << 20);
    fs::write(out.join(".kpackfs/collect.json"), format!(r#"{{"gpu_targets":[{gpus}""],"form":"thin"}}"#)).unwrap();
    Costly::new(out, 10, 100)
}

pub(super) fn manifest(place: &Path, scale: usize) -> Costly {
    let count = 50_000 * scale;
    let entry = format!(r#"["x.so#0","gfx942",1,"{}"]"#, "0".repeat(32));
    let entries = vec![entry; count].join(",");
    let file = format!(r#"{{"path":"x.kpack","size":1,"digest":"{}","entries":[{entries}]}}"#, "0".repeat(32));
    let head = r#"{"json_version":1,"split_id":"x","part":"host","digest":"xxh3-128","files":"#;
    let costly = wheel_with(place, "kpackfs-manifest.json", format!("{head}[{file}]}}").into());
    Costly { tables: costly.tables + 400 * count as u64, ..costly }
}

pub(super) fn artifact_manifest(place: &Path, _: usize) -> Costly {
    let artifact = place.join("x_lib_generic");
    fs::create_dir_all(artifact.join("a/lib")).unwrap();
    fs::write(artifact.join("a/lib/x.so"), library()).unwrap();
    let mut text = String::from("a\n");
    for number in 0..200_000 {
        writeln!(text, "{number:x}").unwrap();
    }
    fs::write(artifact.join("artifact_manifest.txt"), text).unwrap();
    Costly::new(artifact, 10, 100)
}

pub(super) fn kpm(place: &Path, scale: usize) -> Costly {
    let config = r#"{"primary_shard": "a", "architecture_groups": {"all": {"architectures": ["gfx942"]}}}"#;
    fs::write(place.join("config.json"), config).unwrap();
    let shards = place.join("shards");
    for part in ["generic", "gfx942"] {
        let part = shards.join("a").join(format!("x_lib_{part}"));
        fs::create_dir_all(part.join("stage/.kpack")).unwrap();
        fs::create_dir_all(part.join("stage/lib")).unwrap();
        fs::write(part.join("stage/lib/x.txt"), "x").unwrap();
        fs::write(part.join("artifact_manifest.txt"), "stage\n").unwrap();
    }
    let mut kpm = Kpm::new("x_lib", "stage");
    let count = 4_000 * scale;
    for number in 0..count {
        let entry = KpmEntry { file: format!("x_lib_gfx{number}.kpack"), size: 1, kernel_count: 1 };
        kpm.kpack_files.insert(format!("gfx{number}"), entry);
    }
    fs::write(shards.join("a/x_lib_gfx942/stage/.kpack/x_lib.kpm"), kpm.to_bytes()).unwrap();
    Costly::new(shards, count as u64, 40 * count as u64)
}

pub(super) fn index(place: &Path, _: usize) -> Costly {
    let tree = place.join("tree");
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("lib/x.so"), library()).unwrap();
    fs::create_dir_all(place.join("cache")).unwrap();
    let index = Index::open(&place.join("cache"), &tree);
    let zeros = vec![0; 1 << 20];
    for number in 0..40 {
        index.put(RecordKind::Plain, &Identity([number; 16]), &serde_bytes::Bytes::new(&zeros));
    }
    // Records of nothing.
    for number in 0..100_000 {
        index.put(RecordKind::Digest, &Identity::describe("none").number(number).finish(), &());
    }
    index.save().unwrap();
    Costly::new(tree, 10, 100)
}

/// Frames of one byte.
pub(super) fn segment(place: &Path, scale: usize) -> Costly {
    let costly = index(place, 1);
    let index = Index::open(&place.join("cache"), &costly.path);
    let name = index.file().unwrap().file_stem().unwrap().to_owned();
    let frames = place.join("cache/frames").join(name);
    fs::create_dir_all(&frames).unwrap();
    let mut bytes = Vec::new();
    for number in 0..20_000 * scale as u64 {
        // A header (src/index/frames/segment.rs), the sum of one block, and one byte.
        let mut fields = [number.to_le_bytes(), [1; 8]].concat();
        for field in [1_u64, 80, 81] {
            fields.extend(field.to_le_bytes());
        }
        let sum = Xxh3::of(&[&(bytes.len() as u64).to_le_bytes()[..], &fields].concat());
        bytes.extend([&b"KPFR"[..], &2_u32.to_le_bytes(), &sum, &fields, &[0; 16], b"x"].concat());
    }
    fs::write(frames.join("1.segment"), bytes).unwrap();
    costly
}

pub(super) fn catalogue(place: &Path, _: usize) -> Costly {
    let library_of = place.join("tree/lib/rocblas/library");
    fs::create_dir_all(&library_of).unwrap();
    fs::write(place.join("tree/lib/librocblas.so.5"), library()).unwrap();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let piece = vec![0x91; 1 << 20];
    (0..1 << 10).for_each(|_| encoder.write_all(&piece).unwrap());
    fs::write(library_of.join("TensileLibrary_lazy_gfx942.dat.zlib"), encoder.finish().unwrap()).unwrap();
    Costly::new(place.join("tree"), 10, 100)
}
