//! A binary or bundle file with the code of some GPUs only. It is planned on demand.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::binary_code::{DeviceCode, Holder, find};
use crate::binary::{Replaced, Rewritten, ThinChanges};
use crate::fatbin::{Bundle, Compressed, ThinBundle};
use crate::gpu::GpuSet;
use crate::kpack::{BundleJobs, PackedBundle};
use crate::rope::{Content, Materialize, ReadError};
use crate::source::{EntryKind, EntryPath, Input};

use super::{Destination, Plan};

/// Number of thin binaries that are kept. Each takes some KB. Results of the others are in the index.
const MAX_THIN: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// A binary of the input in its thin form.
///
/// The binary keeps its wrappers. Each leads to a bundle of the same kind as before, with the code that the GPUs can
/// run. Without compressed bundles its size is known after planning, which reads headers. With compressed bundles it is
/// known when they are made.
#[derive(Debug)]
pub struct ThinBinary {
    source: Arc<ThinSource>,
    gpus: Arc<GpuSet>,
    made: OnceCell<Arc<Rewritten>>,
}

/// What all thin forms of a binary share.
#[derive(Debug)]
struct ThinSource {
    entry: Arc<str>,
    original: Arc<dyn Content>,
    holder: Holder,
    /// Its compressed bundles, shared with archives.
    bundles: Arc<[Arc<Compressed>]>,
    jobs: Arc<BundleJobs>,
    /// The GPUs of all listed views.
    listed: Arc<[Arc<GpuSet>]>,
    planned: Mutex<PlannedBundles>,
}

/// The compressed bundles of forms that were not requested yet.
#[derive(Debug, Default)]
struct PlannedBundles {
    /// The first form that was requested.
    first: Option<Arc<GpuSet>>,
    /// Set when a second form is requested: the bundles for the GPUs of all other listed views, by offset in the file.
    others: Option<HashMap<Arc<GpuSet>, BTreeMap<u64, PackedBundle>>>,
}

/// The binaries of an input that have a thin form.
#[derive(Debug)]
pub struct FatBinaries {
    list: HashMap<EntryPath, Arc<ThinSource>>,
    /// The most recently used ones.
    thin: Mutex<LruCache<ThinPath, Arc<ThinBinary>>>,
}

/// A binary for some GPUs.
type ThinPath = (Arc<GpuSet>, EntryPath);

impl FatBinaries {
    /// The binaries that a plan rewrites. Each of the `listed` GPUs has a view.
    pub fn new(input: &Input, plan: &Plan, listed: &[GpuSet]) -> Self {
        let listed: Arc<[_]> = listed.iter().cloned().map(Arc::new).collect();
        let fat = input.entries.iter().zip(&plan.places).filter_map(|(entry, place)| match place {
            Destination::Rewritten { content, bundles, .. } => {
                let source = ThinSource::new(&entry.path.to_text(), &content.original, bundles, &plan.jobs);
                Some((entry.path.clone(), source))
            }
            Destination::Host | Destination::Held | Destination::Device(..) | Destination::Unwanted(..) => None,
        });
        let files = plan.bundle_files.iter().filter_map(|file| match &input.entry(&file.path)?.kind {
            EntryKind::File { content, .. } => {
                let source = ThinSource::new(&file.path.to_text(), content, &Arc::default(), &plan.jobs);
                Some((file.path.clone(), ThinSource { holder: Holder::BundleFile, ..source }))
            }
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        });
        let listed = |source| Arc::new(ThinSource { listed: Arc::clone(&listed), ..source });
        let list = fat.chain(files).map(|(path, source)| (path, listed(source))).collect();
        Self { list, thin: Mutex::new(LruCache::new(MAX_THIN)) }
    }

    /// Whether the file at a path of the input has a thin form.
    pub fn has(&self, path: &EntryPath) -> bool {
        self.list.contains_key(path)
    }

    /// The thin form of the file at a path of the input; `None` if it has none.
    pub fn thin(&self, gpus: &Arc<GpuSet>, path: &EntryPath) -> Option<Arc<ThinBinary>> {
        let source = self.list.get(path)?;
        let mut thin = self.thin.lock();
        let binary = thin.get_or_insert((Arc::clone(gpus), path.clone()), || Arc::new(ThinBinary::of(source, gpus)));
        Some(Arc::clone(binary))
    }
}

/// The reduced form of a bundle, and the compressed bundle to be made for it.
struct Thinned {
    offset: u64,
    /// Bytes that there are for it.
    slot: u64,
    bundle: ThinBundle,
    packed: Option<PackedBundle>,
}

impl ThinBinary {
    /// The binary at `entry` of the input, which names it in messages.
    pub fn new(
        entry: &str,
        original: &Arc<dyn Content>,
        gpus: &Arc<GpuSet>,
        bundles: &Arc<[Arc<Compressed>]>,
        jobs: &Arc<BundleJobs>,
    ) -> Self {
        Self::of(&Arc::new(ThinSource::new(entry, original, bundles, jobs)), gpus)
    }

    fn of(source: &Arc<ThinSource>, gpus: &Arc<GpuSet>) -> Self {
        Self { source: Arc::clone(source), gpus: Arc::clone(gpus), made: OnceCell::new() }
    }

    /// The binary. Plans it and makes its compressed bundles at the first call.
    pub fn rewritten(&self) -> Result<Arc<Rewritten>, ReadError> {
        self.made.get_or_try_init(|| self.plan().map(Arc::new)).cloned()
    }

    fn plan(&self) -> Result<Rewritten, ReadError> {
        let source = &self.source;
        let resources = source.jobs.resources();
        let (code, binary) = find(&source.original, source.holder, resources).map_err(|error| source.failed(&error))?;
        let code = code.ok_or_else(|| ReadError::Changed { entry: Arc::clone(&source.entry) })?;
        let known = ThinChanges::get(&resources.index, &source.original, &self.gpus);
        if let Some(known) = known
            && let Some(rewritten) = self.restored(&code, &known)?
        {
            return Ok(rewritten);
        }
        let scanned = binary.map_or_else(
            || source.holder.scan(&source.original).map_err(|error| source.failed(&error)),
            |it| Ok(Some(it)),
        )?;
        let binary = scanned.ok_or_else(|| ReadError::Changed { entry: Arc::clone(&source.entry) })?;
        let slots = binary.wrappers().iter().map(|wrapper| (wrapper.bundle, wrapper.limit - wrapper.bundle)).collect();
        let thinned = source.thinned(&self.gpus, &code, Some(&slots))?;
        let packed: Vec<_> = thinned.iter().filter_map(|thinned| thinned.packed.as_ref()).collect();
        PackedBundle::make_all(&packed)?;
        let replaced: Vec<_> = thinned
            .iter()
            .map(|Thinned { offset, slot, bundle, packed }| Replaced {
                offset: *offset,
                bundle: bundle.clone(),
                compressed: packed.as_ref().and_then(PackedBundle::known_size),
                slot: *slot,
            })
            .collect();
        let changes = ThinChanges::make(&resources.index, &source.original, &binary, &self.gpus, &replaced);
        self.rewrite(&changes.map_err(|error| source.failed(&error))?, &thinned)
    }

    /// The binary after changes from the index. `None` if its compressed bundles are known to have other lengths.
    fn restored(&self, code: &DeviceCode, changes: &ThinChanges) -> Result<Option<Rewritten>, ReadError> {
        let lengths: BTreeMap<usize, u64> = changes.compressed().collect();
        // A stored record may be wrong; then everything is planned again.
        if lengths.is_empty() {
            return Ok(self.rewrite(changes, &[]).ok());
        }
        let thinned = self.source.thinned(&self.gpus, code, None)?;
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
        Rewritten::thin(&self.source.original, changes, &packed).map_err(|error| self.source.failed(&error))
    }
}

impl ThinSource {
    fn new(entry: &str, original: &Arc<dyn Content>, bundles: &Arc<[Arc<Compressed>]>, jobs: &Arc<BundleJobs>) -> Self {
        Self {
            entry: entry.into(),
            original: Arc::clone(original),
            holder: Holder::Binary,
            bundles: Arc::clone(bundles),
            jobs: Arc::clone(jobs),
            listed: Arc::default(),
            planned: Mutex::default(),
        }
    }

    /// The reduced form of each bundle for these GPUs, in the order of offsets. `slots` has the available bytes for
    /// each; it is `None` if an earlier session found that all of them fit.
    fn thinned(
        &self,
        gpus: &Arc<GpuSet>,
        code: &DeviceCode,
        slots: Option<&BTreeMap<u64, u64>>,
    ) -> Result<Vec<Thinned>, ReadError> {
        let mut bundles: Vec<_> = code.bundles.iter().collect();
        bundles.sort_by_key(|bundle| bundle.offset());
        let mut planned = self.planned(gpus, &bundles);
        let thin = |bundle: &Bundle| {
            let (offset, packed) = (bundle.offset(), planned.remove(&bundle.offset()));
            let no_wrapper =
                || ReadError::damaged(&self.entry, format!("no wrapper leads to the bundle at {offset:#x}"));
            let slot = slots.map_or(Ok(u64::MAX), |slots| slots.get(&offset).copied().ok_or_else(no_wrapper))?;
            let thin = bundle.thin(gpus, slot).map_err(|error| self.failed(&error))?;
            let packed = match packed {
                Some(packed) => Some(packed),
                None => self.pack(bundle, &thin, gpus)?,
            };
            Ok(Thinned { offset, slot, bundle: thin, packed })
        };
        bundles.into_iter().map(thin).collect()
    }

    /// The compressed bundles of a form, if they are planned. When a second form is requested, the forms of all listed
    /// views are planned. The jobs then make them while a bundle is decompressed anyway, so that reading all views does
    /// not decompress it for each.
    fn planned(&self, gpus: &Arc<GpuSet>, bundles: &[&Bundle]) -> BTreeMap<u64, PackedBundle> {
        let mut planned = self.planned.lock();
        let PlannedBundles { first, others } = &mut *planned;
        let first = first.get_or_insert_with(|| Arc::clone(gpus));
        if first == gpus {
            return BTreeMap::new();
        }
        let plan = |gpus: &Arc<GpuSet>| (Arc::clone(gpus), self.plan_bundles(gpus, bundles));
        let all = || self.listed.iter().filter(|gpus| *gpus != first).map(plan).collect();
        others.get_or_insert_with(all).remove(gpus).unwrap_or_default()
    }

    /// The compressed bundles of a form. A bundle that cannot be reduced is an error of that form when it is read.
    fn plan_bundles(&self, gpus: &Arc<GpuSet>, bundles: &[&Bundle]) -> BTreeMap<u64, PackedBundle> {
        let compressed = bundles.iter().filter(|bundle| bundle.packed_start().is_some());
        let planned = compressed.filter_map(|bundle| {
            let packed = self.pack(bundle, &bundle.thin(gpus, u64::MAX).ok()?, gpus).ok()??;
            packed.make_with_others();
            Some((bundle.offset(), packed))
        });
        planned.collect()
    }

    /// The compressed bundle to be made, if any.
    fn pack(&self, fat: &Bundle, thin: &ThinBundle, gpus: &GpuSet) -> Result<Option<PackedBundle>, ReadError> {
        let ThinBundle::Compressed { parts, format, .. } = thin else { return Ok(None) };
        let compressed = self.compressed(fat)?;
        PackedBundle::new(&compressed, parts.clone(), *format, gpus.first(), &self.jobs).map(Some)
    }

    fn compressed(&self, bundle: &Bundle) -> Result<Arc<Compressed>, ReadError> {
        let known = self.bundles.iter().find(|known| Some(known.start()) == bundle.packed_start()).cloned();
        let read = || {
            let compressed = bundle.packed(&self.original, self.jobs.resources())?;
            compressed.set_name(&self.entry, None);
            Some(compressed)
        };
        known.or_else(read).ok_or_else(|| ReadError::Changed { entry: Arc::clone(&self.entry) })
    }

    fn failed(&self, error: &(dyn Error + 'static)) -> ReadError {
        ReadError::caused_by(&self.entry, error)
    }
}

impl Materialize for ThinBinary {
    fn made(&self) -> Option<Arc<dyn Content>> {
        Some(Arc::<Rewritten>::clone(self.made.get()?))
    }

    fn work(&self) -> u64 {
        if self.made.get().is_some() { 0 } else { self.source.original.size() }
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        Ok(self.rewritten()?)
    }
}
