//! The content of a split's parts, before they become nodes of a tree.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::gpu::BundleKey;
use crate::rope::ReadError;
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input};
use crate::split::{Destination, Plan, PlannedArchive};
use crate::tree::{Body, NodeId, NodeKind, Origin, OriginKind, Tree, TreeError};

/// A file, directory or symlink of a part, at its path in the input.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) path: EntryPath,
    pub(crate) attributes: Attributes,
    pub(crate) kind: NodeKind,
    pub(crate) origin: Origin,
}

impl Item {
    /// An unchanged entry of the input.
    pub(crate) fn of(entry: &Entry) -> Self {
        let kind = match &entry.kind {
            EntryKind::Directory => NodeKind::directory(),
            EntryKind::Symlink(target) => NodeKind::Symlink(Arc::clone(target)),
            EntryKind::File { content, link_group } => {
                NodeKind::File { body: Body::Ready(Arc::clone(content)), link_group: *link_group }
            }
        };
        let origin = Origin::of(OriginKind::Unchanged, &entry.path);
        Self { path: entry.path.clone(), attributes: entry.attributes, kind, origin }
    }

    /// The same item without its link group. Joined hard links may differ: archives are found from the directory of
    /// each.
    fn without_links(mut self) -> Self {
        if let NodeKind::File { link_group, .. } = &mut self.kind {
            *link_group = None;
        }
        self
    }

    /// Puts it into the directory that holds it.
    fn insert(self, tree: &mut Tree, directory: NodeId) -> Result<(), TreeError> {
        let node = tree.insert_into(directory, &self.path, self.attributes, self.kind)?;
        tree.set_origin(node, self.origin);
        Ok(())
    }
}

/// A layer of these items.
pub(crate) fn layer(
    tree: &mut Tree,
    root: Attributes,
    items: impl IntoIterator<Item = Item>,
) -> Result<NodeId, TreeError> {
    let layer = tree.layer(root)?;
    fill(tree, layer, items)?;
    Ok(layer)
}

/// Adds items to a directory.
pub(crate) fn fill(tree: &mut Tree, place: NodeId, items: impl IntoIterator<Item = Item>) -> Result<(), TreeError> {
    // The directory of the last item, which is most often that of the next.
    let mut last: Option<(EntryPath, NodeId)> = None;
    for item in items {
        let directory = match &last {
            Some((path, directory)) if path.directory() == item.path.directory() => *directory,
            _ => {
                let directory = tree.make_directory_of(place, &item.path, item.attributes)?;
                last = Some((item.path.clone(), directory));
                directory
            }
        };
        item.insert(tree, directory)?;
    }
    Ok(())
}

/// Everything that stays in the host part, without directories that contained nothing but databases.
pub(crate) fn host_part(input: &Input, plan: &Plan) -> Vec<Item> {
    let (mut used, mut occupied) = (HashSet::new(), HashSet::new());
    let mut items = Vec::with_capacity(input.entries.len());
    for (entry, place) in input.entries.iter().zip(&plan.places).rev() {
        let stays = match (place, &entry.kind) {
            (Destination::Host, EntryKind::Directory) => {
                let path = entry.path.as_bytes();
                used.contains(path) || !occupied.contains(path)
            }
            (Destination::Host | Destination::Rewritten { .. }, _) => true,
            (Destination::Device(..) | Destination::Held | Destination::Unwanted(..), _) => false,
        };
        let directory = entry.path.directory();
        occupied.insert(directory);
        if stays {
            used.insert(directory);
            items.push(host_item(entry, place, plan));
        }
    }
    items.reverse();
    items
}

fn host_item(entry: &Entry, place: &Destination, plan: &Plan) -> Item {
    match place {
        Destination::Rewritten { content, link_group, .. } => {
            let kind = NodeKind::File { body: Body::Ready(content.clone()), link_group: *link_group };
            let origin = Origin::of(OriginKind::Rewritten, &entry.path);
            Item { path: entry.path.clone(), attributes: entry.attributes, kind, origin }
        }
        Destination::Host | Destination::Device(..) | Destination::Held | Destination::Unwanted(..) => {
            unmoved_item(entry, plan)
        }
    }
}

/// An entry at its place in the input: as it is, or joined with its archives.
fn unmoved_item(entry: &Entry, plan: &Plan) -> Item {
    let item = Item::of(entry);
    if plan.joined.contains(&entry.path) {
        return Item { origin: Origin::of(OriginKind::Joined, &entry.path), ..item.without_links() };
    }
    if plan.made.contains(&entry.path) { Item { origin: Origin::default(), ..item } } else { item }
}

/// The input, with its split binaries joined with their archives.
pub(crate) fn fat_items(input: &Input, plan: &Plan) -> Vec<Item> {
    input.entries.iter().map(|entry| unmoved_item(entry, plan)).collect()
}

/// The databases and archives of each key, and what its device wheel holds.
pub(crate) fn device_parts<'a>(input: &Input, plan: &'a Plan) -> BTreeMap<&'a BundleKey, Vec<Item>> {
    let mut parts: BTreeMap<_, Vec<_>> = plan.keys.iter().map(|key| (key, Vec::new())).collect();
    let mut add = |key: &BundleKey, item| {
        if let Some(part) = parts.get_mut(key) {
            part.push(item);
        }
    };
    for (entry, place) in input.entries.iter().zip(&plan.places) {
        if let Destination::Device(key, _) = place {
            add(key, Item { origin: Origin::of(OriginKind::Database, &entry.path), ..Item::of(entry) });
        }
    }
    for archive in &plan.archives {
        add(&archive.key, archive_item(archive));
    }
    for (key, entry) in plan.held.iter().flat_map(|(key, held)| held.iter().map(move |entry| (key, entry))) {
        add(key, Item::of(entry));
    }
    parts
}

/// Whether its size is known already is found out at the first request for it.
fn archive_item(planned: &PlannedArchive) -> Item {
    let (path, kind) = (planned.path.clone(), NodeKind::file(Body::Made(planned.archive.clone())));
    Item { path, attributes: planned.attributes, kind, origin: Origin::made(OriginKind::Archive) }
}

/// Adds the directories above the items, with the attributes that `known` returns.
pub(crate) fn add_directories(items: &mut Vec<Item>, known: impl Fn(&EntryPath) -> Option<Attributes>) {
    let existing: HashSet<_> = items.iter().map(|item| item.path.clone()).collect();
    let mut directories = BTreeMap::new();
    for item in items.iter() {
        let mut path = item.path.parent();
        while let Some(directory) = path.filter(|directory| !directory.is_root() && !existing.contains(directory)) {
            if directories.contains_key(&directory) {
                break;
            }
            let (attributes, origin) = match known(&directory) {
                Some(attributes) => (attributes, Origin::of(OriginKind::Unchanged, &directory)),
                None => (Attributes { mode: 0o755, ..item.attributes }, Origin::default()),
            };
            path = directory.parent();
            directories.insert(directory, (attributes, origin));
        }
    }
    let directory = |(path, (attributes, origin))| Item { path, attributes, kind: NodeKind::directory(), origin };
    items.extend(directories.into_iter().map(directory));
    items.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Whether two items have the same content.
pub(crate) fn is_same(first: &Item, second: &Item) -> Result<bool, ReadError> {
    // Makes archives.
    let entry = |item: &Item| -> Result<EntryKind, ReadError> {
        Ok(match &item.kind {
            NodeKind::Directory(_) => EntryKind::Directory,
            NodeKind::Symlink(target) => EntryKind::Symlink(Arc::clone(target)),
            NodeKind::File { body, link_group } => {
                EntryKind::File { content: body.content()?, link_group: *link_group }
            }
        })
    };
    Ok(entry(first)?.difference(&entry(second)?)?.is_none())
}
