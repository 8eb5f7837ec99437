use std::cell::Cell;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::resources::Resources;
use crate::rope::testing::literal;
use crate::rope::{ReadError, Rope, Segment};

/// An uncompressed bundle, with entries at multiples of 64.
fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((entries.len() as u64).to_le_bytes());
    let header = table.len() + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut payload = Vec::new();
    for (id, code) in entries {
        payload.resize((header + payload.len()).next_multiple_of(64) - header, 0);
        for field in [header + payload.len(), code.len(), id.len()] {
            table.extend((field as u64).to_le_bytes());
        }
        table.extend(id.as_bytes());
        payload.extend(*code);
    }
    table.extend(payload);
    table
}

#[derive(Clone, Copy, Debug)]
enum Packing {
    Zlib,
    Zstd,
}

/// A compressed bundle in a version of CCOB.
fn compressed(version: u16, packing: Packing, bundle: &[u8]) -> Vec<u8> {
    let (method, body) = match packing {
        Packing::Zstd => (1_u16, zstd::bulk::compress(bundle, 3).unwrap()),
        Packing::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bundle).unwrap();
            (0, encoder.finish().unwrap())
        }
    };
    let mut out = b"CCOB".to_vec();
    out.extend(version.to_le_bytes());
    out.extend(method.to_le_bytes());
    let size = bundle.len();
    match version {
        1 => out.extend(u32::try_from(size).unwrap().to_le_bytes()),
        2 => [24 + body.len(), size].iter().for_each(|&it| out.extend(u32::try_from(it).unwrap().to_le_bytes())),
        _ => [32 + body.len(), size].iter().for_each(|&it| out.extend((it as u64).to_le_bytes())),
    }
    out.extend([0xAB; 8]);
    out.extend(body);
    out
}

/// Lists the content of a bundle after 100 and before 50 other bytes.
fn read(bundle: &[u8]) -> Result<Vec<(String, Vec<u8>)>, FatbinError> {
    let bytes = [&[7; 100], bundle, &[0; 50]].concat();
    let limit = bytes.len() as u64;
    let objects = read_bundle(&literal(bytes), 100, limit, &Resources::new(1 << 20))?;
    let code = |object: &CodeObject| Ok((object.target.to_string(), object.content.to_vec()?));
    objects.iter().map(code).collect()
}

const ENTRIES: [(&str, &[u8]); 5] = [
    ("host-x86_64-unknown-linux-gnu-", b""),
    ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", b"CCOB and __CLANG_OFFLOAD_BUNDLE__ in a payload"),
    ("hip-amdgcn-amd-amdhsa--gfx11-generic", b"generic"),
    ("hip-spirv64-amd-amdhsa--amdgcnspirv", b"portable"),
    ("hcc-amdgcn-amd-amdhsa--gfx906", b""),
];

fn expected() -> Vec<(String, Vec<u8>)> {
    let names = ["gfx90a:sramecc+:xnack-", "gfx11-generic", "amdgcnspirv", "gfx906"];
    names.iter().zip(&ENTRIES[1..]).map(|(name, (_, code))| ((*name).to_owned(), code.to_vec())).collect()
}

#[test]
fn an_uncompressed_bundle() {
    assert_eq!(read(&bundle(&ENTRIES)).unwrap(), expected());
}

#[test]
fn every_kind_of_compressed_bundle() {
    for version in 1..=3 {
        for packing in [Packing::Zlib, Packing::Zstd] {
            assert_eq!(read(&compressed(version, packing, &bundle(&ENTRIES))).unwrap(), expected());
        }
    }
}

#[test]
fn a_table_longer_than_the_first_read() {
    let ids: Vec<_> = (0..60).map(|number| format!("hipv4-amdgcn-amd-amdhsa--gfx{number}:xnack+")).collect();
    let entries: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
    for bytes in [bundle(&entries), compressed(2, Packing::Zstd, &bundle(&entries))] {
        let read = read(&bytes).unwrap();
        assert_eq!(read.len(), 60);
        assert_eq!(read[59].1, ids[59].as_bytes());
    }
}

#[test]
fn listing_a_compressed_bundle_decompresses_its_table_only() {
    let code = vec![1; 1 << 20];
    let bytes = compressed(3, Packing::Zstd, &bundle(&[("hip-amdgcn-amd-amdhsa--gfx942", &code)]));
    let resources = Resources::new(8 << 20);
    let limit = bytes.len() as u64;
    let objects = read_bundle(&literal(bytes), 0, limit, &resources).unwrap();
    assert!(resources.counters.bytes_decompressed.get() <= 1024);
    let packed = objects[0].bundle.as_ref().unwrap();
    let held = packed.pin_whole().unwrap();
    objects[0].content.read_at(5, &mut [0; 10]).unwrap();
    resources.bundles.remove(&packed.id());
    objects[0].content.read_at(5, &mut [0; 10]).unwrap();
    assert!(resources.counters.bytes_decompressed.get() <= 1024 + held.len() as u64, "held, yet decompressed again");
}

#[test]
fn a_bundle_is_decompressed_as_far_as_it_is_needed() {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let code: Vec<_> = (0..2 << 20).map(|_| next()).collect();
    let original = bundle(&[("hip-amdgcn-amd-amdhsa--gfx942", &code)]);
    for packing in [Packing::Zlib, Packing::Zstd] {
        let bytes = compressed(3, packing, &original);
        let limit = bytes.len() as u64;
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2..].fill(0xff);
        for (bytes, is_damaged) in [(bytes, false), (damaged, true)] {
            let resources = Resources::new(8 << 20);
            let objects = read_bundle(&literal(bytes), 0, limit, &resources).unwrap();
            let packed = objects[0].bundle.as_ref().unwrap();
            for end in [10_000, 200_000] {
                let before = resources.counters.bytes_decompressed.get();
                let held = packed.pin(&|| end);
                let length = held.len();
                assert!(length as u64 >= end && length < 500_000, "{packing:?}: {length} for {end}");
                assert!(held[..] == original[..length]);
                assert_eq!(resources.counters.bytes_decompressed.get() - before, length as u64);
                assert!(Arc::ptr_eq(held.bytes(), packed.pin(&|| end - 1).bytes()), "decompressed again");
            }
            let whole = packed.pin_whole();
            assert_eq!(whole.as_ref().map(|whole| whole[..] == original).ok(), (!is_damaged).then_some(true));
        }
    }
}

/// Zstd goes on if more is needed by then.
#[test]
fn what_is_needed_may_grow_while_a_bundle_is_decompressed() {
    let code = vec![7; 4 << 20];
    let bytes = compressed(3, Packing::Zstd, &bundle(&[("hip-amdgcn-amd-amdhsa--gfx942", &code)]));
    let limit = bytes.len() as u64;
    let resources = Resources::new(16 << 20);
    let objects = read_bundle(&literal(bytes), 0, limit, &resources).unwrap();
    let packed = objects[0].bundle.as_ref().unwrap();
    let asked = Cell::new(0);
    let end = || {
        asked.set(asked.get() + 1);
        if asked.get() <= 2 { 1 } else { packed.size() }
    };
    assert_eq!(packed.pin(&end).len() as u64, packed.size());
}

/// A thread that decompresses may wait for the memory that the other one holds.
#[test]
fn extending_a_bundle_does_not_wait_for_another_thread() {
    let code = vec![7; 4 << 20];
    let bytes = compressed(3, Packing::Zstd, &bundle(&[("hip-amdgcn-amd-amdhsa--gfx942", &code)]));
    let limit = bytes.len() as u64;
    let objects = read_bundle(&literal(bytes), 0, limit, &Resources::new(16 << 20)).unwrap();
    let packed = objects[0].bundle.as_ref().unwrap();
    let started = Cell::new(Some(packed.pin(&|| 1)));
    assert!(started.take().map(|held| (held.can_be_extended(), started.set(Some(held)))).unwrap().0);
    let extended = Cell::new(None);
    packed.pin(&|| {
        // Called while this thread decompresses.
        if let Some(held) = started.take() {
            let (packed, (done, finished)) = (Arc::clone(packed), std::sync::mpsc::channel());
            std::thread::spawn(move || done.send(packed.extend(held, &|| packed.size())));
            extended.set(finished.recv_timeout(Duration::from_secs(300)).ok());
        }
        packed.size()
    });
    let extended = extended.take().expect("it waits");
    assert!((extended.len() as u64) < packed.size() && !extended.can_be_extended() && !extended.is_failed());
}

/// A panic in the middle of a read leaves no decoder that has decoded more than its reader has got.
#[test]
fn a_panic_leaves_no_decoder_at_a_wrong_position() {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0] & 0x3f
    };
    let code: Vec<_> = (0..2 << 20).map(|_| next()).collect();
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(17).unwrap();
    encoder.set_pledged_src_size(Some(code.len() as u64)).unwrap();
    encoder.write_all(&code).unwrap();
    let frame = encoder.finish().unwrap();
    let length = frame.len() as u64;
    // In the third block of the second half.
    let panicking =
        Arc::new(PanicsInMiddle { inner: literal(frame), at: length * 5 / 8, is_armed: AtomicBool::new(true) });
    let panicking: Arc<dyn Content> = panicking;
    let resources = Resources::new(3 << 19);
    let stored = StoredObject::frame(&panicking, 0, length, code.len() as u64, "x", &resources).unwrap();
    let read = |at: usize| {
        let mut bytes = vec![0; 1 << 20];
        stored.content().read_at(at as u64, &mut bytes).unwrap();
        assert!(bytes == code[at..][..1 << 20], "from {at} on");
    };
    read(0);
    std::panic::catch_unwind(AssertUnwindSafe(|| read(1 << 20))).unwrap_err();
    read(1 << 20);
}

/// Panics once, when the byte at a place is read.
#[derive(Debug)]
struct PanicsInMiddle {
    inner: Arc<dyn Content>,
    at: u64,
    is_armed: AtomicBool,
}

impl Content for PanicsInMiddle {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let is_read = (offset..offset + buffer.len() as u64).contains(&self.at);
        assert!(!(is_read && self.is_armed.swap(false, Ordering::SeqCst)), "on purpose");
        self.inner.read_at(offset, buffer)
    }
}

/// A runtime takes the first one; the others have names of their own.
#[test]
fn entries_for_one_target_have_different_names() {
    let id = "hipv4-amdgcn-amd-amdhsa--gfx942";
    let entries: [(&str, &[u8]); 4] = [(id, b"first"), (id, b"second"), (id, b"third"), (id, b"fourth")];
    for bytes in [bundle(&entries), compressed(3, Packing::Zstd, &bundle(&entries))] {
        let read = read(&bytes).unwrap();
        let names: Vec<_> = read.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gfx942", "unknown-gfx942", "unknown-gfx942.233", "unknown-gfx942.234"]);
        assert!(read.iter().zip(&entries).all(|((_, code), (_, expected))| code == expected));
    }
}

#[test]
fn broken_bundles_are_errors() {
    let good = bundle(&ENTRIES);
    let patched = |at: usize, value: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let field = |value: u32, at: usize| {
        let mut bytes = compressed(2, Packing::Zstd, &good);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    for (bytes, reason) in [
        (b"neither".repeat(20), "neither magic"),
        (patched(24, 4097), "4097 entries"),
        (patched(24, 100), ""),
        (patched(32, u64::MAX), "past the end"),
        (patched(40, 1 << 40), "past the end"),
        (patched(48, 5000), "5000 bytes"),
        (field(9, 4), "version 9"),
        (field(2 | 7 << 16, 4), "method 7"),
        (field(1 << 30, 8), "claims to take"),
        (field(3, 8), "claims to take"),
        (field((1 << 30) + 1, 12), "the limit is"),
        (compressed(2, Packing::Zstd, b"no bundle"), "does not begin with"),
    ] {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(reason), "{error:?} instead of {reason:?}");
    }
    // The header of the frame, and decompression if that has no size, reveals that the claimed size is wrong.
    let wrong = field(u32::try_from(good.len()).unwrap() + 1, 12);
    assert!(read(&wrong).unwrap_err().to_string().contains("its zstd frame states"));
    let mut wrong = compressed(2, Packing::Zlib, &good);
    wrong[12..16].copy_from_slice(&(u32::try_from(good.len()).unwrap() + 1).to_le_bytes());
    assert!(read(&wrong).is_err());
}

proptest! {
    #[test]
    fn nothing_panics(flips in proptest::collection::vec((0_usize..600, any::<u8>()), 1..8), version in 0_u16..4) {
        let mut bytes = match version {
            0 => bundle(&ENTRIES),
            version => compressed(version, Packing::Zstd, &bundle(&ENTRIES)),
        };
        for (at, value) in flips {
            let at = at % bytes.len();
            bytes[at] ^= value;
        }
        let _ = read(&bytes);
        let size = bytes.len() as u64;
        let _ = bundle_size(&literal(bytes), 0, size);
    }
}

/// An uncompressed bundle reduced to some GPUs, and the IDs of its entries.
fn thin(entries: &[(&str, &[u8])], gpus: &str, slot: Option<u64>) -> (ThinBundle, Vec<String>) {
    let bytes = bundle(entries);
    let size = bytes.len() as u64;
    let content = literal(bytes);
    let fat = Bundle::read(&content, 0, size, &Resources::new(1 << 20)).unwrap();
    let thin = fat.thin(&gpus.parse().unwrap(), slot.unwrap_or(size)).unwrap();
    let rope: Arc<dyn Content> = match &thin {
        ThinBundle::Raw(parts) => Arc::new(parts.rope(&content).unwrap()),
        ThinBundle::Whole { length } => {
            Arc::new(Rope::new([Segment::range(Arc::clone(&content), 0, *length).unwrap()]).unwrap())
        }
        ThinBundle::Compressed { .. } => panic!("{thin:?}"),
    };
    let read = Bundle::read(&rope, 0, rope.size(), &Resources::new(1 << 20)).unwrap();
    let ids = read.entries.iter().map(|entry| String::from_utf8(entry.id.to_vec()).unwrap());
    (thin, ids.collect())
}

const HOST: (&str, &[u8]) = ("host-x86_64-unknown-linux-gnu-", b"");

#[test]
fn a_thin_bundle_has_the_host_and_the_code_that_is_wanted() {
    let [one, other] = ["hipv4-amdgcn-amd-amdhsa--gfx1030", "hipv4-amdgcn-amd-amdhsa--gfx90a"];
    let code = [7; 5000];
    let (_, ids) = thin(&[HOST, (one, &code), (other, &code)], "gfx90a", None);
    assert_eq!(ids, [HOST.0, other]);
    // If there is no entry for the host, one is added.
    let (_, ids) = thin(&[(one, &code), (other, &code)], "gfx90a", None);
    assert!(ids.len() == 2 && ids[0].starts_with("host-") && ids[1] == other, "{ids:?}");
    // A bundle that is wanted as a whole stays unchanged, even if there is no room for more.
    for entries in [&[(other, &code[..])][..], &[HOST, (other, &code)]] {
        let size = bundle(entries).len() as u64;
        let (thin, _) = thin(entries, "gfx90a", Some(size));
        assert!(matches!(thin, ThinBundle::Whole { length } if length == size), "{thin:?}");
    }
    // No alignment, and a slot that ends with the code.
    let (tight, ids) = thin(&[(one, &code), (other, &code)], "gfx1030", Some(300 + 5000));
    assert!(matches!(&tight, ThinBundle::Raw(parts) if parts.size <= 5300), "{tight:?}");
    assert!(ids.ends_with(&[one.to_owned()]), "{ids:?}");
    let (none, ids) = thin(&[HOST, (one, &code)], "gfx942", None);
    assert_eq!(ids, [HOST.0], "{none:?}");
}

#[test]
fn an_entry_without_code_does_not_hide_what_a_runtime_would_take_instead() {
    let [native, generic] = ["hipv4-amdgcn-amd-amdhsa--gfx1100", "hipv4-amdgcn-amd-amdhsa--gfx11-generic"];
    let (_, ids) = thin(&[HOST, (native, b""), (generic, &[1; 100])], "gfx1100", None);
    assert!(ids.iter().any(|id| id == generic), "{ids:?}");
    let (_, ids) = thin(&[HOST, (native, &[2; 100]), (generic, &[1; 100])], "gfx1100", None);
    assert!(!ids.iter().any(|id| id == generic), "{ids:?}");
}
