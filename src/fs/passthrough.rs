//! Passthrough (`FUSE_PASSTHROUGH`): the kernel reads a file by itself if all of its bytes are those of one file of the
//! input.
//!
//! Passthrough needs a kernel that supports it (6.9), `CAP_SYS_ADMIN` outside of any user namespace, and an input that
//! is not on a stacked file system. With passthrough, the kernel has to ask at each open. So a mount uses either
//! passthrough or opens without requests: see [`Passthrough::is_usable`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use fuser::{BackingId, FileHandle, FopenFlags, ReplyOpen};

use crate::rope::{Content, ReadError};
use crate::tree::NodeId;

/// The most files that the kernel holds open for this process. They do not count towards its limit on descriptors, so
/// this limit leaves some to the rest of the system.
const MAX_FILES: usize = 1024;

/// The handle of files without a backing file.
const UNCOUNTED: FileHandle = FileHandle(0);

/// The handle of files whose opens are counted.
const COUNTED: FileHandle = FileHandle(1);

/// The state of passthrough, and the open files that have a backing file.
#[derive(Debug, Default)]
pub(super) struct Passthrough {
    /// The largest file that could be passed through, if that is worthwhile.
    sample: Option<Arc<dyn Content>>,
    is_usable: OnceLock<bool>,
    /// How each inode was opened. The kernel answers EIO if both ways of reading are mixed for one inode. So the
    /// decision at the first open holds until the last close.
    opened: DashMap<NodeId, Opened>,
    files: AtomicUsize,
}

#[derive(Debug)]
struct Opened {
    opens: usize,
    /// The kernel's id of the backing file; `None` if the file is read through the daemon.
    backing: Option<Arc<BackingId>>,
}

impl Passthrough {
    /// For a mount whose kernel supports passthrough. `sample` is the file that gains most.
    pub(super) fn new(sample: Option<Arc<dyn Content>>) -> Self {
        Self { sample, ..Self::default() }
    }

    /// Whether files are passed through. Determined at the first open, by trying. If not, the kernel need not ask at
    /// opens.
    pub(super) fn is_usable(&self, reply: &ReplyOpen) -> bool {
        let tries = || {
            let file = self.sample.as_ref()?.backing()?.open().ok()?;
            reply.open_backing(file).ok()
        };
        *self.is_usable.get_or_init(|| tries().is_some())
    }

    /// Opens a file. The result is the answer for the kernel. Fails if the backing file is no longer the one that was
    /// planned with. If it changes in place while it is open, readers see the change, as they would without kpackfs.
    pub(super) fn open(
        &self,
        node: NodeId,
        content: Option<&dyn Content>,
        reply: &ReplyOpen,
    ) -> Result<Opening, ReadError> {
        let Some(backing) = content.and_then(Content::backing) else {
            return Ok(Opening { handle: UNCOUNTED, backing: None });
        };
        let file = match backing.open() {
            Err(error @ ReadError::Changed { .. }) => return Err(error),
            // For example, there are no descriptors. If that persists, a read will report it.
            result => result.ok(),
        };
        let mut opened = self.opened.entry(node).or_insert_with(|| {
            let backing = file.filter(|_| self.files.load(Ordering::Relaxed) < MAX_FILES);
            let backing = backing.and_then(|file| reply.open_backing(file).ok()).map(Arc::new);
            self.files.fetch_add(backing.iter().len(), Ordering::Relaxed);
            Opened { opens: 0, backing }
        });
        // Counted before the kernel knows of it, so that the close of another one cannot drop the backing file.
        opened.opens += 1;
        Ok(Opening { handle: COUNTED, backing: opened.backing.clone() })
    }

    /// Records that a file was closed.
    pub(super) fn close(&self, node: NodeId, handle: FileHandle) {
        if handle != COUNTED {
            return;
        }
        let closed = self.opened.remove_if_mut(&node, |_, opened| {
            opened.opens -= 1;
            opened.opens == 0
        });
        let files = closed.map_or(0, |(_, opened)| opened.backing.iter().len());
        self.files.fetch_sub(files, Ordering::Relaxed);
    }
}

/// The answer to an open.
pub(super) struct Opening {
    handle: FileHandle,
    backing: Option<Arc<BackingId>>,
}

impl Opening {
    /// Whether the kernel will read the file by itself.
    pub(super) fn is_passed_through(&self) -> bool {
        self.backing.is_some()
    }

    /// Sends the answer.
    pub(super) fn answer(self, reply: ReplyOpen) {
        match self.backing {
            Some(backing) => reply.opened_passthrough(self.handle, FopenFlags::empty(), &backing),
            None => reply.opened(self.handle, FopenFlags::FOPEN_KEEP_CACHE),
        }
    }
}
