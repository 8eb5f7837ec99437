//! The children of a directory, which may come from several layers.

use std::iter::FusedIterator;
use std::sync::Arc;

use super::Tree;
use super::node::NodeId;
use super::stack::Shown;

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
