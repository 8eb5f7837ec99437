//! A tree for several GPUs in pieces: what all of them share, and what each adds to that.

use std::collections::BTreeSet;

use crate::gpu::TargetId;
use crate::source::EntryPath;
use crate::split::{MERGED, THIN};
use crate::tree::{NodeId, OriginKind, ROOT, Tree};

/// The piece that all GPUs share.
pub const COMMON: &str = "common";

/// The directory of the pieces in a tree.
const SHARED: &str = "shared";

/// Divides the views for single GPUs, which are the thin ones or the merged ones. Returns the pieces: their names, and their
/// places in the tree.
pub fn show_shared(tree: &mut Tree, gpus: &[TargetId], has_archives: bool) -> anyhow::Result<Vec<(String, EntryPath)>> {
    let (place, kinds) = if has_archives {
        (MERGED, [OriginKind::Archive, OriginKind::Database])
    } else {
        (THIN, [OriginKind::Rewritten, OriginKind::Database])
    };
    let of = |gpu: &TargetId| EntryPath::root().child(place.as_bytes()).child(gpu.to_string().as_bytes());
    let views: Vec<_> = gpus.iter().filter_map(|gpu| Some((gpu, tree.resolve(ROOT, &of(gpu))?))).collect();
    let mut of_gpus = BTreeSet::new();
    for (_, root) in &views {
        gather(tree, *root, &kinds, &mut of_gpus);
    }
    let piece = |name: &str| EntryPath::root().child(SHARED.as_bytes()).child(name.as_bytes());
    let others = |(_, first): &(_, NodeId)| tree.narrowed(*first, &|node| !of_gpus.contains(&node));
    let common = views.first().and_then(others).map(|view| (COMMON.to_owned(), view));
    let own = |(gpu, root): &(&TargetId, NodeId)| {
        Some((gpu.to_string(), tree.narrowed(*root, &|node| of_gpus.contains(&node))?))
    };
    let pieces: Vec<_> = common.into_iter().chain(views.iter().filter_map(own)).collect();
    let mut shown = Vec::new();
    for (name, view) in pieces {
        let place = piece(&name);
        tree.show(&place, view)?;
        shown.push((name, place));
    }
    Ok(shown)
}

/// The files of these kinds, by their numbers in the layers.
fn gather(tree: &Tree, directory: NodeId, kinds: &[OriginKind], found: &mut BTreeSet<NodeId>) {
    for child in tree.children(directory).into_iter().flatten() {
        if tree.children(child.node).is_some() {
            gather(tree, child.node, kinds, found);
        } else if tree.origin(child.node).is_some_and(|origin| kinds.contains(&origin.kind)) {
            found.extend(tree.stored_number(child.node));
        }
    }
}
