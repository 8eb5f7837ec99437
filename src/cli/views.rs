//! The tree of an input's views, which `mount` serves, and `ls` and `cat` read.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;

use super::artifacts::artifacts_of;
use super::mount_reports::{self, live_reports_of, total_bytes};
use super::mounted_release::served_release;
use super::options::SplitOptions;
use super::prepare::open;
use super::terminal::warn;
use crate::gpu::BundleKey;
use crate::mount::Served;
use crate::opened::NamedPath;
use crate::report::LookedAt;
use crate::session::{Prepared, SessionInputs};
use crate::source::{Attributes, EntryPath};
use crate::tree::{NodeKind, ROOT};
use crate::view::{self, PackageIndexes, ThinViews};

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
    let (mut tree, thin) = view::lay_out_listed(prepared.planned(), arch, thin)?;
    let root = Attributes { mode: 0o755, ..input.root };
    mount_reports::show(&mut tree, &EntryPath::root(), prepared, arch)?;
    let live = live_reports_of(&input.location, resources, [(String::new(), prepared)]);
    view::show_reports(&mut tree, &EntryPath::root(), root, live)?;
    let made = arch.iter().fold(prepared.made.clone(), |made, key| made.and(key.as_str())).seconds();
    tree.date(made);
    let mut indexes = PackageIndexes::default();
    if let Some(wheels) = wheels {
        indexes.add_split(input, wheels, &thin, made)?;
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
