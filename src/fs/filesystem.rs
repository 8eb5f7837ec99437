//! The answers of a mount, without the protocol.
//!
//! A request that needs no work is answered on the calling thread. Others go to the executor together with their reply,
//! since a session thread that waits stalls the whole mount. A reply is a function that takes the answer. If answering
//! panics outside of the request's own boundary, the reply is dropped without a call. What may wait has the id of its
//! request, by which it can be interrupted.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::buffers::{Buffers, FileBytes};
use super::directory_readahead::DirectoryReadahead;
use super::failure::{self, Failure, contained};
use super::limiter::Limiter;
use super::listing::{self, NameSink, NamesAndAttributes};
use super::nodes::{NodeAttributes, Nodes};
use super::waiting::{RequestId, WaitingRequests};
use crate::metrics::{RequestKind, Requests};
use crate::resources::Resources;
use crate::rope::{Content, to_usize};
use crate::tree::{NodeId, Tree};

/// Bytes of the longest name in a tree. The kernel passes longer ones on.
pub(super) const LONGEST_NAME: u32 = 255;

/// Bytes of a block in [`Usage`].
pub(super) const BLOCK: u32 = 4096;

/// The kernel's page cache for our files.
pub(crate) trait PageCache: fmt::Debug + Send + Sync {
    /// Stores all bytes of a file. Returns whether it succeeded.
    fn store(&self, node: NodeId, bytes: &[u8]) -> bool;

    /// Drops all pages of a file.
    fn forget(&self, node: NodeId);
}

/// The size of the filesystem. Nothing is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Blocks of [`BLOCK`] bytes.
    pub(super) blocks: u64,
    pub(super) nodes: u64,
}

/// What is done when a file has been made.
pub(super) type AfterMaking = Box<dyn FnOnce(&Filesystem, Result<(), Errno>) + Send>;

/// The state of a mount, and its answers.
#[derive(derive_more::Debug)]
pub(crate) struct Filesystem {
    /// The mount point, for messages. Empty if the program that made the mount did not name it.
    place: PathBuf,
    pub(super) nodes: Nodes,
    pub(super) resources: Arc<Resources>,
    pub(super) directory_readahead: DirectoryReadahead,
    page_cache: OnceLock<Box<dyn PageCache>>,
    total_bytes: u64,
    warnings: Limiter,
    buffers: Buffers,
    pub(super) waiting: Arc<WaitingRequests>,
    /// Files that are being made, with what is done next.
    #[debug(skip)]
    pub(super) making: Mutex<HashMap<NodeId, Vec<AfterMaking>>>,
}

impl Filesystem {
    /// Serves `tree`. `df` reports `total_bytes` as its size.
    pub(crate) fn new(place: PathBuf, tree: Arc<Tree>, resources: Arc<Resources>, total_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            place,
            nodes: Nodes::new(tree),
            waiting: WaitingRequests::new(&resources),
            making: Mutex::default(),
            resources,
            directory_readahead: DirectoryReadahead::default(),
            page_cache: OnceLock::new(),
            total_bytes,
            warnings: Limiter::default(),
            buffers: Buffers::default(),
        })
    }

    /// Sets the page cache.
    pub(crate) fn set_page_cache(&self, pages: Box<dyn PageCache>) {
        self.page_cache.set(pages).ok();
    }

    /// Looks up a name in a directory. If it exists, the kernel has a reference to the node afterwards.
    ///
    /// A file of unknown size is not made: until the kernel has the answer, no other process can list the directory or look
    /// up the name, and none of those that wait can be killed (`d_alloc_parallel` in fs/dcache.c).
    pub(super) fn lookup(
        self: &Arc<Self>,
        id: RequestId,
        parent: NodeId,
        name: &[u8],
        reply: impl FnOnce(Result<Option<NodeAttributes>, Errno>) + Send + 'static,
    ) {
        let find = || {
            if name.len() > LONGEST_NAME as usize {
                return Err(Failure::Plain(Errno::NAMETOOLONG));
            }
            let found = self.nodes.lookup(parent, name).map(|node| (node, self.nodes.is_live(node)));
            if found.is_none() {
                self.nodes.check(parent)?;
            }
            Ok(found)
        };
        let (node, is_live) = match self.guarded("lookup", parent, find) {
            Ok(Some(found)) => found,
            nothing => return self.answer_now(RequestKind::Lookup, |_| reply(nothing.map(|_| None))),
        };
        let attributes = move |this: &Self| {
            let nodes = &this.nodes;
            let found = this.guarded("lookup", node, || nodes.renew(node).and_then(|()| nodes.known_attributes(node)));
            found.inspect(|_| nodes.set_known(node, true)).map(Some)
        };
        // A report may check every file of the input. It does not count as waiting, since it states how many requests wait.
        self.answer(id, RequestKind::Lookup, !is_live, false, attributes, reply);
    }

    /// The kernel has dropped its references to a node. The node itself lives as long as the mount.
    pub(crate) fn forget(&self, node: NodeId) {
        self.nodes.set_known(node, false);
    }

    /// Lets no request wait longer than a second for work from now on. Runs until the process ends.
    pub(crate) fn end_waiting(&self) -> ! {
        self.waiting.end()
    }

    /// The attributes of a node.
    pub(super) fn getattr(
        self: &Arc<Self>,
        id: RequestId,
        node: NodeId,
        reply: impl FnOnce(Result<NodeAttributes, Errno>) + Send + 'static,
    ) {
        let attributes = move |this: &Self| this.guarded("getattr", node, || this.nodes.attributes(node));
        let kind = RequestKind::Getattr;
        // A panic counts as work: answering will panic as well, inside its own boundary.
        if contained(|| self.nodes.is_sized(node)).unwrap_or(false) {
            self.answer_now(kind, |this| reply(attributes(this)));
        } else if self.waiting.is_ending() {
            self.answer_now(kind, |_| reply(Err(Errno::IO)));
        } else {
            let pending = self.hand_over(id, kind, true, reply, |reply, error| reply(Err(error)));
            self.run_when_made(node, move |this, made| {
                let found = made.and_then(|()| attributes(this));
                pending.give(|reply| reply(found));
            });
        }
    }

    /// The target of a symlink.
    pub(crate) fn readlink(&self, node: NodeId, reply: impl FnOnce(Result<&[u8], Errno>)) {
        self.answer_now(RequestKind::Readlink, |this| {
            reply(this.guarded("readlink", node, || this.nodes.target(node)));
        });
    }

    /// Opens a file, unless for writing. `open` gets its content if that is available without work.
    pub(super) fn open<T>(
        &self,
        node: NodeId,
        is_writing: bool,
        open: impl FnOnce(Option<&dyn Content>) -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        // The kernel refuses by itself unless the mount was remounted read-write.
        let refused = if is_writing { Err(Failure::Plain(Errno::ROFS)) } else { Ok(()) };
        self.guarded("open", node, || refused.and_then(|()| open(self.nodes.known_content(node).as_deref())))
    }

    /// Reads `size` bytes of a file from `offset` on; fewer only at its end.
    pub(super) fn read(
        self: &Arc<Self>,
        id: RequestId,
        node: NodeId,
        offset: u64,
        size: u32,
        reply: impl FnOnce(Result<FileBytes<'_>, Errno>) + Send + 'static,
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
        // Before the answer, because the next request may overtake this one.
        if offset == 0 {
            contained(|| self.directory_readahead.record_access(node, self));
        }
        if is_nonblocking {
            return self.answer_now(RequestKind::Read, |this| this.read_now(node, content, offset, size, reply));
        }
        let pending = self.hand_over(id, RequestKind::Read, true, reply, |reply, error| reply(Err(error)));
        // Not into the room of the reply, which an interrupt may take.
        self.run(move |this| {
            this.read_now(node, content, offset, size, |bytes| match bytes {
                Ok(bytes) => bytes.read(|bytes| pending.give(|reply| reply(bytes.map(FileBytes::Read)))),
                Err(error) => pending.give(|reply| reply(Err(error))),
            });
        });
    }

    /// Answers a read. `content` is that of the node if it was available when the request arrived.
    fn read_now(
        &self,
        node: NodeId,
        content: Option<Arc<dyn Content>>,
        offset: u64,
        size: u32,
        reply: impl FnOnce(Result<FileBytes<'_>, Errno>),
    ) {
        let content = content.map_or_else(|| self.guarded("read", node, || self.nodes.content(node)), Ok);
        let content = match content {
            Ok(content) => content,
            Err(errno) => return reply(Err(errno)),
        };
        // A read beyond the end returns no bytes, and is no error (read(2)).
        let offset = offset.min(content.size());
        let read = |bytes: &mut [u8]| self.guarded("read", node, || Ok(content.read_at(offset, bytes)?));
        let length = readable(&*content, offset, size);
        reply(Ok(FileBytes::Unread { length, read: &read, buffers: &self.buffers }));
    }

    /// The names in a directory from `offset` on, as many as fit into `page`.
    pub(super) fn readdir<P: NameSink>(
        self: &Arc<Self>,
        node: NodeId,
        offset: u64,
        mut page: P,
        reply: impl FnOnce(P, Result<(), Errno>),
    ) {
        self.look_ahead(node, offset);
        self.answer_now(RequestKind::Readdir, |this| {
            listing::names(&this.nodes, node, offset, &mut page);
            reply(page, this.guarded("readdir", node, || this.nodes.check(node)));
        });
    }

    /// Like `readdir`, with attributes.
    pub(super) fn readdirplus<P: NamesAndAttributes>(
        self: &Arc<Self>,
        node: NodeId,
        offset: u64,
        mut page: P,
        reply: impl FnOnce(P, Result<(), Errno>),
    ) {
        self.look_ahead(node, offset);
        self.answer_now(RequestKind::Readdirplus, |this| {
            let guarded =
                |node, work: &dyn Fn() -> Result<NodeAttributes, Failure>| this.guarded("readdirplus", node, work);
            listing::names_and_attributes(&this.nodes, node, offset, &mut page, guarded);
            reply(page, this.guarded("readdirplus", node, || this.nodes.check(node)));
        });
    }

    /// The value of an extended attribute.
    pub(super) fn getxattr(
        self: &Arc<Self>,
        id: RequestId,
        node: NodeId,
        name: &[u8],
        reply: impl FnOnce(Result<Vec<u8>, Errno>) + Send + 'static,
    ) {
        let (name, is_nonblocking) = (name.to_vec(), Nodes::is_extended_now(name));
        let value = move |this: &Self| this.guarded("getxattr", node, || this.nodes.extended(node, &name));
        self.answer(id, RequestKind::Getxattr, is_nonblocking, true, value, reply);
    }

    /// The size of the filesystem.
    pub(crate) fn statfs(&self, reply: impl FnOnce(Usage)) {
        self.answer_now(RequestKind::Statfs, |this| {
            // `df` would omit a filesystem of 0 blocks.
            let blocks = this.total_bytes.div_ceil(u64::from(BLOCK)).max(1);
            reply(Usage { blocks, nodes: this.nodes.len() as u64 });
        });
    }

    /// Refuses a write. If the kernel has the bytes in its page cache already, it has to drop them.
    pub(crate) fn write(self: &Arc<Self>, node: NodeId, is_in_pages: bool, reply: impl FnOnce(Errno)) {
        self.answer_now(RequestKind::Change, |_| reply(Errno::ROFS));
        if is_in_pages {
            // Not on this thread, because the kernel would wait for it.
            let this = Arc::clone(self);
            self.resources.executor.run_in_background(move || {
                if let Some(pages) = this.page_cache.get() {
                    pages.forget(node);
                }
            });
        }
    }

    pub(super) fn requests(&self) -> &Requests {
        &self.resources.counters.requests
    }

    /// Starts readahead for a program that lists a directory. As with reads, this comes before the answer.
    fn look_ahead(self: &Arc<Self>, directory: NodeId, offset: u64) {
        if offset > 0 {
            contained(|| {
                if listing::is_end(&self.nodes, directory, offset) {
                    self.directory_readahead.listed(directory, self);
                }
            });
        }
    }

    /// The boundary of panics: a panic would end a session thread, and the end of the last one leaves a mount that is
    /// not served. The reply stays with the caller, so that it can be answered.
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
        let Some(reason) = failure.reason() else { return };
        if let Some(suppressed) = self.warnings.pass(Instant::now()) {
            let path = self.place.join(self.nodes.path(node));
            // Fields without a value are omitted.
            let panicked = matches!(failure, Failure::Panic(_)).then_some(true);
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::warn!(request, path = %path.display(), panicked, suppressed, "request failed: {reason}");
        }
    }

    /// Pushes all bytes of a file to the kernel's page cache. Returns whether it succeeded.
    pub(super) fn push_to_page_cache(&self, node: NodeId) -> bool {
        let (Some(pages), Some(content)) = (self.page_cache.get(), self.nodes.original(node)) else { return false };
        self.buffers.with(readable(&*content, 0, u32::MAX), |bytes| {
            // A read of the file will meet the same error or panic, and report it.
            failure::guarded(|| Ok(content.read_at(0, bytes)?)).is_ok() && pages.store(node, bytes)
        })
    }
}

/// Number of the `size` bytes from `offset` on that exist.
fn readable(content: &dyn Content, offset: u64, size: u32) -> usize {
    to_usize(content.size().saturating_sub(offset).min(size.into()))
}

#[cfg(test)]
#[path = "filesystem_tests.rs"]
pub(super) mod tests;
