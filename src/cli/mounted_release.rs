//! A mount of several wheels that do not belong together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::mount_reports::{self, live_reports_of, total_bytes};
use crate::mount::Served;
use crate::session::{Release, ReleasedWheel};
use crate::simple::PackageIndex;
use crate::source::EntryPath;
use crate::split::RESERVED;
use crate::tree::Tree;
use crate::view::{self, PackageIndexes, ThinViews};
use crate::wheel::normalise;

/// The tree of a mount of several wheels: the views of each in a directory of its own, and `wheels/` and indexes of all.
pub(super) fn served_release(location: &Path, release: &Release) -> anyhow::Result<Served> {
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
        let planned = prepared.planned();
        let thin = view::lay_out_at(&mut tree, &place, planned, &[], &ThinViews::default()).with_context(failed)?;
        mount_reports::show(&mut tree, &place, prepared, &[])?;
        tree.date(prepared.made.seconds());
        wheel.add_to(&mut indexes, &thin).with_context(failed)?;
        places.push((format!("{place}/"), prepared));
    }
    // Before names in the tree could collide.
    PackageIndex::new(indexes.wheels.iter().map(|wheel| wheel.indexed.clone()))?;
    view::show_all_wheels(&mut tree, root, &indexes.wheels)?;
    indexes.show(&mut tree, root, &resources.index)?;
    let total_bytes = wheels.iter().map(|wheel| total_bytes(&wheel.prepared.input)).sum();
    let live = live_reports_of(location, resources, places);
    view::show_reports(&mut tree, &EntryPath::root(), root, live)?;
    tree.shrink();
    resources.budget.touch();
    Ok(Served { tree: Arc::new(tree), resources: Arc::clone(resources), total_bytes })
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
