//! Search paths of a marker, resolved in the tree of an input.

use rocm_kpack::search::{PLACEHOLDER, candidates};

use super::archives::DOT_KPACK;
use crate::gpu::TargetId;
use crate::source::EntryPath;

/// The path to which `relative` leads from `directory`; `None` if that is outside of the tree.
pub(crate) fn resolve(directory: &EntryPath, relative: &str) -> Option<EntryPath> {
    if relative.starts_with('/') {
        return None;
    }
    let mut components: Vec<&[u8]> = directory.components().collect();
    for component in relative.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()?),
            name => components.push(name.as_bytes()),
        }
    }
    EntryPath::new(&components.join(&b'/')).ok()
}

/// A search path of a marker, resolved against a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// The part before the placeholder, or all of it.
    before: Vec<u8>,
    /// The part after the placeholder, if there is one.
    behind: Option<Vec<u8>>,
}

/// The targets for which a search path leads to an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All targets.
    All,
    /// Devices that match this name, which the path contains.
    Named(String),
}

/// What follows the directory in a search path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchPattern<'a> {
    start: &'a [u8],
    /// `None` without a placeholder.
    end: Option<&'a [u8]>,
    below: &'a [u8],
}

impl SearchPattern<'_> {
    /// The path of an archive through an entry of the directory, and the targets for which a loader tries it.
    pub(crate) fn archive(&self, entry: &EntryPath) -> Option<(EntryPath, Reach)> {
        let Some(end) = self.end else { return (entry.name() == self.start).then(|| (entry.clone(), Reach::All)) };
        let middle = entry.name().strip_prefix(self.start)?.strip_suffix(end).filter(|middle| !middle.is_empty())?;
        let reach = Reach::Named(std::str::from_utf8(middle).ok()?.to_owned());
        let path = if self.below.is_empty() { entry.clone() } else { entry.child(self.below) };
        Some((path, reach))
    }
}

impl SearchPath {
    /// `None` if it leads outside of the tree.
    pub(crate) fn new(directory: &EntryPath, path: &str) -> Option<Self> {
        let resolved = resolve(directory, path)?;
        let bytes = resolved.as_bytes();
        let placeholder = PLACEHOLDER.as_bytes();
        let at = bytes.windows(placeholder.len()).position(|window| window == placeholder);
        Some(match at {
            None => Self { before: bytes.to_vec(), behind: None },
            Some(at) => Self {
                before: bytes.get(..at).unwrap_or_default().to_vec(),
                behind: bytes.get(at + placeholder.len()..).map(<[u8]>::to_vec),
            },
        })
    }

    /// The directory of `.kpack` and the first part of the archives' names, if the path is
    /// `DIRECTORY/.kpack/STEM_@GFXARCH@.kpack`.
    pub(crate) fn parts(&self) -> Option<(EntryPath, String)> {
        if self.behind.as_deref() != Some(DOT_KPACK.as_bytes()) {
            return None;
        }
        let before = self.before.strip_suffix(b"_")?;
        let slash = before.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let (directory, stem) = before.split_at_checked(slash)?;
        let root = EntryPath::new(directory).ok()?;
        let stem = std::str::from_utf8(stem.strip_prefix(b"/")?).ok().filter(|stem| !stem.is_empty())?;
        (root.name() == DOT_KPACK.as_bytes()).then(|| Some((root.parent()?, stem.to_owned())))?
    }

    /// The directory of the archives and what follows it, in three pieces: the beginning of a name, its end, and the
    /// path below that. Without a placeholder the pieces are the whole path.
    pub(crate) fn split(&self) -> Option<(EntryPath, SearchPattern<'_>)> {
        let slash = self.before.iter().rposition(|&byte| byte == b'/');
        let (directory, start) = match slash {
            Some(slash) => (self.before.get(..slash)?, self.before.get(slash + 1..)?),
            None => (&[][..], &*self.before),
        };
        let behind = self.behind.as_deref();
        let end = behind.map(|behind| behind.split(|&byte| byte == b'/').next().unwrap_or_default());
        let below = behind.zip(end).and_then(|(behind, end)| behind.get(end.len() + 1..)).unwrap_or_default();
        let directory = if directory.is_empty() { EntryPath::root() } else { EntryPath::new(directory).ok()? };
        Some((directory, SearchPattern { start, end, below }))
    }
}

impl Reach {
    /// Whether a loader that has found the archive looks up `target` in it: the device has to match both names.
    pub(crate) fn asks_for(&self, target: &str) -> bool {
        let answers = |device: &str, name: &str| match (device.parse::<TargetId>(), name.parse::<TargetId>()) {
            (Ok(device), Ok(name)) => device.candidates().contains(&name),
            _ => candidates(device).iter().any(|candidate| candidate == name),
        };
        match self {
            Self::All => true,
            Self::Named(name) => answers(name, target) || answers(target, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reach, SearchPath, resolve};
    use crate::source::EntryPath;
    use crate::source::testing::path;

    #[test]
    fn search_paths_start_at_the_directory_of_the_binary() {
        for (relative, expected) in [
            ("../.kpack/x.kpack", Some("a/.kpack/x.kpack")),
            ("./x", Some("a/b/x")),
            ("../..//y", Some("y")),
            ("../../../y", None),
            ("/y", None),
        ] {
            let found = resolve(&path("a/b"), relative).map(|path| path.to_string());
            assert_eq!(found.as_deref(), expected, "{relative}");
        }
    }

    /// The targets for which a search path leads to an archive.
    fn reach(search: &SearchPath, archive: &str) -> Option<Reach> {
        let (directory, pattern) = search.split().unwrap();
        let below = path(archive).below(&directory)?;
        let entry = directory.child(below.components().next()?);
        pattern.archive(&entry).filter(|(found, _)| *found == path(archive)).map(|(_, reach)| reach)
    }

    #[test]
    fn a_placeholder_stands_for_one_name() {
        let search = SearchPath::new(&path("torch/lib"), "../.kpack/torch_@GFXARCH@.kpack").unwrap();
        let named = |name: &str| Some(Reach::Named(name.to_owned()));
        assert_eq!(reach(&search, "torch/.kpack/torch_gfx90a:xnack-.kpack"), named("gfx90a:xnack-"));
        assert_eq!(reach(&search, "torch/.kpack/torch_.kpack"), None);
        assert_eq!(reach(&search, "torch/.kpack/torch_a/b.kpack"), None);
        assert_eq!(reach(&search, "lib/.kpack/torch_gfx90a.kpack"), None);
        assert_eq!(search.parts(), Some((path("torch"), "torch".to_owned())));
        let fixed = SearchPath::new(&path("lib"), "../.kpack/all.kpack").unwrap();
        assert_eq!((reach(&fixed, ".kpack/all.kpack"), fixed.parts()), (Some(Reach::All), None));
        let below = SearchPath::new(&path("lib"), "@GFXARCH@.d/x/all.kpack").unwrap();
        assert_eq!(reach(&below, "lib/gfx942.d/x/all.kpack"), named("gfx942"));
        assert_eq!(reach(&below, "lib/gfx942.d/y/all.kpack"), None);
        let root = SearchPath::new(&EntryPath::root(), ".kpack/a_b_@GFXARCH@.kpack").unwrap();
        assert_eq!(root.parts(), Some((EntryPath::root(), "a_b".to_owned())));
        assert_eq!(SearchPath::new(&EntryPath::root(), "@GFXARCH@.kpack").unwrap().parts(), None);
    }

    #[test]
    fn a_loader_asks_an_archive_for_names_of_one_device() {
        let reach = |name: &str| Reach::Named(name.to_owned());
        for (name, target, expected) in [
            ("gfx90a:xnack-", "gfx90a:xnack-", true),
            ("gfx90a:xnack-", "gfx90a", true),
            ("gfx90a", "gfx90a:xnack+", true),
            ("gfx1100", "gfx11-generic", true),
            ("gfx1100", "gfx1101", false),
            ("gfx90a:xnack-", "gfx90a:xnack+", false),
            // Older splits name a mode that is always on.
            ("gfx1250:xnack+", "gfx1250:xnack+", true),
            ("gfx1250", "gfx12-5-generic", true),
            ("NO TARGET", "gfx1101", false),
        ] {
            assert_eq!(reach(name).asks_for(target), expected, "{name} {target}");
        }
        assert!(Reach::All.asks_for("gfx1101"));
    }
}
