//! Passthrough (`FUSE_PASSTHROUGH`): the kernel reads a file by itself if all of its bytes are those of one file of the
//! input.
//!
//! Passthrough needs a kernel that supports it (6.9), `CAP_SYS_ADMIN` outside of any user namespace, and an input that
//! is not on a stacked file system. With passthrough, the kernel has to ask at each open of every file, and at each close.
//! So a mount uses either passthrough or opens without requests: see [`super::passthrough_choice`] and
//! [`Passthrough::is_usable`].

use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use rustix::io::Errno;

use super::failure::Failure;
use super::filesystem::Filesystem;
use crate::rope::{Content, ReadError};
use crate::tree::NodeId;

/// The most files that the kernel holds open for this process. They do not count towards its limit on descriptors, so
/// this limit leaves some to the rest of the system.
const MAX_FILES: usize = 1024;

/// The handle of files without a backing file.
const UNCOUNTED: u64 = 0;

/// The handle of files whose opens are counted.
const COUNTED: u64 = 1;

/// The state of passthrough, and the open files that have a backing file. `B` is such a file, as the transport knows it.
/// Dropping it closes it.
#[derive(Debug)]
pub(super) struct Passthrough<B> {
    /// The largest file that could be passed through, if that is worthwhile.
    sample: Option<Arc<dyn Content>>,
    is_usable: OnceLock<bool>,
    /// How each inode was opened. The kernel answers EIO if both ways of reading are mixed for one inode. So the
    /// decision at the first open holds until the last close.
    opened: DashMap<NodeId, Opened<B>>,
    files: AtomicUsize,
}

#[derive(Debug)]
struct Opened<B> {
    opens: usize,
    /// The kernel's backing file; `None` if the file is read through the daemon.
    backing: Option<Arc<B>>,
}

impl<B> Default for Passthrough<B> {
    fn default() -> Self {
        Self::new(None)
    }
}

impl<B> Passthrough<B> {
    /// For a mount whose kernel supports passthrough. `sample` is the file that gains most.
    pub(super) fn new(sample: Option<Arc<dyn Content>>) -> Self {
        Self { sample, is_usable: OnceLock::new(), opened: DashMap::new(), files: AtomicUsize::new(0) }
    }

    /// Answers a request to open a file with these flags. `register` makes an open file a backing file.
    pub(super) fn answer(
        &self,
        fs: &Filesystem,
        node: NodeId,
        flags: i32,
        register: impl Fn(&File) -> Option<B>,
    ) -> Result<Opening<B>, Errno> {
        let is_writing = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        let opening = fs.open(node, is_writing, |content| {
            if !self.is_usable(&register) {
                // From now on the kernel opens everything without asking. Writing is refused by `write`.
                return Err(Failure::Plain(Errno::NOSYS));
            }
            fs.directory_readahead.turn_off();
            Ok(self.open(node, content, &register)?)
        })?;
        fs.resources.counters.passthrough_opens.add(u64::from(opening.backing.is_some()));
        Ok(opening)
    }

    /// Whether files are passed through. Determined at the first open, by trying. If not, the kernel need not ask at
    /// opens.
    fn is_usable(&self, register: impl Fn(&File) -> Option<B>) -> bool {
        let tries = || register(&self.sample.as_ref()?.backing()?.open().ok()?);
        *self.is_usable.get_or_init(|| tries().is_some())
    }

    /// Opens a file. The result is the answer for the kernel. Fails if the backing file is no longer the one that was
    /// planned with. If it changes in place while it is open, readers see the change, as they would without kpackfs.
    fn open(
        &self,
        node: NodeId,
        content: Option<&dyn Content>,
        register: impl Fn(&File) -> Option<B>,
    ) -> Result<Opening<B>, ReadError> {
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
            let backing = backing.and_then(|file| register(&file)).map(Arc::new);
            self.files.fetch_add(backing.iter().len(), Ordering::Relaxed);
            Opened { opens: 0, backing }
        });
        // Counted before the kernel knows of it, so that the close of another one cannot drop the backing file.
        opened.opens += 1;
        Ok(Opening { handle: COUNTED, backing: opened.backing.clone() })
    }

    /// Records that a file was closed.
    pub(super) fn close(&self, node: NodeId, handle: u64) {
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
#[derive(Debug)]
pub(super) struct Opening<B> {
    /// The file handle.
    pub(super) handle: u64,
    /// The file that the kernel reads by itself.
    pub(super) backing: Option<Arc<B>>,
}
