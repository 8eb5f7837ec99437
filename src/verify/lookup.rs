//! The way from a wrapper to its code object, as in runtimes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rayon::prelude::*;
use rocm_kpack::search;

use super::choices::Choices;
use super::parts::{Parts, PartsKind};
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::gpu::TargetId;
use crate::kpack::{ArchiveReader, toc_key};
use crate::loader::{is_archive, linked_archives, named_target, resolve};
use crate::rope::{Content, equal, to_usize};
use crate::source::{Entry, EntryKind, EntryPath, Resolved, resolve_links};

/// The request of a wrapper.
#[derive(Clone, Debug)]
pub(super) struct WrapperRequest {
    /// The index in the wrapper.
    pub(super) index: u32,
    pub(super) marker: Arc<WrapperMarker>,
}

/// The marker of a wrapper.
#[derive(Debug)]
pub(super) struct WrapperMarker {
    pub(super) kernel_name: String,
    pub(super) search_paths: Vec<String>,
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
    content: Arc<dyn Content>,
    pub(super) reader: ArchiveReader,
    /// Whether a marker leads to it. Other archives belong to other packages.
    reached: AtomicBool,
    /// The names in it that wrappers ask for.
    asked: Mutex<HashSet<String>>,
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

    /// The names in it that no wrapper asks for.
    pub(super) fn orphans(&self) -> Vec<&str> {
        let asked = self.asked.lock();
        let names = self.reader.toc().toc.keys().map(String::as_str);
        names.filter(|name| !asked.contains(*name)).collect()
    }

    fn note(&self, key: &str, target: &str) {
        if self.reader.holds(key, target) {
            let mut asked = self.asked.lock();
            if !asked.contains(key) {
                asked.insert(key.to_owned());
            }
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
            archives.targets.extend(reader.toc().gfx_arches.iter().filter_map(|target| target.parse().ok()));
            // If an archive lacks the target in its name, that target must be found nevertheless.
            archives
                .targets
                .extend(named_target(&file.path.to_text()).and_then(|target| target.parse::<TargetId>().ok()));
            let (part, path) = (file.part, file.path.clone());
            if let Some(other) = archives.by_path.get(&path).and_then(|&other| archives.list.get(other)) {
                // Packages for groups of processors share code for all of them.
                let is_shared = parts.component.is_some() && equal(&**file.content, &*other.content).unwrap_or(false);
                if !is_shared {
                    findings.add(Rule::TwoPlaces, label.as_str(), format!("it is also at {}", other.label));
                }
            }
            archives.by_path.entry(path.clone()).or_insert(archives.list.len());
            archives.list.push(OverlaidArchive {
                part,
                path,
                label,
                content: Arc::clone(file.content),
                reader,
                reached: AtomicBool::new(false),
                asked: Mutex::default(),
            });
        }
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

    /// The steps of a look-up for a device of `target`, in order: for each name that the device matches, the existing
    /// archives that offer that name.
    pub(super) fn steps(&self, directory: &EntryPath, search_paths: &[String], target: &TargetId) -> Vec<LookupStep> {
        let candidates: Vec<_> = target.candidates().iter().map(ToString::to_string).collect();
        let archive_at = |path: &String| self.at(&resolve(directory, path)?);
        let paths = search::archive_paths(search_paths, &candidates);
        let archives: Vec<_> = paths.iter().filter_map(archive_at).collect();
        for archive in archives.iter().filter_map(|&at| self.list.get(at)) {
            archive.reached.store(true, Ordering::Relaxed);
        }
        let offers = |at: usize, target: &str| self.list.get(at).is_some_and(|archive| archive.reader.offers(target));
        let steps = search::steps(&candidates, &archives, offers);
        steps.map(|(archive, target)| LookupStep { archive, target: target.to_owned() }).collect()
    }

    /// Whether the archive of a step has the code object.
    pub(super) fn holds(&self, step: &LookupStep, key: &str) -> bool {
        self.list.get(step.archive).is_some_and(|archive| archive.reader.holds(key, &step.target))
    }

    /// Looks up every wrapper for every target, and records which archives markers lead to. Returns the binaries with
    /// any code, and those without.
    pub(super) fn walk<'a>(
        &self,
        parts: &Parts,
        binaries: &'a Binaries,
        choices: &Choices,
        findings: &Findings,
    ) -> (HashSet<&'a EntryPath>, HashSet<&'a EntryPath>) {
        let found: Vec<_> = binaries
            .par_iter()
            .map(|(path, wrappers)| (path, self.walk_binary(parts, path, wrappers, choices, findings)))
            .collect();
        let (with, without): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, has_code)| *has_code);
        let paths = |of: Vec<(&'a EntryPath, bool)>| of.into_iter().map(|(path, _)| path).collect();
        (paths(with), paths(without))
    }

    /// Returns whether there is code for any wrapper.
    fn walk_binary(
        &self,
        parts: &Parts,
        path: &EntryPath,
        wrappers: &[Option<WrapperRequest>],
        choices: &Choices,
        findings: &Findings,
    ) -> bool {
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let label = || parts.label(0, path);
        let mut without_code = Vec::new();
        let mut missed = BTreeMap::<_, Vec<usize>>::new();
        let mut has_code = false;
        for (position, request) in wrappers.iter().enumerate() {
            let Some(request) = request else { continue };
            let key = toc_key(&request.marker.kernel_name, to_usize(request.index.into()));
            let mut is_found = false;
            for target in &self.targets {
                findings.counts.lookups.add(1);
                let steps = self.steps(&directory, &request.marker.search_paths, target);
                for step in &steps {
                    if let Some(archive) = self.list.get(step.archive) {
                        archive.note(&key, &step.target);
                    }
                }
                let Some(hit) = steps.iter().position(|step| self.holds(step, &key)) else { continue };
                is_found = true;
                if let (1.., Some(first), Some(later)) = (hit, steps.first(), steps.get(hit)) {
                    missed.entry((target, first.archive, later.archive)).or_default().push(position);
                }
            }
            has_code |= is_found;
            if !is_found {
                without_code.push(position);
            }
        }
        // A shard of artifacts has code for some targets only, possibly not for every binary or wrapper.
        let is_complete = parts.kind == PartsKind::Split && parts.component.is_none() && !choices.is_restricted();
        if !without_code.is_empty() && is_complete {
            findings.add(
                Rule::NoCode,
                label(),
                format!("no archive has code for wrapper {}", enumerate(&without_code)),
            );
        }
        for ((target, first, later), positions) in missed {
            let name = |at: usize| self.list.get(at).map_or("", |archive| archive.label.as_str());
            let (first, later, positions) = (name(first), name(later), enumerate(&positions));
            findings.add(
                Rule::HiddenCode,
                label(),
                format!(
                    "on {target} a loader that stops at {first} misses code which {later} has, for wrapper {positions}"
                ),
            );
        }
        has_code
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
