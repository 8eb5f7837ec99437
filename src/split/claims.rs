//! Paths that two files claim: an installer would silently overwrite one with the other.

use std::collections::BTreeMap;

use anyhow::bail;

use super::plan::Plan;
use super::roots::Roots;
use crate::loader::DOT_KPACK;
use crate::source::{Entry, EntryKind, EntryPath, Input};
use crate::wheel;

/// Refuses a wheel in which two different members are installed at one path.
pub(super) fn check_members(input: &Input) -> anyhow::Result<()> {
    let is_moved = |entry: &&Entry| wheel::installed(&entry.path) != entry.path;
    if input.dist_info().is_none() || !input.entries.iter().any(|entry| is_moved(&entry)) {
        return Ok(());
    }
    let mut existing = BTreeMap::<EntryPath, &Entry>::new();
    for entry in &input.entries {
        let installed = wheel::installed(&entry.path);
        if let Some(first) = existing.get(&installed)
            && let Some(reason) = first.kind.difference(&entry.kind)?
        {
            bail!(
                "{:?} and {:?}: both are installed as {installed:?}, and {reason}, so that one of them would be lost; \
                 remove or rename one",
                first.path,
                entry.path
            );
        }
        existing.insert(installed, entry);
    }
    Ok(())
}

/// Refuses archives if the input has anything but directories on their paths.
pub(super) fn check_archives(input: &Input, plan: &Plan, roots: &Roots) -> anyhow::Result<()> {
    let is_near = |entry: &&Entry| {
        !matches!(entry.kind, EntryKind::Directory) && entry.path.components().any(|name| name == DOT_KPACK.as_bytes())
    };
    let existing: BTreeMap<_, _> =
        input.entries.iter().filter(is_near).map(|entry| (roots.installed(&entry.path), &entry.path)).collect();
    for planned in &plan.archives {
        let archive = roots.installed(&planned.path);
        let mut above = std::iter::successors(Some(archive), EntryPath::parent);
        if let Some(path) = above.find_map(|path| existing.get(&path)) {
            bail!(
                "{path:?} of the input and the archive {:?} of the split: both cannot be there; rename the first, or choose \
                 another name or place for archives (--group, --overlay-root)",
                planned.path
            );
        }
    }
    Ok(())
}
