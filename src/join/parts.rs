//! The parts of a split laid over each other, as they are installed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use super::wheels::{JoinedWheel, WheelsError, as_one};
use crate::source::{Entry, EntryPath, Input, InputKind};
use crate::wheel::{Metadata, normalise};

/// The parts of a split as one tree, of which the host part comes first. Parts of a wheel are laid over each other as their
/// wheels are.
pub fn lay_over(mut parts: Vec<Input>) -> Result<Input, WheelsError> {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return Ok(only);
    }
    let metadata: Option<Vec<_>> = parts.iter().map(|part| part.dist_info().and(Metadata::read(part).ok())).collect();
    match metadata {
        Some(metadata) => {
            let wheel = |(input, metadata): (Input, Metadata)| JoinedWheel {
                path: input.location.clone(),
                name: normalise(&metadata.name),
                input,
                metadata,
            };
            as_one(parts.into_iter().zip(metadata).map(wheel).collect())
        }
        None => as_tree(parts),
    }
}

/// Of different files at one path, the first is taken.
fn as_tree(parts: Vec<Input>) -> Result<Input, WheelsError> {
    let (mut whole, mut entries) = (None::<Input>, BTreeMap::<EntryPath, Entry>::new());
    let mut warnings = Vec::new();
    for mut part in parts {
        for entry in std::mem::take(&mut part.entries) {
            match entries.entry(entry.path.clone()) {
                Slot::Vacant(slot) => drop(slot.insert(entry)),
                Slot::Occupied(first) => {
                    if let Some(reason) = first.get().kind.difference(&entry.kind)? {
                        let (path, place) = (&entry.path, part.location.display());
                        warnings.push(format!("{path}: that of {place} is left out: {reason} in an earlier part"));
                    }
                }
            }
        }
        warnings.append(&mut part.warnings);
        match &mut whole {
            Some(whole) => whole.tables.append(&mut part.tables),
            None => whole = Some(part),
        }
    }
    let mut whole = whole.ok_or_else(|| WheelsError::NotAWheel(std::path::PathBuf::new()))?;
    (whole.kind, whole.entries, whole.warnings) = (InputKind::Tree, entries.into_values().collect(), warnings);
    Ok(whole)
}
