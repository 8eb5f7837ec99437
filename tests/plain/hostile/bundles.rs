//! Offload bundles, malformed in every way.

use std::io::Write;
use std::sync::Arc;

use kpackfs::fatbin::{Bundle, read_bundle};
use kpackfs::rope::{Content, Rope, Segment};

use crate::hostile::Kind;
use crate::hostile::plain_bundle::plain;
use crate::hostile::support::resources;

/// A compressed bundle (versions 2 and 3 of CCOB; methods 0 zlib and 1 zstd) that claims to hold `size` bytes.
fn compressed(version: u16, method: u16, body: &[u8], size: u64) -> Vec<u8> {
    let mut out = [b"CCOB", &version.to_le_bytes()[..], &method.to_le_bytes()].concat();
    let total = if version == 3 { 32 } else { 24 } + body.len() as u64;
    let width = if version == 3 { 8 } else { 4 };
    out.extend([total, size].into_iter().flat_map(|field| field.to_le_bytes().into_iter().take(width)));
    out.extend([0xAB; 8]);
    out.extend(body);
    out
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

/// A frame that does not declare its size and needs a window of 2 GiB (RFC 8878, 3.1.1.1).
fn wide(bytes: &[u8]) -> Vec<u8> {
    let header = u32::try_from(bytes.len() << 3 | 1).unwrap().to_le_bytes();
    [&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xA8], &header[..3], bytes].concat()
}

const ENTRIES: [(&str, &[u8]); 3] = [
    ("host-x86_64-unknown-linux-gnu-", b""),
    ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"the first code object"),
    ("hip-amdgcn-amd-amdhsa-gfx906", b"the second"),
];

fn set(mut bytes: Vec<u8>, at: usize, value: u64) -> Vec<u8> {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// Name, bytes, and a part of the refusal.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = plain(&ENTRIES);
    let size = good.len() as u64;
    let nested = compressed(2, 1, &zstd(&good), size);
    // A table with many entries, each of which spans the whole bundle.
    let many: Vec<String> = (0..100).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let mut bomb = plain(&many.iter().map(|id| (id.as_str(), &b""[..])).collect::<Vec<_>>());
    bomb.extend(vec![0; 2000]);
    let (length, mut at) = (bomb.len() as u64, 32);
    for id in &many {
        bomb = set(set(bomb, at, 0), at + 8, length);
        at += 24 + id.len();
    }
    vec![
        ("empty", Vec::new(), "neither magic"),
        ("half a magic", good[..20].to_vec(), "neither magic"),
        ("a magic only", good[..24].to_vec(), "truncated"),
        ("too many entries", set(good.clone(), 24, 5000), "5000 entries"),
        ("all entries there are", set(good.clone(), 24, u64::MAX), "entries"),
        ("a table without an end", set(good.clone(), 24, 4000), "entry id"),
        ("an id without an end", set(good.clone(), 48, 1024), "truncated"),
        ("an id of all there is", set(good.clone(), 48, u64::MAX), "entry id"),
        ("an entry past the end", set(good.clone(), 32, size + 1), "past the end"),
        ("an entry past all numbers", set(set(good.clone(), 32, u64::MAX), 40, 2), "past the end"),
        ("entries that overlap", bomb.clone(), "overlap"),
        ("entries that overlap, compressed", compressed(2, 1, &zstd(&bomb), length), "overlap"),
        ("CCOB truncated", compressed(2, 1, b"", 9)[..14].to_vec(), "truncated"),
        ("CCOB of version 4", compressed(4, 1, &zstd(&good), size), "version 4"),
        ("CCOB of method 2", compressed(2, 2, &zstd(&good), size), "method 2"),
        ("CCOB shorter than its header", set(compressed(3, 1, &zstd(&good), size), 8, 31), "claims to take"),
        ("CCOB longer than the file", set(compressed(3, 1, &zstd(&good), size), 8, u64::MAX), "claims to take"),
        ("CCOB of 1 GB by zlib", compressed(2, 0, &zlib(&good), 1 << 30), "cannot hold"),
        ("CCOB of 1 GB by zstd", compressed(3, 1, &zstd(&good), 1 << 30), "cannot hold"),
        ("CCOB of 1 TB", compressed(3, 1, &zstd(&good), 1 << 40), "the limit is"),
        ("CCOB without a frame", compressed(2, 1, &[7; 100], size), "offload bundle"),
        ("CCOB without a stream", compressed(2, 0, &[7; 100], size), "offload bundle"),
        ("CCOB in CCOB", compressed(2, 1, &zstd(&nested), nested.len() as u64), "does not begin"),
        ("more than it claims, by zstd", compressed(2, 1, &zstd(&[&*good, &[0; 60_000]].concat()), size), "states"),
        ("less than it claims, by zstd", compressed(2, 1, &zstd(&good), size + 9), "states"),
        ("half a frame", compressed(2, 1, &zstd(&good)[..60], size), "offload bundle"),
        ("a window of 2 GB", compressed(2, 1, &wide(&good), size), "offload bundle"),
    ]
}

/// Bundles that can be planned, though reading may fail.
fn accepted() -> Vec<Kind> {
    let good = plain(&ENTRIES);
    let size = good.len() as u64;
    let nothing = vec![0; 60_000];
    let bomb = [plain(&ENTRIES), vec![0; 3 << 20]].concat();
    vec![
        ("good", good.clone()),
        ("good by zstd", compressed(2, 1, &zstd(&good), size)),
        ("good by zlib", compressed(3, 0, &zlib(&good), size)),
        ("no entries", plain(&[])),
        ("ids of all kinds", plain(&[("", b"1"), ("hip-", b"2"), ("--", b"3"), ("x--gfx/..", b"4"), ("-gfx", b"5")])),
        ("twice the same target", plain(&[ENTRIES[1], ENTRIES[1]])),
        ("more than it claims, by zlib", compressed(2, 0, &zlib(&[&*good, &*nothing].concat()), size)),
        ("3 MB of zeros", compressed(3, 1, &zstd(&bomb), bomb.len() as u64)),
    ]
}

pub(crate) fn kinds() -> Vec<Kind> {
    refused().into_iter().map(|(kind, bytes, _)| (kind, bytes)).chain(accepted()).collect()
}

fn content(bytes: Vec<u8>) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes)]).unwrap())
}

#[test]
fn what_is_no_bundle_is_refused_with_a_reason() {
    for (kind, bytes, reason) in refused() {
        let size = bytes.len() as u64;
        let error = read_bundle(&content(bytes), 0, size, &resources()).expect_err(kind).to_string();
        assert!(error.contains(reason), "{kind}: {error}");
    }
    for (kind, bytes) in accepted() {
        let size = bytes.len() as u64;
        read_bundle(&content(bytes), 0, size, &resources()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

/// An index can be false. What it says about a bundle is checked before memory is allocated for it.
#[test]
fn a_bundle_that_is_remembered_wrongly_is_refused() {
    let bytes = compressed(2, 1, &zstd(&plain(&ENTRIES)), plain(&ENTRIES).len() as u64);
    let (size, content) = (bytes.len() as u64, content(bytes));
    let bundle = Bundle::read(&content, 0, size, &resources()).unwrap();
    let remembered = rmp_serde::to_vec(&bundle).unwrap();
    let mut refused = 0;
    for at in 0..remembered.len() {
        for value in [0x7F, 0xC0, 0xCF, 0xFF] {
            let mut changed = remembered.clone();
            changed[at] = value;
            let Ok(bundle) = rmp_serde::from_slice::<Bundle>(&changed) else { continue };
            match bundle.objects(&content, &resources()) {
                Err(_) => refused += 1,
                Ok(objects) => objects.iter().filter(|object| object.content.size() < 1 << 20).for_each(|object| {
                    drop(object.content.to_vec());
                }),
            }
        }
    }
    assert!(refused > 0);
}
