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
use crate::rope::{Content, to_usize};
use crate::source::path::EntryPath;
use crate::source::{Attributes, PathError, SourceError};

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

impl TarMember {
    /// `start` is the end of the member before it.
    fn of(member: &tar::Entry<'_, ContentReader>, start: u64, archive: &dyn Content) -> Result<Self, String> {
        let (header, kind) = (member.header(), member.header().entry_type());
        let number = |number: io::Result<u64>| number.map_err(|error| error.to_string());
        let extended = match kind {
            EntryType::XGlobalHeader => ExtendedRecords::default(),
            _ => read_extended(archive, start..member.raw_header_position())?,
        };
        let (from, size) = (member.raw_file_position(), member.size());
        if extended.number("size")?.is_some_and(|stated: u64| stated != size) {
            return Err("an extended header from which programs read different sizes".to_owned());
        }
        let text = |key: &[u8], other: Option<Cow<'_, [u8]>>| {
            extended.get(key).map_or_else(|| other.map(Cow::into_owned).unwrap_or_default(), <[u8]>::to_vec)
        };
        let (name, link) = (text(b"path", Some(header.path_bytes())), text(b"linkpath", header.link_name_bytes()));
        let (mtime, mtime_nanoseconds) = match extended.get(b"mtime").and_then(time) {
            Some(time) => time,
            None => (i64::try_from(number(header.mtime())?).unwrap_or(i64::MAX), 0),
        };
        let mode = u16::try_from(header.mode().map_err(|error| error.to_string())? & 0o7777).unwrap_or(0);
        let owner = |key, of_header: io::Result<u64>| -> Result<u32, String> {
            let owner = extended.number(key)?.map_or_else(|| number(of_header), Ok)?;
            u32::try_from(owner).map_err(|_| format!("its {key} is {owner}, which no system has"))
        };
        // A field without digits is 0, as for GNU tar.
        let field = |field: &[u8], number: io::Result<u64>| if is_empty(field) { Ok(0) } else { number };
        let fields = header.as_old();
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
        Ok(self.link.as_slice().into())
    }

    /// Fails if a file's bytes are not those of the archive.
    pub(crate) fn check_content(&self, archive: &dyn Content) -> Result<(), &'static str> {
        if self.is_sparse {
            return Err("a sparse file, which cannot be read in place; unpack the archive");
        }
        if self.content.end > archive.size() {
            return Err("it reaches past the end of the archive, which is truncated; get it again");
        }
        Ok(())
    }
}

/// Calls `visit` for each member of the archive at `location`. Its errors are about that member.
pub(crate) fn read_members(
    location: &Path,
    archive: &Arc<dyn Content>,
    visit: &mut dyn FnMut(TarMember) -> Result<(), String>,
) -> Result<(), SourceError> {
    let unusable = |error: io::Error| SourceError::NotATar { path: location.to_owned(), reason: error.to_string() };
    let mut first = vec![0; to_usize(archive.size().min(BLOCK))];
    archive.read_at(0, &mut first).map_err(|error| unusable(io::Error::other(error)))?;
    if !is_header(&first) && !is_end(&first) {
        return Err(unusable(io::Error::other("its content does not begin as a tar archive does")));
    }
    // Members are skipped, so only their headers are read.
    let allowance = Rc::new(Cell::new(MAX_HEADER));
    let mut reader = ContentReader::new(archive);
    reader.allowance = Some(Rc::clone(&allowance));
    let is_at_end = Rc::clone(&reader.is_at_end);
    let mut tar = Archive::new(reader);
    let (mut last, mut end) = (None, 0);
    for member in tar.entries_with_seek().map_err(unusable)? {
        let member = member.map_err(|error| match &last {
            Some(last) => unusable(io::Error::other(format!("after member {last:?}: {}", explain(&error)))),
            None => unusable(io::Error::other(explain(&error))),
        })?;
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let bad = |reason: String| SourceError::BadMember { path: location.to_owned(), member: name.clone(), reason };
        let member = TarMember::of(&member, end, &**archive).map_err(bad)?;
        end = member.blocks.end;
        visit(member).map_err(bad)?;
        last = Some(name);
        allowance.set(MAX_HEADER);
    }
    // Empty blocks end an archive. Without them, members may be lost.
    if is_at_end.get() {
        let size = archive.size();
        return Err(unusable(io::Error::other(format!(
            "after {size} bytes it ends without the empty blocks that end an archive: it is truncated; get it again"
        ))));
    }
    Ok(())
}

/// An error of the parser, without the bytes of a damaged header, which it quotes.
fn explain(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("numeric field") { "a damaged header".to_owned() } else { text }
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

/// Seconds and nanoseconds of a decimal number.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanoseconds = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    // A fraction of a negative time would have to be subtracted. No real archive is that old.
    seconds.parse().ok().filter(|&seconds: &i64| seconds >= 0).map(|seconds| (seconds, nanoseconds))
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
