//! The frame store: compressed code objects on disk, so that each is compressed once.
//!
//! Each input has a folder in the cache directory, in which each session appends to a segment of its own. Frames that
//! do not fit on disk stay in memory as far as the budget allows. A frame that is in neither place is made again when
//! it is read. All of it can be deleted at any time.

mod disk;
mod segment;

use std::collections::{HashSet, VecDeque};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use parking_lot::Mutex;

pub use disk::{FramesUsage, frames_usage, remove_frames};
pub use segment::Location;
use segment::{Appender, FrameSegment};

use super::records;
use crate::disk::{
    Deadline, GRAIN, Scratch, ScratchError, ScratchFile, free_bytes, half, is_writable_disk, temporary_directory,
};
use crate::rope::{Identity, to_usize};

/// The default limit on the bytes of all frames.
const DEFAULT_CAPACITY: u64 = 4 << 30;

/// With less room than this many bytes, the store counts as full.
const SMALLEST: u64 = 64 << 10;

/// The largest segments, in bytes, that are merged when a session ends.
const SMALL: u64 = 64 << 20;

/// Where new frames are written.
#[derive(Debug)]
enum Sink {
    /// A segment in the folder of the input.
    Folder,
    /// An unnamed file on the filesystem of this directory.
    Unnamed(PathBuf),
    /// An unnamed file in the directory to which its content is written next.
    Output(PathBuf),
}

/// The frames of one input.
#[derive(Debug, Default)]
pub struct FrameStore {
    /// The folder in the cache directory. Every session reads all of its segments.
    folder: Option<PathBuf>,
    /// The limit on the bytes of the frames of all inputs.
    capacity: u64,
    /// Whether the user chose the limit.
    is_chosen: bool,
    /// Unnamed files, within their quota.
    pub(crate) scratch: Arc<Scratch>,
    table: DashMap<Identity, Location>,
    scanned: OnceLock<()>,
    state: Mutex<StoreState>,
}

#[derive(Debug, Default)]
struct StoreState {
    /// The first sink is in use. The next one replaces it when it is full or fails.
    sinks: VecDeque<Sink>,
    segment: Option<Arc<FrameSegment>>,
    /// The segment in the folder that this session appends to.
    named: Option<(Arc<FrameSegment>, PathBuf)>,
    /// Bytes in the segment in use.
    bytes: u64,
    /// Bytes that may be appended before the limit is checked again.
    left: u64,
    /// Whether the store was too full for the last frame.
    is_full: bool,
}

impl FrameStore {
    /// The store of the input at `location` in a cache directory, with a limit of `chosen` bytes for all inputs
    /// together. Without a cache directory on a disk, new frames go to a temporary file that ends with the session.
    pub fn open(cache: Option<&Path>, location: &Path, chosen: Option<u64>) -> Self {
        let capacity = chosen.unwrap_or(DEFAULT_CAPACITY);
        let folder = cache.map(|cache| disk::folder(cache, &records::stem(location)));
        let is_usable = |cache: &Path| cache.ancestors().find(|above| above.exists()).is_some_and(is_writable_disk);
        let named = cache.is_some_and(is_usable).then_some(Sink::Folder);
        // The second sink is used if the first one fails.
        let unnamed = temporary_directory().map(Sink::Unnamed);
        let sinks = named.into_iter().chain(unnamed).filter(|_| capacity > 0).collect();
        let state = StoreState { sinks, ..StoreState::default() };
        Self { folder, capacity, is_chosen: chosen.is_some(), state: Mutex::new(state), ..Self::default() }
    }

    /// Has unnamed files share this quota.
    #[must_use]
    pub(crate) fn with_scratch(self, scratch: Arc<Scratch>) -> Self {
        Self { scratch, ..self }
    }

    /// Prepares for output to `directory`: new frames go to an unnamed file there. If the user chose a limit, only
    /// frames beyond it do. A directory for which it is prepared already changes nothing.
    pub fn spool_to(&self, directory: &Path) {
        let mut state = self.state.lock();
        if state.sinks.iter().any(|sink| matches!(sink, Sink::Output(other) if other == directory)) {
            return;
        }
        state.sinks.retain(|sink| self.is_chosen && matches!(sink, Sink::Folder));
        state.sinks.push_back(Sink::Output(directory.to_owned()));
        (state.segment, state.bytes, state.left) = (None, 0, 0);
    }

    /// An unnamed file for data as large as the input: in the cache directory, or else in that of temporary files.
    pub(crate) fn scratch(&self) -> Result<ScratchFile, ScratchError> {
        let cache = self.folder.iter().flat_map(|folder| folder.ancestors()).find(|above| above.exists());
        self.scratch.create(cache)
    }

    /// Whether all frames are kept until the output is written; see [`FrameStore::spool_to`].
    pub fn is_spooling(&self) -> bool {
        self.state.lock().sinks.iter().any(|sink| matches!(sink, Sink::Output(_)))
    }

    /// Whether there is room for new frames, as far as the last attempt to store one showed.
    pub fn has_room(&self) -> bool {
        let state = self.state.lock();
        !state.sinks.is_empty() && !state.is_full
    }

    /// The location of a frame.
    pub fn get(&self, identity: &Identity) -> Option<Location> {
        self.scanned.get_or_init(|| self.scan());
        self.table.get(identity).map(|found| found.clone())
    }

    /// Removes a frame's location after its data turned out to be damaged.
    pub fn forget(&self, identity: &Identity, damaged: &Location) {
        self.table.remove_if(identity, |_, found| found.is_same(damaged));
    }

    /// Stores a frame of at most `most` bytes. `write` passes it in pieces to the function that it is given. Returns
    /// `None` without calling `write` if there is no room. If `write` fails, nothing is stored.
    pub fn put<E>(
        &self,
        identity: &Identity,
        most: u64,
        write: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), E>,
    ) -> Result<Option<Location>, E> {
        let Some(segment) = self.segment_for(most) else { return Ok(None) };
        let mut appender = segment.append(identity, most);
        write(&mut |bytes| appender.write(bytes).inspect_err(|error| self.give_up(&segment, error)))?;
        let location = match appender.finish() {
            Ok(location) => location,
            Err(error) => {
                self.give_up(&segment, &error);
                return Ok(None);
            }
        };
        self.give_back(&segment, most - location.length());
        self.table.insert(*identity, location.clone());
        Ok(Some(location))
    }

    /// Uses the place of one frame for an equal one, in this session.
    pub fn share(&self, identity: &Identity, location: Location) {
        self.table.insert(*identity, location);
    }

    /// Ends the session. Small segments that no other session has open are merged into this session's, so that their
    /// number does not grow.
    pub fn finish(&self) {
        // Closes the segments that this session reads.
        self.table.clear();
        let state = std::mem::take(&mut *self.state.lock());
        let (Some(folder), Some((segment, own))) = (&self.folder, state.named) else { return };
        if segment.is_empty() {
            fs::remove_file(&own).ok();
            return;
        }
        for other in disk::segments(folder).unwrap_or_default() {
            let fits = other.size <= SMALL && other.size <= half(free_bytes(&segment.file), 0);
            if other.path != own && fits {
                disk::remove_unused_after(&other.path, |file| merge(&FrameSegment::new(file, None), &segment).is_ok());
            }
        }
    }

    /// Reads the locations of frames that earlier sessions stored.
    fn scan(&self) {
        let Some(folder) = &self.folder else { return };
        let deadline = Deadline::of_locks();
        for found in disk::segments(folder).unwrap_or_default() {
            let Some(file) = disk::open(&found.path, &deadline) else { continue };
            disk::touch(&file);
            let located = FrameSegment::new(file, None).scan().unwrap_or_default();
            for (identity, location) in located {
                self.table.insert(identity, location);
            }
        }
    }

    /// The segment for the next `bytes` bytes, if there is room for them.
    fn segment_for(&self, bytes: u64) -> Option<Arc<FrameSegment>> {
        let mut state = self.state.lock();
        loop {
            let segment = match self.segment(&mut state) {
                Ok(segment) => segment?,
                Err(error) => {
                    state.skip_sink(&error);
                    continue;
                }
            };
            let mut refused = None;
            if state.left < bytes {
                let wanted = bytes.max(GRAIN.min(self.capacity / 16));
                match self.room(&state, &segment, bytes, wanted) {
                    Ok(room) => state.left = room.min(wanted),
                    Err(error) => refused = Some(error),
                }
            }
            let is_full = state.left < bytes;
            // A frame that is too large does not make the store full for others.
            state.is_full = is_full && state.left < SMALLEST;
            if !is_full {
                state.left -= bytes;
                state.bytes += bytes;
                return Some(segment);
            }
            match (state.sinks.front(), state.sinks.get(1), refused) {
                (Some(Sink::Output(_)), _, Some(error)) => state.skip_sink(&error),
                (_, Some(Sink::Output(_)), _) => state.next_sink(),
                _ => return None,
            }
        }
    }

    /// The segment of the sink in use.
    fn segment(&self, state: &mut StoreState) -> Result<Option<Arc<FrameSegment>>, ScratchError> {
        if state.segment.is_none() {
            let segment = match (state.sinks.front(), &self.folder) {
                (Some(Sink::Folder), Some(folder)) => {
                    let refused = |source| ScratchError::Io { directory: folder.clone(), source };
                    let (file, path) = disk::create(folder).map_err(refused)?;
                    let segment = FrameSegment::new(file, None);
                    state.named = Some((Arc::clone(&segment), path));
                    segment
                }
                (Some(Sink::Unnamed(directory) | Sink::Output(directory)), _) => {
                    let (file, lease) = self.scratch.create_in(directory)?.into_parts();
                    FrameSegment::new(file, Some(lease))
                }
                (Some(Sink::Folder), None) | (None, _) => return Ok(None),
            };
            state.segment = Some(segment);
        }
        Ok(state.segment.clone())
    }

    /// Bytes that may be appended to the sink in use. `bytes` are needed now, and `wanted` soon.
    fn room(&self, state: &StoreState, segment: &FrameSegment, bytes: u64, wanted: u64) -> Result<u64, ScratchError> {
        match (&segment.lease, &self.folder) {
            (Some(quota), _) => {
                let is_output = matches!(state.sinks.front(), Some(Sink::Output(_)));
                let most = if is_output { u64::MAX } else { self.capacity.saturating_sub(state.bytes) };
                let (least, most) = (bytes.min(most), wanted.min(most));
                let missing = |bytes: u64| bytes.saturating_sub(state.left);
                Ok(state.left + quota.reserve(&segment.file, missing(least), missing(most))?)
            }
            (None, Some(folder)) => Ok(disk::evict_until(folder, &segment.file, self.capacity, wanted)),
            (None, None) => Ok(0),
        }
    }

    /// Returns bytes that were reserved for a frame but not used.
    fn give_back(&self, segment: &Arc<FrameSegment>, bytes: u64) {
        let mut state = self.state.lock();
        if state.segment.as_ref().is_some_and(|used| Arc::ptr_eq(used, segment)) {
            state.left = state.left.saturating_add(bytes);
            state.bytes = state.bytes.saturating_sub(bytes);
        }
    }

    fn give_up(&self, segment: &Arc<FrameSegment>, error: &io::Error) {
        let mut state = self.state.lock();
        // Several writers may fail at the same time; the first one switches the sink.
        if state.segment.as_ref().is_some_and(|used| Arc::ptr_eq(used, segment)) {
            state.skip_sink(error);
        }
    }
}

impl StoreState {
    fn skip_sink(&mut self, error: &dyn Display) {
        tracing::warn!("compressed code objects cannot be kept on disk: {error}");
        self.next_sink();
    }

    fn next_sink(&mut self) {
        self.sinks.pop_front();
        (self.segment, self.bytes, self.left) = (None, 0, 0);
    }
}

/// Copies records that a segment lacks from another one. Damaged records are skipped: their frames are made again on
/// demand.
fn merge(from: &Arc<FrameSegment>, to: &Arc<FrameSegment>) -> io::Result<()> {
    let mut existing: HashSet<_> = to.scan()?.into_iter().map(|(identity, _)| identity).collect();
    for (identity, location) in from.scan()? {
        if existing.insert(identity) {
            let mut appender = to.append(&identity, location.length());
            if copy(&location, &mut appender)? {
                appender.finish()?;
            }
        }
    }
    Ok(())
}

/// Appends a stored frame. `false` if it cannot be read.
fn copy(location: &Location, appender: &mut Appender) -> io::Result<bool> {
    let mut buffer = vec![0; 128 << 10];
    let mut at = 0;
    while at < location.length() {
        let length = to_usize(location.length() - at).min(buffer.len());
        let piece = buffer.get_mut(..length).unwrap_or_default();
        if location.read_at(at, piece).is_err() {
            return Ok(false);
        }
        appender.write(piece)?;
        at += length as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
