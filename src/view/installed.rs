//! The installed form of a wheel's parts: files of data directories are at their installed paths, and RECORDs list
//! these.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::error::ViewError;
use super::items::{Item, add_directories};
use crate::gpu::BundleKey;
use crate::rope::{Content, Materialize, ReadError};
use crate::tree::{Body, NodeKind};
use crate::wheelparts::{WheelPart, WheelSet};

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
    ) -> Result<Option<Self>, ViewError> {
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
fn moved(items: &[Item], part: &Arc<WheelPart>) -> Result<Vec<Item>, ViewError> {
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
fn record(part: &Arc<WheelPart>) -> Result<Body, ViewError> {
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
