//! The files that collected libraries open: archives, databases, configuration, and the licences of all.

use std::collections::BTreeSet;

use super::data::OpenedData;
use super::known::{Known, Need, database_of, stem};
use super::model::{MissingKind, MissingPiece, Reason};
use super::objects::{LibrarySelection, LoadedObject, RootedPath};
use super::options::CollectOptions;
use super::root::{Followed, SearchRoot};
use crate::binary::{SplitBinary, read_marker};
use crate::loader::SearchPath;
use crate::source::EntryPath;

/// The directory of licences in a result.
const LICENCES: &[u8] = b"licenses";

/// Where a file goes.
#[derive(Clone, Debug)]
pub(super) enum ResultPlace {
    /// To the place of this file.
    Like(RootedPath),
    /// To this path of the result.
    At(EntryPath),
}

/// A file or symlink to take.
#[derive(Clone, Debug)]
pub(super) struct DraftFile {
    pub(super) source: RootedPath,
    pub(super) target: ResultPlace,
    pub(super) reason: Reason,
    /// The object that needs it.
    pub(super) by: Option<usize>,
    pub(super) rule: Option<String>,
}

/// The files of all objects.
#[derive(Debug, Default)]
pub(super) struct OpenedFiles {
    pub(super) drafts: Vec<DraftFile>,
    pub(super) missing: Vec<MissingPiece>,
    pub(super) absent: Vec<MissingPiece>,
    pub(super) notes: Vec<String>,
    /// Whether an object leads to archives.
    pub(super) is_split: bool,
}

impl OpenedFiles {
    pub(super) fn find(
        roots: &[SearchRoot],
        selection: &LibrarySelection,
        options: &CollectOptions,
        host: Option<usize>,
    ) -> Self {
        let mut pieces = Self::default();
        for (number, object) in selection.objects.iter().enumerate() {
            pieces.add_object(number, object);
            if let Some(own) = Some(object.file.root).filter(|root| *root > 0).or(host) {
                pieces.add_data(number, object, own, roots);
            }
            pieces.add_archives(number, object, roots, options);
        }
        for (number, root) in roots.iter().enumerate().skip(1) {
            pieces.add_licences(number, root, selection);
        }
        pieces
    }

    fn add_object(&mut self, number: usize, object: &LoadedObject) {
        // What is opened at a place relative to a library is taken with all that is there.
        if object.file.root == 0 || object.reason == Reason::Data {
            return;
        }
        let (rule, root) = (object.rule.map(str::to_owned), object.file.root);
        let place = |path: &EntryPath| RootedPath { root, path: path.clone() };
        let draft = |path: &EntryPath, reason, by| DraftFile {
            source: place(path),
            target: ResultPlace::Like(place(path)),
            reason,
            by,
            rule: rule.clone(),
        };
        self.drafts.push(draft(&object.file.path, object.reason.clone(), object.by));
        self.drafts.extend(object.links.iter().map(|link| draft(link, Reason::Link, Some(number))));
    }

    /// What a library opens by the table, and its databases.
    fn add_data(&mut self, number: usize, object: &LoadedObject, own: usize, roots: &[SearchRoot]) {
        let name = object.loaded_as.name();
        for row in Known::of(name) {
            if let Some(opened) = OpenedData::of(row) {
                self.add_opened(number, object, &opened, own, roots);
            }
        }
        if let Some(reader) = database_of(name) {
            self.add_opened(number, object, &OpenedData::database(reader), own, roots);
        }
    }

    fn add_opened(
        &mut self,
        number: usize,
        object: &LoadedObject,
        opened: &OpenedData,
        own: usize,
        roots: &[SearchRoot],
    ) {
        let Some(found) = opened.files(object, own, roots) else {
            let name = opened.missing_name().to_owned();
            let reason = format!("there is none relative to the library ({})", opened.source);
            let missing = MissingPiece { kind: MissingKind::Data, name, by: object.file.path.to_string(), reason };
            match opened.need {
                Need::Required => self.missing.push(missing),
                Need::Optional => self.absent.push(missing),
            }
            return;
        };
        self.drafts.extend(found.into_iter().map(|(source, target)| DraftFile {
            source,
            target: ResultPlace::Like(target),
            reason: Reason::Data,
            by: Some(number),
            rule: Some(opened.source.to_owned()),
        }));
    }

    /// The archives to which the marker of a split library leads for the wanted GPUs.
    fn add_archives(&mut self, number: usize, object: &LoadedObject, roots: &[SearchRoot], options: &CollectOptions) {
        let Ok(Some(split)) = SplitBinary::find(&object.content) else { return };
        let markers: BTreeSet<_> = split.wrappers.iter().filter_map(|wrapper| wrapper.marker.as_ref().ok()).collect();
        let directory = object.file.path.parent().unwrap_or_else(EntryPath::root);
        self.is_split |= !split.wrappers.is_empty();
        for path in markers.into_iter().filter_map(|marker| read_marker(marker).ok()).flat_map(|(_, paths)| paths) {
            let by = object.file.path.to_string();
            let Some(search) = SearchPath::new(&directory, &path) else {
                self.notes.push(format!("{by}: the search path {path:?} of its marker leads out of the tree"));
                continue;
            };
            let found = archives(&search, object.file.root, roots);
            for gpu in &options.gpus {
                let name = gpu.to_string();
                let mut of_gpu = found.iter().filter(|(.., reach)| reach.asks_for(&name)).peekable();
                if of_gpu.peek().is_none() {
                    let name = path.replace("@GFXARCH@", &name);
                    let reason = "no tree has the archive".to_owned();
                    self.missing.push(MissingPiece { kind: MissingKind::Archive, name, by: by.clone(), reason });
                }
                for (source, target, _) in of_gpu {
                    if object.file.root == 0 && source.root == 0 {
                        continue;
                    }
                    self.drafts.push(DraftFile {
                        source: source.clone(),
                        target: ResultPlace::Like(target.clone()),
                        reason: Reason::Archive,
                        by: Some(number),
                        rule: None,
                    });
                }
            }
        }
    }

    /// The licences of packages whose libraries are collected.
    fn add_licences(&mut self, number: usize, root: &SearchRoot, selection: &LibrarySelection) {
        let of_root: Vec<_> = selection.objects.iter().enumerate().filter(|(_, it)| it.file.root == number).collect();
        let mut without: BTreeSet<_> = of_root.iter().map(|(number, _)| *number).collect();
        for entry in &root.input.entries {
            let Some(package) = package_of_licence(&entry.path) else { continue };
            let owners = of_root.iter().filter(|(_, object)| is_of(&package, object));
            let owners: Vec<_> = owners.map(|(number, _)| *number).collect();
            let Some(first) = owners.first() else { continue };
            let Followed::File(found) = root.follow(&entry.path) else { continue };
            for owner in &owners {
                without.remove(owner);
            }
            let target = EntryPath::root().child(LICENCES).child(package.as_bytes()).child(entry.path.name());
            self.drafts.push(DraftFile {
                source: RootedPath { root: number, path: found.path },
                target: ResultPlace::At(target),
                reason: Reason::Licence,
                by: Some(*first),
                rule: None,
            });
        }
        let names = without.iter().filter_map(|number| selection.objects.get(*number));
        let names: Vec<_> = names.map(|object| object.file.path.to_string()).collect();
        if !names.is_empty() {
            self.notes.push(format!("no licence was found for {}", names.join(", ")));
        }
    }
}

/// The archives that a search path leads to, in all roots.
fn archives(
    search: &SearchPath,
    own: usize,
    roots: &[SearchRoot],
) -> Vec<(RootedPath, RootedPath, crate::loader::Reach)> {
    let mut found = Vec::new();
    let Some((directory, pattern)) = search.split() else { return found };
    for (number, root) in roots.iter().enumerate() {
        for entry in root.below(&directory).iter().filter(|entry| entry.path.parent().as_ref() == Some(&directory)) {
            let Some((path, reach)) = pattern.archive(&entry.path) else { continue };
            let Followed::File(file) = root.follow(&path) else { continue };
            let place = |root, path: &EntryPath| RootedPath { root, path: path.clone() };
            for path in file.links.iter().chain([&file.path]) {
                found.push((place(number, path), place(own, path), reach.clone()));
            }
        }
    }
    found
}

/// The package of a licence file: the directory in `share/doc` or `share/licenses` that contains it, or the distribution
/// with its `*.dist-info`.
fn package_of_licence(path: &EntryPath) -> Option<String> {
    const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
    let name = std::str::from_utf8(path.name()).ok()?.to_ascii_uppercase();
    if !NAMES.iter().any(|begin| name.starts_with(begin)) {
        return None;
    }
    let directory = path.parent()?;
    let info = path.components().next().and_then(|first| first.strip_suffix(b".dist-info"));
    if let Some(info) = info {
        return Some(std::str::from_utf8(info).ok()?.split('-').next()?.to_owned());
    }
    let above = directory.parent()?;
    let is_documentation = matches!(above.name(), b"doc" | b"licenses");
    is_documentation.then(|| String::from_utf8(directory.name().to_vec()).ok())?
}

/// Packages whose names are not those of their libraries.
const PACKAGES: [(&str, &str); 6] = [
    ("amdhip64", "hip"),
    ("hiprtc", "hip"),
    ("hiprtcbuiltins", "hip"),
    ("hsaruntime64", "hsaruntime"),
    ("amdcomgr", "comgr"),
    ("llvm", "rocmllvm"),
];

/// Whether a library is of a package, by their names.
fn is_of(package: &str, object: &LoadedObject) -> bool {
    let plain = |name: &str| {
        let name = name.strip_prefix("lib").unwrap_or(name);
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        name.to_ascii_lowercase()
    };
    let numbers = |name: &str| name.trim_end_matches(|it: char| it.is_ascii_digit()).to_owned();
    let package = plain(package);
    let first = object.file.path.components().next().and_then(|first| std::str::from_utf8(first).ok()).map(plain);
    let name = stem(object.loaded_as.name())
        .map(plain)
        .or_else(|| Some(plain(std::str::from_utf8(object.loaded_as.name()).ok()?)));
    let Some(name) = name else { return false };
    let other = PACKAGES.iter().find(|(library, _)| *library == name).map(|(_, package)| *package);
    package == name
        || numbers(&package) == numbers(&name)
        || other == Some(numbers(&package).as_str())
        || first.is_some_and(|first| first == package && object.file.path.depth() > 1)
}
