//! Helpers of the handlers: paths as text.

use crate::source::EntryPath;

/// Stands for the version of a library in a list of directories: `rocblas/<version>/library` is `rocblas/4.4.1/library`.
pub const VERSION: &str = "<version>";

/// Whether the name of a directory is the version of a library.
pub fn is_version(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The components of a path, all of them valid UTF-8.
pub(super) struct PathNames<'a> {
    components: Vec<&'a str>,
}

impl<'a> PathNames<'a> {
    /// Divides a path into components. `None` unless it is UTF-8.
    pub(super) fn new(path: &'a EntryPath) -> Option<Self> {
        let text = std::str::from_utf8(path.as_bytes()).ok()?;
        Some(Self { components: text.split('/').collect() })
    }

    /// The file's own name.
    pub(super) fn file(&self) -> &'a str {
        self.components.last().copied().unwrap_or_default()
    }

    /// Whether the path ends with these components.
    pub(super) fn parents_end_with(&self, directories: &[&str]) -> bool {
        self.components.split_last().is_some_and(|(_, parents)| parents.ends_with(directories))
    }

    /// The components below the first occurrence of the consecutive `directories` (not empty). At least one.
    pub(super) fn below(&self, directories: &[&str]) -> Option<&[&'a str]> {
        let is_it = |(name, wanted): (&&str, &&str)| name == wanted || (*wanted == VERSION && is_version(name));
        let mut windows = self.components.windows(directories.len());
        let position = windows.position(|window| window.iter().zip(directories).all(is_it))?;
        self.components.get(position + directories.len()..).filter(|below| !below.is_empty())
    }
}
