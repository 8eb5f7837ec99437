//! Why a request is answered with an error, and the errno for it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

use crate::rope::ReadError;

/// Why a request is answered with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The bytes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Answering the request panicked.
    #[error("{0}")]
    Panic(String),
    /// The request is not valid for the node.
    #[error(transparent)]
    Plain(Errno),
}

impl Failure {
    /// The reason for the log; `None` if the reader has it already.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Read(ReadError::Changed { entry }) => {
                Some(format!("{entry}: changed since it was opened; unmount and mount it again"))
            }
            Self::Read(error) => Some(error.to_string()),
            Self::Panic(text) => Some(text.clone()),
            Self::Plain(_) => None,
        }
    }

    /// The errno of the answer. All errors are mapped here.
    pub(super) fn errno(&self) -> Errno {
        match self {
            // The file is stale in the sense of NFS: what it referred to was replaced or removed.
            Self::Read(ReadError::Changed { .. }) => Errno::STALE,
            // The system's errno concerns this process and the input. To the reader it would mean something else: that
            // it may not read this file, has too many open files, or should try again.
            //
            // Requests are truncated to the file's size before, so OutOfRange is a defect of the content.
            Self::Read(ReadError::Io { .. } | ReadError::Damaged { .. } | ReadError::OutOfRange { .. })
            | Self::Panic(_) => Errno::IO,
            Self::Plain(errno) => *errno,
        }
    }
}

/// Runs `work`. A panic in it becomes a failure.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.unwrap_or_else(|payload| Err(Failure::Panic(panic_text(payload.as_ref()))))
}

/// The outermost boundary of panics. A panic would end the session's thread. Each request has a boundary of its own
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

    #[test]
    fn what_to_do_about_a_changed_input_depends_on_who_reads_it() {
        let changed = ReadError::Changed { entry: "lib/a.so".into() };
        assert_eq!(changed.to_string(), "lib/a.so: changed since it was opened; run the command again");
        let reason = Failure::Read(changed).reason().unwrap();
        assert_eq!(reason, "lib/a.so: changed since it was opened; unmount and mount it again");
    }
}
