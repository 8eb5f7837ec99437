//! A zip file as input: a wheel, or a tree. Listing reads the central directory only; members are read in place.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zip::read::{HasZipMetadata, ZipFileEntry};
use zip::{CompressionMethod, DateTime};

use super::central::{self, MAX_MEMBERS};
use super::error::is_named_wheel;
use super::member::{self, CentralHeader, LOCAL_HEADER, OpenWheel};
use super::stamp::Stamp;
use super::wheel_bytes::WheelBytes;
use super::whole_wheel::WholeWheel;
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, links};
use crate::disk;
use crate::memory::{Parser, ParserMemory};
use crate::remote::{MemberAccess, RemoteFile, check_remote};
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError};

/// The time of members that have none: 1980-01-01, the earliest that a zip file can express.
const EARLIEST: i64 = 315_532_800;

/// The deepest nesting of directories that is accepted. Each member can imply as many directories as its path is deep.
const MAX_DEPTH: usize = 128;

/// The longest symlink target that Linux accepts in bytes (`PATH_MAX` counts a terminating NUL).
const MAX_TARGET: u64 = 4095;

/// File type bits of a Unix mode.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// Lists the members of the zip file at `location`: a wheel if it has a *.dist-info directory, or else a tree, unless its name
/// says that it is a wheel.
pub(super) fn list(location: PathBuf, resources: &Arc<Resources>) -> Result<Input, SourceError> {
    let (file, metadata) = disk::open(&location).map_err(|source| SourceError::not_opened(&location, source))?;
    let owner = Attributes::of(&metadata);
    list_members(OpenWheel::new(&location, WheelBytes::Disk(file, Stamp::of(&metadata)), resources), owner, location)
}

/// The same of a file in another input.
pub(super) fn list_file(
    location: PathBuf,
    file: &Arc<dyn Content>,
    identity: Identity,
    owner: Attributes,
    resources: &Arc<Resources>,
) -> Result<Input, SourceError> {
    let bytes = WheelBytes::Member(Arc::clone(file), identity);
    list_members(OpenWheel::new(&location, bytes, resources), owner, location)
}

/// The same of a file on a server.
pub(super) fn list_remote(location: &Path, resources: &Arc<Resources>) -> Result<Input, SourceError> {
    let file = RemoteFile::open(location, resources)?;
    let wheel = OpenWheel::new(location, WheelBytes::Remote(Box::new(file)), resources);
    let listed = list_members(wheel, Attributes::of_process(), location.to_owned());
    // Why bytes are missing says more than what was not found in them.
    check_remote(resources)?;
    listed
}

fn list_members(wheel: Arc<OpenWheel>, owner: Attributes, location: PathBuf) -> Result<Input, SourceError> {
    let table = ParserMemory::new(Parser::CentralDirectory);
    let (members, directory_start) = members(&wheel, &location, &table)?;
    let limits = limits(&members, directory_start, &location);
    // Members of one name may be one.
    let limits = limits.map_err(|error| twice(&members, &location).unwrap_or(error))?;
    wheel
        .bytes
        .set_members(members.iter().map(WheelMember::access).zip(&limits).map(|(access, &limit)| (limit, access)));
    let mut warnings = Vec::new();
    let first = members.iter().map(|member| member.claims.header_start).min();
    let newest = members.iter().map(|member| member.mtime).max().unwrap_or(EARLIEST);
    let root = Attributes { mode: 0o755, mtime: newest, mtime_nanoseconds: 0, ..owner };
    let entry = |(member, limit): (WheelMember, u64)| {
        let attributes = Attributes { mode: member.mode, mtime: member.mtime, mtime_nanoseconds: 0, ..owner };
        let entry = Entry { path: member.path.clone(), kind: member.kind(&wheel, limit, &mut warnings), attributes };
        table.grow(entry.kind.target_length()).map(|()| entry)
    };
    let entries = members.into_iter().zip(limits).map(entry).collect::<Result<Vec<_>, _>>();
    let entries = entries.map_err(|source| SourceError::Tables { path: location.clone(), source })?;
    let mut entries = WheelEntries { location: &location, owner, table: &table }.complete(entries)?;
    let kind = match links::settle(&mut entries, &location) {
        Some(dist_info) => InputKind::Wheel(dist_info),
        None if !is_named_wheel(&location) => InputKind::Tree,
        None => {
            let reason = "there has to be exactly one *.dist-info directory, with the files METADATA and WHEEL".into();
            return Err(SourceError::NotAWheel { path: location, reason });
        }
    };
    let file: Arc<dyn Content> = Arc::new(WholeWheel(wheel));
    let start = first.or_else(|| central::end_before(&*file, file.size())).unwrap_or(0);
    let is_joined = start > 0 && central::end_before(&*file, start).is_some();
    if is_joined {
        warnings.push(format!(
            "its first {start} bytes end as a zip file that is joined to it, and are not read; unpack both and name the directory"
        ));
    }
    let (file, tables) = (Some(file), vec![table]);
    Ok(Input { entries, warnings, file, start, is_joined, tables, ..Input::empty(kind, location, root) })
}

/// A member as the central directory describes it.
#[derive(Debug)]
struct WheelMember {
    path: EntryPath,
    directory: bool,
    symlink: bool,
    mode: u16,
    mtime: i64,
    /// Bytes of the name in the zip file.
    name_length: usize,
    claims: CentralHeader,
}

/// All members in the order of the central directory, and its offset.
fn members(wheel: &OpenWheel, location: &Path, table: &ParserMemory) -> Result<(Vec<WheelMember>, u64), SourceError> {
    let label = Arc::from(location.to_string_lossy());
    let (members, start) = central::parse(wheel, &label, location, |found| member(found, location, table))?;
    let mut total = 0_u64;
    for member in &members {
        let sum = total.checked_add(member.claims.size).filter(|&total| i64::try_from(total).is_ok());
        let reason = "the members claim more bytes than a file system can hold";
        total = sum.ok_or_else(|| SourceError::bad_member(location, member.path.to_text(), reason))?;
    }
    Ok((members, start))
}

/// A member as the parser has it.
fn member(found: &ZipFileEntry<'_>, location: &Path, table: &ParserMemory) -> Result<WheelMember, SourceError> {
    let name = found.name().map_err(|error| central::broken(location, &error))?;
    let bad = |reason: String| SourceError::bad_member(location, &*name, reason);
    // Python's zipfile writes Unix modes on Windows as well, and pip and unzip obey them whatever wrote them.
    let mode = found.external_attributes() >> 16;
    let directory = name.ends_with('/') || mode & TYPE == DIRECTORY;
    let path = EntryPath::new(name.strip_suffix('/').unwrap_or(&name).as_bytes());
    let path = path.map_err(|error| bad(error.to_string()))?;
    let raw_name = found.name_raw();
    table.add_entry(raw_name).map_err(|source| SourceError::Tables { path: location.to_owned(), source })?;
    if path.depth() > MAX_DEPTH {
        return Err(bad(format!("more than {MAX_DEPTH} directories deep")));
    }
    if directory && found.size() > 0 {
        return Err(bad("a directory with content".into()));
    }
    Ok(WheelMember {
        directory,
        symlink: mode & TYPE == SYMLINK,
        // As pip installs it (`pip._internal.utils.unpacking.set_extracted_file_to_default_mode_plus_executable`):
        // set-ID and sticky bits, and write permission for others, are not for a wheel to say.
        mode: if directory || mode & 0o111 != 0 { 0o755 } else { 0o644 },
        mtime: found.last_modified().map_or(EARLIEST, seconds),
        name_length: raw_name.len(),
        claims: CentralHeader {
            other_name: (*raw_name != *path.as_bytes()).then(|| raw_name.into()),
            header_start: found.header_start(),
            packed_size: found.compressed_size(),
            size: found.size(),
            crc32: found.crc32(),
            method: method(found.get_metadata().compression_method),
            encrypted: found.encrypted(),
        },
        path,
    })
}

/// The number of a compression method. The features of the `zip` crate determine which variants exist.
fn method(method: CompressionMethod) -> u16 {
    match method {
        CompressionMethod::Stored => 0,
        deflate if deflate == CompressionMethod::DEFLATE => 8,
        #[expect(deprecated, reason = "the only way to the number of a method which the crate does not decode itself")]
        CompressionMethod::Unsupported(number) => number,
        _ => u16::MAX,
    }
}

/// For each member, the offset at which it has to end: the start of whatever follows it.
fn limits(members: &[WheelMember], directory_start: u64, location: &Path) -> Result<Vec<u64>, SourceError> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&number| members.get(number).map(|member| member.claims.header_start));
    let mut limits = vec![0; members.len()];
    let mut next = directory_start;
    for number in order.into_iter().rev() {
        let (Some(member), Some(limit)) = (members.get(number), limits.get_mut(number)) else { continue };
        let claims = &member.claims;
        let end = claims.header_start.saturating_add(LOCAL_HEADER).saturating_add(member.name_length as u64);
        if end.saturating_add(claims.packed_size) > next {
            return Err(SourceError::bad_member(location, member.path.to_text(), "it overlaps what comes after it"));
        }
        *limit = next;
        next = claims.header_start;
    }
    Ok(limits)
}

/// The error for a name that several members have.
fn twice(members: &[WheelMember], location: &Path) -> Option<SourceError> {
    let mut names = HashSet::new();
    let member = members.iter().map(|member| &member.path).find(|&name| !names.insert(name))?;
    Some(SourceError::bad_member(location, member.to_text(), "the name is there twice"))
}

/// Seconds since 1970 of a DOS time. It has no time zone and is taken as UTC.
fn seconds(time: DateTime) -> i64 {
    // Days since 0000-03-01: the leap day becomes the last day of its year, and every 5 months have 153 days.
    let month = (i64::from(time.month()) + 9) % 12;
    let year = i64::from(time.year()) - month / 10;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + i64::from(time.day()) - 1;
    let clock = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    (days - 719_468) * 86_400 + clock
}

/// What names of binaries have.
const OF_BINARIES: [&str; 4] = [".so", ".dll", ".pyd", ".exe"];

/// How names of the code objects and catalogues of kernel databases end.
const OF_DATABASES: [&str; 3] = [".co", ".hsaco", ".dat"];

impl WheelMember {
    /// How it is likely to be read: all of a deflated binary is inflated, and kernels are looked up by their catalogues.
    fn access(&self) -> MemberAccess {
        let name = String::from_utf8_lossy(self.path.name());
        let is_binary = OF_BINARIES.iter().any(|suffix| name.contains(suffix));
        match self.claims.method {
            8 if is_binary || OF_DATABASES.iter().any(|suffix| name.ends_with(suffix)) => MemberAccess::Whole,
            _ if is_binary => MemberAccess::Sections,
            _ => MemberAccess::Pieces,
        }
    }

    fn kind(self, wheel: &Arc<OpenWheel>, limit: u64, warnings: &mut Vec<String>) -> EntryKind {
        if self.directory {
            return EntryKind::Directory;
        }
        let (path, symlink, crc32) = (self.path, self.symlink, self.claims.crc32);
        let (content, objection) = member::content(wheel, path.clone(), self.claims, limit);
        if let Some(reason) = objection {
            warnings.push(format!("{path}: cannot be read: {reason}"));
        } else if symlink {
            match target(&*content, crc32) {
                Ok(target) => return EntryKind::Symlink(target.into()),
                Err(reason) => warnings.push(format!("{path}: shown as a file: a symlink, but {reason}")),
            }
        }
        EntryKind::File { content, link_group: None }
    }
}

/// The target of a symlink, which is the content of its member.
fn target(content: &dyn Content, crc32: u32) -> Result<Vec<u8>, String> {
    let size = content.size();
    if size == 0 || size > MAX_TARGET {
        return Err(format!("its target has {size} bytes"));
    }
    let mut target = vec![0; usize::try_from(size).unwrap_or(0)];
    content.read_at(0, &mut target).map_err(|error: ReadError| error.to_string())?;
    if target.contains(&0) {
        return Err("its target has a NUL byte".into());
    }
    if crc32fast::hash(&target) != crc32 {
        return Err("its target does not have the CRC-32 that the zip file claims".into());
    }
    Ok(target)
}

/// Builds the tree of entries.
struct WheelEntries<'a> {
    location: &'a Path,
    owner: Attributes,
    table: &'a ParserMemory,
}

/// A directory that contains the current entry.
struct Above {
    path: EntryPath,
    /// Its position among the entries if it is implied, not a member.
    implied: Option<usize>,
    /// The latest time of a member inside.
    newest: i64,
}

impl WheelEntries<'_> {
    fn bad(&self, member: &EntryPath, reason: impl Into<String>) -> SourceError {
        SourceError::bad_member(self.location, member.to_text(), reason)
    }

    /// Sorts the members, and adds directories that contain members without being one.
    fn complete(&self, mut members: Vec<Entry>) -> Result<Vec<Entry>, SourceError> {
        members.sort_by(|a, b| a.path.cmp(&b.path));
        let mut entries = Vec::<Entry>::with_capacity(members.len());
        let mut above: Vec<Above> = Vec::new();
        for member in members {
            if entries.last().is_some_and(|last| last.path == member.path) {
                return Err(self.bad(&member.path, "the name is there twice"));
            }
            while let Some(last) = above.pop_if(|directory| !member.path.is_below(&directory.path)) {
                leave(&last, &mut entries, &mut above);
            }
            let start = above.last().map(|directory| directory.path.clone());
            for parent in missing(&member.path, start.as_ref()) {
                if entries.last().is_some_and(|last| last.path == parent) {
                    return Err(self.bad(&member.path, format!("{parent:?} is not a directory")));
                }
                let attributes = Attributes { mode: 0o755, mtime: EARLIEST, mtime_nanoseconds: 0, ..self.owner };
                above.push(Above { path: parent.clone(), implied: Some(entries.len()), newest: i64::MIN });
                let counted = self.table.add_entry(parent.as_bytes());
                counted.map_err(|source| SourceError::Tables { path: self.location.to_owned(), source })?;
                self.push(&mut entries, Entry { path: parent, kind: EntryKind::Directory, attributes })?;
            }
            let mtime = member.attributes.mtime;
            if let Some(directory) = above.last_mut() {
                directory.newest = directory.newest.max(mtime);
            }
            if let EntryKind::Directory = member.kind {
                above.push(Above { path: member.path.clone(), implied: None, newest: i64::MIN });
            }
            self.push(&mut entries, member)?;
        }
        while let Some(last) = above.pop() {
            leave(&last, &mut entries, &mut above);
        }
        Ok(entries)
    }

    /// Adds an entry. Fails if the tree is out of proportion to the wheel.
    fn push(&self, entries: &mut Vec<Entry>, entry: Entry) -> Result<(), SourceError> {
        if entries.len() as u64 > MAX_MEMBERS {
            return Err(self.bad(&entry.path, format!("there are more than {MAX_MEMBERS} members and directories")));
        }
        entries.push(entry);
        Ok(())
    }
}

/// Ends a directory. An implied directory gets the time of the newest member inside.
fn leave(directory: &Above, entries: &mut [Entry], above: &mut [Above]) {
    if let Some(entry) = directory.implied.and_then(|position| entries.get_mut(position)) {
        entry.attributes.mtime = directory.newest;
    }
    if let Some(parent) = above.last_mut() {
        parent.newest = parent.newest.max(directory.newest);
    }
}

/// The directories between `above` and a path below it, from the top.
fn missing(path: &EntryPath, above: Option<&EntryPath>) -> impl Iterator<Item = EntryPath> {
    let name = path.as_bytes();
    let ends = name.iter().enumerate().skip(above.map_or(0, |above| above.as_bytes().len() + 1));
    let ends = ends.filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
    ends.filter_map(|end| Some(EntryPath::root().child(name.get(..end)?)))
}

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
