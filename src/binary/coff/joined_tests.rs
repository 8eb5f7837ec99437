//! Tests of split images whose device code is put back, on `win.dll` and `win.exe` of the fixtures.

use proptest::prelude::*;

use super::tests::{CHECKSUM, DEVICE, NT, SECURITY, TABLE, fixture};
use super::*;
use crate::binary::split::Problems;
use crate::binary::wrapper::FATBIN_WRAPPER_MAGIC;
use crate::binary::{FatBinary, SplitBinary, join};
use crate::rope::testing::literal;
use crate::rope::{Rope, Segment};

const SIZE_OF_IMAGE: usize = NT + 24 + 56;
const SECTIONS: usize = 8;
/// RVA after the last section.
const END: u32 = 0x13000;

fn scan(content: &Arc<dyn Content>) -> FatBinary {
    FatBinary::scan(content).unwrap().unwrap()
}

/// A fixture without device code.
fn split(name: &str) -> Vec<u8> {
    scan(&literal(fixture(name))).rewrite(b"the marker").unwrap().to_vec().unwrap()
}

/// A bundle of this length.
fn bundle(length: usize) -> Arc<dyn Content> {
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.resize(length, b'c');
    literal(&bytes)
}

fn with_code(split: &[u8], lengths: &[usize]) -> Result<Arc<dyn Content>, BinaryError> {
    let bundles: Vec<_> = lengths.iter().map(|&length| bundle(length)).collect();
    join(&literal(split), &bundles, &(0..bundles.len()).collect::<Vec<_>>())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Checks that Windows would load an image, that it has these bundles, and that it equals the split one without them.
#[track_caller]
fn check_joined(split: &[u8], joined: &Arc<dyn Content>, lengths: &[usize]) -> Vec<u8> {
    let bytes = joined.to_vec().unwrap();
    let wrappers = scan(joined).wrappers();
    for (wrapper, &length) in wrappers.iter().zip(lengths) {
        let start = usize::try_from(wrapper.bundle).unwrap();
        assert!(bytes[start..start + length] == bundle(length).to_vec().unwrap());
        assert!(wrapper.limit - wrapper.bundle >= 4096, "HIP reads 4096 bytes");
    }
    assert_eq!(wrappers.len(), lengths.len());
    let mut problems = Problems::default();
    lint::check(&PeImage::read(joined).unwrap().unwrap(), &mut problems).unwrap();
    assert_eq!(problems.into_list(), Vec::<String>::new());
    assert!(SplitBinary::read(joined).unwrap().is_none());
    for wrapper in bytes[0x1400..0x1430].chunks(24) {
        assert_eq!((u32_at(wrapper, 0), u32_at(wrapper, 4)), (FATBIN_WRAPPER_MAGIC, 1));
        assert_eq!(wrapper[16..], [0; 8], "no index");
    }
    // They differ in device code only, and splitting the joined image gives a split image again.
    assert_eq!(scan(joined).first_difference(&literal(split)).unwrap(), None);
    let again: Arc<dyn Content> = Arc::new(scan(joined).rewrite(b"the marker").unwrap());
    assert_eq!(scan(joined).first_difference(&again).unwrap(), None);
    assert_eq!(SplitBinary::read(&again).unwrap().unwrap().problems, Vec::<String>::new());
    bytes
}

#[test]
fn code_that_fits_is_where_it_was() {
    for name in ["win.dll", "win.exe"] {
        let split = split(name);
        let lengths = [0x3000, 0x2000];
        let bytes = check_joined(&split, &with_code(&split, &lengths).unwrap(), &lengths);
        // Like the fat one, apart from the bundles.
        let mut expected = fixture(name);
        expected[0x1600..0x8800].fill(0);
        let mut found = bytes.clone();
        found[0x1600..].fill(0);
        expected.truncate(0x1600 + 0x5000);
        assert_eq!(u32_at(&bytes, DEVICE + 16), 0x5000, "raw size");
        put(&mut expected, DEVICE + 16, 0x5000);
        let sizes = [NT + 24 + 8, TABLE + 7 * 40 + 20];
        for at in sizes {
            let less = u32_at(&expected, at) - 0x2200;
            put(&mut expected, at, less);
        }
        expected[0x1400..0x1430].copy_from_slice(&found[0x1400..0x1430]);
        expected.resize(found.len(), 0);
        assert!(found == expected, "{name}");
        assert_eq!(bytes[0x6600..], fixture(name)[0x8800..]);
    }
}

#[test]
fn the_section_grows_up_to_the_next_one() {
    let split = split("win.dll");
    // The next section begins 0x8000 bytes later, and the device code had 0x71b8 of them.
    for (length, is_in_place) in [(0x71b8, true), (0x8000, true), (0x8001, false)] {
        let lengths = [0x1000, length - 0x1000];
        let bytes = check_joined(&split, &with_code(&split, &lengths).unwrap(), &lengths);
        assert_eq!(u32_at(&bytes, DEVICE) == u32::from_le_bytes(*b".hip"), is_in_place, "{length:#x}");
        if is_in_place {
            assert_eq!(u32_at(&bytes, DEVICE + 8) as usize, length.max(0x71b8));
            assert_eq!(u32_at(&bytes, SIZE_OF_IMAGE), END);
        }
    }
}

#[test]
fn code_that_does_not_fit_gets_a_section() {
    let mut split = split("win.exe");
    split.extend(b"an overlay of odd length.");
    let lengths = [0x12345, 0x100];
    let joined = with_code(&split, &lengths).unwrap();
    let bytes = check_joined(&split, &joined, &lengths);
    let header = TABLE + SECTIONS * 40;
    assert_eq!(&bytes[header..header + 8], b".hip_fat");
    assert_eq!(&bytes[DEVICE..DEVICE + 8], b".kpackun");
    let [size, address, raw, offset] = [8, 12, 16, 20].map(|at| u32_at(&bytes, header + at));
    // Two bundles at page boundaries, each with 4096 readable bytes.
    assert_eq!((size, address, raw, offset), (0x14000, END, 0x14000, 0x1a00));
    assert_eq!(u32_at(&bytes, SIZE_OF_IMAGE), END + 0x14000);
    assert_eq!(u32_at(&bytes, NT + 24 + 8) - u32_at(&split, NT + 24 + 8), 0x14000);
    assert_eq!(bytes[NT + 6], 9);
    assert_eq!(bytes[0x1a00 + 0x14000..], split[0x1a00..]);
    // After another split and join, the last section may have any size.
    let again = scan(&joined).rewrite(b"the marker").unwrap().to_vec().unwrap();
    for lengths in [lengths, [0x1000, 0x20_0000]] {
        let bytes = check_joined(&again, &with_code(&again, &lengths).unwrap(), &lengths);
        assert_eq!((bytes[NT + 6], &bytes[header..header + 8]), (9, &b".hip_fat"[..]));
    }
}

#[test]
fn checksum_and_signature() {
    let mut split = split("win.dll");
    put(&mut split, CHECKSUM, 1);
    put(&mut split, SECURITY, 0x1a00);
    put(&mut split, SECURITY + 4, 64);
    split.extend([7; 64]);
    for lengths in [[0x1000, 0x1000], [0x10000, 0x1000]] {
        let joined = with_code(&split, &lengths).unwrap();
        let bytes = joined.to_vec().unwrap();
        let mut problems = Problems::default();
        lint::check(&PeImage::read(&joined).unwrap().unwrap(), &mut problems).unwrap();
        assert_eq!(problems.into_list(), Vec::<String>::new());
        assert_ne!(u32_at(&bytes, CHECKSUM), 0);
        assert_eq!(bytes[SECURITY..SECURITY + 8], [0; 8]);
        assert!(!bytes.windows(64).any(|window| window == [7; 64]));
    }
}

/// Checks that code of this size is refused for this reason.
#[track_caller]
fn refused(split: &[u8], lengths: [usize; 2], reason: &str) {
    let error = with_code(split, &lengths).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let original = split("win.dll");
    let changed = |at: usize, value: u32| {
        let mut bytes = original.clone();
        put(&mut bytes, at, value);
        bytes
    };
    let small = [0x1000, 0x1000];
    let large = [0x10000, 0x1000];
    let taken = changed(TABLE + SECTIONS * 40 + 36, 1);
    assert!(with_code(&taken, &small).is_ok());
    refused(&taken, large, "there is no place for the header of another section");
    refused(&changed(NT + 24 + 60, 0x200), large, "there is no place for the header of another section");
    refused(&changed(0x1400, FATBIN_WRAPPER_MAGIC), small, "some of its fat binary wrappers are split");
    refused(&changed(NT + 24 + 112 + 5 * 8, 0), small, "is not relocated");
    let mut signed_only = original.clone();
    signed_only[NT + 24 + 70] = 0x80;
    refused(&signed_only, small, "valid signature");
    let error = with_code(&original, &[0x1000]).unwrap_err().to_string();
    assert!(error.contains("its wrappers have changed"), "{error}");
    let zeros = |length: u64| Arc::new(Rope::new([Segment::zeros(length)]).unwrap()) as Arc<dyn Content>;
    let error = join(&literal(&original), &[zeros(1 << 31), zeros(1)], &[0, 1]).unwrap_err().to_string();
    assert!(error.contains("more than 2 GiB"), "{error}");
}

/// Any file is either refused, or becomes a fat one in which every read returns a slice of the whole.
fn survives(bytes: &[u8]) {
    for lengths in [[0x1000, 0x800], [0x9000, 0x800]] {
        let Ok(joined) = with_code(bytes, &lengths) else { continue };
        let whole = joined.to_vec().unwrap();
        let fat = scan(&joined);
        for (wrapper, length) in fat.wrappers().iter().zip(lengths) {
            let start = usize::try_from(wrapper.bundle).unwrap();
            assert!(whole[start..start + length] == bundle(length).to_vec().unwrap());
        }
    }
}

#[test]
fn every_header_field_may_be_wrong() {
    let original = split("win.exe");
    let places = (0x3c..0x40).chain(NT..TABLE + 8 * 40).chain(0xa60..0xa7c).chain(0x1400..0x1430);
    for at in places {
        for value in [0, 1, 0x1000, 0x1a00, 0x7fff_ffff, u32::MAX, u32_at(&original, at).wrapping_add(0x1000)] {
            let mut bytes = original.clone();
            put(&mut bytes, at, value);
            survives(&bytes);
        }
    }
}

proptest! {
    #[test]
    fn several_fields_may_be_wrong(
        changes in proptest::collection::vec((0_usize..0x400, prop_oneof![any::<u32>(), 0_u32..0x10000]), 1..6),
    ) {
        let mut bytes = split("win.dll");
        for (at, value) in changes {
            put(&mut bytes, at, value);
        }
        survives(&bytes);
    }
}
