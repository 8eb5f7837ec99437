//! Joins deflate blocks that begin and end at any bit of a byte.
//!
//! Reused blocks must keep their bit position in the byte: the content of a stored block is aligned to bytes (RFC 1951,
//! section 3.2.4). Only then is a range of blocks a range of source bytes, except for its first and last bits. Empty
//! blocks move the position to the one that is needed.

use std::sync::Arc;

use crate::rope::{Content, ReadError, Segment};

/// Writes a deflate stream as segments.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    segments: Vec<Segment>,
    /// Whole bytes that follow the segments.
    literal: Vec<u8>,
    /// The bits of the next byte.
    byte: u8,
    /// Number of these bits; less than 8.
    phase: u64,
}

impl Joiner {
    /// Adds blocks that begin at a byte boundary and end at one.
    pub(super) fn stream(&mut self, bytes: &[u8]) {
        if self.phase != 0 {
            // A stored block without bytes: its type, zeros up to the byte boundary, its length and the complement.
            self.bits(0b000, 3);
            self.bits(0, (8 - self.phase) % 8);
            self.literal.extend([0, 0, 0xff, 0xff]);
        }
        self.literal.extend(bytes);
    }

    /// Adds the blocks at the bits `from..to` of `packed`, at least 16 bits. None of them is final unless it is the
    /// last one of the stream.
    pub(super) fn range(&mut self, packed: &Arc<dyn Content>, from: u64, to: u64) -> Result<(), ReadError> {
        self.fill(from % 8);
        let byte = |bit: u64| {
            let mut byte = [0];
            packed.read_at(bit / 8, &mut byte).map(|()| u32::from(byte[0]))
        };
        if self.phase != 0 {
            self.bits(byte(from)? >> self.phase, 8 - self.phase);
        }
        let (start, end) = (from.div_ceil(8), to / 8);
        let literal = std::mem::take(&mut self.literal);
        self.segments.push(Segment::literal(literal));
        self.segments.push(Segment::range(Arc::clone(packed), start, end.saturating_sub(start))?);
        let rest = to % 8;
        if rest != 0 {
            self.bits(byte(to)?, rest);
        }
        Ok(())
    }

    /// The segments. `ended` says whether the stream has its final block already.
    pub(super) fn finish(mut self, ended: bool) -> Vec<Segment> {
        if !ended {
            self.empty_fixed_block(true);
        }
        self.bits(0, (8 - self.phase) % 8);
        self.segments.push(Segment::literal(self.literal));
        self.segments
    }

    /// Adds empty blocks until the next bit is number `phase` of its byte. One block of 95 bits covers odd distances;
    /// up to three of 10 bits cover even ones.
    fn fill(&mut self, phase: u64) {
        if (phase + self.phase) % 2 == 1 {
            self.empty_dynamic_block();
        }
        while self.phase != phase {
            self.empty_fixed_block(false);
        }
    }

    /// 10 bits: final or not, type 01, and the end-of-block code, seven zeros (RFC 1951, sections 3.2.3 and 3.2.6).
    fn empty_fixed_block(&mut self, is_final: bool) {
        self.bits(0b010 | u32::from(is_final), 3);
        self.bits(0, 7);
    }

    /// 95 bits (RFC 1951, section 3.2.7). All three codes are complete, because some decoders refuse incomplete ones.
    fn empty_dynamic_block(&mut self) {
        self.bits(0b100, 3);
        // 257 + 0 literal and length codes, 1 + 1 distance codes, 4 + 15 code length codes.
        self.bits(0, 5);
        self.bits(1, 5);
        self.bits(15, 4);
        // Lengths of the code length codes in the order 16, 17, 18, 0, 8, …, 14, 1, 15: one bit each for 18 and 1.
        // So 1 becomes the bit 0, and 18 the bit 1. zlib would omit the zero after the last one; without it, the block
        // would have an even length.
        for position in 0..19 {
            self.bits(u32::from(position == 2 || position == 17), 3);
        }
        // Literal 0 has one bit, the following 138 + 117 have none, and the end-of-block code has the other bit.
        self.bits(0, 1);
        for zeros in [138, 117] {
            self.bits(1, 1);
            self.bits(zeros - 11, 7);
        }
        self.bits(0, 1);
        // The two distance codes have one bit each.
        self.bits(0b00, 2);
        // End of block.
        self.bits(1, 1);
    }

    /// Adds the `count` lowest bits of `value`, the lowest first.
    fn bits(&mut self, value: u32, count: u64) {
        for bit in 0..count {
            if value >> bit & 1 == 1 {
                self.byte |= 1 << self.phase;
            }
            self.phase += 1;
            if self.phase == 8 {
                self.literal.push(self.byte);
                self.byte = 0;
                self.phase = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use std::io::Read;
    use std::sync::Arc;

    use super::Joiner;
    use crate::rope::{Content, Rope};

    fn written(joiner: Joiner, ended: bool) -> Vec<u8> {
        Rope::new(joiner.finish(ended)).unwrap().to_vec().unwrap()
    }

    #[test]
    fn the_empty_blocks_have_the_lengths_that_they_should() {
        let mut joiner = Joiner::default();
        joiner.empty_dynamic_block();
        assert_eq!(joiner.literal.len() as u64 * 8 + joiner.phase, 95);
        joiner.empty_fixed_block(false);
        assert_eq!(joiner.literal.len() as u64 * 8 + joiner.phase, 105);
    }

    #[test]
    fn every_phase_is_reached_from_every_other() {
        for from in 0..8 {
            for to in 0..8 {
                let mut joiner = Joiner::default();
                joiner.fill(from);
                assert_eq!(joiner.phase, from);
                joiner.fill(to);
                assert_eq!(joiner.phase, to);
                // A literal in a block of fixed codes shows whether the decoder is still in step: 0x30 + byte.
                joiner.bits(0b010, 3);
                joiner.bits((0x30_u32 + u32::from(b'x')).reverse_bits() >> 24, 8);
                joiner.bits(0, 7);
                joiner.stream(&[]);
                let mut inflated = Vec::new();
                flate2::read::DeflateDecoder::new(&written(joiner, false)[..]).read_to_end(&mut inflated).unwrap();
                assert_eq!(inflated, b"x");
            }
        }
    }

    #[test]
    fn a_range_of_bits_is_reused_unchanged() {
        let bytes: Vec<u8> = (0..40_u8).map(|byte| byte.wrapping_mul(151) ^ 0x5a).collect();
        let packed: Arc<dyn Content> = Arc::new(Rope::new([crate::rope::Segment::literal(&bytes[..])]).unwrap());
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (at % 8) & 1;
        for from in 0..16 {
            for to in (from + 16)..100 {
                let mut joiner = Joiner::default();
                joiner.fill(from % 8);
                let before = usize::try_from(joiner.literal.len() as u64 * 8 + joiner.phase).unwrap();
                joiner.range(&packed, from, to).unwrap();
                let written = written(joiner, true);
                let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
                assert_eq!(written.len(), (before + to - from).div_ceil(8));
                for at in from..to {
                    assert_eq!(bit(&written, before + at - from), bit(&bytes, at), "{from}..{to} at {at}");
                }
            }
        }
    }
}
