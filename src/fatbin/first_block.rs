//! The first block of a zstd frame (RFC 8878), which shows what the frame holds.
//!
//! Only this block is decompressed, whatever window and size the frame states: it cannot refer to anything before it, so
//! it is also the only block of a frame with the smallest window that holds it.

use super::bundle::code_by_beginning;
use super::code_file::CodeFile;
use super::frames::{BLOCK_HEADER, MAX_FRAME_HEADER, in_frames};
use super::header::{CodeDamage, code_target, is_code};
use super::packing::{content_size, frame_header_size};
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, ReadError, to_usize};

/// The most bytes of a block.
const MAX_BLOCK: u64 = 128 << 10;

/// The header of a frame with a window of [`MAX_BLOCK`], and without a size, a checksum and a dictionary.
const SMALL_FRAME: [u8; 6] = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x38];

/// The most blocks whose headers are read: those of 8 GiB.
const MAX_BLOCKS: usize = 1 << 16;

/// The device code in a zstd file: an uncompressed offload bundle, or a code object. `None` if its first block shows neither.
pub(crate) fn code_of_frame(content: &dyn Content) -> Result<Option<CodeFile>, ReadError> {
    let beginning = beginning(content, MAX_FRAME_HEADER)?;
    let Some(block) = first_block(content, &beginning)? else { return Ok(None) };
    let of_object = || {
        let targets = code_target(&block).filter(|_| is_code(&block)).into_iter().collect();
        CodeFile { is_bundle: true, targets, damage: CodeDamage::new() }
    };
    let mut blocks = 0..MAX_BLOCKS;
    let of_bundle = |size| {
        let (targets, damage) = code_by_beginning(&block, size)?;
        Some(CodeFile { is_bundle: true, targets, damage })
    };
    let code = in_frames(content, content_size(&beginning), || blocks.next().map(drop), of_bundle);
    Ok(Some(code.unwrap_or_else(of_object)).filter(|code| !code.targets.is_empty()))
}

/// The first block of the frame that a content begins with, decompressed. `None` if there is none, or it is damaged, or needs
/// a dictionary.
fn first_block(content: &dyn Content, beginning: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
    let Some(at) = frame_header_size(beginning) else { return Ok(None) };
    let block = self::beginning(content, at + BLOCK_HEADER)?;
    let Some(&[low, middle, high]) = block.get(to_usize(at)..) else { return Ok(None) };
    let fields = u32::from_le_bytes([low, middle, high, 0]);
    let size = u64::from(fields >> 3);
    let stored = match fields >> 1 & 3 {
        // One byte, which is repeated.
        1 => 1,
        0 | 2 => size,
        _ => return Ok(None),
    };
    if size > MAX_BLOCK {
        return Ok(None);
    }
    let stored = self::beginning(content, at + BLOCK_HEADER + stored)?;
    let payload = stored.get(to_usize(at + BLOCK_HEADER)..).unwrap_or_default();
    // It is the last one of this frame.
    let frame = [&SMALL_FRAME[..], &[low | 1, middle, high], payload].concat();
    Ok(zstd::bulk::decompress(&frame, to_usize(MAX_BLOCK)).ok())
}

/// The first bytes of a content, or all of them.
fn beginning(content: &dyn Content, length: u64) -> Result<Vec<u8>, ReadError> {
    let read = |bytes: &mut Vec<u8>| content.peek(bytes);
    Ok(WholeFile::new(Parser::Bundle, length.min(content.size()), read)?.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::code_of_frame;
    use crate::rope::{Rope, Segment};

    /// A bundle with a table of two entries, as clang-offload-bundler writes it, and zeros for code.
    fn bundle(target: &str) -> Vec<u8> {
        let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
        bytes.extend(2_u64.to_le_bytes());
        let device = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        for (offset, size, id) in [(4096_u64, 0_u64, "host-x86_64-unknown-linux-gnu-"), (4096, 300_000, &*device)] {
            for field in [offset, size, id.len() as u64] {
                bytes.extend(field.to_le_bytes());
            }
            bytes.extend(id.as_bytes());
        }
        bytes.resize(304_096, 0);
        bytes
    }

    fn targets(bytes: Vec<u8>) -> Vec<String> {
        let content = Rope::new([Segment::literal(bytes)]).unwrap();
        let code = code_of_frame(&content).unwrap();
        code.iter().flat_map(|code| &code.targets).map(ToString::to_string).collect()
    }

    #[test]
    fn frames_of_any_form() {
        let raw = bundle("gfx1100");
        let streamed = zstd::stream::encode_all(&*raw, 19).unwrap();
        let single = zstd::bulk::compress(&raw, 3).unwrap();
        for frame in [&streamed, &single] {
            assert_eq!(targets(frame.clone()), ["gfx1100"]);
            assert_eq!(targets([&**frame, b"more"].concat()), ["gfx1100"]);
        }
        let (one, other) = raw.split_at(100_000);
        let frames = [one, other].map(|part| zstd::bulk::compress(part, 3).unwrap());
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &1_u32.to_le_bytes()].concat();
        assert_eq!(targets(frames.concat()), ["gfx1100"]);
        assert_eq!(targets(frames.join(&skipped[..])), ["gfx1100"]);
        let mut checked = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        checked.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut checked, &raw).unwrap();
        assert_eq!(targets(checked.finish().unwrap()), ["gfx1100"]);
    }

    #[test]
    fn whatever_does_not_show_code_has_no_targets() {
        let frame = zstd::bulk::compress(&bundle("gfx1100"), 3).unwrap();
        let mut dictionary = frame.clone();
        dictionary[4] |= 1;
        for bytes in [
            Vec::new(),
            frame[..3].to_vec(),
            frame[..12].to_vec(),
            frame[..frame.len() / 2].to_vec(),
            dictionary,
            bundle("gfx1100"),
            zstd::bulk::compress(b"text", 3).unwrap(),
            zstd::bulk::compress(&[], 3).unwrap(),
            zstd::bulk::compress(&bundle("gfx1100")[..40], 3).unwrap(),
            // The table reaches past the end that the frame states.
            zstd::bulk::compress(&bundle("gfx1100")[..1000], 3).unwrap(),
            [&zstd::bulk::compress(&bundle("gfx1100")[..1000], 3).unwrap()[..], b"more"].concat(),
            [0x28, 0xB5, 0x2F, 0xFD, 0, 0x38, 0xff, 0xff, 0xff].to_vec(),
        ] {
            assert_eq!(targets(bytes.clone()), Vec::<String>::new(), "{:x?}", bytes.get(..20.min(bytes.len())));
        }
    }
}
