//! Files that are offload bundles with code for several targets. Programs load them by name, as hipBLASLt does with
//! `hipblasltTransform.hsaco`. They stay whole in the host part, and are reduced in thin views.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::binary_code::{Holder, find};
use super::plan::{BundleFile, Destination};
use crate::database::CODE_SUFFIXES;
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, Input};

/// The files of an input that are bundles. Unreadable ones stay unchanged.
pub(super) fn bundle_files(input: &Input, places: &[Destination], resources: &Arc<Resources>) -> Vec<BundleFile> {
    let is_shown = |place: &Destination| matches!(place, Destination::Host | Destination::Device(..));
    let files =
        input.entries.iter().zip(places).filter(|(entry, place)| is_shown(place) && has_suffix(entry.path.as_bytes()));
    let files: Vec<_> = files.collect();
    let file = |(entry, _): &(&Entry, &Destination)| {
        let EntryKind::File { content, .. } = &entry.kind else { return None };
        let targets = targets_of_bundle_file(entry.path.name(), content, resources).filter(|it| it.len() > 1)?;
        Some(BundleFile { path: entry.path.clone(), targets })
    };
    files.par_iter().filter_map(file).collect()
}

/// Whether a file is called as a bundle may be.
fn has_suffix(name: &[u8]) -> bool {
    CODE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}

/// The targets for which a file of this name has code, if it is a bundle.
pub fn targets_of_bundle_file(
    name: &[u8],
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> Option<BTreeSet<TargetId>> {
    if !has_suffix(name) {
        return None;
    }
    let (code, _) = find(content, Holder::BundleFile, resources).ok()?;
    let code = code?;
    let bundle = code.bundles.first().filter(|bundle| bundle.is_file(content.size()))?;
    Some(bundle.targets())
}
