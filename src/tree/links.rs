//! Hard links: which nodes of a view are one file.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::arena::Arena;
use super::stack::Shown;

/// The nodes with a link group, and a cache of answers about them.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Indices by group, in the order of layout.
    members: HashMap<u64, Vec<u32>>,
    /// The first link and the number of links, by place and group. Groups may be large, and each link is asked for.
    known: RwLock<HashMap<(LinkPlace, u64), (u32, u32)>>,
}

/// The scope in which links belong to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LinkPlace {
    View(u32),
    /// Below this stored directory, which is a child of the root, or of a layer's root.
    Stored(u32),
}

impl Links {
    pub(super) fn add(&mut self, group: u64, index: u32) {
        self.members.entry(group).or_default().push(index);
    }

    /// The first link to the file of the node `index` in a view, and the number of links in the view.
    pub(super) fn of(&self, arena: &Arena, view: Option<&Shown>, group: u64, index: u32) -> (u32, u32) {
        let place = view.map_or_else(|| LinkPlace::Stored(top(arena, index)), |view| LinkPlace::View(view.number));
        let known = self.known.read().get(&(place, group)).copied();
        known.unwrap_or_else(|| {
            let members = self.members.get(&group).map(Vec::as_slice).unwrap_or_default();
            let found = if let Some(view) = view {
                in_view(arena, view, members)
            } else {
                let existing = top(arena, index);
                first_and_number(members.iter().copied().filter(|&member| top(arena, member) == existing))
            };
            let found = found.unwrap_or((index, 1));
            self.known.write().insert((place, group), found);
            found
        })
    }
}

/// The links that a view shows, those of upper layers first.
fn in_view(arena: &Arena, view: &Shown, members: &[u32]) -> Option<(u32, u32)> {
    let mut shown: Vec<_> = members.iter().filter_map(|&member| Some((view.layer(arena, member)?, member))).collect();
    shown.sort_unstable();
    first_and_number(shown.into_iter().map(|(_, member)| member))
}

fn first_and_number(mut members: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
    let first = members.next()?;
    Some((first, u32::try_from(members.count()).unwrap_or(u32::MAX).saturating_add(1)))
}

/// The ancestor of a node that is in the root directory or a layer's root.
fn top(arena: &Arena, mut index: u32) -> u32 {
    while let Some(parent) = arena.above(index).filter(|&parent| parent != 0) {
        index = parent;
    }
    index
}
