//! The members of a tar archive, one after the other. Only their headers are read.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tar::{Archive, EntryType};

use super::extended::ExtendedRecords;
use super::reader::{ContentReader, MAX_HEADER};
use super::{BLOCK, is_end, is_header};
use crate::rope::{Content, Rope, Segment, to_usize};
use crate::source::path::EntryPath;
use crate::source::{Attributes, PathError, SourceError};

/// The most bytes of a path, with its terminating NUL (linux/limits.h).
const PATH_MAX: usize = 4096;

/// A member.
#[derive(Debug)]
pub(crate) struct TarMember {
    /// Its name as it is written there.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryType,
    /// The target of a link.
    pub(crate) link: Vec<u8>,
    pub(crate) attributes: Attributes,
    /// The bytes of its content.
    pub(crate) content: Range<u64>,
    /// All of its blocks: its headers, with those that extend them, and its content.
    pub(crate) blocks: Range<u64>,
    is_sparse: bool,
}

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveEnd {
    /// With the empty blocks that end an archive, the first of which is here.
    Blocks(u64),
    /// After the content of a member, perhaps without its padding. An archive that was truncated there looks the same.
    Member,
}

/// Where the size and the type of a member are in its header.
const SIZE: Range<usize> = 124..136;
const KIND: usize = 156;

/// The types of members that GNU tar adds (GNU tar's manual, "Basic Tar Format"): the label of a volume, which is no file, and
/// a directory whose content is the list of its files at the time of an incremental backup.
const VOLUME_LABEL: u8 = b'V';
const DUMP_DIRECTORY: u8 = b'D';
/// The rest of a file that another volume begins.
const CONTINUATION: u8 = b'M';

impl TarMember {
    /// `start` is the end of the member before it. Positions of the crate count from `base`.
    fn of(
        member: &tar::Entry<'_, ContentReader>,
        start: u64,
        base: u64,
        archive: &dyn Content,
    ) -> Result<Self, String> {
        let (header, kind) = (member.header(), member.header().entry_type());
        let kind = if kind.as_byte() == DUMP_DIRECTORY { EntryType::Directory } else { kind };
        let number = |number: io::Result<u64>| number.map_err(|error| error.to_string());
        let extended = match kind {
            EntryType::XGlobalHeader => ExtendedRecords::default(),
            _ => read_extended(archive, start..base.saturating_add(member.raw_header_position()))?,
        };
        let (from, size) = (base.saturating_add(member.raw_file_position()), member.size());
        if extended.number("size")?.is_some_and(|stated: u64| stated != size) {
            return Err("an extended header from which programs read different sizes".to_owned());
        }
        let text = |key: &[u8], other: Option<Cow<'_, [u8]>>| {
            extended.get(key).map_or_else(|| other.map(Cow::into_owned).unwrap_or_default(), <[u8]>::to_vec)
        };
        let (name, link) = (text(b"path", Some(header.path_bytes())), text(b"linkpath", header.link_name_bytes()));
        let (mtime, mtime_nanoseconds) = match extended.get(b"mtime").and_then(time) {
            Some(time) => time,
            None => (header_time(header).map_err(|error| error.to_string())?, 0),
        };
        let owner = |key, of_header: io::Result<u64>| -> Result<u32, String> {
            let owner = extended.number(key)?.map_or_else(|| number(of_header), Ok)?;
            u32::try_from(owner).map_err(|_| format!("its {key} is {owner}, which no system has"))
        };
        // A field without digits is 0, as for GNU tar.
        let field = |field: &[u8], number: io::Result<u64>| if is_empty(field) { Ok(0) } else { number };
        let fields = header.as_old();
        let mode = number(field(&fields.mode, header.mode().map(u64::from)))?;
        let mode = u16::try_from(mode & 0o7777).unwrap_or(0);
        let uid = owner("uid", field(&fields.uid, header.uid()))?;
        let gid = owner("gid", field(&fields.gid, header.gid()))?;
        let attributes = Attributes { mode, uid, gid, mtime, mtime_nanoseconds };
        let content = from..from.saturating_add(size);
        let end = content.end.checked_next_multiple_of(BLOCK).filter(|end| *end >= start);
        let blocks = start..end.ok_or_else(|| "a size that no archive has".to_owned())?;
        let is_sparse = extended.is_sparse() || kind == EntryType::GNUSparse;
        Ok(Self { name, kind, link, attributes, content, blocks, is_sparse })
    }

    /// The target of a symlink.
    pub(crate) fn symlink_target(&self) -> Result<Arc<[u8]>, &'static str> {
        if self.link.is_empty() || self.link.contains(&0) {
            return Err("a symlink that leads nowhere");
        }
        // symlink(2) refuses it, since PATH_MAX counts the terminating NUL.
        if self.link.len() >= PATH_MAX {
            return Err("a symlink whose target is too long for a file system");
        }
        Ok(self.link.as_slice().into())
    }

    /// Fails if a file's bytes are not those of the archive.
    pub(crate) fn check_content(&self, archive: &dyn Content) -> Result<(), &'static str> {
        if self.is_sparse {
            return Err("a sparse file, which cannot be read in place; unpack the archive");
        }
        if self.content.end > archive.size() {
            return Err(TRUNCATED);
        }
        Ok(())
    }
}

/// What a member of this type is, in messages.
pub(crate) fn kind_name(kind: EntryType) -> String {
    match kind {
        EntryType::Char => "a character device".to_owned(),
        EntryType::Block => "a block device".to_owned(),
        EntryType::Fifo => "a FIFO".to_owned(),
        other if other.as_byte() == CONTINUATION => "the rest of a file that another volume begins".to_owned(),
        other => format!("of the unknown type {:?}", char::from(other.as_byte())),
    }
}

/// Calls `visit` for each member of the archive at `location`. Its errors are about that member.
pub(crate) fn read_members(
    location: &Path,
    archive: &Arc<dyn Content>,
    visit: &mut dyn FnMut(TarMember) -> Result<(), String>,
) -> Result<ArchiveEnd, SourceError> {
    let unusable = |error: io::Error| SourceError::NotATar { path: location.to_owned(), reason: error.to_string() };
    if archive.size() == 0 {
        return Ok(ArchiveEnd::Member);
    }
    let base = first_member(&**archive).map_err(unusable)?;
    let members = Segment::range(Arc::clone(archive), base, archive.size().saturating_sub(base));
    let members = members.and_then(|range| Rope::new([range])).map_err(|error| unusable(io::Error::other(error)))?;
    // Members are skipped, so only their headers are read.
    let allowance = Rc::new(Cell::new(MAX_HEADER));
    let mut reader = ContentReader::new(&(Arc::new(members) as Arc<dyn Content>));
    reader.allowance = Some(Rc::clone(&allowance));
    let is_at_end = Rc::clone(&reader.is_at_end);
    let mut tar = Archive::new(reader);
    let (mut last, mut end) = (None, base);
    for member in tar.entries_with_seek().map_err(unusable)? {
        let member = member.map_err(|error| match &last {
            Some(last) => unusable(io::Error::other(format!("after member {last:?}: {}", explain(&error)))),
            None => unusable(io::Error::other(explain(&error))),
        })?;
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let bad = |reason: String| SourceError::BadMember { path: location.to_owned(), member: name.clone(), reason };
        let content_end = base.saturating_add(member.raw_file_position()).saturating_add(member.size());
        if member.header().entry_type().as_byte() == VOLUME_LABEL {
            end = content_end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        } else {
            let member = TarMember::of(&member, end, base, &**archive).map_err(bad)?;
            end = member.blocks.end;
            visit(member).map_err(bad)?;
        }
        if content_end > archive.size() {
            return Err(bad(TRUNCATED.to_owned()));
        }
        last = Some(name);
        allowance.set(MAX_HEADER);
    }
    Ok(if is_at_end.get() { ArchiveEnd::Member } else { ArchiveEnd::Blocks(end) })
}

/// Where the members begin. GNU tar writes a label in front of them, without digits in its size, which the crate refuses.
fn first_member(archive: &dyn Content) -> io::Result<u64> {
    let mut first = vec![0; to_usize(archive.size().min(BLOCK))];
    archive.read_at(0, &mut first).map_err(io::Error::other)?;
    if !is_header(&first) && !is_end(&first) {
        return Err(io::Error::other("its content does not begin as a tar archive does"));
    }
    let is_label = first.get(KIND) == Some(&VOLUME_LABEL) && first.get(SIZE).is_some_and(is_empty);
    Ok(if is_label { BLOCK } else { 0 })
}

/// An error of the parser, without the bytes of a damaged header, which it quotes.
fn explain(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("numeric field") { "a damaged header".to_owned() } else { text }
}

/// Why a member cannot be read whose content is longer than the archive.
const TRUNCATED: &str = "it reaches past the end of the archive, which is truncated; get it again";

/// The time of a header in seconds since 1970: octal digits, or any number in GNU's form, which is big-endian, in two's
/// complement, and has the top bit of the field set (GNU tar's manual, "Basic Tar Format"). Times that the system does not
/// have become the first or the last one.
fn header_time(header: &tar::Header) -> io::Result<i64> {
    let [first, rest @ ..] = &header.as_old().mtime;
    if is_empty(&header.as_old().mtime) {
        return Ok(0);
    }
    if first & 0x80 == 0 {
        return header.mtime().map(|time| i64::try_from(time).unwrap_or(i64::MAX));
    }
    // The next bit is the sign.
    let sign_extended = i128::from((first << 1).cast_signed() >> 1);
    let time = rest.iter().fold(sign_extended, |time, byte| (time << 8) | i128::from(*byte));
    Ok(i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX }))
}

/// Whether a field of a header has no digits.
fn is_empty(field: &[u8]) -> bool {
    field.iter().all(|byte| matches!(byte, b' ' | 0))
}

/// The records of the extended headers in these blocks.
pub(crate) fn read_extended(archive: &dyn Content, blocks: Range<u64>) -> Result<ExtendedRecords, String> {
    let length = blocks.end.saturating_sub(blocks.start);
    if length > MAX_HEADER {
        return Err(format!("a header of more than {MAX_HEADER} bytes"));
    }
    let mut bytes = vec![0; to_usize(length)];
    archive.read_at(blocks.start, &mut bytes).map_err(|error| error.to_string())?;
    ExtendedRecords::parse(&bytes)
}

/// Seconds and nanoseconds of a decimal number: -1.5 is half a second after -2. As for GNU tar, a time with more than nine
/// digits behind the point is rounded down.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !seconds.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (seconds, mut nanoseconds) = (seconds.parse::<i64>().ok()?, format!("{fraction:0<9}").get(..9)?.parse().ok()?);
    if !is_negative {
        return Some((seconds, nanoseconds));
    }
    if fraction.bytes().skip(9).any(|digit| digit != b'0') {
        nanoseconds += 1;
    }
    Some(if nanoseconds == 0 { (-seconds, 0) } else { (-seconds - 1, 1_000_000_000 - nanoseconds) })
}

/// The path of a member; `None` for the root. As in all paths (POSIX, 4.16), empty components and `.` say nothing: `tar -cf
/// x.tar top/.` stores names such as `top/./a`.
pub(crate) fn path_of(name: &[u8]) -> Result<Option<EntryPath>, PathError> {
    if name.first() == Some(&b'/') {
        return Err(PathError::Absolute);
    }
    let components = name.split(|&byte| byte == b'/').filter(|it| !matches!(*it, b"" | b"."));
    let name = components.collect::<Vec<_>>().join(&b'/');
    if name.is_empty() { Ok(None) } else { EntryPath::new(&name).map(Some) }
}
