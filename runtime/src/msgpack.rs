//! MessagePack, read in place: a table of contents can take megabytes, of which a lookup needs a few hundred bytes.

use std::fmt::Display;

use rmp::Marker;
use rmp::decode;

use crate::error::Error;

/// A position in MessagePack. Every method reads one value, or the beginning of one, and moves past it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that have not been read yet.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether a map begins here.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.marker(), Some(Marker::FixMap(_) | Marker::Map16 | Marker::Map32))
    }

    /// Whether an array begins here.
    pub(crate) fn is_array(&self) -> bool {
        matches!(self.marker(), Some(Marker::FixArray(_) | Marker::Array16 | Marker::Array32))
    }

    fn marker(&self) -> Option<Marker> {
        self.rest.first().map(|&byte| Marker::from_u8(byte))
    }

    /// The number of pairs of a map that begins here.
    pub(crate) fn map(&mut self) -> Result<u32, Error> {
        decode::read_map_len(&mut self.rest).map_err(broken)
    }

    /// The number of elements of an array that begins here.
    pub(crate) fn array(&mut self) -> Result<u32, Error> {
        decode::read_array_len(&mut self.rest).map_err(broken)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        let (text, rest) = decode::read_str_from_slice(self.rest).map_err(|error| match error {
            decode::DecodeStringError::InvalidUtf8(..) => broken("a text in it is not UTF-8, which no splitter writes"),
            other => broken(other),
        })?;
        self.rest = rest;
        Ok(text)
    }

    pub(crate) fn integer(&mut self) -> Result<u64, Error> {
        decode::read_int(&mut self.rest).map_err(broken)
    }

    /// Skips a value of any kind. Neither nesting depth nor claimed lengths cost memory: what is left to skip is one
    /// number.
    pub(crate) fn skip(&mut self) -> Result<(), Error> {
        let mut values = 1_u64;
        while let Some(after) = values.checked_sub(1) {
            // Each value takes at least one byte.
            if values > self.rest.len() as u64 {
                return Err(Error::MessagePack("it is truncated".to_owned()));
            }
            values = after + self.enter()?;
        }
        Ok(())
    }

    /// Skips a value, or enters a map or an array. Returns the number of values in it.
    fn enter(&mut self) -> Result<u64, Error> {
        let (bytes, values) = match decode::read_marker(&mut self.rest).map_err(|error| broken(error.0))? {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            // An extension has one byte for its type.
            Marker::U16 | Marker::I16 | Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::FixExt4 => (5, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::Ext8 => (self.length(1)? + 1, 0),
            Marker::Ext16 => (self.length(2)? + 1, 0),
            Marker::Ext32 => (self.length(4)? + 1, 0),
            Marker::FixStr(length) => (length.into(), 0),
            Marker::Str8 | Marker::Bin8 => (self.length(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (self.length(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (self.length(4)?, 0),
            Marker::FixArray(count) => (0, count.into()),
            Marker::Array16 => (0, self.length(2)?),
            Marker::Array32 => (0, self.length(4)?),
            Marker::FixMap(count) => (0, 2 * u64::from(count)),
            Marker::Map16 => (0, 2 * self.length(2)?),
            Marker::Map32 => (0, 2 * self.length(4)?),
            Marker::Reserved => return Err(broken("there is no value that begins with 0xc1")),
        };
        self.advance(bytes)?;
        Ok(values)
    }

    /// A big-endian number of this many bytes.
    fn length(&mut self, bytes: u64) -> Result<u64, Error> {
        let digits = self.advance(bytes)?;
        Ok(digits.iter().fold(0, |number, &digit| number << 8 | u64::from(digit)))
    }

    fn advance(&mut self, bytes: u64) -> Result<&'a [u8], Error> {
        let split = usize::try_from(bytes).ok().and_then(|bytes| self.rest.split_at_checked(bytes));
        let (read, rest) = split.ok_or_else(|| broken("it is truncated"))?;
        self.rest = rest;
        Ok(read)
    }
}

fn broken(reason: impl Display) -> Error {
    Error::MessagePack(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn values_of_any_kind_are_skipped() {
        let values: &[&[u8]] = &[
            &[0x7F],
            &[0xFF],
            &[0xC0],
            &[0xC3],
            &[0xCC, 1],
            &[0xD1, 1, 2],
            &[0xCA, 0, 0, 0, 0],
            &[0xCF, 1, 2, 3, 4, 5, 6, 7, 8],
            b"\xA3abc",
            b"\xD9\x03abc",
            b"\xC5\0\x03abc",
            b"\xDB\0\0\0\x03abc",
            &[0x92, 0x01, 0x91, 0xC0],
            &[0x81, 0xA1, b'k', 0x80],
            &[0xDE, 0, 1, 1, 2],
            &[0xDD, 0, 0, 0, 2, 1, 2],
            &[0xD4, 7, 1],
            &[0xD8, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
            &[0xC7, 2, 7, 1, 2],
            &[0xC9, 0, 0, 0, 1, 7, 1],
        ];
        for value in values {
            let followed = [value, &[0x2A][..]].concat();
            let mut cursor = Cursor::new(&followed);
            cursor.skip().unwrap();
            assert_eq!(cursor.integer().unwrap(), 42, "{value:x?}");
            for length in 0..value.len() {
                assert!(Cursor::new(&value[..length]).skip().is_err(), "{value:x?}, {length}");
            }
        }
        assert!(Cursor::new(&[0xC1]).skip().is_err());
    }

    #[test]
    fn texts_that_are_not_utf8_are_named_as_such() {
        let error = Cursor::new(b"\xA1\xFF").text().unwrap_err().to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }

    #[test]
    fn depth_and_claims_cost_nothing() {
        let mut nested = vec![0x91; 1 << 20];
        assert!(Cursor::new(&nested).skip().is_err());
        nested.push(0xC0);
        Cursor::new(&nested).skip().unwrap();
        assert!(Cursor::new(&[0xDD, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0]).skip().is_err());
        assert!(Cursor::new(&[0xDF, 0xFF, 0xFF, 0xFF, 0xFF].repeat(1000)).skip().is_err());
    }
}
