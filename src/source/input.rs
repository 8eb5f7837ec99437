//! A listed input, and what the list says about its bytes, none of which are read for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SourceError;
use super::entry::{Attributes, Entry, EntryKind};
use super::host_wheel::HostWheel;
use super::links::{Resolved, real_path, resolve as resolve_links};
use super::path::EntryPath;
use crate::memory::ParserMemory;
use crate::rope::{Content, Identity};
use crate::text::some_of;

/// Contents that show whether an input has changed: after a change, at least one of them cannot be read.
pub type Witnesses = Vec<Arc<dyn Content>>;

/// An input that has been listed.
#[derive(Debug)]
pub struct Input {
    /// Its kind.
    pub kind: InputKind,
    /// Its absolute path.
    pub location: PathBuf,
    /// Attributes of the root directory.
    pub root: Attributes,
    /// Everything below the root, sorted by path, without duplicates. Each directory comes before its content.
    pub entries: Vec<Entry>,
    /// Warnings about what could not be listed.
    pub warnings: Vec<String>,
    /// The wheel or tar archive that holds all entries.
    pub file: Option<Arc<dyn Content>>,
    /// Where the first member of a zip file begins, which may be behind a program.
    pub start: u64,
    /// Whether another archive is joined to that file, which is not read.
    pub is_joined: bool,
    /// Directories that pip left of upgrades that were interrupted, and that were left out with what is in them.
    pub leftovers: Vec<EntryPath>,
    /// The memory of the list.
    pub tables: Vec<ParserMemory>,
}

/// The kind of an input.
#[derive(Clone, Debug)]
pub enum InputKind {
    /// Any directory.
    Tree,
    /// A directory that holds exactly one `*.dist-info`, named here.
    UnpackedWheel(EntryPath),
    /// Wheels laid over each other, as they are installed. If all but one are device wheels of that one, it is described
    /// here, and the `*.dist-info` directories of the others are left out.
    Wheels(Option<Arc<HostWheel>>),
    /// An ELF or PE file, which is the only entry.
    Binary,
    /// A `.whl` file; the `*.dist-info` directory is named here.
    Wheel(EntryPath),
}

impl Input {
    /// An input without entries.
    pub(crate) fn empty(kind: InputKind, location: PathBuf, root: Attributes) -> Self {
        let (entries, warnings, leftovers, tables) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { kind, location, root, entries, warnings, file: None, start: 0, is_joined: false, leftovers, tables }
    }

    /// The wheel's `*.dist-info` directory, if the input is a wheel.
    pub fn dist_info(&self) -> Option<&EntryPath> {
        match &self.kind {
            InputKind::Tree | InputKind::Binary | InputKind::Wheels(None) => None,
            InputKind::UnpackedWheel(path) | InputKind::Wheel(path) => Some(path),
            InputKind::Wheels(Some(host)) => Some(&host.dist_info),
        }
    }

    /// The host wheel, if the input is one with device wheels.
    pub fn host_wheel(&self) -> Option<&HostWheel> {
        match &self.kind {
            InputKind::Wheels(host) => host.as_deref(),
            _ => None,
        }
    }

    /// Contents that show whether the input has changed.
    pub fn witnesses(&self) -> Witnesses {
        if let Some(file) = &self.file {
            return vec![Arc::clone(file)];
        }
        let files = self.entries.iter().filter_map(Entry::content).filter(|content| content.size() > 0);
        match self.kind {
            // The stored bytes of a member are read from its wheel; its inflated bytes may be in a cache.
            InputKind::Wheels(_) => {
                files.map(|file| file.member().map_or_else(|| Arc::clone(file), |it| it.packed().bytes)).collect()
            }
            _ => files.cloned().collect(),
        }
    }

    /// Has the first pass over each member of a wheel compute its SHA-256. This spares a second pass if the digests of all
    /// members will be needed.
    pub fn hash_members(&self) {
        for member in self.files().filter_map(|(_, content)| content.member()) {
            member.hash_in_passing();
        }
    }

    /// Determines again whether a directory holds exactly one wheel, after entries were removed.
    pub fn recognise(&mut self) {
        if let (InputKind::Tree, Some(dist_info)) = (&self.kind, find_dist_info(&self.entries)) {
            self.kind = InputKind::UnpackedWheel(dist_info);
        }
    }

    /// What pip left in it and is left out, in words; `None` if that is nothing.
    pub(crate) fn left_by_pip(&self) -> Option<String> {
        let (place, left) = (self.location.display(), some_of(&self.leftovers));
        let words = || {
            format!(
                "{place}: pip left {left} of upgrades that were interrupted, which nothing imports and which may be deleted"
            )
        };
        (!self.leftovers.is_empty()).then(words)
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = (&EntryPath, &Arc<dyn Content>)> {
        self.entries.iter().filter_map(|entry| Some((&entry.path, entry.content()?)))
    }

    /// The attributes of a file that only those can read who can open the one at this path. Its time is that of the root.
    pub(crate) fn readers_of(&self, path: &EntryPath) -> Attributes {
        let above = std::iter::successors(path.parent(), EntryPath::parent);
        let way = above.filter_map(|directory| Some(self.entry(&directory)?.attributes.of_way()));
        let file = self.entry(path).map(|entry| entry.attributes);
        let readable = Attributes::of_all(file.into_iter().chain(way)).unwrap_or(self.root);
        let Attributes { mtime, mtime_nanoseconds, .. } = self.root;
        Attributes { mtime, mtime_nanoseconds, ..readable }
    }

    /// The attributes of a file that only those can read who can read all of the input. Its time is that of the root.
    pub(crate) fn readers(&self) -> Attributes {
        let attributes = |entry: &Entry| match entry.kind {
            EntryKind::Directory => Some(entry.attributes.of_way()),
            EntryKind::File { .. } => Some(entry.attributes),
            EntryKind::Symlink(_) => None,
        };
        let all = self.entries.iter().filter_map(attributes).chain([self.root.of_way()]);
        let readable = Attributes::of_all(all).unwrap_or(self.root);
        let Attributes { mtime, mtime_nanoseconds, .. } = self.root;
        Attributes { mtime, mtime_nanoseconds, ..readable }
    }

    /// The place to which a path leads.
    pub(crate) fn follow(&self, path: &EntryPath) -> Resolved {
        resolve_links(path, Some(&self.location), |path| self.entry(path).map(|entry| &entry.kind))
    }

    /// Whether there is something where a path leads. What is outside of an archive is not known, and may be there.
    pub(crate) fn leads(&self, path: &EntryPath) -> bool {
        match self.follow(path) {
            Resolved::Entry(_) => true,
            Resolved::Outside(_) => self.directory().is_none_or(|directory| real_path(directory, path).is_some()),
            Resolved::Nothing => false,
        }
    }

    /// The directory that is the input; `None` for an archive file or several wheels.
    pub(crate) fn directory(&self) -> Option<&Path> {
        let is_directory = matches!(self.kind, InputKind::Tree | InputKind::UnpackedWheel(_));
        (is_directory && self.file.is_none()).then_some(&*self.location)
    }

    /// Fails if this user may not read a library or an archive of a directory. Nothing follows then from what seems to be missing.
    pub(crate) fn check_access(&self) -> Result<(), SourceError> {
        let is_wanted = |name: &[u8]| is_named_library(name) || name.ends_with(b".kpack");
        let is_denied = |content: &Arc<dyn Content>| content.read_at(0, &mut [0]).is_err_and(|error| error.is_denied());
        let Some(directory) = self.directory() else { return Ok(()) };
        let Some((path, _)) = self.files().find(|(path, content)| is_wanted(path.name()) && is_denied(content)) else {
            return Ok(());
        };
        let path = directory.join(path.as_path());
        Err(SourceError::Io { path, source: io::Error::from_raw_os_error(libc::EACCES) })
    }

    /// The wanted symlinks of a directory that lead out of it, each with the real path of what is there. Others are not followed,
    /// which costs calls of the operating system.
    pub(crate) fn links_out(
        &self,
        is_wanted: impl Fn(&EntryPath) -> bool,
    ) -> impl Iterator<Item = (&EntryPath, PathBuf)> {
        let is_link = move |entry: &&Entry| matches!(entry.kind, EntryKind::Symlink(_)) && is_wanted(&entry.path);
        let links = self.directory().map(|directory| (directory, self.entries.iter().filter(is_link)));
        links.into_iter().flat_map(|(directory, links)| {
            let out = links.filter(|entry| matches!(self.follow(&entry.path), Resolved::Outside(_)));
            out.filter_map(|entry| Some((&entry.path, real_path(directory, &entry.path)?)))
        })
    }

    /// The bytes of the file at `path`, if there is one.
    pub fn content(&self, path: &EntryPath) -> Option<&Arc<dyn Content>> {
        self.entry(path)?.content()
    }

    /// The entry at `path`.
    pub fn entry(&self, path: &EntryPath) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        self.entries.get(found)
    }
}

/// Whether a file that cannot be read is a library by its name.
pub(crate) fn is_named_library(name: &[u8]) -> bool {
    [&b".so"[..], b".dll", b".pyd"].iter().any(|part| name.windows(part.len()).any(|it| it == *part))
}

/// The one top-level `*.dist-info` directory that holds METADATA and WHEEL, if there is exactly one.
pub(super) fn find_dist_info(entries: &[Entry]) -> Option<EntryPath> {
    let is_file = |path: &EntryPath| {
        let found = entries.binary_search_by(|entry| entry.path.cmp(path)).ok().and_then(|found| entries.get(found));
        found.is_some_and(|entry| matches!(entry.kind, EntryKind::File { .. }))
    };
    let mut candidates =
        entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Directory) && entry.path.is_dist_info());
    let only = candidates.next()?;
    let complete = ["METADATA", "WHEEL"].iter().all(|name| is_file(&only.path.child(name.as_bytes())));
    (complete && candidates.next().is_none()).then(|| only.path.clone())
}

/// The state of an input as its list shows it. A copy of the input that keeps times has the same state, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedState {
    /// Seconds since 1970 of the newest entry.
    pub newest: i64,
    /// Identifies the names, kinds, permissions, sizes and times of the entries and of the files of device wheels, the targets
    /// of symlinks, the CRC-32 of members of wheels, and the requirements of device wheels.
    pub identity: Identity,
}

impl Input {
    /// The state of the input: of its entries, and of the tar archive that holds them.
    pub fn state(&self) -> ListedState {
        let mut newest = self.root.mtime;
        let mut identity = Identity::describe("state of an input");
        let time = |it: &Attributes| [it.mtime.cast_unsigned(), it.mtime_nanoseconds.into()];
        identity.numbers(time(&self.root));
        let devices = || self.host_wheel().into_iter().flat_map(|host| &host.devices);
        for text in devices().flat_map(|device| std::iter::once(&device.part).chain(&device.requires)) {
            identity.add(text.as_bytes());
        }
        for entry in self.entries.iter().chain(devices().flat_map(|device| &device.files)) {
            newest = newest.max(entry.attributes.mtime);
            identity.add(entry.path.as_bytes()).number(entry.attributes.mode.into()).numbers(time(&entry.attributes));
            match &entry.kind {
                EntryKind::Directory => identity.number(0),
                EntryKind::Symlink(target) => identity.number(1).add(target),
                EntryKind::File { content, .. } => {
                    let crc32 = content.member().map_or(0, |member| member.packed().crc32);
                    identity.numbers([2, content.size(), crc32.into()])
                }
            };
        }
        ListedState { newest, identity: identity.finish() }
    }
}
