//! Files with device code in forms that no wrapper leads to, malformed in every way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kpackfs::binary::FileCode;
use kpackfs::resources::Resources;
use kpackfs::rope::Content;

use super::Kind;
use super::plain_bundle::plain;
use super::support::Watched;
use crate::common::gzip;

/// A code object for gfx942 that claims to end at `end`.
fn code_object(end: u64) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\x40\x02".to_vec();
    bytes.resize(256, 0);
    bytes[16..20].copy_from_slice(&[3, 0, 224, 0]);
    bytes[40..48].copy_from_slice(&end.to_le_bytes());
    bytes[48] = 0x4c;
    bytes
}

/// An offload binary (LLVM's `OffloadBinary.h`) with these fields in its header, and an entry with these ones.
fn offload(version: u32, header: &[u64], entry: [u64; 4], rest: &[u8]) -> Vec<u8> {
    let mut bytes = [&b"\x10\xff\x10\xad"[..], &version.to_le_bytes()].concat();
    header.iter().chain(&[2 << 16]).chain(&entry).for_each(|field| bytes.extend(field.to_le_bytes()));
    [&bytes[..], rest].concat()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 19).unwrap()
}

/// A static library, all of which is searched.
fn library(bytes: &[u8]) -> Vec<u8> {
    [b"!<arch>\n", bytes].concat()
}

/// All inputs.
pub(crate) fn kinds() -> Vec<Kind> {
    let strings = b"triple\0amdgcn\0arch\0gfx942\0";
    // A block that repeats a byte for 128 KiB (RFC 8878, 3.1.1.2), and one that is not the last.
    let (block, open) = (b"\x28\xb5\x2f\xfd\x00\x58\x03\x00\x10\x00", b"\x28\xb5\x2f\xfd\x00\x58\x02\x00\x10\x00");
    // The header of a frame without a block. Zeros behind it are blocks that are empty.
    let empty = b"\x28\xb5\x2f\xfd\x00\x58";
    let ccob = [&b"CCOB\x03\0\x01\0"[..], &(1_u64 << 39).to_le_bytes(), &[1; 16], empty].concat();
    let packed = zstd(&vec![0; 1 << 20]);
    let nested = (0..8).fold(code_object(256), |bytes, round| if round % 2 == 0 { gzip(&bytes) } else { zstd(&bytes) });
    let bundle = plain(&[("hip-amdgcn-amd-amdhsa--gfx942", b"some code")]);
    let mut image = code_object(256);
    image[18] = 62;
    vec![
        ("a code object", code_object(192)),
        ("a code object past the end", code_object(1 << 40)),
        ("a code object past all ends", code_object(u64::MAX)),
        ("code objects in each other", library(&code_object(4000).repeat(40))),
        ("bundles in a library", library(&bundle.repeat(100))),
        ("an offload binary", offload(1, &[124, 32, 40], [72, 2, 0, 8], strings)),
        ("an offload binary of version 9", offload(9, &[124, 32, 1], [72, 2, 0, 8], strings)),
        ("an offload binary of 2 to the 64 bytes", offload(2, &[u64::MAX, 32, 1], [72, 2, 0, 8], strings)),
        ("an offload binary with 4096 entries", library(&offload(2, &[98, 32, 4096], [72, 2, 0, 8], strings))),
        ("an offload binary with strings elsewhere", offload(2, &[98, 32, 1], [u64::MAX, u64::MAX, 0, 8], strings)),
        (
            "an offload binary that is its own string",
            library(&offload(2, &[98, 32, 1], [0, 4, 0, 8], strings).repeat(90)),
        ),
        ("an offload binary of 1 TB", offload(3, &[98, 40, 1, 1 << 40], [72, 2, 0, 8], &packed)),
        ("an offload binary of zeros", offload(3, &[72 + packed.len() as u64, 72, 1, 1 << 20], [0; 4], &packed)),
        ("zstd of a code object", zstd(&code_object(192))),
        ("gzip of a code object", library(&gzip(&code_object(192)).repeat(20))),
        ("eight frames", nested.clone()),
        ("eight frames in a library", library(&nested)),
        ("frames of 128 KiB", library(&block.repeat(2000))),
        ("frames without an end", library(&open.repeat(2000))),
        ("frames of 128 KiB in gzip", gzip(&block.repeat(100_000))),
        ("a frame of empty blocks in gzip", gzip(empty)),
        ("a compressed bundle of empty blocks in gzip", gzip(&ccob)),
        ("an offload binary of empty blocks in gzip", gzip(&offload(3, &[1 << 39, 72, 1, 1 << 20], [0; 4], empty))),
        ("a bomb", library(&gzip(&zstd(&vec![0; 64 << 20])))),
        (
            "magics",
            library(&b"\x28\xb5\x2f\xfd\x1f\x8b\x08\0\x10\xff\x10\xad\x7fELFCCOB__CLANG_OFFLOAD_BUNDLE__".repeat(400)),
        ),
        ("a program without sections", image),
        ("a packed program", [&b"\x7fELF\x02\x01\x01"[..], &[0; 200], b"UPX!"].concat()),
    ]
}

/// What looks like code everywhere is read so often that a file of 1 GB ends within seconds, and is named.
#[test]
fn what_looks_like_code_is_not_read_without_end() {
    const SIZE: usize = 4 << 20;
    let code = plain(&[("hip-amdgcn-amd-amdhsa--gfx942", b"some code")]);
    let frame =
        [&b"\x28\xb5\x2f\xfd\x00\x58"[..], &(u32::try_from(code.len()).unwrap() << 3).to_le_bytes()[..3], &code];
    for (what, unit, head) in [
        ("blocks without a byte", vec![0], frame.concat()),
        ("blocks that repeat a byte", b"\x02\x00\x10\x00".to_vec(), frame.concat()),
        ("frames without a byte", b"\x28\xb5\x2f\xfd\x00\x58\x01\0\0".to_vec(), vec![]),
        ("compressed bundles of no version", b"CCOB".to_vec(), vec![]),
        ("offload binaries with 4096 entries", offload(2, &[1 << 16, 32, 4096], [0; 4], b""), vec![]),
    ] {
        let mut bytes = library(&head);
        bytes.extend(unit.iter().cycle().take(SIZE));
        let file = Watched::new(&bytes);
        let content: Arc<dyn Content> = Arc::<Watched>::clone(&file);
        let code = FileCode::of(&content, false, &Resources::new(64 << 20)).unwrap();
        let reads = file.reads.load(Ordering::Relaxed);
        assert!(code.is_unfinished, "{what}");
        assert!(reads < 100_000, "{what}: {reads}");
    }
}
