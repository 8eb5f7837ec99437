//! The tree of a mount of artifacts.

use std::sync::Arc;

use super::artifacts::ArtifactPart;
use crate::artifact::MANIFEST;
use crate::rope::{Rope, Segment};
use crate::source::{Attributes, EntryPath};
use crate::tree::{Body, NodeKind, Tree};
use crate::view::items::fill;
use crate::view::layout::{directory, show_reports};

/// The tree of a mount: a directory for each part.
pub fn lay_out_artifacts(parts: &[ArtifactPart], reports: Vec<(String, Body)>) -> anyhow::Result<Tree> {
    let owner =
        parts.first().map_or(Attributes { mode: 0, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 }, |it| it.root);
    let root = Attributes { mode: 0o755, ..owner };
    let mut tree = Tree::new(root);
    for part in parts {
        let place = directory(&mut tree, &part.name.to_string(), part.root)?;
        fill(&mut tree, place, part.items.iter().cloned())?;
        let text = Rope::new([Segment::literal(part.manifest.to_bytes())])?;
        let attributes = Attributes { mode: 0o644, ..part.root };
        let kind = NodeKind::file(Body::Ready(Arc::new(text)));
        tree.insert(place, &EntryPath::root().child(MANIFEST.as_bytes()), attributes, kind)?;
    }
    show_reports(&mut tree, &EntryPath::root(), root, reports)?;
    Ok(tree)
}
