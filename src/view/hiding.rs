//! What thin views hide in their layers.

use std::collections::BTreeSet;

use crate::tree::{NodeId, Tree};

/// Hides the nodes below a directory that are gone, and directories that contain nothing else. Returns whether nothing is
/// left of the directory.
pub(super) fn hide(
    tree: &Tree,
    directory: NodeId,
    is_gone: &dyn Fn(NodeId) -> bool,
    hidden: &mut BTreeSet<NodeId>,
) -> bool {
    let mut is_empty = true;
    for child in tree.children(directory).into_iter().flatten() {
        let is_hidden =
            is_gone(child.node) || (tree.children(child.node).is_some() && hide(tree, child.node, is_gone, hidden));
        if is_hidden {
            hidden.insert(child.node);
        }
        is_empty &= is_hidden;
    }
    is_empty
}
