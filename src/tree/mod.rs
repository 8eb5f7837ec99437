//! A tree of directories, symlinks and files with a rope each, and views of it.
//!
//! Nodes are stored once, in directories below the root or in *layers*. A layer is a directory outside of the tree. A
//! *view* shows stored directories over each other, as overlayfs does, at a place in the tree. A node in a view has the
//! number of the view and its stored index, so nothing is stored for each node of a view.

mod arena;
mod body;
mod build;
mod children;
mod found;
mod links;
mod narrow;
mod node;
mod origin;
mod sizes;
mod stack;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use self::arena::Arena;
use self::found::LookupCache;
use self::links::Links;
use self::node::{index_of, number};
use self::stack::Shown;
use crate::source::{Attributes, EntryPath, Resolved, resolve_links};

pub use self::body::{Body, LiveReport};
pub use self::build::TreeError;
pub use self::children::{Child, Children};
pub use self::found::Finder;
pub use self::node::{Directory, Node, NodeId, NodeKind, ROOT};
pub use self::origin::{Origin, OriginKind, PartRecord, States};
pub use self::stack::{Bodies, Hidden, View};

/// Everything that a mount serves or that `split` writes.
#[derive(Debug)]
pub struct Tree {
    arena: Arena,
    /// The views that are listed, by their numbers from 1 upwards.
    shown: Vec<Arc<Shown>>,
    finders: HashMap<u32, Arc<dyn Finder>>,
    found: Mutex<LookupCache>,
    links: Links,
    /// The times of made files, as seconds since 1970, each with the number of nodes that were stored when it was set.
    dates: Vec<(usize, i64)>,
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
        let other = self.other_body(view, index);
        if other.is_none() && view != 0 {
            // The stored body is not that of a view that was evicted.
            self.view(view)?;
        }
        Some(other.unwrap_or_else(|| body.clone()))
    }

    /// A view's replacement for the stored body of a file.
    fn other_body(&self, view: u32, index: u32) -> Option<Body> {
        self.view(view)?.bodies.as_ref()?.body(number(0, index))
    }

    /// Whether it is a file whose bytes are not those of an entry of the input.
    pub fn is_made(&self, id: NodeId) -> bool {
        let Some((view, index)) = index_of(id) else { return false };
        let Some(node) = self.arena.get(index) else { return false };
        let is_file = matches!(node.kind, NodeKind::File { .. });
        is_file && (node.origin.kind.is_made() || self.other_body(view, index).is_some())
    }

    /// The attributes of a node in its view. Made files have the time that [`Tree::date`] has set.
    pub fn attributes(&self, id: NodeId) -> Option<Attributes> {
        let attributes = self.node(id)?.attributes;
        let (_, index) = index_of(id)?;
        let dated = self.dates.partition_point(|&(nodes, _)| nodes <= index as usize);
        match self.dates.get(dated) {
            Some(&(_, mtime)) if self.is_made(id) => Some(Attributes { mtime, mtime_nanoseconds: 0, ..attributes }),
            _ => Some(attributes),
        }
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
        self.arena.nodes.iter()
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

    /// The place to which a path below the root leads. Absolute symlinks lead out of the tree.
    pub(crate) fn follow(&self, path: &EntryPath) -> Resolved {
        resolve_links(path, None, |path| Some(&self.node(self.resolve(ROOT, path)?)?.kind))
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
        laid_out.cloned().or_else(|| self.found.lock().views.get(&view).cloned())
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
        let known = self.found.lock().called(directory, name);
        let look_up = || {
            // No lock is held, because the finder may take long.
            let view = finder.find(name)?;
            self.found.lock().add(directory, name, view)
        };
        known.or_else(look_up)?.root()
    }
}
