//! What all threads that answer requests share: the tree, the panic boundary, the way from errors to errno, and what is
//! read into.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use fuser::{Errno, INodeNo, Notifier, ReplyData};

use super::directory_readahead::DirectoryReadahead;
use super::limiter::Limiter;
use super::nodes::Nodes;
use crate::resources::Resources;
use crate::rope::{Content, ReadError};
use crate::view::NodeId;

/// Buffers that are kept for the next reads.
const KEPT_BUFFERS: usize = 8;

/// Why a request gets an error for an answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The bytes cannot be had.
    Read(ReadError),
    /// The code that should have answered panicked.
    Panic(String),
    /// The request makes no sense for the node.
    Plain(Errno),
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// The one place where errors become errno.
fn errno(failure: &Failure) -> Errno {
    match failure {
        // The handle to the file is stale in the sense of NFS: what it referred to was replaced or is gone.
        Failure::Read(ReadError::Changed { .. }) => Errno::ESTALE,
        // What the system answered is about this process and the input. To the reader it would tell of other things: that
        // it may not read this file, has too many files open, or should try again.
        //
        // Requests are cut to the file's size before, so that OutOfRange is a defect of the content.
        Failure::Read(ReadError::Io { .. } | ReadError::Damaged { .. } | ReadError::OutOfRange { .. })
        | Failure::Panic(_) => Errno::EIO,
        Failure::Plain(errno) => *errno,
    }
}

/// What all threads that answer requests share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where it is mounted, for messages; nothing if the program that made the mount has not said so.
    place: PathBuf,
    pub(super) nodes: Nodes,
    pub(super) total_bytes: u64,
    pub(super) resources: Arc<Resources>,
    pub(super) directory_readahead: DirectoryReadahead,
    /// Says to the kernel what it should forget, and what it should know.
    pub(super) notifier: OnceLock<Notifier>,
    warnings: Limiter,
    buffers: Buffers,
}

/// What is read into, again and again: fresh memory would cost as much as the bytes. There are as many as there are reads
/// at a time, however many threads there are.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Does `work` with a buffer of at least `length` bytes.
    fn with<T>(&self, length: usize, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = kept().pop().unwrap_or_default();
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let result = work(&mut buffer);
        let mut kept = kept();
        if kept.len() < KEPT_BUFFERS {
            kept.push(buffer);
        }
        result
    }
}

impl Shared {
    pub(super) fn new(place: PathBuf, nodes: Nodes, resources: Arc<Resources>, total_bytes: u64) -> Self {
        Self {
            place,
            nodes,
            total_bytes,
            resources,
            directory_readahead: DirectoryReadahead::default(),
            notifier: OnceLock::new(),
            warnings: Limiter::default(),
            buffers: Buffers::default(),
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
        let result = catch_unwind(AssertUnwindSafe(work));
        let result = result.unwrap_or_else(|payload| Err(Failure::Panic(panic_text(payload.as_ref()))));
        result.map_err(|failure| {
            self.warn(request, node, &failure);
            errno(&failure)
        })
    }

    fn warn(&self, request: &'static str, node: NodeId, failure: &Failure) {
        let reason: &dyn std::fmt::Display = match failure {
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

    /// Answers a read request. `content` is that of the node if it was there when the request came.
    pub(super) fn read(
        &self,
        node: NodeId,
        content: Option<Arc<dyn Content>>,
        offset: u64,
        size: u32,
        reply: ReplyData,
    ) {
        let content = content.map_or_else(|| self.guarded("read", node, || self.nodes.content(node)), Ok);
        let content = match content {
            Ok(content) => content,
            Err(errno) => return reply.error(errno),
        };
        let length = readable(&*content, offset, size);
        self.buffers.with(length, |buffer| {
            let bytes = buffer.get_mut(..length).unwrap_or_default();
            match self.guarded("read", node, || Ok(content.read_at(offset, bytes)?)) {
                Ok(()) => reply.data(bytes),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// Gives the kernel all bytes of a file that it has not asked for. Whether it could be done.
    pub(super) fn push_to_page_cache(&self, node: NodeId) -> bool {
        let (Some(notifier), Some(content)) = (self.notifier.get(), self.nodes.original(node)) else { return false };
        let length = readable(&*content, 0, u32::MAX);
        let given = self.buffers.with(length, |buffer| {
            let bytes = buffer.get_mut(..length).unwrap_or_default();
            // A read of the file meets the same error, or panic, and reports it.
            let read = catch_unwind(AssertUnwindSafe(|| content.read_at(0, bytes)));
            matches!(read, Ok(Ok(()))) && notifier.store(INodeNo(node), 0, bytes).is_ok()
        });
        self.resources.counters.files_given.add(given.into());
        given
    }

    /// Has the kernel forget what it keeps of a file.
    pub(super) fn forget_pages(&self, node: NodeId) {
        if let Some(notifier) = self.notifier.get() {
            // It may well have nothing.
            notifier.inval_inode(INodeNo(node), 0, 0).ok();
        }
    }
}

/// How many of `size` bytes there are from `offset` on.
pub(super) fn readable(content: &dyn Content, offset: u64, size: u32) -> usize {
    usize::try_from(content.size().saturating_sub(offset).min(size.into())).unwrap_or(usize::MAX)
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn each_error_has_its_errno() {
        let entry: Arc<str> = "lib/a.so".into();
        let of = |error: ReadError| i32::from(errno(&Failure::Read(error)));
        for code in [libc::EACCES, libc::EMFILE, libc::EINTR, libc::EAGAIN] {
            assert_eq!(of(ReadError::io(&entry, io::Error::from_raw_os_error(code))), libc::EIO);
        }
        assert_eq!(of(ReadError::io(&entry, io::Error::other("short"))), libc::EIO);
        assert_eq!(of(ReadError::Changed { entry: entry.clone() }), libc::ESTALE);
        assert_eq!(of(ReadError::damaged(&entry, "bad")), libc::EIO);
        assert_eq!(of(ReadError::OutOfRange { offset: 1, length: 1, size: 1 }), libc::EIO);
        assert_eq!(i32::from(errno(&Failure::Panic(String::new()))), libc::EIO);
    }
}
