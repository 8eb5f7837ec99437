//! Which code object goes into which archive, and under which name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::roots::Roots;
use super::scan::{Fat, level};
use super::{Destination, Packaging, Plan, PlanOptions, PlannedArchive, PlannedBinary};
use crate::binary::{BinaryError, FatBinary, Rewritten, marker};
use crate::fatbin::Compressed;
use crate::gpu::{TargetId, begins_device_part};
use crate::join::{self, OrphanCode};
use crate::kpack::{ArchiveEntry, ArchiveRope, BundleJobs, Frame, toc_key};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Attributes, EntryKind, EntryPath, Input};

/// A binary with its name in archives.
struct NamedBinary {
    fat: Fat,
    root: EntryPath,
    kernel_name: Arc<str>,
}

/// The first part of archive names, by the directory of `.kpack` in an installation.
struct Stems<'a> {
    group: &'a str,
    /// The input's files in these directories.
    taken: HashMap<EntryPath, Vec<EntryPath>>,
}

impl<'a> Stems<'a> {
    fn new(input: &Input, roots: &Roots, group: &'a str) -> Self {
        let mut taken = HashMap::<_, Vec<_>>::new();
        for entry in input.entries.iter().filter(|entry| entry.path.name().ends_with(b".kpack")) {
            let directory = roots.installed(&entry.path).parent().filter(|parent| parent.name() == b".kpack");
            if let Some(root) = directory.and_then(|directory| directory.parent()) {
                taken.entry(root).or_default().push(entry.path.clone());
            }
        }
        Self { group, taken }
    }

    /// The group, with a number appended if the input has archives of that name already: markers find archives by name.
    fn of(&self, root: &EntryPath) -> String {
        let taken = self.taken.get(root).map_or(&[][..], Vec::as_slice);
        let name = |number: usize| if number == 1 { self.group.to_owned() } else { format!("{}-{number}", self.group) };
        let is_free = |name: &String| !taken.iter().any(|path| is_of_group(path, name));
        (1..=taken.len()).map(name).find(is_free).unwrap_or_else(|| name(taken.len() + 1))
    }

    /// A warning if a name differs from the group.
    fn note(&self, root: &EntryPath, name: &str) -> Option<String> {
        let there = self.taken.get(root)?.iter().find(|path| is_of_group(path, self.group))?;
        Some(format!(
            "{there}: an archive of the input, which is kept; the new ones there are called {name}_<target>.kpack"
        ))
    }
}

/// Whether an archive is named `<group>_<target>.kpack`.
fn is_of_group(path: &EntryPath, group: &str) -> bool {
    let target = path.name().strip_prefix(group.as_bytes()).and_then(|rest| rest.strip_prefix(b"_"));
    target.is_some_and(begins_device_part)
}

/// Decides the name of each binary, and then the archives of each overlay root, or of all roots together.
pub(super) fn assign(
    input: &Input,
    orphans: &[OrphanCode],
    plan: &mut Plan,
    fat: Vec<Fat>,
    roots: &Roots,
    options: &PlanOptions,
    resources: &Resources,
) {
    let group = plan.group.clone();
    let stems = Stems::new(input, roots, &group);
    let mut together = BTreeMap::<(EntryPath, String), Vec<NamedBinary>>::new();
    let mut links = HashMap::new();
    let mut counterparts = HashMap::new();
    let (split, mut all): (Vec<_>, Vec<_>) = fat.into_iter().partition(|fat| fat.split.is_some());
    // Binaries that were split before have given names, which others may have as well.
    all.extend(split);
    let mut kept_names = HashSet::new();
    for fat in all {
        let Some(entry) = input.entries.get(fat.entry) else { continue };
        let Some(root) = roots.of(&entry.path) else {
            plan.refuse(&entry.path, &"it is outside of the overlay roots");
            continue;
        };
        // Hard links in one directory are one library: they find the same archives under the same name.
        let link_group = match &entry.kind {
            EntryKind::File { link_group, .. } => link_group.zip(entry.path.parent()),
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        };
        if let Some(place) = link_group.as_ref().and_then(|group| links.get(group)) {
            set_place(plan, fat.entry, Destination::clone(place));
            continue;
        }
        // A wheel may contain a file twice that is installed once.
        let installed = (options.packaging == Packaging::Bundles).then(|| roots.installed(&entry.path));
        if let Some(place) = installed.as_ref().and_then(|installed| counterparts.get(installed)) {
            set_place(plan, fat.entry, Destination::clone(place));
            continue;
        }
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let archive_root = roots.installed(&root);
        let stem = stems.of(&archive_root);
        let as_before = kept(&fat, (&archive_root, &stem), options)
            .filter(|it| !kept_names.contains(&(it.root.clone(), it.stem.clone(), it.kernel_name.clone())));
        let named = match &as_before {
            Some(kept) => keep(&fat, content, kept),
            None => name(&entry.path, &root, &stem, options.packaging)
                .and_then(|(name, marker)| Ok((name, rewrite(&fat, content, &marker, resources)?))),
        };
        let (root, archive_root, stem) = match as_before {
            Some(kept) => (kept.root.clone(), kept.root, kept.stem),
            None => (root, archive_root, stem),
        };
        match named {
            Ok((kernel_name, _))
                if !kept_names.insert((archive_root.clone(), stem.clone(), kernel_name.to_string())) =>
            {
                plan.refuse(
                    &entry.path,
                    &format_args!("its name in archives, {kernel_name}, is that of another binary"),
                );
            }
            Ok((kernel_name, content)) => {
                let link = link_group.as_ref().map(|_| fat.entry as u64);
                let bundles = compressed_bundles(&fat);
                let place = Destination::Rewritten { content: Arc::clone(&content), bundles, link_group: link };
                links.extend(link_group.map(|group| (group, place.clone())));
                counterparts.extend(installed.map(|installed| (installed, place.clone())));
                set_place(plan, fat.entry, place);
                plan.binaries.push(describe(&fat, entry.path.clone(), &kernel_name, input, &*content));
                together.entry((archive_root, stem)).or_default().push(NamedBinary { fat, root, kernel_name });
            }
            Err(error) => plan.refuse(&entry.path, &error),
        }
    }
    for code in orphans {
        together.entry((code.root.clone(), code.stem.clone())).or_default();
    }
    plan.binaries.sort_by(|a, b| a.path.cmp(&b.path));
    // A fat binary may have replaced the split one that asked for code, also under another group.
    let of_root = |(root, binaries): (&EntryPath, &Vec<NamedBinary>)| {
        let fat = binaries.iter().filter(|it| it.fat.split.is_none());
        fat.map(|it| (root.clone(), it.kernel_name.to_string())).collect::<Vec<_>>()
    };
    let fat: HashSet<_> = together.iter().flat_map(|((root, _), binaries)| of_root((root, binaries))).collect();
    for ((root, stem), binaries) in &mut together {
        binaries.sort_by_key(|binary| binary.fat.entry);
        plan.warnings.extend(stems.note(root, stem));
        let of_set = orphans.iter().filter(|code| code.root == *root && code.stem == *stem);
        let is_replaced = |code: &OrphanCode| {
            let name = code.key.rsplit_once('#').map(|(name, _)| name.to_owned());
            name.is_some_and(|name| fat.contains(&(code.root.clone(), name)))
        };
        let mut of_set: Vec<_> = of_set.filter(|code| !is_replaced(code)).collect();
        plan.warnings.extend(not_joined(&of_set));
        of_set.retain(|code| options.wants(&options.packaging.key_of(&code.object.target)));
        let mut entries = archives(input, stem, binaries, roots, options);
        take_over(input, &mut entries, &of_set, options, &plan.jobs);
        plan.archives.extend(entries.into_iter().map(|draft| draft.archive(stem, options, &plan.jobs)));
    }
    plan.archives.sort_by(|a, b| a.path.cmp(&b.path));
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
    let up = "../".repeat(installed.depth() - 1);
    let marker = marker(kernel_name, &[format!("{up}.kpack/{group}_@GFXARCH@.kpack")]);
    Ok((kernel_name.into(), marker))
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

fn describe(fat: &Fat, path: EntryPath, kernel_name: &str, input: &Input, content: &dyn Content) -> PlannedBinary {
    let size = match input.entries.get(fat.entry).map(|entry| &entry.kind) {
        Some(EntryKind::File { content, .. }) => content.size(),
        _ => 0,
    };
    let sizes = |frames: &Arc<Vec<Arc<Frame>>>| {
        frames.iter().map(|frame| (frame.object.target.clone(), frame.object.content.size())).collect()
    };
    PlannedBinary {
        path,
        kernel_name: kernel_name.to_owned(),
        size,
        host_size: content.size(),
        wrappers: fat.wrappers.iter().map(sizes).collect(),
    }
}

/// An archive that is being planned.
struct Draft {
    path: EntryPath,
    target: TargetId,
    attributes: Attributes,
    entries: Vec<ArchiveEntry>,
}

impl Draft {
    fn archive(self, group: &str, options: &PlanOptions, jobs: &Arc<BundleJobs>) -> PlannedArchive {
        let Self { path, target, attributes, entries } = self;
        let key = options.packaging.key_of(&target);
        let archive = Arc::new(ArchiveRope::new(group, target, options.compression, entries, jobs));
        PlannedArchive { path, key, archive, attributes }
    }
}

/// Warnings about code without a binary, for each archive.
fn not_joined(orphans: &[&OrphanCode]) -> Vec<String> {
    let mut keys = BTreeMap::<_, BTreeSet<_>>::new();
    // Another warning names code that is kept in unknown/.
    for code in orphans.iter().filter(|code| !code.object.target.is_unknown()) {
        keys.entry(&code.archive).or_default().insert(&*code.key);
    }
    let warning = |(archive, keys): (&EntryPath, BTreeSet<&str>)| {
        let names = join::some_of(&keys);
        format!(
            "{archive}: no split binary asks for {names} in it; the device part has this code, and fat/ and thin/ do not"
        )
    };
    keys.into_iter().map(warning).collect()
}

/// Adds code objects of the input's archives that no binary asks for.
fn take_over(
    input: &Input,
    drafts: &mut Vec<Draft>,
    orphans: &[&OrphanCode],
    options: &PlanOptions,
    jobs: &Arc<BundleJobs>,
) {
    let name =
        |it: &ArchiveEntry| it.wrapper.map_or_else(|| it.kernel_name.to_string(), |at| toc_key(&it.kernel_name, at));
    let names = |draft: &Draft| (draft.target.clone(), draft.entries.iter().map(name).collect::<HashSet<_>>());
    let there: BTreeMap<_, _> = drafts.iter().map(names).collect();
    let is_there = |code: &OrphanCode| there.get(&code.object.target).is_some_and(|names| names.contains(&code.key));
    for code in orphans.iter().filter(|code| !is_there(code)) {
        let target = &code.object.target;
        let frame = jobs.shared_frame(code.object.clone(), level(options));
        let kernel_name = code.key.as_str().into();
        let entry = ArchiveEntry { binary: usize::MAX, kernel_name, wrapper: None, frame };
        match drafts.iter_mut().find(|draft| draft.target == *target) {
            Some(draft) => draft.entries.push(entry),
            None => drafts.push(Draft {
                path: code.root.child(format!(".kpack/{}_{target}.kpack", code.stem).as_bytes()),
                target: target.clone(),
                attributes: Attributes { mode: 0o644, ..input.root },
                entries: vec![entry],
            }),
        }
    }
}

/// One archive for every target for which any binary has code. It contains code for *every* wrapper that has code which
/// a device of that target runs. Loaders before ROCm/rocm-systems#9953 stop at the first archive that names the target,
/// so an archive for `gfx90a:xnack-` has to contain the wrappers' code for `gfx90a`, too.
fn archives(input: &Input, group: &str, binaries: &[NamedBinary], roots: &Roots, options: &PlanOptions) -> Vec<Draft> {
    let frames = binaries.iter().flat_map(|binary| &binary.fat.wrappers).flat_map(|frames| frames.iter());
    let targets: BTreeSet<&TargetId> = frames.map(|frame| &frame.object.target).collect();
    let mut archives = Vec::new();
    for target in targets {
        if !options.wants(&options.packaging.key_of(target)) {
            continue;
        }
        let candidates = target.candidates();
        let mut entries = Vec::new();
        let mut youngest = (i64::MIN, 0);
        let mut root: Option<&EntryPath> = None;
        for binary in binaries {
            let before = entries.len();
            for (wrapper, frames) in binary.fat.wrappers.iter().enumerate() {
                let best = |wanted: &TargetId| frames.iter().find(|frame| frame.object.target == *wanted);
                if let Some(frame) = candidates.iter().find_map(best) {
                    let kernel_name = Arc::clone(&binary.kernel_name);
                    let binary = binary.fat.entry;
                    let wrapper = Some(wrapper);
                    entries.push(ArchiveEntry { binary, kernel_name, wrapper, frame: Arc::clone(frame) });
                }
            }
            if let Some(entry) = input.entries.get(binary.fat.entry).filter(|_| entries.len() > before) {
                youngest = youngest.max((entry.attributes.mtime, entry.attributes.mtime_nanoseconds));
                // Of roots with one installed path, prefer the one that is not in a data directory.
                let rank = |root: &EntryPath| (roots.installed(root) != *root, root.clone());
                root = root.into_iter().chain([&binary.root]).min_by_key(|root| rank(root));
            }
        }
        let (mtime, mtime_nanoseconds) = youngest;
        let Some(root) = root else { continue };
        archives.push(Draft {
            path: root.child(format!(".kpack/{group}_{target}.kpack").as_bytes()),
            target: target.clone(),
            attributes: Attributes { mode: 0o644, mtime, mtime_nanoseconds, ..input.root },
            entries,
        });
    }
    archives
}
