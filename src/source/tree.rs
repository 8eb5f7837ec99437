//! A directory as input, listed with `lstat` and read with `pread`.

use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use rustix::fs::statfs;
use rustix::process::{Resource, getrlimit};

use super::listing::is_leftover;
use super::stamp::{Stamp, check_unchanged, is_cached, read_unchanged};
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, links};
use crate::disk::{self, NotRegular};
use crate::memory::{Parser, ParserMemory};
use crate::remote::{RemoteProblem, is_url};
use crate::resources::Resources;
use crate::rope::{Backing, Content, Identity, ReadError, to_usize};

/// The most descriptors that are kept open for an input.
const OPEN_FILES: u64 = 128;

/// What is left out of an installation: the directories for which this holds, and what pip left. `None` if nothing is.
pub(super) type IsLeftOut<'a> = Option<&'a dyn Fn(&Path) -> bool>;

/// Lists everything below the directory `location`. Symlinks are not followed. Anything that is neither a file, a
/// directory nor a symlink is left out with a warning. What this user may not list goes to `denied`, or is an error.
pub(super) fn list(
    location: PathBuf,
    denied: Option<&mut Vec<SourceError>>,
    left_out: IsLeftOut<'_>,
    resources: &Arc<Resources>,
) -> Result<Input, SourceError> {
    let root = fs::symlink_metadata(&location).map_err(SourceError::at(&location))?;
    if let Some(name) = kernel_file_system(&location) {
        return Err(SourceError::OfKernel { path: location, name });
    }
    let device = root.dev();
    let mut input = Input::empty(InputKind::Tree, location, Attributes::of(&root));
    input.tables.push(ParserMemory::new(Parser::Directories));
    let (files, mounts) = (Arc::default(), disk::mounts_below(&input.location));
    let mut lister =
        Lister { input, directories: vec![(EntryPath::root(), device)], mounts, files, left_out, resources, denied };
    while let Some((directory, device)) = lister.directories.pop() {
        lister.list(&directory, device)?;
    }
    let mut input = lister.input;
    input.entries.sort_by(|a, b| a.path.cmp(&b.path));
    input.leftovers.sort();
    if let Some(dist_info) = links::settle(&mut input.entries, &input.location) {
        input.kind = InputKind::UnpackedWheel(dist_info);
    }
    Ok(input)
}

/// File systems whose files the kernel generates when they are read, by the magic numbers of linux/magic.h.
const OF_KERNEL: [(u32, &str); 15] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x0000_1cd1, "devpts"),
    (0x6265_6570, "configfs"),
    (0xde5e_81e4, "efivarfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
];

/// The name of the file system of a directory, if it is one of [`OF_KERNEL`].
fn kernel_file_system(directory: &Path) -> Option<&'static str> {
    let found = statfs(directory).ok()?.f_type;
    OF_KERNEL.iter().find(|(magic, _)| i64::from(*magic) == found).map(|(_, name)| *name)
}

/// The number of files kept open: at most an eighth of the process's limit, since others need descriptors, too. The
/// usual limit of 1024 allows [`OPEN_FILES`].
fn most_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    to_usize((limit / 8).min(OPEN_FILES))
}

/// A tree that is being listed.
struct Lister<'a> {
    input: Input,
    /// Directories that remain to be listed, each with its device.
    directories: Vec<(EntryPath, u64)>,
    /// Where kpackfs is mounted in it.
    mounts: Vec<PathBuf>,
    files: Arc<OpenFiles>,
    left_out: IsLeftOut<'a>,
    resources: &'a Arc<Resources>,
    denied: Option<&'a mut Vec<SourceError>>,
}

impl Lister<'_> {
    fn list(&mut self, directory: &EntryPath, device: u64) -> Result<(), SourceError> {
        let place = self.input.location.join(directory.as_path());
        let Some(entries) = self.existing(fs::read_dir(&place), &place)? else { return Ok(()) };
        let (first, below) = (self.input.entries.len(), self.directories.len());
        for found in entries {
            let Some(found) = self.existing(found, &place)? else { break };
            let path = directory.child(found.file_name().as_bytes());
            let place = self.input.location.join(path.as_path());
            if self.mounts.iter().any(|mount| mount == path.as_path()) {
                let place = place.display();
                let what = "a mount of kpackfs, which is not of the tree around it; name it to look into it";
                self.input.warnings.push(format!("{place}: left out: {what}"));
                continue;
            }
            let Some(metadata) = self.existing(fs::symlink_metadata(&place), &place)? else { continue };
            let Some(kind) = self.kind(&path, &place, &metadata, device)? else { continue };
            let count =
                |table: &ParserMemory| table.add_entry(path.as_bytes()).and_then(|()| table.grow(kind.target_length()));
            let counted = self.input.tables.iter().try_for_each(count);
            counted.map_err(|source| SourceError::Tables { path: self.input.location.clone(), source })?;
            self.input.entries.push(Entry { path, kind, attributes: Attributes::of(&metadata) });
        }
        if self.left_out.is_some() {
            self.leave_out_leftovers(first, below);
        }
        Ok(())
    }

    /// Drops what pip left in a directory, whose entries begin at `first`, and the directories in it at `below`.
    fn leave_out_leftovers(&mut self, first: usize, below: usize) {
        let Input { entries, leftovers, .. } = &mut self.input;
        let is_site = entries.iter().skip(first).any(|entry| entry.path.name().ends_with(b".dist-info"));
        if is_site {
            let is_left = |it: &mut Entry| matches!(it.kind, EntryKind::Directory) && is_leftover(it.path.name());
            leftovers.extend(entries.extract_if(first.., is_left).map(|entry| entry.path));
            let kept = self.directories.split_off(below).into_iter().filter(|(path, _)| !is_leftover(path.name()));
            self.directories.extend(kept);
        }
    }

    /// The kind of an entry in a directory on `device`; `None`, with a warning, if it is left out.
    fn kind(
        &mut self,
        path: &EntryPath,
        place: &Path,
        metadata: &Metadata,
        device: u64,
    ) -> Result<Option<EntryKind>, SourceError> {
        if metadata.is_dir() {
            if self.left_out.is_some_and(|is_left_out| is_left_out(place)) {
                return Ok(None);
            }
            let is_other = metadata.dev() != device;
            if let Some(name) = is_other.then(|| kernel_file_system(place)).flatten() {
                self.input.warnings.push(format!("{path}: left out: {name}, whose files the kernel generates"));
                return Ok(None);
            }
            self.directories.push((path.clone(), metadata.dev()));
            return Ok(Some(EntryKind::Directory));
        }
        if metadata.is_symlink() {
            if let Some(stopped) = disk::stopped_mount_of(place) {
                let warning = format!("symlinks into a mount are not followed: {stopped}");
                if !self.input.warnings.contains(&warning) {
                    self.input.warnings.push(warning);
                }
            }
            let target = self.existing(fs::read_link(place), place)?;
            return Ok(target.map(|target| EntryKind::Symlink(target.into_os_string().into_vec().into())));
        }
        if !metadata.is_file() {
            self.input.warnings.push(format!("{path}: left out: neither a file, a directory nor a symlink"));
            return Ok(None);
        }
        let link_group = (metadata.nlink() > 1).then(|| metadata.ino() ^ metadata.dev().rotate_left(32));
        let content = TreeFile {
            entry: path.to_text().into(),
            stamp: Stamp::of(metadata),
            id: self.resources.next_id(),
            place: place.to_owned(),
            files: Arc::clone(&self.files),
            resources: Arc::clone(self.resources),
        };
        Ok(Some(EntryKind::File { content: Arc::new(content), link_group }))
    }

    /// The result of a look-up at a place; `None`, with a warning, if the entry has vanished since its name was read, or if this
    /// user may not see it and `denied` is there for it.
    fn existing<T>(&mut self, found: io::Result<T>, place: &Path) -> Result<Option<T>, SourceError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(source) if place == self.input.location => Err(SourceError::Io { path: place.to_owned(), source }),
            Err(error) if has_vanished(&error) => {
                let place = place.display();
                self.input.warnings.push(format!("{place}: left out: it was deleted before it was read"));
                Ok(None)
            }
            Err(source) => {
                let is_denied = source.kind() == io::ErrorKind::PermissionDenied;
                let error = SourceError::Io { path: place.to_owned(), source };
                let Some(denied) = self.denied.as_mut().filter(|_| is_denied) else { return Err(error) };
                denied.push(error);
                Ok(None)
            }
        }
    }
}

/// Whether an error means that something has vanished or has been replaced: not a directory, not a symlink (EINVAL).
/// For a process that has ended, /proc answers ESRCH or EINVAL.
fn has_vanished(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH | libc::EINVAL))
}

/// A single file as a content.
pub fn open_file(path: &Path, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, SourceError> {
    open_one_of(&Arc::new(OpenFiles::new(1)), path, resources)
}

/// The same for one of many files, of which only some are kept open.
pub(crate) fn open_one_of(
    files: &Arc<OpenFiles>,
    path: &Path,
    resources: &Arc<Resources>,
) -> Result<Arc<dyn Content>, SourceError> {
    if is_url(path) {
        return Err(RemoteProblem::not_taken(path).into());
    }
    disk::check_answers(path).map_err(SourceError::at(path))?;
    let metadata = fs::metadata(path).map_err(SourceError::at(path))?;
    NotRegular::check(&metadata).map_err(SourceError::at(path))?;
    Ok(Arc::new(TreeFile {
        entry: path.to_string_lossy().into(),
        stamp: Stamp::of(&metadata),
        id: resources.next_id(),
        place: path.to_owned(),
        files: Arc::clone(files),
        resources: Arc::clone(resources),
    }))
}

#[derive(Debug)]
struct TreeFile {
    entry: Arc<str>,
    place: PathBuf,
    stamp: Stamp,
    id: u64,
    files: Arc<OpenFiles>,
    resources: Arc<Resources>,
}

impl TreeFile {
    /// The error of a file that cannot be opened.
    fn refused(&self, source: io::Error) -> ReadError {
        // It was a regular file when the input was listed.
        let is_gone = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        if is_gone || NotRegular::is_reason_of(&source) {
            return ReadError::Changed { entry: Arc::clone(&self.entry) };
        }
        ReadError::io(&self.entry, source)
    }
}

impl Content for TreeFile {
    fn size(&self) -> u64 {
        self.stamp.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let file = self.files.get(self.id, &self.place).map_err(|source| self.refused(source))?;
        read_unchanged(&file, &self.stamp, &self.entry, offset, buffer, &self.resources)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.files.kept(self.id).is_some_and(|file| is_cached(&file, offset, length))
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.stamp.identity())
    }

    fn backing(&self) -> Option<&dyn Backing> {
        Some(self)
    }
}

impl Backing for TreeFile {
    fn open(&self) -> Result<File, ReadError> {
        // Looks the file up by its name. A file that was replaced but is kept open would otherwise pass for the new
        // one.
        let file = self.files.open(&self.place).map_err(|source| ReadError::io(&self.entry, source))?;
        check_unchanged(&file, &self.stamp, &self.entry)?;
        Ok(file)
    }

    fn check(&self, file: &File) -> Result<(), ReadError> {
        check_unchanged(file, &self.stamp, &self.entry)
    }
}

/// Keeps the most recently used files open.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    files: Mutex<LruCache<u64, Arc<File>>>,
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self::new(most_open_files())
    }
}

impl OpenFiles {
    fn new(capacity: usize) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        Self { files: Mutex::new(LruCache::new(capacity)) }
    }

    fn get(&self, id: u64, place: &Path) -> io::Result<Arc<File>> {
        if let Some(file) = self.kept(id) {
            return Ok(file);
        }
        let file = Arc::new(self.open(place)?);
        self.files.lock().put(id, Arc::clone(&file));
        Ok(file)
    }

    /// A file that is already open.
    fn kept(&self, id: u64) -> Option<Arc<File>> {
        self.files.lock().get(&id).cloned()
    }

    /// Opens a file. Closes unused files if there are too many.
    fn open(&self, place: &Path) -> io::Result<File> {
        loop {
            match disk::open_listed(place) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    let mut files = self.files.lock();
                    if files.is_empty() {
                        return Err(error);
                    }
                    files.clear();
                }
                result => return result,
            }
        }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
