//! The trees of views that `mount` serves, and `ls` and `cat` read: of one input, or of several wheels that do not belong together; and
//! the reports in `.kpackfs/` of a mount.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;

use super::artifacts::artifacts_of;
use super::confinement::Opens;
use super::input::{SHORT_FORMS, forms};
use super::json;
use super::options::{SplitOptions, ViewOptions};
use super::prepare::{absolute_input, open, place_of, save_index};
use super::terminal::warn;
use crate::fs::Unmounted;
use crate::gpu::BundleKey;
use crate::mount::Served;
use crate::opened::NamedPath;
use crate::page::PageFile;
use crate::report::{LookedAt, Summary};
use crate::resources::Resources;
use crate::session::{Prepared, Release, ReleasedWheel, SessionInputs};
use crate::simple::PackageIndex;
use crate::source::{Attributes, Entry, EntryPath, Input};
use crate::split::{RESERVED, STATEMENT};
use crate::tree::{Body, NodeKind, ROOT, Tree};
use crate::view::{self, HOST, MANIFESTS, Metrics, PackageIndexes, Status, ThinViews, fixed};
use crate::wheel::normalise;

/// The link to the view of what was collected.
const COLLECTED: &str = "collected";

/// The views of the inputs. `arch` is laid over the host part, and `thin` is listed, too.
pub(super) fn views(
    inputs: &[NamedPath],
    options: &SplitOptions,
    arch: &[BundleKey],
    thin: &ThinViews,
) -> anyhow::Result<Served> {
    let has_thin = thin.auto.is_some() || !thin.sets.is_empty();
    match artifacts_of(inputs, options)? {
        Some(_) if !arch.is_empty() => bail!("--arch: artifacts are not laid over each other"),
        Some(_) if has_thin => bail!("--thin: there are no thin views of artifacts"),
        Some(artifacts) => artifacts.served(),
        None => match open(inputs, options)? {
            SessionInputs::One(prepared) => {
                warn_of_nothing(&prepared);
                served(&prepared, arch, thin, None)
            }
            SessionInputs::Several(_) if !arch.is_empty() || has_thin => {
                bail!("--arch and --thin are for one wheel; each of several has views in merged/ and thin/")
            }
            SessionInputs::Several(release) => {
                served_release(inputs.first().map_or(Path::new(""), |input| &input.path), &release)
            }
        },
    }
}

/// Says that a mount has a host part only. Probably another input was meant.
fn warn_of_nothing(prepared: &Prepared) {
    if prepared.has_nothing_to_split() {
        let input = prepared.input.location.display();
        let looked_at = LookedAt::of([&prepared.input], &prepared.resources);
        warn(&format!("{input}: {looked_at}; so host/ is the whole input"));
    }
}

/// The tree of a mount. `collected` is the view that is also shown as what was collected.
pub(super) fn served(
    prepared: &Prepared,
    arch: &[BundleKey],
    thin: &ThinViews,
    collected: Option<&EntryPath>,
) -> anyhow::Result<Served> {
    let Prepared { input, plan, wheels, resources, .. } = prepared;
    let mut reports = reports(prepared, arch)?;
    reports.extend(live_reports(&input.location, resources, [(String::new(), prepared)]));
    let reports = reports.iter().map(|(name, body)| (name.as_str(), body.clone())).collect();
    let (mut tree, thin) = view::lay_out_listed((input, plan, wheels.as_ref()), arch, thin, reports)?;
    let made = arch.iter().fold(prepared.made.clone(), |made, key| made.and(key.as_str())).seconds();
    tree.date(made);
    let root = Attributes { mode: 0o755, ..input.root };
    let mut indexes = PackageIndexes::default();
    if let Some(wheels) = wheels {
        indexes.add_split((input, wheels), &thin, made)?;
    } else if plan.keeps_wheels {
        prepared.listed()?.into_iter().for_each(|wheel| indexes.add_whole(wheel.dated(made)));
        view::show_all_wheels(&mut tree, root, &indexes.wheels)?;
    }
    if !indexes.wheels.is_empty() {
        indexes.show(&mut tree, root, &resources.index)?;
    }
    tree.shrink();
    if let Some(view) = collected {
        let link = NodeKind::Symlink(view.as_bytes().into());
        tree.insert(ROOT, &EntryPath::root().child(COLLECTED.as_bytes()), input.root, link)?;
    }
    // Memory used for planning is returned to the system after a while.
    resources.budget.touch();
    Ok(Served { tree: Arc::new(tree), resources: Arc::clone(resources), total_bytes: total_bytes(input) })
}

/// The tree of a mount of several wheels: the views of each in a directory of its own, and `wheels/` and indexes of all.
fn served_release(location: &Path, release: &Release) -> anyhow::Result<Served> {
    let Release { wheels, resources } = release;
    let Some(root) = release.root() else { bail!("there are no wheels") };
    let mut tree = Tree::new(root);
    let mut indexes = PackageIndexes::default();
    let (mut places, mut inputs) = (Vec::with_capacity(wheels.len()), BTreeMap::new());
    for wheel in wheels {
        let failed = || wheel.path().display().to_string();
        let place = place(wheel).with_context(failed)?;
        if let Some(first) = inputs.insert(place.clone(), wheel.path()) {
            let (first, second) = (first.display(), wheel.path().display());
            bail!("{first} and {second}: both have the same name, version and tags; name one of them");
        }
        let prepared = &wheel.prepared;
        let reports = reports(prepared, &[])?;
        let views = (&prepared.input, &prepared.plan, prepared.wheels.as_ref());
        let thin = view::lay_out_at(&mut tree, &place, views, &[], &ThinViews::default(), named(&reports));
        tree.date(prepared.made.seconds());
        wheel.add_to(&mut indexes, &thin.with_context(failed)?).with_context(failed)?;
        places.push((format!("{place}/"), prepared));
    }
    // Before names in the tree could collide.
    PackageIndex::new(indexes.wheels.iter().map(|wheel| wheel.indexed.clone()))?;
    view::show_all_wheels(&mut tree, root, &indexes.wheels)?;
    indexes.show(&mut tree, root, &resources.index)?;
    let total_bytes = wheels.iter().map(|wheel| total_bytes(&wheel.prepared.input)).sum();
    let live = live_reports(location, resources, places);
    view::show_reports(&mut tree, &EntryPath::root(), root, named(&live))?;
    tree.shrink();
    resources.budget.touch();
    Ok(Served { tree: Arc::new(tree), resources: Arc::clone(resources), total_bytes })
}

fn named(reports: &[(String, Body)]) -> Vec<(&str, Body)> {
    reports.iter().map(|(name, body)| (name.as_str(), body.clone())).collect()
}

/// Where the views of a wheel are: `<distribution>/<version>/<build tag and tags>`.
fn place(wheel: &ReleasedWheel) -> anyhow::Result<EntryPath> {
    let name = wheel.name()?;
    let mut distribution = normalise(&name.distribution);
    if RESERVED.contains(&distribution.as_str()) {
        distribution.push('_');
    }
    let tags = name.build.iter().chain([&name.python, &name.abi, &name.platform]).chain(&name.variant);
    let tags = tags.map(String::as_str).collect::<Vec<_>>().join("-");
    let components = [distribution.as_str(), &name.version, &tags];
    Ok(components.into_iter().fold(EntryPath::root(), |path, name| path.child(name.as_bytes())))
}

/// Reports, with the names of their files.
type Reports = Vec<(String, Body)>;

/// The reports about an input and its split. `arch` is overlaid on its host part.
fn reports(prepared: &Prepared, arch: &[BundleKey]) -> anyhow::Result<Reports> {
    let Prepared { input, plan, wheels, statement, split_id, .. } = prepared;
    let summary = Summary::of(input, plan);
    let text = json::text(&summary)?;
    let page = Body::Made(Arc::new(PageFile::new(input, plan, wheels.as_ref(), summary)));
    let parts = std::iter::once(HOST.to_owned()).chain(plan.keys.iter().map(ToString::to_string));
    let statement = statement.clone().with_arch(arch).with_parts(parts).to_rope(split_id)?;
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
fn live_reports<'a>(
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
fn total_bytes(input: &Input) -> u64 {
    input.entries.iter().map(Entry::size).sum()
}

/// An input, seen as a mount of it.
#[derive(Debug, Args)]
pub(super) struct ViewedInput {
    #[arg(help = SHORT_FORMS, long_help = concat!("The input: ", forms!()))]
    input: PathBuf,

    #[command(flatten)]
    options: ViewOptions,
}

impl ViewedInput {
    pub(super) fn opens(&self) -> Opens {
        self.options.resources.opens(Opens::inputs(vec![place_of(&self.input)]))
    }

    /// Reads the views with `read`, and saves what was found in the input.
    pub(super) fn read(&self, read: impl FnOnce(&Unmounted) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let input = absolute_input(&self.input)?;
        let served = views(&[input], &self.options.of_split(), &[], &ThinViews::default())?;
        let result = read(&Unmounted::new(Arc::clone(&served.tree)));
        save_index(&served.resources);
        result
    }
}
