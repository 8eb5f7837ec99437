//! Nodes, and their numbers.

use std::sync::Arc;

use super::body::Body;
use super::origin::Origin;
use crate::source::{Attributes, PathStep};

/// Number of a node. The upper half is the number of its view, or 0 for stored nodes. The lower half is its index, from
/// 1 (the root) upwards. The same input and options give the same numbers.
pub type NodeId = u64;

/// The root directory of every tree.
pub const ROOT: NodeId = 1;

/// A stored file, directory or symlink.
#[derive(Debug)]
pub struct Node {
    /// Permissions, owner and time.
    pub attributes: Attributes,
    /// Its kind. Views may show another body; see [`super::Tree::body`].
    pub kind: NodeKind,
    /// Its origin.
    pub origin: Origin,
    pub(super) parent: u32,
    pub(super) name: Name,
    pub(super) hidden: bool,
}

/// The kind of a node.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A directory; see [`super::Tree::children`].
    Directory(Directory),
    /// A symlink, with its target.
    Symlink(Arc<[u8]>),
    /// A regular file. Other nodes may be hard links to it.
    File {
        /// Its bytes.
        body: Body,
        /// Nodes in the same view with the same number are hard links to one file.
        link_group: Option<u64>,
    },
}

impl<'a> From<&'a NodeKind> for PathStep<'a> {
    fn from(kind: &'a NodeKind) -> Self {
        match kind {
            NodeKind::Directory(_) => Self::Directory,
            NodeKind::Symlink(target) => Self::Symlink((&**target).into()),
            NodeKind::File { .. } => Self::File,
        }
    }
}

impl NodeKind {
    /// An empty directory.
    pub fn directory() -> Self {
        Self::Directory(Directory::default())
    }

    /// A file without other names.
    pub fn file(body: Body) -> Self {
        Self::File { body, link_group: None }
    }
}

/// The range of a node's name in the names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Name {
    pub(super) at: u32,
    pub(super) length: u8,
}

/// The content of a directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Indices of the children, sorted by name.
    pub(super) children: Vec<u32>,
    /// Number of subdirectories.
    pub(super) subdirectories: u32,
    /// The number of the view that is shown here; 0 if there is none.
    pub(super) view: u32,
}

/// The number of the node with this index in a view.
pub(super) fn number(view: u32, index: u32) -> NodeId {
    (u64::from(view) << 32) | (u64::from(index) + 1)
}

/// The view and the index of a node.
pub(super) fn index_of(id: NodeId) -> Option<(u32, u32)> {
    let view = u32::try_from(id >> 32).ok()?;
    let index = u32::try_from(id & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
    Some((view, index))
}

/// The index of a node that is stored.
pub(super) fn stored(id: NodeId) -> Option<u32> {
    index_of(id).filter(|&(view, _)| view == 0).map(|(_, index)| index)
}
