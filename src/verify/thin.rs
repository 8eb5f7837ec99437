//! Thin views, and installations of thin wheels: binaries that keep the device code of some GPUs.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::bundle;
use super::distributions::Distribution;
use super::parts::{Parts, PartsKind};
use super::report::{Findings, Tools, enumerate};
use super::rules::Rule;
use crate::binary::FatBinary;
use crate::collect::{collected_files, collected_gpus};
use crate::fatbin::CodeObject;
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::opened::thin_gpus;
use crate::rope::Content;
use crate::source::EntryPath;
use crate::split::{MERGED, THIN};

/// Which files are thin, and for which GPUs.
#[derive(Debug, Default)]
pub(super) struct ThinFiles {
    /// The GPUs, if all files are thin.
    whole: Option<Arc<GpuSet>>,
    /// The GPUs of files of thin wheels.
    by_path: HashMap<EntryPath, Arc<GpuSet>>,
}

impl ThinFiles {
    /// Determines thin files by the user's choice. Without one, by the location of a tree in a mount or a split, or by
    /// wheels.
    pub(super) fn of(parts: &Parts, distributions: &[Distribution<'_>], given: Option<&GpuSet>) -> Self {
        if let Some(given) = given {
            return Self { whole: Some(Arc::new(given.clone())), by_path: HashMap::new() };
        }
        let whole = parts.thin.clone().or_else(|| of_place(parts)).map(Arc::new);
        let mut by_path = HashMap::new();
        for distribution in distributions {
            let Some(gpus) = distribution.thin().map(Arc::new) else { continue };
            by_path.extend(distribution.recorded().map(|path| (path, Arc::clone(&gpus))));
        }
        Self { whole, by_path }
    }

    /// Whether the whole input is a thin view.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The GPUs of a file, if it is thin.
    pub(super) fn gpus(&self, path: &EntryPath) -> Option<&Arc<GpuSet>> {
        self.by_path.get(path).or(self.whole.as_ref())
    }

    /// The parts of an installation for the GPUs of such files; `None` if none of them is thin.
    pub(super) fn keys(&self, is_such: impl Fn(&EntryPath) -> bool) -> Option<BTreeSet<BundleKey>> {
        let of_such = self.by_path.iter().filter(|(path, _)| is_such(path)).map(|(_, gpus)| gpus);
        let sets: BTreeSet<_> = of_such.chain(&self.whole).collect();
        (!sets.is_empty()).then(|| sets.iter().flat_map(|gpus| gpus.keys()).collect())
    }
}

/// The GPUs in the name of a thin view's directory, or in the statement of a collection.
pub(super) fn of_place(parts: &Parts) -> Option<GpuSet> {
    let input = &parts.all.first()?.input;
    of_view(&input.location).or_else(|| collected_gpus(input))
}

/// The GPUs in the name of a directory, if that is a thin view.
pub(super) fn of_view(directory: &Path) -> Option<GpuSet> {
    let place = directory.canonicalize().ok()?;
    let is_view = place.is_dir() && place.parent()?.ends_with(THIN);
    place.file_name().and_then(|name| name.to_str()?.parse().ok()).filter(|_| is_view)
}

/// Checks that a thin wheel is in no directory for other GPUs. Its statement tells which form it is. A view of an
/// installation keeps the statements of what was installed there.
pub(super) fn check_place(parts: &Parts, findings: &Findings) {
    let Some(part) = parts.all.first() else { return };
    let location = &part.input.location;
    let directory = if location.is_dir() { Some(&**location) } else { location.parent() };
    let directory = directory.filter(|it| !it.parent().is_some_and(|above| above.ends_with(MERGED)));
    let named = directory.and_then(|it| it.file_name()?.to_str()?.parse::<GpuSet>().ok());
    let is_gpu = |target: &TargetId| target.is_known() && !target.is_generic();
    let Some(named) = named.filter(|named| named.targets().iter().all(is_gpu)) else { return };
    let Some(stated) = thin_gpus(&part.input) else { return };
    let is_named = |target: &TargetId| named.targets().iter().any(|it| it.is_same_gpu(target));
    if stated.targets().iter().all(is_gpu) && !stated.targets().iter().any(is_named) {
        let reason = format!("it is the thin form for {stated}, in the directory for {named}");
        findings.add(Rule::WrongPart, part.label_or_name(), reason);
    }
}

/// Checks that the files of a collection are there. A split of one has them in several parts.
pub(super) fn check_collected(parts: &Parts, findings: &Findings) {
    let is_collection = parts.kind == PartsKind::Installation && parts.statement.is_none();
    let Some(part) = parts.all.first().filter(|_| is_collection) else { return };
    let is_there = |path: &EntryPath| part.recorded(path).is_some_and(|path| part.input.entry(&path).is_some());
    let listed = match collected_files(&part.input) {
        Ok(listed) => listed,
        Err((path, reason)) => return findings.add(Rule::ManifestUnreadable, part.label(&path), reason),
    };
    for path in listed.iter().filter(|path| !is_there(path) && !parts.leave_out(path)) {
        findings.add(
            Rule::ListedMissing,
            part.label(path),
            ".kpackfs/collect.json lists it, but there is no such file",
        );
    }
}

/// Checks a binary that must have the code of these GPUs only.
pub(super) fn check(content: &Arc<dyn Content>, binary: &FatBinary, gpus: &GpuSet, label: &str, tools: Tools<'_>) {
    let (wrappers, findings) = (binary.wrappers(), tools.findings);
    findings.counts.thin_binaries.add(1);
    findings.counts.wrappers.add(wrappers.len() as u64);
    let mut without_code = Vec::new();
    // Wrappers may share a bundle. Its problems are reported once.
    let mut known = HashMap::new();
    for (position, wrapper) in wrappers.iter().enumerate() {
        let has_code = known.entry(wrapper.bundle).or_insert_with(|| {
            let say = |reason| findings.add(Rule::ThinCode, label, format!("wrapper {position}: {reason}"));
            let judge = |target: &TargetId| {
                let reason = || format!("it has code for {target}, which a GPU of {gpus} cannot be given");
                (gpus.keeps(&[target]) != [true]).then(reason)
            };
            bundle::check(content, wrapper.bundle, wrapper.limit, &judge, &say, tools).map_or_else(
                |error| {
                    say(error.to_string());
                    true
                },
                |targets| !targets.is_empty(),
            )
        });
        if !*has_code {
            without_code.push(position);
        }
    }
    if !without_code.is_empty() {
        let (count, all, list) = (without_code.len(), wrappers.len(), enumerate(&without_code));
        findings.note(format!("{label}: wrappers without code for {gpus}: {count} of {all}: {list}"));
    }
}

/// The first code object of each target.
pub(super) fn by_target(objects: &[CodeObject]) -> HashMap<&TargetId, &CodeObject> {
    let mut found = HashMap::new();
    for object in objects.iter().filter(|object| object.content.size() > 0) {
        found.entry(&object.target).or_insert(object);
    }
    found
}
