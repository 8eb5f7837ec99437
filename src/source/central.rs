//! The central directory of a wheel. The `zip` crate finds and parses it; this module reads as few bytes as possible
//! for it and bounds its memory.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use memchr::memmem;
use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config, ZipFileEntry};
use zip::result::{ZipError, ZipResult};
use zip::unstable::read::ZipIterable;

use super::error::is_named_wheel;
use super::member::OpenWheel;
use super::tar::sought;
use super::{SourceError, unknown};
use crate::disk;
use crate::rope::{Content, to_usize};

/// The most members that a wheel may have. The largest ROCm wheels have some ten thousand.
pub(super) const MAX_MEMBERS: u64 = 1 << 20;

/// The most bytes that are read to find and parse the central directory: 512 for each of [`MAX_MEMBERS`].
const MAX_READ: u64 = 512 << 20;

/// Bytes read at a time.
const BLOCK: u64 = 4 << 10;

/// What the end of the central directory begins with (APPNOTE.TXT 4.3.16).
const END_BEGIN: &[u8] = b"PK\x05\x06";

/// What a Zip64 end record begins with (APPNOTE.TXT 4.3.14).
const ZIP64_END: &[u8] = b"PK\x06\x06";

/// The end of the central directory, without its comment (APPNOTE.TXT 4.3.16).
type EndRecord = [u8; 22];

/// Lengths of it, and of the Zip64 locator before it (4.3.15).
const END: u64 = size_of::<EndRecord>() as u64;
const LOCATOR: u64 = 20;

/// The most bytes of the end of the central directory with its comment.
const TAIL: u64 = END + u16::MAX as u64;

/// Parses the central directory of the wheel at `location`: what `member` makes of each entry, in order, and where the
/// directory starts. Two entries may have one name.
pub(super) fn parse<T>(
    wheel: &OpenWheel,
    entry: &Arc<str>,
    location: &Path,
    member: impl Fn(&ZipFileEntry<'_>) -> Result<T, SourceError>,
) -> Result<(Vec<T>, u64), SourceError> {
    let explain = |error| match error {
        ZipError::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            SourceError::NotAWheel { path: location.to_owned(), reason: "the zip file is truncated".into() }
        }
        ZipError::Io(source) => SourceError::Io { path: location.to_owned(), source },
        other => broken(location, &other),
    };
    let mut window = Window::new(wheel, entry);
    let prefix = plain_end(&mut window).map_err(|source| explain(source.into()))?;
    if prefix.is_none() {
        check_claims(&mut window, location)?;
    }
    let prefix = prefix.unwrap_or(0);
    match one_by_one(window, Config { archive_offset: ArchiveOffset::Known(prefix) }, &member) {
        Ok(Parsed::All(members, start)) => return check_prefix(prefix, location).map(|()| (members, start)),
        Ok(Parsed::TooMany(error)) => return Err(error),
        Ok(Parsed::Broken) | Err(_) => {}
    }
    // With a table of all names, which takes longer than all of the above, the parser says what is wrong, or finds another
    // end of a directory.
    check_claims(&mut Window::new(wheel, entry), location)?;
    // Behind other bytes it may have a comment or Zip64.
    let config = Config { archive_offset: ArchiveOffset::Detect };
    let archive = ZipArchive::with_config(config, Window::new(wheel, entry)).map_err(explain)?;
    check_prefix(archive.offset(), location)?;
    if archive.has_duplicate_names() {
        let reason = "several of its members have one name; build it again".to_owned();
        return Err(SourceError::NotAWheel { path: location.to_owned(), reason });
    }
    let read = |number| archive.by_index_data(number).map_err(|error| broken(location, &error));
    let members = (0..archive.len()).map(|number| member(&read(number)?));
    Ok((members.collect::<Result<_, _>>()?, archive.central_directory_start()))
}

/// The error of a parser that cannot read the directory.
pub(super) fn broken(location: &Path, error: &ZipError) -> SourceError {
    let reason = match error {
        // The crate has no variant of its own for several volumes.
        ZipError::InvalidArchive(what) if what.starts_with("Multi-disk") => {
            return SourceError::UnknownKind { path: location.to_owned(), what: unknown::VOLUME };
        }
        ZipError::InvalidArchive(what) => format!("its directory is damaged ({what}); download it again"),
        other => other.to_string(),
    };
    SourceError::NotAWheel { path: location.to_owned(), reason }
}

/// Fails if a wheel has bytes before it, which other zip files may have, as those that unpack themselves. Of the installers, pip
/// 26.3 passes over such bytes and uv 0.13.9 refuses them.
fn check_prefix(length: u64, location: &Path) -> Result<(), SourceError> {
    if length == 0 || !is_named_wheel(location) {
        return Ok(());
    }
    let reason =
        format!("{length} bytes are before its zip file, which not all installers take; build it without them");
    Err(SourceError::NotAWheel { path: location.to_owned(), reason })
}

/// What was found in a central directory.
enum Parsed<T> {
    /// All entries, and where the directory starts.
    All(Vec<T>, u64),
    /// More entries than there is memory for.
    TooMany(SourceError),
    /// Something is wrong with an entry.
    Broken,
}

/// Parses the central directory without a table of names.
fn one_by_one<T>(
    window: Window<'_>,
    config: Config,
    member: impl Fn(&ZipFileEntry<'_>) -> Result<T, SourceError>,
) -> ZipResult<Parsed<T>> {
    let mut archive = ZipIterable::try_new(window, config)?;
    if archive.len() as u64 > MAX_MEMBERS {
        return Ok(Parsed::Broken);
    }
    let mut members = Vec::with_capacity(archive.len());
    let mut start = 0;
    for entry in archive.files()? {
        let entry = entry?;
        if members.is_empty() {
            start = entry.central_header_start();
        }
        match member(&entry) {
            Ok(member) => members.push(member),
            Err(error @ SourceError::Tables { .. }) => return Ok(Parsed::TooMany(error)),
            Err(_) => return Ok(Parsed::Broken),
        }
    }
    Ok(Parsed::All(members, start))
}

/// The first bytes, as many as tell formats apart.
fn head(window: &mut Window<'_>) -> Vec<u8> {
    let mut head = Vec::new();
    window.rewind().and_then(|()| window.take(unknown::HEAD).read_to_end(&mut head)).ok();
    head
}

/// Fails if the file has no directory, or one that may have too many members for a table of all names.
fn check_claims(window: &mut Window<'_>, location: &Path) -> Result<(), SourceError> {
    let claimed = claimed_members(window).map_err(|source| SourceError::Io { path: location.to_owned(), source })?;
    let reason = match claimed {
        None if head(window).starts_with(unknown::ZIP) => {
            "it is truncated or damaged: it begins as a zip file, and has no directory at its \
                                          end; download it again"
                .to_owned()
        }
        None => return Err(unknown::begins_with(location, &head(window))),
        Some(members) if members > MAX_MEMBERS => format!("it has {members} members, and the limit is {MAX_MEMBERS}"),
        Some(_) => return Ok(()),
    };
    Err(SourceError::NotAWheel { path: location.to_owned(), reason })
}

/// The length of what is before the zip file, if the file ends as wheels do: with the end of a directory that lies just before
/// it, without a comment and without Zip64. Then nothing else has to be read to find the directory.
fn plain_end(window: &mut Window<'_>) -> io::Result<Option<u64>> {
    let Some(start) = window.wheel.bytes.size().checked_sub(END) else { return Ok(None) };
    let mut record = [0; 22];
    window.seek(SeekFrom::Start(start))?;
    window.read_exact(&mut record)?;
    // APPNOTE.TXT 4.3.16: signature 0, numbers of entries 8 and 10, size 12 and offset 16 of the directory, length of the
    // comment 20.
    let [b'P', b'K', 5, 6, 0, 0, 0, 0, n0, n1, _, _, s0, s1, s2, s3, o0, o1, o2, o3, 0, 0] = record else {
        return Ok(None);
    };
    let (size, offset) = (u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([o0, o1, o2, o3]));
    let prefix = start.checked_sub(u64::from(offset) + u64::from(size));
    Ok(prefix.filter(|_| [n0, n1] != [0xff, 0xff]))
}

/// Whether a file ends as zip files do, whatever it begins with: with the end of a central directory, perhaps with a comment.
pub(crate) fn ends_as_zip(location: &Path) -> io::Result<bool> {
    let (mut file, metadata) = disk::open(location)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(metadata.len().saturating_sub(TAIL)))?;
    file.take(TAIL).read_to_end(&mut tail)?;
    Ok(end_in(&tail).is_some())
}

/// Where the end of a central directory begins that ends at an offset. `None` if there is none, or it cannot be read.
pub(super) fn end_before(content: &dyn Content, offset: u64) -> Option<u64> {
    let start = offset.saturating_sub(TAIL);
    let mut tail = vec![0; to_usize(offset - start)];
    content.read_at(start, &mut tail).ok()?;
    Some(start.saturating_add(end_in(&tail)? as u64))
}

/// Where the end of a central directory begins that is the last of these bytes.
fn end_in(tail: &[u8]) -> Option<usize> {
    // APPNOTE.TXT 4.3.16: length of the comment 20.
    let is_end = |(at, record): &(usize, &EndRecord)| {
        let [.., c0, c1] = **record;
        at + record.len() + usize::from(u16::from_le_bytes([c0, c1])) == tail.len()
    };
    ends_in(tail).filter(is_end).last().map(|(at, _)| at)
}

/// What may be the end of a central directory, without its comment, and where it is in these bytes.
fn ends_in(tail: &[u8]) -> impl Iterator<Item = (usize, &EndRecord)> {
    memmem::find_iter(tail, END_BEGIN).filter_map(|at| Some((at, tail.get(at..)?.first_chunk()?)))
}

/// The largest number of members that any possible end of the central directory claims; `None` if there is no such end.
/// The parser allocates memory for that many, so the number is checked first.
fn claimed_members(window: &mut Window<'_>) -> io::Result<Option<u64>> {
    let size = window.wheel.bytes.size();
    let start = size.saturating_sub(TAIL + LOCATOR);
    let mut tail = vec![0; usize::try_from(size - start).unwrap_or(0)];
    window.seek(SeekFrom::Start(start))?;
    window.read_exact(&mut tail)?;
    let mut most = None;
    for (at, record) in ends_in(&tail) {
        // APPNOTE.TXT 4.3.16: number of entries on this disk 8.
        let [_, _, _, _, _, _, _, _, n0, n1, ..] = *record;
        let mut members = u64::from(u16::from_le_bytes([n0, n1]));
        // 4.3.15: signature 0, offset of the Zip64 end record 8.
        let locator = at.checked_sub(20).and_then(|at| tail.get(at..)).and_then(|tail| tail.first_chunk::<16>());
        if let Some(&[b'P', b'K', 6, 7, _, _, _, _, ref offset @ ..]) = locator {
            members = members.max(zip64_members(window, u64::from_le_bytes(*offset))?);
        }
        most = most.max(Some(members));
    }
    Ok(most)
}

/// The number of members that the Zip64 end record at `offset` claims. 0 if there is none, as when the locator belongs
/// to a zip file inside of this one.
fn zip64_members(window: &mut Window<'_>, offset: u64) -> io::Result<u64> {
    // 4.3.14: signature 0, total number of entries 32.
    let mut record = [0; 40];
    if offset.checked_add(record.len() as u64).is_none_or(|end| end > window.wheel.bytes.size()) {
        return Ok(0);
    }
    window.seek(SeekFrom::Start(offset))?;
    window.read_exact(&mut record)?;
    let (start, count) = record.split_at(32);
    let count = count.first_chunk().map_or(0, |count| u64::from_le_bytes(*count));
    Ok(if start.starts_with(ZIP64_END) { count } else { 0 })
}

/// Reads the wheel in blocks and keeps the last block.
struct Window<'a> {
    wheel: &'a OpenWheel,
    entry: &'a Arc<str>,
    at: u64,
    start: u64,
    block: Vec<u8>,
    allowance: u64,
}

impl<'a> Window<'a> {
    fn new(wheel: &'a OpenWheel, entry: &'a Arc<str>) -> Self {
        Self { wheel, entry, at: 0, start: 0, block: Vec::new(), allowance: MAX_READ }
    }
}

impl Read for Window<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.wheel.bytes.size();
        if self.at >= size || buffer.is_empty() {
            return Ok(0);
        }
        let start = self.at & !(BLOCK - 1);
        if self.block.is_empty() || start != self.start {
            let length = BLOCK.min(size - start);
            self.allowance = self
                .allowance
                .checked_sub(length)
                .ok_or_else(|| io::Error::other(format!("the central directory takes more than {MAX_READ} bytes")))?;
            self.block.clear();
            let mut block = vec![0; usize::try_from(length).unwrap_or(0)];
            self.wheel.read(self.entry, start, &mut block).map_err(io::Error::other)?;
            (self.start, self.block) = (start, block);
        }
        let skip = to_usize(self.at - start);
        let count = self.block.get(skip..).unwrap_or_default().read(buffer)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

impl Seek for Window<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = sought(to, self.at, self.wheel.bytes.size())?;
        Ok(self.at)
    }
}
