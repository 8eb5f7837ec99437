//! `kpackfs index`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use rayon::prelude::*;

use super::confinement::Opens;
use super::input::InputOptions;
use super::options::SplitOptions;
use super::package_index::sums_of;
use super::prepare::{check_claims, open};
use super::progress::show_bytes;
use super::said::{self, WrittenOutput};
use super::terminal::warn;
use crate::report::Sizes;
use crate::resources::WorkPolicy;
use crate::rope::reason_at;
use crate::session::{Prepared, SessionInputs};
use crate::view::ListedWheel;
use crate::wheelparts::WheelSet;

/// Build the index of an input, so that mounting starts at once
///
/// The files of a wheel are compared with its RECORD. The index is stored in the cache directory. Every later mount,
/// split and inspect uses it, with any options. Only the sizes of archives and wheels depend on the options.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs index torch.whl")]
pub(super) struct IndexArguments {
    #[command(flatten)]
    source: InputOptions,

    #[command(flatten)]
    options: SplitOptions,

    /// Omit the sizes of archives and wheels
    ///
    /// All code objects have to be compressed for these.
    #[arg(long)]
    without_sizes: bool,

    /// Also compute the SHA-256 of each wheel
    ///
    /// The pages of the package index in a mount have it then. All wheels are made for it.
    #[arg(long, conflicts_with = "without_sizes")]
    wheel_digests: bool,
}

impl IndexArguments {
    pub(super) fn opens(&self) -> Opens {
        self.options.resources.opens(Opens::inputs(self.source.places()))
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let named = self.source.named()?;
        named.iter().try_for_each(|input| input.named.check_local(&input.path))?;
        if self.options.resources.cache.directory().is_none() {
            bail!(
                "an index is kept in the cache directory, and there is none: leave out --no-cache and an empty KPACKFS_CACHE_DIR, or name one with \
                 --cache-dir"
            );
        }
        let policy = WorkPolicy { hash_members: true, check_bundles: true, ..WorkPolicy::default() };
        let opened = open(&named, &self.options.clone().with_policy(policy))?;
        let resources = match &opened {
            SessionInputs::One(prepared) => &prepared.resources,
            SessionInputs::Several(release) => &release.resources,
        };
        let Some(file) = resources.index.file() else {
            bail!("there is no directory to keep an index in; name one with --cache-dir");
        };
        match &opened {
            SessionInputs::One(prepared) => {
                self.examine(prepared)?;
                if self.wheel_digests && (prepared.wheels.is_some() || prepared.plan.keeps_wheels) {
                    record_digests(&prepared.listed()?, prepared)?;
                }
            }
            SessionInputs::Several(release) => {
                for wheel in &release.wheels {
                    self.examine(&wheel.prepared).with_context(|| wheel.path().display().to_string())?;
                    if self.wheel_digests {
                        record_digests(wheel.listed()?, &wheel.prepared)?;
                    }
                }
            }
        }
        resources.index.save()?;
        resources.store.finish();
        if file.exists() {
            WrittenOutput::at(("index", "indexes"), file, [&file.to_owned()])?.say();
        } else {
            said::say(&format!("{}: there is nothing to keep about it", self.source.path().display()));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Does all work on an input whose results are kept.
    fn examine(&self, prepared: &Prepared) -> anyhow::Result<()> {
        look_into_members(prepared);
        prepared.check_members(|_| true)?;
        check_claims(prepared)?;
        if !self.without_sizes {
            show_bytes("Measuring", |progress| Sizes::make(&prepared.plan, prepared.wheels.as_ref(), progress))?;
        }
        Ok(())
    }
}

/// Records the digests of the wheels of an input.
fn record_digests(wheels: &[ListedWheel], prepared: &Prepared) -> anyhow::Result<()> {
    let parts = prepared.parts();
    show_bytes("Digesting", |progress| {
        progress.expect(WheelSet::unmade_size(&parts, true));
        WheelSet::make(&parts, true, progress)
    })?;
    for wheel in wheels {
        let sums = sums_of(&*wheel.body.content()?, &prepared.resources)?;
        wheel.clone().put_sums(sums, &prepared.resources.index);
    }
    Ok(())
}

/// Decodes the deflate streams of all members once, so that reading can start anywhere.
fn look_into_members(prepared: &Prepared) {
    let members: Vec<_> = prepared
        .input
        .files()
        .filter_map(|(path, content)| Some((path, content.member().filter(|member| member.packed().deflated)?)))
        .collect();
    show_bytes("Indexing", |progress| {
        progress.expect(members.iter().map(|(_, member)| member.size()).sum());
        members.par_iter().with_max_len(1).for_each(|(path, member)| {
            if let Err(error) = member.block_boundaries() {
                warn(&format!("{path}: cannot be read: {}", reason_at(&path.to_string(), error)));
            }
            progress.advance(member.size());
        });
    });
}
