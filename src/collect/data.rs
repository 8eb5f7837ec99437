//! Files that a library opens at places relative to its own.

use super::known::{Known, KnownPiece, Need};
use super::objects::{LoadedObject, RootedPath};
use super::root::SearchRoot;
use crate::database::{DatabaseReader, VERSION, is_version};
use crate::loader::{NameSearch, resolve};
use crate::source::{Entry, EntryKind, EntryPath};

/// Places that a library tries, in this order.
pub(super) struct OpenedData {
    paths: &'static [&'static str],
    /// Whether these are the beginnings of names. Otherwise they are directories.
    is_prefix: bool,
    /// Whether they are relative to the file of the library, and not to the name under which it is loaded.
    follows_links: bool,
    pub(super) need: Need,
    pub(super) source: &'static str,
}

impl OpenedData {
    /// The files of a row; `None` if its library loads others by their names only.
    pub(super) fn of(row: &'static Known) -> Option<Self> {
        let (paths, is_prefix) = match row.what {
            KnownPiece::Directory(paths) => (paths, false),
            KnownPiece::Files(ref path) => (std::slice::from_ref(path), true),
            KnownPiece::Library(_) | KnownPiece::Unversioned(_) | KnownPiece::LibraryOfGpu(_) => return None,
        };
        Some(Self { paths, is_prefix, follows_links: true, need: row.need, source: row.source })
    }

    /// The files of a database: those next to the library, and those in a directory of its own.
    pub(super) fn database(reader: &'static DatabaseReader) -> impl Iterator<Item = Self> {
        let DatabaseReader { searched, ref next_to, follows_links, source, is_optional, .. } = *reader;
        let need = if is_optional { Need::Optional } else { Need::Required };
        let next_to = next_to.as_ref().map(std::slice::from_ref);
        let places = next_to.into_iter().map(|paths| (paths, true)).chain([(searched, false)]);
        places.map(move |(paths, is_prefix)| Self { paths, is_prefix, follows_links, need, source })
    }

    /// The place where files are missing if there are none: that of an installation, which libraries try last.
    pub(super) fn missing_name(&self) -> &'static str {
        self.paths.last().copied().unwrap_or_default()
    }

    /// The directory to which the paths are relative.
    pub(super) fn directory(&self, object: &LoadedObject) -> EntryPath {
        let library = if self.follows_links { &object.file.path } else { &object.loaded_as };
        library.parent().unwrap_or_else(EntryPath::root)
    }

    /// The files at the first place that has any: where each is, and its place if all trees were that of the library, whose
    /// number is `own`. Trees are laid over each other: each may have a part.
    pub(super) fn files(
        &self,
        object: &LoadedObject,
        own: usize,
        roots: &[SearchRoot],
    ) -> Option<Vec<(RootedPath, RootedPath)>> {
        let directory = self.directory(object);
        self.paths.iter().find_map(|path| {
            let found = (1..).zip(roots.iter().skip(1)).flat_map(|(number, root)| {
                let wanted = places(root, object, &directory, path).into_iter();
                wanted.flat_map(move |wanted| self.below(&wanted, own, number, root))
            });
            let found: Vec<_> = found.collect();
            (!found.is_empty()).then_some(found)
        })
    }

    /// Why they cannot be read, if symlinks lead out of a tree to them.
    pub(super) fn way_out(&self, object: &LoadedObject, roots: &[SearchRoot]) -> Option<String> {
        let directory = self.directory(object);
        let trees = || roots.iter().skip(1);
        let way_out = |root: &SearchRoot, path| {
            let wanted = places(root, object, &directory, path);
            wanted.iter().find_map(|wanted| root.way_out(&self.searched(wanted)))
        };
        self.paths.iter().find_map(|path| trees().find_map(|root| way_out(root, path)))
    }

    /// The directory in which a place is.
    fn searched(&self, wanted: &EntryPath) -> EntryPath {
        if self.is_prefix { wanted.parent().unwrap_or_else(EntryPath::root) } else { wanted.clone() }
    }

    fn below(&self, wanted: &EntryPath, own: usize, number: usize, root: &SearchRoot) -> Vec<(RootedPath, RootedPath)> {
        let named = self.searched(wanted);
        let Some(directory) = root.directory(&named) else { return Vec::new() };
        let is_wanted =
            |below: &EntryPath| !self.is_prefix || (below.depth() == 1 && below.name().starts_with(wanted.name()));
        let entries = root.below(&directory).iter().filter(|entry| !matches!(entry.kind, EntryKind::Directory));
        let files = entries.filter_map(|entry| Some((entry, entry.path.below(&directory)?)));
        let files = files.filter(|(_, below)| is_wanted(below));
        files
            .map(|(entry, below)| {
                (RootedPath::new(number, &entry.path), RootedPath::new(own, &named.child(below.as_bytes())))
            })
            .collect()
    }
}

/// The places that a relative path stands for: with a version in it, those that the library has in its text.
fn places(root: &SearchRoot, object: &LoadedObject, directory: &EntryPath, path: &str) -> Vec<EntryPath> {
    let Some((above, below)) = path.split_once(VERSION) else { return resolve(directory, path).into_iter().collect() };
    let Some(above) = resolve(directory, above) else { return Vec::new() };
    let place = |entry: &Entry| {
        let version = entry.path.below(&above).filter(|below| below.depth() == 1)?;
        let version = std::str::from_utf8(version.as_bytes()).ok().filter(|version| is_version(version))?;
        let has_name = NameSearch::in_content(&*object.content, [path.replace(VERSION, version).as_bytes()])?;
        (has_name == [true]).then(|| resolve(&entry.path, below.trim_start_matches('/')))?
    };
    root.below(&above).iter().filter_map(place).collect()
}
