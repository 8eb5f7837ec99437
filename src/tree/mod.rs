//! A tree of directories, symlinks and files with a rope each, and views of it.
//!
//! Nodes are stored once, in directories below the root or in *layers*. A layer is a directory outside of the tree. A
//! *view* shows stored directories over each other, as overlayfs does, at a place in the tree. A node in a view has the
//! number of the view and its stored index, so nothing is stored for each node of a view.

mod arena;
mod body;
mod found;
mod links;
mod origin;
mod stack;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::arena::{Arena, Name};
use self::found::LookupCache;
use self::links::Links;
use self::stack::Shown;
use crate::source::{Attributes, EntryPath};

pub use self::arena::Directory;
pub use self::body::{Body, LiveReport};
pub use self::found::Finder;
pub use self::origin::{Origin, OriginKind, PartRecord, States};
pub use self::stack::{Bodies, Child, Children, Hidden, View};

/// Number of a node. The upper half is the number of its view, or 0 for stored nodes. The lower half is its index, from
/// 1 (the root) upwards. The same input and options give the same numbers.
pub type NodeId = u64;

/// The set-user-ID and set-group-ID bits (`inode(7)`).
const SET_ID: u16 = 0o6000;

/// The root directory of every tree.
pub const ROOT: NodeId = 1;

/// Everything that a mount serves or that `split` writes.
#[derive(Debug)]
pub struct Tree {
    arena: Arena,
    /// The views that are listed, by their numbers from 1 upwards.
    shown: Vec<Arc<Shown>>,
    finders: HashMap<u32, Arc<dyn Finder>>,
    found: LookupCache,
    links: Links,
}

/// A stored file, directory or symlink.
#[derive(Debug)]
pub struct Node {
    /// Permissions, owner and time.
    pub attributes: Attributes,
    /// Its kind. Views may show another body; see [`Tree::body`].
    pub kind: NodeKind,
    /// Its origin.
    pub origin: Origin,
    parent: u32,
    name: Name,
    hidden: bool,
}

/// The kind of a node.
#[derive(Debug)]
pub enum NodeKind {
    /// A directory; see [`Tree::children`].
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

impl NodeKind {
    /// An empty directory.
    pub fn directory() -> Self {
        Self::Directory(Directory::default())
    }
}

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

/// Building a tree. Only stored nodes change: `NodeId`s are of view 0.
impl Tree {
    /// A tree with an empty root directory.
    pub fn new(root: Attributes) -> Self {
        let mut arena = Arena::default();
        arena.push(0, &[], root, NodeKind::directory());
        let (shown, finders, found) = (Vec::new(), HashMap::new(), LookupCache::default());
        Self { arena, shown, finders, found, links: Links::default() }
    }

    /// An empty directory outside of the tree, for views to show.
    pub fn layer(&mut self, attributes: Attributes) -> Result<NodeId, TreeError> {
        let index = self.arena.push(0, &[], attributes, NodeKind::directory());
        index.map(|index| number(0, index)).ok_or_else(|| TreeError::TooMany(EntryPath::root()))
    }

    /// Adds a node at `path` below `start`. Missing directories on the way get the attributes of the last existing one.
    /// A directory that exists already only gets the attributes.
    pub fn insert(
        &mut self,
        start: NodeId,
        path: &EntryPath,
        attributes: Attributes,
        kind: NodeKind,
    ) -> Result<NodeId, TreeError> {
        let index = self.insert_stored(start, path, attributes, kind)?;
        Ok(number(0, index))
    }

    /// The directory that holds `path` below `start`, made as [`Tree::insert`] does.
    pub fn make_directory_of(
        &mut self,
        start: NodeId,
        path: &EntryPath,
        attributes: Attributes,
    ) -> Result<NodeId, TreeError> {
        let start = stored(start).ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        let directory = self.directory_of(start, path, attributes)?;
        Ok(number(0, directory))
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
        let index = self.put(directory, path, attributes, kind)?;
        Ok(number(0, index))
    }

    /// Sets the origin of a node. Without it, a node counts as made.
    pub fn set_origin(&mut self, id: NodeId, origin: Origin) {
        if let Some(node) = stored(id).and_then(|index| self.arena.get_mut(index)) {
            node.origin = origin;
        }
    }

    /// Clears set-user-ID and set-group-ID bits. Returns the entries of the input that had some, sorted.
    pub fn clear_set_id(&mut self) -> Vec<EntryPath> {
        let mut cleared = BTreeSet::new();
        for node in self.arena.iter_mut().filter(|node| node.attributes.mode & SET_ID != 0) {
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
        let place = self.insert_stored(ROOT, path, attributes, NodeKind::directory())?;
        let parent = self.arena.get(place).map_or(0, |node| node.parent);
        let shown = Shown::new(view_number, parent, path.name(), view);
        let root = shown.root().ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        if let Some(directory) = self.arena.directory_mut(place) {
            directory.view = view_number;
        }
        self.shown.push(Arc::new(shown));
        Ok(root)
    }

    /// Sets a finder for names that a stored directory does not have.
    pub fn find_with(&mut self, directory: NodeId, finder: Arc<dyn Finder>) {
        self.finders.extend(stored(directory).map(|index| (index, finder)));
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

    /// Fails if `directory` and the directories `above` have a path in common that is not a directory.
    fn is_disjoint(&self, above: &[u32], directory: u32, path: &EntryPath) -> Result<(), TreeError> {
        for &child in self.arena.children(directory) {
            let name = self.arena.name(child);
            let there: Vec<_> = above.iter().filter_map(|&above| self.arena.find(above, name)).collect();
            if there.is_empty() {
                continue;
            }
            let path = path.child(name);
            if there.iter().chain([&child]).any(|&node| self.arena.directory(node).is_none()) {
                return Err(TreeError::Occupied(path));
            }
            self.is_disjoint(&there, child, &path)?;
        }
        Ok(())
    }

    fn insert_stored(
        &mut self,
        start: NodeId,
        path: &EntryPath,
        attributes: Attributes,
        kind: NodeKind,
    ) -> Result<u32, TreeError> {
        let start = stored(start).ok_or_else(|| TreeError::NotADirectory(path.clone()))?;
        let directory = self.directory_of(start, path, attributes)?;
        self.put(directory, path, attributes, kind)
    }

    /// The directory that holds a path. What is missing is made.
    fn directory_of(&mut self, start: u32, path: &EntryPath, attributes: Attributes) -> Result<u32, TreeError> {
        let mut names = path.components();
        names.next_back();
        let mut parent = start;
        for name in names {
            parent = if let Some(next) = self.arena.find(parent, name) {
                next
            } else {
                let attributes = self.arena.get(parent).map_or(attributes, |node| node.attributes);
                self.add(parent, name, attributes, NodeKind::directory(), path)?
            };
        }
        Ok(parent)
    }

    /// Puts the node at a path into the directory that holds it.
    fn put(
        &mut self,
        directory: u32,
        path: &EntryPath,
        attributes: Attributes,
        kind: NodeKind,
    ) -> Result<u32, TreeError> {
        let name = path.name();
        match (self.arena.find(directory, name), &kind) {
            _ if path.is_root() => Err(TreeError::Occupied(path.clone())),
            (None, _) => self.add(directory, name, attributes, kind, path),
            (Some(there), NodeKind::Directory(_)) if self.arena.directory(there).is_some() => {
                if let Some(node) = self.arena.get_mut(there) {
                    node.attributes = attributes;
                }
                Ok(there)
            }
            (Some(_), _) => Err(TreeError::Occupied(path.clone())),
        }
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

/// Queries. Every answer is computed from stored nodes, and takes no lock but that of the views that were looked up.
impl Tree {
    /// The node with this number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        let (view, index) = index_of(id)?;
        if view != 0 {
            self.view(view)?;
        }
        self.arena.get(index)
    }

    /// The body of a file in its view.
    pub fn body(&self, id: NodeId) -> Option<Body> {
        let (view, index) = index_of(id)?;
        let NodeKind::File { body, .. } = &self.arena.get(index)?.kind else { return None };
        Some(self.other_body(view, index).unwrap_or_else(|| body.clone()))
    }

    /// A view's replacement for the stored body of a file.
    fn other_body(&self, view: u32, index: u32) -> Option<Body> {
        self.view(view)?.bodies.as_ref()?.body(number(0, index))
    }

    /// The origin of a node in its view.
    pub fn origin(&self, id: NodeId) -> Option<Origin> {
        let (view, index) = index_of(id)?;
        let origin = &self.node(id)?.origin;
        let other = self.other_body(view, index);
        Some(if other.is_some() { origin.replaced() } else { origin.clone() })
    }

    /// The stored nodes, in the order of insertion.
    pub fn stored(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.arena.iter()
    }

    /// Whether views replace no bodies, so that all sizes are those of stored bodies.
    pub fn is_as_stored(&self) -> bool {
        self.finders.is_empty() && self.shown.iter().all(|shown| shown.bodies.is_none())
    }

    /// The children of a directory; `None` if the node is not one.
    pub fn children(&self, id: NodeId) -> Option<Children<'_>> {
        let (view, index) = index_of(id)?;
        self.arena.directory(index)?;
        let shown = if view == 0 { None } else { Some(self.view(view)?) };
        let parts = shown.as_ref().map_or_else(|| vec![index], |shown| shown.parts(&self.arena, index));
        let has_hidden = shown.as_ref().is_some_and(|shown| parts.iter().any(|&part| shown.hides_in(part)));
        let lists = parts.into_iter().map(|part| self.arena.children(part)).collect();
        Some(Children { tree: self, shown, lists, has_hidden })
    }

    /// The node of `name` in the directory `parent`.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let (view, index) = index_of(parent)?;
        self.arena.directory(index)?;
        if view == 0 {
            let stored = self.arena.find(index, name).map(|found| self.entered(0, found));
            return stored.or_else(|| self.find(index, name));
        }
        let shown = self.view(view)?;
        let found = shown.called(&self.arena, &shown.parts(&self.arena, index), name).next();
        found.map(|found| number(view, found))
    }

    /// The node at a path below `start`. Symlinks are not followed.
    pub fn resolve(&self, start: NodeId, path: &EntryPath) -> Option<NodeId> {
        path.components().try_fold(start, |node, name| self.lookup(node, name))
    }

    /// The directory that contains a node. The root is its own parent.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        let (view, index) = index_of(id)?;
        if view == 0 {
            return self.arena.get(index).map(|node| number(0, node.parent));
        }
        let shown = self.view(view)?;
        if shown.root() == Some(id) {
            return Some(number(0, shown.parent));
        }
        shown.parent(&self.arena, index).map(|parent| number(view, parent))
    }

    /// The path of a node from the root, for messages.
    pub fn path(&self, id: NodeId) -> EntryPath {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            let Some((view, index)) = index_of(at) else { break };
            match self.view(view) {
                Some(shown) if shown.root() == Some(at) => names.push(shown.name.to_vec()),
                _ => names.push(self.arena.name(index).to_vec()),
            }
            let Some(parent) = self.parent(at) else { break };
            at = parent;
        }
        names.into_iter().rev().fold(EntryPath::root(), |path, name| path.child(&name))
    }

    /// The position of a node among the children of its directory.
    pub fn position(&self, id: NodeId) -> Option<usize> {
        let (_, index) = index_of(id)?;
        let children = self.children(self.parent(id)?)?;
        match *children.lists {
            [only] if children.is_plain() => Some(self.arena.rank(only, self.arena.name(index))),
            [one, other] if !children.has_hidden => Some(self.arena.rank_in_both(one, other, self.arena.name(index))),
            _ => children.into_iter().position(|child| child.node == id),
        }
    }

    /// Number of subdirectories of `id`, for its link count.
    pub fn subdirectories(&self, id: NodeId) -> usize {
        let Some(children) = self.children(id) else { return 0 };
        match index_of(id) {
            Some((_, index)) if children.is_plain() => self.arena.subdirectories(index),
            _ => children.filter(|child| self.is_directory(child.node)).count(),
        }
    }

    /// The node that represents all hard links to the file `id` in its view, and the number of links.
    pub fn links(&self, id: NodeId) -> (NodeId, u32) {
        let Some((view, index)) = index_of(id) else { return (id, 1) };
        let Some(NodeKind::File { link_group: Some(group), .. }) = self.arena.get(index).map(|node| &node.kind) else {
            return (id, 1);
        };
        let (first, links) = self.links.of(&self.arena, self.view(view).as_deref(), *group, index);
        (number(view, first), links)
    }

    fn is_directory(&self, id: NodeId) -> bool {
        index_of(id).is_some_and(|(_, index)| self.arena.directory(index).is_some())
    }

    fn view(&self, view: u32) -> Option<Arc<Shown>> {
        let laid_out = usize::try_from(view.checked_sub(1)?).ok().and_then(|at| self.shown.get(at));
        laid_out.cloned().or_else(|| self.found.get(view))
    }

    /// The number of a node in a view. For a stored directory that shows a view, it is that of the view's root.
    fn entered(&self, view: u32, index: u32) -> NodeId {
        let place = self.arena.directory(index).filter(|directory| view == 0 && directory.view != 0);
        let shown = place.and_then(|directory| self.shown.get(directory.view as usize - 1));
        shown.and_then(|shown| shown.root()).unwrap_or_else(|| number(view, index))
    }

    /// The view for a name that is not listed.
    fn find(&self, directory: u32, name: &[u8]) -> Option<NodeId> {
        let finder = self.finders.get(&directory)?;
        let known = self.found.called(directory, name);
        // No lock is held, because the finder may take long.
        let shown = known.or_else(|| self.found.add(directory, name, finder.find(name)?))?;
        shown.root()
    }
}

/// The number of the node with this index in a view.
fn number(view: u32, index: u32) -> NodeId {
    (u64::from(view) << 32) | (u64::from(index) + 1)
}

/// The view and the index of a node.
fn index_of(id: NodeId) -> Option<(u32, u32)> {
    let view = u32::try_from(id >> 32).ok()?;
    let index = u32::try_from(id & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
    Some((view, index))
}

/// The index of a node that is stored.
fn stored(id: NodeId) -> Option<u32> {
    index_of(id).filter(|&(view, _)| view == 0).map(|(_, index)| index)
}
