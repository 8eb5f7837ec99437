//! Serving a view through FUSE: `filesystem` answers requests, `answer` translates them from and to the protocol. They travel
//! through `/dev/fuse` (`device`) or through `io_uring` (`uring`). `unmounted` answers without a mount.
//!
//! It does not know splits, wheels and archives: it serves the tree of a view.

mod answer;
mod buffers;
mod device;
mod directory_readahead;
mod dispatch;
mod failure;
mod filesystem;
mod limiter;
mod listing;
mod negotiation;
mod nodes;
mod passthrough;
mod passthrough_choice;
mod protocol;
mod unmounted;
mod uring;
mod waiting;

pub(crate) use answer::Answers;
pub(crate) use device::serve;
pub(crate) use filesystem::Filesystem;
pub(crate) use negotiation::{KernelPages, Negotiation};
pub(crate) use nodes::{FileKind, NodeAttributes};
pub use passthrough_choice::PassthroughChoice;
#[doc(hidden)]
pub use protocol::{HEADER, Operation, Request};
pub(crate) use unmounted::{Unmounted, ViewedNode};
pub use uring::RingError;
pub(crate) use uring::{Rings, check as check_rings};
