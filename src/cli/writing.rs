//! Writing views to a disk, with a progress bar.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use strum::VariantNames;

use super::limits::{LimitOptions, measured};
use super::progress::show_bytes;
use super::terminal::warn;
use crate::disk::Durability;
use crate::export::{Inputs, MadeFiles, Output, ReadyViews, Reflink, Replace, StatementChange, WantedSums};
use crate::kpack::ArchiveRope;
use crate::metrics::Progress;
use crate::report::{PartChoice, SizedPart};
use crate::resources::Resources;
use crate::rope::{ReadError, SizeBounds};
use crate::source::EntryPath;
use crate::split::{Plan, PlannedArchive};
use crate::text::more;
use crate::tree::{ROOT, Tree};

/// Options of writing views.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Writing {
    /// Share blocks with files of the input, as `cp --reflink` does
    ///
    /// `auto`, the default, does it where the filesystem supports it; `always` fails where it does not.
    #[arg(long, value_parser = PossibleValuesParser::new(Reflink::VARIANTS).try_map(|when| when.parse::<Reflink>()), value_name = "WHEN", default_value = "auto", hide_default_value = true, hide_short_help = true)]
    pub(super) reflink: Reflink,

    /// Write the output to the disk before it gets its names
    ///
    /// A power cut leaves all of it or nothing then.
    #[arg(long, hide_short_help = true)]
    pub(super) sync: bool,
}

impl Writing {
    pub(super) fn durability(self) -> Durability {
        if self.sync { Durability::Synced } else { Durability::Deferred }
    }

    /// Whether files of the input may get further names in the output.
    pub(super) fn may_link(self) -> bool {
        self.reflink != Reflink::Never
    }
}

/// Views of a tree, their places, and what is written next to them.
pub(super) struct ViewsToPublish<'a> {
    pub(super) tree: &'a Tree,
    pub(super) views: &'a [(EntryPath, PathBuf)],
    /// What is stated about them.
    pub(super) stated: &'a [StatementChange],
    /// What is replaced without --force.
    pub(super) ours: Vec<PathBuf>,
    /// Which parts the views are, for the limit.
    pub(super) choice: PartChoice,
}

/// Where something is written, and how.
#[derive(Clone, Copy)]
pub(super) struct OutputTarget<'a> {
    pub(super) directory: &'a Path,
    /// Whether to replace what has the names of the output.
    pub(super) force: bool,
    /// What is not written to.
    pub(super) inputs: &'a Inputs,
    pub(super) writing: Writing,
    pub(super) limits: LimitOptions,
}

impl OutputTarget<'_> {
    /// Publishes views and what is stated about them, unless one of the `parts` that they are is too large. Returns their
    /// places.
    pub(super) fn publish_views(
        &self,
        ViewsToPublish { tree, views, stated, ours, choice }: ViewsToPublish<'_>,
        before: WorkBefore<impl FnOnce(&Progress) -> Result<(), ReadError> + Send>,
        parts: impl Fn() -> anyhow::Result<Vec<SizedPart>> + Sync,
        resources: &Arc<Resources>,
    ) -> anyhow::Result<Vec<PathBuf>> {
        stated.iter().try_for_each(|stated| stated.check(self.inputs))?;
        let added: Vec<_> = stated.iter().flat_map(StatementChange::sizes).collect();
        let with_added = |part: SizedPart| {
            let directory = self.directory.join(&part.name);
            let added = added.iter().filter(|(file, _)| file.starts_with(&directory)).map(|(_, size)| size).sum();
            SizedPart { size: part.size + SizeBounds::exact(added), ..part }
        };
        self.limits.check_bounds(|| Ok(parts()?.into_iter().map(with_added).collect()), choice)?;
        let places: Vec<_> = views.iter().map(|(_, place)| place.clone()).collect();
        let gone: Vec<_> = stated.iter().flat_map(StatementChange::replaced).collect();
        let replace = if self.force { Replace::Anything } else { Replace::Only(ours) };
        let mut output =
            Output::prepare(self.directory, &places, &gone, &replace, self.inputs, &resources.store, warn)?;
        let views = output.views(views);
        let sums = stated.iter().flat_map(|stated| stated.sums(&views)).collect();
        let check = |ready: &_| {
            let measured = || Ok(measured(parts()?, &output, ready).into_iter().map(with_added).collect());
            self.limits.check(measured, choice)
        };
        let made = write_views(tree, &views, before, sums, self.writing, check, resources)?;
        output.add_made(made);
        stated.iter().try_for_each(|stated| stated.write(&mut output))?;
        output.publish(self.writing.durability())?;
        Ok(places)
    }
}

/// Clears set-ID bits, and reports the files on stderr: a copy would run with the rights of the user who makes it.
pub(super) fn clear_set_id(tree: &mut Tree) {
    if let [first, rest @ ..] = &*tree.clear_set_id() {
        let more = more(rest.len(), "");
        warn(&format!("{first:?}{more}: the set-ID bits are left out; --keep-set-id keeps them"));
    }
}

/// The work before views are written.
pub(super) struct WorkBefore<F> {
    /// How many bytes are made.
    pub(super) bytes: u64,
    pub(super) make: F,
}

/// The archives of a plan that are in one of these views.
pub(super) fn archives_in<'a>(plan: &'a Plan, tree: &Tree, views: &[(EntryPath, PathBuf)]) -> Vec<&'a ArchiveRope> {
    let roots: Vec<_> = views.iter().filter_map(|(view, _)| tree.resolve(ROOT, view)).collect();
    let is_in = |planned: &&PlannedArchive| roots.iter().any(|&root| tree.resolve(root, &planned.path).is_some());
    plan.archives.iter().filter(is_in).map(|planned| &*planned.archive).collect()
}

/// Makes what views have, and writes these. The digests of `sums` are computed on the way.
/// `check` runs before anything is written, when all sizes are known. Returns the files that are not the input's.
pub(super) fn write_views(
    tree: &Tree,
    views: &[(EntryPath, PathBuf)],
    WorkBefore { bytes, make }: WorkBefore<impl FnOnce(&Progress) -> Result<(), ReadError> + Send>,
    sums: WantedSums,
    writing: Writing,
    check: impl FnOnce(&ReadyViews) -> anyhow::Result<()> + Send,
    resources: &Arc<Resources>,
) -> anyhow::Result<MadeFiles> {
    show_bytes("Writing", |progress| {
        let (read, written) = ReadyViews::estimate(tree, views);
        progress.expect(bytes);
        progress.foresee(|| bytes.saturating_add(read).saturating_add(written));
        make(progress)?;
        progress.expect_files(read, resources);
        let ready = ReadyViews::make(tree, views, sums, progress)?;
        check(&ready)?;
        Ok(ready.write(writing.reflink, progress)?)
    })
}
