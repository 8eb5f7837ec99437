//! A pass over a stream of which nothing else is wanted than what is computed of all its bytes.
//!
//! It builds no index: the decoder does not stop at blocks, no windows are kept, and each piece is hashed while it is in the
//! processor's cache.

use super::{CHUNK, Checkpoint, Chunks, DecodeError, Decoder, INPUT, LoadState, Stops};
use crate::rope::{Sha256, head_mut, to_usize};
use crate::source::block_index::WRONG_CRC32;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

impl Chunks {
    /// Compares the sizes and the CRC-32 of a stream that nobody has read, and computes its SHA-256 if that is wanted. `false`
    /// if it was read, or if something is wrong: the pass that builds the index then tells what is wrong, and where.
    pub(super) fn pass(&self) -> bool {
        let mut state = self.state.lock();
        self.restore(&mut state);
        let is_unread = state.load_state == LoadState::Built && state.index.indexed_to == 0 && state.decodes.is_empty();
        let is_passing = is_unread && state.damage.is_none();
        drop(state);
        let is_passed = is_passing && self.decode_all().is_ok();
        if is_passed {
            self.listed.close_first();
        }
        self.is_passed.fetch_or(is_passed, Ordering::Relaxed);
        is_passed
    }

    fn decode_all(&self) -> Result<(), DecodeError> {
        let Self { stream, decoders, .. } = self;
        let _permit = decoders.permit();
        let mut decoder = decoders.seek(stream, &Checkpoint::default(), INPUT)?;
        let mut chunk = decoders.chunk(to_usize(CHUNK));
        let (mut crc, mut sha256) = (crc32fast::Hasher::new(), stream.is_hashed().then(Sha256::default));
        let mut observe = |_: &Decoder, piece: &[u8], _| {
            crc.update(piece);
            if let Some(sha256) = &mut sha256 {
                sha256.update(piece);
            }
            Ok(())
        };
        let buffer = Arc::get_mut(&mut chunk).unwrap_or_default();
        loop {
            let piece = head_mut(buffer, to_usize((stream.size - decoder.output).min(CHUNK)));
            decoder.fill(stream, piece, Stops::Never, Some(&mut observe))?;
            if decoder.output >= stream.size {
                break;
            }
        }
        decoders.put_back(None, decoder, None);
        decoders.reuse(chunk);
        self.inflated.fetch_add(stream.size, Ordering::Relaxed);
        if crc.finalize() != stream.crc32 {
            return Err(DecodeError::whole(stream, WRONG_CRC32));
        }
        if let Some(sha256) = sha256 {
            stream.resources.counters.bytes_hashed.add(stream.size);
            let _ = self.sha256.set(sha256.finish());
        }
        Ok(())
    }
}
