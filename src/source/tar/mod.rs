//! A tar archive as input (POSIX.1-2001 "pax", GNU tar's manual, "Basic Tar Format"). Listing reads headers only; members
//! are ranges of the archive.

mod reader;
mod unpacked;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tar::{Archive, EntryType};

use self::reader::{ContentReader, MAX_HEADER};
pub(super) use self::unpacked::{MAX_RATIO, TarCompression};
use super::input::find_dist_info;
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, links, open_file};
use crate::disk;
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment, to_usize};

/// Bytes of a header.
const BLOCK: u64 = 512;

/// How the tar archive at `location` is compressed; `None` if it is no tar archive. A wheel may begin with anything.
pub(super) fn packing(location: &Path) -> io::Result<Option<TarCompression>> {
    let name = location.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".whl") {
        return Ok(None);
    }
    let mut head = Vec::new();
    disk::open(location)?.0.take(BLOCK).read_to_end(&mut head)?;
    Ok(match &*head {
        [0x1f, 0x8b, ..] => Some(TarCompression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(TarCompression::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(TarCompression::Xz),
        head if is_header(head) || (name.contains(".tar") && is_end(head)) => Some(TarCompression::Plain),
        _ => None,
    })
}

/// Whether a block is a header: its bytes have the sum that it states, in which the sum's own eight bytes count as blanks.
fn is_header(block: &[u8]) -> bool {
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
    let io = |source| SourceError::Io { path: location.clone(), source };
    let of_file = Attributes::of(&location.metadata().map_err(io)?);
    let file = open_file(&location, resources)?;
    let archive = unpacked::open(&location, &file, packing, resources)?;
    let table = ParserMemory::new(Parser::Tar);
    let mut tree = TarEntries { location: &location, owner: of_file, entries: BTreeMap::new(), links: 0, table };
    tree.read(&archive)?;
    let tables = vec![tree.table];
    let mut entries: Vec<Entry> = tree.entries.into_values().collect();
    let mut kind = InputKind::Tree;
    let mut warnings = Vec::new();
    if let Some(directory) = wheel_below(&entries) {
        warnings.push(format!(
            "it contains an unpacked wheel in {directory:?}, and is taken for an install tree; pack that directory with \
             tar -C {directory:?} . to have a wheel"
        ));
    }
    if let Some(dist_info) = find_dist_info(&entries) {
        kind = InputKind::UnpackedWheel(dist_info);
        links::become_files(&mut entries);
    }
    let root = Attributes { mode: 0o755, ..of_file };
    if unpacked::is_suspect(archive.size(), file.size()) {
        warnings.push(format!(
            "it unpacks to {} times its size; split and mount refuse it without --allow-ratio",
            archive.size() / file.size().max(1)
        ));
    }
    Ok(Input { kind, location, root, entries, warnings, file: Some(file), tables })
}

/// An error of the parser, without the bytes of a damaged header, which it quotes.
fn explain(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("numeric field") { "a damaged header".to_owned() } else { text }
}

/// The only directory in an archive, if an unpacked wheel is in it.
fn wheel_below(entries: &[Entry]) -> Option<&EntryPath> {
    let mut top = entries.iter().map(|entry| &entry.path).filter(|path| path.depth() == 1);
    let only = top.next().filter(|_| top.next().is_none())?;
    let is_statement = |path: &EntryPath| path.depth() == 3 && path.as_bytes().ends_with(b".dist-info/WHEEL");
    entries.iter().any(|entry| is_statement(&entry.path)).then_some(only)
}

/// The entries collected so far.
struct TarEntries<'a> {
    location: &'a Path,
    owner: Attributes,
    entries: BTreeMap<EntryPath, Entry>,
    /// Number of files with hard links.
    links: u64,
    table: ParserMemory,
}

impl TarEntries<'_> {
    fn read(&mut self, archive: &Arc<dyn Content>) -> Result<(), SourceError> {
        let unusable =
            |error: io::Error| SourceError::NotATar { path: self.location.to_owned(), reason: error.to_string() };
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
        let mut last = None;
        for member in tar.entries_with_seek().map_err(unusable)? {
            let member = member.map_err(|error| match &last {
                Some(last) => unusable(io::Error::other(format!("after member {last:?}: {}", explain(&error)))),
                None => unusable(io::Error::other(explain(&error))),
            })?;
            last = Some(String::from_utf8_lossy(&member.path_bytes()).into_owned());
            self.add(member, archive)?;
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

    fn add(
        &mut self,
        mut member: tar::Entry<'_, ContentReader>,
        archive: &Arc<dyn Content>,
    ) -> Result<(), SourceError> {
        let name = member.path_bytes().into_owned();
        let location = self.location.to_owned();
        let bad = |reason: String| SourceError::BadMember {
            path: location.clone(),
            member: String::from_utf8_lossy(&name).into_owned(),
            reason,
        };
        let kind = member.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let Some(path) = path_of(&name).map_err(|error| bad(error.to_string()))? else { return Ok(()) };
        let broken = |error: io::Error| bad(error.to_string());
        let extended = Extended::of(&mut member).map_err(broken)?;
        if extended.is_sparse || kind == EntryType::GNUSparse {
            return Err(bad("a sparse file, which cannot be read in place; unpack the archive".to_owned()));
        }
        let link = member.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        let shown = match kind {
            EntryType::Directory => EntryKind::Directory,
            EntryType::Symlink if link.is_empty() || link.contains(&0) => {
                return Err(bad("a symlink that leads nowhere".to_owned()));
            }
            EntryType::Symlink => EntryKind::Symlink(link.into()),
            EntryType::Link => self.linked(&link).map_err(bad)?,
            EntryType::Regular | EntryType::Continuous => {
                let (start, size) = (member.raw_file_position(), member.size());
                let range = Segment::range(Arc::clone(archive), start, size);
                let content = range.and_then(|range| Rope::new([range]));
                let content = content.map_err(|_| {
                    bad("it reaches past the end of the archive, which is truncated; get it again".to_owned())
                })?;
                EntryKind::File { content: Arc::new(content), link_group: None }
            }
            other => return Err(bad(format!("neither a file, a directory nor a link ({other:?})"))),
        };
        let mode = member.header().mode().map_err(broken)?;
        let (mtime, mtime_nanoseconds) = match extended.mtime {
            Some(time) => time,
            None => (i64::try_from(member.header().mtime().map_err(broken)?).unwrap_or(i64::MAX), 0),
        };
        let mode = u16::try_from(mode & 0o7777).unwrap_or(0);
        let attributes = Attributes { mode, mtime, mtime_nanoseconds, ..self.owner };
        self.insert(Entry { path, kind: shown, attributes }).map_err(bad)
    }

    /// The file to which a hard link leads. It precedes the link in the archive.
    fn linked(&mut self, target: &[u8]) -> Result<EntryKind, String> {
        let name = String::from_utf8_lossy(target).into_owned();
        let path = path_of(target).map_err(|error| format!("a hard link to {name:?}: {error}"))?;
        let entry = path.and_then(|path| self.entries.get_mut(&path));
        let Some(Entry { kind: EntryKind::File { content, link_group }, .. }) = entry else {
            return Err(format!("a hard link to {name:?}, which is no file before it"));
        };
        let group = *link_group.get_or_insert_with(|| {
            self.links += 1;
            self.links
        });
        Ok(EntryKind::File { content: Arc::clone(content), link_group: Some(group) })
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

/// Extended headers that are used, apart from names and sizes.
#[derive(Default)]
struct Extended {
    mtime: Option<(i64, u32)>,
    is_sparse: bool,
}

impl Extended {
    fn of(member: &mut tar::Entry<'_, ContentReader>) -> io::Result<Self> {
        let mut found = Self::default();
        for record in member.pax_extensions()?.into_iter().flatten() {
            let record = record?;
            match record.key_bytes() {
                b"mtime" => found.mtime = time(record.value_bytes()),
                key if key.starts_with(b"GNU.sparse.") => found.is_sparse = true,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Seconds and nanoseconds of a decimal number.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanoseconds = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    // A fraction of a negative time would have to be subtracted. No real archive is that old.
    seconds.parse().ok().filter(|&seconds: &i64| seconds >= 0).map(|seconds| (seconds, nanoseconds))
}

/// The path of a member; `None` for the root. A leading `./` and a trailing `/` are ignored.
fn path_of(name: &[u8]) -> Result<Option<EntryPath>, super::PathError> {
    let mut name = name;
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    let name = name.strip_suffix(b"/").unwrap_or(name);
    if name.is_empty() || name == b"." { Ok(None) } else { EntryPath::new(name).map(Some) }
}

#[cfg(test)]
#[path = "../tar_tests.rs"]
mod tests;
