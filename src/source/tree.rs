//! A directory as input, listed with `lstat` and read with `pread`.

use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use rustix::fs::statfs;
use rustix::process::{Resource, getrlimit};

use super::stamp::{Stamp, check_unchanged, is_cached, read_unchanged};
use super::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, SourceError, find_dist_info, links};
use crate::disk::{self, NotRegular};
use crate::resources::Resources;
use crate::rope::{Backing, Content, Identity, ReadError, to_usize};

/// The most descriptors that are kept open for an input.
const OPEN_FILES: u64 = 128;

/// Lists everything below the directory `location`. Symlinks are not followed. Anything that is neither a file, a
/// directory nor a symlink is left out with a warning. So is what this user may not list, unless `is_strict`.
pub(super) fn list(location: PathBuf, is_strict: bool, resources: &Arc<Resources>) -> Result<Input, SourceError> {
    let root = metadata(&location)?;
    if let Some(name) = kernel_file_system(&location) {
        return Err(SourceError::OfKernel { path: location, name });
    }
    let device = root.dev();
    let input = Input {
        kind: InputKind::Tree,
        root: attributes(&root),
        location,
        entries: Vec::new(),
        warnings: Vec::new(),
        file: None,
    };
    let files = Arc::new(OpenFiles::new(most_open_files()));
    let mut lister = Lister { input, directories: vec![(EntryPath::root(), device)], files, resources, is_strict };
    while let Some((directory, device)) = lister.directories.pop() {
        lister.list(&directory, device)?;
    }
    let mut input = lister.input;
    input.entries.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(dist_info) = find_dist_info(&input.entries) {
        input.kind = InputKind::UnpackedWheel(dist_info);
        links::become_files(&mut input.entries);
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
    files: Arc<OpenFiles>,
    resources: &'a Arc<Resources>,
    is_strict: bool,
}

impl Lister<'_> {
    fn list(&mut self, directory: &EntryPath, device: u64) -> Result<(), SourceError> {
        let place = self.input.location.join(directory.as_path());
        let Some(entries) = self.there(fs::read_dir(&place), &place)? else { return Ok(()) };
        for found in entries {
            let Some(found) = self.there(found, &place)? else { break };
            let path = directory.child(found.file_name().as_bytes());
            let place = self.input.location.join(path.as_path());
            let Some(metadata) = self.there(fs::symlink_metadata(&place), &place)? else { continue };
            let Some(kind) = self.kind(&path, &place, &metadata, device)? else { continue };
            self.input.entries.push(Entry { path, kind, attributes: attributes(&metadata) });
        }
        Ok(())
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
            let is_other = metadata.dev() != device;
            if let Some(name) = is_other.then(|| kernel_file_system(place)).flatten() {
                self.input.warnings.push(format!("{path}: left out: {name}, whose files the kernel generates"));
                return Ok(None);
            }
            self.directories.push((path.clone(), metadata.dev()));
            return Ok(Some(EntryKind::Directory));
        }
        if metadata.is_symlink() {
            let target = self.there(fs::read_link(place), place)?;
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

    /// The result of a look-up at a place; `None`, with a warning, if the entry has vanished since its name was read.
    /// The same holds for what this user may not see, unless `is_strict`.
    fn there<T>(&mut self, found: io::Result<T>, place: &Path) -> Result<Option<T>, SourceError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(source) if place == self.input.location => Err(SourceError::Io { path: place.to_owned(), source }),
            Err(error) if has_vanished(&error) => {
                let place = place.display();
                self.input.warnings.push(format!("{place}: left out: it was deleted before it was read"));
                Ok(None)
            }
            Err(error) if !self.is_strict && error.kind() == io::ErrorKind::PermissionDenied => {
                self.input.warnings.push(format!("{}: left out: {error}", place.display()));
                Ok(None)
            }
            Err(source) => Err(SourceError::Io { path: place.to_owned(), source }),
        }
    }
}

/// Whether an error means that something has vanished or has been replaced: not a directory, not a symlink (EINVAL).
/// For a process that has ended, /proc answers ESRCH or EINVAL.
fn has_vanished(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH | libc::EINVAL))
}

/// A single file of the operating system as a content.
pub(super) fn open_file(path: &Path, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(io)?;
    NotRegular::check(&metadata).map_err(io)?;
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

    /// A file that is already open.
    fn kept(&self, id: u64) -> Option<Arc<File>> {
        self.lock().get(&id).cloned()
    }

    /// Opens a file. Closes unused files if there are too many.
    fn open(&self, place: &Path) -> io::Result<File> {
        loop {
            match disk::open_listed(place) {
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

    use super::{Arc, Lister, OpenFiles, io};
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
    fn file_systems_of_the_kernel_are_no_trees() {
        for (location, name) in [("/proc", "proc"), ("/sys", "sysfs")] {
            let error = Input::survey(std::path::Path::new(location), &Resources::new(0)).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("{location}: {name}, whose files the kernel generates, so it contains nothing to split")
            );
        }
    }

    #[test]
    fn what_a_user_may_not_list_is_refused_or_left_out_with_its_name() {
        let place = tempfile::tempdir().unwrap();
        let resources = Resources::new(0);
        let found = |errno: i32, is_strict: bool, path: &str| {
            let input = Input::open(place.path(), &resources).unwrap();
            let files = Arc::new(OpenFiles::new(1));
            let mut lister = Lister { input, directories: Vec::new(), files, resources: &resources, is_strict };
            let result = lister.there::<()>(Err(io::Error::from_raw_os_error(errno)), &place.path().join(path));
            result.map(|_| lister.input.warnings.join("")).map_err(|error| error.to_string())
        };
        let (secret, root) = (place.path().join("secret").display().to_string(), place.path().display().to_string());
        let denied = "Permission denied (os error 13)";
        assert_eq!(found(libc::EACCES, false, "secret"), Ok(format!("{secret}: left out: {denied}")));
        assert_eq!(found(libc::EACCES, true, "secret"), Err(format!("{secret}: {denied}")));
        assert_eq!(found(libc::EACCES, false, ""), Err(format!("{root}/: {denied}")));
        assert!(found(libc::EIO, false, "secret").is_err());
        assert!(
            found(libc::ENOENT, true, "secret").unwrap().starts_with(&format!("{secret}: left out: it was deleted"))
        );
    }

    #[test]
    fn a_file_that_changes_or_shrinks_is_not_served() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("data");
        fs::write(&file, "0123456789").unwrap();
        let resources = Resources::new(1 << 20);
        let input = Input::open(place.path(), &resources).unwrap();
        let content = content(&input, "data");
        assert!(!content.is_nonblocking(0, 10));
        content.read_at(0, &mut [0; 10]).unwrap();
        assert!(content.is_nonblocking(0, 10));
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
