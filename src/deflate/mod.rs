//! Deflate streams for new wheels, which reuse as much as possible of the old ones.
//!
//! A rewritten member is the original without its device code and with some patches. Its deflate stream is *spliced*: a
//! block (RFC 1951, section 3.2.3) is reused if its content and its history of 32 KiB are unchanged. Reused blocks are
//! ranges of the original's compressed bytes. The rest is encoded again: what was changed, the 32 KiB after it, and
//! from there to the next block. Empty blocks lead to the bit at which the next range starts. So no bit is ever
//! shifted, and the stream is a rope of source ranges and short literals.
//!
//! What has no old stream is deflated as a whole ([`deflate`]): in blocks of a fixed size, each primed with the 32 KiB
//! before it, on all cores. Blocks are kept in the frame store, so the stream is a content that can be read anywhere.
//!
//! It does not know entries and their names. It takes contents and returns contents.

mod batch;
mod block;
mod blocks;
mod change;
mod encode;
mod error;
mod join;
mod plan;
mod stream;
mod whole;

use std::sync::Arc;

use self::change::changes;
pub use self::encode::StreamDigests;
use self::encode::encode;
use self::join::Joiner;
use self::plan::{StreamPart, plan};
use crate::metrics::Counters;
use crate::rope::{BlockBoundary, Content, Edit, Rope, edited};

pub use self::block::{BLOCK, DeflateLevel, describe};
pub use self::blocks::Uncompressed;
pub use self::error::DeflateError;
pub use self::whole::{DeflatedContent, deflate};

/// The most bytes that are encoded again for one splice. The result is held in memory.
const MAX_SPLICED: u64 = 64 << 20;

/// A raw deflate stream, with the fields that a zip file needs for it.
#[derive(Debug)]
pub struct Deflation {
    /// The compressed bytes.
    pub stream: Rope,
    /// Inflated length in bytes.
    pub size: u64,
    /// CRC-32 of the inflated content.
    pub crc32: u32,
    /// SHA-256 of the inflated content, if it was asked for.
    pub sha256: Option<[u8; 32]>,
}

/// Deflates the result of `edits` on `original`, and reuses as much as possible of the original's deflate stream. The rest
/// is encoded with `level`. Reused blocks are inflated for `sums` of the result, in the pass that encodes the rest.
/// `Ok(None)` if the original has no such stream, or if too little can be reused.
pub fn splice(
    original: &Arc<dyn Content>,
    edits: &[Edit],
    level: DeflateLevel,
    mut sums: Option<StreamDigests>,
    counters: &Counters,
) -> Result<Option<Deflation>, DeflateError> {
    let content = edited(original, edits.to_vec())?;
    let Some(member) = original.member() else { return Ok(None) };
    let (packed, Some(boundaries)) = (member.packed(), member.block_boundaries()?) else { return Ok(None) };
    let parts = plan(&changes(&**original, edits)?, &boundaries, original.size());
    let encoded =
        parts.iter().map(|part| if let StreamPart::Encoded(range) = part { range.end - range.start } else { 0 });
    if encoded.sum::<u64>() > MAX_SPLICED {
        return Ok(None);
    }
    let mut joiner = Joiner::default();
    let mut crc = crc32fast::Hasher::new();
    // Only the end of the original's stream and what is encoded last are marked as final (RFC 1951, section 3.2.3).
    let mut ended = false;
    let mut at = 0;
    for (number, part) in parts.iter().enumerate() {
        match part {
            StreamPart::Encoded(range) => {
                ended = number + 1 == parts.len();
                let encoded = encode(&content, range.clone(), ended, level, sums.as_mut(), counters)?;
                joiner.stream(&encoded.bytes);
                crc.combine(&encoded.crc);
                at = range.end;
            }
            StreamPart::Reused(from, to) => {
                ended = boundaries.last() == Some(to);
                joiner.range(&packed.bytes, from.bit, to.bit)?;
                crc.combine(&crc_between(from, to));
                let end = at + (to.output - from.output);
                sums.as_mut().map_or(Ok(()), |sums| sums.read(&content, at..end))?;
                at = end;
            }
        }
    }
    let stream = Rope::new(joiner.finish(ended))?;
    let (size, crc32) = (content.size(), crc.finalize());
    let sha256 = sums.map(|sums| sums.finish(crc32, counters, size)).transpose()?;
    Ok(Some(Deflation { stream, size, crc32, sha256 }))
}

/// The CRC-32 of the content between two block boundaries. Combining is linear: `combine(a, b, n)` is `shift(a, n) ^
/// b`, where `b` is the checksum of the last `n` bytes, and the result that of all bytes. With the checksum of all
/// bytes in place of `b`, the result is the checksum of the last bytes.
fn crc_between(from: &BlockBoundary, to: &BlockBoundary) -> crc32fast::Hasher {
    let length = to.output - from.output;
    let mut crc = crc32fast::Hasher::new_with_initial(from.crc32);
    crc.combine(&crc32fast::Hasher::new_with_initial_len(to.crc32, length));
    crc32fast::Hasher::new_with_initial_len(crc.finalize(), length)
}

#[cfg(test)]
mod tests;
