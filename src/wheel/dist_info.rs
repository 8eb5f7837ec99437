//! The files of a dist-info directory, read from an input.

use super::{Claims, Metadata, Stated, WheelError, WheelFile};
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, PackedContent};
use crate::source::{Entry, EntryPath, Input};
use crate::text::more;

impl Metadata {
    /// Reads the METADATA of a wheel, packed or unpacked.
    pub fn read(input: &Input) -> Result<Self, WheelError> {
        Self::read_at(input, input.dist_info().ok_or(WheelError::NotAWheel)?)
    }

    /// Reads the METADATA in a dist-info directory, of which an installation has several.
    pub(crate) fn read_at(input: &Input, dist_info: &EntryPath) -> Result<Self, WheelError> {
        let path = dist_info.child(b"METADATA");
        Self::parse(limited(input, &path, Parser::Metadata)?.into_bytes(), &path)
    }

    /// The METADATA of all distributions in an installation, as far as it can be read.
    pub(crate) fn installed(input: &Input) -> impl Iterator<Item = Self> {
        let is_it = |path: &&EntryPath| path.depth() == 2 && path.name() == b"METADATA" && path.is_in_dist_info();
        let paths = input.files().map(|(path, _)| path).filter(is_it);
        paths.filter_map(|path| Self::read_at(input, &path.parent()?).ok())
    }

    /// Parses a METADATA file that was made.
    pub(crate) fn of_file(content: &dyn Content) -> Result<Self, WheelError> {
        let path = EntryPath::root().child(b"METADATA");
        Self::parse(whole(&path, Some(content), Parser::Metadata)?.into_bytes(), &path)
    }
}

impl WheelFile {
    /// Reads the WHEEL at `path`.
    pub(crate) fn read(input: &Input, path: &EntryPath) -> Result<Self, WheelError> {
        Self::parse(text(input, path)?.into_bytes(), path)
    }
}

impl Claims {
    /// Reads the RECORD at `path`.
    pub fn read(input: &Input, path: &EntryPath) -> Result<Self, WheelError> {
        Ok(Self::parse(&limited(input, path, Parser::Record)?))
    }

    /// Reads the RECORD at `path`, if there is one.
    pub(crate) fn of_file(path: &EntryPath, content: Option<&dyn Content>) -> Result<Self, WheelError> {
        Ok(Self::parse(&whole(path, content, Parser::Record)?))
    }

    /// A problem that is visible without reading the files.
    pub(crate) fn problem(&self, input: &Input) -> Option<String> {
        let has_another_size = |entry: &Entry| {
            let sizes = entry.content().zip(self.get(&entry.path));
            sizes.is_some_and(|(content, claim)| content.size() != claim.size)
        };
        let several = self.rows().filter(|(_, stated)| *stated == Stated::Several).map(|(path, _)| path);
        let entries = input.entries.iter().filter(|entry| has_another_size(entry)).map(|entry| entry.path.as_bytes());
        let mut wrong: Vec<_> = several.chain(entries).collect();
        wrong.sort_unstable();
        let (first, rest) = wrong.split_first()?;
        let more = more(rest.len(), "");
        let first = String::from_utf8_lossy(first);
        Some(format!("{first:?}{more}: RECORD states another size, or two digests; the wheels state what is right"))
    }
}

/// Whether the input is a wheel whose RECORD states digests. There are wheels whose RECORD has sizes only.
pub fn states_digests(input: &Input) -> bool {
    let record = input.dist_info().map(|dist_info| dist_info.child(b"RECORD"));
    let claims = record.and_then(|record| Claims::read(input, &record).ok());
    claims.is_some_and(|claims| claims.rows().any(|(_, stated)| stated.claim().is_some()))
}

/// The content of a short file of the dist-info directory.
pub(crate) fn text(input: &Input, path: &EntryPath) -> Result<WholeFile, WheelError> {
    limited(input, path, Parser::Text)
}

fn limited(input: &Input, path: &EntryPath, parser: Parser) -> Result<WholeFile, WheelError> {
    whole(path, input.content(path).map(|content| &**content), parser)
}

fn whole(path: &EntryPath, content: Option<&dyn Content>, parser: Parser) -> Result<WholeFile, WheelError> {
    let bad = |reason: &str| WheelError::DistInfo { path: path.clone(), reason: reason.to_owned() };
    let content = content.ok_or_else(|| bad("there is no such file"))?;
    parser.check(content.size()).map_err(|error| bad(&error.to_string()))?;
    let bytes = WholeFile::of(parser, content)?;
    match content.member().map(PackedContent::packed) {
        Some(packed) if packed.deflated && packed.crc32 != crc32fast::hash(&bytes) => {
            Err(bad("the content does not have the CRC-32 that the zip file claims"))
        }
        _ => Ok(bytes),
    }
}
