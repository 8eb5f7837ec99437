//! Offload bundles in the data of binaries, without a wrapper. A program loads them by address, so they can be neither
//! moved nor reduced. TensorFlow has kernels that MLIR compiled in `.rodata`.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Destination, Plan};
use crate::binary::data_ranges;
use crate::fatbin::{Effort, search};
use crate::gpu::TargetId;
use crate::index::RecordKind;
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, Identity};
use crate::source::{EntryKind, EntryPath, Input};

/// The bundles of a binary to which no wrapper points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedded {
    /// Number of bundles.
    pub bundles: usize,
    /// Their bytes in the file.
    pub size: u64,
    /// The targets for which they have code.
    pub targets: BTreeSet<TargetId>,
    /// Whether the search stopped early, because too many places look like bundles.
    #[serde(skip)]
    pub is_unfinished: bool,
}

/// The binaries of an input that have such bundles, or may have more of them, in the order of the input. Reads their
/// data.
pub fn embedded(
    input: &Input,
    plan: &Plan,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Vec<(EntryPath, Embedded)> {
    let binaries = input.entries.iter().zip(&plan.places).filter_map(|(entry, place)| match (place, &entry.kind) {
        (Destination::Rewritten { content, .. }, _) => Some((&entry.path, content.original())),
        (Destination::Host | Destination::Held, EntryKind::File { content, .. }) => Some((&entry.path, content)),
        _ => None,
    });
    let binaries: Vec<_> = binaries.collect();
    progress.expect(binaries.iter().map(|(_, content)| content.size()).sum());
    let found = binaries.par_iter().with_max_len(1).filter_map(|(path, content)| {
        let found = find(content, resources);
        progress.advance(content.size());
        Some(((*path).clone(), found.filter(|found| found.bundles > 0 || found.is_unfinished)?))
    });
    found.collect()
}

/// The bundles of a file, from the index or by a search. `None` if it cannot be read, which planning has reported.
fn find(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Embedded> {
    let identity = content.identity().map(|identity| Identity::describe("embedded bundles").add(&identity.0).finish());
    if let Some(known) = identity.as_ref().and_then(|identity| resources.index.get(RecordKind::Scan, identity)) {
        return Some(known);
    }
    let mut found = Embedded::default();
    let mut effort = Effort::of(content.size());
    for range in data_ranges(content).ok()? {
        for bundle in search(content, range, resources, &mut effort).ok()? {
            found.bundles += 1;
            found.size += bundle.length();
            found.targets.extend(bundle.targets());
        }
    }
    found.is_unfinished = effort.is_spent();
    if let Some(identity) = identity.filter(|_| !found.is_unfinished) {
        resources.index.put(RecordKind::Scan, &identity, &found);
    }
    Some(found)
}
