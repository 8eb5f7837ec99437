//! Paths in commands for a shell.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path, quoted for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(byte);
    let text = path.display().to_string();
    if bytes.iter().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
