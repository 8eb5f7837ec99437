//! Which code object goes into which archive.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::binaries::{NamedBinary, named};
use super::options::PlanOptions;
use super::plan::{Plan, PlannedArchive};
use super::roots::Roots;
use super::scan::Fat;
use super::stems::Stems;
use crate::gpu::TargetId;
use crate::join::OrphanCode;
use crate::kpack::{ArchiveEntry, ArchiveRope, BundleJobs, Frame};
use crate::loader::archive_path;
use crate::resources::Resources;
use crate::source::{Attributes, EntryPath, Input};
use crate::text::some_of;

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
    let mut together = named(input, plan, fat, &stems, roots, options, resources);
    plan.binaries.sort_by(|a, b| a.path.cmp(&b.path));
    for code in orphans {
        together.entry((code.root.clone(), code.stem.clone())).or_default();
    }
    // A fat binary may have replaced the split one that asked for code, also under another group.
    let all = together.iter().flat_map(|((root, _), binaries)| binaries.iter().map(move |it| (root, it)));
    let fat = all.filter(|(_, it)| it.fat.split.is_none());
    let fat: HashSet<_> = fat.map(|(root, it)| (root.clone(), it.kernel_name.to_string())).collect();
    for ((root, stem), binaries) in &mut together {
        binaries.sort_by_key(|binary| binary.fat.entry);
        let first = binaries.first().and_then(|binary| input.entries.get(binary.fat.entry));
        plan.warnings.extend(stems.note(root, first.map_or(root, |entry| &entry.path), stem));
        let of_set = orphans.iter().filter(|code| code.root == *root && code.stem == *stem);
        let is_replaced = |code: &OrphanCode| {
            let name = code.key.rsplit_once('#').map(|(name, _)| name.to_owned());
            name.is_some_and(|name| fat.contains(&(code.root.clone(), name)))
        };
        let mut of_set: Vec<_> = of_set.filter(|code| !is_replaced(code)).collect();
        plan.warnings.extend(not_joined(&of_set));
        of_set.retain(|code| options.targets.contains(&options.packaging.key_of(&code.object.target)));
        let mut entries = archives(input, stem, binaries, roots, options);
        take_over(&mut entries, &of_set, options, &plan.jobs);
        plan.archives.extend(entries.into_iter().map(|draft| draft.archive(stem, options, &plan.jobs)));
    }
    plan.archives.sort_by(|a, b| a.path.cmp(&b.path));
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
    for code in orphans {
        keys.entry(&code.archive).or_default().insert(&*code.key);
    }
    let warning = |(archive, keys): (&EntryPath, BTreeSet<&str>)| {
        let names = some_of(&keys);
        format!(
            "{archive}: no split binary asks for {names} in it; the device part has this code, and fat/ and thin/ do not"
        )
    };
    keys.into_iter().map(warning).collect()
}

/// Adds code objects of the input's archives that no binary asks for.
fn take_over(drafts: &mut Vec<Draft>, orphans: &[&OrphanCode], options: &PlanOptions, jobs: &Arc<BundleJobs>) {
    if orphans.is_empty() {
        return;
    }
    let names =
        |draft: &Draft| (draft.target.clone(), draft.entries.iter().map(ArchiveEntry::key).collect::<HashSet<_>>());
    let existing: BTreeMap<_, _> = drafts.iter().map(names).collect();
    let exists = |code: &OrphanCode| existing.get(&code.object.target).is_some_and(|names| names.contains(&code.key));
    for code in orphans.iter().filter(|code| !exists(code)) {
        let target = &code.object.target;
        let frame = jobs.shared_frame(code.object.clone(), options.compression.level());
        let kernel_name = code.key.as_str().into();
        let entry = ArchiveEntry { binary: usize::MAX, kernel_name, wrapper: None, frame };
        match drafts.iter_mut().find(|draft| draft.target == *target) {
            Some(draft) => {
                draft.attributes = draft.attributes.for_readers_of(&code.attributes);
                draft.entries.push(entry);
            }
            None => drafts.push(Draft {
                path: archive_path(&code.root, &code.stem, target),
                target: target.clone(),
                attributes: code.attributes,
                entries: vec![entry],
            }),
        }
    }
}

/// One archive for every target for which any binary has code. It contains code for *every* wrapper that has code which
/// a device of that target runs. Loaders before ROCm/rocm-systems#9953 stop at the first archive that names the target,
/// so an archive for `gfx90a:xnack-` has to contain the wrappers' code for `gfx90a`, too.
fn archives(input: &Input, group: &str, binaries: &[NamedBinary], roots: &Roots, options: &PlanOptions) -> Vec<Draft> {
    // Looking each target up in each wrapper would compare names a million times.
    let mut by_target = HashMap::<&TargetId, Vec<(usize, usize, &Arc<Frame>)>>::new();
    for (number, binary) in binaries.iter().enumerate() {
        for (wrapper, frames) in binary.fat.wrappers.iter().enumerate() {
            for frame in frames.iter() {
                by_target.entry(&frame.object.target).or_default().push((number, wrapper, frame));
            }
        }
    }
    // Behind an empty entry, HIP goes on to code for the generic processor.
    let hides = |first: &Frame, other: &Frame| {
        let [one, two] = [first, other].map(|frame| frame.object.target.processor());
        first.size() == 0 && other.size() > 0 && one != two
    };
    let targets: BTreeSet<&TargetId> = by_target.keys().copied().collect();
    let mut archives = Vec::new();
    for target in targets {
        if !options.targets.contains(&options.packaging.key_of(target)) {
            continue;
        }
        let candidates = target.candidates();
        let mut fitting: Vec<_> = candidates.iter().filter_map(|it| by_target.get(it)).flatten().copied().collect();
        // The better candidate stays before others.
        fitting.sort_by_key(|(binary, wrapper, _)| (*binary, *wrapper));
        let (mut entries, mut used) = (Vec::with_capacity(fitting.len()), BTreeSet::new());
        for of_wrapper in fitting.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let Some((number, wrapper, frame)) = of_wrapper.first() else { continue };
            let Some(NamedBinary { fat, kernel_name, .. }) = binaries.get(*number) else { continue };
            if !of_wrapper.iter().any(|(.., other)| hides(frame, other)) {
                let (kernel_name, frame) = (Arc::clone(kernel_name), Arc::clone(frame));
                entries.push(ArchiveEntry { binary: fat.entry, kernel_name, wrapper: Some(*wrapper), frame });
                used.insert(*number);
            }
        }
        let (mut youngest, mut files) = ((i64::MIN, 0), Vec::new());
        let mut root: Option<&EntryPath> = None;
        for binary in used.into_iter().filter_map(|number| binaries.get(number)) {
            if let Some(entry) = input.entries.get(binary.fat.entry) {
                youngest = youngest.max((entry.attributes.mtime, entry.attributes.mtime_nanoseconds));
                files.push(input.readers_of(&entry.path));
                // Of roots with one installed path, prefer the one that is not in a data directory.
                let rank = |root: &EntryPath| (roots.installed(root) != *root, root.clone());
                root = root.into_iter().chain([&binary.root]).min_by_key(|root| rank(root));
            }
        }
        let (mtime, mtime_nanoseconds) = youngest;
        let Some((root, readable)) = root.zip(Attributes::of_all(files)) else { continue };
        archives.push(Draft {
            path: archive_path(root, group, target),
            target: target.clone(),
            attributes: Attributes { mtime, mtime_nanoseconds, ..readable },
            entries,
        });
    }
    archives
}
