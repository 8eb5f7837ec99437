//! What a mount answers, without the protocol in which it is asked.
//!
//! A request that needs no work is answered on the calling thread. Others go to the executor together with their reply:
//! a session thread that waits stalls the whole mount. A reply is a function that takes the answer. It is dropped without
//! a call if answering panics outside of the request's own boundary.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::io::Errno;

use super::buffers::Buffers;
use super::directory_readahead::DirectoryReadahead;
use super::failure::{self, Failure, contained};
use super::limiter::Limiter;
use super::listing::{self, NameSink, NamesAndAttributes};
use super::nodes::{NodeAttributes, Nodes};
use crate::metrics::{RequestKind, Requests};
use crate::resources::Resources;
use crate::rope::{Content, to_usize};
use crate::view::{NodeId, Tree};

/// The longest name that a tree can hold, in bytes. The kernel lets longer ones through.
pub(super) const LONGEST_NAME: u32 = 255;

/// Bytes of the blocks that [`Usage`] counts.
pub(super) const BLOCK: u32 = 4096;

/// The kernel's pages of our files.
pub(super) trait PageCache: fmt::Debug + Send + Sync {
    /// Puts all bytes of a file there. Whether it could be done.
    fn store(&self, node: NodeId, bytes: &[u8]) -> bool;

    /// Drops what is there of a file.
    fn forget(&self, node: NodeId);
}

/// How large the filesystem is. Nothing is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// Blocks of [`BLOCK`] bytes.
    pub(super) blocks: u64,
    pub(super) nodes: u64,
}

/// A tree that answers requests.
#[derive(Debug)]
pub(super) struct Filesystem {
    /// Where it is mounted, for messages; nothing if the program that made the mount has not said so.
    place: PathBuf,
    pub(super) nodes: Nodes,
    pub(super) resources: Arc<Resources>,
    pub(super) directory_readahead: DirectoryReadahead,
    page_cache: OnceLock<Box<dyn PageCache>>,
    total_bytes: u64,
    warnings: Limiter,
    buffers: Buffers,
}

impl Filesystem {
    /// Answers from `tree`, of which `df` says that it has so many bytes.
    pub(super) fn new(place: PathBuf, tree: Arc<Tree>, resources: Arc<Resources>, total_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            place,
            nodes: Nodes::new(tree),
            resources,
            directory_readahead: DirectoryReadahead::default(),
            page_cache: OnceLock::new(),
            total_bytes,
            warnings: Limiter::default(),
            buffers: Buffers::default(),
        })
    }

    /// From now on there is a page cache.
    pub(super) fn set_page_cache(&self, pages: Box<dyn PageCache>) {
        self.page_cache.set(pages).ok();
    }

    /// What a name in a directory leads to, if anything. The kernel has a reference to it from then on.
    pub(super) fn lookup(
        self: &Arc<Self>,
        parent: NodeId,
        name: &[u8],
        reply: impl FnOnce(Result<Option<NodeAttributes>, Errno>) + Send + 'static,
    ) {
        let find = || {
            if name.len() > LONGEST_NAME as usize {
                return Err(Failure::Plain(Errno::NAMETOOLONG));
            }
            Ok(self.nodes.lookup(parent, name).map(|node| (node, self.nodes.is_live(node))))
        };
        let (node, is_live) = match self.guarded("lookup", parent, find) {
            Ok(Some(found)) => found,
            nothing => return self.answer_now(RequestKind::Lookup, |_| reply(nothing.map(|_| None))),
        };
        let job = move |this: &Self| {
            let nodes = &this.nodes;
            let found = this.guarded("lookup", node, || nodes.renew(node).and_then(|()| nodes.attributes(node)));
            if found.is_ok() {
                nodes.set_known(node, true);
            }
            reply(found.map(Some));
        };
        if is_live {
            self.answer_report(RequestKind::Lookup, job);
        } else {
            self.answer(RequestKind::Lookup, self.is_sized(node), job);
        }
    }

    /// The kernel has dropped its references to a node. The node itself lives as long as the mount.
    pub(super) fn forget(&self, node: NodeId) {
        self.nodes.set_known(node, false);
    }

    /// The attributes of a node.
    pub(super) fn getattr(
        self: &Arc<Self>,
        node: NodeId,
        reply: impl FnOnce(Result<NodeAttributes, Errno>) + Send + 'static,
    ) {
        self.answer(RequestKind::Getattr, self.is_sized(node), move |this| {
            reply(this.guarded("getattr", node, || this.nodes.attributes(node)));
        });
    }

    /// The text of a symlink.
    pub(super) fn readlink(&self, node: NodeId, reply: impl FnOnce(Result<&[u8], Errno>)) {
        self.answer_now(RequestKind::Readlink, |this| {
            reply(this.guarded("readlink", node, || this.nodes.target(node)));
        });
    }

    /// Opens a file, unless it is for writing: `open` gets its bytes if they need not be made.
    pub(super) fn open<T>(
        &self,
        node: NodeId,
        is_writing: bool,
        open: impl FnOnce(Option<&dyn Content>) -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        // The kernel refuses by itself as long as nobody remounts read-write.
        let refused = if is_writing { Err(Failure::Plain(Errno::ROFS)) } else { Ok(()) };
        self.guarded("open", node, || refused.and_then(|()| open(self.nodes.known_content(node).as_deref())))
    }

    /// At most `size` bytes of a file from `offset` on; fewer only at its end.
    pub(super) fn read(
        self: &Arc<Self>,
        node: NodeId,
        offset: u64,
        size: u32,
        reply: impl FnOnce(Result<&[u8], Errno>) + Send + 'static,
    ) {
        let is_cheap = |content: &Arc<dyn Content>| content.is_nonblocking(offset, readable(&**content, offset, size));
        let found = contained(|| {
            let content = self.nodes.known_content(node);
            let is_nonblocking = content.as_ref().is_some_and(is_cheap);
            (content, is_nonblocking)
        });
        let (content, is_nonblocking) = found.unwrap_or((None, false));
        let counters = &self.resources.counters;
        if is_nonblocking { &counters.reads_prompt } else { &counters.reads_by_workers }.add(1);
        // Before the answer, since after it the next request may overtake this one.
        if offset == 0 {
            contained(|| self.directory_readahead.record_access(node, self));
        }
        self.answer(RequestKind::Read, is_nonblocking, move |this| this.read_now(node, content, offset, size, reply));
    }

    /// `content` is that of the node if it was there when the request came.
    fn read_now(
        &self,
        node: NodeId,
        content: Option<Arc<dyn Content>>,
        offset: u64,
        size: u32,
        reply: impl FnOnce(Result<&[u8], Errno>),
    ) {
        let content = content.map_or_else(|| self.guarded("read", node, || self.nodes.content(node)), Ok);
        let content = match content {
            Ok(content) => content,
            Err(errno) => return reply(Err(errno)),
        };
        // Behind the end there is nothing, which is no error (read(2)).
        let offset = offset.min(content.size());
        self.buffers.with(readable(&*content, offset, size), |bytes| {
            let result = self.guarded("read", node, || Ok(content.read_at(offset, bytes)?));
            reply(result.map(|()| &*bytes));
        });
    }

    /// The names in a directory from `offset` on, as far as `page` has room.
    pub(super) fn readdir<P: NameSink>(
        self: &Arc<Self>,
        node: NodeId,
        offset: u64,
        mut page: P,
        reply: impl FnOnce(P),
    ) {
        self.look_ahead(node, offset);
        self.answer_now(RequestKind::Readdir, |this| {
            listing::names(&this.nodes, node, offset, &mut page);
            reply(page);
        });
    }

    /// The same with the attributes of what the names lead to.
    pub(super) fn readdirplus<P: NamesAndAttributes>(
        self: &Arc<Self>,
        node: NodeId,
        offset: u64,
        mut page: P,
        reply: impl FnOnce(P),
    ) {
        self.look_ahead(node, offset);
        self.answer_now(RequestKind::Readdirplus, |this| {
            listing::names_and_attributes(this, node, offset, &mut page);
            reply(page);
        });
    }

    /// The value of an extended attribute.
    pub(super) fn getxattr(&self, node: NodeId, name: &[u8], reply: impl FnOnce(Result<Vec<u8>, Errno>)) {
        self.answer_now(RequestKind::Getxattr, |this| {
            reply(this.guarded("getxattr", node, || this.nodes.extended(node, name)));
        });
    }

    /// How large it is.
    pub(super) fn statfs(&self, reply: impl FnOnce(Usage)) {
        self.answer_now(RequestKind::Statfs, |this| {
            // A total of 0 would make `df` leave the mount out.
            let blocks = this.total_bytes.div_ceil(u64::from(BLOCK)).max(1);
            reply(Usage { blocks, nodes: this.nodes.len() as u64 });
        });
    }

    /// Refuses to write. If the kernel has taken the bytes into its pages already, it has to drop them.
    pub(super) fn write(self: &Arc<Self>, node: NodeId, is_in_pages: bool, reply: impl FnOnce(Errno)) {
        self.answer_now(RequestKind::Change, |_| reply(Errno::ROFS));
        if is_in_pages {
            // Not in this thread, which the kernel would wait for.
            let this = Arc::clone(self);
            self.resources.executor.run_in_background(move || {
                if let Some(pages) = this.page_cache.get() {
                    pages.forget(node);
                }
            });
        }
    }

    fn requests(&self) -> &Requests {
        &self.resources.counters.requests
    }

    /// Whether the attributes of a node can be had without work. If asking panics, so does answering, within its boundary.
    fn is_sized(&self, node: NodeId) -> bool {
        contained(|| self.nodes.is_sized(node)).unwrap_or(false)
    }

    /// Has a request answered: here if it is no work, else by the executor.
    fn answer(self: &Arc<Self>, kind: RequestKind, is_nonblocking: bool, job: impl FnOnce(&Self) + Send + 'static) {
        if is_nonblocking {
            return self.answer_now(kind, job);
        }
        let begun = self.requests().hand_over(self.requests().begin(kind));
        let this = Arc::clone(self);
        self.resources.executor.run(move || {
            let _answering = this.requests().answer(begun);
            job(&this);
        });
    }

    /// Has the executor answer a request for a live report, which may ask for every file of the input. It does not count as
    /// waiting, since the report says how many do.
    fn answer_report(self: &Arc<Self>, kind: RequestKind, job: impl FnOnce(&Self) + Send + 'static) {
        let begun = self.requests().begin(kind);
        let this = Arc::clone(self);
        self.resources.executor.run(move || {
            let _answering = this.requests().answer(begun);
            job(&this);
        });
    }

    /// Has a request answered on this thread.
    pub(super) fn answer_now(&self, kind: RequestKind, job: impl FnOnce(&Self)) {
        let _answering = self.requests().answer(self.requests().begin(kind));
        contained(|| job(self));
    }

    /// Begins with what a program that lists a directory will probably ask for next. As with reads, this comes before the answer.
    fn look_ahead(self: &Arc<Self>, directory: NodeId, offset: u64) {
        if offset > 0 {
            contained(|| {
                if listing::is_end(&self.nodes, directory, offset) {
                    self.directory_readahead.listed(directory, self);
                }
            });
        }
    }

    /// The boundary that no panic crosses: a panic in a session's thread would end this thread, and the last one
    /// to end leaves a mount that nobody serves. The reply stays with the caller, so that it can be given.
    pub(super) fn guarded<T>(
        &self,
        request: &'static str,
        node: NodeId,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        failure::guarded(work).map_err(|failure| {
            self.warn(request, node, &failure);
            failure.errno()
        })
    }

    fn warn(&self, request: &'static str, node: NodeId, failure: &Failure) {
        let reason: &dyn fmt::Display = match failure {
            Failure::Read(error) => error,
            Failure::Panic(text) => text,
            Failure::Plain(_) => return,
        };
        if let Some(suppressed) = self.warnings.pass(Instant::now()) {
            let path = self.place.join(self.nodes.path(node));
            // Fields without a value are left out.
            let panicked = matches!(failure, Failure::Panic(_)).then_some(true);
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::warn!(request, path = %path.display(), panicked, suppressed, "request failed: {reason}");
        }
    }

    /// Gives the kernel all bytes of a file that it has not asked for. Whether it could be done.
    pub(super) fn push_to_page_cache(&self, node: NodeId) -> bool {
        let (Some(pages), Some(content)) = (self.page_cache.get(), self.nodes.original(node)) else { return false };
        let is_given = self.buffers.with(readable(&*content, 0, u32::MAX), |bytes| {
            // A read of the file meets the same error, or panic, and reports it.
            failure::guarded(|| Ok(content.read_at(0, bytes)?)).is_ok() && pages.store(node, bytes)
        });
        self.resources.counters.files_given.add(is_given.into());
        is_given
    }
}

/// How many of `size` bytes there are from `offset` on.
fn readable(content: &dyn Content, offset: u64, size: u32) -> usize {
    to_usize(content.size().saturating_sub(offset).min(size.into()))
}

#[cfg(test)]
#[path = "filesystem_tests.rs"]
mod tests;
