//! Views: layers over each other. A view only stores which layers it shows. The content of its directories is computed
//! from those of the layers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::arena::Arena;
use super::body::Body;
use super::node::{NodeId, number, stored};

/// The content of a view: stored directories over each other.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The layers, uppermost first. A path belongs to the first layer that has it. A directory shows the children of
    /// all layers.
    pub layers: Vec<NodeId>,
    /// Nodes of the layers that are not shown, by their numbers in the layers.
    pub hidden: Arc<Hidden>,
    /// Replacements for the bodies of some files.
    pub bodies: Option<Arc<dyn Bodies>>,
}

/// Nodes that views do not show.
#[derive(Debug, Default)]
pub struct Hidden {
    pub(super) nodes: BTreeSet<NodeId>,
    /// The directories that contain them.
    pub(super) directories: BTreeSet<NodeId>,
}

impl Hidden {
    /// What either of them hides.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { nodes: &self.nodes | &other.nodes, directories: &self.directories | &other.directories }
    }
}

/// Replacements for the bodies of files.
pub trait Bodies: Send + Sync + fmt::Debug {
    /// The body of the file with this number in its layer; `None` for the stored one.
    fn body(&self, file: NodeId) -> Option<Body>;
}

/// A view at its place in the tree.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) number: u32,
    /// The stored directory that contains it, and its name there.
    pub(super) parent: u32,
    pub(super) name: Box<[u8]>,
    pub(super) roots: Box<[u32]>,
    pub(super) hidden: Arc<Hidden>,
    pub(super) bodies: Option<Arc<dyn Bodies>>,
}

impl Shown {
    pub(super) fn new(number: u32, parent: u32, name: &[u8], view: View) -> Self {
        Self {
            number,
            parent,
            name: name.into(),
            roots: view.layers.into_iter().filter_map(stored).collect(),
            hidden: view.hidden,
            bodies: view.bodies,
        }
    }

    /// The root directory of the view: that of its uppermost layer.
    pub(super) fn root(&self) -> Option<NodeId> {
        self.roots.first().map(|&root| number(self.number, root))
    }

    /// Whether the view's directories are those of a single layer.
    fn is_plain(&self) -> bool {
        self.roots.len() == 1 && self.hidden.nodes.is_empty()
    }

    pub(super) fn shows(&self, index: u32) -> bool {
        self.hidden.nodes.is_empty() || !self.hidden.nodes.contains(&number(0, index))
    }

    /// Whether the view hides children of a layer's directory.
    pub(super) fn hides_in(&self, directory: u32) -> bool {
        self.hidden.directories.contains(&number(0, directory))
    }

    /// The layers' directories that form the view's directory `index`, uppermost first.
    pub(super) fn parts(&self, arena: &Arena, index: u32) -> Vec<u32> {
        if self.is_plain() {
            return vec![index];
        }
        let Some(names) = self.names(arena, index) else { return Vec::new() };
        names.into_iter().rev().fold(self.roots.to_vec(), |parts, name| self.below(arena, &parts, name))
    }

    /// The directories named `name` in `parts`, down to the first one that is not a directory.
    fn below(&self, arena: &Arena, parts: &[u32], name: &[u8]) -> Vec<u32> {
        self.called(arena, parts, name).take_while(|&found| arena.directory(found).is_some()).collect()
    }

    /// The children named `name` in `parts`. The view shows the first one.
    pub(super) fn called(&self, arena: &Arena, parts: &[u32], name: &[u8]) -> impl Iterator<Item = u32> {
        parts.iter().filter_map(move |&part| arena.find(part, name)).filter(|&found| self.shows(found))
    }

    /// The names from a layer's root to a node, in reverse. `None` if the node is in no layer of the view.
    fn names<'a>(&self, arena: &'a Arena, mut index: u32) -> Option<Vec<&'a [u8]>> {
        let mut names = Vec::new();
        while !self.roots.contains(&index) {
            names.push(arena.name(index));
            index = arena.above(index)?;
        }
        Some(names)
    }

    /// The view's directory that contains a node below the view's root.
    pub(super) fn parent(&self, arena: &Arena, index: u32) -> Option<u32> {
        self.parts(arena, arena.above(index)?).first().copied()
    }

    /// The number of the layer that has a node, if the view shows the node.
    pub(super) fn layer(&self, arena: &Arena, index: u32) -> Option<usize> {
        let parent = arena.above(index)?;
        let parts = self.parts(arena, parent);
        if self.called(arena, &parts, arena.name(index)).next() != Some(index) {
            return None;
        }
        let mut top = parent;
        loop {
            if let Some(layer) = self.roots.iter().position(|&root| root == top) {
                return Some(layer);
            }
            top = arena.above(top)?;
        }
    }
}
