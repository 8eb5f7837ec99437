//! RECORD (Recording installed projects): every file with SHA-256 and size, in Python's `csv` dialect.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use super::digest::sha256_of_text;
use super::writer::Writer;
use super::{File, WheelError};
use crate::rope::Rope;
use crate::source::EntryPath;

/// The most lines: there is one for each file.
const MOST_LINES: usize = 1 << 20;

/// What the fat wheel's RECORD says.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    claims: HashMap<Box<[u8]>, Claim>,
    /// Paths that are listed twice with different digests, sorted.
    contradicted: Vec<Box<[u8]>>,
}

/// What a RECORD says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// SHA-256 of the content.
    pub sha256: [u8; 32],
    /// Bytes of it.
    pub size: u64,
}

impl Claims {
    /// Reads a RECORD file. Lines without a SHA-256 or without a size, which real wheels have, claim nothing; neither do
    /// paths that are listed twice with different digests, and nothing does if there are more than [`MOST_LINES`].
    pub fn parse(bytes: &[u8]) -> Self {
        let mut claims = HashMap::<Box<[u8]>, Option<Claim>>::new();
        let mut contradicted = Vec::<Box<[u8]>>::new();
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        for (number, row) in reader.byte_records().map_while(Result::ok).enumerate() {
            if number == MOST_LINES {
                return Self::default();
            }
            let mut fields = row.iter();
            let (Some(path), Some(digest), Some(size), None) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let claim = claim(digest, size);
            match claims.entry(path.into()) {
                Slot::Vacant(slot) => drop(slot.insert(claim)),
                Slot::Occupied(mut there) if *there.get() != claim => {
                    let states_two = there.insert(None).is_some() && claim.is_some();
                    contradicted.extend(states_two.then(|| path.into()));
                }
                Slot::Occupied(_) => {}
            }
        }
        contradicted.sort();
        contradicted.dedup();
        let claims = claims.into_iter().filter_map(|(path, claim)| Some((path, claim?))).collect();
        Self { claims, contradicted }
    }

    /// Paths that are listed twice with different digests. Installers leave that behind when two files of a wheel have one
    /// place: one of both was written over.
    pub fn contradicted(&self) -> impl Iterator<Item = &[u8]> {
        self.contradicted.iter().map(|path| &**path)
    }

    /// Every path, as it is written there, and what is claimed for it.
    pub fn all(&self) -> impl Iterator<Item = (&[u8], Claim)> {
        self.claims.iter().map(|(path, claim)| (&**path, *claim))
    }

    /// What is claimed for a path of the input.
    pub fn get(&self, path: &EntryPath) -> Option<Claim> {
        self.claims.get(path.as_bytes()).copied()
    }
}

fn claim(digest: &[u8], size: &[u8]) -> Option<Claim> {
    let sha256 = sha256_of_text(digest.strip_prefix(b"sha256=")?)?;
    Some(Claim { sha256, size: std::str::from_utf8(size).ok()?.parse().ok()? })
}

/// The RECORD of a wheel that consists of `files` and of the RECORD itself at `own`. Its length depends on the names
/// and sizes only; the digests are computed when they are read.
pub(super) fn record(files: &[File], own: &EntryPath) -> Result<Rope, WheelError> {
    let mut names = Vec::with_capacity(files.len());
    for file in files {
        names.push((file.name()?, file));
    }
    names.sort_by_key(|&(name, _)| name);
    let mut writer = Writer::default();
    for (name, file) in names {
        writer.put(quoted(name).as_bytes());
        writer.put(b",sha256=");
        writer.sha256(&file.digest);
        writer.put(format!(",{}\n", file.digest.content().size()).as_bytes());
    }
    let own = std::str::from_utf8(own.as_bytes()).map_err(|_| WheelError::NotUtf8(own.clone()))?;
    writer.put(format!("{},,\n", quoted(own)).as_bytes());
    Ok(writer.finish()?)
}

/// A field as Python's `csv` module writes it.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}
