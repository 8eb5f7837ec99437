//! A reader of fat binaries that shares no code with kpackfs: it walks `.hip_fatbin` for bundles, and counts their entries.
//!
//! It does not follow wrappers, so it is right for binaries whose bundles each have one wrapper, as those of this suite.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use object::{Object, ObjectSection};
use serde_json::Value;

use crate::common::fixture;

/// Number of code objects by target.
pub(crate) type Counts = BTreeMap<String, usize>;

/// Magic of an uncompressed bundle (clang/docs/ClangOffloadBundler.rst, "Bundled Code Object Layout").
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// Magic of a compressed one ("Compression and Decompression" there).
const COMPRESSED: &[u8] = b"CCOB";

fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
}

/// Unpacks the compressed bundle at the start of `bytes`. Also returns its length.
fn unpacked(bytes: &[u8]) -> (Vec<u8>, usize) {
    let (version, method) = (number(bytes, 4, 2), number(bytes, 6, 2));
    let (length, header) = match version {
        2 => (number(bytes, 8, 4), 24),
        3 => (number(bytes, 8, 8), 32),
        other => panic!("CCOB version {other} is not read here"),
    };
    let packed = &bytes[header..length];
    let mut bundle = Vec::new();
    match method {
        0 => flate2::read::ZlibDecoder::new(packed).read_to_end(&mut bundle).unwrap(),
        _ => zstd::Decoder::new(packed).unwrap().read_to_end(&mut bundle).unwrap(),
    };
    (bundle, length)
}

/// Adds the entries of the bundle at the start of `bytes`. Returns the end of the last one.
fn add_bundle(bytes: &[u8], counts: &mut Counts) -> usize {
    let mut at = BUNDLE.len() + 8;
    let mut end = at;
    for _ in 0..number(bytes, BUNDLE.len(), 8) {
        let [offset, size, length] = [0, 8, 16].map(|field| number(bytes, at + field, 8));
        let id = std::str::from_utf8(&bytes[at + 24..at + 24 + length]).unwrap();
        at += 24 + length;
        end = end.max(at).max(offset + size);
        // "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"; that of the host has no target.
        if let (true, Some((_, target))) = (size > 0, id.split_once("-amdgcn-amd-amdhsa--")) {
            *counts.entry(target.to_owned()).or_default() += 1;
        }
    }
    end
}

/// The code objects of a binary; none if it has no `.hip_fatbin`.
pub(crate) fn code_of_binary(bytes: &[u8]) -> Counts {
    let mut counts = Counts::new();
    let Some(section) =
        object::File::parse(bytes).ok().and_then(|file| file.section_by_name(".hip_fatbin")?.data().ok())
    else {
        return counts;
    };
    let mut at = 0;
    while let Some(bundle) = section.get(at..) {
        at += if bundle.starts_with(BUNDLE) {
            add_bundle(bundle, &mut counts)
        } else if bundle.starts_with(COMPRESSED) {
            let (unpacked, length) = unpacked(bundle);
            add_bundle(&unpacked, &mut counts);
            length
        } else {
            1
        };
    }
    counts
}

/// The target of a code object, by `EF_AMDGPU_MACH` of its header (llvm/docs/AMDGPUUsage.rst), for GPUs of this suite.
pub(crate) fn target_of_code_object(bytes: &[u8]) -> Option<&'static str> {
    match number(bytes, 48, 1) {
        0x36 => Some("gfx1030"),
        0x3f => Some("gfx90a"),
        _ => None,
    }
}

/// The code objects of each binary of a wheel, by path.
pub(crate) fn code_of_wheel(wheel: &[u8]) -> BTreeMap<String, Counts> {
    let mut zip = zip::ZipArchive::new(Cursor::new(wheel)).unwrap();
    let mut libraries = BTreeMap::new();
    for index in 0..zip.len() {
        let mut member = zip.by_index(index).unwrap();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        let counts = code_of_binary(&bytes);
        if !counts.is_empty() {
            libraries.insert(member.name().unwrap().into_owned(), counts);
        }
    }
    libraries
}

/// Compares with `expected.json`, which another independent program made.
pub(crate) fn compare_with_fixtures() {
    let expected: Value = serde_json::from_slice(&fixture("expected.json")).unwrap();
    for name in ["plain.so", "asan.so", "ccob-mixed.so", "compressed.so", "features.so", "mixed.so", "host-only.so"] {
        let mut counts = Counts::new();
        for wrapper in expected[name]["wrappers"].as_array().into_iter().flatten() {
            for (target, object) in wrapper.as_object().unwrap() {
                assert!(object["size"].as_u64() > Some(0), "{name}");
                *counts.entry(target.clone()).or_default() += 1;
            }
        }
        assert_eq!(code_of_binary(&fixture(name)), counts, "{name}");
    }
}
