//! What all threads that answer requests share: the tree, the panic boundary, and the way from errors to errno.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dashmap::DashMap;
use fuser::{Errno, ReplyData};

use super::limiter::Limiter;
use super::nodes::Nodes;
use crate::index::Resources;
use crate::rope::{ReadError, check_range};
use crate::view::NodeId;

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
        Failure::Read(ReadError::Io { source, .. }) => source.raw_os_error().map_or(Errno::EIO, Errno::from_i32),
        // The handle to the file is stale in the sense of NFS: what it referred to was replaced.
        Failure::Read(ReadError::Changed { .. }) => Errno::ESTALE,
        // Requests are cut to the file's size before, so that OutOfRange is a defect of the content.
        Failure::Read(ReadError::Damaged { .. } | ReadError::OutOfRange { .. }) | Failure::Panic(_) => Errno::EIO,
        Failure::Plain(errno) => *errno,
    }
}

/// What all threads that answer requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) nodes: Nodes,
    pub(super) total_bytes: u64,
    pub(super) resources: Arc<Resources>,
    warnings: Limiter,
    /// Live reports as they were when they were opened, by file handle.
    snapshots: DashMap<u64, Arc<[u8]>>,
    /// Handle of the last snapshot; 0 is the handle of all other files.
    last_handle: AtomicU64,
}

thread_local! {
    /// Each thread reads into the same memory again and again.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    pub(super) fn new(nodes: Nodes, resources: Arc<Resources>, total_bytes: u64) -> Self {
        Self {
            nodes,
            total_bytes,
            resources,
            warnings: Limiter::default(),
            snapshots: DashMap::new(),
            last_handle: AtomicU64::new(0),
        }
    }

    /// Counts a request.
    pub(super) fn count(&self) {
        self.resources.counters.requests.add(1);
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
            let path = self.nodes.path(node);
            let panicked = matches!(failure, Failure::Panic(_));
            tracing::warn!(request, path = %path.display(), panicked, suppressed, "request failed: {reason}");
        }
    }

    /// Answers a read request.
    pub(super) fn read(&self, node: NodeId, handle: u64, offset: u64, size: u32, reply: ReplyData) {
        BUFFER.with_borrow_mut(|buffer| {
            let filled = self.guarded("read", node, || match handle {
                0 => self.fill(node, offset, size, buffer),
                _ => self.fill_from_snapshot(handle, offset, size, buffer),
            });
            match filled {
                Ok(length) => reply.data(buffer.get(..length).unwrap_or_default()),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// Reads into `buffer` what there is between `offset` and `offset + size`.
    fn fill(&self, node: NodeId, offset: u64, size: u32, buffer: &mut Vec<u8>) -> Result<usize, Failure> {
        let content = self.nodes.content(node)?;
        let left = content.size().saturating_sub(offset).min(u64::from(size));
        let length = usize::try_from(left).unwrap_or(usize::MAX);
        if length == 0 {
            return Ok(0);
        }
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        content.read_at(offset, buffer.get_mut(..length).unwrap_or_default())?;
        Ok(length)
    }

    fn fill_from_snapshot(&self, handle: u64, offset: u64, size: u32, buffer: &mut Vec<u8>) -> Result<usize, Failure> {
        let snapshot = self.snapshots.get(&handle).ok_or(Failure::Plain(Errno::EBADF))?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = snapshot.get(start..).unwrap_or_default();
        let bytes = bytes.get(..size as usize).unwrap_or(bytes);
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Takes a snapshot of a live report; its handle. `None` for other files.
    pub(super) fn snapshot(&self, node: NodeId) -> Result<Option<u64>, Failure> {
        let Some(report) = self.nodes.report(node) else { return Ok(None) };
        let bytes: Arc<[u8]> = report.bytes().into();
        check_range(0, bytes.len(), report.size())?;
        let handle = self.last_handle.fetch_add(1, Ordering::Relaxed) + 1;
        self.snapshots.insert(handle, bytes);
        Ok(Some(handle))
    }

    /// Forgets the snapshot of a handle.
    pub(super) fn release(&self, handle: u64) {
        if handle != 0 {
            self.snapshots.remove(&handle);
        }
    }
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
        assert_eq!(of(ReadError::io(&entry, io::Error::from_raw_os_error(libc::EACCES))), libc::EACCES);
        assert_eq!(of(ReadError::io(&entry, io::Error::other("short"))), libc::EIO);
        assert_eq!(of(ReadError::Changed { entry: entry.clone() }), libc::ESTALE);
        assert_eq!(of(ReadError::damaged(&entry, "bad")), libc::EIO);
        assert_eq!(of(ReadError::OutOfRange { offset: 1, length: 1, size: 1 }), libc::EIO);
        assert_eq!(i32::from(errno(&Failure::Panic(String::new()))), libc::EIO);
    }
}
