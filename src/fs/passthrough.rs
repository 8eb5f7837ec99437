//! Files that the kernel reads itself, because all their bytes are those of one file of the input (`FUSE_PASSTHROUGH`).
//!
//! Passthrough needs a kernel that has it (6.9), `CAP_SYS_ADMIN` outside of any user namespace, and an input that does not
//! lie on a stacked file system. It excludes that the kernel opens files without asking, so a mount does the one or the
//! other: see [`Passthrough::is_usable`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use fuser::{BackingId, FileHandle, FopenFlags, ReplyOpen};

use crate::rope::{Content, ReadError};
use crate::view::NodeId;

/// Files that the kernel may hold open for us. They do not count as descriptors of this process, so it is on us to
/// leave some to the rest of the system.
const MAX_FILES: usize = 1024;

/// The handle of files without a backing file.
const UNCOUNTED: FileHandle = FileHandle(0);

/// The handle of files whose opens are counted.
const COUNTED: FileHandle = FileHandle(1);

/// What is open and has a backing file.
#[derive(Debug, Default)]
pub(super) struct Passthrough {
    /// The largest file that could be passed through, if it would pay.
    sample: Option<Arc<dyn Content>>,
    is_usable: OnceLock<bool>,
    /// How each inode was opened. The kernel refuses with EIO to mix both ways of reading one inode, so whatever was
    /// decided at the first open holds until the last one is closed.
    opened: DashMap<NodeId, Opened>,
    files: AtomicUsize,
}

#[derive(Debug)]
struct Opened {
    opens: usize,
    /// The kernel's name of the backing file; `None` if the file is read through us.
    backing: Option<Arc<BackingId>>,
}

impl Passthrough {
    /// For a mount whose kernel offers it, and in which `sample` is the file that gains most.
    pub(super) fn new(sample: Option<Arc<dyn Content>>) -> Self {
        Self { sample, ..Self::default() }
    }

    /// Whether files are passed through. Found out by trying, at the first open; without it, the kernel need not tell
    /// us of any open at all.
    pub(super) fn is_usable(&self, reply: &ReplyOpen) -> bool {
        let tries = || {
            let file = self.sample.as_ref()?.backing()?.open().ok()?;
            reply.open_backing(file).ok()
        };
        *self.is_usable.get_or_init(|| tries().is_some())
    }

    /// Opens a file; the result says how to tell the kernel. Fails if the backing file is no longer the one that was
    /// planned with. If it changes in place while it is open, its readers see that, as they would without us.
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
            // For want of descriptors, say: a read reports it if that does not pass.
            result => result.ok(),
        };
        let mut opened = self.opened.entry(node).or_insert_with(|| {
            let backing = file.filter(|_| self.files.load(Ordering::Relaxed) < MAX_FILES);
            let backing = backing.and_then(|file| reply.open_backing(file).ok()).map(Arc::new);
            self.files.fetch_add(backing.iter().len(), Ordering::Relaxed);
            Opened { opens: 0, backing }
        });
        // Counted before the kernel knows, so that no close of another one can take the backing file away.
        opened.opens += 1;
        Ok(Opening { handle: COUNTED, backing: opened.backing.clone() })
    }

    /// Takes note that a file was closed.
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

/// A file that is to be opened.
pub(super) struct Opening {
    handle: FileHandle,
    backing: Option<Arc<BackingId>>,
}

impl Opening {
    /// Whether the kernel will read it itself.
    pub(super) fn is_passed_through(&self) -> bool {
        self.backing.is_some()
    }

    /// Tells the kernel.
    pub(super) fn answer(self, reply: ReplyOpen) {
        match self.backing {
            Some(backing) => reply.opened_passthrough(self.handle, FopenFlags::empty(), &backing),
            None => reply.opened(self.handle, FopenFlags::FOPEN_KEEP_CACHE),
        }
    }
}
