//! Why contents cannot be read.

use std::error::Error;
use std::fmt;
use std::io;
use std::iter;
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
    /// Whether this user may not read the input.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// An I/O error that names the entry it concerns.
    pub fn io(entry: &Arc<str>, source: io::Error) -> Self {
        Self::Io { entry: Arc::clone(entry), source: Arc::new(source) }
    }

    /// The error of an entry of which something cannot be made. That its input was changed, or cannot be read, is no damage.
    pub(crate) fn caused_by(entry: &Arc<str>, error: &(dyn Error + 'static)) -> Self {
        let mut causes = iter::successors(Some(error), |&error| error.source());
        let read = causes.find_map(|cause| cause.downcast_ref::<Self>());
        read.cloned().unwrap_or_else(|| Self::damaged(entry, error.to_string()))
    }

    /// A damaged entry, with the reason.
    pub fn damaged(entry: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Damaged { entry: Arc::clone(entry), reason: reason.into() }
    }
}

/// The reason of an error about `place`, without the name of the file if that is `place` or its end: errors of reading name
/// it, and so do their callers.
pub(crate) fn reason_at(place: &str, error: impl fmt::Display) -> String {
    let text = error.to_string();
    let ends = place.match_indices('/').filter_map(|(at, _)| place.get(at + 1..));
    let mut names = iter::once(place).chain(ends).filter(|name| !name.is_empty());
    let unnamed = names.find_map(|name| text.strip_prefix(name)?.strip_prefix(": "));
    unnamed.map_or_else(|| text.clone(), str::to_owned)
}

/// An error with its causes. A cause that is quoted by its error is not repeated, nor is the name of its file.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            text if text.contains(&cause) => text.to_owned(),
            text => format!("{text}: {}", reason_at(text, cause)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::reason_at;

    #[test]
    fn a_file_is_named_once() {
        for (place, error, reason) in [
            ("a/x.so", "a/x.so: it is encrypted", "it is encrypted"),
            ("host/a/x.so", "a/x.so: it is encrypted", "it is encrypted"),
            ("w.whl/a: b/x.so", "a: b/x.so: member 1: it is encrypted", "member 1: it is encrypted"),
            ("a/x.so", "a/y.so: it is encrypted", "a/y.so: it is encrypted"),
            ("ax.so", "x.so: it is encrypted", "x.so: it is encrypted"),
            ("x.so", "a/x.so: it is encrypted", "a/x.so: it is encrypted"),
            ("dir/", ": what", ": what"),
            ("x.so", "x.so", "x.so"),
            ("", "it is encrypted", "it is encrypted"),
        ] {
            assert_eq!(reason_at(place, error), reason, "{place}");
        }
    }
}
