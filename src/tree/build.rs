//! Building a tree. Only stored nodes change: `NodeId`s are of view 0.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Tree;
use super::arena::Arena;
use super::body::Body;
use super::found::{self, Finder};
use super::links::Links;
use super::node::{NodeId, NodeKind, ROOT, number, stored};
use super::origin::Origin;
use super::stack::{Hidden, Shown, View};
use crate::source::{Attributes, EntryPath};

/// The set-user-ID and set-group-ID bits (`inode(7)`).
const SET_ID: u16 = 0o6000;

/// Why a path cannot be added to a tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The path exists already.
    #[error("{0}: two entries claim this path")]
    Occupied(EntryPath),
    /// A file or symlink is at the path of a directory.
    #[error("{0}: a file or symlink is in place of a directory")]
    NotADirectory(EntryPath),
    /// There are more than 2^32 nodes, or bytes of names.
    #[error("{0}: there are too many files")]
    TooMany(EntryPath),
}

impl Tree {
    /// A tree with an empty root directory.
    pub fn new(root: Attributes) -> Self {
        let mut arena = Arena::default();
        arena.push(0, &[], root, NodeKind::directory());
        let (shown, finders, found) = (Vec::new(), HashMap::new(), Mutex::default());
        Self { arena, shown, finders, found, links: Links::default(), dates: Vec::new() }
    }

    /// An empty directory outside of the tree, for views to show.
    pub fn layer(&mut self, attributes: Attributes) -> Result<NodeId, TreeError> {
        let index = self.arena.push(0, &[], attributes, NodeKind::directory());
        index.map(|index| number(0, index)).ok_or_else(|| TreeError::TooMany(EntryPath::root()))
    }

    /// Adds a node at `path` below `start`. Missing directories on the way get the attributes of the last existing one.
    pub fn insert(
        &mut self,
        start: NodeId,
        path: &EntryPath,
        attributes: Attributes,
        kind: NodeKind,
    ) -> Result<NodeId, TreeError> {
        let directory = self.make_directory_of(start, path, attributes)?;
        self.insert_into(directory, path, attributes, kind)
    }

    /// The directory that holds `path` below `start`, made as [`Tree::insert`] does.
    pub fn make_directory_of(
        &mut self,
        start: NodeId,
        path: &EntryPath,
        attributes: Attributes,
    ) -> Result<NodeId, TreeError> {
        let mut parent = stored(start).ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        let mut names = path.components();
        names.next_back();
        for name in names {
            parent = if let Some(next) = self.arena.find(parent, name) {
                next
            } else {
                let attributes = self.arena.get(parent).map_or(attributes, |node| node.attributes);
                self.add(parent, name, attributes, NodeKind::directory(), path)?
            };
        }
        Ok(number(0, parent))
    }

    /// Puts a node into the directory that holds `path`, as [`Tree::insert`] does.
    pub fn insert_into(
        &mut self,
        directory: NodeId,
        path: &EntryPath,
        attributes: Attributes,
        kind: NodeKind,
    ) -> Result<NodeId, TreeError> {
        let directory = stored(directory).ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        let name = path.name();
        if path.is_root() || self.arena.find(directory, name).is_some() {
            return Err(TreeError::Occupied(path.clone()));
        }
        self.add(directory, name, attributes, kind, path).map(|index| number(0, index))
    }

    /// Sets the origin of a node. Without it, a node counts as made.
    pub fn set_origin(&mut self, id: NodeId, origin: Origin) {
        if let Some(node) = stored(id).and_then(|index| self.arena.get_mut(index)) {
            node.origin = origin;
        }
    }

    /// Sets the time of made files, in seconds since 1970: of all nodes that were stored since the last call. Without a
    /// call they have the times that they were inserted with.
    pub fn date(&mut self, seconds: i64) {
        self.dates.push((self.arena.nodes.len(), seconds));
    }

    /// Clears set-user-ID and set-group-ID bits. Returns the entries of the input that had some, sorted.
    pub fn clear_set_id(&mut self) -> Vec<EntryPath> {
        let mut cleared = BTreeSet::new();
        for node in self.arena.nodes.iter_mut().filter(|node| node.attributes.mode & SET_ID != 0) {
            node.attributes.mode &= !SET_ID;
            cleared.extend(node.origin.entry().cloned());
        }
        cleared.into_iter().collect()
    }

    /// Omits `name` of the directory `parent` from listings.
    pub fn hide(&mut self, parent: NodeId, name: &[u8]) {
        let child = stored(parent).and_then(|parent| self.arena.find(parent, name));
        if let Some(node) = child.and_then(|child| self.arena.get_mut(child)) {
            node.hidden = true;
        }
    }

    /// Adds a view at `path` below the root, which must not exist yet. Views are numbered in the order of these calls.
    pub fn show(&mut self, path: &EntryPath, view: View) -> Result<NodeId, TreeError> {
        let attributes = view.layers.first().and_then(|&top| self.node(top)).map(|top| top.attributes);
        let attributes = attributes.ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        if self.resolve(ROOT, path).is_some() {
            return Err(TreeError::Occupied(path.clone()));
        }
        let view_number = u32::try_from(self.shown.len() + 1).ok().filter(|&number| number < found::FIRST);
        let view_number = view_number.ok_or_else(|| TreeError::TooMany(path.clone()))?;
        let place = self.insert(ROOT, path, attributes, NodeKind::directory())?;
        let parent = self.node(place).map_or(0, |node| node.parent);
        let shown = Shown::new(view_number, parent, path.name(), view);
        let root = shown.root().ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        if let Some(directory) = stored(place).and_then(|place| self.arena.directory_mut(place)) {
            directory.view = view_number;
        }
        self.shown.push(Arc::new(shown));
        Ok(root)
    }

    /// Sets a finder for names that a stored directory does not have.
    pub fn find_with(&mut self, directory: NodeId, finder: Arc<dyn Finder>) {
        self.finders.extend(stored(directory).map(|index| (index, finder)));
    }

    /// Nodes of layers that a view is not to show.
    pub fn hidden(&self, nodes: BTreeSet<NodeId>) -> Hidden {
        let directories = nodes.iter().filter_map(|&node| self.parent(node)).collect();
        Hidden { nodes, directories }
    }

    /// Frees memory that was allocated in advance for more nodes.
    pub fn shrink(&mut self) {
        self.arena.shrink();
    }

    /// Fails unless layers can be laid over each other without hiding anything: a path in several of them must be a
    /// directory.
    pub fn are_disjoint(&self, layers: &[NodeId]) -> Result<(), TreeError> {
        let layers: Vec<_> = layers.iter().filter_map(|&layer| stored(layer)).collect();
        for (position, &layer) in layers.iter().enumerate() {
            let (above, _) = layers.split_at(position);
            self.is_disjoint(above, layer, &EntryPath::root())?;
        }
        Ok(())
    }

    /// Fails if `directory` and the directories `above` have a path in common that is neither a directory nor the same
    /// file.
    fn is_disjoint(&self, above: &[u32], directory: u32, path: &EntryPath) -> Result<(), TreeError> {
        for &child in self.arena.children(directory) {
            let name = self.arena.name(child);
            let existing: Vec<_> = above.iter().filter_map(|&above| self.arena.find(above, name)).collect();
            if existing.is_empty() {
                continue;
            }
            if existing.iter().all(|&node| self.is_one_file(node, child)) {
                continue;
            }
            let path = path.child(name);
            if existing.iter().chain([&child]).any(|&node| self.arena.directory(node).is_none()) {
                return Err(TreeError::Occupied(path));
            }
            self.is_disjoint(&existing, child, &path)?;
        }
        Ok(())
    }

    /// Whether two nodes have one content.
    fn is_one_file(&self, one: u32, other: u32) -> bool {
        let content = |node| match self.node(number(0, node)).map(|node| &node.kind) {
            Some(NodeKind::File { body: Body::Ready(content), .. }) => Some(content),
            _ => None,
        };
        content(one).zip(content(other)).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn add(
        &mut self,
        parent: u32,
        name: &[u8],
        attributes: Attributes,
        kind: NodeKind,
        path: &EntryPath,
    ) -> Result<u32, TreeError> {
        if self.arena.directory(parent).is_none_or(|directory| directory.view != 0) {
            return Err(TreeError::NotADirectory(path.clone()));
        }
        let group = match &kind {
            NodeKind::File { link_group, .. } => *link_group,
            NodeKind::Directory(_) | NodeKind::Symlink(_) => None,
        };
        let index = self.arena.add(parent, name, attributes, kind).ok_or_else(|| TreeError::TooMany(path.clone()))?;
        if let Some(group) = group {
            self.links.add(group, index);
        }
        Ok(index)
    }
}
