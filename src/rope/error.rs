//! Why contents cannot be read.

use std::io;
use std::sync::Arc;

/// Why bytes cannot be read. Cheap to clone: each thread that waited for the failed work gets a copy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused to read the input.
    #[error("{entry}: {source}")]
    Io {
        /// What was being read.
        entry: Arc<str>,
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// The input is no longer the file that was planned with.
    #[error("{entry}: changed since it was opened; run the command again")]
    Changed {
        /// What was being read.
        entry: Arc<str>,
    },
    /// The input's bytes contradict its own description of them.
    #[error("{entry}: {reason}")]
    Damaged {
        /// What was being read.
        entry: Arc<str>,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// A caller asked for bytes that the content does not have.
    #[error("bytes {offset}+{length} lie outside of a content of {size} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
        /// Bytes there are.
        size: u64,
    },
}

impl ReadError {
    /// An I/O error that names the entry it concerns.
    pub fn io(entry: &Arc<str>, source: io::Error) -> Self {
        Self::Io { entry: Arc::clone(entry), source: Arc::new(source) }
    }

    /// A damaged entry, with the reason.
    pub fn damaged(entry: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Damaged { entry: Arc::clone(entry), reason: reason.into() }
    }
}
