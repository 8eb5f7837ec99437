//! The result as an input: the application's entries, and those of trees at their places in the result.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::model::{CollectReport, CollectedFile, MissingKind, MissingPiece, Reason};
use super::objects::{LoadedObject, RootedPath};
use super::pieces::DraftFile;
use super::place::Placement;
use super::root::{Followed, SearchRoot};
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind};
use crate::text::some_of;

/// The application as one input, and the number of the tree that contains it. With a tree, paths are those of the tree.
pub(super) fn application(apps: Vec<(PathBuf, Input)>, trees: &[(PathBuf, Input)]) -> Option<(Input, Option<usize>)> {
    let is_one = apps.len() == 1;
    let base = |input: &Input| match input.kind {
        InputKind::Binary => input.location.parent().unwrap_or(Path::new("/")).to_owned(),
        _ => input.location.clone(),
    };
    let contains = |(_, tree): &(PathBuf, Input)| apps.iter().all(|(_, app)| base(app).starts_with(&tree.location));
    let host = trees.iter().position(contains);
    let place = host.and_then(|host| trees.get(host)).map(|(_, tree)| tree.location.clone());
    let mut whole: Option<Input> = None;
    for (_, app) in apps {
        let base = base(&app);
        let prefix = match &place {
            Some(tree) => base.strip_prefix(tree).ok().map(Path::to_owned).unwrap_or_default(),
            None if is_one || matches!(app.kind, InputKind::Binary) => PathBuf::new(),
            None => base.file_name().map(PathBuf::from).unwrap_or_default(),
        };
        let prefix = EntryPath::new(prefix.as_os_str().as_encoded_bytes()).unwrap_or_else(|_| EntryPath::root());
        let Input { root, entries, warnings, tables, .. } = app;
        let moved = entries.into_iter().map(|entry| {
            let path = entry.path.components().fold(prefix.clone(), |path, name| path.child(name));
            Entry { path, ..entry }
        });
        let location = || place.clone().unwrap_or_else(|| base.clone());
        let whole = whole.get_or_insert_with(|| Input::empty(InputKind::Tree, location(), root));
        whole.entries.extend(moved);
        whole.warnings.extend(warnings);
        whole.tables.extend(tables);
    }
    let mut whole = whole?;
    whole.entries.sort_by(|a, b| a.path.cmp(&b.path));
    whole.entries.dedup_by(|a, b| a.path == b.path);
    Some((whole, host.map(|host| host + 1)))
}

/// The entries of a result, while they are being added.
pub(super) struct ResultAssembly<'a> {
    roots: &'a [SearchRoot],
    objects: &'a [LoadedObject],
    placement: &'a Placement,
    entries: BTreeMap<EntryPath, Entry>,
    directories: BTreeSet<EntryPath>,
    /// Where the files of trees are from.
    sources: BTreeMap<EntryPath, RootedPath>,
    report: &'a mut CollectReport,
    /// Files to which symlinks lead, which are taken, too.
    queue: VecDeque<DraftFile>,
}

impl<'a> ResultAssembly<'a> {
    pub(super) fn new(
        roots: &'a [SearchRoot],
        objects: &'a [LoadedObject],
        placement: &'a Placement,
        report: &'a mut CollectReport,
    ) -> Self {
        let (entries, directories, sources) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { roots, objects, placement, entries, directories, sources, report, queue: VecDeque::new() }
    }

    /// Adds everything.
    pub(super) fn run(mut self, drafts: Vec<DraftFile>) -> Input {
        let app = self.roots.first();
        for entry in app.into_iter().flat_map(|app| &app.input.entries) {
            let path = self.placement.path(&RootedPath::new(0, &entry.path));
            if !path.is_root() {
                self.insert(Entry { path, ..entry.clone() });
            }
        }
        self.note_links_out();
        for object in self.objects.iter().filter(|object| object.file.root == 0) {
            self.state(&object.file, &self.placement.path(&object.file), Reason::App, None, None);
        }
        self.queue.extend(drafts);
        while let Some(draft) = self.queue.pop_front() {
            self.add(&draft);
        }
        let root = app.map(|app| app.input.root);
        let attributes = Attributes { mode: 0o755, ..root.unwrap_or(NOBODY) };
        for path in self.directories {
            let kind = EntryKind::Directory;
            self.entries.entry(path.clone()).or_insert(Entry { path, kind, attributes });
        }
        self.report.files.sort_by(|a, b| a.path.cmp(&b.path));
        let location = app.map(|app| app.input.location.clone()).unwrap_or_default();
        let mut input = Input::empty(InputKind::Tree, location, attributes);
        input.entries = self.entries.into_values().collect();
        input.warnings = self.roots.iter().flat_map(|root| root.input.warnings.clone()).collect();
        input
    }

    fn add(&mut self, draft: &DraftFile) {
        let Some(root) = self.roots.get(draft.source.root) else { return };
        let Some(entry) = root.input.entry(&draft.source.path) else { return };
        let path = self.placement.of(&draft.target);
        let kind = match &entry.kind {
            EntryKind::Directory => return,
            EntryKind::File { content, link_group } => {
                // Other kinds of inputs number the links of each input by themselves.
                let link_group = link_group.filter(|_| matches!(root.input.kind, InputKind::Tree));
                EntryKind::File { content: Arc::clone(content), link_group }
            }
            EntryKind::Symlink(_) => match self.link(draft, root, &path) {
                Some(target) => EntryKind::Symlink(target),
                None => return,
            },
        };
        if self.insert(Entry { path: path.clone(), kind, attributes: entry.attributes }) {
            self.state(&draft.source, &path, draft.reason, draft.by, draft.rule.clone());
            self.sources.insert(path, draft.source.clone());
        } else if matches!(draft.reason, Reason::Needed | Reason::LoadedByName | Reason::Included) {
            self.miss_place(draft, &path);
        }
    }

    /// A library whose place another one has.
    fn miss_place(&mut self, draft: &DraftFile, path: &EntryPath) {
        let Some(other) = self.sources.get(path).filter(|other| **other != draft.source) else { return };
        let place = |root: usize| self.roots.get(root).map(|root| root.place.display().to_string()).unwrap_or_default();
        let reason = format!(
            "{} of {} has the same place in the result, {path}; give one of them another name",
            other.path,
            place(other.root)
        );
        let by = draft.by.and_then(|by| self.objects.get(by)).map(|by| by.file.path.to_string());
        let name = format!("{} of {}", draft.source.path, place(draft.source.root));
        let by = by.unwrap_or_else(|| "--include".to_owned());
        let piece = MissingPiece { kind: MissingKind::Library, name, by, reason };
        self.report.missing.push(piece);
    }

    /// Symlinks of the application are kept. Those that lead out of it, as to a library of the tree, may lead nowhere.
    fn note_links_out(&mut self) {
        let Some(app) = self.roots.first() else { return };
        let links = app.input.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Symlink(_)));
        let is_out = |entry: &&Entry| matches!(app.follow(&entry.path), Followed::Outside(_));
        let names: BTreeSet<_> = links.filter(is_out).map(|entry| entry.path.to_string()).collect();
        if !names.is_empty() {
            let names = some_of(&names);
            let note = format!("symlinks of the application lead out of it, and may lead nowhere elsewhere: {names}");
            self.report.notes.push(note);
        }
    }

    /// The target of a symlink in the result. The file that it leads to is taken, too.
    fn link(&mut self, draft: &DraftFile, root: &SearchRoot, path: &EntryPath) -> Option<Arc<[u8]>> {
        let place = root.place.display();
        let found = match root.follow(&draft.source.path) {
            Followed::File(found) => found,
            Followed::Outside(link) => {
                self.report.notes.push(format!("{place}: {link}: left out: the symlink leads out of the tree"));
                return None;
            }
            Followed::Nothing => {
                let link = &draft.source.path;
                self.report.notes.push(format!("{place}: {link}: left out: the symlink leads to no file"));
                return None;
            }
        };
        let next = found.links.get(1).unwrap_or(&found.path);
        let target = draft.target.of_next(next.clone())?;
        let source = RootedPath { root: draft.source.root, path: next.clone() };
        let text = relative(path, &self.placement.of(&target));
        self.queue.push_back(DraftFile { source, target, ..draft.clone() });
        Some(text.into())
    }

    /// Adds an entry unless its path is taken: the first root wins.
    fn insert(&mut self, entry: Entry) -> bool {
        let parents: Vec<_> = std::iter::successors(entry.path.parent(), EntryPath::parent)
            .take_while(|parent| !parent.is_root())
            .collect();
        let is_file =
            |path: &EntryPath| self.entries.get(path).is_some_and(|it| !matches!(it.kind, EntryKind::Directory));
        if self.entries.contains_key(&entry.path)
            || self.directories.contains(&entry.path)
            || parents.iter().any(is_file)
        {
            return false;
        }
        self.directories.extend(parents);
        if matches!(entry.kind, EntryKind::Directory) {
            self.directories.insert(entry.path.clone());
        }
        self.entries.insert(entry.path.clone(), entry);
        true
    }

    fn state(
        &mut self,
        source: &RootedPath,
        path: &EntryPath,
        reason: Reason,
        by: Option<usize>,
        rule: Option<String>,
    ) {
        let by = by.and_then(|by| self.objects.get(by));
        let by = by.map(|object: &LoadedObject| self.placement.path(&object.file).to_string());
        let (path, source_path) = (path.to_string(), source.path.to_string());
        let (from, size) = (source.root, None);
        self.report.files.push(CollectedFile { path, from, source: source_path, size, reason, by, rule });
    }
}

/// The owner of what nobody owns.
const NOBODY: Attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };

/// The target of a symlink at `link` that leads to `file`.
fn relative(link: &EntryPath, file: &EntryPath) -> Vec<u8> {
    let directory = link.parent().unwrap_or_else(EntryPath::root);
    let shared = directory.common_depth(file);
    let ups = (shared..directory.depth()).map(|_| b"..".as_slice());
    ups.chain(file.components().skip(shared)).collect::<Vec<_>>().join(&b'/')
}
