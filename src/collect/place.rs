//! Where a collected file is in the result.
//!
//! The application keeps its layout. A directory of a tree that has a library for the application becomes the directory in
//! which the application looks for it. All other files of that tree keep their place relative to that directory, so that
//! `$ORIGIN`, markers, and paths that libraries derive from their own lead to the same files as before.

use std::collections::BTreeMap;

use super::model::Reason;
use super::objects::{LoadedObject, RootedPath};
use super::options::CollectOptions;
use super::pieces::ResultPlace;
use super::root::SearchRoot;
use crate::binary::LinkedMachine;
use crate::loader::SearchDirectory;
use crate::source::EntryPath;

/// A path relative to the application: this many directories up, and then down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RelativePosition {
    ups: usize,
    down: EntryPath,
}

impl RelativePosition {
    fn inside(down: EntryPath) -> Self {
        Self { ups: 0, down }
    }

    fn up(&self, count: usize) -> Self {
        let mut at = self.clone();
        for _ in 0..count {
            match at.down.parent() {
                Some(parent) => at.down = parent,
                None => at.ups += 1,
            }
        }
        at
    }

    fn child(&self, name: &[u8]) -> Self {
        Self { ups: self.ups, down: self.down.child(name) }
    }

    /// The position of `path`, if this is the position of `directory` in the same tree.
    fn walk(&self, directory: &EntryPath, path: &EntryPath) -> Self {
        let shared = directory.common_depth(path);
        let start = self.up(directory.depth() - shared);
        path.components().skip(shared).fold(start, |at, name| at.child(name))
    }
}

/// The places of all files.
#[derive(Debug)]
pub(super) struct Placement {
    /// The position of a directory of a root, by root and directory.
    anchors: BTreeMap<RootedPath, RelativePosition>,
    /// The names of the directories around the application that the result has, too.
    above: Vec<Vec<u8>>,
}

/// The directory for libraries of a program that looks nowhere relative to itself.
const LIBRARIES: &[u8] = b"lib";

impl Placement {
    /// Decides for all directories of libraries. `host` is the tree that contains the application, if one does.
    pub(super) fn new(
        roots: &[SearchRoot],
        objects: &[LoadedObject],
        options: &CollectOptions,
        host: Option<usize>,
    ) -> Self {
        let whole = |root| (RootedPath { root, path: EntryPath::root() }, RelativePosition::inside(EntryPath::root()));
        let mut placement = Self { anchors: BTreeMap::from([whole(0)]), above: Vec::new() };
        placement.anchors.extend(host.map(whole));
        for object in objects {
            if object.file.root == 0 || Some(object.file.root) == host || object.reason == Reason::Data {
                continue;
            }
            let here = directory_of(object);
            let by = object.by.and_then(|by| objects.get(by));
            let is_rigid = by.is_some_and(|by| by.file.root == object.file.root && object.is_relative);
            if is_rigid && placement.anchors.keys().any(|anchor| anchor.root == here.root) {
                continue;
            }
            if !placement.anchors.contains_key(&here) {
                let position = match by.or(objects.first()) {
                    Some(by) if by.file.root == 0 || Some(by.file.root) == host => home(by, objects, options),
                    Some(by) => placement.position(&directory_of(by)),
                    None => RelativePosition::inside(EntryPath::root().child(LIBRARIES)),
                };
                placement.anchors.insert(here, position);
            }
        }
        placement.above = directories_around(roots);
        placement
    }

    /// The position of a path of a root.
    fn position(&self, place: &RootedPath) -> RelativePosition {
        let of_root = self.anchors.iter().filter(|(anchor, _)| anchor.root == place.root);
        let nearest = of_root
            .max_by_key(|(anchor, _)| (anchor.path.common_depth(&place.path), std::cmp::Reverse(anchor.path.depth())));
        let Some((anchor, position)) = nearest else { return RelativePosition::inside(place.path.clone()) };
        position.walk(&anchor.path, &place.path)
    }

    /// The position of a path of a root, as seen from a directory of this root. That of its own may be another: the
    /// libraries of two directories may become neighbours, and open files relative to themselves.
    fn position_from(&self, directory: &EntryPath, place: &RootedPath) -> RelativePosition {
        let start = self.position(&RootedPath { root: place.root, path: directory.clone() });
        start.walk(directory, &place.path)
    }

    /// Adds as many directories around the application as files in these places need.
    pub(super) fn fit<'a>(&mut self, places: impl Iterator<Item = &'a ResultPlace>) {
        let ups = |place: &ResultPlace| match place {
            ResultPlace::Like(file) => self.position(file).ups,
            ResultPlace::OpenedFrom(directory, file) => self.position_from(directory, file).ups,
            ResultPlace::At(_) => 0,
        };
        let ups = places.map(ups).max().unwrap_or(0);
        let missing = ups.saturating_sub(self.above.len());
        let known = self.above.len().saturating_sub(ups);
        self.above.drain(..known);
        // There is nothing above the root directory.
        self.above.splice(..0, (0..missing).map(|_| b"app".to_vec()));
    }

    /// The path in the result. [`Placement::fit`] has to know the place.
    pub(super) fn of(&self, place: &ResultPlace) -> EntryPath {
        match place {
            ResultPlace::Like(file) => self.path(file),
            ResultPlace::OpenedFrom(directory, file) => self.reached(&self.position_from(directory, file)),
            ResultPlace::At(path) => path.clone(),
        }
    }

    /// The path in the result of a file of a root.
    pub(super) fn path(&self, place: &RootedPath) -> EntryPath {
        self.reached(&self.position(place))
    }

    fn reached(&self, RelativePosition { ups, down }: &RelativePosition) -> EntryPath {
        let depth = self.above.len().saturating_sub(*ups);
        let above = self.above.iter().take(depth).fold(EntryPath::root(), |path, name| path.child(name));
        down.components().fold(above, |path, name| path.child(name))
    }

    /// The directories of the result that a search list leads to, for a library.
    pub(super) fn searched(&self, object: &LoadedObject, list: &[Vec<u8>]) -> Vec<EntryPath> {
        let loaded = RootedPath { root: object.file.root, path: object.loaded_as.clone() };
        let Some(origin) = self.path(&loaded).parent() else { return Vec::new() };
        let directories = list.iter().flat_map(|element| SearchDirectory::of(element));
        directories.filter_map(|directory| directory.within(&origin)).collect()
    }
}

fn directory_of(object: &LoadedObject) -> RootedPath {
    RootedPath { root: object.file.root, path: object.origin() }
}

/// The directory in which a program or library of the application looks for others.
fn home(object: &LoadedObject, objects: &[LoadedObject], options: &CollectOptions) -> RelativePosition {
    let here = RelativePosition::inside(object.origin());
    if object.imports.machine == LinkedMachine::Pe {
        return here;
    }
    let mut at = Some(object);
    while let Some(named) = at {
        let list = named.imports.runpath.as_ref().unwrap_or(&named.imports.rpath);
        let relative = list.iter().flat_map(|element| SearchDirectory::of(element)).find_map(|it| match it {
            SearchDirectory::Relative(ups, down) => Some((ups, down)),
            SearchDirectory::Absolute(_) => None,
        });
        if let Some((ups, down)) = relative {
            let origin = RelativePosition::inside(named.origin());
            return down.components().fold(origin.up(ups), |at, name| at.child(name));
        }
        at = named.by.and_then(|by| objects.get(by)).filter(|_| object.imports.runpath.is_none());
    }
    let library_path = options.library_path.first().cloned();
    RelativePosition::inside(library_path.unwrap_or_else(|| EntryPath::root().child(LIBRARIES)))
}

/// The names of the directories that lead to the application, from the outermost on.
fn directories_around(roots: &[SearchRoot]) -> Vec<Vec<u8>> {
    let location = roots.first().map(|app| app.input.location.as_os_str().as_encoded_bytes().to_vec());
    let path = location.and_then(|location| EntryPath::new(location.strip_prefix(b"/")?).ok());
    path.map(|path| path.components().map(<[u8]>::to_vec).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Placement, RelativePosition};
    use crate::collect::objects::RootedPath;
    use crate::collect::pieces::ResultPlace;
    use crate::source::EntryPath;

    fn path(text: &str) -> EntryPath {
        if text.is_empty() { EntryPath::root() } else { EntryPath::new(text.as_bytes()).unwrap() }
    }

    #[test]
    fn files_keep_their_place_relative_to_the_libraries() {
        let place = |text: &str| RootedPath { root: 1, path: path(text) };
        let anchor = |text: &str, to: &str| (place(text), RelativePosition::inside(path(to)));
        let placement = |anchors: &[_], wanted: &str| {
            let mut placement = Placement {
                anchors: anchors.iter().cloned().collect(),
                above: vec![b"build".to_vec(), b"bin".to_vec()],
            };
            placement.fit([ResultPlace::Like(place(wanted))].iter());
            placement.path(&place(wanted)).to_string()
        };
        for (directory, to, wanted, expected) in [
            ("lib", "", "lib/libx.so", "libx.so"),
            ("lib", "", "lib/rocblas/library/a.dat", "rocblas/library/a.dat"),
            ("lib", "", "share/miopen/db/a", "share/miopen/db/a"),
            ("lib", "lib", "share/miopen/db/a", "share/miopen/db/a"),
            ("usr/lib/x86_64-linux-gnu", "lib", "usr/lib/x86_64-linux-gnu/x", "lib/x"),
            ("usr/lib/x86_64-linux-gnu", "", "etc/x", "etc/x"),
        ] {
            assert_eq!(placement(&[anchor(directory, to)], wanted), expected, "{directory} {to} {wanted}");
        }
        let both = [anchor("core/lib", "lib"), anchor("math/lib", "lib")];
        assert_eq!(placement(&both, "math/lib/a/b"), "lib/a/b");
        assert_eq!(placement(&both, "core/lib/c"), "lib/c");
        // Next to the application's own directory.
        let mut shown =
            Placement { anchors: [anchor("lib", "")].into(), above: vec![b"build".to_vec(), b"bin".to_vec()] };
        let places = [place("lib/libx.so"), place("share/a")];
        shown.fit(places.clone().map(ResultPlace::Like).iter());
        assert_eq!(places.each_ref().map(|place| shown.path(place).to_string()), ["bin/libx.so", "share/a"]);
    }

    #[test]
    fn each_library_opens_files_relative_to_itself() {
        let place = |text: &str| RootedPath { root: 1, path: path(text) };
        let anchor = |text: &str, to: &str| (place(text), RelativePosition::inside(path(to)));
        // Debian has libraries in /lib, too.
        let mut placement = Placement {
            anchors: [anchor("lib/multiarch", "lib"), anchor("usr/lib/multiarch", "lib")].into(),
            above: vec![b"srv".to_vec(), b"build".to_vec(), b"bin".to_vec()],
        };
        let opened = |directory| ResultPlace::OpenedFrom(path(directory), place(".kpack/a"));
        let both = [opened("usr/lib/multiarch"), opened("lib/multiarch")];
        placement.fit(both.iter());
        assert_eq!(placement.path(&place("usr/lib/multiarch/libx.so")).to_string(), "build/bin/lib/libx.so");
        let paths = both.each_ref().map(|place| placement.of(place).to_string());
        assert_eq!(paths, [".kpack/a", "build/.kpack/a"]);
    }
}
