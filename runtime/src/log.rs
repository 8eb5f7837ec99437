//! What is printed with `ROCM_KPACK_DEBUG`.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to stderr. A failure is ignored, since there is no other place to report it.
pub(crate) fn line(message: impl Display) {
    drop(writeln!(std::io::stderr(), "kpack: {message}"));
}
