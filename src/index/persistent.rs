//! The index of an input: results of planning and reading, kept between sessions.
//!
//! Rooms store a result under the [`Identity`] of the content that it is about, so it stays true as long as the content
//! is the same. A record may be lost at any time. Then the work is done again.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pending::Pending;
use super::records::{self, Header, Record, RecordsError};
use super::state::{IndexState, LARGE};
use crate::rope::Identity;

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// Whether a file has device code, and which.
    Scan = 1,
    /// The edits that remove a binary's device code.
    Rewritten = 2,
    /// Where decoding of a deflate stream can start.
    Stream = 3,
    /// Lengths of the compressed code objects of an archive.
    Frames = 4,
    /// Digests of a content.
    Digest = 5,
    /// Length and CRC-32 of a deflate stream for a new wheel.
    Spliced = 6,
    /// Length of the content of a gzip file.
    Gzip = 7,
    /// Which files have no device code.
    Plain = 8,
    /// What is wrong with the RECORD of a wheel, if anything.
    Claims = 9,
    /// What is wrong with a compressed content as a whole: a checksum at its end, or more data than it claims. It is
    /// recorded under the identity of the compressed content, and nothing of such a content is served.
    Damage = 10,
}

/// The index is saved at once when more than this many bytes are unsaved.
const MOST_UNSAVED: u64 = 4 << 20;

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
    /// The file that holds the records which are not in memory.
    stored: Mutex<Option<Arc<File>>>,
}

impl RecordPlace {
    fn stored(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one record from the file.
    fn read(&self, key: RecordKey) -> Option<Arc<[u8]>> {
        let file = self.stored().clone()?;
        let mut found = None;
        let visit = |record: Record| {
            if (record.kind, record.identity) == key {
                found = Some(record.bytes);
            }
        };
        records::read(&self.file, &file, Some(&self.header), visit).ok()?;
        found
    }
}

impl Index {
    /// The records about the input at `location` that are stored in `directory`. A damaged index counts as empty, as
    /// does one of another input or version. Waits for a mount that is saving.
    pub fn open(directory: &Path, location: &Path) -> Self {
        let Ok(header) = Header::of(location) else { return Self::default() };
        let file = directory.join(records::file_name(location));
        Pending::wait(&file);
        let index = Self { place: Some(RecordPlace { file, header, stored: Mutex::default() }), ..Self::default() };
        index.merge_from_disk();
        index
    }

    /// A record's value; `None` also if it cannot be decoded.
    pub fn get<T: DeserializeOwned>(&self, kind: RecordKind, identity: &Identity) -> Option<T> {
        let key = (kind as u8, *identity);
        let mut held = self.records.get_mut(&key)?;
        held.used.store(true, Ordering::Relaxed);
        let bytes = if held.leaves { held.bytes.take() } else { held.bytes.clone() };
        drop(held);
        let bytes = bytes.or_else(|| self.place.as_ref()?.read(key));
        if bytes.is_none() {
            self.records.remove_if(&key, |_, held| held.bytes.is_none());
        }
        records::decode(&bytes?)
    }

    /// Drops the large records that planning did not ask for. The file has them.
    pub fn end_planning(&self) {
        self.records.iter_mut().filter(|held| held.leaves).for_each(|mut held| held.bytes = None);
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
        let held = IndexState { day: records::today(), length, bytes: Some(bytes.into()), used, leaves: false };
        self.records.insert((kind as u8, *identity), held);
        if !self.changed.swap(true, Ordering::AcqRel) {
            if self.is_marking.load(Ordering::Acquire) {
                self.mark_pending();
            }
            self.changes.1.notify_one();
        }
        let unsaved = self.unsaved.fetch_add(length, Ordering::Relaxed) + length;
        if unsaved > MOST_UNSAVED && !self.failed.load(Ordering::Relaxed) {
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
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_none() {
            *pending = Pending::mark(&place.file);
            // A second attempt would wait for the same lock.
            self.is_marking.store(pending.is_some(), Ordering::Release);
        }
    }

    /// Waits until there are unsaved changes.
    pub(crate) fn wait_for_changes(&self) {
        let mut guard = self.changes.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_changed() {
            // A notification may come between the check and the wait.
            let waited = self.changes.1.wait_timeout(guard, Duration::from_secs(1));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
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
        let _turn = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if result.is_err() || !self.is_changed() {
            *pending = None;
        }
        result
    }

    fn write(&self, place: &RecordPlace) -> Result<(), RecordsError> {
        self.merge_from_disk();
        let today = records::today();
        let mut day_of = HashMap::new();
        let (mut size, mut resident) = (0_u64, Vec::new());
        for held in &self.records {
            let day = if held.used.load(Ordering::Relaxed) { today } else { held.day };
            if today.saturating_sub(day) > records::DAYS {
                continue;
            }
            size = size.saturating_add(records::HEAD + held.length);
            let (kind, identity) = *held.key();
            match &held.bytes {
                Some(bytes) => resident.push(Record { kind, identity, day, bytes: Arc::clone(bytes) }),
                None => drop(day_of.insert((kind, identity), day)),
            }
        }
        resident.sort_by_key(|record| (record.kind, record.identity));
        let stored = place.stored().clone();
        let file = records::write(&place.file, &place.header, size, |put| {
            resident.iter().try_for_each(&mut *put)?;
            let Some(stored) = stored.filter(|_| !day_of.is_empty()) else { return Ok(()) };
            let mut result = Ok(());
            let visit = |record: Record| {
                if let Some(&day) = day_of.get(&(record.kind, record.identity))
                    && result.is_ok()
                {
                    result = put(&Record { day, ..record });
                }
            };
            records::read(&place.file, &stored, Some(&place.header), visit).map_err(io::Error::other)?;
            result
        })?;
        *place.stored() = Some(Arc::new(file));
        for record in resident.iter().filter(|record| record.bytes.len() >= LARGE) {
            if let Some(mut held) = self.records.get_mut(&(record.kind, record.identity)) {
                // Unless the record was replaced meanwhile.
                held.bytes.take_if(|bytes| Arc::ptr_eq(bytes, &record.bytes));
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
        let result = records::open(&place.file).and_then(|file| {
            let version =
                |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino(), metadata.len()));
            if place.stored().as_ref().is_some_and(|stored| version(stored).ok() == version(&file).ok()) {
                return Ok(());
            }
            let mut there = HashSet::new();
            records::read(&place.file, &file, Some(&place.header), |record| {
                let key = (record.kind, record.identity);
                if record.bytes.len() >= LARGE {
                    there.insert(key);
                }
                self.records.entry(key).or_insert_with(|| IndexState::stored(record));
            })?;
            // Another session may have written the file before it had all records of this one.
            self.records.retain(|key, held| held.bytes.is_some() || there.contains(key));
            *place.stored() = Some(Arc::new(file));
            Ok(())
        });
        match result {
            Err(RecordsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::info!("the index is made again: {error}"),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {

    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn identity(number: u64) -> Identity {
        Identity::describe("test").number(number).finish()
    }

    #[test]
    fn what_was_put_is_there_in_the_next_session() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        let cache = place.path().join("cache/deep");
        fs::write(&input, "input").unwrap();
        let index = Index::open(&cache, &input);
        assert_eq!(index.get::<u64>(RecordKind::Scan, &identity(1)), None);
        index.save().unwrap();
        assert!(!cache.exists(), "nothing was put, so nothing is written");
        index.put(RecordKind::Scan, &identity(1), &7_u64);
        index.put(RecordKind::Digest, &identity(1), &"text");
        assert!(index.is_changed());
        index.save().unwrap();
        assert!(!index.is_changed());

        let next = Index::open(&cache, &input);
        assert_eq!(next.get::<u64>(RecordKind::Scan, &identity(1)), Some(7));
        assert_eq!(next.get::<String>(RecordKind::Digest, &identity(1)), Some("text".to_owned()));
        assert_eq!(next.get::<u64>(RecordKind::Digest, &identity(1)), None, "of another type");
        assert_eq!(next.get::<u64>(RecordKind::Scan, &identity(2)), None);
    }

    /// Autosave runs while the session ends. A save that began earlier must not write later.
    #[test]
    fn one_saves_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let index = Index::open(place.path(), &input);
        index.put(RecordKind::Scan, &identity(1), &1_u64);
        std::thread::scope(|scope| {
            let other = index.saving.lock().unwrap();
            let waiting = scope.spawn(|| index.save().unwrap());
            (0..1000).for_each(|_| std::thread::yield_now());
            assert!(index.is_changed() && !waiting.is_finished());
            index.put(RecordKind::Scan, &identity(2), &2_u64);
            drop(other);
        });
        let next = Index::open(place.path(), &input);
        assert_eq!([1, 2].map(|number| next.get::<u64>(RecordKind::Scan, &identity(number))), [Some(1), Some(2)]);
    }

    #[test]
    fn two_sessions_at_once_lose_nothing() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let [one, two] = [(); 2].map(|()| Index::open(place.path(), &input));
        one.put(RecordKind::Scan, &identity(1), &1);
        two.put(RecordKind::Scan, &identity(2), &2);
        one.save().unwrap();
        two.save().unwrap();
        let next = Index::open(place.path(), &input);
        let recalled = [1, 2].map(|number| next.get::<u64>(RecordKind::Scan, &identity(number)));
        assert_eq!(recalled, [Some(1), Some(2)]);
    }

    #[test]
    fn a_changed_input_and_a_damaged_index_start_anew() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let index = Index::open(place.path(), &input);
        let file = index.file().unwrap().to_owned();
        index.put(RecordKind::Scan, &identity(1), &1);
        index.save().unwrap();
        let known = || Index::open(place.path(), &input).get::<u64>(RecordKind::Scan, &identity(1)).is_some();
        assert!(known());
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            let index = fs::File::options().write(true).open(&file).unwrap();
            index.write_all_at(&[good[at] ^ 0x20], at as u64).unwrap();
            assert!(!known(), "byte {at} is wrong");
            fs::write(&file, &good[..at]).unwrap();
            assert!(!known(), "{at} bytes only");
            fs::write(&file, &good).unwrap();
        }
        assert!(known());
        fs::write(&input, "other").unwrap();
        assert!(!known());
    }

    /// Records of block indexes can have many MB.
    #[test]
    fn large_records_leave_memory_when_they_are_saved_and_are_read_again() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let large = |number: u64| serde_bytes::ByteBuf::from(vec![u8::try_from(number).unwrap(); LARGE]);
        let known = |index: &Index, number| index.get(RecordKind::Stream, &identity(number)) == Some(large(number));
        let resident = |index: &Index| index.records.iter().filter(|held| held.bytes.is_some()).count();
        let index = Index::open(place.path(), &input);
        index.put(RecordKind::Scan, &identity(1), &7_u64);
        index.put(RecordKind::Stream, &identity(2), &large(2));
        assert_eq!(resident(&index), 2);
        index.save().unwrap();
        assert_eq!(resident(&index), 1);
        assert!(known(&index, 2));
        // They are copied from the old file to the new one, even after the old one was unlinked. The next session does
        // the same.
        fs::remove_file(index.file().unwrap()).unwrap();
        index.put(RecordKind::Stream, &identity(3), &large(3));
        index.save().unwrap();
        let next = Index::open(place.path(), &input);
        assert_eq!(resident(&next), 1);
        next.put(RecordKind::Stream, &identity(4), &large(4));
        next.save().unwrap();
        assert!((2..5).all(|number| known(&next, number)));
        // Another session has saved without them.
        fs::remove_file(index.file().unwrap()).unwrap();
        let other = Index::open(place.path(), &input);
        other.put(RecordKind::Scan, &identity(5), &7_u64);
        other.save().unwrap();
        next.put(RecordKind::Stream, &identity(6), &large(6));
        next.save().unwrap();
        assert!(known(&next, 6) && !known(&next, 2));
        assert_eq!(Index::open(place.path(), &input).get::<u64>(RecordKind::Scan, &identity(5)), Some(7));
        // What planning asks for is in memory until it has asked.
        next.put(RecordKind::Scan, &identity(7), &large(7));
        next.save().unwrap();
        let last = Index::open(place.path(), &input);
        let get = || (resident(&last), last.get(RecordKind::Scan, &identity(7)) == Some(large(7)));
        assert_eq!([get(), get()], [(3, true), (2, true)]);
        let last = Index::open(place.path(), &input);
        let before = resident(&last);
        last.end_planning();
        let get = last.get(RecordKind::Scan, &identity(7));
        assert_eq!((before, resident(&last), get), (3, 2, Some(large(7))));
    }

    #[test]
    fn what_is_not_saved_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let index = Index::open(place.path(), &input);
        let value = serde_bytes::ByteBuf::from(vec![1; 1 << 20]);
        for number in 0..20 {
            index.put(RecordKind::Stream, &identity(number), &value);
            let unsaved: u64 = index.records.iter().filter(|held| held.bytes.is_some()).map(|held| held.length).sum();
            assert!(unsaved <= MOST_UNSAVED, "{unsaved}");
        }
    }

    #[test]
    fn without_a_place_nothing_is_put_down() {
        let index = Index::default();
        index.put(RecordKind::Scan, &identity(1), &1);
        assert!(index.get::<u64>(RecordKind::Scan, &identity(1)).is_none() && !index.is_changed());
        index.save().unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_costs_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let index = Index::open(&input.join("below a file"), &input);
        index.put(RecordKind::Scan, &identity(1), &1_u64);
        assert!(index.save().unwrap_err().to_string().contains("below a file"));
        assert!(index.is_changed());
        assert_eq!(index.get::<u64>(RecordKind::Scan, &identity(1)), Some(1));
    }
}
