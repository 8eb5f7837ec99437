//! Files that get their name when they are complete.

use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::syncfs;
use tempfile::{Builder, NamedTempFile};

/// A temporary file of this age belongs to a process that was killed.
const ORPHANED: Duration = Duration::from_secs(3600);

/// Whether a power cut may lose a file, or leave an empty one, although its name was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The system writes it when it likes.
    Deferred,
    /// It is on the disk before it has its name, and its name is there before this returns. This takes some 10 ms.
    Synced,
}

/// A file that is being written. If it is dropped before it is published, nothing is left.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl NewFile {
    /// A file that becomes the one at `path`, with this mode (less the umask). Meanwhile its name consists of `prefix`,
    /// random characters and `suffix`: processes in different containers can have equal process IDs.
    pub(crate) fn create(path: &Path, prefix: &str, suffix: &str, mode: u32) -> io::Result<Self> {
        let mut name = Builder::new();
        name.prefix(prefix).suffix(suffix).rand_bytes(16);
        #[expect(clippy::disallowed_methods, reason = "a new file is no FIFO")]
        let create = |name: &Path| File::options().read(true).write(true).create_new(true).mode(mode).open(name);
        Ok(Self { file: name.make_in(parent(path), create)?, path: path.to_owned() })
    }

    pub(crate) fn as_file(&self) -> &File {
        self.file.as_file()
    }

    /// Gives it its name. Another file of that name is replaced, or else an error.
    pub(crate) fn publish(self, may_replace: bool, durability: Durability) -> io::Result<File> {
        let Self { file, path } = self;
        if durability == Durability::Synced {
            file.as_file().sync_all()?;
        }
        let published = if may_replace { file.persist(&path) } else { file.persist_noclobber(&path) };
        let file = published.map_err(|error| error.error)?;
        if durability == Durability::Synced {
            sync_directory(parent(&path))?;
        }
        Ok(file)
    }
}

/// The directory in which a file is.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a directory, through no symlink.
pub(crate) fn open_directory(directory: &Path, flags: i32) -> io::Result<File> {
    #[expect(clippy::disallowed_methods, reason = "nothing but a directory is opened, and that does not wait")]
    File::options().read(true).custom_flags(libc::O_DIRECTORY | flags).open(directory)
}

/// Has the names in a directory survive a power cut. Some filesystems cannot do that, which is no error: they have
/// nothing that is lost, or nothing can be done about it.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    match open_directory(directory, 0)?.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Writes everything that was changed on the filesystem of a directory to its disk.
pub(crate) fn sync_filesystem(directory: &Path) -> io::Result<()> {
    Ok(syncfs(open_directory(directory, 0)?)?)
}

/// Creates a directory, and those above it, for this user only.
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Whether a temporary file with this metadata was left by a process that was killed.
pub(crate) fn is_orphaned(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    age.is_some_and(|age| age > ORPHANED)
}
