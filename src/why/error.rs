//! Why there is no answer.

use std::path::PathBuf;

use crate::binary::BinaryError;
use crate::fatbin::FatbinError;
use crate::image::ImageError;
use crate::join::WheelsError;
use crate::source::SourceError;
use crate::wheel::WheelError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    /// A file cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A library cannot be parsed.
    #[error("{}: {source}", path.display())]
    Binary {
        /// The library.
        path: PathBuf,
        /// The reason.
        source: BinaryError,
    },
    /// A bundle cannot be parsed.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The library.
        path: PathBuf,
        /// The reason.
        source: FatbinError,
    },
    /// An archive cannot be parsed.
    #[error("{}: {reason}", path.display())]
    Archive {
        /// The archive, or the library that needs it.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A code object is for no known target.
    #[error("{}: a code object whose header names no target that is known", .0.display())]
    Code(PathBuf),
    /// A wheel has no valid METADATA.
    #[error("{}: {source}", path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// The reason.
        source: WheelError,
    },
    /// Wheels cannot be installed together.
    #[error(transparent)]
    Wheels(#[from] WheelsError),
    /// No library has device code or a marker.
    #[error("{}: nothing there has device code, or wrappers with code or archives; of wheels, name the files or their directory", .0.display())]
    Nothing(PathBuf),
    /// There is no such process.
    #[error("--pid {0}: there is no process with this ID")]
    NoProcess(u32),
    /// There is no procfs, which tells about processes.
    #[error("/proc/self: no such directory; mount /proc")]
    NoProc,
    /// No library has the wrapper that was asked for.
    #[error("--wrapper {0}: no library has so many")]
    NoWrapper(usize),
}
