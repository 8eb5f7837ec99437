//! The directories in which a loader looks for a library, from the strings in `DT_RPATH` and `DT_RUNPATH` (`ld.so(8)`,
//! "Dynamic string tokens").

use std::path::{Path, PathBuf};

use super::search_path::resolve;
use crate::source::EntryPath;

/// A directory of a search list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchDirectory {
    /// Relative to the directory of the library that names it: this many directories up, and then down.
    Relative(usize, EntryPath),
    /// An absolute path, without the slash it begins with.
    Absolute(EntryPath),
}

/// What `$LIB` stands for: on Fedora and its relatives, on Debian and its relatives, elsewhere (`ld.so(8)`).
const LIB: [&str; 3] = ["lib64", "lib/x86_64-linux-gnu", "lib"];

impl SearchDirectory {
    /// The directories that an element of a search path stands for. None if it depends on the current directory or on
    /// the processor.
    pub(crate) fn of(element: &[u8]) -> Vec<Self> {
        let Ok(text) = std::str::from_utf8(element) else { return Vec::new() };
        let text = text.replace("${", "$").replace('}', "");
        if text.contains("$PLATFORM") {
            return Vec::new();
        }
        let texts =
            if text.contains("$LIB") { LIB.iter().map(|lib| text.replace("$LIB", lib)).collect() } else { vec![text] };
        texts.iter().filter_map(|text| Self::one(text)).collect()
    }

    fn one(text: &str) -> Option<Self> {
        if let Some(relative) = text.strip_prefix("$ORIGIN") {
            let relative = relative.strip_prefix('/').or_else(|| relative.is_empty().then_some(""))?;
            let (ups, down) = climbed(relative);
            // Each name is checked: it may be one that no entry can have.
            let below = down.into_iter().try_fold(EntryPath::root(), |path, name| {
                EntryPath::new(name.as_bytes()).ok().map(|_| path.child(name.as_bytes()))
            });
            return Some(Self::Relative(ups, below?));
        }
        let absolute = text.strip_prefix('/')?;
        Some(Self::Absolute(resolve(&EntryPath::root(), absolute.trim_start_matches('/'))?))
    }

    /// The directory on the disk, for a library in `origin`; `None` above the root.
    pub(crate) fn on_disk(&self, origin: &Path) -> Option<PathBuf> {
        match self {
            Self::Relative(ups, down) => Some(origin.ancestors().nth(*ups)?.join(down.as_path())),
            Self::Absolute(path) => Some(Path::new("/").join(path.as_path())),
        }
    }

    /// The directory in the tree, for a library in `origin`; `None` if it is outside.
    pub(crate) fn within(&self, origin: &EntryPath) -> Option<EntryPath> {
        let Self::Relative(ups, down) = self else { return None };
        let mut at = origin.clone();
        for _ in 0..*ups {
            at = at.parent()?;
        }
        Some(down.components().fold(at, |at, name| at.child(name)))
    }
}

/// The number of directories up, and the names below that.
fn climbed(path: &str) -> (usize, Vec<&str>) {
    let mut ups = 0;
    let mut down = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                if down.pop().is_none() {
                    ups += 1;
                }
            }
            name => down.push(name),
        }
    }
    (ups, down)
}

#[cfg(test)]
mod tests {
    use super::SearchDirectory;
    use crate::source::testing::path;

    #[test]
    fn tokens_and_relative_directories() {
        for (element, expected) in [
            ("$ORIGIN", Some("a/b")),
            ("${ORIGIN}/../lib", Some("a/lib")),
            ("$ORIGIN/x/../../..", Some("")),
            ("$ORIGIN/../../..", None),
            ("$ORIGIN/./rocm_sysdeps//lib/", Some("a/b/rocm_sysdeps/lib")),
        ] {
            let [directory] = &*SearchDirectory::of(element.as_bytes()) else { panic!("{element}") };
            assert_eq!(directory.within(&path("a/b")).map(|it| it.to_string()).as_deref(), expected, "{element}");
        }
        assert_eq!(SearchDirectory::of(b"/opt/rocm//lib/"), [SearchDirectory::Absolute(path("opt/rocm/lib"))]);
        assert_eq!(SearchDirectory::of(b"/opt/$LIB").len(), 3);
        for other in ["lib", "$ORIGINAL/x", "$ORIGIN/$PLATFORM", "/../x"] {
            assert_eq!(SearchDirectory::of(other.as_bytes()), [], "{other}");
        }
        assert_eq!(SearchDirectory::of(b"/a\xff"), []);
    }
}
