//! Tests on `win.dll` and `win.exe` of the fixtures, with and without changed bytes. Their layout: `e_lfanew` 0x78,
//! section table 0x180 (entry 6 is `.hip_fat`, 7 is `.reloc`), wrappers at 0x1400, device code from 0x1600 to 0x8800 at
//! RVA 0xa000, relocations from 0x8800 to the end at 0x8a00.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::binary::FatBinary;
use crate::binary::wrapper::HIPK_MAGIC;
use crate::fatbin::read_bundle;
use crate::resources::Resources;
use crate::rope::testing::literal;

pub(super) const NT: usize = 0x78;
pub(super) const CHECKSUM: usize = NT + 24 + 64;
pub(super) const SECURITY: usize = NT + 24 + 112 + 4 * 8;
pub(super) const TABLE: usize = 0x180;
/// The section header of `.hip_fat`, or of the marker.
pub(super) const DEVICE: usize = TABLE + 6 * 40;
const RELOC: usize = TABLE + 7 * 40;
const BASE: u64 = 0x1_8000_0000;
/// Bytes that are removed with a marker of up to 512 bytes.
const CUT: usize = 0x7000;
const MARKER: &[u8] = b"the marker";

pub(super) fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

fn scan(bytes: &[u8]) -> Result<Option<FatBinary>, BinaryError> {
    FatBinary::scan(&literal(bytes))
}

fn rewrite(bytes: &[u8]) -> Result<Vec<u8>, BinaryError> {
    Ok(scan(bytes)?.unwrap().rewrite(MARKER)?.to_vec().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// `win.dll` with a 32-bit field changed.
fn with(at: usize, value: u32) -> Vec<u8> {
    let mut bytes = fixture("win.dll");
    put(&mut bytes, at, value);
    bytes
}

/// Checks that a file is refused for this reason.
#[track_caller]
fn refused(bytes: &[u8], reason: &str) {
    let error = rewrite(bytes).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn wrappers_lead_to_the_expected_code() {
    let expected: serde_json::Value = serde_json::from_slice(&fixture("expected.json")).unwrap();
    for name in ["win.dll", "win.exe"] {
        let content = literal(fixture(name));
        let wrappers = FatBinary::scan(&content).unwrap().unwrap().wrappers();
        let expected = expected[name]["wrappers"].as_array().unwrap();
        assert_eq!(wrappers.len(), expected.len());
        for (unit, (wrapper, expected)) in wrappers.iter().zip(expected).enumerate() {
            let objects = read_bundle(&content, wrapper.bundle, wrapper.limit, &Resources::new(1 << 20)).unwrap();
            assert_eq!(objects.len(), expected.as_object().unwrap().len());
            for object in objects {
                assert_eq!(object.content.size(), expected[object.target.to_string()]["size"].as_u64().unwrap());
                let code = object.content.to_vec().unwrap();
                let text = format!("unit {unit} of a kpackfs fixture");
                assert!(code.windows(text.len()).any(|window| window == text.as_bytes()));
            }
        }
    }
}

#[test]
fn everything_but_the_device_code_stays() {
    for name in ["win.dll", "win.exe"] {
        let old = fixture(name);
        let new = rewrite(&old).unwrap();
        assert_eq!(new.len(), old.len() - CUT);
        // Of the headers, only the size of initialized data, the section and what follows it differ.
        let mut headers = old[..0x1400].to_vec();
        put(&mut headers, NT + 24 + 8, u32_at(&old, NT + 24 + 8) - u32::try_from(CUT).unwrap());
        headers[DEVICE..DEVICE + 8].copy_from_slice(b".kpackrf");
        put(&mut headers, DEVICE + 16, 0x200);
        put(&mut headers, RELOC + 20, 0x1800);
        assert_eq!(new[..0x1400], headers);
        for (index, wrapper) in new[0x1400..0x1430].chunks(24).enumerate() {
            assert_eq!(u64_at(wrapper, 0), u64::from(HIPK_MAGIC) | 1 << 32);
            assert_eq!(u64_at(wrapper, 8), u64_at(&old, NT + 24 + 24) + 0xa000);
            assert_eq!(u64_at(wrapper, 16), index as u64);
        }
        assert_eq!(new[0x1430..0x1600], old[0x1430..0x1600]);
        assert_eq!(&new[0x1600..0x1600 + MARKER.len()], MARKER);
        assert!(new[0x1600 + MARKER.len()..0x1800].iter().all(|&byte| byte == 0));
        assert_eq!(new[0x1800..], old[0x8800..]);
        assert!(scan(&new).unwrap().is_none());
    }
}

#[test]
fn markers_of_any_length() {
    let bytes = fixture("win.dll");
    let fat = scan(&bytes).unwrap().unwrap();
    for (marker, cut) in [(0, 0x7200), (512, 0x7000), (513, 0x6e00), (0x7000, 0x200), (0x7001, 0), (0x71b8, 0)] {
        let new = fat.rewrite(&vec![b'm'; marker]).unwrap().to_vec().unwrap();
        assert_eq!(new.len(), bytes.len() - cut);
        assert_eq!(u32_at(&new, DEVICE + 8), 0x71b8);
        assert_eq!(u32_at(&new, DEVICE + 16) as usize, 0x7200 - cut);
        assert_eq!(new[0x8800 - cut..], bytes[0x8800..]);
        assert!(new[0x1600 + marker..0x8800 - cut].iter().all(|&byte| byte == 0));
        assert!(scan(&new).unwrap().is_none());
    }
    assert!(fat.rewrite(&vec![b'm'; 0x71b9]).is_err());
}

#[test]
fn what_follows_stays_aligned_if_the_section_is_not() {
    let bytes = with(NT + 24 + 36, 4096);
    let new = rewrite(&bytes).unwrap();
    assert_eq!(new.len(), bytes.len() - 0x6000);
    assert_eq!((u32_at(&new, DEVICE + 16), u32_at(&new, RELOC + 20)), (0x1200, 0x2800));
    assert!(new[0x1600 + MARKER.len()..0x2800].iter().all(|&byte| byte == 0));
    assert_eq!(new[0x2800..], bytes[0x8800..]);
}

#[test]
fn memory_larger_than_the_file_or_unknown() {
    let new = rewrite(&with(DEVICE + 8, 0x8000)).unwrap();
    assert_eq!((u32_at(&new, DEVICE + 8), u32_at(&new, DEVICE + 16)), (0x8000, 0x200));
    // Old linkers leave VirtualSize 0. Then the size in the file counts, which must not change the addresses.
    let new = rewrite(&with(DEVICE + 8, 0)).unwrap();
    assert_eq!((u32_at(&new, DEVICE + 8), u32_at(&new, DEVICE + 16)), (0x7200, 0x200));
    // Without bytes in the file there is no device code to point at.
    refused(&with(DEVICE + 16, 0), "no .hip_fat section");
}

#[test]
fn the_marker_is_not_writable() {
    let new = rewrite(&with(DEVICE + 36, 0xC000_0040)).unwrap();
    assert_eq!(u32_at(&new, DEVICE + 36), 0x4000_0040);
}

#[test]
fn file_offsets_behind_the_device_code_move() {
    let mut bytes = fixture("win.dll");
    bytes.extend(b"symbols, debug data, and whatever else");
    put(&mut bytes, NT + 12, 0x8a00);
    put(&mut bytes, RELOC + 24, 0x8a02);
    put(&mut bytes, RELOC + 28, 0x0a00);
    put(&mut bytes, 0xa60 + 24, 0x8a09);
    let new = rewrite(&bytes).unwrap();
    assert_eq!(new[0x1a00..], bytes[0x8a00..]);
    let moved = [NT + 12, RELOC + 24, RELOC + 28, 0xa60 + 24].map(|at| u32_at(&new, at));
    assert_eq!(moved, [0x1a00, 0x1a02, 0x0a00, 0x1a09]);
    for at in [NT + 12, RELOC + 24, 0xa60 + 24] {
        refused(&with(at, 0x1600), "offset 0x1600");
        refused(&with(at, 0x87ff), "offset 0x87ff");
    }
}

#[test]
fn a_signature_is_dropped() {
    let mut bytes = fixture("win.dll");
    bytes.extend([7; 64]);
    put(&mut bytes, SECURITY, 0x8a00);
    put(&mut bytes, SECURITY + 4, 64);
    let new = rewrite(&bytes).unwrap();
    assert_eq!((u64_at(&new, SECURITY), new.len()), (0, 0x1a00));
    bytes.extend(b"overlay");
    let new = rewrite(&bytes).unwrap();
    assert_eq!(u64_at(&new, SECURITY), 0);
    assert_eq!(new[0x1a00..], bytes[0x8a00..]);
    refused(&with(NT + 24 + 70, 0x80), "valid signature");
}

/// The checksum as `CheckSumMappedFile` computes it, folding after each word.
fn checksum(bytes: &[u8]) -> u32 {
    let mut bytes = bytes.to_vec();
    let size = u32::try_from(bytes.len()).unwrap();
    put(&mut bytes, CHECKSUM, 0);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) | u32::from(word[1]) << 8);
    size + words.fold(0, |sum, word| ((sum + word) & 0xffff) + ((sum + word) >> 16))
}

#[test]
fn a_checksum_is_made_if_there_was_one() {
    for overlay in [&b""[..], b"odd"] {
        let mut bytes = with(CHECKSUM, 0xdead);
        bytes.extend(overlay);
        let rope = scan(&bytes).unwrap().unwrap().rewrite(MARKER).unwrap();
        assert!(!rope.is_nonblocking(CHECKSUM as u64, 1));
        let mut piece = [0; 2];
        rope.read_at(CHECKSUM as u64 + 1, &mut piece).unwrap();
        assert!(rope.is_nonblocking(CHECKSUM as u64, 1));
        let new = rope.to_vec().unwrap();
        assert_eq!(u32_at(&new, CHECKSUM), checksum(&new));
        assert_eq!(piece, new[CHECKSUM + 1..CHECKSUM + 3]);
    }
    // Computed by hand: words 0x0201, 0x0403 and 0x0005, and a length of 5; then one with a carry.
    let sum = |bytes: &[u8]| checksum::compute(&*literal(bytes)).unwrap();
    assert_eq!(sum(&[1, 2, 3, 4, 5]), 0x0609 + 5);
    assert_eq!(sum(&[0xff, 0xff, 2, 0]), 2 + 4);
    assert_eq!(sum(&[]), 0);
}

#[test]
fn pointers_of_others_are_refused() {
    let mut bytes = fixture("win.dll");
    // The relocated pointer at RVA 0x2030.
    bytes[0xa30..0xa38].copy_from_slice(&(BASE + 0xa010).to_le_bytes());
    refused(&bytes, "address 0x2030 leads into the device code at 0x18000a010");
    bytes[0xa30..0xa38].copy_from_slice(&(BASE + 0xa000 + 0x71b8).to_le_bytes());
    assert!(rewrite(&bytes).is_ok());
    refused(&with(0x8800, 0xa000), "inside the device code, at 0xa000");
    refused(&with(0x8800, 0x20_0000), "is not loaded");
    refused(&with(NT + 24 + 112, 0xb000), "data directory 0");
}

#[test]
fn wrapper_pointers_are_relocated_once() {
    let page = |entries: u32| with(0x8820, entries);
    refused(&page(0xa020_0000), "0x9008 is not relocated");
    refused(&page(0xa020_3008), "0x9008 is not relocated");
    refused(&page(0xa010_a008), "0x9020 is not relocated");
    refused(&page(0xa020_1008), "type 1");
    refused(&with(0x8810, 0x9000), "impossible size");
    refused(&with(0x881c, 0), "impossible size");
    // The same page twice: this one replaces the page of .CRT.
    let mut bytes = with(0x880c, 0x9000);
    put(&mut bytes, 0x8814, 0xa020_a008);
    refused(&bytes, "not those of their pointers");
    // An executable that is loaded at its linked base has none.
    let mut bytes = fixture("win.exe");
    put(&mut bytes, NT + 24 + 112 + 5 * 8, 0);
    refused(&bytes, "0x9008 is not relocated");
    bytes[NT + 22] |= 1;
    assert!(rewrite(&bytes).is_ok());
}

#[test]
fn other_wrappers() {
    refused(&with(0x1400, 0x1234), "no fat binary wrapper at 0x1400");
    refused(&with(0x1400, HIPK_MAGIC), "some of its fat binary wrappers are split");
    refused(&with(0x1408, 0x8001_2000), "outside of the .hip_fat section");
    refused(&with(DEVICE, u32::from_le_bytes(*b".xxx")), "no .hip_fat section");
    refused(&with(TABLE + 5 * 40, u32::from_le_bytes(*b".xxx")), "no fat binary wrappers");
    let mut bytes = fixture("win.dll");
    bytes.copy_within(DEVICE..DEVICE + 8, TABLE);
    refused(&bytes, "more than one .hip_fat section");
}

#[test]
fn other_images() {
    let mut bytes = fixture("win.dll");
    bytes[NT + 4..NT + 6].copy_from_slice(&0xaa64_u16.to_le_bytes());
    assert!(rewrite(&bytes).is_ok());
    bytes[NT + 4..NT + 6].copy_from_slice(&0x01c4_u16.to_le_bytes());
    refused(&bytes, "machine");
    for (at, value) in [(0x3c, 0xffff_fff0), (0x3c, 0x89ff), (NT, 0), (NT + 24, 0x010b), (NT + 22, 0)] {
        assert!(scan(&with(at, value)).unwrap().is_none());
    }
    let mut bytes = with(DEVICE, 0);
    put(&mut bytes, TABLE + 5 * 40, 0);
    assert!(scan(&bytes).unwrap().is_none());
    for length in [0, 1, 2, 63, 64, NT + 23, NT + 135] {
        assert!(scan(&fixture("win.dll")[..length]).unwrap().is_none());
    }
    assert!(scan(&fixture("win.dll")[..TABLE + 100]).is_err());
}

/// Any file is either refused, or becomes one in which every read returns a slice of the whole.
fn survives(bytes: &[u8], start: usize, end: usize) {
    let Ok(Some(fat)) = scan(bytes) else { return };
    let Ok(rope) = fat.rewrite(MARKER) else { return };
    let whole = rope.to_vec().unwrap();
    assert_eq!(whole.len() as u64, rope.size());
    assert!(whole.len() <= bytes.len());
    let (start, end) = (start.min(end).min(whole.len()), start.max(end).min(whole.len()));
    let mut piece = vec![0xAA; end - start];
    rope.read_at(start as u64, &mut piece).unwrap();
    assert_eq!(piece, whole[start..end]);
    assert!(!matches!(scan(&whole), Ok(Some(_))));
}

#[test]
fn every_header_field_may_be_wrong() {
    let original = fixture("win.dll");
    let places = (0x3c..0x40).chain(NT..TABLE + 8 * 40).chain(0xa60..0xa7c).chain(0x1400..0x1430);
    for at in places.chain(0x8800..0x8824) {
        for value in [0, 1, 0x1000, 0x8a00, 0x7fff_ffff, u32::MAX, u32_at(&original, at).wrapping_add(0x1000)] {
            survives(&with(at, value), at, 0x1700);
        }
    }
}

proptest! {
    #[test]
    fn several_fields_may_be_wrong(
        changes in proptest::collection::vec((0_usize..0x400, prop_oneof![any::<u32>(), 0_u32..0x10000]), 1..6),
        start in 0_usize..0x8a00,
        end in 0_usize..0x8a00,
    ) {
        let mut bytes = fixture("win.exe");
        for (at, value) in changes {
            put(&mut bytes, at, value);
        }
        survives(&bytes, start, end);
    }
}
