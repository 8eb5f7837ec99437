//! One wheel of a split.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rayon::prelude::*;

use super::deflating::MemberDeflation;
use super::payload::{HashedArchive, Payload};
use super::spliced::{packed_size, spliced};
use super::{Assembled, Digest, DosTime, SplitWheel, Sums, WheelEntry, Wheels, warnings_of};
use crate::binary::Rewritten;
use crate::gpu::GpuSet;
use crate::kpack::ArchiveRope;
use crate::memory::{Reclaim, Reservation};
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::{Content, Materialize, ReadError};
use crate::source::EntryPath;
use crate::tree::States;
use crate::wheel::{PART_MANIFEST, WheelError, line_size};

/// One wheel. Its list of files is known; lazy contents are made on demand.
#[derive(Debug)]
pub struct WheelPart {
    /// The part of the split that the wheel contains.
    pub part: SplitWheel,
    pub(super) wheels: Arc<Wheels>,
    pub(super) payload: Arc<[Payload]>,
    /// The dist-info files that replace the input's, without RECORD.
    pub dist_info: Vec<WheelEntry>,
    pub(super) stamp: DosTime,
    pub(super) resources: Arc<Resources>,
    assembled: Mutex<Option<KeptList>>,
    pub(super) record_size: OnceLock<u64>,
    wheel: Mutex<Option<Arc<dyn Content>>>,
}

/// Bytes of a file in a list, and in the RECORD of the list.
const LISTED: u64 = 240;

/// The files of a wheel. They are as many as there are members, and are evicted when nobody reads.
#[derive(Debug)]
struct KeptList {
    list: Arc<Assembled>,
    used: u64,
    _memory: Reservation,
}

impl WheelPart {
    pub(crate) fn new(
        part: SplitWheel,
        wheels: &Arc<Wheels>,
        payload: Arc<[Payload]>,
        dist_info: Vec<WheelEntry>,
        stamp: DosTime,
        resources: &Arc<Resources>,
    ) -> Arc<Self> {
        let (wheels, resources) = (Arc::clone(wheels), Arc::clone(resources));
        let (assembled, record_size, wheel) = (Mutex::default(), OnceLock::new(), Mutex::default());
        let part = Arc::new(Self { part, wheels, payload, dist_info, stamp, resources, assembled, record_size, wheel });
        let reclaimed: Arc<dyn Reclaim> = Arc::<Self>::clone(&part);
        part.resources.budget.register(MemoryClass::Streams, Arc::downgrade(&reclaimed));
        part
    }

    /// The file that an entry of the input is in this part.
    pub(super) fn of_entry(&self, path: &EntryPath) -> Option<&Payload> {
        // Entries of the input come first, in its order.
        let at = self.payload.partition_point(|payload| payload.entry().is_some_and(|entry| entry < path));
        self.payload.get(at).filter(|payload| payload.entry() == Some(path))
    }

    /// Whether thin wheels for different GPUs have different requirements.
    pub(crate) fn splits_requirements(&self) -> bool {
        self.wheels.splits_requirements()
    }

    /// The dist-info files of thin wheels with this one's version, for these GPUs or those that are the same for all of
    /// them, without RECORD.
    pub(crate) fn thin_dist_info(&self, gpus: Option<&GpuSet>) -> Result<Vec<WheelEntry>, WheelError> {
        self.wheels.whole_dist_info(&self.wheels.name(&self.part)?, gpus)
    }

    /// Plans the thin binaries, on all cores.
    fn plan_thin(&self) -> Result<(), ReadError> {
        let thin = self.payload.iter().filter_map(|payload| match payload {
            Payload::Thin(_, _, binary) => Some(binary),
            _ => None,
        });
        // Collected first: for a part without any, no other thread is woken.
        let thin: Vec<_> = thin.collect();
        thin.par_iter().with_max_len(1).try_for_each(|binary| binary.rewritten().map(drop))
    }

    /// The wheel's file name.
    pub fn file_name(&self) -> Result<String, WheelError> {
        Ok(self.wheels.name(&self.part)?.to_string())
    }

    /// Its archives. They have to be made before sizes are known.
    pub fn archives(&self) -> impl Iterator<Item = &ArchiveRope> {
        self.hashed_archives().map(|(file, _)| &*file.archive)
    }

    /// The same with what computes their digests.
    pub(super) fn hashed_archives(&self) -> impl Iterator<Item = (&HashedArchive, &Wheels)> {
        self.payload.iter().filter_map(|payload| match payload {
            Payload::Archive(_, _, file) => Some((&**file, &*self.wheels)),
            _ => None,
        })
    }

    /// Reasons why the wheel cannot be used in some places.
    pub(crate) fn warnings(&self) -> Result<Vec<String>, WheelError> {
        let paths = self.wheels.paths(&self.part)?;
        let payload = self.payload.iter().filter_map(|payload| payload.path(&paths));
        let dist_info = self.dist_info.iter().map(|file| file.path.clone());
        Ok(warnings_of(&self.wheels.name(&self.part)?, payload.chain(dist_info)))
    }

    /// The digests of unchanged files. They are kept from now on.
    pub(crate) fn taken_over(&self) -> Vec<Arc<Digest>> {
        let digests = &self.wheels.digests;
        let payload = self.payload.iter().filter_map(|payload| match payload {
            Payload::Unchanged(unchanged) => Some(digests.keep(unchanged, digests.digest(unchanged))),
            Payload::Binary(..) | Payload::Archive(..) | Payload::Thin(..) => None,
        });
        payload.chain(self.dist_info.iter().map(|file| Arc::clone(&file.digest))).collect()
    }

    /// All files of the part, with RECORD last. Makes archives.
    pub fn assembled(&self) -> Result<Arc<Assembled>, ReadError> {
        let used = |kept: &mut Option<KeptList>| {
            let kept = kept.as_mut()?;
            kept.used = self.resources.budget.now();
            Some(Arc::clone(&kept.list))
        };
        let lock = || self.assembled.lock();
        if let Some(assembled) = used(&mut lock()) {
            return Ok(assembled);
        }
        // Without the lock: a rayon thread that waits runs other jobs, which may need the same list.
        self.plan_thin()?;
        let mut assembled = lock();
        if let Some(assembled) = used(&mut assembled) {
            return Ok(assembled);
        }
        let paths = self.wheels.paths(&self.part).map_err(|error| self.failed(&error))?;
        let mut files = Vec::with_capacity(self.payload.len());
        for payload in &*self.payload {
            match payload {
                Payload::Unchanged(unchanged) => {
                    let path = paths.of(&unchanged.entry);
                    files.extend(path.map(|path| self.wheels.digests.file(path, unchanged)));
                }
                Payload::Binary(made) => files.push(made.file.clone()),
                Payload::Archive(path, mode, file) => {
                    let digest = file.digest(&self.wheels)?;
                    let file = |path| WheelEntry { path, executable: mode & 0o111 != 0, digest, deflated: None };
                    files.extend(paths.of(path).map(file));
                }
                Payload::Thin(path, executable, binary) => {
                    files.push(self.wheels.file(path.clone(), *executable, binary.make()?));
                }
            }
        }
        files.extend(self.dist_info.iter().cloned());
        let made = self.wheels.assemble(&self.part, files).map_err(|error| self.failed(&error))?;
        let made = Arc::new(made);
        let budget = &self.resources.budget;
        let memory = budget.account(MemoryClass::Streams, LISTED * made.files.len() as u64);
        *assembled = Some(KeptList { list: Arc::clone(&made), used: budget.now(), _memory: memory });
        drop(assembled);
        self.resources.budget.touch();
        Ok(made)
    }

    /// Bytes of RECORD. Makes archives.
    pub(crate) fn record_size(&self) -> Result<u64, ReadError> {
        if let Some(&size) = self.record_size.get() {
            return Ok(size);
        }
        self.plan_thin()?;
        let line = |path: &EntryPath, size| line_size(path, size).map_err(|error| self.failed(&error));
        let paths = self.wheels.paths(&self.part).map_err(|error| self.failed(&error))?;
        let mut total = line(&self.record_path().map_err(|error| self.failed(&error))?, None)?;
        for payload in &*self.payload {
            let size = match payload {
                Payload::Unchanged(unchanged) => unchanged.size(),
                Payload::Binary(made) => made.file.digest.content.size(),
                Payload::Archive(_, _, file) => file.archive.make()?.size(),
                Payload::Thin(_, _, binary) => binary.make()?.size(),
            };
            total += payload.path(&paths).map_or(Ok(0), |path| line(&path, Some(size)))?;
        }
        for file in &self.dist_info {
            total += line(&file.path, Some(file.digest.content.size()))?;
        }
        Ok(*self.record_size.get_or_init(|| total))
    }

    /// Makes RECORD again at the next use. It may contain claims that were found to be wrong since.
    pub(crate) fn forget_record(&self) {
        *self.assembled.lock() = None;
    }

    /// The digest of its manifest, which needs those of all files that it lists.
    pub(super) fn manifest(&self) -> Option<&Arc<Digest>> {
        let found = self.dist_info.iter().find(|file| file.path.name() == PART_MANIFEST.as_bytes());
        found.map(|file| &file.digest)
    }

    /// The path of one of its files in an installation of all parts.
    pub(crate) fn installed(&self, path: &EntryPath) -> EntryPath {
        self.wheels.installed(path)
    }

    /// The RECORD of an installation of the part. Makes archives.
    pub(crate) fn installed_record(&self) -> Result<Arc<dyn Content>, ReadError> {
        let record = self.wheels.installed_record(&*self.assembled()?).map_err(|error| self.failed(&error))?;
        Ok(Arc::new(record))
    }

    /// The path of the part's RECORD.
    pub fn record_path(&self) -> Result<EntryPath, WheelError> {
        Ok(self.wheels.name(&self.part)?.dist_info().child(b"RECORD"))
    }

    /// The wheel's size, if it is known without work.
    pub fn known_size(&self) -> Option<u64> {
        if let Some(wheel) = self.known_wheel() {
            return Some(wheel.size());
        }
        if self.wheels.options.deflate.is_some() {
            return None;
        }
        let is_known = |payload: &Payload| match payload {
            Payload::Unchanged(..) => true,
            Payload::Binary(_) => {
                let member = payload.rewritten().and_then(|it| it.original.member());
                member.is_none_or(|member| !member.packed().deflated)
            }
            Payload::Thin(..) => false,
            Payload::Archive(_, _, file) => file.archive.made().is_some(),
        };
        self.payload.iter().all(is_known).then(|| self.wheel().ok().map(|wheel| wheel.size()))?
    }

    /// Packed bytes of the rewritten files. Their streams have to be spliced before the wheel's size is known.
    pub fn rewritten_size(&self) -> u64 {
        self.payload.iter().filter_map(Payload::rewritten).map(|it| packed_size(it)).sum()
    }

    /// The wheel. Makes archives, and the deflate streams of rewritten files.
    pub fn wheel(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.wheel_with(&AtomicU64::new(0))
    }

    /// Like [`WheelPart::wheel`]. Adds the bytes of rewritten files, and those that are deflated, to `done`.
    pub(super) fn wheel_with(&self, done: &AtomicU64) -> Result<Arc<dyn Content>, ReadError> {
        let mut wheel = self.wheel.lock();
        if let Some(wheel) = &*wheel {
            return Ok(Arc::clone(wheel));
        }
        let mut assembled = Assembled::clone(&*self.assembled()?);
        let level = self.wheels.options.deflate;
        // Collected first: for a part without any, no other thread is woken.
        let mut rewritten = Vec::new();
        for payload in &*self.payload {
            match payload {
                Payload::Binary(made) => rewritten.extend(made.rewritten.clone().map(|it| (&made.file.path, it))),
                Payload::Thin(path, _, binary) => rewritten.push((path, binary.rewritten()?)),
                Payload::Unchanged(..) | Payload::Archive(..) => {}
            }
        }
        let splice = |(path, rewritten): (&EntryPath, Arc<Rewritten>)| {
            let is_stored = rewritten.original.member().is_some_and(|member| !member.packed().deflated);
            let stream = spliced(&path.to_text(), &rewritten, level.unwrap_or_default(), &self.resources)?;
            done.fetch_add(packed_size(&rewritten), Ordering::Relaxed);
            Ok((path.clone(), is_stored, stream))
        };
        let made = rewritten.into_par_iter().with_max_len(1).map(splice).collect::<Result<Vec<_>, ReadError>>()?;
        let (mut streams, mut stored) = (BTreeMap::new(), BTreeSet::new());
        for (path, is_stored, stream) in made {
            if is_stored && !self.wheels.deflates_stored {
                stored.insert(path);
            } else if let Some(stream) = stream {
                streams.insert(path, stream);
            }
        }
        for file in &mut assembled.files {
            if let Some(stream) = streams.remove(&file.path) {
                match stream.sha256 {
                    Some(sha256) => file.digest.set(Sums { sha256, crc32: stream.crc32 }),
                    None => file.digest.assume(None, Some(stream.crc32)),
                }
                file.deflated = Some(stream.bytes).filter(|bytes| bytes.size() < file.digest.content.size());
            }
        }
        if let Some(level) = level {
            let deflates_stored = self.wheels.deflates_stored;
            let deflation = MemberDeflation { level, deflates_stored, resources: &self.resources, done };
            deflation.deflate(&mut assembled.files, &stored).map_err(|error| self.failed(&error))?;
        }
        let made: Arc<dyn Content> = Arc::new(assembled.wheel(self.stamp).map_err(|error| self.failed(&error))?);
        *wheel = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The wheel, if it has been made.
    pub(crate) fn known_wheel(&self) -> Option<Arc<dyn Content>> {
        self.wheel.try_lock()?.clone()
    }

    fn failed(&self, error: &(dyn Error + 'static)) -> ReadError {
        let name = self.file_name().unwrap_or_else(|_| format!("{:?}", self.part));
        ReadError::caused_by(&name.into(), error)
    }
}

impl States for Arc<WheelPart> {
    fn sha256(&self, path: &EntryPath) -> Option<[u8; 32]> {
        match self.of_entry(path) {
            // The digest, not RECORD, is asked: an earlier session may have found that RECORD is wrong.
            Some(Payload::Unchanged(unchanged)) => self.wheels.digests.digest(unchanged).known_sha256(),
            Some(Payload::Binary(made)) => made.file.digest.known_sha256(),
            _ => self.dist_info.iter().find(|file| file.path == *path)?.digest.known_sha256(),
        }
    }
}

impl Reclaim for WheelPart {
    fn oldest(&self) -> Option<u64> {
        self.assembled.try_lock()?.as_ref().map(|kept| kept.used)
    }

    fn reclaim(&self) -> bool {
        self.assembled.try_lock().is_some_and(|mut assembled| assembled.take().is_some())
    }
}
