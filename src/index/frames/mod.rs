//! The frame store: compressed code objects on disk, so that none is compressed twice.
//!
//! Each input has a folder in the cache directory, and each session appends to a segment of its own in it. What cannot
//! be put there stays in memory as far as the budget goes, and is made again when it is needed: slower, never wrong. All
//! of it can be deleted at any time.

mod disk;
mod segment;

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dashmap::DashMap;

pub use disk::{FramesUsage, frames_usage, remove_frames};
pub use segment::Location;
use segment::{Appender, FrameSegment};

use super::records;
use crate::rope::{Identity, to_usize};

/// How many bytes frames take at most if nothing else is chosen.
const DEFAULT_CAPACITY: u64 = 4 << 30;

/// Without room for so many bytes there is none for most frames.
const SMALLEST: u64 = 64 << 10;

/// After so many bytes the bound is checked again, since other sessions append as well.
const GRAIN: u64 = 64 << 20;

/// Segments up to this size are merged when a session ends, in bytes.
const SMALL: u64 = 64 << 20;

/// Where new frames go.
#[derive(Debug)]
enum Sink {
    /// To a segment in the folder of the input.
    Folder,
    /// To a file without a name on the filesystem of this directory.
    Unnamed(PathBuf),
    /// The same, but it may take what it needs: all that is in it is written to this directory next.
    Output(PathBuf),
}

/// The frames of one input.
#[derive(Debug, Default)]
pub struct FrameStore {
    /// The folder in the cache directory, of which every session reads all segments.
    folder: Option<PathBuf>,
    /// The most bytes for frames of all inputs.
    capacity: u64,
    /// Whether the user said so.
    is_chosen: bool,
    table: DashMap<Identity, Location>,
    scanned: OnceLock<()>,
    state: Mutex<StoreState>,
}

#[derive(Debug, Default)]
struct StoreState {
    /// The first one is in use. The next one comes when it is full or fails.
    sinks: VecDeque<Sink>,
    segment: Option<Arc<FrameSegment>>,
    /// The session's segment in the folder.
    named: Option<(Arc<FrameSegment>, PathBuf)>,
    /// Bytes in the segment in use.
    bytes: u64,
    /// Bytes that may be appended before the bound is checked again.
    left: u64,
    /// Whether there was no room for the last frame.
    is_full: bool,
}

impl FrameStore {
    /// The store of the input at `location` in a cache directory, for up to `chosen` bytes of all inputs together. Where
    /// that is not on a disk, or there is none, new frames go to a temporary file, which ends with the session.
    pub fn open(cache: Option<&Path>, location: &Path, chosen: Option<u64>) -> Self {
        let capacity = chosen.unwrap_or(DEFAULT_CAPACITY);
        let folder = cache.map(|cache| disk::folder(cache, &records::stem(location)));
        let is_usable = |cache: &Path| cache.ancestors().find(|above| above.exists()).is_some_and(is_writable_disk);
        let named = cache.is_some_and(is_usable).then_some(Sink::Folder);
        // The second one serves when the first one fails.
        let sinks = named.into_iter().chain(temporary()).filter(|_| capacity > 0).collect();
        let state = StoreState { sinks, ..StoreState::default() };
        Self { folder, capacity, is_chosen: chosen.is_some(), state: Mutex::new(state), ..Self::default() }
    }

    /// For output that is written to `directory` next: has new frames go to a file without a name there. If the user has
    /// chosen how many are kept, only the rest of them.
    pub fn spool_to(&self, directory: &Path) {
        let mut state = self.lock();
        state.sinks.retain(|sink| self.is_chosen && matches!(sink, Sink::Folder));
        state.sinks.push_back(Sink::Output(directory.to_owned()));
        (state.segment, state.bytes, state.left) = (None, 0, 0);
    }

    /// A file without a name on a disk, for what is as large as the input: in the cache directory, or where temporary files are.
    pub fn scratch(&self) -> io::Result<File> {
        let cache = self.folder.iter().flat_map(|folder| folder.ancestors()).find(|above| above.exists());
        let named = cache.filter(|cache| is_writable_disk(cache)).map(Path::to_owned);
        let place = named.or_else(|| match temporary()? {
            Sink::Unnamed(directory) | Sink::Output(directory) => Some(directory),
            Sink::Folder => None,
        });
        let none = || io::Error::other("there is no directory on a disk for temporary files; name one with TMPDIR");
        tempfile::tempfile_in(place.ok_or_else(none)?)
    }

    /// Whether all frames are kept until the output is written.
    pub fn is_spooling(&self) -> bool {
        self.lock().sinks.iter().any(|sink| matches!(sink, Sink::Output(_)))
    }

    /// Whether there is room for new frames, as far as is known.
    pub fn has_room(&self) -> bool {
        let state = self.lock();
        !state.sinks.is_empty() && !state.is_full
    }

    /// Where a frame is.
    pub fn get(&self, identity: &Identity) -> Option<Location> {
        self.scanned.get_or_init(|| self.scan());
        self.table.get(identity).map(|found| found.clone())
    }

    /// Forgets where a frame is, which turned out to be damaged there.
    pub fn forget(&self, identity: &Identity, damaged: &Location) {
        self.table.remove_if(identity, |_, found| found.is_same(damaged));
    }

    /// Keeps a frame of at most `most` bytes, which `write` gives piece by piece to the function that it is called with.
    /// `None` if there is no room; then `write` is not called. If it fails, nothing is kept.
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

    /// Ends the session: small segments that no other session has open are merged into this session's, so that their
    /// number does not grow.
    pub fn finish(&self) {
        // Closes the segments that this session reads.
        self.table.clear();
        let state = std::mem::take(&mut *self.lock());
        let (Some(folder), Some((segment, own))) = (&self.folder, state.named) else { return };
        if segment.is_empty() {
            fs::remove_file(&own).ok();
            return;
        }
        for other in disk::segments(folder).unwrap_or_default() {
            let fits = other.size <= SMALL && other.size <= disk::half_of_free(&segment.file, 0);
            if other.path != own && fits {
                disk::remove_unused_after(&other.path, |file| merge(&FrameSegment::new(file), &segment).is_ok());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds what earlier sessions have kept.
    fn scan(&self) {
        let Some(folder) = &self.folder else { return };
        for found in disk::segments(folder).unwrap_or_default() {
            let Some(file) = disk::open(&found.path) else { continue };
            disk::touch(&file);
            let located = FrameSegment::new(file).scan().unwrap_or_default();
            for (identity, location) in located {
                self.table.insert(identity, location);
            }
        }
    }

    /// The segment that takes the next `bytes` bytes, if there is room for them.
    fn segment_for(&self, bytes: u64) -> Option<Arc<FrameSegment>> {
        let mut state = self.lock();
        loop {
            let segment = match self.segment(&mut state) {
                Ok(segment) => segment?,
                Err(error) => {
                    state.skip_sink(&error);
                    continue;
                }
            };
            if state.left < bytes {
                let wanted = bytes.max(GRAIN.min(self.capacity / 16));
                state.left = self.room(&state, &segment, wanted).min(wanted);
            }
            let is_full = state.left < bytes;
            // One that is too large says nothing about others.
            state.is_full = is_full && state.left < SMALLEST;
            if !is_full {
                state.left -= bytes;
                state.bytes += bytes;
                return Some(segment);
            }
            // The bound holds for all places but a spool.
            if !matches!(state.sinks.get(1), Some(Sink::Output(_))) {
                return None;
            }
            state.next_sink();
        }
    }

    /// The segment of the sink that is in use.
    fn segment(&self, state: &mut StoreState) -> io::Result<Option<Arc<FrameSegment>>> {
        if state.segment.is_none() {
            let segment = match (state.sinks.front(), &self.folder) {
                (Some(Sink::Folder), Some(folder)) => {
                    let (file, path) = disk::create(folder)?;
                    let segment = FrameSegment::new(file);
                    state.named = Some((Arc::clone(&segment), path));
                    segment
                }
                (Some(Sink::Unnamed(directory) | Sink::Output(directory)), _) => {
                    FrameSegment::new(tempfile::tempfile_in(directory)?)
                }
                (Some(Sink::Folder), None) | (None, _) => return Ok(None),
            };
            state.segment = Some(segment);
        }
        Ok(state.segment.clone())
    }

    /// Bytes that may be appended now to the sink in use.
    fn room(&self, state: &StoreState, segment: &FrameSegment, wanted: u64) -> u64 {
        match (state.sinks.front(), &self.folder) {
            (Some(Sink::Folder), Some(folder)) => disk::evict_until(folder, &segment.file, self.capacity, wanted),
            (Some(Sink::Output(_)), _) => u64::MAX,
            _ => self.capacity.min(disk::half_of_free(&segment.file, state.bytes)).saturating_sub(state.bytes),
        }
    }

    /// So many bytes of those that a frame could have taken are left.
    fn give_back(&self, segment: &Arc<FrameSegment>, bytes: u64) {
        let mut state = self.lock();
        if state.segment.as_ref().is_some_and(|used| Arc::ptr_eq(used, segment)) {
            state.left = state.left.saturating_add(bytes);
            state.bytes = state.bytes.saturating_sub(bytes);
        }
    }

    fn give_up(&self, segment: &Arc<FrameSegment>, error: &io::Error) {
        let mut state = self.lock();
        // Several writers can fail at the same time.
        if state.segment.as_ref().is_some_and(|used| Arc::ptr_eq(used, segment)) {
            state.skip_sink(error);
        }
    }
}

impl StoreState {
    fn skip_sink(&mut self, error: &io::Error) {
        tracing::warn!("compressed code objects cannot be kept on disk: {error}");
        self.next_sink();
    }

    fn next_sink(&mut self) {
        self.sinks.pop_front();
        (self.segment, self.bytes, self.left) = (None, 0, 0);
    }
}

/// Copies the records of a segment that another one lacks to it. What is damaged is left out: it is made again when it is
/// needed.
fn merge(from: &Arc<FrameSegment>, to: &Arc<FrameSegment>) -> io::Result<()> {
    let mut there: HashSet<_> = to.scan()?.into_iter().map(|(identity, _)| identity).collect();
    for (identity, location) in from.scan()? {
        if there.insert(identity) {
            let mut appender = to.append(&identity, location.length());
            if copy(&location, &mut appender)? {
                appender.finish()?;
            }
        }
    }
    Ok(())
}

/// Appends a frame that is somewhere else. `false` if it cannot be read there.
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

/// A directory for temporary files that are on a disk.
fn temporary() -> Option<Sink> {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let found = named.into_iter().chain([PathBuf::from("/var/tmp")]).find(|directory| is_writable_disk(directory));
    found.map(Sink::Unnamed)
}

/// Whether files can be made in a directory, and are on a disk.
fn is_writable_disk(directory: &Path) -> bool {
    let is_disk = File::open(directory).is_ok_and(|directory| !disk::is_in_memory(&directory));
    is_disk && tempfile::tempfile_in(directory).is_ok()
}

#[cfg(test)]
mod tests;
