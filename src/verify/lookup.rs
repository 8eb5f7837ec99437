//! The way from a wrapper to its code object, as in runtimes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rocm_kpack::{Marker, search};

use super::linked::LinkedDirectories;
use super::parts::Parts;
use super::report::Findings;
use super::rules::Rule;
use crate::gpu::TargetId;
use crate::kpack::{ArchiveReader, toc_key};
use crate::loader::{archive_root, is_archive, linked_archives, named_target};
use crate::rope::{Content, equal, to_usize};
use crate::source::{Entry, EntryKind, EntryPath, Input, Resolved, resolve_links};

/// The request of a wrapper.
#[derive(Clone, Debug)]
pub(super) struct WrapperRequest {
    /// The index in the wrapper.
    pub(super) index: u32,
    pub(super) marker: Arc<Marker>,
}

/// The wrappers of the split binaries in the host part; `None` for a wrapper that is not usable.
pub(super) type Binaries = HashMap<EntryPath, Vec<Option<WrapperRequest>>>;

/// All archives of all parts, at their installed paths.
#[derive(Debug)]
pub(super) struct OverlaidArchives {
    pub(super) list: Vec<OverlaidArchive>,
    by_path: HashMap<EntryPath, usize>,
    /// Archives, and the directories and symlinks that lead to them. Empty without symlinks.
    places: HashMap<EntryPath, EntryKind>,
    location: Option<PathBuf>,
    /// Directories outside of the input that symlinks lead to.
    links: LinkedDirectories,
    /// Every target that an archive offers.
    pub(super) targets: BTreeSet<TargetId>,
}

/// An archive that could be opened.
#[derive(Debug)]
pub(super) struct OverlaidArchive {
    pub(super) part: usize,
    pub(super) path: EntryPath,
    /// Its name in findings.
    pub(super) label: String,
    pub(super) content: Arc<dyn Content>,
    pub(super) reader: ArchiveReader,
    /// Whether a marker leads to it. Other archives belong to other packages.
    reached: AtomicBool,
    /// The names in it that wrappers ask for.
    pub(super) asked: Mutex<HashSet<String>>,
    /// The names of binaries whose markers lead to it.
    binaries: Mutex<HashSet<String>>,
}

/// The result of looking up the wrappers of a binary.
#[derive(Debug, Default)]
pub(super) struct BinaryLookups {
    pub(super) has_code: bool,
    pub(super) finds_archives: bool,
    pub(super) without_code: Vec<usize>,
    /// Wrappers whose code a loader that stops at the first archive misses.
    pub(super) missed: BTreeMap<(TargetId, usize, usize), Vec<usize>>,
}

/// A step of a look-up: an archive that offers a target.
#[derive(Clone, Debug)]
pub(super) struct LookupStep {
    pub(super) archive: usize,
    pub(super) target: String,
}

impl OverlaidArchive {
    pub(super) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// The targets that it offers.
    pub(super) fn offered(&self) -> impl Iterator<Item = TargetId> {
        self.reader.toc().gfx_arches.iter().filter_map(|target| target.parse().ok())
    }

    /// The same. If it lacks the one in its name, that one must be found nevertheless.
    pub(super) fn targets(&self) -> impl Iterator<Item = TargetId> {
        self.offered().chain(named_target(&self.path.to_text()).and_then(|target| target.parse().ok()))
    }

    /// The names in it that no wrapper asks for.
    pub(super) fn orphans(&self) -> Vec<&str> {
        let asked = self.asked.lock();
        self.reader.names().filter(|name| !asked.contains(*name)).collect()
    }

    /// Whether a name in it is of a binary in a split that was left out.
    pub(super) fn is_left_out(&self, name: &str, parts: &Parts) -> bool {
        archive_root(&self.path).is_some_and(|root| parts.leave_out(&root.child(name.as_bytes())))
    }

    /// The names in it that no wrapper asks for, although their binary is there, or markers with its name lead to it.
    pub(super) fn orphans_of_existing(&self, input: &Input) -> Vec<&str> {
        let (binaries, root) = (self.binaries.lock(), archive_root(&self.path));
        let is_there = |name: &str| root.as_ref().is_some_and(|it| input.entry(&it.child(name.as_bytes())).is_some());
        let is_known = |name: &str| binaries.contains(name) || is_there(name);
        let is_existing = |name: &&str| name.rsplit_once('#').is_some_and(|(binary, _)| is_known(binary));
        self.orphans().into_iter().filter(is_existing).collect()
    }

    /// Takes note of a wrapper of a binary that asks for code.
    fn note(&self, binary: &str, key: &str, target: &str) {
        note(&self.binaries, binary);
        if self.reader.holds(key, target) {
            note(&self.asked, key);
        }
    }
}

impl OverlaidArchives {
    /// Opens all archives.
    pub(super) fn fill(parts: &Parts, findings: &Findings) -> Self {
        let mut archives = Self {
            list: Vec::new(),
            by_path: HashMap::new(),
            places: HashMap::new(),
            location: parts.all.first().map(|part| part.input.location.clone()),
            links: parts.all.first().map(|part| part.links.clone()).unwrap_or_default(),
            targets: BTreeSet::new(),
        };
        let linked: HashSet<_> = parts.all.iter().flat_map(|part| linked_archives(&part.input)).collect();
        for file in parts.files().filter(|file| is_archive(file.path, file.content) || linked.contains(file.path)) {
            let label = parts.label(file.part, file.path);
            findings.counts.archives.add(1);
            let reader = match ArchiveReader::open(Arc::clone(file.content)) {
                Ok(reader) => reader,
                Err(error) => {
                    findings.add(Rule::ArchiveUnreadable, label, error);
                    continue;
                }
            };
            if let Some(other) = archives.by_path.get(file.path).and_then(|&other| archives.list.get(other)) {
                // Packages for groups of processors share code for all of them.
                let is_shared = parts.component.is_some() && equal(&**file.content, &*other.content).unwrap_or(false);
                if !is_shared {
                    findings.add(Rule::TwoPlaces, label.as_str(), format!("it is also at {}", other.label));
                }
            }
            archives.by_path.entry(file.path.clone()).or_insert(archives.list.len());
            archives.list.push(OverlaidArchive {
                part: file.part,
                path: file.path.clone(),
                label,
                content: Arc::clone(file.content),
                reader,
                reached: AtomicBool::new(false),
                asked: Mutex::default(),
                binaries: Mutex::default(),
            });
        }
        archives.targets = archives.list.iter().flat_map(OverlaidArchive::targets).collect();
        archives.places = archives.places_in(parts);
        archives
    }

    /// What a loader passes on the way to archives. Empty without symlinks.
    fn places_in(&self, parts: &Parts) -> HashMap<EntryPath, EntryKind> {
        let entries = || parts.all.iter().flat_map(|part| &part.input.entries);
        if !entries().any(|entry| matches!(entry.kind, EntryKind::Symlink(_))) {
            return HashMap::new();
        }
        let is_place = |entry: &&Entry| match entry.kind {
            EntryKind::Directory | EntryKind::Symlink(_) => true,
            EntryKind::File { .. } => self.by_path.contains_key(&entry.path),
        };
        entries().filter(is_place).map(|entry| (entry.path.clone(), entry.kind.clone())).collect()
    }

    /// The archive to which a path leads.
    fn at(&self, path: &EntryPath) -> Option<usize> {
        self.by_path.get(path).copied().or_else(|| {
            match resolve_links(path, self.location.as_deref(), |path| self.places.get(path)) {
                Resolved::Entry(path) => self.by_path.get(&path).copied(),
                Resolved::Outside(_) | Resolved::Nothing => None,
            }
        })
    }

    /// The existing archives that a loader tries for a device that matches `candidates`.
    fn tried(&self, directory: &EntryPath, search_paths: &[String], candidates: &[String]) -> Vec<usize> {
        let archive_at = |path: &String| self.at(&self.links.resolve(directory, path)?);
        let archives: Vec<_> = search::archive_paths(search_paths, candidates).iter().filter_map(archive_at).collect();
        for archive in archives.iter().filter_map(|&at| self.list.get(at)) {
            archive.reached.store(true, Ordering::Relaxed);
        }
        archives
    }

    /// The steps of a look-up for a device of `target`, in order: for each name that the device matches, the existing
    /// archives that offer that name.
    pub(super) fn steps(&self, directory: &EntryPath, search_paths: &[String], target: &TargetId) -> Vec<LookupStep> {
        let candidates: Vec<_> = target.candidates().iter().map(ToString::to_string).collect();
        let archives = self.tried(directory, search_paths, &candidates);
        let offers = |at: usize, target: &str| self.list.get(at).is_some_and(|archive| archive.reader.offers(target));
        let steps = search::steps(&candidates, &archives, offers);
        steps.map(|(archive, target)| LookupStep { archive, target: target.to_owned() }).collect()
    }

    /// Whether the archive of a step has the code object.
    pub(super) fn holds(&self, step: &LookupStep, key: &str) -> bool {
        self.list.get(step.archive).is_some_and(|archive| archive.reader.holds(key, &step.target))
    }

    /// Looks up all wrappers of a binary for all targets, and then in the archives of an environment around the parts.
    pub(super) fn look_up(
        &self,
        parts: &Parts,
        path: &EntryPath,
        wrappers: &[Option<WrapperRequest>],
        findings: &Findings,
    ) -> BinaryLookups {
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let mut lookups = BinaryLookups::default();
        for (position, request) in wrappers.iter().enumerate() {
            let Some(WrapperRequest { index, marker }) = request else { continue };
            let key = toc_key(&marker.kernel_name, to_usize((*index).into()));
            let mut is_found = false;
            for target in &self.targets {
                findings.counts.lookups.add(1);
                let steps = self.steps(&directory, &marker.kpack_search_paths, target);
                lookups.finds_archives |= !steps.is_empty();
                for step in &steps {
                    if let Some(archive) = self.list.get(step.archive) {
                        archive.note(&marker.kernel_name, &key, &step.target);
                    }
                }
                let Some(hit) = steps.iter().position(|step| self.holds(step, &key)) else { continue };
                is_found = true;
                if let (1.., Some(first), Some(later)) = (hit, steps.first(), steps.get(hit)) {
                    let places = (target.clone(), first.archive, later.archive);
                    lookups.missed.entry(places).or_default().push(position);
                }
            }
            if let Some(outer) = parts.outer.as_ref().filter(|_| !is_found) {
                lookups.finds_archives |= outer.are_reached(&directory, marker);
                is_found = outer.hold(&directory, marker, &key);
            }
            lookups.has_code |= is_found;
            if !is_found {
                lookups.without_code.push(position);
            }
        }
        lookups
    }
}

fn note(names: &Mutex<HashSet<String>>, name: &str) {
    let mut names = names.lock();
    if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

/// Whether a file is named as archives are.
pub(super) fn names_archive(path: &EntryPath) -> bool {
    path.name().ends_with(b".kpack") || path.parent().is_some_and(|parent| parent.name() == b".kpack")
}

#[cfg(test)]
mod tests {
    use rocm_kpack::search;

    use crate::gpu::TargetId;
    /// HIP asks the runtime for a target, and then for the generic one with the same features.
    #[test]
    fn candidates_are_those_of_the_runtime() {
        for (target, generic) in [
            ("gfx942:sramecc+:xnack-", Some("gfx9-4-generic:sramecc+:xnack-")),
            ("gfx90a:xnack+", None),
            ("gfx1100", Some("gfx11-generic")),
            ("gfx11-generic", None),
        ] {
            let own: Vec<_> =
                target.parse::<TargetId>().unwrap().candidates().iter().map(ToString::to_string).collect();
            assert_eq!(own, search::all_candidates([target].into_iter().chain(generic)), "{target}");
        }
    }
}
