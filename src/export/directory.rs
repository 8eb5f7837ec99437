//! Writes the files of one directory. They are created relative to it, so that the kernel does not look up the same
//! path for each. One thread writes them, since a directory accepts one new name at a time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, futimens, openat, unlinkat};
use rustix::io::Errno;

use super::error::{ExportError, at};
use super::file;
use super::job::Ready;
use super::sharing::{Sharing, SystemCalls};
use crate::metrics::Progress;
use crate::source::Attributes;

/// A file of at least this many bytes gets a thread of its own.
const LARGE: u64 = 1 << 20;

/// The most files of less than `LARGE` bytes that one thread writes, so that one large directory keeps all threads
/// busy.
const MAX_FILES: usize = 256;

/// The mode of a new file. Until the file is complete, only its owner can open it.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Files of one directory that one thread writes.
pub(super) struct Batch {
    directory: PathBuf,
    files: Vec<Ready>,
}

/// Divides files into batches: large files first, since they take longest, then directory by directory.
pub(super) fn batches(files: Vec<Ready>) -> Vec<Batch> {
    let (mut large, small): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.content.size() >= LARGE);
    large.sort_by_key(|file| Reverse(file.content.size()));
    let mut batches: Vec<_> = large.into_iter().map(Batch::of_one).collect();
    let mut directories = BTreeMap::<PathBuf, Vec<Ready>>::new();
    for file in small {
        directories.entry(file.directory()).or_default().push(file);
    }
    for (directory, files) in directories {
        let mut files = files.into_iter();
        while files.len() > 0 {
            // Collected, since `Vec::split_off` leaves each batch with the capacity of all files that follow it.
            let files = files.by_ref().take(MAX_FILES).collect();
            batches.push(Batch { directory: directory.clone(), files });
        }
    }
    batches
}

impl Batch {
    /// A batch of a single file.
    pub(super) fn of_one(file: Ready) -> Self {
        Self { directory: file.directory(), files: vec![file] }
    }

    /// Writes the files.
    pub(super) fn write<K: SystemCalls>(&self, sharing: &Sharing<K>, progress: &Progress) -> Result<(), ExportError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, &self.directory, flags, Mode::empty());
        let directory = directory.map_err(|error| at(&self.directory)(error.into()))?;
        for ready in &self.files {
            let name = ready.path.file_name().unwrap_or_default();
            let _named = progress.at(|| name.to_string_lossy().into_owned());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&directory, name, flags, PRIVATE).map_err(|error| at(&ready.path)(error.into()))?;
            if let Err(error) = ready.fill(&File::from(file), sharing, &progress.done) {
                // An incomplete file is removed.
                unlinkat(&directory, name, AtFlags::empty()).ok();
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Ready {
    fn directory(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).to_owned()
    }

    /// Writes the bytes and attributes of a new file.
    fn fill<K: SystemCalls>(&self, file: &File, sharing: &Sharing<K>, done: &AtomicU64) -> Result<(), ExportError> {
        let refused = |error: Errno| at(&self.path)(error.into());
        let metadata = file.metadata().map_err(at(&self.path))?;
        file::write((&*self.content, self.sum.as_deref()), file, &metadata, &self.path, sharing, done)?;
        self.set_owner(file, &metadata).map_err(refused)?;
        // After the owner, since changing the owner clears set-uid.
        fchmod(file, Mode::from_raw_mode(self.attributes.mode.into())).map_err(refused)?;
        futimens(file, &self.times()).map_err(refused)
    }

    /// Sets owner and group. A user who may not give files away keeps them.
    fn set_owner(&self, file: &File, metadata: &Metadata) -> Result<(), Errno> {
        let Attributes { uid, gid, .. } = self.attributes;
        if (metadata.uid(), metadata.gid()) == (uid, gid) {
            return Ok(());
        }
        match fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
            Err(Errno::PERM | Errno::ACCESS) => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use std::sync::Arc;

    use super::*;
    use crate::export::Reflink;
    use crate::export::sharing::Linux;
    use crate::rope::Content;
    use crate::rope::{ReadError, Rope, Segment};

    fn ready(path: PathBuf, content: Arc<dyn Content>) -> Ready {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let attributes = Attributes { mode: 0o4751, uid, gid, mtime: -7, mtime_nanoseconds: 5 };
        Ready { path, content, attributes, is_made: false, sum: None }
    }

    fn of(length: usize) -> Arc<dyn Content> {
        Arc::new(Rope::new([Segment::literal(vec![b'x'; length])]).unwrap())
    }

    #[test]
    fn large_files_come_first_and_small_ones_by_directory() {
        let sizes = [("b/1", 1), ("a/large", 1 << 20), ("a/2", 2), ("b/3", 3), ("b/larger", 3 << 20)];
        let many = (0..600).map(|number| (format!("c/{number}"), 1));
        let files = sizes.map(|(path, size)| (path.to_owned(), size)).into_iter().chain(many);
        let found = batches(files.map(|(path, size)| ready(path.into(), of(size))).collect());
        let shape = |batch: &Batch| (batch.directory.to_string_lossy().into_owned(), batch.files.len());
        let expected = [("b", 1), ("a", 1), ("a", 1), ("b", 2), ("c", 256), ("c", 256), ("c", 88)];
        assert_eq!(found.iter().map(shape).collect::<Vec<_>>(), expected.map(|(name, files)| (name.to_owned(), files)));
        assert_eq!(found[3].files.iter().map(|file| file.content.size()).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn batches_have_room_for_their_own_files_only() {
        let files = (0..10_000).map(|number| ready(format!("d/{number}").into(), of(1))).collect();
        let capacity: usize = batches(files).iter().map(|batch| batch.files.capacity()).sum();
        assert!(capacity <= 2 * 10_000, "{capacity}");
    }

    #[test]
    fn a_file_gets_its_bytes_and_attributes() {
        let place = tempfile::tempdir().unwrap();
        let progress = Progress::default();
        let sharing = Sharing::new(Linux, Reflink::Auto);
        let path = place.path().join("x");
        batches(vec![ready(path.clone(), of(5))])[0].write(&sharing, &progress).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o7777, metadata.mtime(), metadata.mtime_nsec()), (0o4751, -7, 5));
        assert_eq!((fs::read(&path).unwrap(), progress.done.into_inner()), (b"xxxxx".to_vec(), 5));
    }

    /// A file that cannot be read.
    #[derive(Debug)]
    struct Damaged;

    impl Content for Damaged {
        fn size(&self) -> u64 {
            5
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
            Err(ReadError::Changed { entry: "lib/x".into() })
        }
    }

    #[test]
    fn what_fails_leaves_no_name_and_what_is_there_stays() {
        let place = tempfile::tempdir().unwrap();
        let sharing = Sharing::new(Linux, Reflink::Auto);
        let write = |name: &str, content| {
            let batches = batches(vec![ready(place.path().join(name), content)]);
            batches[0].write(&sharing, &Progress::default()).map_err(|error| error.to_string())
        };
        let said = write("x", Arc::new(Damaged)).unwrap_err();
        assert!(said.contains("/x: lib/x"), "{said}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        fs::write(place.path().join("y"), "there").unwrap();
        assert!(write("y", of(3)).unwrap_err().contains("File exists"));
        assert_eq!(fs::read(place.path().join("y")).unwrap(), b"there");
    }
}
