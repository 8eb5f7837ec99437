//! Headers that extend the one of a member (POSIX.1-2001, "pax Interchange Format"; GNU tar's manual, "Basic Tar Format").
//!
//! They are read here, and not by the crate `tar`: it takes a newline for the end of a record, and values of extended
//! attributes are any bytes. Two programs that divide records differently see different files.

use tar::{EntryType, Header};

use super::BLOCK;
use crate::rope::to_usize;

/// The records of a member's extended headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtendedRecords(Vec<(Vec<u8>, Vec<u8>)>);

impl ExtendedRecords {
    /// Parses the blocks before the header of a member.
    pub(crate) fn parse(mut blocks: &[u8]) -> Result<Self, String> {
        let (mut records, mut long) = (Self::default(), Vec::<(&[u8], &[u8])>::new());
        while let Some((header, rest)) = blocks.split_at_checked(to_usize(BLOCK)) {
            let header = Header::from_byte_slice(header);
            let size = header.entry_size().map_err(|_| "a damaged extended header".to_owned())?;
            let padded = size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
            let content = rest.get(..to_usize(size));
            let (Some(content), Some(behind)) = (content, rest.get(to_usize(padded)..)) else {
                return Err("an extended header that reaches into the next one".to_owned());
            };
            match header.entry_type() {
                EntryType::XHeader => records.add(content)?,
                EntryType::GNULongName => long.push((b"path", content)),
                EntryType::GNULongLink => long.push((b"linkpath", content)),
                _ => {}
            }
            blocks = behind;
        }
        long.into_iter().try_for_each(|(key, name)| records.add_long(key, name))?;
        Ok(records)
    }

    /// Adds a name in GNU's form, which ends with NUL.
    fn add_long(&mut self, key: &[u8], name: &[u8]) -> Result<(), String> {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        match self.get(key) {
            Some(other) if other != name => Err("extended headers from which programs read different names".to_owned()),
            _ => {
                self.push(key, name);
                Ok(())
            }
        }
    }

    /// Each record is its length in bytes, a space, a key, `=`, a value, and a newline.
    fn add(&mut self, mut content: &[u8]) -> Result<(), String> {
        while !content.is_empty() {
            let (record, rest) = divide(content).ok_or_else(|| "a damaged record in its extended header".to_owned())?;
            self.0.push(record);
            content = rest;
        }
        Ok(())
    }

    /// The value of a key, the last one if there are several. An empty value means that there is none.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let last = self.0.iter().rev().find(|(name, _)| name == key);
        last.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    /// A number in decimal digits.
    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        let Some(value) = self.get(key.as_bytes()) else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| format!("its {key} is {:?}, which is no number", String::from_utf8_lossy(value)))
    }

    /// Whether the content is not stored as it is.
    pub(super) fn is_sparse(&self) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with(b"GNU.sparse."))
    }

    /// Removes the records of these keys.
    pub(crate) fn remove(&mut self, keys: &[&[u8]]) {
        self.0.retain(|(key, _)| !keys.contains(&key.as_slice()));
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.0.push((key.to_vec(), value.to_vec()));
    }

    /// The records as they stand in an archive.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in &self.0 {
            // The length counts its own digits.
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length = rest + length.to_string().len();
            }
            bytes.extend_from_slice(format!("{length} ").as_bytes());
            bytes.extend_from_slice(key);
            bytes.push(b'=');
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
        }
        bytes
    }
}

type Record = (Vec<u8>, Vec<u8>);

/// The first record, and what follows it.
fn divide(content: &[u8]) -> Option<(Record, &[u8])> {
    let space = memchr::memchr(b' ', content)?;
    let length: usize = std::str::from_utf8(content.get(..space)?).ok()?.parse().ok()?;
    let (record, rest) = content.split_at_checked(length)?;
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = memchr::memchr(b'=', text)?;
    let (key, value) = text.split_at_checked(equals)?;
    Some(((key.to_vec(), value.get(1..)?.to_vec()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[(&[u8], &[u8])]) -> ExtendedRecords {
        let mut all = ExtendedRecords::default();
        for (key, value) in records {
            all.push(key, value);
        }
        all
    }

    fn blocks(content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_size(content.len() as u64);
        header.set_cksum();
        let mut blocks = header.as_bytes().to_vec();
        blocks.extend_from_slice(content);
        blocks.resize(blocks.len().next_multiple_of(512), 0);
        blocks
    }

    #[test]
    fn records_are_read_by_their_lengths() {
        let long = [b'x'; 993];
        let records = of(&[
            (b"SCHILY.xattr.security.capability", b"\x01\n\x02 path=no\n"),
            (b"path", b"a=b"),
            (b"path", b"last"),
            (b"comment", b""),
            (b"k", &long),
        ]);
        let bytes = records.to_bytes();
        assert_eq!(ExtendedRecords::parse(&blocks(&bytes)), Ok(records.clone()));
        assert_eq!(records.get(b"path"), Some(&b"last"[..]));
        // Its length has four digits.
        assert!(bytes.windows(7).any(|piece| piece == b"1001 k="), "{}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn damaged_records_are_refused() {
        for damaged in ["x", "5 a=b\n", "6 a=bc", "6 a=b", "99 a=b\n", "6 ab-\n", "-6 a=b\n"] {
            assert!(ExtendedRecords::parse(&blocks(damaged.as_bytes())).is_err(), "{damaged:?}");
        }
        let mut cut = blocks(b"6 a=b\n");
        cut.truncate(600);
        assert!(ExtendedRecords::parse(&cut).is_err());
    }
}
