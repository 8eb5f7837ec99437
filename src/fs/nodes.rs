//! The tree as the kernel sees it: inode numbers, link counts, attributes and how long they stay true.
//!
//! A live report is written anew whenever its name is looked up, and its time of change tells the kernel to forget what
//! it kept of the older one. Reports cannot be tied to opened files, because the kernel may open files without telling.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dashmap::DashMap;
use fuser::{Errno, FileAttr, FileType, INodeNo};

use super::requests::Failure;
use crate::rope::Content;
use crate::source::Attributes;
use crate::view::{Body, Child, MERGED, Node, NodeId, NodeKind, OriginKind, ROOT, Tree};

/// Nothing in a tree changes while it is mounted, so the kernel need not ask twice.
pub(super) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What directories say their size is; ext4's number, so that `du` compares with an unpacked tree.
const DIRECTORY_SIZE: u64 = 4096;

/// The unit that programs like to read in: as much as the kernel's default readahead asks for at once.
const BLOCK_SIZE: u32 = 128 * 1024;

/// A tree with a table of what the kernel wants to know beyond it.
#[derive(Debug)]
pub(super) struct Nodes {
    tree: Arc<Tree>,
    table: Vec<Inode>,
    reports: DashMap<NodeId, Written>,
}

/// A live report as it was when its name was looked up last.
#[derive(Debug)]
struct Written {
    content: Arc<dyn Content>,
    at: SystemTime,
}

#[derive(Debug)]
struct Inode {
    /// The node that stands for all hard links to one file.
    number: NodeId,
    links: u32,
    /// Which of the children of its directory it is.
    position: usize,
    /// For a directory: whether the size of a file in it may be unknown.
    has_made: bool,
    /// Whether the kernel was told of it and has not forgotten it since.
    is_told: AtomicBool,
}

/// Attributes, and for how long they are true.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) attributes: FileAttr,
    pub(super) ttl: Duration,
    /// For how long the name leads there.
    pub(super) name_ttl: Duration,
}

impl Nodes {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        let mut nodes = Self { table: Vec::with_capacity(tree.len()), tree, reports: DashMap::new() };
        let merged = nodes.tree.lookup(ROOT, MERGED.as_bytes());
        // The view of each node: the directory in the root above it, or the one in `merged`. A tree makes parents
        // before their children.
        let mut views: Vec<NodeId> = Vec::with_capacity(nodes.tree.len());
        let mut links: HashMap<(NodeId, u64), NodeId> = HashMap::new();
        let mut positions = vec![0; nodes.tree.len()];
        for number in 1..=nodes.tree.len() as NodeId {
            let position = positions.get(index(number)).copied().unwrap_or_default();
            let mut inode = Inode { number, links: 1, position, has_made: false, is_told: AtomicBool::new(false) };
            let node = nodes.tree.node(number);
            let parent = node.map_or(ROOT, |node| node.parent);
            let view = match views.get(index(parent)) {
                Some(&view) if parent != ROOT && Some(parent) != merged => view,
                _ => number,
            };
            views.push(view);
            match node.map(|node| &node.kind) {
                Some(NodeKind::Directory(children)) => {
                    let subdirectories = nodes.tree.subdirectories(number);
                    inode.links = u32::try_from(subdirectories).map_or(u32::MAX, |number| number.saturating_add(2));
                    for (position, child) in children.iter().enumerate() {
                        if let Some(place) = positions.get_mut(index(child.node)) {
                            *place = position;
                        }
                    }
                    inode.has_made = children.iter().any(|child| matches!(nodes.body(child.node), Some(Body::Made(_))));
                }
                Some(NodeKind::File { link_group: Some(group), .. }) => {
                    inode.number = *links.entry((view, *group)).or_insert(number);
                    if let Some(first) = nodes.table.get_mut(index(inode.number)) {
                        first.links = first.links.saturating_add(1);
                    }
                }
                _ => {}
            }
            nodes.table.push(inode);
        }
        nodes
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    fn inode(&self, node: NodeId) -> Option<&Inode> {
        self.table.get(index(node))
    }

    fn node(&self, node: NodeId) -> Result<&Node, Failure> {
        // The kernel only knows numbers that it was told, so this is a lost session's or a stranger's.
        self.tree.node(node).ok_or(Failure::Plain(Errno::ESTALE))
    }

    fn body(&self, node: NodeId) -> Option<&Body> {
        match self.tree.node(node)?.kind {
            NodeKind::File { ref body, .. } => Some(body),
            NodeKind::Directory(_) | NodeKind::Symlink(_) => None,
        }
    }

    /// The inode number of what `name` leads to.
    pub(super) fn lookup(&self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        self.tree.lookup(parent, name).map(|node| self.number(node))
    }

    /// The inode number of a node: the same one for all hard links to a file.
    pub(super) fn number(&self, node: NodeId) -> NodeId {
        self.inode(node).map_or(node, |inode| inode.number)
    }

    /// Takes note that the kernel is told of a node, or has forgotten it.
    pub(super) fn set_told(&self, number: NodeId, is_told: bool) {
        if let Some(inode) = self.inode(number) {
            inode.is_told.store(is_told, Ordering::Relaxed);
        }
    }

    /// Whether the kernel knows of a node.
    pub(super) fn is_told(&self, number: NodeId) -> bool {
        self.inode(number).is_some_and(|inode| inode.is_told.load(Ordering::Relaxed))
    }

    /// Whether the size of every file is known.
    pub(super) fn are_sized(&self) -> bool {
        !self.table.iter().any(|inode| inode.has_made && self.has_unsized(inode.number, 0))
    }

    /// Whether the attributes can be told without work.
    pub(super) fn is_sized(&self, node: NodeId) -> bool {
        self.body(node).is_none_or(|body| body.known_size().is_some())
    }

    /// Whether it is a live report.
    fn is_live(&self, node: NodeId) -> bool {
        matches!(self.body(node), Some(Body::Live(_)))
    }

    /// The largest file of at least `size` bytes that has a backing file.
    pub(super) fn largest_backed(&self, size: u64) -> Option<Arc<dyn Content>> {
        let files = (ROOT..).map_while(|node| self.tree.node(node)).filter_map(|node| match &node.kind {
            NodeKind::File { body: Body::Ready(content), .. } => Some(content),
            _ => None,
        });
        let backed = files.filter(|content| content.size() >= size && content.backing().is_some());
        backed.max_by_key(|content| content.size()).cloned()
    }

    /// Whether there are files of unknown size among the children that a listing shows from the `first` one on.
    pub(super) fn has_unsized(&self, directory: NodeId, first: usize) -> bool {
        self.inode(directory).is_some_and(|inode| inode.has_made)
            && self.children(directory, first).any(|(_, child)| !self.is_sized(child.node))
    }

    /// The children that a listing shows, from the `first` one on, with their positions.
    pub(super) fn children(&self, directory: NodeId, first: usize) -> impl Iterator<Item = (usize, &Child)> {
        let children = self.tree.children(directory).unwrap_or_default();
        children.iter().enumerate().skip(first).filter(|(_, child)| !child.hidden)
    }

    /// The directory that holds a node, and the position among its children.
    pub(super) fn place(&self, node: NodeId) -> Option<(NodeId, usize)> {
        Some((self.tree.node(node)?.parent, self.inode(node)?.position))
    }

    /// The bytes of a file that the input has as they are.
    pub(super) fn original(&self, node: NodeId) -> Option<&Arc<dyn Content>> {
        let Node { kind: NodeKind::File { body: Body::Ready(content), .. }, origin, .. } = self.tree.node(node)? else {
            return None;
        };
        matches!(origin.kind(), OriginKind::Unchanged | OriginKind::Database).then_some(content)
    }

    /// The bytes of a file if they need not be made.
    pub(super) fn known_content(&self, node: NodeId) -> Option<Arc<dyn Content>> {
        match self.body(node)? {
            Body::Ready(content) => Some(Arc::clone(content)),
            Body::Made(make) => make.made(),
            Body::Live(_) => self.reports.get(&node).map(|report| Arc::clone(&report.content)),
        }
    }

    /// The bytes of a file, made now if need be.
    pub(super) fn content(&self, node: NodeId) -> Result<Arc<dyn Content>, Failure> {
        match &self.node(node)?.kind {
            NodeKind::File { body, .. } => Ok(body.content()?),
            NodeKind::Directory(_) => Err(Failure::Plain(Errno::EISDIR)),
            NodeKind::Symlink(_) => Err(Failure::Plain(Errno::ELOOP)),
        }
    }

    /// Writes a live report anew; leaves other files alone.
    pub(super) fn renew(&self, node: NodeId) -> Result<(), Failure> {
        let Some(body @ Body::Live(_)) = self.body(node) else { return Ok(()) };
        let content = body.content()?;
        let now = SystemTime::now();
        // Clocks stand still and go back, and the same time would say that nothing has changed.
        let at = match self.reports.get(&node) {
            Some(last) => now.max(last.at + Duration::from_nanos(1)),
            None => now,
        };
        self.reports.insert(node, Written { content, at });
        Ok(())
    }

    /// The text of a symlink.
    pub(super) fn target(&self, node: NodeId) -> Result<&[u8], Failure> {
        match &self.node(node)?.kind {
            NodeKind::Symlink(target) => Ok(target),
            NodeKind::Directory(_) | NodeKind::File { .. } => Err(Failure::Plain(Errno::EINVAL)),
        }
    }

    /// The attributes; a file whose size is not known is made for it.
    pub(super) fn attributes(&self, node: NodeId) -> Result<Answer, Failure> {
        let size = match &self.node(node)?.kind {
            NodeKind::File { body, .. } => match body.known_size() {
                Some(size) => size,
                None => body.content()?.size(),
            },
            NodeKind::Directory(_) => DIRECTORY_SIZE,
            NodeKind::Symlink(target) => target.len() as u64,
        };
        self.sized(node, size)
    }

    /// Attributes of a file whose size is not known. They are true for no time at all, so that the kernel asks for the
    /// real ones before a program sees these.
    pub(super) fn without_size(&self, node: NodeId) -> Result<Answer, Failure> {
        Ok(Answer { ttl: Duration::ZERO, ..self.sized(node, 0)? })
    }

    fn sized(&self, number: NodeId, size: u64) -> Result<Answer, Failure> {
        let node = self.node(number)?;
        let links = self.inode(number).map_or(1, |inode| inode.links);
        let kind = kind_of(node);
        let perm = match &node.kind {
            // Linux ignores the permissions of symlinks and always shows these.
            NodeKind::Symlink(_) => 0o777,
            NodeKind::Directory(_) | NodeKind::File { .. } => node.attributes.mode & 0o7777,
        };
        let (time, name_ttl) = if self.is_live(number) {
            let written = self.reports.get(&number).map_or(UNIX_EPOCH, |report| report.at);
            (written, Duration::ZERO)
        } else {
            (time_of(&node.attributes), FOREVER)
        };
        let attributes = FileAttr {
            ino: INodeNo(number),
            size,
            // A short symlink lies in the inode itself.
            blocks: if kind == FileType::Symlink { 0 } else { size.div_ceil(512) },
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: links,
            uid: node.attributes.uid,
            gid: node.attributes.gid,
            rdev: 0,
            blksize: BLOCK_SIZE,
            flags: 0,
        };
        Ok(Answer { attributes, ttl: FOREVER, name_ttl })
    }

    /// The value of an extended attribute.
    pub(super) fn extended(&self, node: NodeId, name: &[u8]) -> Result<Vec<u8>, Failure> {
        // Labels and access control lists: `ls -l` asks each file for both until it is told that there are none anywhere.
        if !name.starts_with(b"user.") {
            return Err(Failure::Plain(Errno::EOPNOTSUPP));
        }
        self.node(node)?.origin.attribute(name).ok_or(Failure::Plain(Errno::ENODATA))
    }

    /// What a listing says a child is.
    pub(super) fn kind(&self, node: NodeId) -> FileType {
        self.tree.node(node).map_or(FileType::RegularFile, kind_of)
    }

    /// The directory that holds a directory.
    pub(super) fn parent(&self, node: NodeId) -> NodeId {
        self.tree.node(node).map_or(ROOT, |node| node.parent)
    }

    /// Where a node is, below the mount point; for messages.
    pub(super) fn path(&self, node: NodeId) -> PathBuf {
        let mut names = Vec::new();
        let mut at = node;
        while at != ROOT {
            let parent = self.parent(at);
            let children = self.tree.children(parent).unwrap_or_default();
            let Some(child) = children.iter().find(|child| child.node == at) else { break };
            names.push(OsString::from_vec(child.name.to_vec()));
            at = parent;
        }
        names.into_iter().rev().collect()
    }
}

fn index(node: NodeId) -> usize {
    usize::try_from(node.wrapping_sub(1)).unwrap_or(usize::MAX)
}

fn kind_of(node: &Node) -> FileType {
    match node.kind {
        NodeKind::Directory(_) => FileType::Directory,
        NodeKind::Symlink(_) => FileType::Symlink,
        NodeKind::File { .. } => FileType::RegularFile,
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

    const ATTRIBUTES: Attributes = Attributes { mode: 0o755, uid: 1, gid: 2, mtime: -2, mtime_nanoseconds: 5 };

    #[test]
    fn links_are_counted_within_one_view() {
        let mut tree = Tree::new(ATTRIBUTES);
        let content: Arc<dyn Content> = Arc::new(Rope::new([]).unwrap());
        let mut add = |path: &str, link_group| {
            let kind = NodeKind::File { body: Body::Ready(Arc::clone(&content)), link_group };
            tree.insert(ROOT, &EntryPath::new(path.as_bytes()).unwrap(), ATTRIBUTES, kind).unwrap()
        };
        let first = add("host/a", Some(7));
        let second = add("host/b/c", Some(7));
        let other = add("host/d", Some(8));
        let merged: Vec<_> =
            ["merged/x/a", "merged/x/c", "merged/y/a"].into_iter().map(|path| add(path, Some(7))).collect();
        let nodes = Nodes::new(Arc::new(tree));
        let links = |node| nodes.attributes(nodes.number(node)).unwrap().attributes.nlink;
        assert_eq!((nodes.number(second), nodes.number(other)), (first, other));
        assert_eq!((links(first), links(second), links(other)), (2, 2, 1));
        assert_eq!(nodes.number(merged[1]), merged[0]);
        assert_eq!((links(merged[0]), links(merged[2])), (2, 1));
        assert_eq!((links(ROOT), links(nodes.lookup(ROOT, b"host").unwrap())), (4, 3));
        assert_eq!(nodes.path(second), std::path::Path::new("host/b/c"));
        assert!(nodes.attributes(1000).is_err());
    }

    #[test]
    fn times_before_1970_are_kept() {
        let expected = UNIX_EPOCH - Duration::from_secs(2) + Duration::from_nanos(5);
        assert_eq!(time_of(&ATTRIBUTES), expected);
        let absurd = Attributes { mtime: i64::MIN, mtime_nanoseconds: 999_999_999, ..ATTRIBUTES };
        time_of(&absurd);
    }
}
