//! Looks up all wrappers, and says of split binaries that they have no code.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use rocm_kpack::Marker;

use super::context::Context;
use super::lookup::{BinaryLookups, OverlaidArchive, WrapperRequest};
use super::parts::PartsKind;
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::loader::resolve;
use crate::source::EntryPath;

/// The result of looking up all wrappers.
#[derive(Debug, Default)]
pub(super) struct LookupResults<'a> {
    /// Binaries with any code.
    pub(super) with_code: HashSet<&'a EntryPath>,
    /// Binaries without code.
    pub(super) without_code: HashSet<&'a EntryPath>,
    /// Those among them that find no archive at all, and why that may be.
    pub(super) unreached: HashMap<&'a EntryPath, Unreached>,
}

/// A binary that finds no archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreached {
    /// It is not where its marker expects it.
    Misplaced,
    /// There are other archives in the directory where its marker leads.
    OtherArchives,
    /// It is where its marker expects it, and there are no archives. It may have no code for the GPUs here.
    NoArchives,
}

impl<'a> Context<'a> {
    /// Looks up every wrapper for every target, and records which archives markers lead to. Returns the binaries with
    /// any code, and those without. `listed` are the binaries that the split wrote code of, if that is known.
    pub(super) fn walk(&self, listed: Option<&HashSet<&str>>) -> LookupResults<'a> {
        let binaries = self.binaries.split.par_iter();
        let look_up =
            |(path, wrappers): (&'a EntryPath, &'a Vec<_>)| (path, wrappers, self.walk_binary(path, wrappers, listed));
        let found: Vec<_> = binaries.map(look_up).collect();
        let mut results = LookupResults::default();
        for (path, wrappers, lookups) in found {
            if lookups.has_code {
                results.with_code.insert(path);
                continue;
            }
            results.without_code.insert(path);
            if !lookups.finds_archives {
                results.unreached.insert(path, self.unreached(path, wrappers));
            }
        }
        results
    }

    fn unreached(&self, path: &EntryPath, wrappers: &[Option<WrapperRequest>]) -> Unreached {
        let directories = wrappers.iter().flatten().filter_map(|request| archives_of(&request.marker, path));
        let directories: HashSet<_> = directories.collect();
        if directories.is_empty() {
            return Unreached::Misplaced;
        }
        let is_there = |archive: &OverlaidArchive| archive.path.parent().is_some_and(|it| directories.contains(&it));
        if self.archives.list.iter().any(is_there) {
            return Unreached::OtherArchives;
        }
        if self.has_code_of(wrappers) { Unreached::Misplaced } else { Unreached::NoArchives }
    }

    /// Whether an archive has code for these wrappers that no wrapper finds. A binary at the top of its package has a name
    /// that fits in every directory, so this alone shows that it was moved.
    fn has_code_of(&self, wrappers: &[Option<WrapperRequest>]) -> bool {
        let names: HashSet<_> = wrappers.iter().flatten().map(|request| &*request.marker.kernel_name).collect();
        let is_of = |key: &&str| key.rsplit_once('#').is_some_and(|(name, _)| names.contains(name));
        self.archives.list.iter().any(|archive| archive.orphans().iter().any(is_of))
    }

    /// Looks up the wrappers of a binary, and reports those without code.
    fn walk_binary(
        &self,
        path: &EntryPath,
        wrappers: &[Option<WrapperRequest>],
        listed: Option<&HashSet<&str>>,
    ) -> BinaryLookups {
        let Context { parts, archives, choices, findings, .. } = *self;
        let mut lookups = archives.look_up(parts, path, wrappers, findings);
        let label = || parts.label(0, path);
        let without_code = std::mem::take(&mut lookups.without_code);
        // A shard of artifacts has code for some targets only, possibly not for every binary or wrapper.
        let is_complete = parts.kind == PartsKind::Split && parts.component.is_none() && choices.targets.are_all();
        // A wrapper may have no kernels. Where there are manifests, they show what is lost.
        let is_listed = |listed: &HashSet<&str>| {
            wrappers.iter().flatten().any(|request| listed.contains(request.marker.kernel_name.as_str()))
        };
        // The input of the split may have had none, as a thin binary has, or databases only. One whose archives are gone finds none.
        let are_databases_only = parts.all.len() > 1 && listed.is_some_and(HashSet::is_empty);
        let is_none = !lookups.has_code && (lookups.finds_archives || are_databases_only);
        if !without_code.is_empty() && is_complete && is_none && !listed.is_none_or(is_listed) {
            note_without_code(&label(), findings);
        } else if !without_code.is_empty() && is_complete && (!lookups.has_code || parts.find_statement().is_none()) {
            let reason = format!("no archive has code for wrapper {}", enumerate(&without_code));
            findings.add(Rule::NoCode, label(), reason);
        }
        for ((target, first, later), positions) in std::mem::take(&mut lookups.missed) {
            let name = |at: usize| archives.list.get(at).map_or("", |archive| archive.label.as_str());
            let (first, later, positions) = (name(first), name(later), enumerate(&positions));
            let reason = format!(
                "on {target} a loader that stops at {first} misses code which {later} has, for wrapper {positions}"
            );
            findings.add(Rule::HiddenCode, label(), reason);
        }
        lookups
    }
}

/// The directory of the archives that a marker names, if its binary is where a splitter put it: below the directory around
/// that one it has the path that its name ends with.
fn archives_of(marker: &Marker, path: &EntryPath) -> Option<EntryPath> {
    let directory = path.parent().unwrap_or_else(EntryPath::root);
    marker.kpack_search_paths.iter().find_map(|search_path| {
        let archives = resolve(&directory, search_path)?.parent()?;
        let below = path.below(&archives.parent()?)?;
        let rest = marker.kernel_name.as_bytes().strip_suffix(below.as_bytes())?;
        (rest.is_empty() || rest.ends_with(b"/")).then_some(archives)
    })
}

/// Says that a binary has no code here.
pub(super) fn note_without_code(label: &str, findings: &Findings) {
    findings.note(format!("{label}: no archive has code for any of its wrappers"));
}
