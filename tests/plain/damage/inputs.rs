//! Bundles in each form, damaged at chosen places.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use md5::{Digest, Md5};

use crate::hostile::elf::fat_with;
use crate::hostile::plain_bundle::plain;

pub(crate) const TARGETS: [&str; 3] = ["gfx906", "gfx90a", "gfx942"];

/// Bytes of a code object: some blocks of each format.
const CODE: usize = 400_000;

/// Bytes of a block of zlib, which the encoder ends on request.
const PIECE: usize = 64 << 10;

/// A form of a compressed bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Zlib,
    Zstd,
    /// With a window of 128 KiB, so that a small budget decodes it as a stream.
    SmallWindow,
}

pub(crate) const FORMS: [Form; 3] = [Form::Zlib, Form::Zstd, Form::SmallWindow];

/// What is wrong with a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    None,
    /// The block in which this part of the content is, in percent, cannot be decoded.
    Block(usize),
    /// The compressed data ends where this block begins.
    Cut(usize),
    /// The checksum at the end is wrong.
    Checksum,
    /// There is more content than the header claims.
    Excess,
}

/// Code for a processor, by the number in the flags of its ELF header. It compresses to about three quarters, in all
/// blocks alike.
fn code(processor: u8) -> Vec<u8> {
    let mut state = u64::from(processor);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0] & 0x3F
    };
    let mut code: Vec<_> = (0..CODE).map(|_| next()).collect();
    code[..64].fill(0);
    // AMDGPU_HSA, code object version 5; the machine; the flags.
    code[..9].copy_from_slice(b"\x7FELF\x02\x01\x01\x40\x03");
    code[18] = 224;
    code[48] = processor;
    code
}

/// The uncompressed bundle of all tests.
pub(crate) fn bundle() -> Vec<u8> {
    static BUNDLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let ids = TARGETS.map(|target| format!("hipv4-amdgcn-amd-amdhsa--{target}"));
        let code = [0x2f, 0x3f, 0x4c].map(code);
        plain(&ids.iter().zip(&code).map(|(id, code)| (id.as_str(), code.as_slice())).collect::<Vec<_>>())
    });
    BUNDLE.clone()
}

/// A compressed content, and where its blocks begin.
struct Blocks {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Blocks {
    fn zlib(content: &[u8]) -> Self {
        let mut compress = flate2::Compress::new(flate2::Compression::fast(), true);
        // With room for all of it, each block ends at a byte.
        let mut bytes = Vec::with_capacity(2 * content.len());
        let mut starts = Vec::new();
        for piece in content.chunks(PIECE) {
            starts.push(bytes.len().max(2));
            compress.compress_vec(piece, &mut bytes, flate2::FlushCompress::Sync).unwrap();
        }
        compress.compress_vec(&[], &mut bytes, flate2::FlushCompress::Finish).unwrap();
        Self { bytes, starts }
    }

    fn zstd(content: &[u8], window_log: Option<u32>, states_size: bool) -> Self {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.include_contentsize(states_size).unwrap();
        encoder.set_pledged_src_size(Some(content.len() as u64)).unwrap();
        if let Some(window) = window_log {
            encoder.window_log(window).unwrap();
        }
        encoder.write_all(content).unwrap();
        let bytes = encoder.finish().unwrap();
        let (starts, _) = zstd_blocks(&bytes);
        Self { bytes, starts }
    }
}

/// The offsets of the headers of a frame's blocks, and of its checksum (RFC 8878, 3.1.1).
pub(crate) fn zstd_blocks(frame: &[u8]) -> (Vec<usize>, usize) {
    let descriptor = frame[4];
    let is_single = descriptor & 0x20 != 0;
    let size = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    let mut at = 5 + usize::from(!is_single) + size;
    let mut starts = Vec::new();
    loop {
        starts.push(at);
        let header = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]);
        let length = usize::try_from(header >> 3).unwrap();
        at += 3 + if header >> 1 & 3 == 1 { 1 } else { length };
        if header & 1 == 1 {
            return (starts, at);
        }
    }
}

/// A compressed bundle (version 3 of CCOB).
pub(crate) fn compressed(form: Form, damage: Damage) -> Vec<u8> {
    let mut content = bundle();
    let claimed = content.len();
    if damage == Damage::Excess {
        content.extend([7; 1000]);
    }
    let states_size = damage != Damage::Excess;
    let mut blocks = match form {
        Form::Zlib => Blocks::zlib(&content),
        Form::Zstd => Blocks::zstd(&content, None, states_size),
        Form::SmallWindow => Blocks::zstd(&content, Some(17), states_size),
    };
    let Blocks { bytes, starts } = &mut blocks;
    let block = |percent: usize| starts[starts.len() * percent / 100];
    match damage {
        Damage::None | Damage::Excess => {}
        // A type of block that neither format has: 3.
        Damage::Block(percent) => bytes[block(percent)] |= 6,
        Damage::Cut(percent) => bytes.truncate(block(percent)),
        Damage::Checksum => *bytes.last_mut().unwrap() ^= 1,
    }
    let method = u16::from(form != Form::Zlib);
    let mut out = [b"CCOB", &3_u16.to_le_bytes()[..], &method.to_le_bytes()].concat();
    out.extend([32 + bytes.len(), claimed].into_iter().flat_map(|field| (field as u64).to_le_bytes()));
    out.extend(&Md5::digest(&content)[..8]);
    out.extend(blocks.bytes);
    out
}

/// A tree with a library, `lib/x.so`, that has this bundle.
pub(crate) fn tree(place: &Path, bundle: Vec<u8>) -> PathBuf {
    let tree = place.join("tree");
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("lib/x.so"), fat_with(&[bundle]).bytes).unwrap();
    tree
}
