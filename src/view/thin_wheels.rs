//! Thin wheels: one self-contained wheel for each set of GPUs. In their installed form, files of data directories are
//! at their installed paths, and RECORDs list these.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use lru::LruCache;
use parking_lot::Mutex;

use super::items::{Item, add_directories};
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::rope::{Content, Materialize, ReadError, SizeBounds};
use crate::source::EntryPath;
use crate::split::{FatBinaries, Statement, THIN};
use crate::tree::{Body, NodeKind};
use crate::wheel::WheelError;
use crate::wheelparts::{RecordFile, SplitWheel, WheelBody, WheelPart, WheelSet};

/// The file in `*.dist-info` that states name, version and requirements.
pub(super) const METADATA: &[u8] = b"METADATA";

/// The most wheels whose lists of files are kept. Such a list is as long as that of the input.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// A thin wheel that a view lists.
#[derive(Clone, Debug)]
pub struct ThinWheelOfView {
    wheels: Arc<ThinWheels>,
    pub(super) gpus: Arc<GpuSet>,
}

impl ThinWheelOfView {
    /// The file name.
    pub fn file_name(&self) -> Result<String, WheelError> {
        self.wheels.host.file_name()
    }

    /// Its METADATA.
    pub fn metadata(&self) -> Result<Option<Arc<dyn Content>>, WheelError> {
        self.wheels.metadata(&self.gpus)
    }

    /// The `.whl` file.
    pub fn body(&self) -> Body {
        self.wheels.wheel(&self.gpus)
    }
}

/// The thin wheels of an input.
#[derive(Debug)]
pub(super) struct ThinWheels {
    /// The host wheel, which has the version and the file name of thin ones in a mount.
    pub(super) host: Arc<WheelPart>,
    devices: BTreeMap<BundleKey, Arc<WheelPart>>,
    binaries: Arc<FatBinaries>,
    /// See [`Plan::modes`](crate::split::Plan::modes).
    modes: BTreeMap<EntryPath, TargetId>,
    /// The restrictions of the split.
    restrictions: Statement,
    /// Whether versions name the GPUs.
    has_local_version: bool,
    /// Whether files of an installation are at other paths than in the wheel, because it has a data directory.
    is_moved: bool,
    /// The most recently used ones.
    made: Mutex<LruCache<Arc<GpuSet>, Arc<ThinWheel>>>,
}

/// A thin wheel. Its files are listed on demand.
#[derive(Debug)]
struct ThinWheel {
    wheels: Arc<ThinWheels>,
    gpus: Arc<GpuSet>,
    part: OnceLock<Arc<WheelPart>>,
}

impl ThinWheels {
    /// The thin wheels of a wheel.
    pub(super) fn new(
        set: &WheelSet,
        binaries: &Arc<FatBinaries>,
        modes: &BTreeMap<EntryPath, TargetId>,
        is_moved: bool,
    ) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            host: Arc::clone(set.hosts.first()?),
            devices: set.devices.clone(),
            binaries: Arc::clone(binaries),
            modes: modes.clone(),
            restrictions: set.statement.clone(),
            has_local_version: set.has_local_versions,
            is_moved,
            made: Mutex::new(LruCache::new(MAX_CACHED)),
        }))
    }

    /// The METADATA of the wheel for these GPUs.
    pub(super) fn metadata(&self, gpus: &GpuSet) -> Result<Option<Arc<dyn Content>>, WheelError> {
        let files = self.host.thin_dist_info(Some(gpus))?;
        let metadata = files.into_iter().find(|file| file.path.name() == METADATA);
        Ok(metadata.map(|file| Arc::clone(&file.digest.content)))
    }

    /// The wheel for these GPUs, for a list.
    pub(super) fn of_view(self: &Arc<Self>, gpus: &GpuSet) -> ThinWheelOfView {
        ThinWheelOfView { wheels: Arc::clone(self), gpus: Arc::new(gpus.clone()) }
    }

    /// The statement of the wheel for these GPUs.
    pub(super) fn statement(&self, gpus: &GpuSet) -> String {
        self.restrictions.clone().with_views(&[format!("{THIN}/{gpus}")]).to_json()
    }

    /// The `.whl` file.
    pub(super) fn wheel(self: &Arc<Self>, gpus: &Arc<GpuSet>) -> Body {
        Body::Made(Arc::new(ListedFile { wheel: self.of(gpus), kind: ThinWheelKind::Wheel, made: OnceLock::new() }))
    }

    /// The RECORD of an installation.
    pub(super) fn record(self: &Arc<Self>, gpus: &Arc<GpuSet>) -> Body {
        let kind = if self.is_moved { ThinWheelKind::InstalledRecord } else { ThinWheelKind::Record };
        Body::Made(Arc::new(ListedFile { wheel: self.of(gpus), kind, made: OnceLock::new() }))
    }

    fn of(self: &Arc<Self>, gpus: &Arc<GpuSet>) -> Arc<ThinWheel> {
        let mut made = self.made.lock();
        let new = || ThinWheel { wheels: Arc::clone(self), gpus: Arc::clone(gpus), part: OnceLock::new() };
        Arc::clone(made.get_or_insert(Arc::clone(gpus), || Arc::new(new())))
    }
}

impl ThinWheel {
    fn part(&self) -> Result<Arc<WheelPart>, WheelError> {
        if let Some(part) = self.part.get() {
            return Ok(Arc::clone(part));
        }
        let Self { wheels, gpus, .. } = self;
        let part = SplitWheel::Thin { gpus: GpuSet::clone(gpus), has_local_version: wheels.has_local_version };
        let keys = gpus.keys();
        let devices: Vec<_> = keys.iter().filter_map(|key| wheels.devices.get(key)).map(|part| &**part).collect();
        let is_shown = |path: &EntryPath| !wheels.modes.get(path).is_some_and(|target| gpus.lacks_modes_of(target));
        let binary = |path: &EntryPath| wheels.binaries.thin(gpus, path);
        let part = WheelPart::thin(part, &wheels.host, &devices, wheels.statement(gpus), &is_shown, &binary)?;
        Ok(Arc::clone(self.part.get_or_init(|| part)))
    }
}

/// A file that depends on the list of all files of a wheel.
#[derive(Debug)]
struct ListedFile {
    wheel: Arc<ThinWheel>,
    kind: ThinWheelKind,
    made: OnceLock<Box<dyn Materialize>>,
}

#[derive(Clone, Copy, Debug)]
enum ThinWheelKind {
    Wheel,
    Record,
    InstalledRecord,
}

impl ListedFile {
    fn file(&self) -> Result<&dyn Materialize, ReadError> {
        if let Some(file) = self.made.get() {
            return Ok(&**file);
        }
        let part = self.wheel.part().map_err(|error| ReadError::caused_by(&"thin wheel".into(), &error))?;
        let file: Box<dyn Materialize> = match self.kind {
            ThinWheelKind::Wheel => Box::new(WheelBody(part)),
            ThinWheelKind::Record => Box::new(RecordFile(part)),
            ThinWheelKind::InstalledRecord => Box::new(InstalledRecord::new(&part)),
        };
        Ok(&**self.made.get_or_init(|| file))
    }
}

impl Materialize for ListedFile {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.made.get()?.made()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.file()?.make()
    }

    fn bounds(&self) -> SizeBounds {
        self.file().map_or(SizeBounds::UNKNOWN, Materialize::bounds)
    }

    fn work(&self) -> u64 {
        self.file().map_or(0, Materialize::work)
    }

    fn files(&self) -> Vec<(String, SizeBounds)> {
        self.file().map_or_else(|_| Vec::new(), Materialize::files)
    }
}

/// The parts as they are installed.
pub(super) struct Installed {
    pub(super) host: Vec<Item>,
    pub(super) devices: BTreeMap<BundleKey, Vec<Item>>,
}

impl Installed {
    /// `None` if the parts have no data directory, so that they are installed as they are.
    pub(super) fn new(
        host: &[Item],
        devices: &BTreeMap<&BundleKey, Vec<Item>>,
        wheels: &WheelSet,
    ) -> anyhow::Result<Option<Self>> {
        let has_data = host.iter().chain(devices.values().flatten()).any(is_in_data);
        let Some(part) = wheels.hosts.first().filter(|_| has_data) else { return Ok(None) };
        let mut installed = Self { host: moved(host, part)?, devices: BTreeMap::new() };
        for (key, items) in devices {
            let part = wheels.devices.get(*key);
            let items = part.map_or_else(|| Ok(items.clone()), |part| moved(items, part))?;
            installed.devices.insert((*key).clone(), items);
        }
        Ok(Some(installed))
    }
}

/// Whether an item is in the data directory of a wheel.
fn is_in_data(item: &Item) -> bool {
    item.path.components().next().is_some_and(|first| first.ends_with(b".data"))
}

/// The items of a part at their installed paths.
fn moved(items: &[Item], part: &Arc<WheelPart>) -> anyhow::Result<Vec<Item>> {
    let own_record = part.record_path()?;
    let mut files = BTreeMap::new();
    let mut directories = BTreeMap::new();
    for item in items {
        let mut item = Item { path: part.installed(&item.path), ..item.clone() };
        match &item.kind {
            NodeKind::Directory(_) => {
                directories.entry(item.path.clone()).or_insert(item);
                continue;
            }
            NodeKind::File { .. } if item.path == own_record => item.kind = NodeKind::file(record(part)?),
            NodeKind::File { .. } | NodeKind::Symlink(_) => {}
        }
        // Planning has checked that two files with one installed path are equal.
        files.entry(item.path.clone()).or_insert(item);
    }
    let mut moved: Vec<_> = files.into_values().collect();
    add_directories(&mut moved, |path| directories.get(path).map(|item| item.attributes));
    // Empty directories of the input stay. Directories of a data directory that become empty are not installed.
    let used: BTreeSet<_> = moved.iter().map(|item| item.path.clone()).collect();
    let is_empty = |item: &Item| !item.path.is_root() && !used.contains(&item.path) && !is_in_data(item);
    moved.extend(directories.into_values().filter(is_empty));
    moved.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(moved)
}

/// The RECORD of an installed part.
fn record(part: &Arc<WheelPart>) -> anyhow::Result<Body> {
    let record = InstalledRecord::new(part);
    let is_made = part.archives().next().is_some();
    Ok(if is_made { Body::Made(Arc::new(record)) } else { Body::Ready(record.make()?) })
}

/// The RECORD of a part, which is made on demand.
#[derive(Debug)]
pub(super) struct InstalledRecord {
    part: Arc<WheelPart>,
    made: OnceLock<Arc<dyn Content>>,
}

impl InstalledRecord {
    pub(super) fn new(part: &Arc<WheelPart>) -> Self {
        Self { part: Arc::clone(part), made: OnceLock::new() }
    }
}

impl Materialize for InstalledRecord {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.made.get().cloned()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let record = self.part.installed_record()?;
        Ok(Arc::clone(self.made.get_or_init(|| record)))
    }
}
