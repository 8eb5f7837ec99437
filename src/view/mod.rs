//! What a user sees: the tree of host, device and merged views.

mod tree;

pub use tree::{Body, Child, Make, Node, NodeId, NodeKind, ROOT, Report, Tree, TreeError};
