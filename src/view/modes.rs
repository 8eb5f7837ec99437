//! Databases for some modes of a GPU, such as `Kernels.so-000-gfx90a-xnack+.hsaco` of rocBLAS. Thin views for GPUs in other
//! modes do not show them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hiding::hide;
use crate::gpu::{GpuSet, TargetId};
use crate::source::EntryPath;
use crate::tree::{Hidden, NodeId, Tree};

/// What views hide if none of their GPUs can be in the modes of a target.
#[derive(Debug, Default)]
pub(super) struct HiddenModes(BTreeMap<TargetId, Hidden>);

impl HiddenModes {
    /// For the databases in these layers that `modes` has, by their paths in the input. Thin views hide `always` anyway.
    pub(super) fn of(
        tree: &Tree,
        layers: &[NodeId],
        modes: &BTreeMap<EntryPath, TargetId>,
        always: &BTreeSet<NodeId>,
    ) -> Self {
        let hidden = |target: &TargetId| {
            let is_gone = |node: NodeId| {
                let path = || tree.node(node)?.origin.entry();
                always.contains(&node) || path().and_then(|path| modes.get(path)) == Some(target)
            };
            let mut nodes = BTreeSet::new();
            for &layer in layers {
                hide(tree, layer, &is_gone, &mut nodes);
            }
            tree.hidden(nodes)
        };
        let targets: BTreeSet<_> = modes.values().collect();
        Self(targets.into_iter().map(|target| (target.clone(), hidden(target))).collect())
    }

    /// What a view for these GPUs hides in addition to `always`.
    pub(super) fn and(&self, always: &Arc<Hidden>, gpus: &GpuSet) -> Arc<Hidden> {
        let others = self.0.iter().filter(|(target, _)| !gpus.has_modes_of(target));
        others.fold(Arc::clone(always), |hidden, (_, other)| Arc::new(hidden.and(other)))
    }
}
