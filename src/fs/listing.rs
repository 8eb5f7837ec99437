//! Directory listings, with and without attributes.

use rustix::io::Errno;

use super::failure::Failure;
use super::nodes::{FileKind, NodeAttributes, Nodes};
use crate::rope::to_usize;
use crate::tree::NodeId;

/// Receives the names of a directory as long as there is room.
pub(super) trait NameSink {
    /// Adds a name, the number and kind of its node, and the offset at which the listing continues after it. Returns
    /// `true` if there is no room for it.
    fn add(&mut self, number: NodeId, next: u64, kind: FileKind, name: &[u8]) -> bool;
}

/// Receives the names of a directory with attributes as long as there is room.
pub(super) trait NamesAndAttributes {
    /// Adds a name, its node's attributes, and the offset at which the listing continues after it. Returns `true` if
    /// there is no room for it.
    fn add(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> bool;
}

/// Lists the names from `offset` on.
pub(super) fn names(nodes: &Nodes, node: NodeId, offset: u64, reply: &mut impl NameSink) {
    for (position, dots, number) in [(0, b".".as_slice(), node), (1, b"..", nodes.parent(node))] {
        if offset <= position && reply.add(number, position + 1, FileKind::Directory, dots) {
            return;
        }
    }
    for (position, child) in nodes.children(node, child_at(offset)) {
        let number = nodes.number(child.node);
        if reply.add(number, offset_after(position), nodes.kind(child.node), child.name) {
            return;
        }
    }
}

/// Whether nothing follows `offset`. The kernel asks for that at the end of every listing.
pub(super) fn is_end(nodes: &Nodes, node: NodeId, offset: u64) -> bool {
    nodes.children(node, child_at(offset)).next().is_none()
}

/// Lists the names from `offset` on, with attributes.
///
/// The kernel asks for attributes at the beginning of every listing, even that of a plain `find` (fs/fuse/readdir.c,
/// `fuse_use_readdirplus`). So the attributes of a file of unknown size are listed as expired, and the kernel asks
/// again when a program needs them.
///
/// `guarded` is the boundary of panics, and logs why attributes cannot be had.
pub(super) fn names_and_attributes(
    nodes: &Nodes,
    node: NodeId,
    offset: u64,
    reply: &mut impl NamesAndAttributes,
    guarded: impl Fn(NodeId, &dyn Fn() -> Result<NodeAttributes, Failure>) -> Result<NodeAttributes, Errno>,
) {
    for (position, dots, number) in [(0, b".".as_slice(), node), (1, b"..", nodes.parent(node))] {
        if offset > position {
            continue;
        }
        let found = guarded(number, &|| nodes.attributes(number));
        if found.is_ok_and(|found| reply.add(position + 1, dots, &found)) {
            return;
        }
    }
    for (position, child) in nodes.children(node, child_at(offset)) {
        let number = nodes.number(child.node);
        if let Ok(found) = guarded(number, &|| nodes.known_attributes(number)) {
            if reply.add(offset_after(position), child.name, &found) {
                return;
            }
            nodes.set_known(number, true);
        }
    }
}

/// The position of the first child to list from `offset` on. Offsets 0 and 1 are those of `.` and `..`.
fn child_at(offset: u64) -> usize {
    to_usize(offset.saturating_sub(2))
}

/// The offset at which a listing continues after the child at `position`.
fn offset_after(position: usize) -> u64 {
    position as u64 + 3
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::fs::filesystem::Filesystem;
    use crate::resources::Resources;
    use crate::rope::{Content, Materialize, ReadError, Rope, Segment};
    use crate::source::{Attributes, EntryPath};
    use crate::tree::{Body, NodeKind, ROOT, Tree, View};

    const ATTRIBUTES: Attributes = Attributes { mode: 0o755, uid: 1, gid: 2, mtime: 3, mtime_nanoseconds: 4 };

    /// A file that listing must not make.
    #[derive(Debug)]
    struct Never;

    impl Materialize for Never {
        fn made(&self) -> Option<Arc<dyn Content>> {
            None
        }

        fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
            panic!("made by a listing")
        }
    }

    /// A reply with room for a number of names.
    #[derive(Debug, Default)]
    struct ListingPage {
        room: usize,
        next: u64,
        names: Vec<(String, NodeId)>,
        kinds: Vec<FileKind>,
        answers: Vec<NodeAttributes>,
    }

    impl ListingPage {
        fn take(&mut self, next: u64, name: &[u8], number: NodeId, kind: FileKind) -> bool {
            if self.names.len() == self.room {
                return true;
            }
            self.next = next;
            self.names.push((String::from_utf8(name.to_vec()).unwrap(), number));
            self.kinds.push(kind);
            false
        }
    }

    impl NameSink for ListingPage {
        fn add(&mut self, number: NodeId, next: u64, kind: FileKind, name: &[u8]) -> bool {
            self.take(next, name, number, kind)
        }
    }

    impl NamesAndAttributes for ListingPage {
        fn add(&mut self, next: u64, name: &[u8], found: &NodeAttributes) -> bool {
            let is_full = self.take(next, name, found.number, found.kind);
            self.answers.extend((!is_full).then_some(*found));
            is_full
        }
    }

    /// `view` has two layers: from `host` the directories `d`, `lib` and the linked files `a` and `b`; from the other
    /// one more files in `lib`, and a file of unknown size.
    fn filesystem() -> (Arc<Filesystem>, NodeId) {
        let mut tree = Tree::new(ATTRIBUTES);
        let path = |path: &str| EntryPath::new(path.as_bytes()).unwrap();
        let file = |bytes: &str, link_group| {
            let rope = Rope::new([Segment::literal(bytes.as_bytes().to_vec())]).unwrap();
            NodeKind::File { body: Body::Ready(Arc::new(rope)), link_group }
        };
        let [upper, lower] = [(); 2].map(|()| tree.layer(ATTRIBUTES).unwrap());
        for (layer, name, kind) in [
            (upper, "a", file("linked", Some(1))),
            (upper, "b", file("linked", Some(1))),
            (upper, "d", NodeKind::directory()),
            (upper, "lib/x", file("x", None)),
            (lower, "lib/y", NodeKind::Symlink(Arc::from(&b"x"[..]))),
            (lower, "c.kpack", NodeKind::File { body: Body::Made(Arc::new(Never)), link_group: None }),
            (lower, "secret", file("", None)),
        ] {
            tree.insert(layer, &path(name), ATTRIBUTES, kind).unwrap();
        }
        tree.hide(lower, b"secret");
        let view = tree.show(&path("merged/view"), View { layers: vec![upper, lower], ..View::default() }).unwrap();
        (Filesystem::new(PathBuf::new(), Arc::new(tree), Resources::new(0), 0), view)
    }

    /// A listing in pages of `room` names.
    fn listed(room: usize, list: impl Fn(u64, &mut ListingPage)) -> ListingPage {
        let mut whole = ListingPage::default();
        loop {
            let mut page = ListingPage { room, ..ListingPage::default() };
            list(whole.next, &mut page);
            if page.names.is_empty() {
                return whole;
            }
            whole.next = page.next;
            whole.names.extend(page.names);
            whole.kinds.extend(page.kinds);
            whole.answers.extend(page.answers);
        }
    }

    fn plus(fs: &Filesystem, node: NodeId, offset: u64, page: &mut ListingPage) {
        let guarded = |node, work: &dyn Fn() -> Result<NodeAttributes, Failure>| fs.guarded("readdirplus", node, work);
        names_and_attributes(&fs.nodes, node, offset, page, guarded);
    }

    #[test]
    fn a_listing_is_complete_whatever_its_pages_are() {
        let (fs, view) = filesystem();
        let nodes = &fs.nodes;
        let merged = nodes.parent(view);
        let at = |name: &str| nodes.lookup(view, name.as_bytes()).unwrap();
        let expected: Vec<_> = [(".", view), ("..", merged)]
            .into_iter()
            .chain(["a", "b", "c.kpack", "d", "lib"].map(|name| (name, at(name))))
            .map(|(name, number)| (name.to_owned(), number))
            .collect();
        assert_eq!(at("a"), at("b"), "links are one file");
        for room in 1..10 {
            let plain = listed(room, |offset, page| names(nodes, view, offset, page));
            let with_attributes = listed(room, |offset, page| plus(&fs, view, offset, page));
            assert_eq!((&plain.names, &with_attributes.names), (&expected, &expected), "{room}");
            assert_eq!(plain.kinds, with_attributes.kinds);
            assert!(is_end(nodes, view, plain.next) && !is_end(nodes, view, plain.next - 1));
        }
        assert!(at("secret") > 0, "what is not listed can be opened");
        let lib: Vec<_> = listed(9, |offset, page| names(nodes, at("lib"), offset, page)).names;
        assert_eq!(lib.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), [".", "..", "x", "y"]);
    }

    #[test]
    fn sizes_that_are_not_known_are_listed_as_outdated() {
        let (fs, view) = filesystem();
        let page = listed(100, |offset, page| plus(&fs, view, offset, page));
        for ((name, number), answer) in page.names.iter().zip(&page.answers) {
            let is_known = name != "c.kpack";
            assert_eq!(answer.size.is_some(), is_known, "{name}");
            let is_child = !name.starts_with('.');
            assert_eq!(fs.nodes.kernel_knows(*number), is_child, "{name}: the kernel forgets what was listed");
        }
        let of = |name: &str| page.answers.iter().zip(&page.names).find(|(_, (other, _))| other == name).unwrap().0;
        let stat = |name: &str| (of(name).links, of(name).size, of(name).mode);
        assert_eq!((stat("a"), stat("b")), ((2, Some(6), 0o755), (2, Some(6), 0o755)));
        assert_eq!((stat("lib").0, stat(".").0, stat("..").0), (2, 4, 3));
        assert_eq!(fs.nodes.lookup(ROOT, b"gone"), None);
    }

    /// A reply with room for a number of bytes. An entry takes 24 bytes and its name, padded to 8 (`struct
    /// fuse_dirent`).
    struct Buffer {
        room: usize,
        entries: Vec<(u64, Vec<u8>)>,
    }

    impl NameSink for Buffer {
        fn add(&mut self, _: NodeId, next: u64, _: FileKind, name: &[u8]) -> bool {
            let Some(rest) = self.room.checked_sub((24 + name.len()).next_multiple_of(8)) else { return true };
            self.room = rest;
            self.entries.push((next, name.to_vec()));
            false
        }
    }

    fn from(nodes: &Nodes, offset: u64, room: usize) -> Vec<(u64, Vec<u8>)> {
        let mut buffer = Buffer { room, entries: Vec::new() };
        names(nodes, ROOT, offset, &mut buffer);
        buffer.entries
    }

    proptest! {
        /// Programs keep offsets (telldir(3)), and the kernel ends listings where its buffers end.
        #[test]
        fn a_listing_goes_on_at_each_of_its_offsets(
            all in btree_set("[a-z]{1,40}", 0..30),
            rooms in vec(64_usize..300, 1..10),
            beyond in 0..u64::MAX,
        ) {
            let mut tree = Tree::new(ATTRIBUTES);
            for name in &all {
                tree.insert(ROOT, &EntryPath::new(name.as_bytes()).unwrap(), ATTRIBUTES, NodeKind::directory()).unwrap();
            }
            let nodes = Nodes::new(Arc::new(tree));
            let whole = from(&nodes, 0, usize::MAX);
            let listed: Vec<_> = whole.iter().map(|(_, name)| name.as_slice()).collect();
            let expected: Vec<_> = [".", ".."].into_iter().chain(all.iter().map(String::as_str)).map(str::as_bytes).collect();
            prop_assert_eq!(listed, expected);
            for (number, (next, _)) in whole.iter().enumerate() {
                prop_assert_eq!(&from(&nodes, *next, usize::MAX), &whole[number + 1..]);
            }
            let end = whole.last().unwrap().0;
            prop_assert!(from(&nodes, end.saturating_add(beyond), usize::MAX).is_empty());
            let (mut pages, mut rooms) = (Vec::new(), rooms.iter().cycle());
            while let Some(room) = rooms.next()
                && let page = from(&nodes, pages.last().map_or(0, |(next, _)| *next), *room)
                && !page.is_empty()
            {
                pages.extend(page);
            }
            prop_assert_eq!(pages, whole);
        }
    }
}
