//! The RECORD of the wheel that is split, read when a digest that it claims is asked for.
//!
//! A mount needs no digest before a RECORD, a wheel or an extended attribute is read, and most mounts serve none of
//! these. So planning asks only whether something is wrong with RECORD, which the index knows after the first time. The
//! claims take more memory than all else that is known of a member, so they leave when nobody asks for them.
//!
//! The ID of a split is made of the files that it lists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::index::RecordKind;
use crate::memory::{Reclaim, Reservation};
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::{Content, Identity};
use crate::source::{Entry, EntryPath, Input, InputKind};
use crate::split::FieldSum;
use crate::wheel::{Claims, Stated, WheelError, installed, is_elsewhere, is_of_installer};

/// The RECORD of the input.
#[derive(Debug)]
pub(crate) struct InputRecord {
    path: EntryPath,
    /// `None` if there is no such file.
    content: Option<Arc<dyn Content>>,
    /// Binaries of the input that are joined with their archives. RECORD describes them as they were.
    joined: BTreeSet<EntryPath>,
    /// Under which the index knows what is wrong with it; `None` if more than this file decides about that.
    identity: Option<Identity>,
    resources: Arc<Resources>,
    /// Empty if no digest was asked for in a while.
    claims: Mutex<Option<LoadedClaims>>,
    /// Whether a warning says that it cannot be read.
    has_warned: AtomicBool,
}

/// The claims while they are in memory.
#[derive(Debug)]
struct LoadedClaims {
    /// `None` if RECORD cannot be read.
    claims: Option<Arc<Claims>>,
    /// When they were last used, as a time of [`Budget::now`](crate::memory::Budget::now).
    used: u64,
    /// The memory that they take.
    _memory: Reservation,
}

/// What planning has to know of a RECORD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExaminedRecord {
    /// What is wrong with it, as far as that can be seen without reading other files.
    pub(crate) problem: Option<String>,
    /// The files of the wheel, for the ID of its split.
    pub(crate) listed: ListedFiles,
}

/// RECORD cannot be read. A warning has said why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadableRecord;

impl InputRecord {
    /// The RECORD at `path`. Nothing of it is read.
    pub(crate) fn new(
        input: &Input,
        path: EntryPath,
        joined: Option<&BTreeSet<EntryPath>>,
        resources: &Arc<Resources>,
    ) -> Arc<Self> {
        let content = input.content(&path).cloned();
        // The other files are members of the same wheel, so that none of them can change by itself.
        let is_all = matches!(input.kind, InputKind::Wheel(_)) && joined.is_none();
        let identity = content.as_ref().filter(|_| is_all).and_then(|content| content.identity());
        let record = Arc::new(Self {
            path,
            content,
            joined: joined.cloned().unwrap_or_default(),
            identity: identity.map(|identity| Identity::describe("RECORD").add(&identity.0).finish()),
            resources: Arc::clone(resources),
            claims: Mutex::default(),
            has_warned: AtomicBool::new(false),
        });
        let reclaimed: Arc<dyn Reclaim> = Arc::<Self>::clone(&record);
        resources.budget.register(MemoryClass::Streams, Arc::downgrade(&reclaimed));
        record
    }

    /// What planning has to know of it. No other file is read.
    pub(crate) fn examine(&self, input: &Input) -> Result<ExaminedRecord, WheelError> {
        let index = &self.resources.index;
        let known = self.identity.and_then(|identity| index.get(RecordKind::Claims, &identity));
        if let Some(known) = known {
            return Ok(known);
        }
        let claims = self.load()?;
        let examined = ExaminedRecord { problem: claims.problem(input), listed: ListedFiles::of(&claims, input) };
        if let Some(identity) = &self.identity {
            index.put(RecordKind::Claims, identity, &examined);
        }
        Ok(examined)
    }

    /// The SHA-256 that is claimed for a file of this size. A RECORD that cannot be read is tried again when its claims have
    /// left memory.
    pub(crate) fn sha256(&self, path: &EntryPath, size: u64) -> Result<Option<[u8; 32]>, UnreadableRecord> {
        let claims = self.claims()?;
        Ok(claims.get(path).filter(|claim| claim.size == size).map(|claim| claim.sha256))
    }

    /// Drops the claims, which are read again when one is asked for.
    pub(crate) fn forget(&self) {
        *self.claims.lock() = None;
    }

    fn claims(&self) -> Result<Arc<Claims>, UnreadableRecord> {
        let mut loaded = self.claims.lock();
        let budget = &self.resources.budget;
        let used = budget.now();
        if let Some(loaded) = &mut *loaded {
            loaded.used = used;
            return loaded.claims.clone().ok_or(UnreadableRecord);
        }
        let claims = match self.load() {
            Ok(claims) => Some(Arc::new(claims)),
            Err(error) => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!("{error}; what it claims is computed");
                }
                None
            }
        };
        let bytes = claims.as_ref().map_or(0, |claims| claims.bytes());
        let memory = budget.account(MemoryClass::Streams, bytes);
        *loaded = Some(LoadedClaims { claims: claims.clone(), used, _memory: memory });
        drop(loaded);
        budget.reclaim();
        budget.touch();
        claims.ok_or(UnreadableRecord)
    }

    fn load(&self) -> Result<Claims, WheelError> {
        let mut claims = Claims::of_file(&self.path, self.content.as_deref())?;
        self.joined.iter().for_each(|path| claims.forget(path));
        Ok(claims)
    }
}

impl LoadedClaims {
    /// Whether nobody else refers to the claims, so that dropping them frees memory.
    fn is_unused(&self) -> bool {
        self.claims.as_ref().is_none_or(|claims| Arc::strong_count(claims) == 1)
    }
}

impl Reclaim for InputRecord {
    fn oldest(&self) -> Option<u64> {
        self.claims.try_lock()?.as_ref().filter(|loaded| loaded.is_unused()).map(|loaded| loaded.used)
    }

    fn reclaim(&self) -> bool {
        let Some(mut loaded) = self.claims.try_lock() else { return false };
        let dropped = loaded.take_if(|loaded| loaded.is_unused());
        // Its reservation is released without the lock.
        drop(loaded);
        dropped.is_some()
    }
}

/// The files of a wheel. A wheel, the wheel unpacked, and an installation of it have the same: paths are those of an
/// installation, and files that an installer adds or puts elsewhere do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFiles {
    /// A SHA-256 over the path, the digest and the size of each file.
    pub(crate) sum: [u8; 32],
    /// Whether RECORD states the digests of all of them. There are wheels whose RECORD has sizes only.
    pub(crate) has_digests: bool,
}

impl ListedFiles {
    /// The files that a RECORD of `input` lists.
    pub(crate) fn of(claims: &Claims, input: &Input) -> Self {
        let root = EntryPath::root();
        let dist_info = input.dist_info().unwrap_or(&root);
        let own = claims.rows().filter_map(|(path, stated)| {
            // A path above the packages is no path of a wheel.
            let written = EntryPath::new(path).ok()?;
            let place = installed(&written);
            (!is_elsewhere(&place) && !is_of_installer(dist_info, &place)).then_some((place, written, stated))
        });
        let mut rows: Vec<_> = own.collect();
        rows.sort_by(|one, other| one.0.cmp(&other.0));
        let has_digests = rows.iter().all(|(.., stated)| *stated != Stated::Nothing);
        let mut sum = FieldSum::default();
        for (place, written, stated) in rows {
            sum.add("file").add(place.as_bytes());
            match stated.claim().filter(|_| has_digests) {
                Some(claim) => drop(sum.add(claim.sha256).number(claim.size)),
                None => drop(sum.add("").number(input.entry(&written).map_or(0, Entry::size))),
            }
        }
        Self { sum: sum.finish(), has_digests }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::index::Index;
    use crate::rope::{ReadError, Rope, Segment, copy_from};
    use crate::source::testing::path;
    use crate::source::{Attributes, Entry, EntryKind};
    use crate::wheelparts::Digest;

    /// A member that counts how often it is read.
    #[derive(Debug)]
    struct CountedMember(&'static str, AtomicU32);

    impl Content for CountedMember {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            copy_from(self.0.as_bytes(), offset, buffer)
        }

        fn identity(&self) -> Option<Identity> {
            Some(Identity::describe("member").add(self.0.as_bytes()).finish())
        }
    }

    /// A wheel of a file of three bytes.
    fn input(record: &Arc<CountedMember>) -> Input {
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
        let entry = |name: &str, content: Arc<dyn Content>| Entry {
            path: path(name),
            kind: EntryKind::File { content, link_group: None },
            attributes,
        };
        let file = Arc::new(Rope::new([Segment::literal(*b"abc")]).unwrap());
        let entries = vec![entry("file", file), entry("x-1.dist-info/RECORD", record.clone())];
        let kind = InputKind::Wheel(path("x-1.dist-info"));
        Input { entries, ..Input::empty(kind, "/x.whl".into(), attributes) }
    }

    #[test]
    fn record_is_read_when_a_digest_is_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let wheel = place.path().join("x.whl");
        std::fs::write(&wheel, "wheel").unwrap();
        for (text, has_problem) in [
            ("file,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,3\n", false),
            ("file,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,4\n", true),
        ] {
            let member = Arc::new(CountedMember(text, AtomicU32::new(0)));
            let reads = || member.1.load(Ordering::Relaxed);
            let input = input(&member);
            let open = |joined| {
                let resources = Resources::with_index(1 << 20, Index::open(place.path(), &wheel));
                (InputRecord::new(&input, path("x-1.dist-info/RECORD"), joined, &resources), resources)
            };
            let (first, resources) = open(None);
            let problem = first.examine(&input).unwrap().problem;
            assert_eq!((problem.is_some(), reads()), (has_problem, 1));
            resources.index.save().unwrap();

            let (second, _resources) = open(None);
            assert_eq!((second.examine(&input).unwrap().problem, reads()), (problem, 1), "the index knows");
            for read in [2, 3] {
                assert_eq!(second.sha256(&path("file"), 3).unwrap().is_some(), !has_problem);
                assert_eq!((second.sha256(&path("other"), 3), reads()), (Ok(None), read));
                second.forget();
            }
            // Which binaries were joined is not known from RECORD.
            let joined = [path("file")].into();
            let (third, _resources) = open(Some(&joined));
            assert_eq!((third.examine(&input).unwrap().problem, reads()), (None, 4));
            assert_eq!(third.sha256(&path("file"), 3), Ok(None));
        }
    }

    #[test]
    fn claims_are_accounted_and_leave_unless_they_are_in_use() {
        let member =
            Arc::new(CountedMember("file,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,3\n", AtomicU32::new(0)));
        let resources = Resources::new(1 << 20);
        let record = InputRecord::new(&input(&member), path("x-1.dist-info/RECORD"), None, &resources);
        assert!(record.oldest().is_none() && !record.reclaim(), "nothing was asked for");
        let claims = record.claims().unwrap();
        let streams = || resources.budget.gauges().streams;
        assert!(streams() > 0 && !record.reclaim(), "in use");
        drop(claims);
        assert!(record.oldest().is_some() && record.reclaim());
        assert_eq!(streams(), 0);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_tried_again() {
        let member = Arc::new(CountedMember("file,sha256=x,", AtomicU32::new(0)));
        let resources = Resources::new(1 << 20);
        let mut input = input(&member);
        input.entries.pop();
        let record = InputRecord::new(&input, path("x-1.dist-info/RECORD"), None, &resources);
        assert_eq!(record.sha256(&path("file"), 3), Err(UnreadableRecord));
        assert!(record.reclaim());
        assert_eq!(record.sha256(&path("file"), 3), Err(UnreadableRecord));
    }

    #[test]
    fn digests_of_a_damaged_file_are_not_kept_for_later_sessions() {
        let place = tempfile::tempdir().unwrap();
        let wheel = place.path().join("x.whl");
        std::fs::write(&wheel, "wheel").unwrap();
        let member = Arc::new(CountedMember("abc", AtomicU32::new(0)));
        let session = |crc32| {
            let resources = Resources::with_index(1 << 20, Index::open(place.path(), &wheel));
            let record = InputRecord::new(&input(&member), path("x-1.dist-info/RECORD"), None, &resources);
            let digest = Digest::remembered("file", member.clone(), Some(crc32), &resources);
            let digest = digest.claimed(&record, &path("file"), true);
            let result = (digest.known().is_some(), digest.sums().is_ok());
            resources.index.save().unwrap();
            result
        };
        let right = crc32fast::hash(b"abc");
        assert_eq!([right ^ 1, right ^ 1].map(session), [(false, false); 2]);
        assert_eq!([right, right, right ^ 1].map(session), [(false, true), (true, true), (false, false)]);
    }
}
