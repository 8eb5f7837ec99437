//! What a mount of a tree would show, without one: its names, attributes and bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};

use super::nodes::{NodeAttributes, Nodes};
use crate::near::near;
use crate::rope::Content;
use crate::source::{EntryPath, Resolved};
use crate::tree::{NodeId, NodeKind, ROOT, Tree};
use crate::view::HOST;

fn argument(path: &EntryPath) -> String {
    if path.is_root() { String::new() } else { format!(" {path}") }
}

/// A tree that is not mounted.
#[derive(Debug)]
pub(crate) struct Unmounted {
    tree: Arc<Tree>,
    nodes: Nodes,
}

/// A node at the path that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct ViewedNode {
    pub(crate) path: EntryPath,
    node: NodeId,
}

impl Unmounted {
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        Self { nodes: Nodes::new(Arc::clone(&tree)), tree }
    }

    /// The root.
    pub(crate) fn root() -> ViewedNode {
        ViewedNode { path: EntryPath::root(), node: ROOT }
    }

    /// The file that a program would open at a path.
    pub(crate) fn open_file(&self, path: &OsStr) -> anyhow::Result<ViewedNode> {
        let place = self.open(path)?;
        if self.is_directory(&place) {
            let name = if place.path.is_root() { "." } else { &place.path.to_string() };
            bail!("{name} is a directory; `kpackfs ls -R INPUT{}` lists the files in it", argument(&place.path));
        }
        Ok(place)
    }

    /// What is at a path. Symlinks are followed.
    fn open(&self, path: &OsStr) -> anyhow::Result<ViewedNode> {
        let path = parse(path)?;
        match self.tree.follow(&path) {
            Resolved::Entry(end) => self.tree.resolve(ROOT, &end).map(|node| ViewedNode { path: path.clone(), node }),
            Resolved::Outside(link) => bail!("{path}: its symlink {link} leads out of the views"),
            Resolved::Nothing => None,
        }
        .ok_or_else(|| self.not_there(&path))
    }

    /// What is at a path, for a listing: a symlink to a directory is that directory, and another one is itself.
    pub(crate) fn find(&self, path: &OsStr) -> anyhow::Result<ViewedNode> {
        let opened = self.open(path);
        if opened.as_ref().is_ok_and(|place| self.is_directory(place)) {
            return opened;
        }
        let path = parse(path)?;
        let directory = path.parent().map(|above| self.tree.follow(&above));
        let Some(Resolved::Entry(directory)) = directory else { return opened };
        let node = self.tree.resolve(ROOT, &directory).and_then(|above| self.tree.lookup(above, path.name()));
        node.map_or(opened, |node| Ok(ViewedNode { path, node }))
    }

    fn not_there(&self, path: &EntryPath) -> anyhow::Error {
        let above = std::iter::successors(path.parent(), EntryPath::parent);
        let existing = above.into_iter().find_map(|above| Some((self.tree.resolve(ROOT, &above)?, above)));
        let (node, existing) = existing.unwrap_or_else(|| (ROOT, EntryPath::root()));
        let names = self.nodes.children(node, 0).map(|(_, child)| existing.child(child.name).to_string());
        // A user types a path of the input.
        let in_host = EntryPath::new(&[HOST.as_bytes(), b"/", path.as_bytes()].concat()).ok();
        let in_host = in_host.filter(|path| self.tree.resolve(ROOT, path).is_some());
        let meant = in_host.map_or_else(|| near(&path.to_string(), names), |path| format!("; did you mean {path}?"));
        let listed = argument(&existing);
        anyhow!("there is no {path} in the views; `kpackfs ls INPUT{listed}` lists what is there{meant}")
    }

    pub(crate) fn is_directory(&self, place: &ViewedNode) -> bool {
        self.tree.node(place.node).is_some_and(|node| matches!(node.kind, NodeKind::Directory(_)))
    }

    /// What a listing of a directory shows, in order.
    pub(crate) fn children(&self, directory: &ViewedNode) -> impl Iterator<Item = ViewedNode> {
        let place = |name: &[u8], node| ViewedNode { path: directory.path.child(name), node };
        self.nodes.children(directory.node, 0).map(move |(_, child)| place(child.name, child.node))
    }

    /// The attributes. Makes a file of unknown size if `is_sized`.
    pub(crate) fn attributes(&self, place: &ViewedNode, is_sized: bool) -> anyhow::Result<NodeAttributes> {
        let node = place.node;
        let renewed = self.nodes.renew(node);
        let found = renewed
            .and_then(|()| if is_sized { self.nodes.attributes(node) } else { self.nodes.known_attributes(node) });
        found.with_context(|| place.path.to_string())
    }

    /// The target, if it is a symlink.
    pub(crate) fn target(&self, place: &ViewedNode) -> Option<&[u8]> {
        self.nodes.target(place.node).ok()
    }

    /// The bytes of a file. Makes them if necessary.
    pub(crate) fn content(&self, file: &ViewedNode) -> anyhow::Result<Arc<dyn Content>> {
        self.nodes.content(file.node).with_context(|| file.path.to_string())
    }
}

/// A path below a mount point, in any spelling that does not leave it.
fn parse(path: &OsStr) -> anyhow::Result<EntryPath> {
    let names = path.as_bytes().split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let names = names.collect::<Vec<_>>().join(&b'/');
    let parsed = if names.is_empty() { Ok(EntryPath::root()) } else { EntryPath::new(&names) };
    parsed.with_context(|| path.to_string_lossy().into_owned())
}
