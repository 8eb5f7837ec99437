//! A directory as input, listed with `lstat` and read with `pread`.

use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use rustix::process::{Resource, getrlimit};

use super::stamp::{Stamp, check_unchanged, is_cached, read_unchanged};
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, find_dist_info, links};
use crate::resources::Resources;
use crate::rope::{Backing, Content, Identity, ReadError};

/// Descriptors kept open per input, at most. Fewer where the process may have few: others need some as well.
const OPEN_FILES: u64 = 128;

/// Lists everything below the directory `location`. Symlinks are not followed. What is neither a file, a directory
/// nor a symlink is left out with a warning.
pub(super) fn list(location: PathBuf, resources: &Arc<Resources>) -> Result<Input, SourceError> {
    let files = Arc::new(OpenFiles::new(most_open_files()));
    let root = metadata(&location)?;
    let mut input =
        Input { kind: InputKind::Tree, root: attributes(&root), location, entries: Vec::new(), warnings: Vec::new() };
    let mut directories = vec![EntryPath::root()];
    while let Some(directory) = directories.pop() {
        list_directory(&mut input, &directory, &mut directories, &files, resources)?;
    }
    input.entries.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(dist_info) = find_dist_info(&input.entries) {
        input.kind = InputKind::UnpackedWheel(dist_info);
        links::become_files(&mut input.entries);
    }
    Ok(input)
}

/// How many files are kept open: an eighth of what the process may open, and the usual limit of 1024 allows [`OPEN_FILES`].
fn most_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((limit / 8).min(OPEN_FILES)).unwrap_or(usize::MAX)
}

fn list_directory(
    input: &mut Input,
    directory: &EntryPath,
    directories: &mut Vec<EntryPath>,
    files: &Arc<OpenFiles>,
    resources: &Arc<Resources>,
) -> Result<(), SourceError> {
    let place = input.location.join(directory.as_path());
    let is_root = *directory == EntryPath::root();
    let Some(entries) = there(fs::read_dir(&place), &place, &mut input.warnings, is_root)? else { return Ok(()) };
    for found in entries {
        let Some(found) = there(found, &place, &mut input.warnings, is_root)? else { break };
        let path = directory.child(found.file_name().as_bytes());
        let place = input.location.join(path.as_path());
        let found = fs::symlink_metadata(&place);
        let Some(metadata) = there(found, &place, &mut input.warnings, false)? else { continue };
        let kind = if metadata.is_dir() {
            directories.push(path.clone());
            EntryKind::Directory
        } else if metadata.is_symlink() {
            let target = fs::read_link(&place);
            let Some(target) = there(target, &place, &mut input.warnings, false)? else { continue };
            EntryKind::Symlink(target.into_os_string().into_vec().into())
        } else if metadata.is_file() {
            let link_group = (metadata.nlink() > 1).then(|| metadata.ino() ^ metadata.dev().rotate_left(32));
            let content = TreeFile {
                entry: path.to_text().into(),
                stamp: Stamp::of(&metadata),
                id: resources.next_id(),
                place,
                files: Arc::clone(files),
                resources: Arc::clone(resources),
            };
            EntryKind::File { content: Arc::new(content), link_group }
        } else {
            input.warnings.push(format!("{path}: left out: neither a file, a directory nor a symlink"));
            continue;
        };
        input.entries.push(Entry { path, kind, attributes: attributes(&metadata) });
    }
    Ok(())
}

/// What is found at a place; `None`, with a warning, if it has vanished since its name was read. A tree need not stand still:
/// /proc never does.
fn there<T>(
    found: io::Result<T>,
    place: &Path,
    warnings: &mut Vec<String>,
    must_be: bool,
) -> Result<Option<T>, SourceError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if !must_be && has_vanished(&error) => {
            warnings.push(format!("{}: left out: it was gone before it was looked at", place.display()));
            Ok(None)
        }
        Err(source) => Err(SourceError::Io { path: place.to_owned(), source }),
    }
}

/// Whether an error says that something is no longer there, or is no longer what it was: no directory, no symlink (EINVAL). Of a
/// process that has ended, /proc says ESRCH or EINVAL.
fn has_vanished(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH | libc::EINVAL))
}

/// A single file of the operating system as a content.
pub(super) fn open_file(path: &Path, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(SourceError::NotAFile(path.to_owned()));
    }
    Ok(Arc::new(TreeFile {
        entry: path.to_string_lossy().into(),
        stamp: Stamp::of(&metadata),
        id: resources.next_id(),
        place: path.to_owned(),
        files: Arc::new(OpenFiles::new(1)),
        resources: Arc::clone(resources),
    }))
}

fn metadata(path: &Path) -> Result<Metadata, SourceError> {
    fs::symlink_metadata(path).map_err(|source| SourceError::Io { path: path.to_owned(), source })
}

pub(super) fn attributes(metadata: &Metadata) -> Attributes {
    Attributes {
        mode: u16::try_from(metadata.mode() & 0o7777).unwrap_or(0),
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: metadata.mtime(),
        mtime_nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
    }
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
    /// Why the file cannot be opened.
    fn refused(&self, source: io::Error) -> ReadError {
        match source.kind() {
            // There was one when the input was listed.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                ReadError::Changed { entry: Arc::clone(&self.entry) }
            }
            _ => ReadError::io(&self.entry, source),
        }
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

    fn is_prompt(&self, offset: u64, length: usize) -> bool {
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
        // By its name: a file that was replaced but is kept open for reading would otherwise pass for the new one.
        let file = self.files.open(&self.place).map_err(|source| ReadError::io(&self.entry, source))?;
        check_unchanged(&file, &self.stamp, &self.entry)?;
        Ok(file)
    }
}

/// Keeps the most recently used files open.
#[derive(Debug)]
struct OpenFiles {
    capacity: NonZeroUsize,
    files: Mutex<LruCache<u64, Arc<File>>>,
}

impl OpenFiles {
    fn new(capacity: usize) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        Self { capacity, files: Mutex::new(LruCache::new(capacity)) }
    }

    fn get(&self, id: u64, place: &Path) -> io::Result<Arc<File>> {
        if let Some(file) = self.kept(id) {
            return Ok(file);
        }
        let file = Arc::new(self.open(place)?);
        self.lock().put(id, Arc::clone(&file));
        Ok(file)
    }

    /// A file that is open already.
    fn kept(&self, id: u64) -> Option<Arc<File>> {
        self.lock().get(&id).cloned()
    }

    /// Opens a file, and closes those that nobody uses now if there are too many.
    fn open(&self, place: &Path) -> io::Result<File> {
        loop {
            match File::open(place) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    let kept = std::mem::replace(&mut *self.lock(), LruCache::new(self.capacity));
                    if kept.is_empty() {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<u64, Arc<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {

    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use crate::resources::Resources;
    use crate::rope::{Content, ReadError};
    use crate::source::{EntryKind, EntryPath, Input, InputKind};

    fn content(input: &Input, path: &str) -> std::sync::Arc<dyn Content> {
        match &input.entry(&EntryPath::new(path.as_bytes()).unwrap()).unwrap().kind {
            EntryKind::File { content, .. } => content.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_in_a_directory_is_listed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("lib/empty")).unwrap();
        fs::write(root.join("lib/a.so"), "hello").unwrap();
        fs::hard_link(root.join("lib/a.so"), root.join("lib/b.so")).unwrap();
        symlink("a.so", root.join("lib/link")).unwrap();
        std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let input = Input::open(root, &Resources::new(1 << 20)).unwrap();
        let paths: Vec<_> = input.entries.iter().map(|entry| entry.path.to_string()).collect();
        assert_eq!(paths, ["lib", "lib/a.so", "lib/b.so", "lib/empty", "lib/link"]);
        assert!(input.warnings[0].starts_with("socket: left out"));
        assert_eq!(input.kind, InputKind::Tree);
        let links: Vec<_> = input
            .entries
            .iter()
            .filter_map(|entry| match entry.kind {
                EntryKind::File { link_group, .. } => link_group,
                _ => None,
            })
            .collect();
        assert_eq!((links.len(), links[0]), (2, links[1]));
        let mut bytes = [0; 3];
        content(&input, "lib/b.so").read_at(2, &mut bytes).unwrap();
        assert_eq!(&bytes, b"llo");
    }

    #[test]
    fn a_file_that_changes_or_shrinks_is_not_served() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("data");
        fs::write(&file, "0123456789").unwrap();
        let resources = Resources::new(1 << 20);
        let input = Input::open(place.path(), &resources).unwrap();
        let content = content(&input, "data");
        assert!(!content.is_prompt(0, 10));
        content.read_at(0, &mut [0; 10]).unwrap();
        assert!(content.is_prompt(0, 10));
        assert_eq!(content.backing().unwrap().open().unwrap().metadata().unwrap().len(), 10);
        assert_eq!(resources.counters.bytes_read.get(), 10);
        fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"x").unwrap();
        assert!(matches!(content.read_at(0, &mut [0; 4]), Err(ReadError::Changed { .. })));
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(2).unwrap();
        assert!(matches!(content.read_at(0, &mut [0; 4]), Err(ReadError::Changed { .. })));
        assert!(matches!(content.backing().unwrap().open(), Err(ReadError::Changed { .. })));
    }

    #[test]
    fn an_unpacked_wheel_is_recognised() {
        let place = tempfile::tempdir().unwrap();
        let info = place.path().join("x-1.dist-info");
        fs::create_dir(&info).unwrap();
        let open = || Input::open(place.path(), &Resources::new(0)).unwrap().kind;
        assert_eq!(open(), InputKind::Tree);
        fs::write(info.join("METADATA"), "").unwrap();
        fs::write(info.join("WHEEL"), "").unwrap();
        assert_eq!(open(), InputKind::UnpackedWheel(EntryPath::new(b"x-1.dist-info").unwrap()));
        fs::create_dir(place.path().join("y-1.dist-info")).unwrap();
        assert_eq!(open(), InputKind::Tree);
    }
}
