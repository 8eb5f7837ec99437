//! The reports in `.kpackfs/` of a mount.

use std::path::Path;
use std::sync::Arc;

use super::json;
use crate::gpu::BundleKey;
use crate::page::PageFile;
use crate::report::Summary;
use crate::resources::Resources;
use crate::session::Prepared;
use crate::source::{Entry, Input};
use crate::split::{STATEMENT, Statement};
use crate::tree::Body;
use crate::view::{HOST, MANIFESTS, Metrics, Status, fixed, views_without_code};

/// Reports, with the names of their files.
type Reports = Vec<(String, Body)>;

/// The reports about an input and its split. `arch` is overlaid on its host part.
pub(super) fn reports(prepared: &Prepared, arch: &[BundleKey]) -> anyhow::Result<Reports> {
    let Prepared { input, plan, wheels, split_id, .. } = prepared;
    let summary = Summary::of(input, plan);
    let text = json::text(&summary)?;
    let page = Body::Made(Arc::new(PageFile::new(input, plan, wheels.as_ref(), summary)));
    let parts = std::iter::once(HOST.to_owned()).chain(plan.keys.iter().map(ToString::to_string));
    let statement = Statement::of(&plan.options).with_arch(arch).with_parts(parts);
    let statement = statement.with_views_without_code(views_without_code(plan).collect()).to_rope(split_id)?;
    let mut reports = vec![
        ("report.html".to_owned(), page),
        ("report.json".to_owned(), fixed(text)),
        (STATEMENT.to_owned(), Body::Ready(Arc::new(statement))),
    ];
    let manifests = prepared.manifests();
    reports.extend(manifests.iter().map(|(part, it)| (format!("{MANIFESTS}/{part}.json"), Body::Ready(it.text()))));
    Ok(reports)
}

/// The reports about a mount and its work. Each input comes with the path of its views.
pub(super) fn live_reports<'a>(
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
    let status = Status::new(location.to_string_lossy(), resources, archives).watching(witnesses);
    vec![
        ("status.json".to_owned(), Body::Live(Arc::new(status))),
        ("metrics".to_owned(), Body::Live(Arc::new(Metrics(Arc::clone(resources))))),
    ]
}

/// Bytes of all files of an input.
pub(super) fn total_bytes(input: &Input) -> u64 {
    input.entries.iter().map(Entry::size).sum()
}
