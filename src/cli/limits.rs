//! `--max-part`: a limit on the size of each part, which is met before anything is written.

use std::path::{Path, PathBuf};

use clap::Args;

use super::gate::say_failure;
use super::split_views::directories;
use crate::export::{Output, ReadyViews};
use crate::report::{Judgement, PartChoice, PartGpus, PartLimit, SizedPart, TooLarge};
use crate::rope::SizeBounds;
use crate::session::{Prepared, Release};
use crate::source::{EntryPath, InputKind};
use crate::tree::{ROOT, Tree};
use crate::view::{self, FAT_WHEEL, THIN_WHEELS, WHEELS};

/// The limit.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct LimitOptions {
    /// Exit with 1, and write nothing, if a part is larger
    ///
    /// A part is the host part, the part of a GPU, a wheel, a file, or a layer of an image that is made. SIZE has bytes,
    /// or a unit such as MiB or MB, or is the limit of github-release or of pypi-file. What fits is printed.
    #[arg(long, value_name = "SIZE", help_heading = "Gate")]
    pub(super) max_part: Option<PartLimit>,
}

impl LimitOptions {
    /// What the limit says about parts that are not written. They are measured unless the bounds of their sizes decide.
    pub(super) fn judge(
        self,
        parts: impl Fn() -> anyhow::Result<Vec<SizedPart>>,
        measure: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Judgement>> {
        let Some(limit) = self.max_part else { return Ok(None) };
        let mut sized = parts()?;
        if !limit.is_decided(&sized) {
            measure()?;
            sized = parts()?;
        }
        Ok(Some(limit.judge(&sized, PartChoice::Gpus)))
    }

    /// Fails if parts certainly exceed the limit. Does no work for their sizes.
    pub(super) fn check_bounds(
        self,
        parts: impl FnOnce() -> anyhow::Result<Vec<SizedPart>>,
        choice: PartChoice,
    ) -> anyhow::Result<()> {
        let Some(limit) = self.max_part else { return Ok(()) };
        let parts = parts()?;
        if limit.is_decided(&parts) { refuse(limit.judge(&parts, choice)) } else { Ok(()) }
    }

    /// Fails if parts exceed the limit. Their sizes are known.
    pub(super) fn check(
        self,
        parts: impl FnOnce() -> anyhow::Result<Vec<SizedPart>>,
        choice: PartChoice,
    ) -> anyhow::Result<()> {
        self.max_part.map_or(Ok(()), |limit| refuse(limit.judge(&parts()?, choice)))
    }
}

/// Fails if it did not pass.
fn refuse(judgement: Judgement) -> anyhow::Result<()> {
    if judgement.passed { Ok(()) } else { Err(TooLarge(judgement).into()) }
}

/// The parts with their sizes. Each has its name in the output.
pub(super) fn measured(parts: Vec<SizedPart>, output: &Output, ready: &ReadyViews) -> Vec<SizedPart> {
    let files: Vec<_> = ready.sizes().filter_map(|(path, size)| Some((output.relative(path)?, size))).collect();
    let size =
        |part: &SizedPart| files.iter().filter(|(path, _)| path.starts_with(&part.name)).map(|(_, size)| size).sum();
    parts.into_iter().map(|part| SizedPart { size: SizeBounds::exact(size(&part)), ..part }).collect()
}

/// The parts that views are, by their places in a tree.
pub(super) fn parts_of(tree: &Tree, views: &[(EntryPath, PathBuf)]) -> Vec<SizedPart> {
    let part = |(view, _): &(EntryPath, PathBuf)| {
        let node = tree.resolve(ROOT, view)?;
        // Wheels are written without the directory that they have in a mount.
        let of_wheels = [WHEELS, THIN_WHEELS, FAT_WHEEL].map(|name| EntryPath::root().child(name.as_bytes()));
        let name = of_wheels.iter().find_map(|place| view.below(place)).unwrap_or_else(|| view.clone());
        Some(SizedPart::of_node(name.to_string(), PartGpus::of_view(view), tree, node))
    };
    views.iter().filter_map(part).collect()
}

/// The wheels that an input becomes, or is.
pub(super) fn wheels_of(prepared: &Prepared) -> anyhow::Result<Vec<SizedPart>> {
    let gpus: Vec<_> = prepared.parts().iter().map(|part| PartGpus::of_wheel(&part.part)).collect();
    let listed = prepared.listed()?;
    // Wheels that are as they are have no parts.
    let gpus = gpus.into_iter().chain(std::iter::repeat(PartGpus::All));
    Ok(listed.iter().zip(gpus).map(|(wheel, gpus)| SizedPart::of_file(wheel.file_name(), gpus, &wheel.body)).collect())
}

/// The wheels of a release.
pub(super) fn wheels_of_release(release: &Release) -> anyhow::Result<Vec<SizedPart>> {
    let wheels = release.wheels.iter().map(|wheel| wheels_of(&wheel.prepared));
    Ok(wheels.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The parts of an input as `inspect` sees them: wheels of wheels, directories of trees.
pub(super) fn parts_of_input(prepared: &Prepared) -> anyhow::Result<Vec<SizedPart>> {
    let Prepared { input, plan, wheels, .. } = prepared;
    if wheels.is_some() || input.host_wheel().is_some() || matches!(input.kind, InputKind::Wheel(_)) {
        return wheels_of(prepared);
    }
    let tree = view::lay_out(input, plan, None, &[])?;
    Ok(parts_of(&tree, &directories(&[], Path::new(""), plan)?))
}

/// Whether the limit was kept. If not, a sentence on stderr says so. `is_printed` is about the verdict.
pub(super) fn is_kept(judgement: Option<&Judgement>, is_printed: bool) -> bool {
    let Some(judgement) = judgement.filter(|judgement| !judgement.passed) else { return true };
    say_failure(&judgement.sentence, is_printed);
    false
}
