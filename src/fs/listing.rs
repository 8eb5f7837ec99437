//! Listings of directories, with attributes and without.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::nodes::{Answer, Nodes};
use super::requests::Shared;
use crate::view::NodeId;

/// Answers with the names from `offset` on.
pub(super) fn names(nodes: &Nodes, node: NodeId, offset: u64, mut reply: ReplyDirectory) {
    for (position, dots, number) in [(0, ".", node), (1, "..", nodes.parent(node))] {
        if offset <= position && reply.add(INodeNo(number), position + 1, FileType::Directory, dots) {
            return reply.ok();
        }
    }
    for (position, child) in nodes.children(node, child_at(offset)) {
        let number = INodeNo(nodes.number(child.node));
        if reply.add(number, offset_after(position), nodes.kind(child.node), OsStr::from_bytes(&child.name)) {
            break;
        }
    }
    reply.ok();
}

/// Whether only the two entries are told that the kernel ignores.
///
/// It begins every listing by asking for attributes, even that of a plain `ls`, and there is no way to give it an entry
/// without a size. So if sizes would be work, it goes on from there without asking for attributes, unless somebody has
/// asked for some in this directory since (fs/fuse/readdir.c, `fuse_use_readdirplus`). Where all sizes are known, it is told
/// at the beginning to ask for attributes always.
fn is_put_off(nodes: &Nodes, node: NodeId, offset: u64) -> bool {
    offset == 0 && nodes.has_unsized(node, 0)
}

/// Whether [`names_and_attributes`] is no work.
pub(super) fn is_prompt(nodes: &Nodes, node: NodeId, offset: u64) -> bool {
    is_put_off(nodes, node, offset) || !nodes.has_unsized(node, child_at(offset))
}

/// Whether there is nothing to list from `offset` on, which the kernel asks for at the end of every listing.
pub(super) fn is_end(nodes: &Nodes, node: NodeId, offset: u64) -> bool {
    nodes.children(node, child_at(offset)).next().is_none()
}

/// Answers with the names from `offset` on, and with the attributes of what they lead to.
pub(super) fn names_and_attributes(shared: &Shared, node: NodeId, offset: u64, mut reply: ReplyDirectoryPlus) {
    let nodes = &shared.nodes;
    let is_put_off = shared.guarded("readdirplus", node, || Ok(is_put_off(nodes, node, offset)));
    for (position, dots, number) in [(0, ".", node), (1, "..", nodes.parent(node))] {
        let found = shared.guarded("readdirplus", number, || nodes.attributes(number));
        if let Ok(found) = found
            && offset <= position
            && add(&mut reply, position + 1, OsStr::new(dots), &found)
        {
            return reply.ok();
        }
    }
    if is_put_off == Ok(true) {
        return reply.ok();
    }
    for (position, child) in nodes.children(node, child_at(offset)) {
        let number = nodes.number(child.node);
        let found = shared
            .guarded("readdirplus", number, || nodes.attributes(number))
            .or_else(|_| shared.guarded("readdirplus", number, || nodes.unsizable(number)));
        if let Ok(found) = found {
            if add(&mut reply, offset_after(position), OsStr::from_bytes(&child.name), &found) {
                break;
            }
            nodes.set_told(number, true);
        }
    }
    reply.ok();
}

fn add(reply: &mut ReplyDirectoryPlus, next: u64, name: &OsStr, found: &Answer) -> bool {
    // There is one time for both.
    let ttl = found.ttl.min(found.name_ttl);
    reply.add(found.attributes.ino, next, name, &ttl, &found.attributes, Generation(0))
}

/// The position of the first child to list from `offset` on. Offsets 0 and 1 are those of `.` and `..`.
fn child_at(offset: u64) -> usize {
    usize::try_from(offset.saturating_sub(2)).unwrap_or(usize::MAX)
}

/// The offset at which a listing goes on after the child at `position`.
fn offset_after(position: usize) -> u64 {
    position as u64 + 3
}
