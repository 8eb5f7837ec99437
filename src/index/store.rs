//! A folder that keeps what is expensive to make, up to a number of bytes: compressed code objects.
//!
//! Each is a file of its own, named after what it is: 16 bytes of checksum and the content. What was not used for the
//! longest time leaves first. Several processes can share the folder; each looks after the bound now and then.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::rope::Identity;

/// What the names of these files end with.
const SUFFIX: &str = "frame";

/// Bytes of checksum before the content.
const CHECKSUM: usize = 16;

/// The folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The most bytes that it holds, checksums included.
    capacity: u64,
    /// About how many bytes there are.
    bytes: AtomicU64,
    /// Files that this process has begun to write.
    begun: AtomicU64,
}

/// A file in the folder.
struct Stored {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

impl Store {
    /// A folder for `capacity` bytes; it is made if need be.
    pub fn open(folder: &Path, capacity: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let store = Self { folder: folder.to_owned(), capacity, bytes: AtomicU64::new(0), begun: AtomicU64::new(0) };
        store.make_room()?;
        Ok(store)
    }

    /// What is kept under this identity; `None` also if it is damaged.
    pub fn get(&self, identity: &Identity) -> Option<Vec<u8>> {
        let path = self.path(identity);
        let mut bytes = fs::read(&path).ok()?;
        let content = (bytes.len() >= CHECKSUM).then(|| bytes.split_off(CHECKSUM))?;
        if bytes != checksum(&content) {
            fs::remove_file(&path).ok();
            return None;
        }
        // Only for the order in which files leave.
        File::open(&path).and_then(|file| file.set_modified(SystemTime::now())).ok();
        Some(content)
    }

    /// Keeps something. What cannot be written is not kept, and nobody has to know.
    pub fn put(&self, identity: &Identity, content: &[u8]) {
        let size = (content.len() + CHECKSUM) as u64;
        let path = self.path(identity);
        if size > self.capacity || path.exists() {
            return;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{}.{number}.new", process::id()));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&temporary);
        let written = file.and_then(|mut file| {
            file.write_all(&checksum(content))?;
            file.write_all(content)?;
            fs::rename(&temporary, &path)
        });
        if let Err(error) = written {
            tracing::debug!(path = %path.display(), "not kept: {error}");
            fs::remove_file(&temporary).ok();
            return;
        }
        if self.bytes.fetch_add(size, Ordering::Relaxed) + size > self.capacity {
            self.make_room().ok();
        }
    }

    fn path(&self, identity: &Identity) -> PathBuf {
        self.folder.join(format!("{:032x}.{SUFFIX}", u128::from_be_bytes(identity.0)))
    }

    /// Removes the least recently used files until there is some room, if there is none.
    fn make_room(&self) -> io::Result<()> {
        let mut stored = stored(&self.folder)?;
        let (_, mut bytes) = total(&stored);
        if bytes > self.capacity {
            stored.sort_by_key(|file| Reverse(file.used));
            // So that the next few need not look again.
            let enough = self.capacity / 10 * 9;
            while let Some(file) = stored.pop_if(|_| bytes > enough) {
                fs::remove_file(&file.path).ok();
                bytes -= file.size;
            }
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// The number of files that are kept in a folder, and of their bytes.
pub fn count(folder: &Path) -> io::Result<(usize, u64)> {
    Ok(total(&stored(folder)?))
}

/// Removes all that is kept in a folder; the number of files and bytes.
pub fn clear(folder: &Path) -> io::Result<(usize, u64)> {
    let stored = stored(folder)?;
    for file in &stored {
        fs::remove_file(&file.path)?;
    }
    Ok(total(&stored))
}

fn total(stored: &[Stored]) -> (usize, u64) {
    (stored.len(), stored.iter().map(|file| file.size).sum())
}

/// What is in a folder. One that is not there is empty.
fn stored(folder: &Path) -> io::Result<Vec<Stored>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        // Another process may have removed it.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if path.extension().is_some_and(|extension| extension == SUFFIX) && metadata.is_file() {
            found.push(Stored { path, size: metadata.len(), used: metadata.modified()? });
        }
    }
    Ok(found)
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM] {
    Identity::describe("kept").add(content).finish().0
}

#[cfg(test)]
mod tests {

    use std::time::Duration;

    use super::*;

    fn identity(number: u64) -> Identity {
        Identity::describe("test").number(number).finish()
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_leaves_first() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(&place.path().join("a/b"), 500).unwrap();
        for number in 0..4 {
            store.put(&identity(number), &[u8::try_from(number).unwrap(); 84]);
            let age = Duration::from_secs(1000 - number);
            let file = File::open(store.path(&identity(number))).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        assert_eq!(store.get(&identity(0)), Some(vec![0; 84]));
        store.put(&identity(4), &[4; 184]);
        let there: Vec<_> = (0..5).filter(|&number| store.get(&identity(number)).is_some()).collect();
        assert_eq!(there, [0, 3, 4], "1 and 2 were not used for the longest time");
        store.put(&identity(5), &[5; 500]);
        assert!(store.get(&identity(5)).is_none(), "larger than all there is room for");
        assert_eq!(count(&store.folder).unwrap(), (3, 400));
        assert_eq!(clear(&store.folder).unwrap(), (3, 400));
        assert_eq!(count(&store.folder).unwrap(), (0, 0));
        assert_eq!(clear(&place.path().join("nowhere")).unwrap(), (0, 0));
    }

    #[test]
    fn what_is_damaged_is_not_there() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(place.path(), 1000).unwrap();
        for at in [0, 20] {
            store.put(&identity(1), b"a frame of some bytes");
            let path = store.path(&identity(1));
            let mut bytes = fs::read(&path).unwrap();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert!(store.get(&identity(1)).is_none());
            assert!(!path.exists());
        }
        fs::write(store.path(&identity(2)), "short").unwrap();
        assert!(store.get(&identity(2)).is_none());
    }
}
