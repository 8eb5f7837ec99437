//! The name of each binary in archives, and its form without device code.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::options::{Packaging, PlanOptions};
use super::plan::{Destination, Plan, PlannedBinary};
use super::roots::Roots;
use super::scan::Fat;
use super::stems::Stems;
use crate::binary::{BinaryError, FatBinary, Rewritten, marker};
use crate::fatbin::Compressed;
use crate::join;
use crate::kpack::Frame;
use crate::loader::DOT_KPACK;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath, Input};

/// A binary with its name in archives.
pub(super) struct NamedBinary {
    pub(super) fat: Fat,
    pub(super) root: EntryPath,
    pub(super) kernel_name: Arc<str>,
}

/// Archives of several targets: the overlay root in an installation, and the first part of their names.
type ArchiveSet = (EntryPath, String);

/// Binaries by their archives.
pub(super) type NamedBinaries = BTreeMap<ArchiveSet, Vec<NamedBinary>>;

/// Decides the name of each binary, and rewrites it.
pub(super) fn named(
    input: &Input,
    plan: &mut Plan,
    fat: Vec<Fat>,
    stems: &Stems<'_>,
    roots: &Roots,
    options: &PlanOptions,
    resources: &Resources,
) -> NamedBinaries {
    let (split, mut all): (Vec<_>, Vec<_>) = fat.into_iter().partition(|fat| fat.split.is_some());
    // Binaries that were split before have given names, which others may have as well.
    all.extend(split);
    let (links, counterparts, names) = (HashMap::new(), HashMap::new(), HashSet::new());
    let binaries = NamedBinaries::new();
    let mut naming = Naming { input, stems, roots, options, resources, links, counterparts, names, binaries };
    for fat in all {
        naming.add(fat, plan);
    }
    naming.binaries
}

struct Naming<'a> {
    input: &'a Input,
    stems: &'a Stems<'a>,
    roots: &'a Roots,
    options: &'a PlanOptions,
    resources: &'a Resources,
    /// By link group and directory.
    links: HashMap<(u64, EntryPath), Destination>,
    /// By path in an installation.
    counterparts: HashMap<EntryPath, Destination>,
    /// The names so far: overlay root, first part of the archives' names, name in archives.
    names: HashSet<(EntryPath, String, Arc<str>)>,
    binaries: NamedBinaries,
}

impl Naming<'_> {
    fn add(&mut self, fat: Fat, plan: &mut Plan) {
        let Some(entry) = self.input.entries.get(fat.entry) else { return };
        let EntryKind::File { content, link_group } = &entry.kind else { return };
        let path = self.roots.place(&entry.path);
        let Some(root) = self.roots.of(&path) else {
            plan.refuse(&entry.path, &"it is outside of the overlay roots");
            return;
        };
        // Hard links in one directory are one library: they find the same archives under the same name.
        let link_group = link_group.zip(entry.path.parent());
        // A wheel may contain a file twice that is installed once.
        let installed = (self.options.packaging == Packaging::Bundles).then(|| self.roots.installed(&entry.path));
        let of_link = link_group.as_ref().and_then(|group| self.links.get(group));
        let known = of_link.or_else(|| self.counterparts.get(installed.as_ref()?));
        if let Some(place) = known {
            set_place(plan, fat.entry, place.clone());
            return;
        }
        let (archives, binary, rewritten) = match self.name(fat, &path, content, root) {
            Ok(named) => named,
            Err(error) => return plan.refuse(&entry.path, &error),
        };
        let place = Destination::Rewritten {
            content: Arc::clone(&rewritten),
            bundles: compressed_bundles(&binary.fat),
            wrappers: binary.fat.wrappers.len(),
            link_group: link_group.as_ref().map(|_| binary.fat.entry as u64),
        };
        self.links.extend(link_group.map(|group| (group, place.clone())));
        self.counterparts.extend(installed.map(|installed| (installed, place.clone())));
        set_place(plan, binary.fat.entry, place);
        plan.binaries.push(describe(&binary, &archives, entry.path.clone(), content.size(), &*rewritten));
        self.binaries.entry(archives).or_default().push(binary);
    }

    /// The binary with its name and its archives, and its content without device code.
    fn name(
        &mut self,
        fat: Fat,
        path: &EntryPath,
        content: &Arc<dyn Content>,
        root: EntryPath,
    ) -> Result<(ArchiveSet, NamedBinary, Arc<Rewritten>), String> {
        let archive_root = self.roots.installed(&root);
        let stem = self.stems.of(&archive_root, path);
        let as_before = kept(&fat, (&archive_root, &stem), self.options)
            .filter(|it| !self.names.contains(&(it.root.clone(), it.stem.clone(), it.kernel_name.as_str().into())));
        let named = match &as_before {
            Some(kept) => keep(&fat, content, kept),
            None => name(path, &root, &stem, self.options.packaging)
                .and_then(|(name, marker)| Ok((name, rewrite(&fat, content, &marker, self.resources)?))),
        };
        let (kernel_name, rewritten) = named.map_err(|error| error.to_string())?;
        let (root, archive_root, stem) = match as_before {
            Some(kept) => (kept.root.clone(), kept.root, kept.stem),
            None => (root, archive_root, stem),
        };
        if !self.names.insert((archive_root.clone(), stem.clone(), Arc::clone(&kernel_name))) {
            return Err(format!("its name in archives, {kernel_name}, is that of another binary"));
        }
        Ok(((archive_root, stem), NamedBinary { fat, root, kernel_name }, rewritten))
    }
}

/// The archives of a binary that was split before, if they can be made there again.
fn kept(fat: &Fat, usual: (&EntryPath, &str), options: &PlanOptions) -> Option<join::Archives> {
    let archives = fat.split.as_ref()?.archives.clone()?;
    let is_chosen = options.group.is_some() || options.overlay_roots.is_some();
    (!is_chosen || usual == (&archives.root, &archives.stem)).then_some(archives)
}

/// The binary as it was in the input.
fn keep(
    fat: &Fat,
    content: &Arc<dyn Content>,
    archives: &join::Archives,
) -> Result<(Arc<str>, Arc<Rewritten>), BinaryError> {
    let missing = || BinaryError::Unsupported("it is not as it was".to_owned());
    let split = fat.split.as_ref().ok_or_else(missing)?;
    let kept = Rewritten::kept(content, &split.content)?;
    Ok((archives.kernel_name.as_str().into(), Arc::new(kept)))
}

/// The compressed bundles of a binary, without duplicates.
fn compressed_bundles(fat: &Fat) -> Arc<[Arc<Compressed>]> {
    // A joined binary has none.
    if fat.split.is_some() {
        return Arc::new([]);
    }
    let frames = fat.wrappers.iter().filter_map(|frames| frames.first());
    let bundles: BTreeMap<u64, _> =
        frames.filter_map(|frame| frame.object.bundle.as_ref()).map(|bundle| (bundle.start(), bundle)).collect();
    bundles.into_values().cloned().collect()
}

fn set_place(plan: &mut Plan, entry: usize, place: Destination) {
    if let Some(slot) = plan.places.get_mut(entry) {
        *slot = place;
    }
}

/// A binary's name in archives, and the marker for its wrappers.
fn name(
    path: &EntryPath,
    root: &EntryPath,
    group: &str,
    packaging: Packaging,
) -> Result<(Arc<str>, Vec<u8>), BinaryError> {
    let installed = path.below(root).unwrap_or_else(|| path.clone());
    let name = if packaging == Packaging::Processors { path } else { &installed };
    let kernel_name = std::str::from_utf8(name.as_bytes())
        .map_err(|_| BinaryError::Unsupported("its name is not UTF-8, which archives need".to_owned()))?;
    let way = way(path, root);
    let marker = marker(kernel_name, &[format!("{way}{DOT_KPACK}/{group}_@GFXARCH@{DOT_KPACK}")]);
    Ok((kernel_name.into(), marker))
}

/// The way from the directory of a binary to an overlay root, which ends with a slash if there is one to go.
fn way(path: &EntryPath, root: &EntryPath) -> String {
    let common = path.common_depth(root);
    let up = "../".repeat(path.depth() - 1 - common);
    root.components().skip(common).fold(up, |way, name| format!("{way}{}/", String::from_utf8_lossy(name)))
}

/// The binary without device code.
fn rewrite(
    fat: &Fat,
    content: &Arc<dyn Content>,
    marker: &[u8],
    resources: &Resources,
) -> Result<Arc<Rewritten>, BinaryError> {
    let index = &resources.index;
    let make = |binary: &FatBinary| Rewritten::make(index, content, binary, marker);
    let rewritten = if let Some(binary) = &fat.binary {
        make(binary)?
    } else if let Some(rewritten) = Rewritten::get(index, content, marker) {
        rewritten
    } else {
        let binary = FatBinary::scan(content)?;
        make(&binary.ok_or_else(|| BinaryError::Unsupported("it no longer has device code".to_owned()))?)?
    };
    Ok(Arc::new(rewritten))
}

fn describe(
    binary: &NamedBinary,
    archives: &ArchiveSet,
    path: EntryPath,
    size: u64,
    content: &dyn Content,
) -> PlannedBinary {
    let sizes = |frames: &Arc<Vec<Arc<Frame>>>| {
        frames.iter().map(|frame| (frame.object.target.clone(), frame.size())).collect()
    };
    let (mut firsts, wrappers) = (HashMap::new(), &binary.fat.wrappers);
    let first = |(number, frames)| *firsts.entry(Arc::as_ptr(frames)).or_insert(number);
    let mut planned = PlannedBinary {
        path,
        kernel_name: binary.kernel_name.to_string(),
        archives: archives.clone(),
        size,
        host_size: content.size(),
        wrappers: wrappers.iter().map(sizes).collect(),
        sharing: wrappers.iter().enumerate().map(first).collect(),
        code: BTreeMap::new(),
    };
    let mut code = BTreeMap::<_, (u64, u64)>::new();
    for (target, size) in planned.bundles().flatten() {
        let (count, bytes) = code.entry(target.clone()).or_default();
        (*count, *bytes) = (*count + 1, *bytes + size);
    }
    planned.code = code;
    planned
}
