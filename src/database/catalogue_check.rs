//! Whether a Tensile catalogue is whole, at any size: that of rocBLAS 5.5 for all GPUs has 117 MB. A catalogue is one
//! msgpack value (github.com/msgpack/msgpack, spec.md). Values are counted, and nothing is kept of them.

use flate2::{Decompress, FlushDecompress, Status};

use super::catalogue::begins;
use crate::rope::{Content, in_pieces};

/// The most bytes that a compressed catalogue may become.
const MAX_INFLATED: u64 = 1 << 30;

/// Bytes that are inflated at a time.
const PIECE: usize = 64 << 10;

/// Checks a catalogue, whose bytes are passed in order.
#[derive(Debug)]
pub struct CatalogueCheck(Form);

#[derive(Debug)]
enum Form {
    Plain(MsgpackTree),
    /// Compressed by zlib, as hipBLASLt reads it.
    Compressed(Box<CompressedTree>),
}

#[derive(Debug)]
struct CompressedTree {
    decoder: Decompress,
    buffer: Vec<u8>,
    /// Whether the end of the stream was read.
    is_ended: bool,
    tree: MsgpackTree,
}

/// A tree as far as it was read.
#[derive(Debug)]
struct MsgpackTree {
    /// Bytes so far.
    taken: u64,
    /// Values that have to follow.
    values: u64,
    /// Bytes of the current value that have to follow.
    skipped: u64,
    /// The length or the number of the current value, as far as it was read.
    length: u64,
    /// Bytes of that which have to follow.
    length_bytes: u8,
    then: Then,
}

/// What a length counts.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Bytes, and this many more.
    Bytes(u64),
    /// Values: elements of an array.
    Values,
    /// Pairs of values.
    Pairs,
}

impl CatalogueCheck {
    /// Of no bytes so far.
    fn new(is_compressed: bool) -> Self {
        Self(if is_compressed {
            let (decoder, buffer) = (Decompress::new(true), vec![0; PIECE]);
            Form::Compressed(Box::new(CompressedTree { decoder, buffer, is_ended: false, tree: MsgpackTree::new() }))
        } else {
            Form::Plain(MsgpackTree::new())
        })
    }

    /// Checks a whole file. An error says what is wrong.
    pub fn check(content: &dyn Content, is_compressed: bool) -> Result<(), String> {
        if content.size() == 0 {
            return Err("it is empty".to_owned());
        }
        let mut check = Self::new(is_compressed);
        let mut reader = content.reader(0);
        let read = |piece: &mut [u8]| reader.read(piece).map_err(|error| error.to_string());
        in_pieces(content.size(), read, |piece| check.take(piece))?;
        check.finish()
    }

    /// Takes the next bytes. An error says what is wrong.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        match &mut self.0 {
            Form::Plain(tree) => tree.take(bytes),
            Form::Compressed(tree) => tree.take(bytes),
        }
    }

    /// Checks that nothing is missing.
    fn finish(self) -> Result<(), String> {
        match self.0 {
            Form::Plain(tree) => tree.finish(),
            Form::Compressed(tree) if tree.is_ended || tree.decoder.total_in() == 0 => tree.tree.finish(),
            Form::Compressed(_) => Err("it is truncated".to_owned()),
        }
    }
}

impl CompressedTree {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while !self.is_ended {
            let (before_in, before_out) = (self.decoder.total_in(), self.decoder.total_out());
            let done = self.decoder.decompress(rest, &mut self.buffer, FlushDecompress::None);
            let status = done.map_err(|error| format!("it cannot be decompressed: {error}"))?;
            self.is_ended = status == Status::StreamEnd;
            let moved = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
            let read = moved(self.decoder.total_in(), before_in);
            let made = moved(self.decoder.total_out(), before_out);
            rest = rest.get(read..).unwrap_or_default();
            self.tree.take(self.buffer.get(..made).unwrap_or_default())?;
            if self.decoder.total_out() > MAX_INFLATED {
                return Err(format!("it becomes more than {MAX_INFLATED} bytes"));
            }
            if read == 0 && made == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl MsgpackTree {
    fn new() -> Self {
        Self { taken: 0, values: 1, skipped: 0, length: 0, length_bytes: 0, then: Then::Values }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.taken == 0 && !bytes.is_empty() {
            begins(bytes)?;
        }
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        let mut rest = bytes;
        // Libraries ignore what follows the tree.
        while !rest.is_empty() && !self.is_whole() {
            if self.skipped > 0 {
                let here = usize::try_from(self.skipped).unwrap_or(usize::MAX).min(rest.len());
                (_, rest) = rest.split_at(here);
                self.skipped -= here as u64;
                continue;
            }
            let Some((byte, after)) = rest.split_first() else { break };
            rest = after;
            if self.length_bytes == 0 {
                self.begin(*byte)?;
            } else {
                self.length = self.length << 8 | u64::from(*byte);
                self.length_bytes -= 1;
            }
            if self.length_bytes == 0 {
                self.apply()?;
            }
        }
        Ok(())
    }

    /// Reads the first byte of a value.
    fn begin(&mut self, byte: u8) -> Result<(), String> {
        self.values -= 1;
        let low = |bits: u8| u64::from(byte & bits);
        // The length itself, the bytes that hold it, and what it counts.
        (self.length, self.length_bytes, self.then) = match byte {
            0x80..=0x8f => (low(15), 0, Then::Pairs),
            0x90..=0x9f => (low(15), 0, Then::Values),
            0xa0..=0xbf => (low(31), 0, Then::Bytes(0)),
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, 0, Then::Bytes(0)),
            0xc1 => return Err("it is no msgpack tree".to_owned()),
            // Binaries and strings.
            0xc4..=0xc6 => (0, 1 << (byte - 0xc4), Then::Bytes(0)),
            0xd9..=0xdb => (0, 1 << (byte - 0xd9), Then::Bytes(0)),
            // Extensions have a byte more, with their type.
            0xc7..=0xc9 => (0, 1 << (byte - 0xc7), Then::Bytes(1)),
            0xd4..=0xd8 => (1 << (byte - 0xd4), 0, Then::Bytes(1)),
            0xca => (4, 0, Then::Bytes(0)),
            0xcb => (8, 0, Then::Bytes(0)),
            0xcc..=0xcf => (1 << (byte - 0xcc), 0, Then::Bytes(0)),
            0xd0..=0xd3 => (1 << (byte - 0xd0), 0, Then::Bytes(0)),
            0xdc | 0xdd => (0, 2 << (byte - 0xdc), Then::Values),
            0xde | 0xdf => (0, 2 << (byte - 0xde), Then::Pairs),
        };
        Ok(())
    }

    /// Uses a length that was read.
    fn apply(&mut self) -> Result<(), String> {
        let more = match self.then {
            Then::Bytes(more) => {
                self.skipped = self.length + more;
                return Ok(());
            }
            Then::Values => self.length,
            Then::Pairs => self.length * 2,
        };
        self.values = self.values.checked_add(more).ok_or("it is no msgpack tree")?;
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.values == 0 && self.skipped == 0 && self.length_bytes == 0
    }

    fn finish(&self) -> Result<(), String> {
        match (self.taken, self.is_whole()) {
            (0, _) => Err("it is empty".to_owned()),
            (_, true) => Ok(()),
            (_, false) => Err("it is no whole msgpack tree".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use serde_json::json;

    use super::CatalogueCheck;

    fn check(bytes: &[u8], is_compressed: bool, piece: usize) -> Result<(), String> {
        let mut check = CatalogueCheck::new(is_compressed);
        bytes.chunks(piece).try_for_each(|piece| check.take(piece))?;
        check.finish()
    }

    /// A value of each kind.
    fn tree() -> Vec<u8> {
        let long = "x".repeat(300);
        let numbers: Vec<i64> = (-70_000..70_000).step_by(999).chain([i64::MIN, i64::MAX]).collect();
        let value =
            json!({"a": [null, true, 1.5, "text", long, "y".repeat(40)], "b": numbers, "c": {"d": {}, "e": []}});
        let mut bytes = vec![0x93];
        bytes.extend(rmp_serde::to_vec(&value).unwrap());
        // Extensions of 16 and of 3 bytes, and a binary of 2: the second element is an array of these.
        bytes.push(0x93);
        bytes.extend([0xd8].iter().chain(&[7; 17]));
        bytes.extend([0xc7, 3, 1, 0, 0, 0, 0xc5, 0, 2, 9, 9]);
        bytes.push(0xc0);
        bytes
    }

    #[test]
    fn a_tree_is_whole_or_not() {
        let whole = tree();
        let packed = {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&whole).unwrap();
            encoder.finish().unwrap()
        };
        for piece in [1, 7, 1 << 20] {
            assert_eq!(check(&whole, false, piece), Ok(()));
            assert_eq!(check(&packed, true, piece), Ok(()));
            assert_eq!(check(&[&whole[..], b"rest"].concat(), false, piece), Ok(()));
        }
        for length in 0..whole.len() {
            assert!(check(&whole[..length], false, 64).is_err(), "{length}");
        }
        for length in 0..packed.len() {
            assert!(check(&packed[..length], true, 64).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_no_tree_is_named() {
        let said = |bytes: &[u8]| check(bytes, false, 64).unwrap_err();
        assert_eq!(said(b""), "it is empty");
        assert_eq!(said(b"<!DOCTYPE html>"), "it is no msgpack tree");
        assert_eq!(said(&[0x92, 1, 0xc1]), "it is no msgpack tree");
        assert_eq!(said(&[0xdd, 0xff, 0xff, 0xff, 0xff, 0]), "it is no whole msgpack tree");
        assert_eq!(check(b"", true, 64).unwrap_err(), "it is empty");
        assert_eq!(check(&[0x78], true, 64).unwrap_err(), "it is truncated");
        assert!(check(&[0x90; 9], true, 64).unwrap_err().starts_with("it cannot be decompressed"));
        // The checksum behind the data is checked as well.
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(&tree()).unwrap();
        let mut packed = encoder.finish().unwrap();
        packed[400] ^= 1;
        assert!(check(&packed, true, 64).is_err());
    }
}
