//! The names of files in a Tensile catalogue that is loaded lazily.
//!
//! `TensileLibrary_lazy_<arch>.dat` is a msgpack tree. Its leaves are placeholders, each with the name of a file without
//! its suffix: `TensileLibrary_Type_HH_Contraction_…_gfx1100` (`PlaceholderLibrary.hpp` of Tensile, ROCm/rocm-libraries
//! 203f2e7b). The form of the tree differs between versions, so only strings that look like such a name are read.

use std::collections::BTreeSet;
use std::io::{self, Read};

use flate2::bufread::ZlibDecoder;
use memchr::memmem;
use serde::de::IgnoredAny;

use crate::memory::{Parser, WholeFile};

/// How names of files begin.
const PREFIX: &[u8] = b"TensileLibrary_";

/// The longest name. Real ones have at most 130 characters.
const MAX_NAME: usize = 255;

/// The names in a catalogue, whose bytes hipBLASLt may compress by zlib. An error if it is damaged, or empty.
pub fn names(stored: &[u8], is_compressed: bool) -> Result<BTreeSet<String>, String> {
    let inflated = is_compressed.then(|| inflate(stored)).transpose()?;
    let bytes = inflated.as_deref().unwrap_or(stored);
    begins(bytes)?;
    rmp_serde::from_slice::<IgnoredAny>(bytes).map_err(|_| "it is no whole msgpack tree".to_owned())?;
    let starts = memmem::find_iter(bytes, PREFIX);
    Ok(starts.filter_map(|start| name_at(bytes, start)).collect())
}

/// Checks the first byte of a catalogue: only a map or an array is a tree.
pub fn begins(bytes: &[u8]) -> Result<(), String> {
    match bytes.first() {
        None => Err("it is empty".to_owned()),
        Some(0x80..=0x9f | 0xdc..=0xdf) => Ok(()),
        Some(_) => Err("it is no msgpack tree".to_owned()),
    }
}

fn inflate(stored: &[u8]) -> Result<WholeFile, String> {
    let most = Parser::Catalogue.ceiling();
    let read = |bytes: &mut Vec<u8>| -> io::Result<()> {
        bytes.clear();
        let read = ZlibDecoder::new(stored).take(most).read_to_end(bytes)? as u64;
        if read < most { Ok(()) } else { Err(io::Error::other(format!("it becomes {most} bytes or more"))) }
    };
    WholeFile::new(Parser::Catalogue, most, read).map_err(|error| format!("it cannot be decompressed: {error}"))
}

/// The string that starts at `start`, if the bytes before it state its length as msgpack does.
fn name_at(bytes: &[u8], start: usize) -> Option<String> {
    let before = |distance: usize| bytes.get(start.checked_sub(distance)?).copied().map(usize::from);
    let text = |length: usize| {
        let text = bytes.get(start..start.checked_add(length)?)?;
        let is_name =
            length <= MAX_NAME && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_+-.".contains(byte));
        is_name.then(|| String::from_utf8_lossy(text).into_owned())
    };
    let last = before(1)?;
    // fixstr has its length in five bits, str 8 in one byte, str 16 in two.
    match (before(2), before(3)) {
        (Some(0xd9), _) => text(last),
        (Some(high), Some(0xda)) => text(high << 8 | last),
        _ if last >> 5 == 0b101 => text(last & 0x1f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use serde_json::json;

    use super::names;

    #[test]
    fn names_are_those_of_placeholders() {
        let long = format!("TensileLibrary_Type_{}_gfx942", "x".repeat(225));
        let tree = json!({
            "version": "4.33.0",
            "library": {"type": "Hardware", "rows": [
                {"library": {"type": "Placeholder", "value": "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx942"}},
                {"library": {"type": "Placeholder", "value": "TensileLibrary_SS_gfx942"}},
                {"library": {"type": "Placeholder", "value": long}},
                {"library": {"type": "Placeholder", "value": "TensileLibrary_Type_SS_../../x"}},
            ]},
        });
        let bytes = rmp_serde::to_vec(&tree).unwrap();
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&bytes).unwrap();
        let packed = encoder.finish().unwrap();
        let expected =
            ["TensileLibrary_SS_gfx942", "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx942", &*long];
        for (stored, is_compressed) in [(&bytes, false), (&packed, true)] {
            let names = names(stored, is_compressed).unwrap();
            assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{is_compressed}");
        }
        for damage in [&b""[..], b"\x78\x9cgarbage", b"PK"] {
            assert!(names(damage, false).is_err() && names(damage, true).is_err(), "{damage:?}");
        }
    }
}
