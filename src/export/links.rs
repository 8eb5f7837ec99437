//! Further names of a file: hard links, and copies where the filesystem allows no more links to it.

use std::path::PathBuf;

use rustix::io::Errno;

use super::directory::Batch;
use super::error::{ExportError, at};
use super::job::WriteJob;
use super::sharing::{Sharing, SystemCalls};
use crate::metrics::Progress;

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
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::export::{Reflink, write_files};
    use crate::rope::{Rope, Segment};
    use crate::source::Attributes;
    use crate::tree::Body;

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
        write_files(vec![file], &sharing, &progress).unwrap();
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
