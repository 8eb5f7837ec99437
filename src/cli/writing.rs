//! Writing views to a disk, with a progress bar.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use clap::{Args, ValueEnum};

use super::progress::show_bytes;
use super::terminal::warn;
use crate::disk::Durability;
use crate::export::{MadeFiles, ReadyViews, Reflink, WantedSums};
use crate::kpack::{ArchiveRope, unmade_size};
use crate::rope::ReadError;
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
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto, hide_default_value = true, hide_short_help = true)]
    reflink: When,

    /// Write the output to the disk before it gets its names
    ///
    /// A power cut leaves all of it or nothing then.
    #[arg(long, hide_short_help = true)]
    pub(super) sync: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Writing {
    pub(super) fn durability(self) -> Durability {
        if self.sync { Durability::Synced } else { Durability::Deferred }
    }

    /// Whether files of the input may get further names in the output.
    pub(super) fn may_link(self) -> bool {
        !matches!(self.reflink, When::Never)
    }

    pub(super) fn reflink(self) -> Reflink {
        match self.reflink {
            When::Auto => Reflink::Auto,
            When::Always => Reflink::Always,
            When::Never => Reflink::Never,
        }
    }
}

/// Clears set-ID bits, and reports the files on stderr: a copy would run with the rights of the user who makes it.
pub(super) fn clear_set_id(tree: &mut Tree) {
    if let [first, rest @ ..] = &*tree.clear_set_id() {
        let more = more(rest.len(), "");
        warn(&format!("{first:?}{more}: the set-ID bits are left out; --keep-set-id keeps them"));
    }
}

/// What is compressed before views are written: archives, and the function that makes what has them.
pub(super) type MadeBefore<'a, F> = (&'a [&'a ArchiveRope], F);

/// The archives of a plan that are in one of these views.
pub(super) fn archives_in<'a>(plan: &'a Plan, tree: &Tree, views: &[(EntryPath, PathBuf)]) -> Vec<&'a ArchiveRope> {
    let roots: Vec<_> = views.iter().filter_map(|(view, _)| tree.resolve(ROOT, view)).collect();
    let is_in = |planned: &&PlannedArchive| roots.iter().any(|&root| tree.resolve(root, &planned.path).is_some());
    plan.archives.iter().filter(is_in).map(|planned| &*planned.archive).collect()
}

/// Makes archives, all of them together, and writes the views that have them. The digests of `sums` are computed on the way.
/// `check` runs before anything is written, when all sizes are known. Returns the files that are not the input's.
pub(super) fn write_views(
    tree: &Tree,
    views: &[(EntryPath, PathBuf)],
    (archives, make): MadeBefore<'_, impl FnOnce(&AtomicU64) -> Result<(), ReadError> + Send>,
    sums: WantedSums,
    writing: Writing,
    check: impl FnOnce(&ReadyViews) -> anyhow::Result<()> + Send,
) -> anyhow::Result<MadeFiles> {
    show_bytes("Writing", |progress| {
        progress.expect(unmade_size(archives));
        progress.foresee(|| unmade_size(archives) + ReadyViews::estimate(tree, views));
        make(&progress.done)?;
        let ready = ReadyViews::make(tree, views, sums, progress)?;
        check(&ready)?;
        Ok(ready.write(writing.reflink(), progress)?)
    })
}
