//! Databases for some modes of a GPU, such as `Kernels.so-000-gfx90a-xnack+.hsaco` of rocBLAS. Thin views for GPUs in other
//! modes do not show them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hiding::hide;
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::source::EntryPath;
use crate::tree::{Hidden, NodeId, Tree};

/// What views hide, in addition to what they hide anyway, if none of their GPUs can be in the modes of a target.
#[derive(Debug, Default)]
pub(super) struct HiddenModes(BTreeMap<TargetId, Hidden>);

impl HiddenModes {
    /// For the databases in the layers of their parts that `modes` has, by their paths in the input. A file that a device
    /// wheel holds for another GPU is in the layer of that wheel, and stays. Thin views hide `always` anyway.
    pub(super) fn of(
        tree: &Tree,
        layers: &BTreeMap<BundleKey, NodeId>,
        modes: &BTreeMap<EntryPath, TargetId>,
        always: &BTreeSet<NodeId>,
    ) -> Self {
        let hidden = |target: &TargetId| {
            let is_gone = |node: NodeId| {
                let path = || tree.node(node)?.origin.entry();
                always.contains(&node) || path().and_then(|path| modes.get(path)) == Some(target)
            };
            let mut nodes = BTreeSet::new();
            if let Some(&layer) = layers.get(&BundleKey::of(target)) {
                hide(tree, layer, &is_gone, &mut nodes);
            }
            tree.hidden(nodes.difference(always).copied().collect())
        };
        let targets: BTreeSet<_> = modes.values().collect();
        Self(targets.into_iter().map(|target| (target.clone(), hidden(target))).collect())
    }

    /// What a view for these GPUs hides.
    pub(super) fn and(&self, always: &Arc<Hidden>, gpus: &GpuSet) -> Arc<Hidden> {
        let others = self.0.iter().filter(|(target, _)| gpus.lacks_modes_of(target));
        others.fold(Arc::clone(always), |hidden, (_, other)| Arc::new(hidden.and(other)))
    }
}
