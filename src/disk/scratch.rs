//! Scratch: temporary data as large as the input, in unnamed files on a disk, with a quota. Unpacked tar archives and
//! compressed code objects are there, until the process ends.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{fstatvfs, statfs};

use super::write_at;

/// The quota is checked again after this many bytes, since other programs write to the disk as well.
pub(crate) const GRAIN: u64 = 64 << 20;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of linux/magic.h.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The quota of a process: at most half of the free space of each disk, and at most as many bytes as the user says.
#[derive(Debug)]
pub(crate) struct Scratch {
    limit: Option<u64>,
    /// Whether archives may unpack to any number of times their size.
    pub(crate) allows_any_ratio: bool,
    /// Bytes that are reserved, by device.
    reserved: Mutex<HashMap<u64, u64>>,
}

/// Why there is no room for temporary data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScratchError {
    /// No directory for temporary files is on a disk.
    #[error("there is no directory on a disk for temporary files; name one with TMPDIR")]
    NoDirectory,
    /// It would fill the disk.
    #[error(
        "{} MiB of temporary files in {} are not enough, and no more than half of the free space there is used ({} MiB \
         are free now); free some, or name a directory on another disk with TMPDIR", reserved >> 20, directory.display(), free >> 20
    )]
    Full { directory: PathBuf, reserved: u64, free: u64 },
    /// The user's limit is too low.
    #[error("the {} MiB of temporary files that --scratch allows are not enough", .0 >> 20)]
    Limit(u64),
    /// The operating system refused.
    #[error("temporary files in {}: {source}", directory.display())]
    Io { directory: PathBuf, source: io::Error },
}

/// The part of the quota that one file has. It ends with this value.
#[derive(Debug)]
pub(crate) struct ScratchLease {
    scratch: Arc<Scratch>,
    directory: PathBuf,
    device: u64,
    bytes: Mutex<u64>,
}

/// An unnamed file that grows within the quota.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    file: File,
    lease: ScratchLease,
    length: u64,
    /// Bytes that may be written before more are reserved.
    left: u64,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { limit: None, allows_any_ratio: true, reserved: Mutex::default() }
    }
}

impl Scratch {
    /// A quota with the user's limit, in bytes.
    pub(crate) fn new(limit: Option<u64>, allows_any_ratio: bool) -> Arc<Self> {
        Arc::new(Self { limit, allows_any_ratio, ..Self::default() })
    }

    /// An unnamed file on a disk: in this directory if it is on one, or else in that of temporary files.
    pub(crate) fn create(self: &Arc<Self>, preferred: Option<&Path>) -> Result<ScratchFile, ScratchError> {
        let preferred = preferred.filter(|directory| is_writable_disk(directory)).map(Path::to_owned);
        self.create_in(&preferred.or_else(temporary_directory).ok_or(ScratchError::NoDirectory)?)
    }

    /// An unnamed file in this directory.
    pub(crate) fn create_in(self: &Arc<Self>, directory: &Path) -> Result<ScratchFile, ScratchError> {
        let refused = |source| ScratchError::Io { directory: directory.to_owned(), source };
        let file = tempfile::tempfile_in(directory).map_err(refused)?;
        let device = file.metadata().map_err(refused)?.dev();
        let (scratch, directory) = (Arc::clone(self), directory.to_owned());
        let lease = ScratchLease { scratch, directory, device, bytes: Mutex::default() };
        Ok(ScratchFile { file, lease, length: 0, left: 0 })
    }
}

impl ScratchLease {
    /// Reserves `wanted` bytes for a file, or as many as there is room for. Fails if these are fewer than `least`.
    pub(crate) fn reserve(&self, file: &File, least: u64, wanted: u64) -> Result<u64, ScratchError> {
        let free = free_bytes(file);
        let mut all = self.scratch.reserved.lock();
        let total: u64 = all.values().sum();
        let reserved = all.entry(self.device).or_default();
        let of_disk = half(free, *reserved).saturating_sub(*reserved);
        let of_user = self.scratch.limit.unwrap_or(u64::MAX).saturating_sub(total);
        let granted = wanted.min(of_disk).min(of_user);
        if granted < least {
            return Err(match self.scratch.limit {
                Some(limit) if of_user < of_disk => ScratchError::Limit(limit),
                _ => ScratchError::Full { directory: self.directory.clone(), reserved: *reserved, free },
            });
        }
        *reserved += granted;
        *self.bytes.lock() += granted;
        Ok(granted)
    }
}

impl Drop for ScratchLease {
    fn drop(&mut self) {
        if let Some(reserved) = self.scratch.reserved.lock().get_mut(&self.device) {
            *reserved = reserved.saturating_sub(*self.bytes.lock());
        }
    }
}

impl ScratchFile {
    /// Appends bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), ScratchError> {
        let count = bytes.len() as u64;
        if self.left < count {
            self.left += self.lease.reserve(&self.file, count - self.left, GRAIN.max(count))?;
        }
        let refused = |source| ScratchError::Io { directory: self.lease.directory.clone(), source };
        write_at(&self.file, bytes, self.length).map_err(refused)?;
        self.length += count;
        self.left -= count;
        Ok(())
    }

    /// Bytes that were appended.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// The file, and its part of the quota.
    pub(crate) fn into_parts(self) -> (File, ScratchLease) {
        (self.file, self.lease)
    }
}

/// Half of the space that would be free without the `used` bytes.
pub(crate) fn half(free: u64, used: u64) -> u64 {
    free.saturating_add(used) / 2
}

/// The free bytes on the filesystem of a file. 0 if it does not tell.
pub(crate) fn free_bytes(file: &File) -> u64 {
    fstatvfs(file).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// A directory on a disk for temporary files.
pub(crate) fn temporary_directory() -> Option<PathBuf> {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    named.into_iter().chain([PathBuf::from("/var/tmp")]).find(|directory| is_writable_disk(directory))
}

/// Whether files can be created in a directory, and are not in memory (tmpfs, ramfs).
pub(crate) fn is_writable_disk(directory: &Path) -> bool {
    let is_disk = statfs(directory).is_ok_and(|found| !IN_MEMORY.contains(&found.f_type));
    is_disk && tempfile::tempfile_in(directory).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_share_the_quota() {
        let scratch = Scratch::new(Some(3 << 20), true);
        let place = Path::new("/var/tmp");
        let [mut one, mut two] = [(); 2].map(|()| scratch.create_in(place).unwrap());
        let piece = vec![1; 1 << 20];
        one.append(&piece).unwrap();
        // The whole limit is reserved for the first file.
        let error = two.append(&piece).unwrap_err();
        assert_eq!(error.to_string(), "the 3 MiB of temporary files that --scratch allows are not enough");
        one.append(&piece).unwrap();
        one.append(&piece).unwrap();
        assert!(one.append(&[1]).is_err() && one.length() == 3 << 20);
        drop(one);
        two.append(&piece).unwrap();
    }

    #[test]
    fn half_of_the_free_space_stays_free() {
        let (scratch, place) = (Scratch::new(None, true), Path::new("/var/tmp"));
        let (file, lease) = scratch.create_in(place).unwrap().into_parts();
        let free = free_bytes(&file);
        let granted = lease.reserve(&file, 0, u64::MAX).unwrap();
        assert!(granted.abs_diff(free / 2) < free / 4, "{granted} of {free}");
        let refused = lease.reserve(&file, free, u64::MAX).unwrap_err();
        assert!(matches!(refused, ScratchError::Full { .. }), "{refused}");
    }
}
