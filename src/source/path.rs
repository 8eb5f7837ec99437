//! Paths inside an input: relative, normalised, and possibly not UTF-8.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use triomphe::ThinArc;

/// A path relative to the input's root: components separated by single slashes. No component is empty, `.` or `..`, and
/// none has a NUL byte. The root itself is the empty path. Paths sort component by component, so a directory comes
/// before its content, and subtrees are contiguous.
///
/// Each entry's path is stored in several places, so it is one pointer to shared bytes.
#[derive(Clone, PartialEq, Eq, Hash, derive_more::Display, derive_more::Debug)]
#[debug("{:?}", self.to_text())]
#[display("{}", self.to_text())]
pub struct EntryPath(ThinArc<(), u8>);

/// Why a name cannot be the path of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It begins with a slash.
    #[error("the name is absolute")]
    Absolute,
    /// A component is empty, `.` or `..`.
    #[error("the name has a component that is empty, \".\" or \"..\"")]
    Component,
    /// A component is longer than 255 bytes, or the whole longer than 4095.
    #[error("the name is too long for a file system")]
    TooLong,
    /// There is a NUL byte in it.
    #[error("the name has a NUL byte")]
    Nul,
}

impl EntryPath {
    fn of(path: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice((), path))
    }

    /// The path of the input itself.
    pub fn root() -> Self {
        Self::of(&[])
    }

    /// Checks a name and makes a path of it.
    pub fn new(name: &[u8]) -> Result<Self, PathError> {
        if name.first() == Some(&b'/') {
            return Err(PathError::Absolute);
        }
        if memchr::memchr(0, name).is_some() {
            return Err(PathError::Nul);
        }
        let mut longest = 0;
        let mut is_normal = true;
        let mut start = 0;
        for end in memchr::memchr_iter(b'/', name).chain([name.len()]) {
            let component = name.get(start..end).unwrap_or_default();
            longest = longest.max(component.len());
            is_normal &= !matches!(component, b"" | b"." | b"..");
            start = end + 1;
        }
        // PATH_MAX counts the terminating NUL.
        if name.len() > 4095 || longest > 255 {
            return Err(PathError::TooLong);
        }
        if is_normal { Ok(Self::of(name)) } else { Err(PathError::Component) }
    }

    /// `self` extended by `name`: one or several components separated by slashes. The caller has validated it.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Self {
        if self.is_root() { Self::of(name) } else { Self::of(&[self.as_bytes(), b"/", name].concat()) }
    }

    /// Whether this is the input itself.
    pub fn is_root(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// The path for calls to the operating system.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.as_bytes()))
    }

    /// The path as text, with bytes that are not UTF-8 replaced.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }

    /// The components from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.as_bytes().split(|&byte| byte == b'/').filter(|component| !component.is_empty())
    }

    /// Number of components.
    pub fn depth(&self) -> usize {
        if self.is_root() { 0 } else { memchr::memchr_iter(b'/', self.as_bytes()).count() + 1 }
    }

    /// How many components two paths have in common, from the top.
    pub fn common_depth(&self, other: &Self) -> usize {
        self.components().zip(other.components()).take_while(|(one, other)| one == other).count()
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &[u8] {
        let start = memchr::memrchr(b'/', self.as_bytes()).map_or(0, |slash| slash + 1);
        self.as_bytes().get(start..).unwrap_or_default()
    }

    /// The directory that holds this; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        (!self.is_root()).then(|| Self::of(self.directory()))
    }

    /// The bytes of the parent's path. Empty for the root and for its children.
    pub fn directory(&self) -> &[u8] {
        let end = memchr::memrchr(b'/', self.as_bytes()).unwrap_or(0);
        self.as_bytes().get(..end).unwrap_or_default()
    }

    /// Whether this is the place of a `*.dist-info` directory, the metadata of a distribution: at the top of a wheel or of a
    /// directory of packages (packaging.python.org, "Recording installed projects").
    pub fn is_dist_info(&self) -> bool {
        self.depth() == 1 && self.is_in_dist_info()
    }

    /// Whether this is a `*.dist-info` directory, or in one.
    pub fn is_in_dist_info(&self) -> bool {
        self.components().next().is_some_and(|first| first.ends_with(b".dist-info"))
    }

    /// Whether this is in the directory `ancestor`, or in one of its subdirectories.
    pub fn is_below(&self, ancestor: &Self) -> bool {
        match self.as_bytes().strip_prefix(ancestor.as_bytes()) {
            Some([b'/', ..]) => true,
            Some([_, ..]) => ancestor.is_root(),
            Some([]) | None => false,
        }
    }

    /// The path relative to `ancestor`: the root if both are equal, `None` if this is not below it.
    pub fn below(&self, ancestor: &Self) -> Option<Self> {
        if ancestor.is_root() {
            return Some(self.clone());
        }
        match self.as_bytes().strip_prefix(ancestor.as_bytes())? {
            [] => Some(Self::root()),
            [b'/', rest @ ..] => Some(Self::of(rest)),
            _ => None,
        }
    }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> Ordering {
        // The end of a component sorts before all bytes, which makes the order one of components.
        let rank = |byte: Option<&u8>| match byte {
            None => 0,
            Some(b'/') => 1,
            Some(&byte) => u16::from(byte) + 2,
        };
        let (ours, theirs) = (self.as_bytes(), other.as_bytes());
        let same = common_prefix(ours, theirs);
        rank(ours.get(same)).cmp(&rank(theirs.get(same)))
    }
}

/// Length of the common prefix of two names in bytes. Compares eight bytes at a time, since most names in a wheel begin
/// alike.
fn common_prefix(ours: &[u8], theirs: &[u8]) -> usize {
    let (steps, other_steps) = (ours.as_chunks::<8>().0, theirs.as_chunks::<8>().0);
    let whole = 8 * steps.iter().zip(other_steps).take_while(|(ours, theirs)| ours == theirs).count();
    let rest = ours.iter().zip(theirs).skip(whole).take_while(|(ours, theirs)| ours == theirs);
    whole + rest.count()
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {

    use super::{EntryPath, PathError};
    use crate::source::testing::path;

    #[test]
    fn names_that_leave_the_tree_are_refused() {
        for (name, error) in [
            ("/etc/passwd", PathError::Absolute),
            ("../x", PathError::Component),
            ("a/../b", PathError::Component),
            ("a//b", PathError::Component),
            ("a/", PathError::Component),
            ("", PathError::Component),
            ("./a", PathError::Component),
            ("a\0b", PathError::Nul),
            (&"x".repeat(256), PathError::TooLong),
            (&"xy/".repeat(1400), PathError::TooLong),
        ] {
            assert_eq!(EntryPath::new(name.as_bytes()).unwrap_err(), error, "{name:?}");
        }
        assert!(EntryPath::new(b"a\xff..b/...").is_ok());
    }

    #[test]
    fn a_directory_comes_before_its_content_and_subtrees_are_contiguous() {
        let mut paths = [path("a.b"), path("a/z"), path("a"), path("a/b/c"), path("a-b")];
        paths.sort();
        assert_eq!(paths.map(|path| path.to_string()), ["a", "a/b/c", "a/z", "a-b", "a.b"]);
    }

    #[test]
    fn relations() {
        assert_eq!(path("a/b/c").below(&path("a")), Some(path("b/c")));
        assert_eq!(path("ab").below(&path("a")), None);
        assert_eq!(path("a").below(&EntryPath::root()), Some(path("a")));
        assert_eq!(path("a").below(&path("a")), Some(EntryPath::root()));
        let is_below = |one: &str, other: &str| path(one).is_below(&path(other));
        assert_eq!((is_below("a/b", "a"), is_below("a", "a"), is_below("ab", "a")), (true, false, false));
        assert!(path("a").is_below(&EntryPath::root()) && !EntryPath::root().is_below(&EntryPath::root()));
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(EntryPath::root()));
        assert_eq!(EntryPath::root().parent(), None);
        assert_eq!((path("a/b").name(), path("a/b").depth()), (&b"b"[..], 2));
        assert_eq!(EntryPath::root().child(b"x"), path("x"));
    }
}
