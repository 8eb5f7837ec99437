//! The index of an input: results of planning and reading, kept between sessions.
//!
//! Rooms store a result under the [`Identity`] of the content that it is about, so it stays true as long as the content
//! is the same. A record may be lost at any time. Then the work is done again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file::{self, IndexFile, LARGE, RecordBytes};
use super::pending::Pending;
use super::records::{self, Header, RecordHead, RecordKind, RecordsError};
use crate::memory::{Parser, most_kept};
use crate::rope::Identity;

/// The index is saved at once when more than this many bytes are unsaved.
const MAX_UNSAVED: u64 = 4 << 20;

/// What a record takes in memory in addition to its bytes.
const RECORD: u64 = 128;

/// The records about one input.
#[derive(Debug, Default)]
pub struct Index {
    records: DashMap<RecordKey, IndexState>,
    /// Where the records are stored. If `None`, they are not stored, and nothing is recorded.
    place: Option<RecordPlace>,
    changed: AtomicBool,
    /// Bytes recorded since the last save.
    unsaved: AtomicU64,
    /// Whether the last save failed. Then saving does not free memory.
    failed: AtomicBool,
    /// Held while saving.
    saving: Mutex<()>,
    /// Wakes the autosave thread after changes.
    changes: (Mutex<()>, Condvar),
    /// Whether changes are marked as pending: by a mount, unless that has failed.
    is_marking: AtomicBool,
    /// Set while a mount has something to save.
    pending: Mutex<Option<Pending>>,
}

type RecordKey = (u8, Identity);

#[derive(Debug)]
struct RecordPlace {
    file: PathBuf,
    header: Header,
    /// The version of the file that was read or written last. It stays open, so no other file has its inode.
    last: Mutex<Option<Arc<IndexFile>>>,
}

/// Where a large record is in a file, which may have been replaced since. A large record is in memory only until it is
/// saved. It is read when it is asked for, and not before.
#[derive(Clone, Debug)]
struct StoredRecord {
    file: Arc<IndexFile>,
    at: u64,
}

impl StoredRecord {
    fn read(&self, key: RecordKey) -> Option<Vec<u8>> {
        let read = self.file.read_large(self.at).inspect_err(|error| tracing::info!("a record is lost: {error}"));
        let (record, bytes) = read.ok()?;
        ((record.kind, record.identity) == key).then_some(bytes)
    }
}

/// A record of an open index.
#[derive(Debug)]
struct IndexState {
    /// The last day on which a session used it, in days since 1970.
    day: u32,
    /// `None` if only the file has it.
    bytes: Option<Arc<[u8]>>,
    stored: Option<Box<StoredRecord>>,
    /// Whether this session used it.
    used: AtomicBool,
}

impl IndexState {
    /// A record of this file.
    fn stored(day: u32, bytes: RecordBytes, file: &Arc<IndexFile>) -> Self {
        let (bytes, stored) = match bytes {
            RecordBytes::Here(bytes) => (Some(bytes), None),
            RecordBytes::InBlock(at) => (None, Some(Box::new(StoredRecord { file: Arc::clone(file), at }))),
        };
        Self { day, bytes, stored, used: AtomicBool::new(false) }
    }
}

impl Index {
    /// The records about the input at `location` that are stored in `directory`. A damaged index counts as empty, as
    /// does one of another input or version. Waits for a mount that is saving.
    pub fn open(directory: &Path, location: &Path) -> Self {
        let Ok(header) = Header::of(location) else { return Self::default() };
        let file = directory.join(records::file_name(location));
        Pending::wait(&file);
        let index = Self { place: Some(RecordPlace { file, header, last: Mutex::default() }), ..Self::default() };
        index.merge_from_disk();
        index
    }

    /// A record's value; `None` also if it cannot be decoded.
    pub fn get<T: DeserializeOwned>(&self, kind: RecordKind, identity: &Identity) -> Option<T> {
        let key = (kind as u8, *identity);
        let (bytes, stored) = {
            let held = self.records.get(&key)?;
            held.used.store(true, Ordering::Relaxed);
            (held.bytes.clone(), held.stored.as_deref().cloned())
        };
        if let Some(bytes) = bytes {
            return records::decode(&bytes);
        }
        let read = stored.and_then(|stored| stored.read(key));
        if read.is_none() {
            self.records.remove_if(&key, |_, held| held.bytes.is_none());
        }
        records::decode(&read?)
    }

    /// Records a value.
    pub fn put<T: Serialize>(&self, kind: RecordKind, identity: &Identity, value: &T) {
        if self.place.is_none() {
            return;
        }
        let Ok(bytes) = rmp_serde::to_vec(value) else { return };
        let length = bytes.len() as u64;
        // It would stay in memory if it cannot be saved.
        if bytes.len() >= LARGE && self.failed.load(Ordering::Relaxed) {
            return;
        }
        let used = AtomicBool::new(true);
        let held = IndexState { day: records::today(), bytes: Some(bytes.into()), stored: None, used };
        self.records.insert((kind as u8, *identity), held);
        if !self.changed.swap(true, Ordering::AcqRel) {
            if self.is_marking.load(Ordering::Acquire) {
                self.mark_pending();
            }
            self.changes.1.notify_one();
        }
        let unsaved = self.unsaved.fetch_add(length, Ordering::Relaxed) + length;
        if unsaved > MAX_UNSAVED && !self.failed.load(Ordering::Relaxed) {
            self.save_or_log();
        }
    }

    /// Makes the next mount of the input wait until all records are saved.
    pub(crate) fn set_mounted(&self) {
        self.is_marking.store(true, Ordering::Release);
        if self.is_changed() {
            self.mark_pending();
        }
    }

    fn mark_pending(&self) {
        let Some(place) = &self.place else { return };
        let mut pending = self.pending.lock();
        if pending.is_none() {
            *pending = Pending::mark(&place.file);
            // A second attempt would wait for the same lock.
            self.is_marking.store(pending.is_some(), Ordering::Release);
        }
    }

    /// Waits until there are unsaved changes.
    pub(crate) fn wait_for_changes(&self) {
        let mut guard = self.changes.0.lock();
        while !self.is_changed() {
            // A notification may come between the check and the wait.
            self.changes.1.wait_for(&mut guard, Duration::from_secs(1));
        }
    }

    /// Whether there are unsaved changes.
    pub fn is_changed(&self) -> bool {
        self.place.is_some() && self.changed.load(Ordering::Acquire)
    }

    /// The file of the records.
    pub fn file(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.file.as_path())
    }

    /// Saves all records. Keeps records that another session has written meanwhile, and drops those that no session has
    /// used for a long time.
    pub fn save(&self) -> Result<(), RecordsError> {
        let Some(place) = &self.place else { return Ok(()) };
        // A save that began earlier must not overwrite newer records.
        let _turn = self.saving.lock();
        if !self.changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.unsaved.store(0, Ordering::Relaxed);
        let result = self.write(place);
        self.failed.store(result.is_err(), Ordering::Relaxed);
        if result.is_err() {
            self.changed.store(true, Ordering::Release);
        }
        // More may have been recorded meanwhile. After a failure, the next mount has nothing to wait for.
        let mut pending = self.pending.lock();
        if result.is_err() || !self.is_changed() {
            *pending = None;
        }
        result
    }

    fn write(&self, place: &RecordPlace) -> Result<(), RecordsError> {
        self.merge_from_disk();
        let today = records::today();
        let mut records = Vec::new();
        for held in &self.records {
            let day = if held.used.load(Ordering::Relaxed) { today } else { held.day };
            if today.saturating_sub(day) <= records::DAYS {
                records.push((*held.key(), day, held.bytes.clone(), held.stored.clone()));
            }
        }
        records.sort_by_key(|(key, ..)| *key);
        let mut large = Vec::new();
        let file = file::write(&place.file, &place.header, |writer| {
            for (key, day, in_memory, stored) in &records {
                let record = RecordHead { kind: key.0, identity: key.1, day: *day };
                let at = match (in_memory, stored) {
                    (Some(bytes), _) => writer.put(record, bytes)?,
                    (None, Some(stored)) => writer.copy(record, &stored.file, stored.at).ok(),
                    (None, None) => None,
                };
                if let Some(at) = at {
                    large.push((*key, at, in_memory.clone()));
                }
            }
            Ok(())
        })?;
        let file = Arc::new(file);
        *place.last.lock() = Some(Arc::clone(&file));
        for (key, at, saved) in large {
            let is_same = |now: &Arc<[u8]>| saved.as_ref().is_some_and(|saved| Arc::ptr_eq(now, saved));
            // Unless the record was replaced meanwhile.
            if let Some(mut held) = self.records.get_mut(&key)
                && held.bytes.as_ref().is_none_or(is_same)
            {
                held.bytes = None;
                held.stored = Some(Box::new(StoredRecord { file: Arc::clone(&file), at }));
            }
        }
        Ok(())
    }

    /// Saves, and logs a failure: without the index the next session takes longer, but is not wrong. Returns whether it
    /// succeeded.
    pub fn save_or_log(&self) -> bool {
        let result = self.save();
        if let Err(error) = &result {
            tracing::warn!("the index of the input cannot be saved: {error}");
        }
        result.is_ok()
    }

    /// Adds records from the file that this index lacks, unless it has read or written this version of the file.
    fn merge_from_disk(&self) {
        let Some(place) = &self.place else { return };
        let result = IndexFile::open(&place.file).and_then(|file| {
            if file.header != place.header {
                let reason = "made by another version, or of an input that has changed since";
                return Err(RecordsError::Unusable { path: place.file.clone(), reason });
            }
            if place.last.lock().as_ref().is_some_and(|last| last.version().ok() == file.version().ok()) {
                return Ok(());
            }
            let file = Arc::new(file);
            *place.last.lock() = Some(Arc::clone(&file));
            let mut room = most_kept(Parser::Index);
            let result = file.read(|record, bytes| {
                let length = if let RecordBytes::Here(bytes) = &bytes { bytes.len() as u64 } else { 0 };
                // What does not fit is made again.
                let Some(rest) = room.checked_sub(RECORD.saturating_add(length)) else { return };
                room = rest;
                let held = self.records.entry((record.kind, record.identity));
                held.or_insert_with(|| IndexState::stored(record.day, bytes, &file));
            });
            result.map_err(records::at(&place.file))
        });
        match result {
            Err(RecordsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::info!("the index is made again: {error}"),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
#[path = "persistent_tests.rs"]
mod tests;
