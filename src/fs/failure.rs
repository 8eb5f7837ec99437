//! Why a request gets an error for an answer, and the way from errors and panics to errno.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

use crate::rope::ReadError;

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

impl Failure {
    /// The one place where errors become errno.
    pub(super) fn errno(&self) -> Errno {
        match self {
            // The handle to the file is stale in the sense of NFS: what it referred to was replaced or is gone.
            Self::Read(ReadError::Changed { .. }) => Errno::STALE,
            // What the system answered is about this process and the input. To the reader it would mean other things: that
            // it may not read this file, has too many files open, or should try again.
            //
            // Requests are cut to the file's size before, so that OutOfRange is a defect of the content.
            Self::Read(ReadError::Io { .. } | ReadError::Damaged { .. } | ReadError::OutOfRange { .. })
            | Self::Panic(_) => Errno::IO,
            Self::Plain(errno) => *errno,
        }
    }
}

/// Does `work`; a panic in it is a failure.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.unwrap_or_else(|payload| Err(Failure::Panic(panic_text(payload.as_ref()))))
}

/// The outermost boundary of panics, since a session's thread that panics is no more; each request has one of its own
/// ([`guarded`]). A reply that is dropped here answers EIO.
pub(super) fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.inspect_err(|_| tracing::error!("a request panicked outside of its own boundary")).ok()
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_error_has_its_errno() {
        let entry: Arc<str> = "lib/a.so".into();
        let of = |error: ReadError| Failure::Read(error).errno();
        for code in [libc::EACCES, libc::EMFILE, libc::EINTR, libc::EAGAIN] {
            assert_eq!(of(ReadError::io(&entry, io::Error::from_raw_os_error(code))), Errno::IO);
        }
        assert_eq!(of(ReadError::io(&entry, io::Error::other("short"))), Errno::IO);
        assert_eq!(of(ReadError::Changed { entry: entry.clone() }), Errno::STALE);
        assert_eq!(of(ReadError::damaged(&entry, "bad")), Errno::IO);
        assert_eq!(of(ReadError::OutOfRange { offset: 1, length: 1, size: 1 }), Errno::IO);
        assert_eq!(Failure::Panic(String::new()).errno(), Errno::IO);
    }
}
