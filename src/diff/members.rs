//! Files and symlinks of two inputs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use super::amount::{Amount, Change, Changes, Pair};
use super::inventory::{InventoryMember, MemberKind};
use crate::metrics::Progress;
use crate::rope::equal;
use crate::source::EntryPath;

/// The most members in the list. Further ones are counted.
const MAX_LISTED: usize = 1000;

/// Changes of files and symlinks.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Members {
    /// All of them.
    #[serde(flatten)]
    pub all: Changes,
    /// Those that differ, largest change first.
    pub list: Vec<MemberChange>,
    /// Number of those that are not listed.
    pub more: usize,
}

/// A file or a symlink.
#[derive(Debug, Serialize)]
pub(crate) struct MemberChange {
    /// Its path.
    pub path: String,
    /// The change.
    pub change: Change,
    /// Bytes in the first input.
    pub before: Option<u64>,
    /// Bytes in the second one.
    pub after: Option<u64>,
}

/// Compares the members at each path. Files of equal size are read up to the first difference.
pub(super) fn compare_members(
    before: &BTreeMap<EntryPath, InventoryMember>,
    after: &BTreeMap<EntryPath, InventoryMember>,
    progress: &Progress,
) -> anyhow::Result<Members> {
    let pairs: Vec<_> = before.iter().filter_map(|(path, old)| Some((path, old, after.get(path)?))).collect();
    let is_read = |old: &InventoryMember, new: &InventoryMember| old.is_fat == new.is_fat && old.size == new.size;
    let size = pairs.iter().filter(|(_, old, new)| is_read(old, new)).map(|(_, old, _)| old.size).sum();
    progress.expect(size);
    let compared = pairs.into_iter().par_bridge().map(|(path, old, new)| {
        let is_equal = is_equal(old, new)?;
        if is_read(old, new) {
            progress.advance(old.size);
        }
        Ok((path, Pair { before: Some(old), after: Some(new) }, is_equal))
    });
    let mut compared = compared.collect::<anyhow::Result<Vec<_>>>()?;
    let removed = before.iter().filter(|(path, _)| !after.contains_key(*path));
    compared.extend(removed.map(|(path, old)| (path, Pair { before: Some(old), after: None }, false)));
    let added = after.iter().filter(|(path, _)| !before.contains_key(*path));
    compared.extend(added.map(|(path, new)| (path, Pair { before: None, after: Some(new) }, false)));
    let mut members = Members::default();
    for (path, Pair { before, after }, is_equal) in compared {
        let sizes = Pair { before: before.map(|it| it.size), after: after.map(|it| it.size) };
        members.add(path, sizes, is_equal);
    }
    members.list.sort_by_cached_key(|member| (Reverse(member.distance()), member.path.clone()));
    members.more = members.list.len().saturating_sub(MAX_LISTED);
    members.list.truncate(MAX_LISTED);
    Ok(members)
}

/// Whether two members are equal. If a library contains its device code on one side only, the sizes without it are
/// compared.
fn is_equal(old: &InventoryMember, new: &InventoryMember) -> anyhow::Result<bool> {
    Ok(match (&old.kind, &new.kind) {
        (MemberKind::Symlink(old), MemberKind::Symlink(new)) => old == new,
        (MemberKind::File(_), MemberKind::File(_)) if old.is_fat != new.is_fat => old.host_size == new.host_size,
        (MemberKind::File(old), MemberKind::File(new)) => equal(&**old, &**new)?,
        _ => false,
    })
}

impl Members {
    fn add(&mut self, path: &EntryPath, sizes: Pair<Option<u64>>, is_equal: bool) {
        let Pair { before, after } = sizes;
        let [old, new] = [before, after].map(|size| size.map(|size| Amount { count: 1, size }));
        let change = self.all.count(old, new, is_equal);
        if change != Change::Same {
            self.list.push(MemberChange { path: path.to_string(), change, before, after });
        }
    }
}

impl MemberChange {
    fn distance(&self) -> u64 {
        self.before.unwrap_or(0).abs_diff(self.after.unwrap_or(0))
    }
}
