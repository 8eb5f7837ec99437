//! The beginning of a session: the answer to INIT, for which fuser speaks the protocol, and the kernel's page cache.
//!
//! fuser does not take the other requests: it answers INTERRUPT with ENOSYS, after which nothing can end a process that waits.

use std::io;
use std::sync::Arc;

use fuser::{INodeNo, InitFlags, KernelConfig, Notifier, Request};

use super::answer::Answers;
use super::filesystem::PageCache;
use super::passthrough_choice::PassthroughChoice;
use super::uring::PAYLOAD;
use crate::rope::Content;
use crate::tree::NodeId;

/// The most background requests of the kernel in flight (readahead, releases). With its default of 12, a few slow reads
/// delay the readahead of all other files.
const MAX_BACKGROUND: u16 = 64;

/// The largest read request in bytes. fuser derives `max_pages` from it.
pub(super) const MAX_REQUEST: u32 = 1 << 20;

/// The stack depth of this mount: it counts as one stacked file system, and the input's must not be stacked itself. The
/// kernel allows two (`FILESYSTEM_MAX_STACK_DEPTH`), so one is left for a filesystem on top of this mount.
const STACK_DEPTH: u32 = 1;

const CAPABILITIES: [InitFlags; 5] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // A new time of change makes the kernel drop the cached pages of a report.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // Lets the session distinguish an abort, which leaves the mount behind, from the end of the filesystem.
    InitFlags::FUSE_ABORT_ERROR,
];

/// Agrees with the kernel on how a mount is served.
#[derive(Debug)]
pub(crate) struct Negotiation {
    answers: Arc<Answers>,
    /// The largest file that could be passed through, if that is wanted. Then the mount counts as one of the two stacked
    /// file systems that the kernel allows.
    sample: Option<Arc<dyn Content>>,
    /// Whether requests shall travel through rings. The kernel does not send all that way, such as FORGET.
    wants_rings: bool,
}

impl Negotiation {
    pub(crate) fn new(answers: &Arc<Answers>, choice: PassthroughChoice, wants_rings: bool) -> Self {
        Self { answers: Arc::clone(answers), sample: answers.fs.nodes.to_pass_through(choice), wants_rings }
    }
}

impl fuser::Filesystem for Negotiation {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel may lack some of these, and is served nevertheless. The numbers below are within the kernel's
        // limits.
        for capability in CAPABILITIES {
            config.add_capabilities(capability).ok();
        }
        if !self.answers.fs.nodes.are_sized() {
            // Attributes come with the first part of a listing, and with other parts only when they were asked for.
            config.add_capabilities(InitFlags::FUSE_READDIRPLUS_AUTO).ok();
        }
        config.set_max_background(MAX_BACKGROUND).ok();
        let has_rings = self.wants_rings && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
        config.set_max_write(if has_rings { PAYLOAD } else { MAX_REQUEST }).ok();
        if has_rings {
            // fuser derives `max_pages` from this, too.
            config.set_max_readahead(PAYLOAD).ok();
            self.answers.agree();
        }
        if let Some(sample) = self.sample.take()
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        {
            config.set_max_stack_depth(STACK_DEPTH).ok();
            self.answers.pass_through(sample);
        }
        Ok(())
    }
}

/// The kernel's page cache.
#[derive(Debug)]
pub(crate) struct KernelPages(pub(crate) Notifier);

impl PageCache for KernelPages {
    fn store(&self, node: NodeId, bytes: &[u8]) -> bool {
        self.0.store(INodeNo(node), 0, bytes).is_ok()
    }

    fn forget(&self, node: NodeId) {
        // The kernel may have no pages of it.
        self.0.inval_inode(INodeNo(node), 0, 0).ok();
    }
}
