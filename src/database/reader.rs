//! Which library opens the files of a database, and where it searches for them.

/// A library that opens the files of a database by their paths.
#[derive(Debug, PartialEq, Eq)]
pub struct DatabaseReader {
    /// The product's name, for messages.
    pub name: &'static str,
    /// File names of the library, without `lib` and without a suffix.
    pub libraries: &'static [&'static str],
    /// The environment variable that names the directory instead.
    pub variable: Option<&'static str>,
    /// What that variable means if it is empty.
    pub empty: EmptyVariable,
    /// Directories, relative to that of the library, one of which may have [`VERSION`](super::VERSION) in it. It takes the
    /// first one that it may read, or else the last one.
    pub searched: &'static [&'static str],
    /// The beginning of the names of files that may also be next to the library, which it tries first.
    pub next_to: Option<&'static str>,
    /// Whether the library does its work without them, if more slowly.
    pub is_optional: bool,
    /// Whether the directory of the library is that of the file to which symlinks lead. Otherwise it is that of the name
    /// under which the library was loaded.
    pub follows_links: bool,
    /// The source of these facts: repository, commit, file and function.
    pub source: &'static str,
}

/// What an empty environment variable means to a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyVariable {
    /// The same as an unset one.
    Unset,
    /// The root directory: `/` and a name are appended to the text.
    Root,
    /// The working directory: a name is appended to a `std::filesystem::path`.
    WorkingDirectory,
}
