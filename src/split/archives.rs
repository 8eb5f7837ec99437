//! Which code object goes into which archive, under which name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::roots::Roots;
use super::scan::Fat;
use super::{Options, Packaging, Place, Plan, PlannedArchive, SplitBinary};
use crate::binary::{BinaryError, FatBinary, Rewritten};
use crate::index::Resources;
use crate::kpack::{Archive, ArchiveEntry, Frame, marker};
use crate::rope::Content;
use crate::source::{Attributes, EntryKind, EntryPath, Input};
use crate::target::TargetId;

/// A binary with its name in archives.
struct Named {
    fat: Fat,
    root: EntryPath,
    kernel_name: Arc<str>,
}

/// Decides for each binary, and then for each overlay root, or for all of them together, which archives it gets.
pub(super) fn assign(
    input: &Input,
    plan: &mut Plan,
    fat: Vec<Fat>,
    roots: &Roots,
    options: &Options,
    resources: &Resources,
) {
    let mut together = BTreeMap::<Option<EntryPath>, Vec<Named>>::new();
    let mut links = HashMap::new();
    for fat in fat {
        let Some(entry) = input.entries.get(fat.entry) else { continue };
        let Some(root) = roots.of(&entry.path) else {
            plan.refuse(&entry.path, &"it lies below none of the overlay roots");
            continue;
        };
        // Hard links in one directory are one library: they find the same archives under the same name.
        let link_group = match &entry.kind {
            EntryKind::File { link_group, .. } => link_group.zip(entry.path.parent()),
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        };
        if let Some(place) = link_group.as_ref().and_then(|group| links.get(group)) {
            set_place(plan, fat.entry, Place::clone(place));
            continue;
        }
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let named = name(&entry.path, &root, &plan.group, options.packaging);
        match named.and_then(|(name, marker)| Ok((name, rewrite(&fat, content, &marker, resources)?))) {
            Ok((kernel_name, content)) => {
                let link = link_group.as_ref().map(|_| fat.entry as u64);
                let place = Place::Rewritten { content: Arc::clone(&content), link_group: link };
                links.extend(link_group.map(|group| (group, place.clone())));
                set_place(plan, fat.entry, place);
                plan.binaries.push(describe(&fat, entry.path.clone(), &kernel_name, input, &*content));
                let own = (options.packaging == Packaging::Bundles).then(|| root.clone());
                together.entry(own).or_default().push(Named { fat, root, kernel_name });
            }
            Err(error) => plan.refuse(&entry.path, &error),
        }
    }
    for binaries in together.values() {
        plan.archives.extend(archives(input, &plan.group, binaries, options));
    }
    plan.archives.sort_by(|a, b| a.path.cmp(&b.path));
}

fn set_place(plan: &mut Plan, entry: usize, place: Place) {
    if let Some(slot) = plan.places.get_mut(entry) {
        *slot = place;
    }
}

/// A binary's name in archives, and the marker that its wrappers are to point at.
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
    let memory = &resources.memory;
    let make = |binary: &FatBinary| Rewritten::make(memory, content, binary, marker);
    let rewritten = if let Some(binary) = &fat.binary {
        make(binary)?
    } else if let Some(rewritten) = Rewritten::recall(memory, content, marker) {
        rewritten
    } else {
        let binary = FatBinary::scan(content)?;
        make(&binary.ok_or_else(|| BinaryError::Unsupported("it has no device code any more".to_owned()))?)?
    };
    Ok(Arc::new(rewritten))
}

fn describe(fat: &Fat, path: EntryPath, kernel_name: &str, input: &Input, content: &dyn Content) -> SplitBinary {
    let size = match input.entries.get(fat.entry).map(|entry| &entry.kind) {
        Some(EntryKind::File { content, .. }) => content.size(),
        _ => 0,
    };
    let sizes = |frames: &Arc<Vec<Arc<Frame>>>| {
        frames.iter().map(|frame| (frame.object.target.clone(), frame.object.content.size())).collect()
    };
    SplitBinary {
        path,
        kernel_name: kernel_name.to_owned(),
        size,
        host_size: content.size(),
        wrappers: fat.wrappers.iter().map(sizes).collect(),
    }
}

/// One archive for every target that any of the binaries has code for. It answers for *every* wrapper that has code
/// which a device of that target runs: loaders before ROCm/rocm-systems#9953 stop at the first archive that names the
/// target, so an archive for `gfx90a:xnack-` has to hold what wrappers have for `gfx90a`, too.
fn archives(input: &Input, group: &str, binaries: &[Named], options: &Options) -> Vec<PlannedArchive> {
    let frames = binaries.iter().flat_map(|binary| &binary.fat.wrappers).flat_map(|frames| frames.iter());
    let targets: BTreeSet<&TargetId> = frames.map(|frame| &frame.object.target).collect();
    let mut archives = Vec::new();
    for target in targets {
        let key = options.packaging.key_of(target);
        if !options.wants(&key) {
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
                    entries.push(ArchiveEntry { binary, kernel_name, wrapper, frame: Arc::clone(frame) });
                }
            }
            if let Some(entry) = input.entries.get(binary.fat.entry).filter(|_| entries.len() > before) {
                youngest = youngest.max((entry.attributes.mtime, entry.attributes.mtime_nanoseconds));
                root = Some(root.map_or(&binary.root, |first| first.min(&binary.root)));
            }
        }
        let (mtime, mtime_nanoseconds) = youngest;
        let Some(root) = root else { continue };
        archives.push(PlannedArchive {
            path: root.child(format!(".kpack/{group}_{target}.kpack").as_bytes()),
            key,
            attributes: Attributes { mode: 0o644, mtime, mtime_nanoseconds, ..input.root },
            archive: Arc::new(Archive::new(group, target.clone(), options.compression, entries)),
        });
    }
    archives
}
