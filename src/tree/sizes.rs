//! The size of what is below a node, as a copy of it on a disk has it.

use std::collections::HashSet;

use super::Tree;
use super::body::Body;
use super::node::{NodeId, NodeKind};
use crate::rope::SizeBounds;
use crate::source::EntryPath;

impl Body {
    /// The size, as far as it is known without work.
    pub fn bounds(&self) -> SizeBounds {
        match self {
            Self::Ready(content) => SizeBounds::exact(content.size()),
            Self::Made(make) => make.bounds(),
            Self::Live(report) => SizeBounds::exact(report.size()),
        }
    }

    /// Bytes of the files that are read to make it.
    pub fn work(&self) -> u64 {
        if let Self::Made(make) = self { make.work() } else { 0 }
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
        let mut linked = HashSet::new();
        let first =
            self.names_below(node).into_iter().filter(|(.., group)| group.is_none_or(|group| linked.insert(group)));
        first.map(|(path, body, _)| (path, body)).collect()
    }

    /// The same with all names. Those with the same number are hard links to one file.
    pub fn names_below(&self, node: NodeId) -> Vec<(EntryPath, Body, Option<u64>)> {
        let mut names = Vec::new();
        self.add_names(node, &EntryPath::root(), &mut names);
        names
    }

    fn add_names(&self, node: NodeId, path: &EntryPath, names: &mut Vec<(EntryPath, Body, Option<u64>)>) {
        match self.node(node).map(|node| &node.kind) {
            Some(NodeKind::Directory(_)) => {
                let children = self.children(node).into_iter().flatten();
                for child in children.filter(|child| !child.hidden) {
                    self.add_names(child.node, &path.child(child.name), names);
                }
            }
            Some(NodeKind::File { link_group, .. }) => {
                names.extend(self.body(node).map(|body| (path.clone(), body, *link_group)));
            }
            Some(NodeKind::Symlink(_)) | None => {}
        }
    }
}
