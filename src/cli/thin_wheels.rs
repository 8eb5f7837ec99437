//! `kpackfs split --format thin-wheel`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::terminal::warn;
use crate::gpu::{BundleKey, GpuSet};
use crate::opened::LocatedStatement;
use crate::source::{EntryPath, Input};
use crate::tree::{ROOT, Tree};
use crate::view::{THIN, THIN_WHEELS};
use crate::wheel::signatures_of;
use crate::wheelparts::WheelSet;

/// The versions of thin wheels.
#[derive(Debug, Args)]
pub(super) struct Versions {
    /// The default: thin wheels keep the version of the input.
    #[arg(long, hide = true, conflicts_with = "local_version")]
    keep_version: bool,

    /// Name the GPU in versions of thin wheels
    ///
    /// For example 2.10.0+rocm7.1.gfx942, which sorts above the plain version. By default thin wheels keep the
    /// version of the input, and a directory contains those of one GPU only.
    #[arg(long, help_heading = "Wheels", hide_short_help = true)]
    pub(super) local_version: bool,
}

impl Versions {
    /// Whether the user chose one.
    pub(super) fn are_given(&self) -> bool {
        self.keep_version || self.local_version
    }
}

/// The thin wheels for these GPUs, or all that are listed if none are given: the node in the tree, and the path to
/// write it to.
pub(super) fn thin_wheels(
    tree: &Tree,
    wheels: &WheelSet,
    names: &[String],
    output: &Path,
) -> anyhow::Result<Vec<(EntryPath, PathBuf)>> {
    let names: BTreeSet<_> = if names.is_empty() {
        listed(tree).into_iter().collect()
    } else {
        names.iter().map(|name| gpus_of(name)).collect()
    };
    ensure!(!names.is_empty(), "there is no thin wheel: the input has code for no GPU");
    let mut places = Vec::new();
    for name in names {
        let directory = output.join(&name);
        if let Some(split) = LocatedStatement::of_part(&directory)? {
            bail!(
                "{}: it is a part of a split ({}); write thin wheels to another directory",
                directory.display(),
                split.path
            );
        }
        let view = directory_of_wheels().child(name.as_bytes());
        let wheel = tree.resolve(ROOT, &view).and_then(|view| tree.children(view)?.next());
        let Some(wheel) = wheel else {
            bail!(
                "--view {name}: there is no such thin wheel; there are {}, and sets of them such as gfx1036+gfx1100",
                listed(tree).join(", ")
            );
        };
        let gpus: GpuSet = name.parse().with_context(|| format!("--view {name}"))?;
        places.push((view.child(wheel.name), directory.join(wheels.thin_file_name(&gpus)?)));
    }
    Ok(places)
}

/// The parts whose databases these thin wheels contain.
pub(super) fn keys_of(wheels: &[(EntryPath, PathBuf)]) -> BTreeSet<BundleKey> {
    let gpus = |view: &EntryPath| String::from_utf8_lossy(view.parent()?.name()).parse().ok();
    let gpus = wheels.iter().filter_map(|(view, _)| gpus(view));
    gpus.flat_map(|gpus: GpuSet| gpus.keys()).collect()
}

/// Reports signatures of the input's RECORD, and attestations and signatures next to it. They do not hold for other
/// wheels.
pub(super) fn warn_of_signatures(input: &Input) {
    let Some(dist_info) = input.dist_info() else { return };
    for (_, path) in signatures_of(&input.location) {
        warn(&format!("{}: it is for the input only; sign what is written again", path.display()));
    }
    for name in [b"RECORD.jws", b"RECORD.p7s"] {
        let path = dist_info.child(name);
        if input.entry(&path).is_some() {
            warn(&format!("{path}: left out, since the wheels that are written have a RECORD of their own"));
        }
    }
}

fn directory_of_wheels() -> EntryPath {
    EntryPath::root().child(THIN_WHEELS.as_bytes())
}

/// The GPUs for which a mount lists thin wheels.
fn listed(tree: &Tree) -> Vec<String> {
    let children = tree.resolve(ROOT, &directory_of_wheels()).and_then(|directory| tree.children(directory));
    children.into_iter().flatten().map(|child| String::from_utf8_lossy(child.name).into_owned()).collect()
}

/// The name of a set of GPUs in views. `view` may list them in another order or have the directory as a prefix.
fn gpus_of(view: &str) -> String {
    let name = view.trim_matches('/');
    let name = [THIN, THIN_WHEELS].iter().find_map(|place| name.strip_prefix(place)?.strip_prefix('/')).unwrap_or(name);
    name.parse::<GpuSet>().map_or_else(|_| name.to_owned(), |gpus| gpus.to_string())
}
