//! The thin views: the whole input as installed for some GPUs, for use with any HIP runtime.
//!
//! A thin view shows the host part with the databases of its GPUs laid over it, and other bodies for files with device
//! code. So it adds nothing to the tree except what was requested.
//! It leaves out databases for other modes of a GPU, such as `Kernels.so-000-gfx90a-xnack+.hsaco` of rocBLAS.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use anyhow::anyhow;

use super::hiding::hide;
use super::report::fixed;
use super::served::ServedGpus;
use super::thin_wheels::{ThinWheelOfView, ThinWheels};
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::source::{Attributes, EntryPath};
use crate::split::{FatBinaries, Plan, THIN, THIN_WHEELS};
use crate::tree::{Bodies, Body, Finder, Hidden, Node, NodeId, NodeKind, OriginKind, ROOT, Tree, TreeError, View};
use crate::wheel::PART_MANIFEST;

/// What all thin views share.
#[derive(derive_more::Debug)]
#[debug("ThinLayout({:?})", served.listed)]
pub(super) struct ThinLayout {
    /// The layers of a whole tree.
    layers: Layers,
    /// What no thin view shows: archives, their directories, and the dist-info of wheels that need archives.
    hidden: Arc<Hidden>,
    /// What thin views for GPUs in other modes do not show.
    modes: HiddenModes,
    /// Paths in the input of files with a thin form, by their nodes in the layers.
    paths: HashMap<NodeId, EntryPath>,
    binaries: Arc<FatBinaries>,
    served: ServedGpus,
    wheels: Option<Arc<ThinWheels>>,
}

/// The layers of a whole tree as installed.
pub(super) struct Layers {
    /// The dist-info of thin wheels.
    pub(super) dist_info: Option<DistInfo>,
    /// A directory of a thin wheel: the layer, and the wheel in it.
    pub(super) wheel: Option<(NodeId, NodeId)>,
    pub(super) host: NodeId,
    pub(super) devices: BTreeMap<BundleKey, NodeId>,
}

/// The dist-info of thin wheels. These files differ for each set of GPUs.
#[derive(Clone, Copy)]
pub(super) struct DistInfo {
    pub(super) layer: NodeId,
    pub(super) metadata: Option<NodeId>,
    pub(super) record: NodeId,
    pub(super) statement: NodeId,
}

impl ThinLayout {
    /// `first` is the number of nodes that the tree had before those of the input.
    pub(super) fn new(
        tree: &Tree,
        first: usize,
        served: ServedGpus,
        layers: Layers,
        plan: &Plan,
        binaries: Arc<FatBinaries>,
        wheels: Option<Arc<ThinWheels>>,
    ) -> Arc<Self> {
        let hidden = hidden(tree, &layers);
        Arc::new(Self {
            modes: HiddenModes::of(tree, &layers.devices, &plan.modes, &hidden),
            hidden: Arc::new(tree.hidden(hidden)),
            paths: cut_down(tree, first, &binaries),
            binaries,
            served,
            layers,
            wheels,
        })
    }

    /// The whole tree for these GPUs.
    pub(super) fn view(self: &Arc<Self>, gpus: GpuSet) -> View {
        let mut layers: Vec<_> = self.layers.dist_info.iter().map(|dist_info| dist_info.layer).collect();
        layers.push(self.layers.host);
        layers.extend(gpus.keys().iter().filter_map(|key| self.layers.devices.get(key)));
        let hidden = self.modes.and(&self.hidden, &gpus);
        let bodies = ThinBodies { thin: Arc::clone(self), gpus: Arc::new(gpus) };
        View { layers, hidden, bodies: Some(Arc::new(bodies)) }
    }

    /// The directory of the wheel for these GPUs.
    fn view_of_wheel(self: &Arc<Self>, gpus: GpuSet) -> View {
        let bodies = ThinBodies { thin: Arc::clone(self), gpus: Arc::new(gpus) };
        let layers = self.layers.wheel.iter().map(|(layer, _)| *layer).collect();
        View { layers, hidden: Arc::default(), bodies: Some(Arc::new(bodies)) }
    }

    /// Parses a name as a set of GPUs, in any order and without duplicates.
    pub(super) fn parse(&self, name: &[u8]) -> Option<GpuSet> {
        let name = std::str::from_utf8(name).ok()?;
        let gpus: GpuSet = name.parse().ok()?;
        (gpus.to_string().len() == name.len() && self.served.serves(&gpus)).then_some(gpus)
    }
}

/// The bodies that a thin view replaces.
#[derive(Debug)]
struct ThinBodies {
    thin: Arc<ThinLayout>,
    gpus: Arc<GpuSet>,
}

impl Bodies for ThinBodies {
    fn body(&self, file: NodeId) -> Option<Body> {
        let ThinLayout { layers, wheels, .. } = &*self.thin;
        if layers.dist_info.is_some_and(|dist_info| dist_info.record == file) {
            return wheels.as_ref().map(|wheels| wheels.record(&self.gpus));
        }
        if layers.dist_info.is_some_and(|dist_info| dist_info.statement == file) {
            return wheels.as_ref().map(|wheels| fixed(wheels.statement(&self.gpus)));
        }
        if layers.dist_info.is_some_and(|dist_info| dist_info.metadata == Some(file)) {
            return wheels.as_ref()?.metadata(&self.gpus).ok().flatten().map(Body::Ready);
        }
        if layers.wheel.is_some_and(|(_, wheel)| wheel == file) {
            return wheels.as_ref().map(|wheels| wheels.wheel(&self.gpus));
        }
        let binary = self.thin.binaries.thin(&self.gpus, self.thin.paths.get(&file)?)?;
        Some(Body::Made(binary))
    }
}

/// Thin views that are listed in addition to that of each GPU.
#[derive(Clone, Debug, Default)]
pub struct ThinViews {
    /// Sets of GPUs.
    pub sets: Vec<GpuSet>,
    /// The GPUs of this machine for which the input has something. A link `auto` leads to their view.
    pub auto: Option<GpuSet>,
}

/// The name of the link to the view for the GPUs of this machine.
const AUTO: &[u8] = b"auto";

impl ThinViews {
    /// The views for which the input has something. Fails if it has nothing for a set.
    fn served(&self, thin: &ThinLayout, listed: &[GpuSet]) -> anyhow::Result<Self> {
        let missing = |wanted: &GpuSet| {
            let existing = listed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            anyhow!("--thin {wanted}: the input has nothing for it; there are thin views for {existing}")
        };
        if let Some(wanted) = self.sets.iter().find(|gpus| !thin.served.serves(gpus)) {
            return Err(missing(wanted));
        }
        let has_something =
            |gpu: &&TargetId| GpuSet::new([(*gpu).clone()]).is_some_and(|gpus| thin.served.serves(&gpus));
        let of_machine = |found: &GpuSet| {
            let served = GpuSet::new(found.targets().iter().filter(has_something).cloned());
            served.ok_or_else(|| missing(found))
        };
        Ok(Self { sets: self.sets.clone(), auto: self.auto.as_ref().map(of_machine).transpose()? })
    }
}

/// Adds `thin/`, and `thin-wheels/` for a wheel. Both have a view for each set of GPUs. Returns the wheels.
pub(super) fn show_thin(
    tree: &mut Tree,
    base: &EntryPath,
    thin: &Arc<ThinLayout>,
    root: Attributes,
    views: &ThinViews,
) -> anyhow::Result<Vec<ThinWheelOfView>> {
    let mut listed = thin.served.listed.clone();
    let ThinViews { sets, auto } = views.served(thin, &listed)?;
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    for gpus in sets.iter().chain(&auto) {
        if !listed.contains(gpus) {
            listed.push(gpus.clone());
        }
    }
    let place = |name: &str| base.child(name.as_bytes());
    let finder = |view| ThinFinder { thin: Arc::clone(thin), view };
    show_views(tree, &place(THIN), root, finder(ThinLayout::view), &listed, auto.as_ref())?;
    if thin.layers.wheel.is_some() {
        show_views(tree, &place(THIN_WHEELS), root, finder(ThinLayout::view_of_wheel), &listed, auto.as_ref())?;
    }
    let wheels = thin.wheels.iter().flat_map(|wheels| listed.iter().map(|gpus| wheels.of_view(gpus)));
    Ok(wheels.collect())
}

fn show_views(
    tree: &mut Tree,
    directory: &EntryPath,
    root: Attributes,
    finding: ThinFinder,
    listed: &[GpuSet],
    auto: Option<&GpuSet>,
) -> Result<(), TreeError> {
    let place = tree.insert(ROOT, directory, root, NodeKind::directory())?;
    for gpus in listed {
        let name = gpus.to_string();
        tree.show(&directory.child(name.as_bytes()), (finding.view)(&finding.thin, gpus.clone()))?;
    }
    if let Some(gpus) = auto {
        let target = gpus.to_string().into_bytes().into();
        tree.insert(ROOT, &directory.child(AUTO), root, NodeKind::Symlink(target))?;
    }
    tree.find_with(place, Arc::new(finding));
    Ok(())
}

/// Views for sets of GPUs.
#[derive(Debug)]
struct ThinFinder {
    thin: Arc<ThinLayout>,
    view: fn(&Arc<ThinLayout>, GpuSet) -> View,
}

impl Finder for ThinFinder {
    fn find(&self, name: &[u8]) -> Option<View> {
        Some((self.view)(&self.thin, self.thin.parse(name)?))
    }
}

/// The nodes of the layers that thin views omit.
fn hidden(tree: &Tree, layers: &Layers) -> BTreeSet<NodeId> {
    let mut hidden = BTreeSet::new();
    let is_archive = |node: NodeId| tree.node(node).is_some_and(|node| node.origin.kind == OriginKind::Archive);
    for &layer in layers.devices.values() {
        hide(tree, layer, &is_archive, &mut hidden);
    }
    if layers.dist_info.is_none() {
        return hidden;
    }
    // The manifest of the host part.
    let is_dist_info = |name: &[u8]| name.ends_with(b".dist-info");
    let of_host = tree.children(layers.host).into_iter().flatten().filter(|child| is_dist_info(child.name));
    let files_of_host = of_host.flat_map(|child| tree.children(child.node).into_iter().flatten());
    hidden.extend(files_of_host.filter(|child| child.name == PART_MANIFEST.as_bytes()).map(|child| child.node));
    // The dist-info of the device wheels.
    for &layer in layers.devices.values() {
        let children = tree.children(layer).into_iter().flatten();
        hidden.extend(children.filter(|child| is_dist_info(child.name)).map(|child| child.node));
    }
    hidden
}

/// The paths in the input of files with a thin form, by their nodes.
fn cut_down(tree: &Tree, first: usize, binaries: &FatBinaries) -> HashMap<NodeId, EntryPath> {
    let of_node = |(id, node): (NodeId, &Node)| {
        let entry = node.origin.entry().filter(|path| binaries.has(path))?;
        Some((id, entry.clone()))
    };
    (ROOT..).zip(tree.stored()).skip(first).filter_map(of_node).collect()
}

/// What views hide, in addition to what they hide anyway, if none of their GPUs can be in the modes of a target.
#[derive(Debug, Default)]
struct HiddenModes(BTreeMap<TargetId, Hidden>);

impl HiddenModes {
    /// For the databases in the layers of their parts that `modes` has, by their paths in the input. A file that a device
    /// wheel holds for another GPU is in the layer of that wheel, and stays. Thin views hide `always` anyway.
    fn of(
        tree: &Tree,
        layers: &BTreeMap<BundleKey, NodeId>,
        modes: &BTreeMap<EntryPath, TargetId>,
        always: &BTreeSet<NodeId>,
    ) -> Self {
        let hidden = |target: &TargetId| {
            let is_gone = |node: NodeId| {
                let path = || tree.node(node)?.origin.entry();
                always.contains(&node) || path().and_then(|path| modes.get(path)) == Some(target)
            };
            let mut nodes = BTreeSet::new();
            if let Some(&layer) = layers.get(&BundleKey::of(target)) {
                hide(tree, layer, &is_gone, &mut nodes);
            }
            tree.hidden(nodes.difference(always).copied().collect())
        };
        let targets: BTreeSet<_> = modes.values().collect();
        Self(targets.into_iter().map(|target| (target.clone(), hidden(target))).collect())
    }

    /// What a view for these GPUs hides.
    fn and(&self, always: &Arc<Hidden>, gpus: &GpuSet) -> Arc<Hidden> {
        let others = self.0.iter().filter(|(target, _)| gpus.lacks_modes_of(target));
        others.fold(Arc::clone(always), |hidden, (_, other)| Arc::new(hidden.and(other)))
    }
}
