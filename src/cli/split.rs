//! `kpackfs split`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use super::options::{Source, SplitOptions};
use super::prepare::prepare;
use super::progress::show_bytes;
use crate::export::{self, Progress};
use crate::index::Resources;
use crate::kpack::Archive;
use crate::source::EntryPath;
use crate::split::Plan;
use crate::view::{self, HOST, ROOT, Tree, WHEELS, WheelPart, WheelSet};
use crate::wheel::Part;

/// Write the host part and the device parts to a disk
#[derive(Debug, Args)]
pub(super) struct Split {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    options: SplitOptions,

    /// Directory to write to; it is made, or must be empty
    #[arg(short, long, value_name = "DIR", alias = "output-dir")]
    output: PathBuf,

    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Directory, alias = "output-format")]
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
        if let Some(artifacts) = self.source.artifacts(&self.options)? {
            return match self.format {
                Format::Directory => artifacts.write(&self.view, &self.output),
                Format::Wheel => bail!("{}: wheels can be made of a wheel only", self.source.path().display()),
            };
        }
        let prepared = prepare(self.source.path(), &self.options)?;
        let tree = view::lay_out(&prepared.input, &prepared.plan, prepared.wheels.as_ref(), &[], Vec::new())?;
        match (self.format, &prepared.wheels) {
            (Format::Directory, Some(wheels)) if self.view.is_empty() => {
                let place = |part: &WheelPart| {
                    let name = match part.part() {
                        Part::Host => HOST,
                        Part::Device(key) => key.as_str(),
                        Part::Variant(_) => return Ok(None),
                    };
                    Ok(Some((EntryPath::root().child(name.as_bytes()), self.output.join(name))))
                };
                self.write_parts(wheels, &prepared.resources, &tree, place)?;
            }
            (Format::Directory, _) => self.write_directories(&prepared.plan, &tree)?,
            (Format::Wheel, _) if !self.view.is_empty() => {
                bail!("--view chooses directories; it cannot choose wheels");
            }
            (Format::Wheel, Some(wheels)) if !prepared.plan.keys.is_empty() => {
                self.write_wheels(wheels, &prepared.resources, &tree)?;
            }
            (Format::Wheel, Some(_)) => {
                let input = self.source.path().display();
                bail!("{input}: it has neither device code nor kernel databases, so there is nothing to split");
            }
            (Format::Wheel, None) => {
                bail!("{}: wheels can be made of a wheel only", self.source.path().display());
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write_directories(&self, plan: &Plan, tree: &Tree) -> anyhow::Result<()> {
        let views = self.directories(plan)?;
        let archives: BTreeMap<_, _> = plan
            .archives
            .iter()
            .filter_map(|planned| {
                let part = tree.lookup(ROOT, planned.key.as_str().as_bytes())?;
                Some((tree.resolve(part, &planned.path)?, Arc::clone(&planned.archive)))
            })
            .collect();
        prepare_output(&self.output)?;
        let progress = Progress::default();
        show_bytes("Writing", &progress.done, &progress.total, || export::write(tree, &views, &archives, &progress))?;
        Ok(())
    }

    fn write_wheels(&self, wheels: &WheelSet, resources: &Resources, tree: &Tree) -> anyhow::Result<()> {
        let place =
            |name: &str| (EntryPath::root().child(WHEELS.as_bytes()).child(name.as_bytes()), self.output.join(name));
        self.write_parts(wheels, resources, tree, |part| Ok(Some(place(&part.file_name()?))))?;
        let index: Vec<_> = wheels.variants_index.iter().map(|(name, _)| place(name)).collect();
        Ok(export::write(tree, &index, &BTreeMap::new(), &Progress::default())?)
    }

    /// Writes the parts of a wheel in groups whose archives can be kept between the pass that learns their sizes and
    /// digests, which RECORD needs, and the one that writes them. `place` tells which node of the tree shows a part, and
    /// where to write it.
    fn write_parts(
        &self,
        wheels: &WheelSet,
        resources: &Resources,
        tree: &Tree,
        place: impl Fn(&WheelPart) -> anyhow::Result<Option<(EntryPath, PathBuf)>> + Sync,
    ) -> anyhow::Result<()> {
        prepare_output(&self.output)?;
        let all = wheels.groups(resources.frames.capacity());
        let sizes = all.iter().flatten().flat_map(|part| part.archives()).map(Archive::original_size);
        let progress = Progress { total: sizes.sum::<u64>().into(), ..Progress::default() };
        show_bytes("Writing", &progress.done, &progress.total, || -> anyhow::Result<()> {
            for group in &all {
                WheelSet::make(group, &progress.done)?;
                let places = group.iter().filter_map(|part| place(part).transpose());
                let views = places.collect::<anyhow::Result<Vec<_>>>()?;
                export::write(tree, &views, &BTreeMap::new(), &Progress::default())?;
            }
            Ok(())
        })
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
}

/// Makes the directory for the output.
pub(super) fn prepare_output(output: &Path) -> anyhow::Result<()> {
    let name = output.display();
    std::fs::create_dir_all(output).with_context(|| format!("{name}"))?;
    if std::fs::read_dir(output).with_context(|| format!("{name}"))?.next().is_some() {
        bail!("{name}: the directory is not empty; name one that is, or a new one");
    }
    Ok(())
}
