//! What a user sees who sets `ROCM_KPACK_DEBUG`.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to stderr. Nobody can be told if that fails.
pub(crate) fn line(message: impl Display) {
    drop(writeln!(std::io::stderr(), "kpack: {message}"));
}
