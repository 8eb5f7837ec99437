//! What the wrappers of a split binary point at.

use serde::Serialize;

use crate::error::Error;
use crate::msgpack::Cursor;
use crate::toc::encode;

/// The most that is read of a marker, in bytes.
pub(crate) const MAX_MARKER: usize = 64 << 10;

/// More search paths than any marker has.
const MAX_PATHS: u32 = 1 << 10;

/// Names the archives that may contain a binary's code objects, and the binary's name in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Marker {
    /// Paths of archives, relative to the binary's directory, in which `@GFXARCH@` stands for the target.
    pub kpack_search_paths: Vec<String>,
    /// The binary's name in archives.
    pub kernel_name: String,
}

impl Marker {
    /// The marker's bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a marker. Bytes after it, and bytes more than 64 KiB after its beginning, do not matter.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..MAX_MARKER).unwrap_or(bytes);
        decode(bytes).map_err(|error| Error::Metadata(error.to_string()))
    }
}

fn decode(bytes: &[u8]) -> Result<Marker, Error> {
    let mut cursor = Cursor::new(bytes);
    let (mut name, mut paths) = (None, None);
    for _ in 0..cursor.map()? {
        match cursor.text()? {
            "kernel_name" => name = Some(cursor.text()?.to_owned()),
            "kpack_search_paths" => paths = Some(texts(&mut cursor, MAX_PATHS)?),
            _ => cursor.skip()?,
        }
    }
    let missing = |what| Error::MessagePack(format!("{what} is missing"));
    Ok(Marker {
        kpack_search_paths: paths.ok_or_else(|| missing("kpack_search_paths"))?,
        kernel_name: name.ok_or_else(|| missing("kernel_name"))?,
    })
}

/// An array of at most `most` strings.
pub(crate) fn texts(cursor: &mut Cursor<'_>, most: u32) -> Result<Vec<String>, Error> {
    let count = cursor.array()?;
    if count > most {
        return Err(Error::MessagePack(format!("a list has more than {most} elements")));
    }
    (0..count).map(|_| cursor.text().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::Marker;

    #[test]
    fn a_marker_is_read_whatever_follows_it() {
        let paths = vec!["../.kpack/a_@GFXARCH@.kpack".to_owned()];
        let marker = Marker { kpack_search_paths: paths, kernel_name: "lib/x.so".to_owned() };
        let mut bytes = marker.encode();
        bytes.extend([0xC1; 40]);
        assert_eq!(Marker::decode(&bytes).unwrap(), marker);
        assert!(Marker::decode(&[0x80]).is_err());
        assert!(Marker::decode(&[]).is_err());
    }
}
