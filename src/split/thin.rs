//! A binary with the code of some GPUs only, planned when somebody asks for it.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::scan::{DeviceCode, find};
use crate::binary::{FatBinary, Replaced, Rewritten, ThinChanges};
use crate::fatbin::{Bundle, Compressed, ThinBundle};
use crate::gpu::GpuSet;
use crate::kpack::{BundleJobs, PackedBundle};
use crate::rope::{Content, Make, ReadError};
use crate::source::{EntryPath, Input};

use super::{Place, Plan};

/// Thin binaries that are remembered at most. Each takes some KB; what was found out of those that are forgotten is in
/// the index.
const MOST_THIN: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// A binary of the input in its thin form.
///
/// It is a binary as before, with the same wrappers. Each leads to a bundle of the kind that it had, with the code that
/// the GPUs may be given. Without compressed bundles its size is known after planning, which reads headers. With them
/// it is known when they are made.
#[derive(Debug)]
pub struct ThinBinary {
    entry: Arc<str>,
    original: Arc<dyn Content>,
    gpus: Arc<GpuSet>,
    /// Its compressed bundles as archives read them, so that none is decompressed twice for both.
    bundles: Arc<[Arc<Compressed>]>,
    jobs: Arc<BundleJobs>,
    made: Mutex<Option<Arc<Rewritten>>>,
}

/// The binaries of an input that have a thin form.
#[derive(Debug)]
pub struct FatBinaries {
    list: HashMap<EntryPath, Fat>,
    jobs: Arc<BundleJobs>,
    /// Those that were asked for last.
    thin: Mutex<LruCache<Form, Arc<ThinBinary>>>,
}

/// A binary for some GPUs.
type Form = (Arc<GpuSet>, EntryPath);

#[derive(Debug)]
struct Fat {
    original: Arc<dyn Content>,
    bundles: Arc<[Arc<Compressed>]>,
}

impl FatBinaries {
    /// The binaries that a plan rewrites.
    pub fn new(input: &Input, plan: &Plan) -> Self {
        let fat = input.entries.iter().zip(&plan.places).filter_map(|(entry, place)| match place {
            Place::Rewritten { content, bundles, .. } => {
                let (original, bundles) = (Arc::clone(content.original()), Arc::clone(bundles));
                Some((entry.path.clone(), Fat { original, bundles }))
            }
            Place::Host | Place::Device(..) | Place::Unwanted(..) => None,
        });
        Self { list: fat.collect(), jobs: Arc::clone(&plan.jobs), thin: Mutex::new(LruCache::new(MOST_THIN)) }
    }

    /// The thin form of the binary at a path of the input; `None` if it has none.
    pub fn thin(&self, gpus: &Arc<GpuSet>, path: &EntryPath) -> Option<Arc<ThinBinary>> {
        let fat = self.list.get(path)?;
        let mut thin = self.thin.lock().unwrap_or_else(PoisonError::into_inner);
        let binary = thin.get_or_insert((Arc::clone(gpus), path.clone()), || {
            Arc::new(ThinBinary::new(&path.to_text(), &fat.original, gpus, &fat.bundles, &self.jobs))
        });
        Some(Arc::clone(binary))
    }
}

/// What a bundle becomes, and the compressed bundle that has to be made for that.
struct Thinned {
    offset: u64,
    bundle: ThinBundle,
    packed: Option<PackedBundle>,
}

impl ThinBinary {
    /// The binary at `entry` of the input, which is for messages.
    pub fn new(
        entry: &str,
        original: &Arc<dyn Content>,
        gpus: &Arc<GpuSet>,
        bundles: &Arc<[Arc<Compressed>]>,
        jobs: &Arc<BundleJobs>,
    ) -> Self {
        Self {
            entry: entry.into(),
            original: Arc::clone(original),
            gpus: Arc::clone(gpus),
            bundles: Arc::clone(bundles),
            jobs: Arc::clone(jobs),
            made: Mutex::default(),
        }
    }

    /// The binary. Plans it and makes its compressed bundles the first time.
    pub fn rewritten(&self) -> Result<Arc<Rewritten>, ReadError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made {
            return Ok(Arc::clone(made));
        }
        let rewritten = Arc::new(self.plan()?);
        *made = Some(Arc::clone(&rewritten));
        Ok(rewritten)
    }

    fn plan(&self) -> Result<Rewritten, ReadError> {
        let resources = self.jobs.resources();
        let (code, binary) = find(&self.original, resources).map_err(|error| self.failed(&error))?;
        let code = code.ok_or_else(|| ReadError::Changed { entry: Arc::clone(&self.entry) })?;
        let known = ThinChanges::get(&resources.index, &self.original, &self.gpus);
        if let Some(known) = known
            && let Some(rewritten) = self.restored(&code, &known)?
        {
            return Ok(rewritten);
        }
        let scanned = binary
            .map_or_else(|| FatBinary::scan(&self.original).map_err(|error| self.failed(&error)), |it| Ok(Some(it)))?;
        let binary = scanned.ok_or_else(|| ReadError::Changed { entry: Arc::clone(&self.entry) })?;
        let slots = binary.wrappers().iter().map(|wrapper| (wrapper.bundle, wrapper.limit - wrapper.bundle)).collect();
        let thinned = self.thinned(&code, &slots)?;
        let packed: Vec<_> = thinned.iter().filter_map(|thinned| thinned.packed.as_ref()).collect();
        PackedBundle::make_all(&packed)?;
        let replaced: Vec<_> = thinned
            .iter()
            .map(|Thinned { offset, bundle, packed }| Replaced {
                offset: *offset,
                bundle: bundle.clone(),
                compressed: packed.as_ref().and_then(PackedBundle::known_size),
                slot: slots.get(offset).copied().unwrap_or(0),
            })
            .collect();
        let changes = ThinChanges::make(&resources.index, &self.original, &binary, &self.gpus, &replaced);
        self.rewrite(&changes.map_err(|error| self.failed(&error))?, &thinned)
    }

    /// The binary after changes of an earlier session. `None` if its compressed bundles are known to have other lengths.
    fn restored(&self, code: &DeviceCode, changes: &ThinChanges) -> Result<Option<Rewritten>, ReadError> {
        let lengths: BTreeMap<usize, u64> = changes.compressed().collect();
        // A record of an earlier session can be wrong; then everything is planned again.
        if lengths.is_empty() {
            return Ok(self.rewrite(changes, &[]).ok());
        }
        let thinned = self.thinned(code, &BTreeMap::new())?;
        let fits = |(number, length): (&usize, &u64)| {
            let packed = thinned.get(*number).and_then(|thinned| thinned.packed.as_ref());
            packed.is_some_and(|packed| packed.restore_size(*length))
        };
        if !lengths.iter().all(fits) {
            return Ok(None);
        }
        Ok(self.rewrite(changes, &thinned).ok())
    }

    fn rewrite(&self, changes: &ThinChanges, thinned: &[Thinned]) -> Result<Rewritten, ReadError> {
        let packed: Vec<_> =
            thinned.iter().map(|thinned| thinned.packed.as_ref().and_then(PackedBundle::content)).collect();
        Rewritten::thin(&self.original, changes, &packed).map_err(|error| self.failed(&error))
    }

    /// What becomes of each bundle, in the order of their offsets. `slots` has the bytes that there are for each.
    fn thinned(&self, code: &DeviceCode, slots: &BTreeMap<u64, u64>) -> Result<Vec<Thinned>, ReadError> {
        let mut bundles: Vec<_> = code.bundles().iter().collect();
        bundles.sort_by_key(|bundle| bundle.offset());
        bundles.into_iter().map(|bundle| self.thin(bundle, slots)).collect()
    }

    fn thin(&self, fat: &Bundle, slots: &BTreeMap<u64, u64>) -> Result<Thinned, ReadError> {
        let offset = fat.offset();
        let slot = slots.get(&offset).copied().unwrap_or(u64::MAX);
        let bundle = fat.thin(&self.gpus, slot).map_err(|error| self.failed(&error))?;
        let packed = match &bundle {
            ThinBundle::Compressed { parts, format, .. } => {
                let compressed = self.compressed(fat)?;
                Some(PackedBundle::new(&compressed, parts.clone(), *format, self.gpus.first(), &self.jobs)?)
            }
            ThinBundle::Whole { .. } | ThinBundle::Raw(_) => None,
        };
        Ok(Thinned { offset, bundle, packed })
    }

    fn compressed(&self, bundle: &Bundle) -> Result<Arc<Compressed>, ReadError> {
        let known = self.bundles.iter().find(|known| Some(known.start()) == bundle.packed_start()).cloned();
        let read = || bundle.packed(&self.original, self.jobs.resources());
        known.or_else(read).ok_or_else(|| ReadError::Changed { entry: Arc::clone(&self.entry) })
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> ReadError {
        ReadError::damaged(&self.entry, error.to_string())
    }
}

impl Make for ThinBinary {
    fn made(&self) -> Option<Arc<dyn Content>> {
        let made = self.made.try_lock().ok()?.clone()?;
        Some(made)
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        Ok(self.rewritten()?)
    }
}
