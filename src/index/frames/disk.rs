//! The frame folders of all inputs in a cache directory, and the bound on their total size.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::segment::is_segment;
use crate::disk::{self, Deadline, LockKind, free_bytes, half, try_lock};

/// The name of the folder in a cache directory.
const FRAMES: &str = "frames";

/// The suffix of segments.
const SUFFIX: &str = "segment";

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
            found.push(SegmentFile { path, size: metadata.blocks().saturating_mul(512), used });
        }
    }
    Ok(found)
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Creates a segment in a folder, with a shared lock for as long as it is open.
pub(super) fn create(folder: &Path) -> io::Result<(File, PathBuf)> {
    folder.ancestors().nth(2).map_or(Ok(()), disk::create_cache)?;
    disk::create_private(folder)?;
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
    (is_segment(&file) || is_abandoned(&file))
        && try_lock(&file, LockKind::Exclusive).is_ok()
        && work(file)
        && fs::remove_file(path).is_ok()
}

/// Whether a segment is still empty, and its session was killed.
fn is_abandoned(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() == 0 && disk::is_orphaned(&metadata))
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
    let capacity = capacity.min(half(free_bytes(file), used));
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FramesUsage {
    /// Number of inputs.
    pub inputs: usize,
    /// Bytes on disk.
    pub size: u64,
}

/// The disk usage of the frames of all inputs in `cache`.
pub fn frames_usage(cache: &Path) -> io::Result<FramesUsage> {
    let mut usage = FramesUsage::default();
    for input in children(&cache.join(FRAMES))? {
        let bytes: u64 = segments(&input).unwrap_or_default().iter().map(|segment| segment.size).sum();
        usage.inputs += usize::from(bytes > 0);
        usage.size += bytes;
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
        let before = removed.size;
        for segment in segments(&input).unwrap_or_default() {
            removed.size += if remove_unused(&segment.path) { segment.size } else { 0 };
        }
        removed.inputs += usize::from(removed.size > before);
        fs::remove_dir(&input).ok();
    }
    fs::remove_dir(cache.join(FRAMES)).ok();
    Ok(removed)
}
