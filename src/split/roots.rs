//! Overlay roots and group names, which determine the paths of archives.

use anyhow::bail;

use super::options::{Packaging, PlanOptions};
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind};
use crate::wheel;

/// The longest group, which leaves room for a target in the name of a file.
const MAX_GROUP: usize = 100;

/// The directories that may contain archives, and the paths of files after installation.
pub(super) struct Roots {
    kind: RootKind,
    is_wheel: bool,
    packaging: Packaging,
    has_group: bool,
}

enum RootKind {
    /// Given by the user.
    Given(Vec<EntryPath>),
    /// The root of an install tree, or in a tree of packages the directory of each binary.
    Tree,
    /// Every top-level package.
    Packages,
}

impl Roots {
    pub(super) fn new(input: &Input, options: &PlanOptions) -> anyhow::Result<Self> {
        let is_wheel = input.dist_info().is_some();
        let roots = |kind| Self { kind, is_wheel, packaging: options.packaging, has_group: options.group.is_some() };
        let Some(given) = &options.overlay_roots else {
            return Ok(roots(if is_wheel { RootKind::Packages } else { RootKind::Tree }));
        };
        let is_root = |entry: &Entry, root: &EntryPath| {
            matches!(entry.kind, EntryKind::Directory)
                && (entry.path == *root || is_wheel && wheel::installed(&entry.path) == *root)
        };
        let is_there = |root: &EntryPath| root.is_root() || input.entries.iter().any(|entry| is_root(entry, root));
        match given.iter().find(|root| !is_there(root)) {
            Some(missing) => bail!("--overlay-root {missing}: there is no such directory in the input"),
            None => Ok(roots(RootKind::Given(given.clone()))),
        }
    }

    /// The path of a binary among the archives that it can have next to it.
    pub(super) fn place(&self, path: &EntryPath) -> EntryPath {
        if self.is_wheel { wheel::among_data(path) } else { path.clone() }
    }

    /// The overlay root of a file at this place; `None` if it is below none.
    pub(super) fn of(&self, path: &EntryPath) -> Option<EntryPath> {
        match &self.kind {
            RootKind::Given(roots) => {
                let places = [Some(path.clone()), self.is_wheel.then(|| wheel::installed(path))];
                let rests =
                    places.iter().flatten().flat_map(|place| roots.iter().filter_map(move |root| place.below(root)));
                let root = first_components(path, path.depth() - rests.min_by_key(EntryPath::depth)?.depth());
                // Nothing is installed from the first level of a data directory, or above it.
                let is_above = self.is_wheel && is_data(path) && root.depth() < 2;
                Some(if is_above { package(path) } else { root })
            }
            RootKind::Tree if is_of_distribution(path) => directory_of(path),
            RootKind::Tree => Some(EntryPath::root()),
            RootKind::Packages => Some(package(path)),
        }
    }

    /// The first part of the names of a binary's archives, if it is the binary's own: packages share the directories of
    /// a distribution, and a library is in one package only.
    pub(super) fn own_group(&self, path: &EntryPath) -> Option<String> {
        let is_own = matches!(self.kind, RootKind::Tree) && !self.has_group && is_of_distribution(path);
        let root = self.of(path).filter(|_| is_own)?;
        // A program and a library may have one name: bin_foo, foo.
        let name = path.below(&root).or_else(|| path.below(&root.parent()?))?;
        Some(fine(&name.to_text()))
    }

    /// The path of a file of the host part or a device part after all parts are installed.
    pub(super) fn installed(&self, path: &EntryPath) -> EntryPath {
        let in_prefix = || path.below(&self.of(path)?);
        match self.packaging {
            Packaging::Bundles if self.is_wheel => wheel::installed(path),
            Packaging::Bundles => path.clone(),
            Packaging::Processors => in_prefix().unwrap_or_else(|| path.clone()),
        }
    }
}

/// Whether a file is where packages of a distribution have files (Filesystem Hierarchy Standard 3.0), which have none in
/// the root directory.
fn is_of_distribution(path: &EntryPath) -> bool {
    path.components().next().is_some_and(|first| matches!(first, b"usr" | b"opt")) && path.depth() > 1
}

/// The directory of a binary; of a program the directory `lib` next to its own, in which subdirectories are not allowed
/// (Filesystem Hierarchy Standard 3.0, 4.4).
fn directory_of(path: &EntryPath) -> Option<EntryPath> {
    let directory = path.parent()?;
    if matches!(directory.name(), b"bin" | b"sbin") { Some(directory.parent()?.child(b"lib")) } else { Some(directory) }
}

/// The top-level package of a file in a wheel. Files in a `*.data` directory are installed from its second level
/// (Binary distribution format, "The .data directory").
fn package(path: &EntryPath) -> EntryPath {
    first_components(path, (path.depth() - 1).min(if is_data(path) { 3 } else { 1 }))
}

fn is_data(path: &EntryPath) -> bool {
    path.components().next().is_some_and(|first| first.ends_with(b".data"))
}

fn first_components(path: &EntryPath, count: usize) -> EntryPath {
    path.components().take(count).fold(EntryPath::root(), |root, component| root.child(component))
}

/// The first part of archive names: the given group, or the wheel's name in lower case with underscores. For a single
/// binary it is the whole file name, so that archives of two libraries can be in one directory.
pub(super) fn group(input: &Input, options: &PlanOptions) -> anyhow::Result<String> {
    let name = match (&options.group, input.dist_info()) {
        (Some(given), _) => given.clone(),
        (None, Some(dist_info)) => {
            let text = dist_info.to_text();
            let name = text.split('-').next().unwrap_or_default();
            fine(&name.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_"))
        }
        (None, None) if matches!(input.kind, InputKind::Binary) => {
            input.entries.first().map(|entry| fine(&entry.path.to_string())).unwrap_or_default()
        }
        (None, None) => "rocm".to_owned(),
    };
    if name.is_empty() || name.starts_with('.') || name.len() > MAX_GROUP || !name.chars().all(is_fine) {
        bail!("--group {name:?}: a group is a name of up to 100 letters, digits, \"_\", \"-\", \"+\" and inner \".\"");
    }
    Ok(name)
}

fn is_fine(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-+".contains(letter)
}

/// A group that is made of another name.
fn fine(name: &str) -> String {
    let name = name.replace(|letter| !is_fine(letter), "_");
    let name = name.strip_prefix('.').map_or(name.clone(), |rest| format!("_{rest}"));
    name.chars().take(MAX_GROUP).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_GROUP, Packaging, RootKind, Roots, fine, package};
    use crate::source::EntryPath;

    #[test]
    fn every_name_makes_a_group() {
        for (name, expected) in [(".so", "_so"), ("é.so", "_.so"), ("my lib", "my_lib")] {
            assert_eq!(fine(name), expected);
        }
        assert_eq!(fine(&"n".repeat(251)).len(), MAX_GROUP);
    }

    #[test]
    fn the_package_of_a_file() {
        for (path, expected) in [
            ("torch/lib/libtorch_hip.so", "torch"),
            ("extension.so", ""),
            ("torch-2.0.data/platlib/torch/lib/x.so", "torch-2.0.data/platlib/torch"),
            ("torch-2.0.data/purelib/x.so", "torch-2.0.data/purelib"),
            ("cupy_backends/x.so", "cupy_backends"),
        ] {
            assert_eq!(package(&EntryPath::new(path.as_bytes()).unwrap()).to_string(), expected);
        }
    }

    /// The root of a wheel is above its data directories there only: their files are installed elsewhere.
    #[test]
    fn given_roots_are_where_files_are_installed() {
        let path = |text: &str| EntryPath::new(text.as_bytes()).unwrap();
        for (root, file, expected) in [
            ("", "foo/p.so", Some("")),
            ("", "foo-1.data/data/lib/d.so", Some("foo-1.data/data/lib")),
            ("", "foo-1.data/headers/h.so", Some("foo-1.data/headers")),
            ("", "foo-1.data/platlib/foo/d.so", Some("foo-1.data/platlib")),
            ("foo", "foo-1.data/purelib/foo/d.so", Some("foo-1.data/purelib/foo")),
            ("foo", "foo-1.data/data/lib/d.so", None),
            ("foo-1.data", "foo-1.data/data/lib/d.so", Some("foo-1.data/data/lib")),
            ("foo-1.data/data", "foo-1.data/data/lib/d.so", Some("foo-1.data/data")),
        ] {
            let root = if root.is_empty() { EntryPath::root() } else { path(root) };
            let kind = RootKind::Given(vec![root]);
            let roots = Roots { kind, is_wheel: true, packaging: Packaging::Bundles, has_group: false };
            assert_eq!(roots.of(&path(file)).map(|root| root.to_string()).as_deref(), expected, "{file}");
        }
    }
}
