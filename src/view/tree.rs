//! A tree of nodes: directories, symlinks and files with a rope each.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::origin::Origin;
use crate::rope::{Content, Make, ReadError};
use crate::source::{Attributes, EntryPath};

/// Number of a node, from 1 (the root) upwards. The same input and options give the same numbers.
pub type NodeId = u64;

/// The set-user-ID and set-group-ID bits (`inode(7)`).
const SET_ID: u16 = 0o6000;

/// The root directory of every tree.
pub const ROOT: NodeId = 1;

/// Everything that a mount shows, or that `split` writes.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// One file, directory or symlink.
#[derive(Debug)]
pub struct Node {
    /// The directory that holds it; the root is its own parent.
    pub parent: NodeId,
    /// Permissions, owner and time.
    pub attributes: Attributes,
    /// What it is.
    pub kind: NodeKind,
    /// Where it comes from.
    pub origin: Origin,
}

/// What a node is.
#[derive(Debug)]
pub enum NodeKind {
    /// A directory with its children, sorted by name.
    Directory(Vec<Child>),
    /// A symlink, with the text it holds.
    Symlink(Arc<[u8]>),
    /// A regular file. Other nodes may be hard links to it.
    File {
        /// Its bytes.
        body: Body,
        /// Nodes in the same view with the same number are one file.
        link_group: Option<u64>,
    },
}

/// A name in a directory.
#[derive(Debug)]
pub struct Child {
    /// The name, without slashes.
    pub name: Arc<[u8]>,
    /// The node it leads to.
    pub node: NodeId,
    /// Whether the name is left out of listings although it can be opened.
    pub hidden: bool,
}

/// Where the bytes of a file come from.
#[derive(Clone, Debug)]
pub enum Body {
    /// They are known, and so is their number.
    Ready(Arc<dyn Content>),
    /// Their number is known only after work.
    Made(Arc<dyn Make>),
    /// They change: a report that is written anew each time somebody looks.
    Live(Arc<dyn Report>),
}

/// A text that tells the state of things now.
pub trait Report: Send + Sync + fmt::Debug {
    /// The text, at most [`Report::size`] bytes of it. Writing it is no work and waits for nobody.
    fn text(&self) -> String;

    /// Every reader sees exactly this many bytes: the text is filled up with spaces and a newline.
    fn size(&self) -> u64;

    /// The text in its fixed size.
    fn bytes(&self) -> Vec<u8> {
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let mut bytes = self.text().into_bytes();
        bytes.resize(size.saturating_sub(1), b' ');
        bytes.push(b'\n');
        bytes
    }
}

impl Body {
    /// The size if it is known without work.
    pub fn known_size(&self) -> Option<u64> {
        match self {
            Self::Ready(content) => Some(content.size()),
            Self::Made(make) => make.made().map(|content| content.size()),
            Self::Live(report) => Some(report.size()),
        }
    }

    /// The bytes, made now if need be.
    pub fn content(&self) -> Result<Arc<dyn Content>, ReadError> {
        match self {
            Self::Ready(content) => Ok(Arc::clone(content)),
            Self::Made(make) => make.make(),
            Self::Live(report) => {
                Ok(Arc::new(crate::rope::Rope::new([crate::rope::Segment::literal(report.bytes())])?))
            }
        }
    }
}

/// Why a path cannot be put into a tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Something is at this path already.
    #[error("{0}: two entries claim this path")]
    Occupied(EntryPath),
    /// A file or symlink stands where a directory is needed.
    #[error("{0}: a file or symlink stands where a directory is needed")]
    NotADirectory(EntryPath),
}

impl Tree {
    /// A tree that holds an empty root directory.
    pub fn new(root: Attributes) -> Self {
        let node =
            Node { parent: ROOT, attributes: root, kind: NodeKind::Directory(Vec::new()), origin: Origin::default() };
        Self { nodes: vec![node] }
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::try_from(id.checked_sub(1)?).ok()?)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never true: there is always a root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The children of a directory; `None` if the node is not one.
    pub fn children(&self, id: NodeId) -> Option<&[Child]> {
        match &self.node(id)?.kind {
            NodeKind::Directory(children) => Some(children),
            NodeKind::Symlink(_) | NodeKind::File { .. } => None,
        }
    }

    /// What `name` leads to in the directory `parent`.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let children = self.children(parent)?;
        // While a tree is filled in order, it is the last one or none.
        match children.last().map(|last| (*last.name).cmp(name)) {
            None | Some(Ordering::Less) => return None,
            Some(Ordering::Equal) => return children.last().map(|last| last.node),
            Some(Ordering::Greater) => {}
        }
        let found = children.binary_search_by(|child| (*child.name).cmp(name)).ok()?;
        children.get(found).map(|child| child.node)
    }

    /// What a path leads to from `start`; symlinks are not followed.
    pub fn resolve(&self, start: NodeId, path: &EntryPath) -> Option<NodeId> {
        path.components().try_fold(start, |node, name| self.lookup(node, name))
    }

    /// Number of directories directly below `id`, for its link count.
    pub fn subdirectories(&self, id: NodeId) -> usize {
        let is_directory = |child: &&Child| self.children(child.node).is_some();
        self.children(id).unwrap_or_default().iter().filter(is_directory).count()
    }

    /// Puts a node at `path` below `start`. Directories on the way are made if they are missing, with the attributes
    /// of the last one that was there. A directory that is there already only takes over the attributes.
    pub fn insert(
        &mut self,
        start: NodeId,
        path: &EntryPath,
        attributes: Attributes,
        kind: NodeKind,
    ) -> Result<NodeId, TreeError> {
        let Some(parent_path) = path.parent() else { return Err(TreeError::Occupied(path.clone())) };
        let mut parent = start;
        for name in parent_path.components() {
            parent = if let Some(next) = self.lookup(parent, name) {
                next
            } else {
                let attributes = self.node(parent).map_or(attributes, |node| node.attributes);
                self.add(parent, name, attributes, NodeKind::Directory(Vec::new()), path)?
            };
        }
        match (self.lookup(parent, path.name()), &kind) {
            (None, _) => self.add(parent, path.name(), attributes, kind, path),
            (Some(there), NodeKind::Directory(_)) if self.children(there).is_some() => {
                if let Some(node) = self.node_mut(there) {
                    node.attributes = attributes;
                }
                Ok(there)
            }
            (Some(_), _) => Err(TreeError::Occupied(path.clone())),
        }
    }

    /// Puts copies of all that the directory `from` holds into the empty directory `to`, with the numbers that inserting
    /// them in the order of their paths would give.
    pub fn copy(&mut self, from: NodeId, to: NodeId) {
        let mut copies = Vec::with_capacity(self.children(from).map_or(0, <[Child]>::len));
        while let Some(child) = self.children(from).and_then(|children| children.get(copies.len())) {
            let (original, name, hidden) = (child.node, Arc::clone(&child.name), child.hidden);
            let Some(Node { attributes, kind, origin, .. }) = self.node(original) else { return };
            let kind = match kind {
                NodeKind::Directory(_) => NodeKind::Directory(Vec::new()),
                NodeKind::Symlink(target) => NodeKind::Symlink(Arc::clone(target)),
                NodeKind::File { body, link_group } => NodeKind::File { body: body.clone(), link_group: *link_group },
            };
            self.nodes.push(Node { parent: to, attributes: *attributes, kind, origin: origin.clone() });
            let node = self.nodes.len() as NodeId;
            copies.push(Child { name, node, hidden });
            self.copy(original, node);
        }
        if let Some(Node { kind: NodeKind::Directory(children), .. }) = self.node_mut(to) {
            *children = copies;
        }
    }

    /// Says where a node comes from; nodes are made from nothing unless this says otherwise.
    pub fn set_origin(&mut self, id: NodeId, origin: Origin) {
        if let Some(node) = self.node_mut(id) {
            node.origin = origin;
        }
    }

    /// Clears set-user-ID and set-group-ID bits; the entries of the input that had some, sorted.
    pub fn clear_set_id(&mut self) -> Vec<EntryPath> {
        let mut cleared = BTreeSet::new();
        for node in self.nodes.iter_mut().filter(|node| node.attributes.mode & SET_ID != 0) {
            node.attributes.mode &= !SET_ID;
            cleared.extend(node.origin.entry().cloned());
        }
        cleared.into_iter().collect()
    }

    /// Leaves `name` in the directory `parent` out of listings.
    pub fn hide(&mut self, parent: NodeId, name: &[u8]) {
        if let Some(Node { kind: NodeKind::Directory(children), .. }) = self.node_mut(parent)
            && let Some(child) = children.iter_mut().find(|child| *child.name == *name)
        {
            child.hidden = true;
        }
    }

    fn add(
        &mut self,
        parent: NodeId,
        name: &[u8],
        attributes: Attributes,
        kind: NodeKind,
        path: &EntryPath,
    ) -> Result<NodeId, TreeError> {
        let id = self.nodes.len() as NodeId + 1;
        let Some(Node { kind: NodeKind::Directory(children), .. }) = self.node_mut(parent) else {
            return Err(TreeError::NotADirectory(path.clone()));
        };
        let at = children.partition_point(|child| *child.name < *name);
        children.insert(at, Child { name: name.into(), node: id, hidden: false });
        self.nodes.push(Node { parent, attributes, kind, origin: Origin::default() });
        Ok(id)
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(id.checked_sub(1)?).ok()?)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const ATTRIBUTES: Attributes = Attributes { mode: 0o755, uid: 1, gid: 2, mtime: 3, mtime_nanoseconds: 4 };

    fn fill(tree: &mut Tree, place: NodeId) {
        for (number, path) in ["a", "a/b", "a/b/c", "a/b.x", "a-b", "d", "d/e"].into_iter().enumerate() {
            let kind = match path {
                "a" | "a/b" | "d" => NodeKind::Directory(Vec::new()),
                path => NodeKind::Symlink(path.as_bytes().into()),
            };
            let attributes = Attributes { mode: u16::try_from(number).unwrap(), ..ATTRIBUTES };
            let path = EntryPath::new(path.as_bytes()).unwrap();
            let node = tree.insert(place, &path, attributes, kind).unwrap();
            tree.set_origin(node, Origin::of(super::super::origin::OriginKind::Unchanged, &path));
        }
    }

    #[test]
    fn a_copy_is_what_inserting_everything_again_makes() {
        let [mut copied, mut inserted] = [(); 2].map(|()| Tree::new(ATTRIBUTES));
        for tree in [&mut copied, &mut inserted] {
            for name in [b"one", b"two"] {
                let path = EntryPath::new(name).unwrap();
                tree.insert(ROOT, &path, ATTRIBUTES, NodeKind::Directory(Vec::new())).unwrap();
            }
            fill(tree, 2);
        }
        copied.copy(2, 3);
        fill(&mut inserted, 3);
        assert_eq!(copied.len(), 3 + 2 * 7);
        assert_eq!(format!("{copied:?}"), format!("{inserted:?}"));
    }
}
