//! A view with some of its files only.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Tree;
use super::node::{NodeId, index_of, number};
use super::stack::{Shown, View};

impl Tree {
    /// The view at a node with those files and symlinks that `keeps` wants, by their numbers in the layers, and the
    /// directories that contain some; `None` if the node is not the root of a view.
    pub fn narrowed(&self, root: NodeId, keeps: &dyn Fn(NodeId) -> bool) -> Option<View> {
        let shown = self.view(index_of(root)?.0)?;
        let mut nodes = shown.hidden.nodes.clone();
        self.hide_others(&shown, &shown.roots, keeps, &mut nodes);
        let hidden = self.hidden(nodes);
        let layers = shown.roots.iter().map(|&index| number(0, index)).collect();
        Some(View { layers, hidden: Arc::new(hidden), bodies: shown.bodies.clone() })
    }

    /// The number of a node in the layer that has it.
    pub fn stored_number(&self, id: NodeId) -> Option<NodeId> {
        index_of(id).map(|(_, index)| number(0, index))
    }

    /// Hides what is not kept in the directories of the layers that form one directory. Returns whether something is left.
    fn hide_others(
        &self,
        shown: &Shown,
        parts: &[u32],
        keeps: &dyn Fn(NodeId) -> bool,
        hidden: &mut BTreeSet<NodeId>,
    ) -> bool {
        let names: BTreeSet<&[u8]> =
            parts.iter().flat_map(|&part| self.arena.children(part)).map(|&child| self.arena.name(child)).collect();
        let mut is_used = false;
        for name in names {
            let found: Vec<_> = shown.called(&self.arena, parts, name).collect();
            let Some(&first) = found.first() else { continue };
            let is_kept = if self.arena.directory(first).is_some() {
                let below = found.iter().copied().take_while(|&part| self.arena.directory(part).is_some());
                self.hide_others(shown, &below.collect::<Vec<_>>(), keeps, hidden)
            } else {
                keeps(number(0, first))
            };
            if !is_kept {
                hidden.extend(found.into_iter().map(|index| number(0, index)));
            }
            is_used |= is_kept;
        }
        is_used
    }
}
