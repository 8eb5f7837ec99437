//! Warnings of `split` about its output, the names in it, and whether there is something to split.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};

use super::terminal::{note, warn};
use crate::gpu::BundleKey;
use crate::loader::OwnRuntime;
use crate::opened::SplitDirectory;
use crate::report::LookedAt;
use crate::session::Prepared;
use crate::source::EntryPath;
use crate::split::Plan;
use crate::text::more;
use crate::tree::{ROOT, Tree};
use crate::wheelparts::WheelSet;

/// Reports device parts in the output directory that belong to no known split.
pub(super) fn warn_of_others(output: &Path, views: &[(EntryPath, PathBuf)]) {
    let entries = std::fs::read_dir(output).into_iter().flatten().filter_map(Result::ok);
    let is_key = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        path.is_dir() && name.is_some_and(BundleKey::is_name) && !views.iter().any(|(_, place)| place == path)
    };
    let mut others: Vec<_> = entries.map(|entry| entry.path()).filter(is_key).collect();
    others.sort();
    for other in others {
        let other = other.display();
        warn(&format!("{other}: not of this split, which leaves it there; remove it if it is of an earlier one"));
    }
}

/// Fails if wheels would lack symlinks of an input.
pub(super) fn check_symlinks(input: &Path, wheels: &WheelSet) -> anyhow::Result<()> {
    if wheels.has_symlinks {
        let input = input.display();
        bail!(
            "{input}: wheels cannot hold its symlinks; put copies in their place, or remove those that the warnings name"
        );
    }
    Ok(())
}

/// Reports binaries that keep all of their code in thin views.
pub(super) fn warn_of_fat(plan: &Plan) {
    for path in &plan.unsplit {
        warn(&format!("{path}: it keeps the code of all GPUs, since it cannot be rewritten"));
    }
}

/// Says what users of the parts should know before they are written.
pub(super) fn warn_of_use(prepared: &Prepared, has_archives: bool) {
    prepared.wheels.iter().for_each(warn_of_missing_devices);
    prepared.wheels.iter().flat_map(|wheels| &wheels.notes).for_each(|text| note(text));
    if has_archives {
        note_runtime("the input", prepared);
    }
}

/// Says that the HIP runtime of an input reads no archives, so that programs which use it find no kernels.
pub(super) fn note_runtime(of: &str, Prepared { input, plan, wheels, .. }: &Prepared) {
    let runtime = if plan.archives.is_empty() { None } else { OwnRuntime::of(input) };
    if let Some(OwnRuntime { path, .. }) = runtime.filter(|runtime| !runtime.reads_archives) {
        let thin = if wheels.is_some() { "--format thin-wheel" } else { "--view thin/GPU" };
        note(&format!(
            "the HIP runtime of {of}, {path}, does not read .kpack archives, and would find no kernels; use one of ROCm 7.13 or \
             later, or write {thin}"
        ));
    }
}

/// Reports device wheels of a host wheel that were not given. New host wheels do not require them any more.
fn warn_of_missing_devices(wheels: &WheelSet) {
    if let [first, rest @ ..] = &*wheels.missing_devices() {
        let more = more(rest.len(), "");
        warn(&format!("{first}{more}: not given, so what is written lacks this code"));
    }
}

/// Whether a split may have written a part of this name.
pub(super) fn is_part(path: &EntryPath) -> bool {
    path.as_path().iter().next().is_some_and(|first| SplitDirectory::may_have(Path::new(first)))
}

/// The directories that a mount would show.
pub(super) fn names(tree: &Tree) -> String {
    let children = tree.children(ROOT).into_iter().flatten().filter(|child| !child.hidden);
    children.map(|child| String::from_utf8_lossy(child.name)).collect::<Vec<_>>().join(", ")
}

/// Fails if no code is split, or if it would be split from a device wheel, whose host wheel leads to it.
pub(super) fn check_code(input: &Path, prepared: &Prepared) -> anyhow::Result<()> {
    let (input, plan) = (input.display(), &prepared.plan);
    if !plan.keys.is_empty() {
        ensure!(
            !prepared.is_device_alone,
            "{input}: a device wheel, which keeps what it holds; name the host wheel, too, or take it as it is into an index with \
             --format index"
        );
        return Ok(());
    }
    ensure!(plan.unsplit.is_empty(), "{input}: none of its fat binaries can be split; the warnings say why");
    if prepared.has_nothing_to_split() {
        bail!("{input}: nothing to split: it {}", LookedAt::of([&prepared.input], &prepared.resources));
    }
    bail!("{input}: --gpu-targets and --exclude-targets leave nothing of it: nothing to split");
}
