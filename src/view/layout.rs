//! The views of a split: `host/`, one directory per bundle key, `device/` and `merged/<target>/`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::bail;

use super::items::{Item, add_directories, device_parts, fat_items, fill, host_part, layer};
use super::report::fixed;
use super::served::ServedGpus;
use super::thin::{DistInfo, Layers, ThinLayout, ThinViews, show_thin};
use super::thin_wheels::{Installed, METADATA, ThinWheelOfView, ThinWheels};
use crate::gpu::{BundleKey, Level, doubt};
use crate::rope::Materialize;
use crate::source::{Attributes, EntryPath, Input};
use crate::split::{DEVICE, FAT, FAT_WHEEL, FatBinaries, HOST, MERGED, Plan, WHEELS, join};
use crate::tree::{Body, NodeId, NodeKind, Origin, OriginKind, PartRecord, ROOT, Tree, TreeError, View};
use crate::wheel::{PART_MANIFEST, STATEMENT};
use crate::wheelparts::{PlannedInput, RecordFile, WheelBody, WheelPart, WheelSet};

/// The directory of the mount's reports. Not listed.
pub const REPORTS: &str = ".kpackfs";

const RECORD: &[u8] = b"RECORD";

/// The statement of a collection among them.
pub const COLLECTED: &str = "collect.json";

/// The tree of a mount, without its reports. `arch` is overlaid on `host/` itself.
pub fn lay_out(input: &Input, plan: &Plan, wheels: Option<&WheelSet>, arch: &[BundleKey]) -> anyhow::Result<Tree> {
    let (mut tree, _) = lay_out_listed(PlannedInput { input, plan, wheels }, arch, &ThinViews::default())?;
    tree.shrink();
    Ok(tree)
}

/// Like [`lay_out`], with more listed thin views. Also returns the thin wheels that are listed in the tree.
pub fn lay_out_listed(
    planned: PlannedInput<'_>,
    arch: &[BundleKey],
    thin_views: &ThinViews,
) -> anyhow::Result<(Tree, Vec<ThinWheelOfView>)> {
    let mut tree = Tree::new(Attributes { mode: 0o755, ..planned.input.root });
    show_wheels(&mut tree, planned.wheels)?;
    let thin = lay_out_at(&mut tree, &EntryPath::root(), planned, arch, thin_views)?;
    Ok((tree, thin))
}

/// Adds the views of one input at `base`, without `wheels/`. Returns the thin wheels that are listed there.
pub fn lay_out_at(
    tree: &mut Tree,
    base: &EntryPath,
    planned: PlannedInput<'_>,
    arch: &[BundleKey],
    thin_views: &ThinViews,
) -> anyhow::Result<Vec<ThinWheelOfView>> {
    let PlannedInput { input, plan, wheels } = planned;
    let root = Attributes { mode: 0o755, ..input.root };
    // Other inputs may have entries of the same names.
    let first = tree.stored().len();
    let PartItems { host, devices } = parts(input, plan, wheels)?;
    // A merged tree is shown as installed, and so is the host part if others are laid over it.
    let installed = wheels.map(|wheels| Installed::new(&host, &devices, wheels)).transpose()?.flatten();
    let is_installed = installed.is_some();
    let host_layer = layer(tree, input.root, host)?;
    let overlay = Overlay::new(tree, base, input, host_layer, devices, installed)?;
    let served = ServedGpus::new(plan);
    for target in &merged_targets(plan, &served) {
        let view = overlay.view(tree, &chain(plan, target))?;
        tree.show(&below(base, &[MERGED, target.as_str()]), view)?;
    }
    // With `arch` and without it, host is a view, so that its nodes have the same numbers.
    let host_view = if arch.is_empty() {
        View { layers: vec![host_layer], ..View::default() }
    } else {
        overlay.view(tree, &chain_of_all(plan, arch)?)?
    };
    let mut layers = Layers { dist_info: None, wheel: None, host: overlay.host, devices: overlay.devices };
    let binaries = Arc::new(FatBinaries::new(input, plan, &served.listed));
    let thin = wheels.and_then(|wheels| ThinWheels::new(wheels, &binaries, &plan.modes, is_installed));
    if let Some((thin, wheels)) = thin.as_ref().zip(wheels) {
        lay_out_thin_wheel(tree, input, thin, wheels.readers, &mut layers)?;
    }
    show_fat(tree, base, planned)?;
    let thin = ThinLayout::new(tree, first, served, layers, plan, binaries, thin);
    let listed = show_thin(tree, base, &thin, root, thin_views)?;
    tree.show(&below(base, &[HOST]), host_view)?;
    Ok(listed)
}

/// The files of the parts. Those of a wheel are that wheel unpacked.
struct PartItems<'a> {
    host: Vec<Item>,
    devices: BTreeMap<&'a BundleKey, Vec<Item>>,
}

fn parts<'a>(input: &Input, plan: &'a Plan, wheels: Option<&WheelSet>) -> anyhow::Result<PartItems<'a>> {
    let mut host = host_part(input, plan);
    let mut devices = device_parts(input, plan);
    if let Some(wheels) = wheels {
        if let Some(part) = wheels.hosts.first() {
            become_unpacked_wheel(&mut host, input, plan, wheels, part)?;
        }
        for (key, items) in &mut devices {
            if let Some(part) = wheels.devices.get(*key) {
                become_unpacked_wheel(items, input, plan, wheels, part)?;
            }
        }
    }
    for items in devices.values_mut() {
        add_directories(items, |path| input.entry(path).map(|entry| entry.attributes));
    }
    Ok(PartItems { host, devices })
}

/// The layers of an installation.
struct Overlay {
    host: NodeId,
    devices: BTreeMap<BundleKey, NodeId>,
}

impl Overlay {
    /// Adds the directories of the device parts to the tree, and, if files are installed elsewhere, layers for these.
    fn new(
        tree: &mut Tree,
        base: &EntryPath,
        input: &Input,
        host: NodeId,
        devices: BTreeMap<&BundleKey, Vec<Item>>,
        installed: Option<Installed>,
    ) -> anyhow::Result<Self> {
        let mut overlay = Self { host, devices: BTreeMap::new() };
        let root = Attributes { mode: 0o755, ..input.root };
        for (key, items) in devices {
            let place = tree.insert(ROOT, &below(base, &[key.as_str()]), input.root, NodeKind::directory())?;
            fill(tree, place, items)?;
            overlay.devices.insert(key.clone(), place);
            let target = format!("../{key}").into_bytes().into();
            tree.insert(ROOT, &below(base, &[DEVICE, key.as_str()]), root, NodeKind::Symlink(target))?;
        }
        if let Some(Installed { host, mut devices }) = installed {
            overlay.host = layer(tree, input.root, host)?;
            for (key, place) in &mut overlay.devices {
                *place = layer(tree, input.root, devices.remove(key).unwrap_or_default())?;
            }
        }
        Ok(overlay)
    }

    /// The host part with these device parts.
    fn view(&self, tree: &Tree, keys: &[BundleKey]) -> Result<View, TreeError> {
        let devices = keys.iter().filter_map(|key| self.devices.get(key).copied());
        let layers: Vec<_> = [self.host].into_iter().chain(devices).collect();
        tree.are_disjoint(&layers)?;
        Ok(View { layers, ..View::default() })
    }
}

/// Shows split input as the fat binaries that it came from.
fn show_fat(
    tree: &mut Tree,
    base: &EntryPath,
    PlannedInput { input, plan, wheels }: PlannedInput<'_>,
) -> anyhow::Result<()> {
    let fat_wheel = wheels.and_then(|wheels| wheels.fat.as_ref().zip(Some(wheels)));
    if plan.joined.is_empty() && fat_wheel.is_none() {
        return Ok(());
    }
    let mut items = fat_items(input, plan);
    if let Some((part, wheels)) = fat_wheel {
        become_unpacked_wheel(&mut items, input, plan, wheels, part)?;
    }
    let fat = layer(tree, input.root, items)?;
    tree.show(&below(base, &[FAT]), View { layers: vec![fat], ..View::default() })?;
    Ok(())
}

/// The layers of thin wheels. Views replace the files that differ between sets of GPUs.
fn lay_out_thin_wheel(
    tree: &mut Tree,
    input: &Input,
    thin: &Arc<ThinWheels>,
    readers: Attributes,
    layers: &mut Layers,
) -> anyhow::Result<()> {
    let attributes = dist_info_attributes(input);
    let empty = || NodeKind::file(fixed(String::new()));
    let dist_info = tree.layer(input.root)?;
    let mut metadata = None;
    // They are the same for all GPUs, except METADATA if requirements are split.
    for file in thin.host.thin_dist_info(None)? {
        let body = Body::Ready(Arc::clone(&file.digest.content));
        let node = tree.insert(dist_info, &file.path, attributes(&file.path), NodeKind::file(body))?;
        if file.path.name() == METADATA && thin.host.splits_requirements() {
            metadata = Some(node);
        }
    }
    let record = thin.host.record_path()?;
    let statement = record.parent().unwrap_or_else(EntryPath::root).child(STATEMENT.as_bytes());
    let record = tree.insert(dist_info, &record, attributes(&record), empty())?;
    let statement = tree.insert(dist_info, &statement, attributes(&statement), empty())?;
    layers.dist_info = Some(DistInfo { layer: dist_info, metadata, record, statement });
    let directory = tree.layer(input.root)?;
    let name = EntryPath::root().child(thin.host.file_name()?.as_bytes());
    let wheel = tree.insert(directory, &name, readers, empty())?;
    tree.set_origin(wheel, Origin::made(OriginKind::Wheel));
    layers.wheel = Some((directory, wheel));
    Ok(())
}

/// The parts of an installation for all of these targets. Chains of several targets share their upper parts.
fn chain_of_all(plan: &Plan, arch: &[BundleKey]) -> anyhow::Result<Vec<BundleKey>> {
    let mut keys = Vec::new();
    for wanted in arch {
        let chain = chain(plan, wanted);
        if chain.is_empty() {
            let (doubt, existing) = (doubt(wanted.as_str()), join(&plan.keys));
            bail!("--arch {wanted}: the input has nothing for it{doubt}; it has code for {existing}");
        }
        for key in chain {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

/// Adds the directory of a mount's reports at `base`. Those can read them who can read a file with the attributes of `readers`.
pub(crate) fn show_reports(
    tree: &mut Tree,
    base: &EntryPath,
    readers: Attributes,
    reports: Vec<(String, Body)>,
) -> Result<(), TreeError> {
    for (name, body) in reports {
        let (path, attributes) = (below(base, &[REPORTS, &name]), Attributes { mode: readers.mode & 0o444, ..readers });
        let node = tree.insert(ROOT, &path, attributes, NodeKind::file(body))?;
        tree.set_origin(node, Origin::made(OriginKind::Report));
    }
    if let Some(directory) = tree.resolve(ROOT, base) {
        tree.hide(directory, REPORTS.as_bytes());
    }
    Ok(())
}

/// The targets with a merged view: those with a part of their own, and those that other parts serve.
fn merged_targets(plan: &Plan, served: &ServedGpus) -> BTreeSet<BundleKey> {
    let own = plan.keys.iter().filter(|key| key.level() == Level::Target);
    own.chain(&served.merged).cloned().collect()
}

/// The parts of an installation for `wanted` that the input has.
fn chain(plan: &Plan, wanted: &BundleKey) -> Vec<BundleKey> {
    wanted.packaging_chain().into_iter().filter(|key| plan.keys.contains(key)).collect()
}

/// The path of these components below `base`.
pub(super) fn below(base: &EntryPath, components: &[&str]) -> EntryPath {
    components.iter().flat_map(|names| names.split('/')).fold(base.clone(), |path, name| path.child(name.as_bytes()))
}

pub(crate) fn directory(tree: &mut Tree, name: &str, attributes: Attributes) -> Result<NodeId, TreeError> {
    let path = below(&EntryPath::root(), &[name]);
    tree.insert(ROOT, &path, attributes, NodeKind::directory())
}

/// Replaces the input's dist-info with that of the part's wheel, so that the part is that wheel unpacked.
fn become_unpacked_wheel(
    items: &mut Vec<Item>,
    input: &Input,
    plan: &Plan,
    wheels: &WheelSet,
    part: &Arc<WheelPart>,
) -> anyhow::Result<()> {
    let stated = Arc::new(PartRecord(Box::new(Arc::clone(part))));
    let paths = wheels.paths(&part.part)?;
    items.retain_mut(|item| {
        if !paths.keeps(&item.path) {
            let Some(path) = paths.of(&item.path) else { return false };
            item.path = path;
        }
        if let NodeKind::File { .. } = item.kind {
            item.origin = std::mem::take(&mut item.origin).stated_by(&stated);
        }
        true
    });
    let attributes = dist_info_attributes(input);
    for file in &part.dist_info {
        let attributes = attributes(&file.path);
        let (path, body) = (file.path.clone(), Body::Ready(Arc::clone(&file.digest.content)));
        let origin = Origin::made_for(&stated, &path);
        items.push(Item { path, attributes, kind: NodeKind::file(body), origin });
    }
    let record = RecordFile(Arc::clone(part));
    // With an archive anywhere, there are files of unknown size anyway.
    let body = if plan.archives.is_empty() { Body::Ready(record.make()?) } else { Body::Made(Arc::new(record)) };
    let path = part.record_path()?;
    items.push(Item { attributes: attributes(&path), path, kind: NodeKind::file(body), origin: Origin::default() });
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// Attributes for files in dist-info directories that are made: those of the input's METADATA. A RECORD or a manifest has those of the
/// input's RECORD, since it has the names and digests of all files as well.
fn dist_info_attributes(input: &Input) -> impl Fn(&EntryPath) -> Attributes {
    let of = |name| {
        let file = input.dist_info().and_then(|dist_info| input.entry(&dist_info.child(name)));
        file.map_or_else(|| input.readers(), |entry| entry.attributes)
    };
    let (of_metadata, of_record) = (of(METADATA), of(RECORD));
    move |path| if [RECORD, PART_MANIFEST.as_bytes()].contains(&path.name()) { of_record } else { of_metadata }
}

/// Adds the directories of `.whl` files.
pub(super) fn show_wheels(tree: &mut Tree, wheels: Option<&WheelSet>) -> anyhow::Result<()> {
    let Some(wheels) = wheels else { return Ok(()) };
    let mut add = |place: &str, name: &str, body: Body, kind| -> Result<(), TreeError> {
        let path = below(&EntryPath::root(), &[place, name]);
        let node = tree.insert(ROOT, &path, wheels.readers, NodeKind::file(body))?;
        tree.set_origin(node, Origin::made(kind));
        Ok(())
    };
    let parts = wheels.hosts.iter().chain(wheels.devices.values()).map(|part| (WHEELS, part));
    for (place, part) in parts.chain(wheels.fat.iter().map(|part| (FAT_WHEEL, part))) {
        add(place, &part.file_name()?, Body::Made(Arc::new(WheelBody(Arc::clone(part)))), OriginKind::Wheel)?;
    }
    if let Some((name, text)) = &wheels.variants_index {
        add(WHEELS, name, fixed(text.clone()), OriginKind::Made)?;
    }
    Ok(())
}
