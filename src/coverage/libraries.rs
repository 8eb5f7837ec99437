//! The libraries of an input.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::judge::ExaminedLibrary;
use super::model::LibraryForm;
use super::question::CoverageInput;
use crate::binary::{FatBinary, SplitBinary};
use crate::fatbin::Bundle;
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, MIN_BINARY};
use crate::split::{Destination, Plan, PlannedBinary};

/// All libraries with device code, or that ask for some in archives, sorted by path.
pub(super) fn find(examined: &CoverageInput<'_>) -> Vec<ExaminedLibrary> {
    let plan = examined.plan;
    let mut libraries: Vec<_> = planned(plan).collect();
    let unsplit: BTreeSet<_> = plan.unsplit.iter().collect();
    let hosts = examined.input.entries.par_iter().zip(&plan.places).with_max_len(1);
    let others = hosts.filter_map(|(entry, place)| match (&entry.kind, place) {
        (EntryKind::File { content, .. }, Destination::Host | Destination::Held) if content.size() >= MIN_BINARY => {
            other(entry, content, unsplit.contains(&entry.path), examined)
        }
        _ => None,
    });
    libraries.extend(others.collect::<Vec<_>>());
    let known: BTreeSet<_> =
        libraries.iter().filter(|library| !library.targets().is_empty()).map(|library| library.path.clone()).collect();
    libraries.extend(by_address(examined).filter(|library| !known.contains(&library.path)));
    libraries.retain(|library| library.problem.is_some() || !library.targets().is_empty());
    libraries.sort_by(|a, b| a.path.cmp(&b.path));
    libraries.dedup_by(|a, b| a.path == b.path);
    libraries
}

/// The libraries whose code planning found. Wrappers whose bundles are all empty need none.
pub(super) fn planned(plan: &Plan) -> impl Iterator<Item = ExaminedLibrary> {
    let examined = |binary: &PlannedBinary| {
        let with_code = |code: &Vec<(TargetId, u64)>| {
            code.iter().filter(|(_, size)| *size > 0).map(|(target, _)| target.clone()).collect()
        };
        let is_split = plan.joined.contains(&binary.path);
        let form = if is_split { LibraryForm::Split } else { LibraryForm::Fat };
        let wrappers = binary.wrappers.iter().map(with_code).collect();
        let sizes = binary.bundles().flatten().cloned().collect();
        ExaminedLibrary { path: binary.path.clone(), form, wrappers, sizes, problem: None }
    };
    plan.binaries.iter().map(examined).filter(|library| !library.targets().is_empty())
}

/// A library that cannot be split, or that was split and could not be joined.
fn other(
    entry: &Entry,
    content: &Arc<dyn Content>,
    is_unsplit: bool,
    examined: &CoverageInput<'_>,
) -> Option<ExaminedLibrary> {
    let path = entry.path.clone();
    let (wrappers, sizes) = (Vec::new(), Vec::new());
    if is_unsplit {
        let problem = Some(warning(&path, examined).unwrap_or_else(|| "it cannot be read".to_owned()));
        return Some(match targets(content, examined.resources) {
            Some(wrappers) => ExaminedLibrary { path, form: LibraryForm::Fat, wrappers, sizes, problem: None },
            None => ExaminedLibrary { path, form: LibraryForm::Unreadable, wrappers, sizes, problem },
        });
    }
    let split = SplitBinary::find(content).ok().flatten().filter(|split| !split.wrappers.is_empty())?;
    let count = split.wrappers.len();
    let missing = || format!("it is split, and no archive for it is in the input ({count} wrappers ask for code)");
    let problem = Some(warning(&path, examined).unwrap_or_else(missing));
    Some(ExaminedLibrary { path, form: LibraryForm::Split, wrappers, sizes, problem })
}

/// What planning said about a file.
fn warning(path: &EntryPath, examined: &CoverageInput<'_>) -> Option<String> {
    let prefix = format!("{path}: ");
    examined.plan.warnings.iter().find_map(|warning| warning.strip_prefix(&prefix)).map(str::to_owned)
}

/// The targets of each wrapper of a fat binary.
fn targets(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Vec<Vec<TargetId>>> {
    let binary = FatBinary::scan(content).ok()??;
    let of_wrapper = |bundle: u64, limit: u64| {
        let bundle = Bundle::read(content, bundle, limit, resources).ok()?;
        Some(bundle.targets().into_iter().collect())
    };
    binary.wrappers().iter().map(|wrapper| of_wrapper(wrapper.bundle, wrapper.limit)).collect()
}

/// Bundles that programs find without a wrapper: in the data of binaries, or as files of the host part. Those of one
/// file are judged together.
fn by_address(examined: &CoverageInput<'_>) -> impl Iterator<Item = ExaminedLibrary> {
    let library = |path: &EntryPath, form: LibraryForm, targets: &BTreeSet<TargetId>| {
        let wrappers = vec![targets.iter().cloned().collect()];
        ExaminedLibrary { path: path.clone(), form, wrappers, sizes: Vec::new(), problem: None }
    };
    let is_host = |path: &EntryPath| {
        let entries = &examined.input.entries;
        let at = entries.binary_search_by(|entry| entry.path.cmp(path)).ok();
        at.is_some_and(|at| matches!(examined.plan.places.get(at), Some(Destination::Host)))
    };
    let embedded = examined.embedded.iter();
    let embedded = embedded.map(move |(path, found)| library(path, LibraryForm::Embedded, &found.targets));
    let files = examined.plan.bundle_files.iter().filter(move |file| is_host(&file.path));
    embedded.chain(files.map(move |file| library(&file.path, LibraryForm::Bundle, &file.targets)))
}
