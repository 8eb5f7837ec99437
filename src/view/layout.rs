//! The views of a split: `host/`, one directory per bundle key, `device/` and `merged/<target>/`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::report::fixed;
use super::tree::{Body, NodeId, NodeKind, ROOT, Tree, TreeError};
use super::wheels::{Record, WheelBody, WheelPart, WheelSet};
use crate::rope::{Make, ReadError};
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input};
use crate::split::{DEVICE, HOST, MERGED, Place, Plan, WHEELS};
use crate::target::{BundleKey, Level};
use crate::wheel::WheelError;

/// Reports of the mount itself. Not listed.
pub const REPORTS: &str = ".kpackfs";

/// Why a split cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Two things claim one path: something in the input stands where an archive has to go.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The input's dist-info cannot be used.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// Something in the input cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A target is asked for of which the input has nothing.
    #[error("--arch {wanted}: the input has nothing for it; it has code for {}", join(.there))]
    NoSuchArch {
        /// The target.
        wanted: BundleKey,
        /// What there is.
        there: Vec<BundleKey>,
    },
}

fn join(keys: &[BundleKey]) -> String {
    keys.iter().map(BundleKey::as_str).collect::<Vec<_>>().join(", ")
}

/// Something to put into a view, at its path in the input.
struct Item<'a> {
    path: EntryPath,
    attributes: Attributes,
    content: ItemContent<'a>,
}

enum ItemContent<'a> {
    Entry(&'a EntryKind),
    Body(Body, Option<u64>),
}

/// The tree that a mount shows. `arch` is overlaid on `host/` itself.
pub fn lay_out(
    input: &Input,
    plan: &Plan,
    wheels: Option<&WheelSet>,
    arch: &[BundleKey],
    reports: Vec<(&str, Body)>,
) -> Result<Tree, ViewError> {
    let mut host = host_part(input, plan);
    let mut devices: BTreeMap<_, _> = plan.keys.iter().map(|key| (key, device_part(input, plan, key))).collect();
    if let Some(wheels) = wheels {
        if let Some(part) = wheels.hosts.first() {
            become_unpacked_wheel(&mut host, input, wheels, part)?;
        }
        for (key, items) in &mut devices {
            if let Some(part) = wheels.devices.get(*key) {
                become_unpacked_wheel(items, input, wheels, part)?;
            }
        }
    }
    for items in devices.values_mut() {
        add_directories(items, input);
    }
    let root = Attributes { mode: 0o755, ..input.root };
    let mut tree = Tree::new(root);

    let place = directory(&mut tree, HOST, input.root)?;
    fill(&mut tree, place, &host)?;
    for wanted in arch {
        let chain = chain(plan, wanted);
        if chain.is_empty() {
            let there = plan.keys.iter().cloned().collect();
            return Err(ViewError::NoSuchArch { wanted: wanted.clone(), there });
        }
        for key in chain {
            overlay(&mut tree, place, devices.get(&key).map_or(&[], Vec::as_slice))?;
        }
    }
    for (key, items) in &devices {
        let place = directory(&mut tree, key.as_str(), input.root)?;
        fill(&mut tree, place, items)?;
        expect_sizes(&mut tree, place, items);
        let target = format!("../{key}").into_bytes().into();
        tree.insert(ROOT, &path(&[DEVICE, key.as_str()]), root, NodeKind::Symlink(target))?;
    }
    for target in plan.keys.iter().filter(|key| key.level() == Level::Target) {
        let place = directory(&mut tree, &format!("{MERGED}/{target}"), input.root)?;
        fill(&mut tree, place, &host)?;
        for key in chain(plan, target) {
            overlay(&mut tree, place, devices.get(&key).map_or(&[], Vec::as_slice))?;
        }
    }
    if let Some(wheels) = wheels {
        show_wheels(&mut tree, input, wheels)?;
    }
    for (name, body) in reports {
        let kind = NodeKind::File { body, link_group: None };
        tree.insert(ROOT, &path(&[REPORTS, name]), Attributes { mode: 0o444, ..root }, kind)?;
    }
    tree.hide(ROOT, REPORTS.as_bytes());
    Ok(tree)
}

/// The parts that an installation for `wanted` consists of and that the input has.
fn chain(plan: &Plan, wanted: &BundleKey) -> Vec<BundleKey> {
    wanted.packaging_chain().into_iter().filter(|key| plan.keys.contains(key)).collect()
}

fn path(components: &[&str]) -> EntryPath {
    components.iter().fold(EntryPath::root(), |path, component| path.child(component.as_bytes()))
}

fn directory(tree: &mut Tree, name: &str, attributes: Attributes) -> Result<NodeId, TreeError> {
    let path = path(&name.split('/').collect::<Vec<_>>());
    tree.insert(ROOT, &path, attributes, NodeKind::Directory(Vec::new()))
}

fn fill(tree: &mut Tree, place: NodeId, items: &[Item<'_>]) -> Result<(), TreeError> {
    for item in items {
        tree.insert(place, &item.path, item.attributes, item.node())?;
    }
    Ok(())
}

/// Who looks into a device part, or into a directory of it that holds an archive, will want to know its size. This is
/// not so for the other views, which whoever runs a program looks into.
fn expect_sizes(tree: &mut Tree, place: NodeId, items: &[Item<'_>]) {
    for item in items {
        if let ItemContent::Body(Body::Made(make), _) = &item.content {
            let holder = item.path.parent().and_then(|path| tree.resolve(place, &path));
            for directory in [Some(place), holder.filter(|&holder| holder != place)].into_iter().flatten() {
                tree.expect(directory, Arc::clone(make));
            }
        }
    }
}

/// Adds a device part to a host part. Directories of the host part keep their attributes.
fn overlay(tree: &mut Tree, place: NodeId, items: &[Item<'_>]) -> Result<(), TreeError> {
    for item in items {
        let is_directory = matches!(item.content, ItemContent::Entry(EntryKind::Directory));
        // Chains of several targets share their upper parts.
        if tree.resolve(place, &item.path).is_none_or(|there| !is_directory && tree.children(there).is_some()) {
            tree.insert(place, &item.path, item.attributes, item.node())?;
        }
    }
    Ok(())
}

impl Item<'_> {
    fn node(&self) -> NodeKind {
        match &self.content {
            ItemContent::Entry(EntryKind::Directory) => NodeKind::Directory(Vec::new()),
            ItemContent::Entry(EntryKind::Symlink(target)) => NodeKind::Symlink(Arc::clone(target)),
            ItemContent::Entry(EntryKind::File { content, link_group }) => {
                NodeKind::File { body: Body::Ready(Arc::clone(content)), link_group: *link_group }
            }
            ItemContent::Body(body, link_group) => NodeKind::File { body: body.clone(), link_group: *link_group },
        }
    }
}

/// Everything that stays, without the directories that held nothing but databases.
fn host_part<'a>(input: &'a Input, plan: &Plan) -> Vec<Item<'a>> {
    let mut used = HashSet::new();
    let mut occupied = HashSet::new();
    let mut items = Vec::new();
    for (entry, place) in input.entries.iter().zip(&plan.places).rev() {
        let stays = match (place, &entry.kind) {
            (Place::Host, EntryKind::Directory) => used.contains(&entry.path) || !occupied.contains(&entry.path),
            (Place::Host | Place::Rewritten { .. }, _) => true,
            (Place::Device(..) | Place::Unwanted(..), _) => false,
        };
        if let Some(parent) = entry.path.parent() {
            if stays {
                used.insert(parent.clone());
            }
            occupied.insert(parent);
        }
        if stays {
            items.push(host_item(entry, place));
        }
    }
    items.reverse();
    items
}

fn host_item<'a>(entry: &'a Entry, place: &Place) -> Item<'a> {
    let content = match place {
        Place::Rewritten { content, link_group, .. } => ItemContent::Body(Body::Ready(content.clone()), *link_group),
        Place::Host | Place::Device(..) | Place::Unwanted(..) => ItemContent::Entry(&entry.kind),
    };
    Item { path: entry.path.clone(), attributes: entry.attributes, content }
}

/// The databases and archives of a key.
fn device_part<'a>(input: &'a Input, plan: &Plan, key: &BundleKey) -> Vec<Item<'a>> {
    let databases = input.entries.iter().zip(&plan.places).filter_map(|(entry, place)| match place {
        Place::Device(of, _) if of == key => {
            let content = ItemContent::Entry(&entry.kind);
            Some(Item { path: entry.path.clone(), attributes: entry.attributes, content })
        }
        _ => None,
    });
    let archives = plan.archives.iter().filter(|archive| archive.key == *key).map(|archive| {
        let make: Arc<dyn Make> = archive.archive.clone();
        let body = make.made().map_or(Body::Made(make), Body::Ready);
        let content = ItemContent::Body(body, None);
        Item { path: archive.path.clone(), attributes: archive.attributes, content }
    });
    databases.chain(archives).collect()
}

/// Adds the directories that the items are in.
fn add_directories(items: &mut Vec<Item<'_>>, input: &Input) {
    let mut directories = BTreeMap::new();
    for item in items.iter() {
        let mut path = item.path.parent();
        while let Some(directory) = path.filter(|directory| !directory.is_root()) {
            if directories.contains_key(&directory) {
                break;
            }
            let known = input.entry(&directory).map(|entry| entry.attributes);
            let attributes = known.unwrap_or(Attributes { mode: 0o755, ..item.attributes });
            path = directory.parent();
            directories.insert(directory, attributes);
        }
    }
    let directory = |(path, attributes)| Item { path, attributes, content: ItemContent::Entry(&EntryKind::Directory) };
    items.extend(directories.into_iter().map(directory));
    items.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Exchanges the input's dist-info for that of the part's wheel, so that the part is that wheel unpacked.
fn become_unpacked_wheel(
    items: &mut Vec<Item<'_>>,
    input: &Input,
    wheels: &WheelSet,
    part: &Arc<WheelPart>,
) -> Result<(), ViewError> {
    for mut item in std::mem::take(items) {
        if let Some(path) = wheels.path(part.part(), &item.path)? {
            item.path = path;
            items.push(item);
        }
    }
    let metadata = input.dist_info().and_then(|dist_info| input.entry(&dist_info.child(b"METADATA")));
    let attributes = metadata.map_or(Attributes { mode: 0o644, ..input.root }, |entry| entry.attributes);
    let mut add = |path, body| items.push(Item { path, attributes, content: ItemContent::Body(body, None) });
    for file in part.dist_info() {
        add(file.path.clone(), Body::Ready(Arc::clone(file.digest.content())));
    }
    let record = Record(Arc::clone(part));
    let body =
        if part.archives().next().is_some() { Body::Made(Arc::new(record)) } else { Body::Ready(record.make()?) };
    add(part.record_path()?, body);
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// The directory of `.whl` files.
fn show_wheels(tree: &mut Tree, input: &Input, wheels: &WheelSet) -> Result<(), ViewError> {
    let mtime_nanoseconds = wheels.fingerprint % 1_000_000_000;
    let attributes = Attributes { mode: 0o644, mtime_nanoseconds, ..input.root };
    let mut add = |name: &str, body: Body| {
        tree.insert(ROOT, &path(&[WHEELS, name]), attributes, NodeKind::File { body, link_group: None })
    };
    for part in wheels.hosts.iter().chain(wheels.devices.values()) {
        add(&part.file_name()?, Body::Made(Arc::new(WheelBody(Arc::clone(part)))))?;
    }
    if let Some((name, text)) = &wheels.variants_index {
        add(name, fixed(text.clone()))?;
    }
    Ok(())
}
