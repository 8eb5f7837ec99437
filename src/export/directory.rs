//! Files to write: in batches of one directory each, and then the further names of each file, which are hard links, or copies
//! where the filesystem allows no more links.
//!
//! Files are created relative to their directory, so that the kernel does not look up the same path for each. One
//! thread writes them, since a directory accepts one new name at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, fchmod, fchown, futimens, openat, unlinkat,
};
use rustix::io::Errno;

use super::dates::NOW;
use super::error::{ExportError, at, reading};
use super::file;
use super::sharing::{Sharing, SystemCalls};
use crate::metrics::Progress;
use crate::rope::Content;
use crate::source::Attributes;
use crate::split::FileSum;
use crate::tree::Body;

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
        file::write(&*self.content, self.sum.as_deref(), file, &metadata, &self.path, sharing, done)?;
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

/// A file to write: what it will have, and its path.
#[derive(Clone)]
pub(super) struct WriteJob<T = Body> {
    pub(super) path: PathBuf,
    pub(super) content: T,
    pub(super) attributes: Attributes,
    /// Whether it is no file of the input, so that it has the time when it is written.
    pub(super) is_made: bool,
    /// Where its digest is wanted.
    pub(super) sum: Option<Arc<FileSum>>,
}

/// The paths of new files whose digests are wanted.
pub(crate) type WantedSums = HashMap<PathBuf, Arc<FileSum>>;

/// A file to write, of which all is known.
pub(super) type Ready = WriteJob<Arc<dyn Content>>;

impl WriteJob {
    /// Makes the content, and adds its size to the bytes to write. What is read for it is among the expected bytes.
    pub(super) fn ready(self, progress: &Progress) -> Result<Ready, ExportError> {
        let Self { path, content: body, attributes, is_made, sum } = self;
        let _named = progress.at(|| path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let work = body.work();
        let content = body.content().map_err(reading(&path))?;
        progress.expect(content.size());
        progress.advance(work);
        Ok(Ready { path, content, attributes, is_made, sum })
    }
}

impl Ready {
    /// Its time, for `futimens`.
    pub(super) fn times(&self) -> Timestamps {
        if self.is_made { NOW } else { times(&self.attributes) }
    }
}

/// The time of an entry of the input, for `utimensat`.
pub(super) fn times(attributes: &Attributes) -> Timestamps {
    let time = Timespec { tv_sec: attributes.mtime, tv_nsec: attributes.mtime_nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// A file with its further names.
pub(super) struct LinkedFile {
    pub(super) file: WriteJob,
    pub(super) names: Vec<PathBuf>,
}

impl LinkedFile {
    /// Creates the further names of a file that has been written.
    pub(super) fn link<K: SystemCalls>(self, sharing: &Sharing<K>, progress: &Progress) -> Result<(), ExportError> {
        let Self { mut file, names } = self;
        for name in names {
            match sharing.kernel.link(&file.path, &name) {
                Ok(()) => {}
                // The file has as many links as the filesystem allows (ext4: 65,000), or the filesystem has no links
                // (FAT). The names that follow are links to the copy.
                Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => {
                    file.path = name;
                    Batch::of_one(file.clone().ready(progress)?).write(sharing, progress)?;
                }
                Err(error) => return Err(at(&name)(error.into())),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::export::sharing::Linux;
    use crate::export::{Reflink, about, ready_files, write_ready};
    use crate::rope::{Content, Materialize, ReadError, Rope, Segment, SizeBounds};
    use crate::source::Attributes;
    use crate::tree::Body;

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

    /// A file that is made of another one.
    #[derive(Debug)]
    struct Thin;

    impl Materialize for Thin {
        fn made(&self) -> Option<Arc<dyn Content>> {
            None
        }

        fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
            Ok(of(3))
        }

        fn work(&self) -> u64 {
            100
        }
    }

    #[test]
    fn what_is_read_for_a_file_is_progress() {
        let bounds = |least, most| SizeBounds { least, most };
        let sizes = [SizeBounds::exact(7), bounds(10, 50), bounds(5, u64::MAX), bounds(u64::MAX, u64::MAX)];
        assert_eq!(sizes.map(|size| about(size, 100)), [7, 20, 105, u64::MAX]);
        let (progress, known) = (Progress::default(), ready("x".into(), of(0)));
        progress.expect(100);
        let Ready { path, attributes, is_made, sum, .. } = known;
        WriteJob { path, content: Body::Made(Arc::new(Thin)), attributes, is_made, sum }.ready(&progress).unwrap();
        assert_eq!((progress.processed(), progress.all()), (100, (103, false)));
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

    /// A filesystem that allows this many links to a file, and refuses more with this error.
    struct Limited(u64, Errno);

    impl SystemCalls for Limited {
        fn share(&self, _: &File, _: u64, _: &File, _: u64, _: u64) -> Result<(), Errno> {
            Err(Errno::OPNOTSUPP)
        }

        fn copy(&self, _: &File, _: u64, _: &File, _: u64, _: u64) -> Result<u64, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        fn link(&self, file: &Path, name: &Path) -> Result<(), Errno> {
            let links = fs::metadata(file).unwrap().nlink();
            if links >= self.0 { Err(self.1) } else { rustix::fs::link(file, name) }
        }
    }

    /// Writes a file with six further names. Returns the number of links of each inode, and the bytes written.
    fn links(kernel: Limited) -> Result<(Vec<u64>, u64), String> {
        let place = tempfile::tempdir().unwrap();
        let content = Arc::new(Rope::new([Segment::literal(b"bytes".to_vec())]).unwrap());
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let attributes = Attributes { mode: 0o640, uid, gid, mtime: 7, mtime_nanoseconds: 5 };
        let file = WriteJob {
            path: place.path().join("0"),
            content: Body::Ready(content),
            attributes,
            is_made: false,
            sum: None,
        };
        let names: Vec<_> = (1..7).map(|number| place.path().join(number.to_string())).collect();
        let (sharing, progress) = (Sharing::new(kernel, Reflink::Auto), Progress::default());
        let linked = LinkedFile { file: file.clone(), names: names.clone() };
        write_ready(ready_files(vec![file], &progress).unwrap(), &sharing, &progress).unwrap();
        linked.link(&sharing, &progress).map_err(|error| error.to_string())?;
        let mut inodes = std::collections::BTreeMap::new();
        for name in names.iter().chain([&place.path().join("0")]) {
            let found = fs::metadata(name).unwrap();
            assert_eq!((found.mode() & 0o7777, found.mtime(), found.mtime_nsec()), (0o640, 7, 5));
            assert_eq!(fs::read(name).unwrap(), b"bytes");
            inodes.insert(found.ino(), found.nlink());
        }
        let mut links: Vec<_> = inodes.into_values().collect();
        links.sort_unstable();
        assert_eq!(progress.total.into_inner(), progress.done.load(Ordering::Relaxed));
        Ok((links, progress.done.into_inner()))
    }

    #[test]
    fn a_file_is_copied_where_no_more_links_are_allowed() {
        assert_eq!(links(Limited(100, Errno::MLINK)), Ok((vec![7], 5)));
        assert_eq!(links(Limited(3, Errno::MLINK)), Ok((vec![1, 3, 3], 15)));
        for without_links in [Errno::PERM, Errno::OPNOTSUPP] {
            assert_eq!(links(Limited(1, without_links)), Ok((vec![1; 7], 35)));
        }
        assert!(links(Limited(1, Errno::NOSPC)).unwrap_err().contains("/1: No space left"));
    }
}
