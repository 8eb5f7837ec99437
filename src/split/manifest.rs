//! Reads the manifest of a part. `manifest_text` writes it.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use anyhow::ensure;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::file_digest::FileDigest;

/// The version of the format.
const VERSION: u32 = 1;

/// What a part holds, as its split wrote it.
#[derive(Debug, Deserialize)]
pub struct PartManifest {
    json_version: u32,
    /// The ID of the split.
    pub split_id: String,
    /// The name of the part.
    pub part: String,
    /// The names of all parts, if this is the host part.
    #[serde(default, deserialize_with = "bounded")]
    pub parts: Vec<String>,
    /// How the digests of files were computed.
    #[serde(deserialize_with = "file_digest")]
    pub digest: FileDigest,
    /// The split binaries of the host part; the archives and databases of a device part.
    pub files: Vec<StatedPartFile>,
}

/// A file of a part.
#[derive(Debug, Deserialize)]
pub struct StatedPartFile {
    /// Its path in the part.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its digest.
    #[serde(deserialize_with = "bytes")]
    pub digest: Box<[u8]>,
    /// The entries of an archive.
    #[serde(default)]
    pub entries: Option<Vec<StatedCode>>,
}

/// An entry of an archive: its name, the target of its code object, the size of that in bytes, and the XXH3-128 of its
/// bytes in the archive.
#[derive(Debug, Deserialize)]
pub struct StatedCode(pub String, pub String, pub u64, #[serde(deserialize_with = "stored_sum")] pub [u8; 16]);

impl PartManifest {
    /// Parses a manifest.
    pub fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let manifest: Self = serde_json::from_slice(text)?;
        let version = manifest.json_version;
        ensure!(version == VERSION, "its json_version is {version}; {VERSION} is known");
        let mut seen = HashSet::new();
        for file in &manifest.files {
            let (path, name) = (&file.path, manifest.digest.name());
            ensure!(
                file.digest.len() == manifest.digest.size(),
                "the digest of {path} has another length than {name} has"
            );
            ensure!(seen.insert(path), "it lists {path} twice");
        }
        Ok(manifest)
    }
}

/// What a list of a statement has.
pub(crate) trait ListItem {
    /// What it is, in the plural.
    const NAME: &'static str;
    /// How many there are at most. No real list is longer.
    const MOST: usize;
}

impl ListItem for String {
    const NAME: &'static str = "names";
    // Of parts or targets. There are processors for about a hundred.
    const MOST: usize = 4096;
}

/// A list that is not longer than any real one.
pub(crate) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de> + ListItem>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + ListItem> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "at most {} {}", T::MOST, T::NAME)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                if items.len() == T::MOST {
                    return Err(A::Error::custom(format!("a list has more than {} {}", T::MOST, T::NAME)));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Bounded(PhantomData))
}

fn file_digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FileDigest, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = [FileDigest::Sha256, FileDigest::Xxh3].into_iter().find(|digest| digest.name() == name);
    known.ok_or_else(|| D::Error::custom(format!("{name:?} is no known digest")))
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[u8]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    of_hex(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is no digest")))
}

fn stored_sum<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
    let bytes = bytes(deserializer)?;
    <[u8; 16]>::try_from(&*bytes).map_err(|_| D::Error::custom("the XXH3-128 of an entry has 32 digits"))
}

fn of_hex(text: &str) -> Option<Box<[u8]>> {
    let digits = text.bytes().map(|byte| char::from(byte).to_digit(16)).collect::<Option<Vec<_>>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::PartManifest;

    const FILE: &str = r#"{"path": "a", "size": 1, "digest": "00112233445566778899aabbccddeeff"}"#;

    fn manifest(digest: &str, files: &str) -> String {
        format!(r#"{{"json_version": 1, "split_id": "x", "part": "gfx942", "digest": "{digest}", "files": [{files}]}}"#)
    }

    #[test]
    fn what_is_listed_is_read() {
        let archive = r#"{"path": "b.kpack", "size":     7, "digest": "ffeeddccbbaa99887766554433221100", "target": "gfx942",
            "entries": [["x.so#0", "gfx942", 9, "000102030405060708090a0b0c0d0e0f"]]}"#;
        let read = PartManifest::parse(manifest("xxh3-128", &format!("{FILE}, {archive}")).as_bytes()).unwrap();
        assert_eq!((read.files[0].size, read.files[0].digest[15], read.files[1].size), (1, 0xff, 7));
        let entry = &read.files[1].entries.as_ref().unwrap()[0];
        assert_eq!((&*entry.0, &*entry.1, entry.2, entry.3[15]), ("x.so#0", "gfx942", 9, 0x0f));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let refused = [
            String::new(),
            "{}".to_owned(),
            manifest("md5", FILE),
            manifest("sha256", FILE),
            manifest("xxh3-128", &format!("{FILE}, {FILE}")),
            manifest("xxh3-128", &FILE.replace("ff\"", "f\"")),
            manifest("xxh3-128", &FILE.replace("00112", "+0112")),
            manifest("xxh3-128", FILE).replace("\"json_version\": 1", "\"json_version\": 2"),
        ];
        for text in refused {
            assert!(PartManifest::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
