//! `kpackfs split`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use super::options::SplitOptions;
use super::prepare::prepare;
use super::progress::show_bytes;
use crate::export::{self, Progress};
use crate::source::EntryPath;
use crate::split::Plan;
use crate::view::{self, HOST, ROOT, WHEELS};

/// Write the host part and the device parts to a disk
#[derive(Debug, Args)]
pub(super) struct Split {
    #[command(flatten)]
    options: SplitOptions,

    /// Directory to write to; it is made, or must be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Directory)]
    format: Format,

    /// Write this view only, such as host, gfx942 or merged/gfx942; may be given several times [default: host and every
    /// device part]
    #[arg(long, value_name = "VIEW")]
    view: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A directory for each part
    Directory,
    /// A .whl file for each part of a wheel
    Wheel,
}

impl Split {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let prepared = prepare(&self.options)?;
        let tree = view::lay_out(&prepared.input, &prepared.plan, prepared.wheels.as_ref(), &[], Vec::new())?;
        let views = match self.format {
            Format::Directory => self.directories(&prepared.plan)?,
            Format::Wheel if prepared.wheels.is_none() => {
                bail!("{}: wheels can be made of a wheel only", self.options.input.display());
            }
            Format::Wheel if prepared.plan.keys.is_empty() => {
                let input = self.options.input.display();
                bail!("{input}: it has neither device code nor kernel databases, so there is nothing to split");
            }
            Format::Wheel => vec![(EntryPath::root().child(WHEELS.as_bytes()), self.output.clone())],
        };
        self.prepare_output()?;
        let archives: BTreeMap<_, _> = prepared
            .plan
            .archives
            .iter()
            .filter_map(|planned| {
                let part = tree.lookup(ROOT, planned.key.as_str().as_bytes())?;
                Some((tree.resolve(part, &planned.path)?, Arc::clone(&planned.archive)))
            })
            .collect();
        let progress = Progress::default();
        if let (Format::Wheel, Some(wheels)) = (self.format, &prepared.wheels) {
            let archives: Vec<_> = prepared.plan.archives.iter().map(|planned| &*planned.archive).collect();
            let total = archives.iter().map(|archive| archive.original_size()).sum::<u64>();
            show_bytes("Compressing", &progress.done, &AtomicU64::new(total), || {
                wheels.make(&archives, &progress.done)
            })?;
        }
        let progress = Progress::default();
        show_bytes("Writing", &progress.done, &progress.total, || export::write(&tree, &views, &archives, &progress))?;
        Ok(ExitCode::SUCCESS)
    }

    fn directories(&self, plan: &Plan) -> anyhow::Result<Vec<(EntryPath, PathBuf)>> {
        let views: Vec<_> = if self.view.is_empty() {
            let keys = plan.keys.iter().map(|key| EntryPath::root().child(key.as_str().as_bytes()));
            std::iter::once(EntryPath::root().child(HOST.as_bytes())).chain(keys).collect()
        } else {
            let parse = |name: &String| EntryPath::new(name.trim_matches('/').as_bytes());
            self.view.iter().map(parse).collect::<Result<_, _>>().context("--view")?
        };
        let place = |view: EntryPath| {
            let path = self.output.join(view.as_path());
            (view, path)
        };
        Ok(views.into_iter().map(place).collect())
    }

    fn prepare_output(&self) -> anyhow::Result<()> {
        let output = self.output.display();
        std::fs::create_dir_all(&self.output).with_context(|| format!("{output}"))?;
        if std::fs::read_dir(&self.output).with_context(|| format!("{output}"))?.next().is_some() {
            bail!("{output}: the directory is not empty; name one that is, or a new one");
        }
        Ok(())
    }
}
