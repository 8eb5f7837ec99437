//! The content of one of two inputs, whatever its form: files, libraries with their device code, and databases.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::amount::Amount;
use super::code::{self, CodeLocation, ComparedObject, KernelNames, Wanted};
use super::paths::joined;
use super::side::{Side, SidePart};
use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::begins_archive;
use crate::metrics::Progress;
use crate::opened::check_elsewhere;
use crate::report::LookedAt;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath};
use crate::split;
use crate::view::REPORTS;

/// The content of an input.
pub(super) struct Inventory {
    /// Files and symlinks without archives, which are compared by their code objects.
    pub(super) members: BTreeMap<EntryPath, InventoryMember>,
    /// The libraries with device code, by path.
    pub(super) libraries: BTreeMap<String, InventoryLibrary>,
    pub(super) warnings: Vec<String>,
}

/// A file or a symlink.
#[derive(Clone)]
pub(super) struct InventoryMember {
    pub(super) kind: MemberKind,
    pub(super) size: u64,
    /// Its bytes in the host part.
    pub(super) host_size: u64,
    /// The library and the key, if it is a database file.
    pub(super) database: Option<(&'static str, String)>,
    /// Whether it contains device code.
    pub(super) is_fat: bool,
}

#[derive(Clone)]
pub(super) enum MemberKind {
    File(Arc<dyn Content>),
    Symlink(Arc<[u8]>),
}

/// A library with device code.
#[derive(Default)]
pub(super) struct InventoryLibrary {
    /// Bytes of its file; `None` if the input has only its code.
    pub(super) size: Option<u64>,
    pub(super) host_size: Option<u64>,
    /// By target, sorted by wrapper.
    pub(super) code: BTreeMap<String, Vec<ComparedObject>>,
}

/// Libraries collected so far.
#[derive(Default)]
pub(super) struct Libraries {
    numbers: BTreeMap<String, usize>,
    /// Libraries whose code is in archives.
    archived: BTreeSet<usize>,
    /// The code of thin wheels so far, by library, target and wrapper.
    held: HashSet<(usize, String, usize)>,
    wanted: Vec<Wanted>,
}

/// An archive.
struct FoundArchive {
    /// The directory that contains its `.kpack` directory, by its path in the comparison.
    root: EntryPath,
    /// The prefix of its part's paths.
    place: EntryPath,
    /// Those of the artifact that it is of.
    prefixes: Vec<EntryPath>,
    reader: Arc<ArchiveReader>,
}

impl Libraries {
    fn number(&mut self, path: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(path.to_owned()).or_insert(next)
    }

    /// Adds a use of a code object. If its number is new, the code object is at `place`.
    fn add_user(&mut self, number: usize, user: (usize, String, usize), place: impl FnOnce() -> CodeLocation) {
        if number == self.wanted.len() {
            self.wanted.push(Wanted { place: place(), users: Vec::new() });
        }
        if let Some(wanted) = self.wanted.get_mut(number) {
            wanted.users.push(user);
        }
    }
}

impl Inventory {
    /// Lists all files and code objects of an input, which are to be read.
    pub(super) fn list(side: &Side, progress: &Progress) -> (Self, Libraries) {
        let mut inventory = Self { members: BTreeMap::new(), libraries: BTreeMap::new(), warnings: Vec::new() };
        let mut libraries = Libraries::default();
        let mut archives = Vec::new();
        for part in &side.parts {
            archives.extend(inventory.add_members(part));
            fat_binaries(part, side.is_thin, &mut libraries);
        }
        for archive in &archives {
            inventory.add_archive(archive, &mut libraries);
        }
        progress.expect(code::size(&libraries.wanted));
        (inventory, libraries)
    }

    /// Reads the code objects.
    pub(super) fn read(
        mut self,
        libraries: Libraries,
        side: &Side,
        names: &KernelNames,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let code = code::read(libraries.wanted, names, &side.resources, &progress.done)?;
        let paths: BTreeMap<_, _> = libraries.numbers.iter().map(|(path, number)| (*number, path)).collect();
        for ((number, target), codes) in code {
            let Some(path) = paths.get(&number) else { continue };
            self.libraries.entry((*path).clone()).or_default().code.insert(target, codes);
        }
        for number in &libraries.archived {
            if let Some(library) = paths.get(number).and_then(|path| self.libraries.get_mut(*path)) {
                library.drop_copies();
            }
        }
        self.measure();
        if self.libraries.values().all(|library| library.code.is_empty()) && self.databases().is_empty() {
            side.parts.iter().try_for_each(|part| check_elsewhere(&part.input, &side.resources))?;
            let looked_at = LookedAt::of(side.parts.iter().map(|part| &part.input), &side.resources);
            self.warnings.push(format!("{}: it {looked_at}", side.name));
        }
        Ok(self)
    }

    /// Adds the members of a part. Returns its archives.
    fn add_members(&mut self, part: &SidePart) -> Vec<FoundArchive> {
        let mut archives = Vec::new();
        for ((entry, path), at) in part.input.entries.iter().zip(&part.paths).zip(&part.plan.places) {
            if entry.path.components().next() == Some(REPORTS.as_bytes()) {
                continue;
            }
            let (kind, size) = match &entry.kind {
                EntryKind::Directory => continue,
                EntryKind::Symlink(to) => (MemberKind::Symlink(Arc::clone(to)), 0),
                EntryKind::File { content, .. } => (MemberKind::File(Arc::clone(content)), content.size()),
            };
            if let MemberKind::File(content) = &kind
                && is_archive(&entry.path, content)
            {
                match ArchiveReader::open(Arc::clone(content)) {
                    Ok(reader) => {
                        let directory = path.parent().filter(|directory| directory.name() == b".kpack");
                        let root = directory.and_then(|directory| directory.parent());
                        let place = part.place.clone();
                        let root = root.unwrap_or_else(|| place.clone());
                        let prefixes = part.prefixes.clone();
                        archives.push(FoundArchive { root, place, prefixes, reader: Arc::new(reader) });
                        continue;
                    }
                    Err(error) => self.warnings.push(format!("{}: not compared as an archive: {error}", entry.path)),
                }
            }
            let (host_size, database, is_fat) = match at {
                split::Destination::Host | split::Destination::Held => (size, None, false),
                split::Destination::Rewritten { content, .. } => (content.size(), None, true),
                split::Destination::Device(key, handler) => (0, Some((handler.name(), key.to_string())), false),
                // --gpu-targets omits it.
                split::Destination::Unwanted(..) => continue,
            };
            self.members.entry(path.clone()).or_insert(InventoryMember { kind, size, host_size, database, is_fat });
        }
        archives
    }

    /// Adds the code objects of an archive, each once, to the libraries that the archive names.
    fn add_archive(&self, archive: &FoundArchive, libraries: &mut Libraries) {
        let mut places = HashMap::new();
        for (key, target, entry) in archive.reader.entries() {
            let (name, wrapper) = key.rsplit_once('#').unwrap_or((key, "0"));
            let Ok(wrapper) = wrapper.parse() else { continue };
            let path = self.library(archive, name);
            let library = libraries.number(&path);
            libraries.archived.insert(library);
            let place = || CodeLocation::Archive(Arc::clone(&archive.reader), entry.clone());
            let number = *places.entry((entry.ordinal, entry.original_size)).or_insert(libraries.wanted.len());
            libraries.add_user(number, (library, target.to_owned(), wrapper), place);
        }
    }

    /// The library with a name in an archive: below the directory that the archive belongs to, or, in artifacts, by its
    /// whole path.
    fn library(&self, archive: &FoundArchive, name: &str) -> String {
        let below = |root: &EntryPath| EntryPath::new(name.as_bytes()).ok().map(|name| joined(root, &name));
        let whole = EntryPath::new(name.as_bytes()).ok();
        let installed = whole.and_then(|whole| archive.prefixes.iter().find_map(|prefix| whole.below(prefix)));
        let places = [below(&archive.root), below(&archive.place), installed];
        let existing = places.iter().flatten().find(|path| self.members.contains_key(*path));
        existing.or_else(|| places.iter().flatten().next()).map_or_else(|| name.to_owned(), EntryPath::to_string)
    }

    /// Sets the sizes of the libraries.
    fn measure(&mut self) {
        for (path, library) in &mut self.libraries {
            let member = EntryPath::new(path.as_bytes()).ok().and_then(|path| self.members.get(&path));
            library.size = member.map(|member| member.size);
            library.host_size = member.map(|member| member.host_size);
        }
        for (path, member) in self.members.iter().filter(|(_, member)| member.is_fat) {
            // All of its bundles are empty, so it has no code objects.
            let library = self.libraries.entry(path.to_string()).or_default();
            (library.size, library.host_size) = (Some(member.size), Some(member.host_size));
        }
    }

    /// Files of databases by library and key.
    pub(super) fn databases(&self) -> BTreeMap<(&'static str, &str), Amount> {
        let mut databases = BTreeMap::<_, Amount>::new();
        for (member, (handler, key)) in self.members.values().filter_map(|it| Some((it, it.database.as_ref()?))) {
            databases.entry((*handler, key.as_str())).or_default().add(1, member.size);
        }
        databases
    }
}

impl InventoryLibrary {
    /// Removes duplicates. An archive for a target with features also contains the wrappers' code for the target
    /// without them. It is the same code object, and counts once.
    fn drop_copies(&mut self) {
        let of_target = |code: &ComparedObject| (code.wrapper, code.sha256);
        let known: HashMap<String, BTreeSet<_>> =
            self.code.iter().map(|(target, codes)| (target.clone(), codes.iter().map(of_target).collect())).collect();
        for (name, codes) in &mut self.code {
            let Ok(target) = name.parse::<TargetId>() else { continue };
            let others: Vec<_> =
                target.candidates().iter().skip(1).filter_map(|it| known.get(&it.to_string())).collect();
            codes.retain(|code| !others.iter().any(|other| other.contains(&of_target(code))));
        }
        self.code.retain(|_, codes| !codes.is_empty());
    }
}

/// Adds the code objects of fat binaries, each once for all of its wrappers. Thin wheels for several GPUs have the same
/// generic code.
fn fat_binaries(part: &SidePart, is_thin: bool, libraries: &mut Libraries) {
    let mut found = BTreeMap::new();
    for entry in part.plan.archives.iter().flat_map(|planned| planned.archive.entries()) {
        let Some(wrapper) = entry.wrapper else { continue };
        found.insert((entry.binary, wrapper, entry.frame.object.target.to_string()), &entry.frame);
    }
    let mut places = HashMap::new();
    for ((binary, wrapper, target), frame) in found {
        let Some(path) = part.paths.get(binary) else { continue };
        let library = libraries.number(&path.to_string());
        if is_thin && !libraries.held.insert((library, target.clone(), wrapper)) {
            continue;
        }
        let number = *places.entry(Arc::as_ptr(frame)).or_insert(libraries.wanted.len());
        libraries.add_user(number, (library, target, wrapper), || CodeLocation::Bundle(frame.object.clone()));
    }
}

fn is_archive(path: &EntryPath, content: &Arc<dyn Content>) -> bool {
    path.name().ends_with(b".kpack") && begins_archive(content)
}
