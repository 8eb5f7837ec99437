//! The files that collected libraries open: archives, databases, configuration, and the licences of all.

use std::collections::{BTreeSet, HashMap};

use rocm_kpack::Marker;

use super::data::OpenedData;
use super::known::{Known, Need, database_of, stem};
use super::model::{CollectReport, MissingKind, MissingPiece, Reason};
use super::objects::{LoadedObject, RootedPath};
use super::options::CollectOptions;
use super::root::{Followed, SearchRoot};
use crate::binary::SplitBinary;
use crate::loader::SearchPath;
use crate::source::EntryPath;
use crate::text::some_of;

/// The directory of licences in a result.
const LICENCES: &[u8] = b"licenses";

/// Where a file goes.
#[derive(Clone, Debug)]
pub(super) enum ResultPlace {
    /// To the place of this file.
    Like(RootedPath),
    /// To the place of this file relative to this directory of the same tree, that of the library that opens it.
    OpenedFrom(EntryPath, RootedPath),
    /// To this path of the result.
    At(EntryPath),
}

impl ResultPlace {
    /// The place of a file that a library opens relative to this directory.
    fn opened(library: &LoadedObject, directory: &EntryPath, file: RootedPath) -> Self {
        if library.file.root != file.root {
            return Self::Like(file);
        }
        Self::OpenedFrom(directory.clone(), file)
    }

    /// The same for another file, to which this one leads.
    pub(super) fn of_next(&self, path: EntryPath) -> Option<Self> {
        let next = |file: &RootedPath| RootedPath { root: file.root, path };
        match self {
            Self::Like(file) => Some(Self::Like(next(file))),
            Self::OpenedFrom(directory, file) => Some(Self::OpenedFrom(directory.clone(), next(file))),
            Self::At(_) => None,
        }
    }
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

/// The search for the files of all objects.
pub(super) struct OpenedFiles<'a> {
    roots: &'a [SearchRoot],
    objects: &'a [LoadedObject],
    options: &'a CollectOptions,
    report: &'a mut CollectReport,
    drafts: Vec<DraftFile>,
    /// The objects whose code is in archives.
    split: Vec<usize>,
}

impl<'a> OpenedFiles<'a> {
    /// The files of all objects, and the objects whose code is in archives.
    pub(super) fn find(
        roots: &'a [SearchRoot],
        objects: &'a [LoadedObject],
        options: &'a CollectOptions,
        host: Option<usize>,
        report: &'a mut CollectReport,
    ) -> (Vec<DraftFile>, Vec<usize>) {
        let mut files = Self { roots, objects, options, report, drafts: Vec::new(), split: Vec::new() };
        for (number, object) in objects.iter().enumerate() {
            files.add_object(number, object);
            if let Some(own) = Some(object.file.root).filter(|root| *root > 0).or(host) {
                files.add_data(number, object, own);
            }
            files.add_archives(number, object);
        }
        let trees = roots.iter().enumerate().skip(1);
        let without: Vec<_> = trees.flat_map(|(number, root)| files.add_licences(number, root)).collect();
        if !without.is_empty() {
            files.report.notes.push(format!("no licence was found for {}", some_of(without)));
        }
        (files.drafts, files.split)
    }

    fn add_object(&mut self, number: usize, object: &LoadedObject) {
        // What is opened at a place relative to a library is taken with all that is there.
        if object.file.root == 0 || object.reason == Reason::Data {
            return;
        }
        let (rule, root) = (object.rule.map(str::to_owned), object.file.root);
        let draft = |path: &EntryPath, reason, by| DraftFile {
            source: RootedPath::new(root, path),
            target: ResultPlace::Like(RootedPath::new(root, path)),
            reason,
            by,
            rule: rule.clone(),
        };
        self.drafts.push(draft(&object.file.path, object.reason, object.by));
        self.drafts.extend(object.links.iter().map(|link| draft(link, Reason::Link, Some(number))));
    }

    /// What a library opens by the table, and its databases.
    fn add_data(&mut self, number: usize, object: &LoadedObject, own: usize) {
        let name = object.loaded_as.name();
        for row in Known::of(name) {
            if let Some(opened) = OpenedData::of(row) {
                self.add_opened(number, object, &opened, own);
            }
        }
        for opened in database_of(name).into_iter().flat_map(OpenedData::database) {
            self.add_opened(number, object, &opened, own);
        }
    }

    fn add_opened(&mut self, number: usize, object: &LoadedObject, opened: &OpenedData, own: usize) {
        let Some(found) = opened.files(object, own, self.roots) else {
            let name = opened.missing_name().to_owned();
            let none = || "no tree has it relative to the library; name a tree that has it with --from".to_owned();
            let reason = format!("{} ({})", opened.way_out(object, self.roots).unwrap_or_else(none), opened.source);
            let missing = MissingPiece { kind: MissingKind::Data, name, by: object.file.path.to_string(), reason };
            match opened.need {
                Need::Required => self.report.missing.push(missing),
                Need::Optional => self.report.absent.push(missing),
            }
            return;
        };
        let directory = opened.directory(object);
        self.drafts.extend(found.into_iter().map(|(source, target)| DraftFile {
            source,
            target: ResultPlace::opened(object, &directory, target),
            reason: Reason::Data,
            by: Some(number),
            rule: Some(opened.source.to_owned()),
        }));
    }

    /// The archives to which the marker of a split library leads for the wanted GPUs.
    fn add_archives(&mut self, number: usize, object: &LoadedObject) {
        let Ok(Some(split)) = SplitBinary::find(&object.content) else { return };
        let markers: BTreeSet<_> = split.wrappers.iter().filter_map(|wrapper| wrapper.marker.as_ref().ok()).collect();
        let directory = object.file.path.parent().unwrap_or_else(EntryPath::root);
        if !split.wrappers.is_empty() {
            self.split.push(number);
        }
        for path in markers
            .into_iter()
            .filter_map(|marker| Marker::decode(marker).ok())
            .flat_map(|marker| marker.kpack_search_paths)
        {
            let by = object.file.path.to_string();
            let Some(search) = SearchPath::new(&directory, &path) else {
                self.report.notes.push(format!("{by}: the search path {path:?} of its marker leads out of the tree"));
                continue;
            };
            let found = archives(&search, object.file.root, self.roots);
            for gpu in &self.options.gpus {
                let name = gpu.to_string();
                let mut of_gpu = found.iter().filter(|(.., reach)| reach.asks_for(&name)).peekable();
                if of_gpu.peek().is_none() {
                    let name = path.replace("@GFXARCH@", &name);
                    let none =
                        "no tree has this archive, relative to the library; name the part of this GPU with --from";
                    let mut trees = self.roots.iter().skip(1);
                    let way_out = search.split().and_then(|(place, _)| trees.find_map(|root| root.way_out(&place)));
                    let reason = way_out.unwrap_or_else(|| none.to_owned());
                    self.report.missing.push(MissingPiece { kind: MissingKind::Archive, name, by: by.clone(), reason });
                }
                for (source, target, _) in of_gpu {
                    if object.file.root == 0 && source.root == 0 {
                        continue;
                    }
                    self.drafts.push(DraftFile {
                        source: source.clone(),
                        target: ResultPlace::opened(object, &directory, target.clone()),
                        reason: Reason::Archive,
                        by: Some(number),
                        rule: None,
                    });
                }
            }
        }
    }

    /// The licences of packages whose libraries are collected. Returns the libraries without any.
    fn add_licences(&mut self, number: usize, root: &SearchRoot) -> Vec<String> {
        let objects = self.objects;
        let of_root = objects.iter().enumerate().filter(|(_, object)| object.file.root == number);
        let mut without = BTreeSet::new();
        let mut owners = HashMap::<PackageName, Vec<usize>>::new();
        for (number, object) in of_root {
            without.insert(number);
            for name in PackageName::of_library(object) {
                owners.entry(name).or_default().push(number);
            }
        }
        for entry in &root.input.entries {
            let Some(package) = package_of_licence(&entry.path) else { continue };
            let mut first = None;
            for name in PackageName::of_package(&package) {
                let Some(of_name) = owners.get_mut(&name) else { continue };
                first = first.into_iter().chain(of_name.first().copied()).min();
                for owner in of_name.iter() {
                    without.remove(owner);
                }
                // Further licences of the package need its first library only.
                of_name.truncate(1);
            }
            let (Some(first), Followed::File(found)) = (first, root.follow(&entry.path)) else { continue };
            let target = EntryPath::root().child(LICENCES).child(package.as_bytes()).child(entry.path.name());
            self.drafts.push(DraftFile {
                source: RootedPath { root: number, path: found.path },
                target: ResultPlace::At(target),
                reason: Reason::Licence,
                by: Some(first),
                rule: None,
            });
        }
        let names = without.iter().filter_map(|number| objects.get(*number));
        names.map(|object| object.file.path.to_string()).collect()
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
        let Some(real) = root.directory(&directory) else { continue };
        for entry in root.below(&real).iter().filter(|entry| entry.path.parent().as_ref() == Some(&real)) {
            let Some((path, reach)) = pattern.archive(&directory.child(entry.path.name())) else { continue };
            let Followed::File(file) = root.follow(&path) else { continue };
            for path in file.links.iter().chain([&file.path]) {
                let place = path.below(&real).map_or_else(|| path.clone(), |below| directory.child(below.as_bytes()));
                found.push((RootedPath::new(number, path), RootedPath::new(own, &place), reach.clone()));
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

/// A name by which a package and its libraries find each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PackageName {
    /// Whether the version at the end of the name counts.
    is_exact: bool,
    name: String,
}

impl PackageName {
    fn exact(name: &str) -> Self {
        let name = name.strip_prefix("lib").unwrap_or(name);
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Self { is_exact: true, name: name.to_ascii_lowercase() }
    }

    fn without_version(&self) -> Self {
        let name = self.name.trim_end_matches(|it: char| it.is_ascii_digit()).to_owned();
        Self { is_exact: false, name }
    }

    fn of_package(package: &str) -> [Self; 2] {
        let exact = Self::exact(package);
        [exact.without_version(), exact]
    }

    fn of_library(object: &LoadedObject) -> impl Iterator<Item = Self> {
        let name = object.loaded_as.name();
        let name = stem(name).or_else(|| std::str::from_utf8(name).ok()).map(Self::exact);
        let packages = PACKAGES.iter().filter(|(library, _)| name.as_ref().is_some_and(|name| name.name == *library));
        let packages: Vec<_> = packages.map(|(_, package)| Self::exact(package).without_version()).collect();
        // The directory of a package of Python.
        let first = object.file.path.components().next().filter(|_| object.file.path.depth() > 1);
        let first = first.and_then(|first| std::str::from_utf8(first).ok()).map(Self::exact);
        let shorter = name.as_ref().map(Self::without_version);
        [name, shorter, first].into_iter().flatten().chain(packages)
    }
}
