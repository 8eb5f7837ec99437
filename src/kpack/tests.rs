use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::fatbin::CodeObject;
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::testing::literal;
use crate::rope::{Materialize, SizeBounds, Xxh3};

fn archive(target: &str, compression: Compression, codes: &[(&str, usize, Vec<u8>)], budget: u64) -> Arc<ArchiveRope> {
    archive_in(&Resources::new(budget), target, compression, codes)
}

fn archive_in(
    resources: &Arc<Resources>,
    target: &str,
    compression: Compression,
    codes: &[(&str, usize, Vec<u8>)],
) -> Arc<ArchiveRope> {
    let target: TargetId = target.parse().unwrap();
    let entries = codes.iter().enumerate().map(|(binary, (name, wrapper, code))| {
        let object = CodeObject::new(target.clone(), literal(code));
        let frame = Arc::new(Frame::new(object, 3, resources));
        ArchiveEntry { binary, kernel_name: (*name).into(), wrapper: Some(*wrapper), frame }
    });
    Arc::new(ArchiveRope::new("torch", target.clone(), compression, entries.collect(), &BundleJobs::new(resources)))
}

/// Whatever is compressed: what shrinks to almost nothing, and what does not shrink at all.
#[test]
fn bounds_of_a_size_hold() {
    let noise =
        |length: u32| (0..length).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[(at % 3) as usize]).collect();
    let codes: [Vec<(&str, usize, Vec<u8>)>; 5] = [
        vec![],
        vec![("a", 0, vec![])],
        vec![("a", 0, vec![7; 5 << 20]), ("b", 0, vec![0; 1])],
        vec![("a", 0, noise(300_000)), ("b", 3, noise(1))],
        vec![("a", 0, (0..70_000_u32).flat_map(|at| Xxh3::of(&at.to_le_bytes())).collect())],
    ];
    for compression in [Compression::None, Compression::default()] {
        for codes in &codes {
            let archive = archive("gfx1100", compression, codes, 1 << 24);
            let before = archive.bounds();
            let size = archive.make().unwrap().size();
            assert!(before.least <= size && size <= before.most, "{before:?} {size}");
            assert_eq!(archive.bounds(), SizeBounds::exact(size));
            assert_eq!(before.known().is_some(), compression == Compression::None || codes.is_empty());
        }
    }
}

/// A deflated file is inflated from place to place: frames in the order of the archives would go through it once for each.
#[test]
fn frames_of_several_archives_are_made_in_the_order_of_the_input() {
    let resources = Resources::new(1 << 20);
    let jobs = BundleJobs::new(&resources);
    let archive = |target: &str, number: u64| {
        let entry = |(binary, wrapper): (usize, usize)| {
            let offset = binary as u64 * 1000 + wrapper as u64 * 100 + number;
            let object = CodeObject { offset, ..CodeObject::new(target.parse().unwrap(), literal([1; 64])) };
            let frame = Arc::new(Frame::new(object, 3, &resources));
            ArchiveEntry { binary, kernel_name: "x".into(), wrapper: Some(wrapper), frame }
        };
        let entries = [(0, 0), (0, 1), (1, 0)].map(entry).into();
        ArchiveRope::new("x", target.parse().unwrap(), Compression::default(), entries, &jobs)
    };
    let archives = [archive("gfx90a", 2), archive("gfx942", 1)];
    let frames = unprepared(&[&archives[0], &archives[1]]);
    let offsets: Vec<_> = frames.iter().map(|frame| frame.object.offset).collect();
    assert_eq!(offsets, [1, 2, 101, 102, 1001, 1002]);
}

fn bytes(archive: &ArchiveRope) -> Vec<u8> {
    archive.make().unwrap().to_vec().unwrap()
}

/// A code object read by [`ArchiveReader::read`], with a budget of no bytes.
fn in_pieces(reader: &ArchiveReader, entry: &TocEntry) -> Result<Vec<u8>, KpackError> {
    let mut code = Vec::new();
    reader.read(entry, &Resources::new(0).budget, |piece| {
        assert!(!piece.is_empty() && piece.len() <= 128 << 10);
        code.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(code)
}

fn codes() -> Vec<(&'static str, usize, Vec<u8>)> {
    vec![
        ("lib/a.so", 0, b"first".repeat(1000)),
        ("lib/a.so", 2, Vec::new()),
        ("lib/b.so", 0, (0..=255).cycle().take(70_000).collect()),
    ]
}

#[test]
fn what_is_written_is_read() {
    for compression in [Compression::None, Compression::default(), Compression::Zstd(19)] {
        let archive = archive("gfx90a:xnack+", compression, &codes(), 1 << 20);
        let reader = ArchiveReader::open(literal(bytes(&archive))).unwrap();
        assert_eq!(reader.toc().gfx_arches, ["gfx90a:xnack+"]);
        assert_eq!(reader.toc().group_name, "torch");
        for (name, wrapper, code) in codes() {
            let key = toc_key(name, wrapper);
            assert_eq!(reader.get(&key, "gfx90a:xnack+").unwrap().as_ref(), Some(&code));
            assert_eq!(in_pieces(&reader, &reader.whole_toc().unwrap().toc[&key]["gfx90a:xnack+"]).unwrap(), code);
        }
        assert_eq!(reader.get("lib/a.so#1", "gfx90a:xnack+").unwrap(), None);
        assert_eq!(reader.get("lib/a.so#0", "gfx90a").unwrap(), None);
    }
}

/// The layout in bytes, as in other implementations.
#[test]
fn the_layout_is_that_of_rocm_kpack() {
    let one = vec![("x", 0, b"code".to_vec())];
    let plain = bytes(&archive("gfx942", Compression::None, &one, 1 << 20));
    assert_eq!(&plain[..8], b"KPAK\x01\0\0\0");
    assert_eq!(u64::from_le_bytes(plain[8..16].try_into().unwrap()), 68);
    assert_eq!(&plain[64..68], b"code");
    assert_eq!(plain[68] & 0xF0, 0x80, "a MessagePack map");
    let packed = bytes(&archive("gfx942", Compression::default(), &one, 1 << 20));
    assert_eq!(u32::from_le_bytes(packed[64..68].try_into().unwrap()), 1);
    let length = u32::from_le_bytes(packed[68..72].try_into().unwrap()) as usize;
    assert_eq!(zstd::bulk::decompress(&packed[72..72 + length], 100).unwrap(), b"code");
    assert_eq!(packed[72 + length] & 0xF0, 0x80, "a MessagePack map");
    let toc = ArchiveReader::open(literal(&packed)).unwrap().whole_toc().unwrap();
    assert_eq!((toc.zstd_offset, toc.zstd_size), (Some(64), Some(8 + length as u64)));
}

#[test]
fn one_thread_and_many_and_no_cache_make_the_same_bytes() {
    let codes: Vec<_> = (0..40).map(|number| ("lib/x.so", number, vec![7; 1000 + number])).collect();
    let make = |threads: usize, budget: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| bytes(&archive("gfx942", Compression::default(), &codes, budget)))
    };
    let expected = make(1, 1 << 20);
    assert_eq!(make(4, 1 << 20), expected);
    assert_eq!(make(2, 0), expected);
}

#[test]
fn nothing_is_made_before_it_is_asked_for() {
    let packed = archive("gfx942", Compression::default(), &codes(), 1 << 20);
    assert!(packed.made().is_none());
    let size = packed.make().unwrap().size();
    assert_eq!(packed.made().unwrap().size(), size);
    assert!(archive("gfx942", Compression::None, &codes(), 1 << 20).made().is_some());
}

#[test]
fn broken_archives_are_errors() {
    let good = bytes(&archive("gfx942", Compression::default(), &codes(), 1 << 20));
    let patched = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    for bytes in [
        Vec::new(),
        good[..63].to_vec(),
        patched(0, b"KPAX"),
        patched(4, &[2]),
        patched(8, &u64::MAX.to_le_bytes()),
        patched(8, &(good.len() as u64).to_le_bytes()),
        patched(8, &[0; 8]),
        patched(64, &[0xFF; 4]),
        patched(68, &[0xFF; 4]),
    ] {
        assert!(ArchiveReader::open(literal(&bytes)).is_err());
    }
}

/// zstd's own functions, and loaders, decode several frames to their concatenation and ignore skippable frames.
#[test]
fn frames_of_others_are_read_in_pieces_as_loaders_read_them() {
    let code = b"some code ".repeat(50_000);
    let frame = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    let skippable = [&0x184D_2A50_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"notes"].concat();
    let whole = frame(&code);
    let two = [&frame(&code[..9])[..], &skippable, &frame(&code[9..])].concat();
    let unsized_frame = zstd::stream::encode_all(&code[..], 3).unwrap();
    let damaged = [&whole[..whole.len() / 2], &[0; 40]].concat();
    let cases = [
        (&whole, code.len(), true),
        (&two, code.len(), true),
        (&unsized_frame, code.len(), true),
        (&whole, code.len() - 1, false),
        (&whole, code.len() + 1, false),
        (&two, 9, false),
        (&damaged, code.len(), false),
        (&skippable, code.len(), false),
    ];
    for (number, (stored, size, is_right)) in cases.into_iter().enumerate() {
        let reader = ArchiveReader::open(literal(archive_of(stored, size))).unwrap();
        let (key, target, entry) = reader.entries().next().unwrap();
        let loaded = reader.get(key, target);
        assert_eq!(loaded.is_ok(), is_right, "{number}: {loaded:?}");
        let read = in_pieces(&reader, entry);
        assert_eq!(read.is_ok(), is_right, "{number}: {read:?}");
        assert!(!is_right || read.unwrap() == code);
    }
}

/// An archive with one stored code object of `size` bytes according to its table of contents.
fn archive_of(stored: &[u8], size: usize) -> Vec<u8> {
    let stored_size = u32::try_from(stored.len()).unwrap();
    let region = [&1_u32.to_le_bytes()[..], &stored_size.to_le_bytes(), stored].concat();
    let entry = TocEntry { kind: "hsaco".to_owned(), ordinal: 0, original_size: size as u64 };
    let toc = Toc {
        format_version: 1,
        group_name: "x".to_owned(),
        gfx_arch_family: "gfx942".to_owned(),
        gfx_arches: vec!["gfx942".to_owned()],
        compression_scheme: "zstd-per-kernel".to_owned(),
        zstd_offset: Some(64),
        zstd_size: Some(region.len() as u64),
        blobs: None,
        toc: [("x#0".to_owned(), [("gfx942".to_owned(), entry)].into())].into(),
    };
    let header = rocm_kpack::header(64 + region.len() as u64);
    [&header[..], &region, &rmp_serde::to_vec_named(&toc).unwrap()].concat()
}

proptest! {
    #[test]
    fn nothing_panics(flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), compressed: bool) {
        let compression = if compressed { Compression::default() } else { Compression::None };
        let mut bytes = bytes(&archive("gfx942", compression, &codes(), 1 << 20));
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        if let Ok(reader) = ArchiveReader::open(literal(&bytes)) {
            for (_, _, entry) in reader.entries() {
                let _ = in_pieces(&reader, entry);
            }
        }
    }
}
