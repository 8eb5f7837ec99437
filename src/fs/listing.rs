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
        if reply.add(number, offset_after(position), nodes.kind(child.node), OsStr::from_bytes(child.name)) {
            break;
        }
    }
    reply.ok();
}

/// Whether there is nothing to list from `offset` on, which the kernel asks for at the end of every listing.
pub(super) fn is_end(nodes: &Nodes, node: NodeId, offset: u64) -> bool {
    nodes.children(node, child_at(offset)).next().is_none()
}

/// Answers with the names from `offset` on, and with the attributes of what they lead to.
///
/// The kernel asks for attributes at the beginning of every listing, even that of a plain `find`
/// (fs/fuse/readdir.c, `fuse_use_readdirplus`). So those of a file whose size is not known are listed as outdated, and the
/// kernel asks for them when a program wants to know.
pub(super) fn names_and_attributes(shared: &Shared, node: NodeId, offset: u64, mut reply: ReplyDirectoryPlus) {
    let nodes = &shared.nodes;
    for (position, dots, number) in [(0, ".", node), (1, "..", nodes.parent(node))] {
        if offset > position {
            continue;
        }
        let found = shared.guarded("readdirplus", number, || nodes.attributes(number));
        if let Ok(found) = found
            && add(&mut reply, position + 1, OsStr::new(dots), &found)
        {
            return reply.ok();
        }
    }
    for (position, child) in nodes.children(node, child_at(offset)) {
        let number = nodes.number(child.node);
        let found = shared.guarded("readdirplus", number, || {
            if nodes.is_sized(number) { nodes.attributes(number) } else { nodes.without_size(number) }
        });
        if let Ok(found) = found {
            if add(&mut reply, offset_after(position), OsStr::from_bytes(child.name), &found) {
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
