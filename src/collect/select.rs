//! The libraries that an application needs: breadth first, as a loader loads them (glibc's `_dl_map_object_deps`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::known::Need;
use super::model::{CollectReport, MissingKind, MissingPiece, Reason, SystemLibrary};
use super::objects::{LoadedObject, RootedPath, search_lists};
use super::options::CollectOptions;
use super::policy;
use super::root::{Followed, FoundFile, SearchRoot};
use crate::binary::{Imports, LinkedMachine};
use crate::loader::SearchDirectory;
use crate::source::{EntryPath, MIN_BINARY, begins_as_binary};

/// The most files with the name of a library that are examined for one of the right machine.
const MAX_CANDIDATES: usize = 64;

/// A library is nowhere.
const NOWHERE: &str = "neither the application nor a tree has it; name a further tree with --from";

/// The search for libraries.
pub(super) struct Selector<'a> {
    pub(super) roots: &'a [SearchRoot],
    pub(super) options: &'a CollectOptions,
    /// The tree that contains the application.
    pub(super) host: Option<usize>,
    pub(super) objects: Vec<LoadedObject>,
    pub(super) report: &'a mut CollectReport,
    /// The newest version of glibc that an object needs.
    glibc: Option<(Vec<u32>, String)>,
    /// Objects by their files.
    known: HashMap<RootedPath, usize>,
    /// The object of each name that was needed, by machine; `None` if there is none. Loaders load a name once.
    names: HashMap<(LinkedMachine, Vec<u8>), Option<usize>>,
    queue: VecDeque<usize>,
    left_out: HashSet<Vec<u8>>,
    /// What is in the list of missing pieces.
    missed: HashSet<MissingPiece>,
}

/// A library that was found.
pub(super) struct FoundLibrary {
    pub(super) file: RootedPath,
    pub(super) loaded_as: EntryPath,
    pub(super) found: FoundFile,
    pub(super) imports: Arc<Imports>,
    /// Whether it was found by the search list of the object that needs it.
    pub(super) is_relative: bool,
}

impl<'a> Selector<'a> {
    pub(super) fn run(
        roots: &'a [SearchRoot],
        options: &'a CollectOptions,
        host: Option<usize>,
        report: &'a mut CollectReport,
    ) -> Vec<LoadedObject> {
        let (objects, known, names, glibc) = (Vec::new(), HashMap::new(), HashMap::new(), None);
        let (queue, left_out, missed) = (VecDeque::new(), HashSet::new(), HashSet::new());
        let mut selector = Self { roots, options, host, objects, report, glibc, known, names, queue, left_out, missed };
        selector.add_application();
        selector.follow();
        selector.add_included();
        selector.follow();
        selector.report.glibc = selector.glibc.map(|(_, version)| version);
        selector.objects
    }

    /// All programs and libraries of the application.
    fn add_application(&mut self) {
        let Some(app) = self.roots.first() else { return };
        let mut unreadable = Vec::new();
        for (path, content) in app.input.files().filter(|(_, content)| content.size() >= MIN_BINARY) {
            let imports = match Imports::read(content) {
                Ok(Some(imports)) => Arc::new(imports),
                Ok(None) => continue,
                Err(error) => {
                    let (is_unread, machine) = (begins_as_binary(&**content).is_none(), LinkedMachine::of(content));
                    unreadable.push((path.to_string(), is_unread, machine, error.to_string()));
                    continue;
                }
            };
            let found = FoundFile { links: Vec::new(), path: path.clone(), content: Arc::clone(content) };
            let (file, loaded_as) = (RootedPath::new(0, path), path.clone());
            let found = FoundLibrary { file, loaded_as, found, imports, is_relative: true };
            self.add_found(found, Reason::App, None, None);
        }
        // What is for another machine than the programs is loaded by nothing here.
        let machines: HashSet<_> = self.objects.iter().map(|object| object.imports.machine).collect();
        for (path, is_unread, machine, error) in unreadable {
            let is_loaded =
                is_unread || machine.is_some_and(|it| it.is_host() && (machines.is_empty() || machines.contains(&it)));
            let unknown = format!("what it needs is not known: {error}");
            if is_loaded {
                self.miss(MissingKind::Unreadable, &path, &path, format!("{unknown}; replace it"));
            } else {
                self.report.notes.push(format!("{path}: {unknown}"));
            }
        }
    }

    fn add_included(&mut self) {
        for name in &self.options.include {
            let machine = self.objects.first().map(|object| object.imports.machine);
            if let Some(found) = self.by_name(name.as_bytes(), machine, None) {
                self.add_found(found, Reason::Included, None, None);
            } else {
                let reason = self.near(name.as_bytes());
                self.miss(MissingKind::Library, name, "--include", reason);
            }
        }
    }

    fn add(&mut self, object: LoadedObject) -> usize {
        let number = self.objects.len();
        self.known.insert(object.file.clone(), number);
        self.objects.push(object);
        self.queue.push_back(number);
        number
    }

    pub(super) fn add_found(
        &mut self,
        FoundLibrary { file, loaded_as, found, imports, is_relative }: FoundLibrary,
        reason: Reason,
        by: Option<usize>,
        rule: Option<&'static str>,
    ) -> usize {
        if let Some(&known) = self.known.get(&file) {
            if let Some(object) = self.objects.get_mut(known) {
                let new = found.links.into_iter().filter(|link| !object.links.contains(link)).collect::<Vec<_>>();
                object.links.extend(new);
            }
            return known;
        }
        let (links, content) = (found.links, found.content);
        self.add(LoadedObject { file, loaded_as, links, content, imports, reason, rule, by, is_relative })
    }

    fn follow(&mut self) {
        while let Some(number) = self.queue.pop_front() {
            let Some(object) = self.objects.get(number) else { continue };
            let imports = Arc::clone(&object.imports);
            for name in &imports.needed {
                self.need(number, name, Need::Required);
            }
            for name in &imports.delayed {
                self.need(number, name, Need::Optional);
            }
            self.check_versions(number);
            self.add_known(number);
        }
    }

    /// A library that an object needs by its headers.
    fn need(&mut self, by: usize, name: &[u8], need: Need) {
        let Some(object) = self.objects.get(by) else { return };
        let machine = object.imports.machine;
        let text = String::from_utf8_lossy(name).into_owned();
        let is_included = self.options.include.iter().any(|included| included.as_bytes() == name);
        if let Some(rule) = policy::rule(name, machine).filter(|_| !is_included) {
            // An application may bring its own copy.
            if self.roots.first().is_none_or(|app| app.named(name, machine == LinkedMachine::Pe).is_empty()) {
                if self.left_out.insert(name.to_vec()) {
                    let by = object.file.path.to_string();
                    self.report.left_out.push(SystemLibrary { name: text, by, rule: rule.to_owned() });
                }
                return;
            }
        }
        let key = (machine, name.to_vec());
        if self.names.contains_key(&key) {
            return;
        }
        let found = self.search(by, name).or_else(|| self.by_name(name, Some(machine), Some(by)));
        let number = found.map(|found| self.add_found(found, Reason::Needed, Some(by), None));
        self.names.insert(key, number);
        if number.is_none() {
            let by = self.objects.get(by).map(|object| object.file.path.to_string()).unwrap_or_default();
            let reason = self.near(name);
            self.lack(need, &text, &by, reason);
        }
    }

    /// What there is instead of a library, and what to do.
    fn near(&self, name: &[u8]) -> String {
        if name.contains(&b'/') {
            return "the name is a path, which loaders open as it is, wherever the result is; link the library by its soname"
                .to_owned();
        }
        self.roots.iter().find_map(|root| root.near(name)).unwrap_or_else(|| NOWHERE.to_owned())
    }

    /// Looks along the search list of an object.
    pub(super) fn search(&self, by: usize, name: &[u8]) -> Option<FoundLibrary> {
        let object = self.objects.get(by)?;
        let machine = object.imports.machine;
        if machine == LinkedMachine::Pe {
            // "Dynamic-link library search order" of Microsoft: the directory of the program comes first.
            let root = self.roots.get(object.file.root)?;
            let directory = object.loaded_as.parent()?;
            let is_here = |path: &EntryPath| path.parent().as_ref() == Some(&directory);
            let path = root.named(name, true).into_iter().find(is_here)?;
            return self.candidate(object.file.root, path, Some(machine), true);
        }
        if name.contains(&b'/') {
            return None;
        }
        let mut lists = search_lists(object, &self.objects);
        if let Some(found) = lists.find_map(|(named, list)| self.along(named, list, name, machine)) {
            return Some(found);
        }
        let in_app = |directory: &EntryPath| self.candidate(0, directory.child(name), Some(machine), true);
        self.options.library_path.iter().find_map(in_app)
    }

    fn along(
        &self,
        named: &LoadedObject,
        list: &[Vec<u8>],
        name: &[u8],
        machine: LinkedMachine,
    ) -> Option<FoundLibrary> {
        for directory in list.iter().flat_map(|element| SearchDirectory::of(element)) {
            let origin = named.origin();
            let found = match &directory {
                // A directory out of the tree is not looked into.
                SearchDirectory::Relative(..) => directory.within(&origin).and_then(|inside| {
                    let host = self.host.filter(|_| named.file.root == 0);
                    let mut roots = [named.file.root].into_iter().chain(host);
                    roots.find_map(|root| self.candidate(root, inside.child(name), Some(machine), true))
                }),
                SearchDirectory::Absolute(path) => self.absolute(path, name, machine),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A library in an absolute directory: of a tree that is there, or of one that is an unpacked root.
    fn absolute(&self, directory: &EntryPath, name: &[u8], machine: LinkedMachine) -> Option<FoundLibrary> {
        let inside = |(number, root): (usize, &SearchRoot)| {
            let place = EntryPath::new(root.input.location.to_str()?.trim_start_matches('/').as_bytes()).ok()?;
            let below = directory.below(&place).or_else(|| (*directory == place).then(EntryPath::root));
            self.candidate(number, below.as_ref().unwrap_or(directory).child(name), Some(machine), false)
        };
        self.roots.iter().enumerate().find_map(inside)
    }

    /// A library with this name anywhere: in the tree of the object that needs it, in the application, in the other trees.
    pub(super) fn by_name(
        &self,
        name: &[u8],
        machine: Option<LinkedMachine>,
        by: Option<usize>,
    ) -> Option<FoundLibrary> {
        if name.contains(&b'/') {
            return None;
        }
        let own = by.and_then(|by| self.objects.get(by)).map(|object| object.file.root);
        let order = own.into_iter().chain((0..self.roots.len()).filter(|number| Some(*number) != own));
        let ignores_case = machine == Some(LinkedMachine::Pe);
        for number in order {
            let Some(root) = self.roots.get(number) else { continue };
            let paths = root.named(name, ignores_case).into_iter().take(MAX_CANDIDATES);
            if let Some(found) = paths.into_iter().find_map(|path| self.candidate(number, path, machine, false)) {
                return Some(found);
            }
        }
        None
    }

    /// The library at a path, if it is one for this machine.
    pub(super) fn candidate(
        &self,
        root: usize,
        path: EntryPath,
        machine: Option<LinkedMachine>,
        is_relative: bool,
    ) -> Option<FoundLibrary> {
        let searched = self.roots.get(root)?;
        let Followed::File(found) = searched.follow(&path) else { return None };
        let loaded_as = match path.parent().and_then(|directory| searched.directory(&directory)) {
            Some(directory) => directory.child(path.name()),
            None => path,
        };
        let file = RootedPath { root, path: found.path.clone() };
        let known = self.known.get(&file).and_then(|&number| self.objects.get(number));
        let imports = match known {
            Some(object) => Arc::clone(&object.imports),
            None => Arc::new(Imports::read(&found.content).ok().flatten()?),
        };
        let is_right = machine.is_none_or(|machine| machine == imports.machine);
        is_right.then_some(FoundLibrary { file, loaded_as, found, imports, is_relative })
    }

    /// Compares the versions that an object needs with those that libraries define (glibc's `match_symbol`).
    fn check_versions(&mut self, number: usize) {
        let Some(object) = self.objects.get(number) else { return };
        let by = object.file.path.to_string();
        let mut missing = Vec::new();
        for needed in &object.imports.needed_versions {
            let version = String::from_utf8_lossy(&needed.version).into_owned();
            if let Some(digits) = version.strip_prefix("GLIBC_") {
                let parts: Vec<u32> = digits.split('.').map_while(|part| part.parse().ok()).collect();
                if self.glibc.as_ref().is_none_or(|(newest, _)| *newest < parts) {
                    self.glibc = Some((parts, digits.to_owned()));
                }
            }
            let key = (object.imports.machine, needed.library.to_vec());
            let library = self.names.get(&key).copied().flatten().and_then(|at| self.objects.get(at));
            let Some(library) = library.filter(|_| !needed.is_weak) else { continue };
            let versions = &library.imports.versions;
            if !versions.is_empty() && !versions.contains(&needed.version) {
                let name = format!("version {version} of {}", String::from_utf8_lossy(&needed.library));
                let place = self.roots.get(library.file.root).map(|root| root.place.display());
                let place = place.map(|place| format!(" of {place}")).unwrap_or_default();
                let path = &library.file.path;
                let remedy = "name a tree with a newer one first";
                missing.push((name, format!("{path}{place} does not define it; {remedy}")));
            }
        }
        for (name, reason) in missing {
            self.miss(MissingKind::Version, &name, &by, reason);
        }
    }

    /// Notes a library that was not found.
    pub(super) fn lack(&mut self, need: Need, name: &str, by: &str, reason: String) {
        match need {
            Need::Required => self.miss(MissingKind::Library, name, by, reason),
            Need::Optional => {
                let (name, by) = (name.to_owned(), by.to_owned());
                self.report.absent.push(MissingPiece { kind: MissingKind::Library, name, by, reason });
            }
        }
    }

    pub(super) fn miss(&mut self, kind: MissingKind, name: &str, by: &str, reason: String) {
        let missing = MissingPiece { kind, name: name.to_owned(), by: by.to_owned(), reason };
        if self.missed.insert(missing.clone()) {
            self.report.missing.push(missing);
        }
    }
}
