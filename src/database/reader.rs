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
    /// Whether an empty variable counts as unset. Otherwise it names the root directory.
    pub ignores_empty: bool,
    /// Directories, relative to that of the library. It takes the first one that it may read, or else the last one.
    pub searched: &'static [&'static str],
    /// Whether the directory of the library is that of the file to which symlinks lead. Otherwise it is that of the name
    /// under which the library was loaded.
    pub follows_links: bool,
    /// The source of these facts: repository, commit, file and function.
    pub source: &'static str,
}
