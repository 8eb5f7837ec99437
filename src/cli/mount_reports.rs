//! The reports in `.kpackfs/` of a mount.

use std::path::Path;
use std::sync::Arc;

use super::json;
use crate::gpu::BundleKey;
use crate::kpack::ArchiveRope;
use crate::page::PageFile;
use crate::report::Summary;
use crate::resources::Resources;
use crate::rope::Content;
use crate::session::Prepared;
use crate::source::{Attributes, Entry, EntryPath, Input};
use crate::split::{STATEMENT, Statement};
use crate::tree::{Body, Tree};
use crate::view::{HOST, MANIFESTS, Metrics, Status, TreeManifest, fixed, show_reports, views_without_code};

/// Reports, with the names of their files.
type Reports = Vec<(String, Body)>;

/// Adds the reports about an input and its split to the tree of its views at `place`. `arch` is overlaid on its host part. Those that name
/// its files can be read by those who can read all of them.
pub(super) fn show(tree: &mut Tree, place: &EntryPath, prepared: &Prepared, arch: &[BundleKey]) -> anyhow::Result<()> {
    let Prepared { input, plan, split_id, .. } = prepared;
    let summary = Summary::of(input, plan);
    let text = json::text(&summary)?;
    let page = Body::Made(Arc::new(PageFile::new(prepared.planned(), summary)));
    let parts = std::iter::once(HOST.to_owned()).chain(plan.keys.iter().map(ToString::to_string));
    let statement = Statement {
        arch: arch.iter().map(ToString::to_string).collect(),
        parts: parts.collect(),
        without_code: views_without_code(plan).collect(),
        ..Statement::of(&plan.options)
    };
    let statement = statement.to_rope(split_id)?;
    let mut reports = vec![("report.html".to_owned(), page), ("report.json".to_owned(), fixed(text))];
    reports.extend(manifest_reports(prepared.manifests()));
    show_reports(tree, place, input.readers(), reports)?;
    let statement = (STATEMENT.to_owned(), Body::Ready(Arc::new(statement)));
    Ok(show_reports(tree, place, Attributes { mode: 0o444, ..input.root }, vec![statement])?)
}

/// The manifests of parts.
pub(super) fn manifest_reports(manifests: Vec<(String, TreeManifest)>) -> impl Iterator<Item = (String, Body)> {
    manifests.into_iter().map(|(part, it)| (format!("{MANIFESTS}/{part}.json"), Body::Ready(it.text())))
}

/// The reports about a mount and its work: about archives, and about whether each of `witnesses` can still be read.
pub(super) fn live_reports(
    location: &Path,
    resources: &Arc<Resources>,
    archives: impl IntoIterator<Item = (String, Arc<ArchiveRope>)>,
    witnesses: impl IntoIterator<Item = Arc<dyn Content>>,
) -> Reports {
    let status = Status::new(location.to_string_lossy(), resources, archives).watching(witnesses);
    vec![
        ("status.json".to_owned(), Body::Live(Arc::new(status))),
        ("metrics".to_owned(), Body::Live(Arc::new(Metrics(Arc::clone(resources))))),
    ]
}

/// The same about inputs. Each comes with the path of its views.
pub(super) fn live_reports_of<'a>(
    location: &Path,
    resources: &Arc<Resources>,
    inputs: impl IntoIterator<Item = (String, &'a Prepared)>,
) -> Reports {
    let (mut archives, mut witnesses) = (Vec::new(), Vec::new());
    for (place, Prepared { input, joined, plan, .. }) in inputs {
        archives.extend(plan.archives.iter().map(|planned| {
            let name = format!("{place}{}/{}", planned.key, planned.path);
            (name, Arc::clone(&planned.archive))
        }));
        witnesses.extend(input.witnesses().into_iter().chain(joined.witnesses()));
    }
    live_reports(location, resources, archives, witnesses)
}

/// Bytes of all files of an input.
pub(super) fn total_bytes(input: &Input) -> u64 {
    input.entries.iter().map(Entry::size).sum()
}
