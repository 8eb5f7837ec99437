//! The children of a directory, which may come from several layers, or be some of them only; and the size of what is below a node, as a copy
//! of it on a disk has it.

use std::collections::{BTreeSet, HashSet};
use std::iter::FusedIterator;
use std::sync::Arc;

use super::Tree;
use super::body::Body;
use super::node::{NodeId, NodeKind, index_of, number};
use super::stack::{Shown, View};
use crate::rope::SizeBounds;
use crate::source::EntryPath;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    /// The name, without slashes.
    pub name: &'a [u8],
    /// Its node.
    pub node: NodeId,
    /// Whether the name is omitted from listings although it can be opened.
    pub hidden: bool,
}

/// The children of a directory, sorted by name.
#[derive(Clone, Debug)]
pub struct Children<'a> {
    pub(super) tree: &'a Tree,
    /// The view; `None` for a stored directory.
    pub(super) shown: Option<Arc<Shown>>,
    /// The remaining children of the layers' directories, uppermost first.
    pub(super) lists: Vec<&'a [u32]>,
    /// Whether some of them are hidden.
    pub(super) has_hidden: bool,
}

impl<'a> Children<'a> {
    fn child(&self, index: u32) -> Child<'a> {
        let hidden = self.tree.arena.get(index).is_some_and(|node| node.hidden);
        let view = self.shown.as_ref().map_or(0, |shown| shown.number);
        Child { name: self.tree.arena.name(index), node: self.tree.entered(view, index), hidden }
    }

    /// Whether the children are those of one stored directory.
    pub(super) fn is_plain(&self) -> bool {
        self.lists.len() == 1 && !self.has_hidden
    }

    /// Drops hidden children from the front of all lists.
    fn skip_hidden(&mut self) {
        let Some(shown) = self.shown.as_deref().filter(|_| self.has_hidden) else { return };
        for list in &mut self.lists {
            while let [first, rest @ ..] = *list
                && !shown.shows(*first)
            {
                *list = rest;
            }
        }
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = Child<'a>;

    fn next(&mut self) -> Option<Child<'a>> {
        self.skip_hidden();
        let arena = &self.tree.arena;
        // Of several with one name, the first one.
        let heads = self.lists.iter().filter_map(|list| list.first().copied());
        let next = heads.min_by(|&one, &other| arena.name(one).cmp(arena.name(other)))?;
        let name = arena.name(next);
        for list in &mut self.lists {
            if let [first, rest @ ..] = *list
                && arena.name(*first) == name
            {
                *list = rest;
            }
        }
        Some(self.child(next))
    }

    fn nth(&mut self, number: usize) -> Option<Child<'a>> {
        if self.is_plain()
            && let Some(list) = self.lists.first_mut()
        {
            *list = list.get(number..).unwrap_or_default();
            return self.next();
        }
        for _ in 0..number {
            self.next()?;
        }
        self.next()
    }
}

impl FusedIterator for Children<'_> {}

impl Tree {
    /// The view at a node with those files and symlinks that `keeps` wants, by their numbers in the layers, and the
    /// directories that contain some; `None` if the node is not the root of a view.
    pub fn narrowed(&self, root: NodeId, keeps: &dyn Fn(NodeId) -> bool) -> Option<View> {
        let shown = self.view(index_of(root)?.0)?;
        let mut nodes = shown.hidden.nodes.clone();
        self.hide_others(&shown, &shown.roots, keeps, &mut nodes);
        let hidden = self.hidden(nodes);
        let layers = shown.roots.iter().map(|&index| number(0, index)).collect();
        Some(View { layers, hidden: Arc::new(hidden), bodies: shown.bodies.clone() })
    }

    /// The number of a node in the layer that has it.
    pub fn stored_number(&self, id: NodeId) -> Option<NodeId> {
        index_of(id).map(|(_, index)| number(0, index))
    }

    /// Hides what is not kept in the directories of the layers that form one directory. Returns whether something is left.
    fn hide_others(
        &self,
        shown: &Shown,
        parts: &[u32],
        keeps: &dyn Fn(NodeId) -> bool,
        hidden: &mut BTreeSet<NodeId>,
    ) -> bool {
        let names: BTreeSet<&[u8]> =
            parts.iter().flat_map(|&part| self.arena.children(part)).map(|&child| self.arena.name(child)).collect();
        let mut is_used = false;
        for name in names {
            let found: Vec<_> = shown.called(&self.arena, parts, name).collect();
            let Some(&first) = found.first() else { continue };
            let is_kept = if self.arena.directory(first).is_some() {
                let below = found.iter().copied().take_while(|&part| self.arena.directory(part).is_some());
                self.hide_others(shown, &below.collect::<Vec<_>>(), keeps, hidden)
            } else {
                keeps(number(0, first))
            };
            if !is_kept {
                hidden.extend(found.into_iter().map(|index| number(0, index)));
            }
            is_used |= is_kept;
        }
        is_used
    }
}

impl Body {
    /// The size, as far as it is known without work.
    pub fn bounds(&self) -> SizeBounds {
        match self {
            Self::Ready(content) => SizeBounds::exact(content.size()),
            Self::Made(make) => make.bounds(),
            Self::Live(report) => SizeBounds::exact(report.size()),
        }
    }

    /// The files that it consists of; none if it is no archive of files.
    pub fn files(&self) -> Vec<(String, SizeBounds)> {
        match self {
            Self::Made(make) => make.files(),
            Self::Ready(_) | Self::Live(_) => Vec::new(),
        }
    }
}

impl Tree {
    /// The listed files below a node, or the node itself, with their paths below it. A file with several names has the first.
    pub fn files_below(&self, node: NodeId) -> Vec<(EntryPath, Body)> {
        let mut files = Vec::new();
        self.add_files(node, &EntryPath::root(), &mut HashSet::new(), &mut files);
        files
    }

    fn add_files(&self, node: NodeId, path: &EntryPath, linked: &mut HashSet<u64>, files: &mut Vec<(EntryPath, Body)>) {
        match self.node(node).map(|node| &node.kind) {
            Some(NodeKind::Directory(_)) => {
                let children = self.children(node).into_iter().flatten();
                for child in children.filter(|child| !child.hidden) {
                    self.add_files(child.node, &path.child(child.name), linked, files);
                }
            }
            Some(NodeKind::File { link_group, .. }) if link_group.is_none_or(|group| linked.insert(group)) => {
                files.extend(self.body(node).map(|body| (path.clone(), body)));
            }
            Some(NodeKind::File { .. } | NodeKind::Symlink(_)) | None => {}
        }
    }
}
