//! Storage of a tree: every name, node and directory once.

use super::node::{Directory, Name, Node, NodeKind};
use crate::rope::head;
use crate::source::Attributes;
use crate::tree::Origin;

/// Nodes by index. The first one is the root. It is its own parent, and the parent of every layer's root.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
    /// The concatenated names of all nodes.
    names: Vec<u8>,
}

impl Arena {
    pub(super) fn get(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Node> {
        self.nodes.get_mut(index as usize)
    }

    /// The name of a node in its directory. Empty for the root of the tree and of layers.
    pub(super) fn name(&self, index: u32) -> &[u8] {
        let Some(Name { at, length }) = self.get(index).map(|node| node.name) else { return &[] };
        self.names.get(at as usize..).and_then(|rest| rest.get(..length.into())).unwrap_or_default()
    }

    pub(super) fn directory(&self, index: u32) -> Option<&Directory> {
        match &self.get(index)?.kind {
            NodeKind::Directory(directory) => Some(directory),
            NodeKind::Symlink(_) | NodeKind::File { .. } => None,
        }
    }

    pub(super) fn directory_mut(&mut self, index: u32) -> Option<&mut Directory> {
        match &mut self.get_mut(index)?.kind {
            NodeKind::Directory(directory) => Some(directory),
            NodeKind::Symlink(_) | NodeKind::File { .. } => None,
        }
    }

    /// The children of a directory, sorted by name. Empty for other nodes.
    pub(super) fn children(&self, index: u32) -> &[u32] {
        self.directory(index).map(|directory| &*directory.children).unwrap_or_default()
    }

    /// The directory that contains a node; `None` for the root.
    pub(super) fn above(&self, index: u32) -> Option<u32> {
        self.get(index).filter(|_| index != 0).map(|node| node.parent)
    }

    /// Number of children that are directories.
    pub(super) fn subdirectories(&self, index: u32) -> usize {
        self.directory(index).map_or(0, |directory| directory.subdirectories as usize)
    }

    /// The child of that name.
    pub(super) fn find(&self, directory: u32, name: &[u8]) -> Option<u32> {
        let children = self.children(directory);
        // While a tree is filled in order, it is either the last child or missing.
        if let Some(&last) = children.last().filter(|&&last| self.name(last) == name) {
            return Some(last);
        }
        children.get(self.rank(children, name)).copied().filter(|&found| self.name(found) == name)
    }

    /// Number of `children` with a smaller name.
    pub(super) fn rank(&self, children: &[u32], name: &[u8]) -> usize {
        // While a tree is filled in order, all names are smaller.
        if children.last().is_none_or(|&last| self.name(last) < name) {
            return children.len();
        }
        children.partition_point(|&child| self.name(child) < name)
    }

    /// Number of smaller names in both lists together, without duplicates. The time grows with the smaller names of the
    /// shorter list.
    pub(super) fn rank_in_both(&self, one: &[u32], other: &[u32], name: &[u8]) -> usize {
        let [one, other] = [one, other].map(|list| head(list, self.rank(list, name)));
        let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
        let is_twice = |&&child: &&u32| {
            let name = self.name(child);
            long.binary_search_by(|&existing| self.name(existing).cmp(name)).is_ok()
        };
        one.len() + other.len() - short.iter().filter(is_twice).count()
    }

    /// Frees memory that was allocated in advance for more nodes.
    pub(super) fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        self.names.shrink_to_fit();
        for node in &mut self.nodes {
            if let NodeKind::Directory(directory) = &mut node.kind {
                directory.children.shrink_to_fit();
            }
        }
    }

    /// Adds a node that is in no directory's list yet. `None` if there are too many nodes or names.
    pub(super) fn push(&mut self, parent: u32, name: &[u8], attributes: Attributes, kind: NodeKind) -> Option<u32> {
        let index = u32::try_from(self.nodes.len()).ok().filter(|&index| index < u32::MAX)?;
        let name_at = Name { at: u32::try_from(self.names.len()).ok()?, length: u8::try_from(name.len()).ok()? };
        self.names.extend_from_slice(name);
        self.nodes.push(Node { attributes, kind, origin: Origin::default(), parent, name: name_at, hidden: false });
        Some(index)
    }

    /// Adds a node to a directory that has no child of this name.
    pub(super) fn add(&mut self, parent: u32, name: &[u8], attributes: Attributes, kind: NodeKind) -> Option<u32> {
        let is_directory = matches!(kind, NodeKind::Directory(_));
        let at = self.rank(self.children(parent), name);
        let index = self.push(parent, name, attributes, kind)?;
        let directory = self.directory_mut(parent)?;
        directory.children.insert(at, index);
        directory.subdirectories += u32::from(is_directory);
        Some(index)
    }
}
