//! The thin views: the whole input as installed for some GPUs, for use with any HIP runtime.
//!
//! A thin view shows the host part with the databases of its GPUs laid over it, and other bodies for files with device
//! code. So it adds nothing to the tree except what was requested.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::error::ViewError;
use super::hiding::hide;
use super::modes::HiddenModes;
use super::report::fixed;
use super::thin_wheels::{ThinWheelOfView, ThinWheels};
use crate::gpu::{BundleKey, GpuSet, Level, TARGETS, TargetId};
use crate::source::{Attributes, EntryPath};
use crate::split::{Destination, FatBinaries, Plan, THIN, THIN_WHEELS, Targets};
use crate::tree::{Bodies, Body, Finder, Hidden, Node, NodeId, NodeKind, OriginKind, ROOT, Tree, TreeError, View};
use crate::wheel::PART_MANIFEST;

/// The most listed views, since a crafted input may name thousands of targets. Others can be looked up by name.
const MAX_LISTED: usize = 256;

/// What all thin views share.
#[derive(derive_more::Debug)]
#[debug("ThinLayout({:?})", served.code)]
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

/// The GPUs for which the input has code or databases.
pub(super) struct ServedGpus {
    /// The targets for which the input has code.
    code: Vec<TargetId>,
    /// The parts that have databases.
    databases: BTreeSet<BundleKey>,
    /// The targets of databases for some modes only.
    modes: BTreeSet<TargetId>,
    targets: Targets,
    /// The sets of GPUs with a listed view: those that the input has something for, and those that can run its generic
    /// code.
    pub(super) listed: Vec<GpuSet>,
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

/// Whether there is a thin view for a GPU: the plan has code or databases for it.
pub fn serves(plan: &Plan, gpu: &TargetId) -> bool {
    GpuSet::new([gpu.clone()]).is_some_and(|gpus| ServedGpus::new(plan).serves(&gpus))
}

/// The GPUs with a listed thin view: those that a plan has code or databases for.
pub fn gpus_of(plan: &Plan) -> Vec<GpuSet> {
    ServedGpus::new(plan).listed
}

impl ThinLayout {
    /// `first` is the number of nodes that the tree had before those of the input.
    pub(super) fn new(
        tree: &Tree,
        first: usize,
        served: ServedGpus,
        layers: Layers,
        plan: &Plan,
        (binaries, wheels): (Arc<FatBinaries>, Option<Arc<ThinWheels>>),
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

impl ServedGpus {
    pub(super) fn new(plan: &Plan) -> Self {
        let code = plan.binaries.iter().flat_map(|binary| &binary.wrappers).flatten();
        let of_files = plan.bundle_files.iter().flat_map(|file| &file.targets);
        let code: BTreeSet<&TargetId> = code.map(|(target, _)| target).chain(of_files).collect();
        let code = code.into_iter().cloned().collect();
        let (targets, listed) = (plan.targets.clone(), Vec::new());
        let modes = plan.modes.values().filter(|target| targets.contains(&BundleKey::of(target))).cloned().collect();
        let served = Self { code, databases: databases(plan), modes, targets, listed };
        Self { listed: served.listed(), ..served }
    }

    fn listed(&self) -> Vec<GpuSet> {
        let native = self.code.iter().filter(|code| BundleKey::of(code).level() == Level::Target && !code.is_generic());
        let native = native.map(TargetId::without_features).filter(|code| code.to_string().starts_with("gfx"));
        let generic = TARGETS.iter().filter_map(|target| target.name.parse::<TargetId>().ok());
        let generic = generic.filter(|gpu| self.code.iter().any(|code| code.is_generic() && is_given(gpu, code)));
        let of_databases = self.databases.iter().cloned().chain(self.modes.iter().map(BundleKey::of));
        let of_databases = of_databases.filter(|key| key.level() == Level::Target);
        let of_databases = of_databases.filter_map(|key| key.as_str().parse().ok());
        // GPUs that share a package share a view: gfx1250-strict is a revision of gfx1250.
        let gpus =
            native.chain(generic).chain(of_databases).filter(|gpu| BundleKey::of(gpu).as_str() == gpu.processor());
        let gpus: BTreeSet<TargetId> = gpus.collect();
        // There may be code that no GPU runs.
        let sets = gpus.into_iter().filter_map(|gpu| GpuSet::new([gpu])).filter(|gpus| self.serves(gpus));
        sets.take(MAX_LISTED).collect()
    }

    /// Whether the input has code or databases for each of the GPUs. `false` for families.
    pub(super) fn serves(&self, gpus: &GpuSet) -> bool {
        let chain = |gpu: &TargetId| BundleKey::of(gpu).packaging_chain();
        let has_code = |gpu: &TargetId| self.code.iter().any(|code| is_given(gpu, code));
        let has_modes = |gpu: &TargetId| {
            GpuSet::new([gpu.clone()]).is_some_and(|gpu| self.modes.iter().any(|target| gpu.has_modes_of(target)))
        };
        let has_databases = |gpu: &TargetId| {
            !gpu.is_generic() && (chain(gpu).iter().any(|key| self.databases.contains(key)) || has_modes(gpu))
        };
        let is_family = |gpu: &TargetId| !gpu.is_generic() && BundleKey::of(gpu).level() != Level::Target;
        let is_wanted = |gpu: &TargetId| self.targets.contains(&BundleKey::of(gpu));
        gpus.targets().iter().all(|gpu| !is_family(gpu) && is_wanted(gpu) && (has_code(gpu) || has_databases(gpu)))
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
            return wheels.as_ref().and_then(|wheels| wheels.metadata(&self.gpus));
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
    fn served(&self, thin: &ThinLayout, listed: &[GpuSet]) -> Result<Self, ViewError> {
        let missing = |wanted: &GpuSet| {
            let existing = listed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            ViewError::NoSuchThin { wanted: wanted.to_string(), existing }
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
) -> Result<Vec<ThinWheelOfView>, ViewError> {
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
    show_views(tree, &place(THIN), root, ThinFinder::Trees(Arc::clone(thin)), &listed, auto.as_ref())?;
    if thin.layers.wheel.is_some() {
        show_views(tree, &place(THIN_WHEELS), root, ThinFinder::Wheels(Arc::clone(thin)), &listed, auto.as_ref())?;
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
        tree.show(&directory.child(name.as_bytes()), finding.view(gpus.clone()))?;
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
enum ThinFinder {
    Trees(Arc<ThinLayout>),
    Wheels(Arc<ThinLayout>),
}

impl ThinFinder {
    fn view(&self, gpus: GpuSet) -> View {
        match self {
            Self::Trees(thin) => thin.view(gpus),
            Self::Wheels(thin) => thin.view_of_wheel(gpus),
        }
    }
}

impl Finder for ThinFinder {
    fn find(&self, name: &[u8]) -> Option<View> {
        let (Self::Trees(thin) | Self::Wheels(thin)) = self;
        Some(self.view(thin.parse(name)?))
    }
}

/// The parts that have databases for all modes of a GPU, or what device wheels hold.
fn databases(plan: &Plan) -> BTreeSet<BundleKey> {
    let mut files = BTreeMap::<_, usize>::new();
    for place in &plan.places {
        if let Destination::Device(key, _) = place {
            *files.entry(key.clone()).or_default() += 1;
        }
    }
    let held: BTreeSet<_> = plan.held.values().flatten().map(|entry| &entry.path).collect();
    for (_, target) in plan.modes.iter().filter(|(path, _)| !held.contains(path)) {
        files.entry(plan.packaging.key_of(target)).and_modify(|count| *count = count.saturating_sub(1));
    }
    let of_files = files.into_iter().filter(|(_, count)| *count > 0).map(|(key, _)| key);
    of_files.chain(plan.held.keys().cloned()).collect()
}

/// Whether a GPU can run this code.
fn is_given(gpu: &TargetId, code: &TargetId) -> bool {
    GpuSet::new([gpu.clone()]).is_some_and(|gpus| gpus.keeps(&[code]) == [true])
}

/// The nodes of the layers that thin views omit.
fn hidden(tree: &Tree, layers: &Layers) -> BTreeSet<NodeId> {
    let mut hidden = BTreeSet::new();
    let is_archive = |node: NodeId| tree.node(node).is_some_and(|node| node.origin.kind() == OriginKind::Archive);
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
