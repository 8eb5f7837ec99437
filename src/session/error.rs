//! Why an input is not prepared.

use std::path::PathBuf;

use crate::memory::MemoryNeeded;
use crate::opened::OpenedError;
use crate::remote::RemoteError;
use crate::rope::ReadError;
use crate::simple::SameWheel;
use crate::split::SplitError;
use crate::view::ViewError;
use crate::wheel::WheelError;

/// Why an input is not prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// It is not opened.
    #[error("{0}")]
    Opened(#[from] OpenedError),
    /// The planner refuses it.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// No wheel can be made of it.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// An index cannot list its wheels.
    #[error(transparent)]
    View(#[from] ViewError),
    /// An installer could not tell two of its wheels apart.
    #[error(transparent)]
    SameWheel(#[from] SameWheel),
    /// Its tables take too much memory.
    #[error(transparent)]
    Memory(#[from] MemoryNeeded),
    /// Bytes of it are missing, since a server does not send them.
    #[error("{0}")]
    Remote(#[from] RemoteError),
    /// Bytes cannot be read, or are not what a RECORD states.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An option is about wheels, and none is made of the input.
    #[error("{}: {option} is about wheels, and no wheel is made of this; leave the option out", path.display())]
    NotOfWheels { path: PathBuf, option: &'static str },
    /// One of several wheels.
    #[error("{}: {source}", path.display())]
    OfWheel { path: PathBuf, source: Box<SessionError> },
}

impl SessionError {
    /// The same about one of several wheels.
    pub(super) fn of_wheel(self, path: PathBuf) -> Self {
        Self::OfWheel { path, source: Box::new(self) }
    }
}
