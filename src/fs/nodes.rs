//! The tree as the kernel sees it: inode numbers, link counts, attributes, and how long they stay valid.
//!
//! A live report is written again whenever its name is looked up. Its time of change makes the kernel drop the pages of
//! the older one. Reports cannot be tied to open files, because the kernel may open files without a request.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dashmap::DashMap;
use rustix::io::Errno;

use super::failure::Failure;
use super::passthrough_choice::{ByteShare, PassthroughChoice};
use crate::rope::{Content, to_usize};
use crate::source::Attributes;
use crate::tree::{Body, Child, Node, NodeId, NodeKind, OriginKind, ROOT, Tree};

/// The size of directories. It is ext4's number, so that `du` is comparable with an unpacked tree.
const DIRECTORY_SIZE: u64 = 4096;

/// A tree, and the state that changes while it is mounted.
#[derive(Debug)]
pub(super) struct Nodes {
    tree: Arc<Tree>,
    known: KnownNodes,
    reports: DashMap<NodeId, Written>,
}

/// A live report as of the last lookup of its name.
#[derive(Debug)]
struct Written {
    content: Arc<dyn Content>,
    at: SystemTime,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum FileKind {
    Directory,
    Symlink,
    File,
}

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeAttributes {
    /// The inode number.
    pub(super) number: NodeId,
    pub(crate) kind: FileKind,
    /// Bytes; `None` while the size is unknown. Then the kernel has to ask again before a program sees the attributes.
    pub(crate) size: Option<u64>,
    /// Permissions.
    pub(crate) mode: u16,
    pub(super) links: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Time of change.
    pub(crate) time: SystemTime,
    /// Whether the kernel has to look up the name each time, because a live report is written again then.
    pub(super) is_live: bool,
}

impl Nodes {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        let known = KnownNodes { nodes: tree.stored().len(), views: DashMap::new() };
        Self { tree, known, reports: DashMap::new() }
    }

    /// Number of stored nodes. Views show some of them several times.
    pub(super) fn len(&self) -> usize {
        self.tree.stored().len()
    }

    fn node(&self, node: NodeId) -> Result<&Node, Failure> {
        // The kernel only uses numbers that it got from here. This one is from a lost session, or forged.
        self.tree.node(node).ok_or(Failure::Plain(Errno::STALE))
    }

    fn body(&self, node: NodeId) -> Option<Body> {
        self.tree.body(node)
    }

    /// Fails if a node is in a view that was evicted. What was read of it before may be incomplete.
    pub(super) fn check(&self, node: NodeId) -> Result<(), Failure> {
        self.node(node).map(|_| ())
    }

    /// The inode number of `name` in a directory.
    pub(super) fn lookup(&self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        self.tree.lookup(parent, name).map(|node| self.number(node))
    }

    /// The inode number of a node: the same one for all hard links to a file.
    pub(super) fn number(&self, node: NodeId) -> NodeId {
        self.tree.links(node).0
    }

    /// Records whether the kernel has a reference to a node.
    pub(super) fn set_known(&self, number: NodeId, kernel_knows: bool) {
        self.known.set(number, kernel_knows);
    }

    /// Whether the kernel knows of a node.
    pub(super) fn kernel_knows(&self, number: NodeId) -> bool {
        self.known.get(number)
    }

    /// Whether the size of every file is known.
    pub(super) fn are_sized(&self) -> bool {
        let is_sized = |node: &Node| match &node.kind {
            NodeKind::File { body, .. } => body.known_size().is_some(),
            NodeKind::Directory(_) | NodeKind::Symlink(_) => true,
        };
        self.tree.is_as_stored() && self.tree.stored().all(is_sized)
    }

    /// Whether the attributes are available without work.
    pub(super) fn is_sized(&self, node: NodeId) -> bool {
        self.body(node).is_none_or(|body| body.known_size().is_some())
    }

    /// Whether it is a live report.
    pub(super) fn is_live(&self, node: NodeId) -> bool {
        matches!(self.body(node), Some(Body::Live(_)))
    }

    /// The largest file with a backing file, if passing files through is worthwhile.
    pub(super) fn to_pass_through(&self, choice: PassthroughChoice) -> Option<Arc<dyn Content>> {
        let ready = || {
            self.tree.stored().filter_map(|node| match &node.kind {
                NodeKind::File { body: Body::Ready(content), .. } => Some(content),
                _ => None,
            })
        };
        let largest = ready().filter(|content| content.backing().is_some()).max_by_key(|content| content.size())?;
        let mut share = ByteShare::default();
        ready().for_each(|content| share.add(content.size(), content.backing().is_some()));
        choice.is_worthwhile(share).then(|| Arc::clone(largest))
    }

    /// The children that a listing shows, from the `first` one on, with their positions.
    pub(super) fn children(&self, directory: NodeId, first: usize) -> impl Iterator<Item = (usize, Child<'_>)> {
        let children = self.tree.children(directory).into_iter().flatten();
        children.enumerate().skip(first).filter(|(_, child)| !child.hidden)
    }

    /// The directory that holds a node, and the position among its children.
    pub(super) fn place(&self, node: NodeId) -> Option<(NodeId, usize)> {
        Some((self.tree.parent(node)?, self.tree.position(node)?))
    }

    /// The bytes of a file that the input has unchanged.
    pub(super) fn original(&self, node: NodeId) -> Option<Arc<dyn Content>> {
        match (self.tree.node(node)?.origin.kind, self.body(node)?) {
            (OriginKind::Unchanged | OriginKind::Database, Body::Ready(content)) => Some(content),
            _ => None,
        }
    }

    /// The bytes of a file, if they are available without work.
    pub(super) fn known_content(&self, node: NodeId) -> Option<Arc<dyn Content>> {
        match self.body(node)? {
            Body::Ready(content) => Some(content),
            Body::Made(make) => make.made(),
            Body::Live(_) => self.reports.get(&node).map(|report| Arc::clone(&report.content)),
        }
    }

    /// The bytes of a file. Makes them if necessary.
    pub(super) fn content(&self, node: NodeId) -> Result<Arc<dyn Content>, Failure> {
        match (&self.node(node)?.kind, self.body(node)) {
            (NodeKind::File { .. }, body) => Ok(body.ok_or(Failure::Plain(Errno::STALE))?.content()?),
            (NodeKind::Directory(_), _) => Err(Failure::Plain(Errno::ISDIR)),
            (NodeKind::Symlink(_), _) => Err(Failure::Plain(Errno::LOOP)),
        }
    }

    /// Writes a live report again. Other files stay as they are.
    pub(super) fn renew(&self, node: NodeId) -> Result<(), Failure> {
        let Some(body @ Body::Live(_)) = self.body(node) else { return Ok(()) };
        let content = body.content()?;
        let now = SystemTime::now();
        // Clocks may stand still or go back, and an unchanged time would mean an unchanged report.
        let at = match self.reports.get(&node) {
            Some(last) => now.max(last.at + Duration::from_nanos(1)),
            None => now,
        };
        self.reports.insert(node, Written { content, at });
        Ok(())
    }

    /// The target of a symlink.
    pub(super) fn target(&self, node: NodeId) -> Result<&[u8], Failure> {
        match &self.node(node)?.kind {
            NodeKind::Symlink(target) => Ok(target),
            NodeKind::Directory(_) | NodeKind::File { .. } => Err(Failure::Plain(Errno::INVAL)),
        }
    }

    /// The attributes. Makes a file of unknown size.
    pub(super) fn attributes(&self, node: NodeId) -> Result<NodeAttributes, Failure> {
        let size = match &self.node(node)?.kind {
            NodeKind::File { .. } => {
                let body = self.body(node).ok_or(Failure::Plain(Errno::STALE))?;
                match body.known_size() {
                    Some(size) => size,
                    None => body.content()?.size(),
                }
            }
            NodeKind::Directory(_) => DIRECTORY_SIZE,
            NodeKind::Symlink(target) => target.len() as u64,
        };
        Ok(NodeAttributes { size: Some(size), ..self.without_size(node)? })
    }

    /// The attributes, with the size if it is known.
    pub(super) fn known_attributes(&self, node: NodeId) -> Result<NodeAttributes, Failure> {
        if self.is_sized(node) { self.attributes(node) } else { self.without_size(node) }
    }

    /// The attributes, without the size.
    fn without_size(&self, number: NodeId) -> Result<NodeAttributes, Failure> {
        let kind = kind_of(self.node(number)?);
        let attributes = self.tree.attributes(number).ok_or(Failure::Plain(Errno::STALE))?;
        let links = match kind {
            FileKind::Directory => {
                u32::try_from(self.tree.subdirectories(number)).unwrap_or(u32::MAX).saturating_add(2)
            }
            FileKind::File | FileKind::Symlink => self.tree.links(number).1,
        };
        let mode = match kind {
            // Linux ignores the permissions of symlinks and always shows these.
            FileKind::Symlink => 0o777,
            FileKind::Directory | FileKind::File => attributes.mode & 0o7777,
        };
        let is_live = self.is_live(number);
        let time = if is_live {
            self.reports.get(&number).map_or(UNIX_EPOCH, |report| report.at)
        } else {
            time_of(&attributes)
        };
        let (uid, gid) = (attributes.uid, attributes.gid);
        Ok(NodeAttributes { number, kind, size: None, mode, links, uid, gid, time, is_live })
    }

    /// The value of an extended attribute.
    pub(super) fn extended(&self, node: NodeId, name: &[u8]) -> Result<Vec<u8>, Failure> {
        // Labels and access control lists. `ls -l` asks for both for each file until an answer says that the filesystem
        // has none.
        if !name.starts_with(b"user.") {
            return Err(Failure::Plain(Errno::OPNOTSUPP));
        }
        self.node(node)?;
        self.tree.origin(node).and_then(|origin| origin.attribute(name)).ok_or(Failure::Plain(Errno::NODATA))
    }

    /// Whether the value of an extended attribute is known without work: for a digest, RECORD of the input may be read.
    pub(super) fn is_extended_now(name: &[u8]) -> bool {
        !name.ends_with(b".sha256")
    }

    /// The kind of a child in a listing.
    pub(super) fn kind(&self, node: NodeId) -> FileKind {
        self.tree.node(node).map_or(FileKind::File, kind_of)
    }

    /// The directory that holds a directory.
    pub(super) fn parent(&self, node: NodeId) -> NodeId {
        self.tree.parent(node).unwrap_or(ROOT)
    }

    /// The path of a node below the mount point, for messages.
    pub(super) fn path(&self, node: NodeId) -> PathBuf {
        self.tree.path(node).as_path().to_owned()
    }
}

/// The nodes to which the kernel has references: a bit for each node, for views that were accessed.
#[derive(Debug)]
struct KnownNodes {
    nodes: usize,
    views: DashMap<u64, Box<[AtomicU64]>>,
}

impl KnownNodes {
    /// The location of a node's bit: the view, the word, and the mask in the word.
    fn place(number: NodeId) -> (u64, usize, u64) {
        let (view, bit) = (number >> 32, number & u64::from(u32::MAX));
        (view, to_usize(bit / 64), 1 << (bit % 64))
    }

    fn set(&self, number: NodeId, kernel_knows: bool) {
        let (view, word, mask) = Self::place(number);
        if kernel_knows && !self.views.contains_key(&view) {
            // The index of a node counts from 1.
            self.views.entry(view).or_insert_with(|| (0..=self.nodes / 64).map(|_| AtomicU64::new(0)).collect());
        }
        let words = self.views.get(&view);
        let Some(word) = words.as_ref().and_then(|words| words.get(word)) else { return };
        if kernel_knows {
            word.fetch_or(mask, Ordering::Relaxed)
        } else {
            word.fetch_and(!mask, Ordering::Relaxed)
        };
    }

    fn get(&self, number: NodeId) -> bool {
        let (view, word, mask) = Self::place(number);
        let words = self.views.get(&view);
        words.and_then(|words| Some(words.get(word)?.load(Ordering::Relaxed) & mask != 0)).unwrap_or(false)
    }
}

fn kind_of(node: &Node) -> FileKind {
    match node.kind {
        NodeKind::Directory(_) => FileKind::Directory,
        NodeKind::Symlink(_) => FileKind::Symlink,
        NodeKind::File { .. } => FileKind::File,
    }
}

fn time_of(attributes: &Attributes) -> SystemTime {
    let seconds = Duration::from_secs(attributes.mtime.unsigned_abs());
    let second = if attributes.mtime < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) };
    let fraction = Duration::from_nanos(u64::from(attributes.mtime_nanoseconds));
    second.and_then(|second| second.checked_add(fraction)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rope::Rope;
    use crate::source::EntryPath;
    use crate::tree::View;

    const ATTRIBUTES: Attributes = Attributes { mode: 0o755, uid: 1, gid: 2, mtime: -2, mtime_nanoseconds: 5 };

    #[test]
    fn links_are_counted_within_one_view() {
        let mut tree = Tree::new(ATTRIBUTES);
        let content: Arc<dyn Content> = Arc::new(Rope::new([]).unwrap());
        let path = |path: &str| EntryPath::new(path.as_bytes()).unwrap();
        let add = |tree: &mut Tree, place, name: &str, link_group| {
            let kind = NodeKind::File { body: Body::Ready(Arc::clone(&content)), link_group };
            tree.insert(place, &path(name), ATTRIBUTES, kind).unwrap()
        };
        let first = add(&mut tree, ROOT, "host/a", Some(7));
        let second = add(&mut tree, ROOT, "host/b/c", Some(7));
        let other = add(&mut tree, ROOT, "host/d", Some(8));
        let [upper, lower] = [(); 2].map(|()| tree.layer(ATTRIBUTES).unwrap());
        add(&mut tree, upper, "a", Some(7));
        add(&mut tree, lower, "c", Some(7));
        for (place, layers) in [("merged/x", vec![upper, lower]), ("merged/y", vec![upper])] {
            tree.show(&path(place), View { layers, ..View::default() }).unwrap();
        }
        let merged: Vec<_> = ["merged/x/a", "merged/x/c", "merged/y/a"]
            .into_iter()
            .map(|place| tree.resolve(ROOT, &path(place)).unwrap())
            .collect();
        let nodes = Nodes::new(Arc::new(tree));
        let links = |node| nodes.attributes(nodes.number(node)).unwrap().links;
        assert_eq!((nodes.number(second), nodes.number(other)), (first, other));
        assert_eq!((links(first), links(second), links(other)), (2, 2, 1));
        assert_eq!(nodes.number(merged[1]), merged[0]);
        assert_eq!((links(merged[0]), links(merged[2])), (2, 1));
        assert_eq!((links(ROOT), links(nodes.lookup(ROOT, b"host").unwrap())), (4, 3));
        assert_eq!(nodes.path(second), std::path::Path::new("host/b/c"));
        assert!(nodes.attributes(1000).is_err());
    }

    #[test]
    fn what_the_kernel_knows_is_kept_by_view() {
        let mut tree = Tree::new(ATTRIBUTES);
        for name in 0..200 {
            let kind = NodeKind::Symlink(Arc::from([]));
            tree.insert(ROOT, &EntryPath::new(name.to_string().as_bytes()).unwrap(), ATTRIBUTES, kind).unwrap();
        }
        let nodes = Nodes::new(Arc::new(tree));
        let all = || (0..3_u64).flat_map(|view| (1..=201).map(move |node| (view << 32) | node));
        let known = |node: u64| node % 7 == 3 && node >> 32 != 1;
        all().filter(|&node| known(node)).for_each(|node| nodes.set_known(node, true));
        assert!(all().all(|node| nodes.kernel_knows(node) == known(node)));
        all().filter(|&node| node % 2 == 0).for_each(|node| nodes.set_known(node, false));
        assert!(all().all(|node| nodes.kernel_knows(node) == (known(node) && node % 2 != 0)));
        assert_eq!(nodes.known.views.len(), 2, "a view that nobody visits costs nothing");
    }

    #[test]
    fn times_before_1970_are_kept() {
        let expected = UNIX_EPOCH - Duration::from_secs(2) + Duration::from_nanos(5);
        assert_eq!(time_of(&ATTRIBUTES), expected);
        let absurd = Attributes { mtime: i64::MIN, mtime_nanoseconds: 999_999_999, ..ATTRIBUTES };
        time_of(&absurd);
    }
}
