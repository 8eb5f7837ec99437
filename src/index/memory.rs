//! What was learnt about an input, kept from session to session.
//!
//! Rooms put down what they found out under the [`Identity`] of the content it is about, so what is recalled is true
//! as long as that content is the same. A record can be lost at any time; it is never needed, only worth having.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records::{self, Header, Record, RecordsError};
use crate::rope::Identity;

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Whether a file has device code, and which.
    Scan = 1,
    /// What has to be changed in a binary so that it has no device code.
    Rewritten = 2,
    /// Where reading a deflate stream can start.
    Stream = 3,
    /// How long the compressed code objects of an archive are.
    Frames = 4,
    /// The digests of a content.
    Digest = 5,
    /// Length and CRC-32 of a deflate stream made for a new wheel.
    Spliced = 6,
}

/// The records about one input.
#[derive(Debug, Default)]
pub struct Memory {
    records: DashMap<(u8, Identity), Held>,
    /// Where they are kept; nowhere if `None`, and then nothing is put down.
    place: Option<Place>,
    changed: AtomicBool,
    /// Held by whoever saves.
    saving: Mutex<()>,
    /// Tells the keeper of changes.
    news: (Mutex<()>, Condvar),
}

#[derive(Debug)]
struct Place {
    file: PathBuf,
    header: Header,
}

#[derive(Debug)]
struct Held {
    record: Record,
    /// Whether this session had use for it.
    used: AtomicBool,
}

impl Memory {
    /// The records about the input at `location` that are kept in `directory`. What is there but was made of another input
    /// or by another version, or is damaged, is as good as nothing.
    pub fn open(directory: &Path, location: &Path) -> Self {
        let Ok(header) = Header::of(location) else { return Self::default() };
        let file = directory.join(records::file_name(location));
        let memory = Self { place: Some(Place { file, header }), ..Self::default() };
        memory.take_in();
        memory
    }

    /// What was put down; `None` also if it cannot be understood.
    pub fn recall<T: DeserializeOwned>(&self, kind: Kind, identity: &Identity) -> Option<T> {
        let held = self.records.get(&(kind as u8, *identity))?;
        held.used.store(true, Ordering::Relaxed);
        records::decode(&held.record.bytes)
    }

    /// Puts something down.
    pub fn learn<T: Serialize>(&self, kind: Kind, identity: &Identity, value: &T) {
        if self.place.is_none() {
            return;
        }
        let Ok(bytes) = rmp_serde::to_vec(value) else { return };
        let record = Record { kind: kind as u8, identity: *identity, day: records::today(), bytes: bytes.into() };
        self.records.insert((kind as u8, *identity), Held { record, used: AtomicBool::new(true) });
        if !self.changed.swap(true, Ordering::AcqRel) {
            self.news.1.notify_one();
        }
    }

    /// Waits until there is something that has not been saved.
    pub(super) fn wait_for_news(&self) {
        let mut guard = self.news.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_changed() {
            // A notice can come between the question and the wait.
            let waited = self.news.1.wait_timeout(guard, Duration::from_secs(1));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether there is something that has not been saved.
    pub fn is_changed(&self) -> bool {
        self.place.is_some() && self.changed.load(Ordering::Acquire)
    }

    /// The file that the records are kept in.
    pub fn file(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.file.as_path())
    }

    /// Writes down what has been learnt. What another session has written meanwhile stays; what nobody has had use for in
    /// a long time goes.
    pub fn save(&self) -> Result<(), RecordsError> {
        let Some(place) = &self.place else { return Ok(()) };
        // Otherwise one who began earlier could put what it knew over what is known by now.
        let _turn = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.take_in();
        let today = records::today();
        let kept = self.records.iter().filter_map(|held| {
            let mut record = held.record.clone();
            if held.used.load(Ordering::Relaxed) {
                record.day = today;
            }
            (today.saturating_sub(record.day) <= records::DAYS).then_some(record)
        });
        let mut kept: Vec<_> = kept.collect();
        kept.sort_by_key(|record| (record.kind, record.identity));
        records::write(&place.file, &place.header, &kept).inspect_err(|_| self.changed.store(true, Ordering::Release))
    }

    /// Saves, and says in the log if that fails: without what was learnt the next session takes longer, no more. Whether it
    /// succeeded.
    pub fn save_or_log(&self) -> bool {
        let result = self.save();
        if let Err(error) = &result {
            tracing::warn!("what was learnt about the input cannot be kept: {error}");
        }
        result.is_ok()
    }

    /// Adds what the file has and this does not.
    fn take_in(&self) {
        let Some(place) = &self.place else { return };
        match records::read(&place.file, Some(&place.header)) {
            Ok((_, there)) => {
                for record in there {
                    let key = (record.kind, record.identity);
                    self.records.entry(key).or_insert_with(|| Held { record, used: AtomicBool::new(false) });
                }
            }
            Err(RecordsError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::info!("the index is made anew: {error}"),
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
    fn what_was_learnt_is_recalled_in_the_next_session() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        let cache = place.path().join("cache/deep");
        fs::write(&input, "input").unwrap();
        let memory = Memory::open(&cache, &input);
        assert_eq!(memory.recall::<u64>(Kind::Scan, &identity(1)), None);
        memory.save().unwrap();
        assert!(!cache.exists(), "nothing was learnt, so nothing is written");
        memory.learn(Kind::Scan, &identity(1), &7_u64);
        memory.learn(Kind::Digest, &identity(1), &"text");
        assert!(memory.is_changed());
        memory.save().unwrap();
        assert!(!memory.is_changed());

        let next = Memory::open(&cache, &input);
        assert_eq!(next.recall::<u64>(Kind::Scan, &identity(1)), Some(7));
        assert_eq!(next.recall::<String>(Kind::Digest, &identity(1)), Some("text".to_owned()));
        assert_eq!(next.recall::<u64>(Kind::Digest, &identity(1)), None, "of another type");
        assert_eq!(next.recall::<u64>(Kind::Scan, &identity(2)), None);
    }

    /// The keeper saves while the session ends, and whoever began earlier must not write later.
    #[test]
    fn one_saves_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let memory = Memory::open(place.path(), &input);
        memory.learn(Kind::Scan, &identity(1), &1_u64);
        std::thread::scope(|scope| {
            let other = memory.saving.lock().unwrap();
            let waiting = scope.spawn(|| memory.save().unwrap());
            (0..1000).for_each(|_| std::thread::yield_now());
            assert!(memory.is_changed() && !waiting.is_finished());
            memory.learn(Kind::Scan, &identity(2), &2_u64);
            drop(other);
        });
        let next = Memory::open(place.path(), &input);
        assert_eq!([1, 2].map(|number| next.recall::<u64>(Kind::Scan, &identity(number))), [Some(1), Some(2)]);
    }

    #[test]
    fn two_sessions_at_once_lose_nothing() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let [one, two] = [(); 2].map(|()| Memory::open(place.path(), &input));
        one.learn(Kind::Scan, &identity(1), &1);
        two.learn(Kind::Scan, &identity(2), &2);
        one.save().unwrap();
        two.save().unwrap();
        let next = Memory::open(place.path(), &input);
        let recalled = [1, 2].map(|number| next.recall::<u64>(Kind::Scan, &identity(number)));
        assert_eq!(recalled, [Some(1), Some(2)]);
    }

    #[test]
    fn a_changed_input_and_a_damaged_index_start_anew() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let memory = Memory::open(place.path(), &input);
        let file = memory.file().unwrap().to_owned();
        memory.learn(Kind::Scan, &identity(1), &1);
        memory.save().unwrap();
        let known = || Memory::open(place.path(), &input).recall::<u64>(Kind::Scan, &identity(1)).is_some();
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

    #[test]
    fn without_a_place_nothing_is_put_down() {
        let memory = Memory::default();
        memory.learn(Kind::Scan, &identity(1), &1);
        assert!(memory.recall::<u64>(Kind::Scan, &identity(1)).is_none() && !memory.is_changed());
        memory.save().unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_costs_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let memory = Memory::open(&input.join("below a file"), &input);
        memory.learn(Kind::Scan, &identity(1), &1_u64);
        assert!(memory.save().unwrap_err().to_string().contains("below a file"));
        assert!(memory.is_changed());
        assert_eq!(memory.recall::<u64>(Kind::Scan, &identity(1)), Some(1));
    }
}
