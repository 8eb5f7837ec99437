//! A tar archive as input (POSIX.1-2001 "pax", GNU tar's manual, "Basic Tar Format"). Listing reads headers only; members
//! are ranges of the archive.

mod decoding;
mod extended;
mod gzip;
mod members;
mod names;
mod reader;
mod unpacked;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tar::EntryType;

pub(crate) use self::extended::ExtendedRecords;
pub(crate) use self::members::{ArchiveEnd, TarMember, kind_name, path_of, read_extended, read_members};
pub(crate) use self::names::{TarNames, check_image, has_member, is_no_tar, may_be_packed};
pub(super) use self::reader::sought;
pub(crate) use self::unpacked::{TarCompression, open as open_archive};
use super::error::is_named_wheel;
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, links, open_file};
use crate::disk;
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment, to_usize};

/// Bytes of a block, such as a header.
pub(crate) const BLOCK: u64 = 512;

/// Bytes of a record, as which empty blocks are written: more than programs have by default, and up to 2,048 blocks.
const LARGEST_RECORD: u64 = 2048 * BLOCK;

/// How the tar archive at `location` is compressed; `None` if it is no tar archive. A wheel may begin with anything.
pub(crate) fn packing(location: &Path) -> io::Result<Option<TarCompression>> {
    if is_named_wheel(location) {
        return Ok(None);
    }
    let mut head = Vec::new();
    disk::open(location)?.0.take(BLOCK).read_to_end(&mut head)?;
    Ok(packing_of(location, &head))
}

/// The same of a file with this name and this first block.
pub(crate) fn packing_of(location: &Path, head: &[u8]) -> Option<TarCompression> {
    let name = location.file_name().unwrap_or_default().to_string_lossy();
    match head {
        _ if is_named_wheel(location) => None,
        [0x1f, 0x8b, ..] => Some(TarCompression::Gzip),
        // A frame, or a skippable one before it (RFC 8878, 3.1.1 and 3.1.2).
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(TarCompression::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(TarCompression::Xz),
        head if is_header(head) || (name.contains(".tar") && is_end(head)) => Some(TarCompression::Plain),
        _ => None,
    }
}

/// Whether a block is a header: its bytes have the sum that it states, in which the sum's own eight bytes count as blanks.
pub(super) fn is_header(block: &[u8]) -> bool {
    let stated = block.get(148..156).and_then(|digits| std::str::from_utf8(digits).ok());
    let stated = stated.and_then(|digits| u64::from_str_radix(digits.trim_matches(['\0', ' ']), 8).ok());
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let blanks = 8 * u64::from(b' ');
    let parts = block.get(..148).zip(block.get(156..));
    parts.is_some_and(|(before, behind)| stated == Some(sum(before) + blanks + sum(behind)))
}

/// Whether a block is one of those that end an archive.
fn is_end(block: &[u8]) -> bool {
    block.len() as u64 == BLOCK && block.iter().all(|byte| *byte == 0)
}

/// Lists the members of the archive at `location`.
pub(super) fn list(
    location: PathBuf,
    packing: TarCompression,
    resources: &Arc<Resources>,
) -> Result<Input, SourceError> {
    let owner = Attributes::of(&location.metadata().map_err(SourceError::at(&location))?);
    let file = open_file(&location, resources)?;
    list_file(location, &file, owner, packing, resources)
}

/// The same of a file. `location` is its name in messages.
pub(super) fn list_file(
    location: PathBuf,
    file: &Arc<dyn Content>,
    owner: Attributes,
    packing: TarCompression,
    resources: &Arc<Resources>,
) -> Result<Input, SourceError> {
    let archive = open_archive(&location, file, packing, resources)?;
    let table = ParserMemory::new(Parser::Tar);
    let mut tree = TarEntries { owner, entries: BTreeMap::new(), links: 0, table };
    let end = read_members(&location, &archive, &mut |member| tree.add(&member, &archive))?;
    if tree.entries.is_empty() {
        check_image(&location, &*archive)?;
    }
    let (next, odd) = (next_archive(&*archive, end), check_end(&location, end, archive.size(), packing)?);
    let how = "which is not read; tar --ignore-zeros unpacks both";
    let joined = next.map(|next| format!("another archive follows at byte {next}, {how}"));
    let mut warnings: Vec<_> = joined.into_iter().chain(odd).collect();
    let tables = vec![tree.table];
    let mut entries: Vec<Entry> = tree.entries.into_values().collect();
    if let Some(directory) = wheel_below(&entries) {
        warnings.push(format!(
            "it contains an unpacked wheel in {directory:?}, and is taken for an install tree; pack that directory with \
             tar -C {directory:?} . to have a wheel"
        ));
    }
    let kind = links::settle(&mut entries, &location).map_or(InputKind::Tree, InputKind::UnpackedWheel);
    let root = Attributes { mode: 0o755, ..owner };
    if decoding::is_suspect(archive.size(), file.size()) {
        warnings.push(format!(
            "it unpacks to {} times its size; split and mount refuse it without --allow-ratio",
            archive.size() / file.size().max(1)
        ));
    }
    let (file, is_joined) = (Some(Arc::clone(file)), next.is_some());
    Ok(Input { entries, warnings, file, is_joined, tables, ..Input::empty(kind, location, root) })
}

/// Fails if an archive may be truncated. Otherwise, returns what is unusual about its end.
fn check_end(
    location: &Path,
    end: ArchiveEnd,
    size: u64,
    packing: TarCompression,
) -> Result<Option<String>, SourceError> {
    let lacks_blocks = format!("after {size} bytes it ends without the empty blocks that end an archive");
    match (end, packing) {
        (ArchiveEnd::Blocks(_), _) => Ok(None),
        // The end of the compression has been found.
        (ArchiveEnd::Member, TarCompression::Gzip | TarCompression::Zstd | TarCompression::Xz) if size > 0 => {
            Ok(Some(format!("{lacks_blocks}: some programs write that, unless it was truncated between two members")))
        }
        (ArchiveEnd::Member, _) => {
            let reason = format!("{lacks_blocks}: it is truncated; get it again");
            Err(SourceError::NotATar { path: location.to_owned(), reason })
        }
    }
}

/// Where another archive begins behind the end of one, as if files of both were joined. Between them are at most the empty blocks
/// of a record.
fn next_archive(archive: &dyn Content, end: ArchiveEnd) -> Option<u64> {
    let ArchiveEnd::Blocks(end) = end else { return None };
    let mut rest = vec![0; to_usize(archive.size().saturating_sub(end).min(LARGEST_RECORD))];
    archive.read_at(end, &mut rest).ok()?;
    let block = rest.chunks(to_usize(BLOCK)).position(is_header)?;
    Some(end.saturating_add(block as u64 * BLOCK))
}

/// The only directory in an archive, if an unpacked wheel is in it.
fn wheel_below(entries: &[Entry]) -> Option<&EntryPath> {
    let mut top = entries.iter().map(|entry| &entry.path).filter(|path| path.depth() == 1);
    let only = top.next().filter(|_| top.next().is_none())?;
    let is_statement = |path: &EntryPath| path.depth() == 3 && path.as_bytes().ends_with(b".dist-info/WHEEL");
    entries.iter().any(|entry| is_statement(&entry.path)).then_some(only)
}

/// The entries collected so far.
struct TarEntries {
    owner: Attributes,
    entries: BTreeMap<EntryPath, Entry>,
    /// Number of files with hard links.
    links: u64,
    table: ParserMemory,
}

impl TarEntries {
    fn add(&mut self, member: &TarMember, archive: &Arc<dyn Content>) -> Result<(), String> {
        if member.kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let Some(path) = path_of(&member.name).map_err(|error| error.to_string())? else { return Ok(()) };
        member.check_content(&**archive)?;
        let mut attributes = member.attributes;
        let shown = match member.kind {
            EntryType::Directory => EntryKind::Directory,
            EntryType::Symlink => EntryKind::Symlink(member.symlink_target()?),
            EntryType::Link => {
                let (file, of_file) = self.linked(&member.link)?;
                attributes = of_file;
                file
            }
            EntryType::Regular | EntryType::Continuous => file_in(archive, &member.content)?,
            other => return Err(format!("neither a file, a directory nor a link, but {}", kind_name(other))),
        };
        let Attributes { uid, gid, .. } = self.owner;
        self.insert(Entry { path, kind: shown, attributes: Attributes { uid, gid, ..attributes } })
    }

    /// The file to which a hard link leads, and its attributes, which are those of both names. It precedes the link in the
    /// archive.
    fn linked(&mut self, target: &[u8]) -> Result<(EntryKind, Attributes), String> {
        let name = String::from_utf8_lossy(target).into_owned();
        let path = path_of(target).map_err(|error| format!("a hard link to {name:?}: {error}"))?;
        let entry = path.and_then(|path| self.entries.get_mut(&path));
        let Some(Entry { kind: EntryKind::File { content, link_group }, attributes, .. }) = entry else {
            return Err(format!("a hard link to {name:?}, which is no file before it"));
        };
        let group = *link_group.get_or_insert_with(|| {
            self.links += 1;
            self.links
        });
        Ok((EntryKind::File { content: Arc::clone(content), link_group: Some(group) }, *attributes))
    }

    /// Adds an entry and the directories above it. As in unpacking, a later entry replaces an earlier one.
    fn insert(&mut self, entry: Entry) -> Result<(), String> {
        let mut above = entry.path.parent();
        while let Some(path) = above.filter(|path| !path.is_root()) {
            above = path.parent();
            match self.entries.get(&path).map(|entry| &entry.kind) {
                Some(EntryKind::Directory) => break,
                Some(_) => return Err(format!("{path:?}, in which it is, is no directory of the archive")),
                None => {
                    let attributes = Attributes { mode: 0o755, ..entry.attributes };
                    self.count(&path)?;
                    self.entries.insert(path.clone(), Entry { path, kind: EntryKind::Directory, attributes });
                }
            }
        }
        self.count(&entry.path)?;
        self.table.grow(entry.kind.target_length()).map_err(|error| error.to_string())?;
        let is_directory = |kind: &EntryKind| matches!(kind, EntryKind::Directory);
        match self.entries.get(&entry.path) {
            Some(existing) if is_directory(&existing.kind) != is_directory(&entry.kind) => {
                Err("it is there twice, as a directory and as something else".to_owned())
            }
            _ => {
                self.entries.insert(entry.path.clone(), entry);
                Ok(())
            }
        }
    }

    /// Bounds the memory of the list.
    fn count(&self, path: &EntryPath) -> Result<(), String> {
        self.table.add_entry(path.as_bytes()).map_err(|error| error.to_string())
    }
}

/// A file that is a range of an archive.
pub(crate) fn file_in(archive: &Arc<dyn Content>, range: &Range<u64>) -> Result<EntryKind, String> {
    let length = range.end.saturating_sub(range.start);
    let content = Segment::range(Arc::clone(archive), range.start, length).and_then(|range| Rope::new([range]));
    let content = content.map_err(|error| error.to_string())?;
    Ok(EntryKind::File { content: Arc::new(content), link_group: None })
}

#[cfg(test)]
#[path = "../tar_tests.rs"]
mod tests;
