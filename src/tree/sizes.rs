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
