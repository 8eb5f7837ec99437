//! The frame folders of all inputs in a cache directory, and the bound on their total size.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{fstatvfs, statfs};

use super::segment::is_segment;
use crate::disk::{self, Deadline, LockKind, try_lock};

/// The name of the folder in a cache directory.
const FRAMES: &str = "frames";

/// The suffix of segments.
const SUFFIX: &str = "segment";

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of linux/magic.h.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// An empty segment of this age belongs to a session that was killed.
const ORPHANED: Duration = Duration::from_secs(3600);

/// The folder of an input's frames in a cache directory.
pub(super) fn folder(cache: &Path, name: &str) -> PathBuf {
    cache.join(FRAMES).join(name)
}

/// A segment on disk.
pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    /// Bytes on disk.
    pub(super) size: u64,
    used: SystemTime,
}

/// The segments in the folder of one input. A missing folder has none.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found = Vec::new();
    for path in children(folder)? {
        // Another process may have removed it.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if path.extension().is_some_and(|extension| extension == SUFFIX) && metadata.is_file() {
            let used = metadata.modified()?;
            found.push(SegmentFile { path, size: bytes_on_disk(&metadata), used });
        }
    }
    Ok(found)
}

fn bytes_on_disk(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Creates a segment in a folder, with a shared lock for as long as it is open.
pub(super) fn create(folder: &Path) -> io::Result<(File, PathBuf)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut name = tempfile::Builder::new();
    let made = name.prefix("").suffix(&format!(".{SUFFIX}")).rand_bytes(16).tempfile_in(folder)?;
    let (file, path) = made.keep().map_err(|error| error.error)?;
    try_lock(&file, LockKind::Shared)?;
    Ok((file, path))
}

/// Opens a segment of another session for reading, with a shared lock for as long as it is open. `None` if it is not a
/// segment, or is locked until the deadline.
pub(super) fn open(path: &Path, deadline: &Deadline) -> Option<File> {
    let file = open_file(path).ok()?;
    // Another session holds an exclusive lock while it merges the segment. After that the file is unlinked, but can
    // still be read.
    (is_segment(&file) && deadline.lock(&file, LockKind::Shared).is_ok()).then_some(file)
}

/// Symlinks are not followed.
fn open_file(path: &Path) -> io::Result<File> {
    disk::open_with(path, File::options().read(true), libc::O_NOFOLLOW)
}

/// Whether a segment is old enough and still empty; see [`ORPHANED`].
fn is_orphaned(file: &File) -> bool {
    let is_old = |metadata: &Metadata| {
        let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        age.is_some_and(|age| age > ORPHANED)
    };
    file.metadata().is_ok_and(|metadata| metadata.len() == 0 && is_old(&metadata))
}

/// Sets the time of a segment's last use, which determines the order of eviction.
pub(super) fn touch(file: &File) {
    // In a read-only cache directory the order stays as it is.
    file.set_modified(SystemTime::now()).ok();
}

/// Removes a segment that no session has open. Returns whether it did. Files of other programs stay.
pub(super) fn remove_unused(path: &Path) -> bool {
    remove_unused_after(path, |_| true)
}

/// Like [`remove_unused`], but only if `work` on the file succeeds.
pub(super) fn remove_unused_after(path: &Path, work: impl FnOnce(File) -> bool) -> bool {
    let Ok(file) = open_file(path) else { return false };
    (is_segment(&file) || is_orphaned(&file))
        && try_lock(&file, LockKind::Exclusive).is_ok()
        && work(file)
        && fs::remove_file(path).is_ok()
}

/// Whether the files in a directory are in memory (tmpfs, ramfs).
pub(super) fn is_in_memory(directory: &Path) -> io::Result<bool> {
    Ok(IN_MEMORY.contains(&statfs(directory)?.f_type))
}

/// Half of the free bytes on the filesystem of `file`, where the `used` bytes count as free because they can be
/// evicted.
pub(super) fn half_of_free(file: &File, used: u64) -> u64 {
    let free = fstatvfs(file).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    free.saturating_add(used) / 2
}

/// Evicts the least recently used inputs of the cache directory above `folder` until all take at most `capacity` bytes
/// less `wanted`. Returns how many bytes may be appended now.
pub(super) fn evict_until(folder: &Path, file: &File, capacity: u64, wanted: u64) -> u64 {
    let mut inputs = Vec::new();
    for input in folder.parent().and_then(|frames| children(frames).ok()).unwrap_or_default() {
        let segments = segments(&input).unwrap_or_default();
        let used = segments.iter().map(|segment| segment.used).max();
        inputs.extend(used.map(|used| (used, input, segments)));
    }
    inputs.sort_by_key(|(used, ..)| *used);
    let mut used: u64 = inputs.iter().flat_map(|(_, _, segments)| segments).map(|segment| segment.size).sum();
    let capacity = capacity.min(half_of_free(file, used));
    if wanted > capacity {
        // Evicting everything would not make room for it.
        return capacity.saturating_sub(used);
    }
    for (_, input, segments) in &inputs {
        for segment in segments {
            if used.saturating_add(wanted) <= capacity {
                return capacity - used;
            }
            if remove_unused(&segment.path) {
                used -= segment.size;
            }
        }
        // Fails unless the folder is empty.
        fs::remove_dir(input).ok();
    }
    capacity.saturating_sub(used)
}

/// The disk usage of frames in a cache directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesUsage {
    /// Number of inputs.
    pub inputs: usize,
    /// Bytes on disk.
    pub bytes: u64,
}

/// The disk usage of the frames of all inputs in `cache`.
pub fn frames_usage(cache: &Path) -> io::Result<FramesUsage> {
    let mut usage = FramesUsage::default();
    for input in children(&cache.join(FRAMES))? {
        let bytes: u64 = segments(&input).unwrap_or_default().iter().map(|segment| segment.size).sum();
        usage.inputs += usize::from(bytes > 0);
        usage.bytes += bytes;
    }
    Ok(usage)
}

/// Removes the frames of the inputs in `cache` whose folder names satisfy `is_chosen`, except segments that a session
/// has open. Returns what was removed.
pub fn remove_frames(cache: &Path, is_chosen: impl Fn(&str) -> bool) -> io::Result<FramesUsage> {
    let mut removed = FramesUsage::default();
    for input in children(&cache.join(FRAMES))? {
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        if !is_chosen(&name) {
            continue;
        }
        let before = removed.bytes;
        for segment in segments(&input).unwrap_or_default() {
            removed.bytes += if remove_unused(&segment.path) { segment.size } else { 0 };
        }
        removed.inputs += usize::from(removed.bytes > before);
        fs::remove_dir(&input).ok();
    }
    fs::remove_dir(cache.join(FRAMES)).ok();
    Ok(removed)
}
