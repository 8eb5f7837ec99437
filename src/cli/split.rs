//! `kpackfs split`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, bail};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

use super::interrupt;
use super::options::{Source, SplitOptions};
use super::output::Output;
use super::prepare::{Prepared, keep_learnt, prepare};
use super::progress::show_bytes;
use crate::export::{self, Progress};
use crate::kpack::{Archive, make_archives, unmade_size};
use crate::source::EntryPath;
use crate::split::{Packaging, Plan, STATEMENT};
use crate::view::{self, HOST, MERGED, REPORTS, ROOT, Tree, WHEELS, WheelPart, WheelSet};
use crate::wheel::Part;

/// Write the host part and the device parts to a disk
#[derive(Debug, Args)]
pub(super) struct Split {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    options: SplitOptions,

    /// Directory to write to; it may hold other things
    #[arg(short, long, value_name = "DIR", alias = "output-dir")]
    output: PathBuf,

    /// Replace files and directories in DIR that have the names of what is written
    #[arg(long)]
    force: bool,

    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Directory, alias = "output-format")]
    format: Format,

    /// Write this view only, such as host, gfx942 or merged/gfx942; may be given several times [default: host and every
    /// device part]
    #[arg(long, value_name = "VIEW")]
    view: Vec<String>,

    /// Keep set-user-ID and set-group-ID bits of an install tree
    #[arg(long)]
    keep_set_id: bool,
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
        self.check_usage()?;
        interrupt::watch()?;
        if let Some(artifacts) = self.source.artifacts(&self.options)? {
            return match self.format {
                Format::Directory => artifacts.write(&self.view, &self.output, self.keep_set_id, self.force),
                Format::Wheel => bail!("{}: wheels can be made of a wheel only", self.source.path().display()),
            };
        }
        let prepared = prepare(self.source.path(), &self.options)?;
        self.check(&prepared)?;
        let mut tree = view::lay_out(&prepared.input, &prepared.plan, prepared.wheels.as_ref(), &[], Vec::new())?;
        if !self.keep_set_id {
            clear_set_id(&mut tree);
        }
        match (self.format, &prepared.wheels) {
            (Format::Directory, Some(wheels)) if self.view.is_empty() => {
                let place = |part: &WheelPart| {
                    let name = match part.part() {
                        Part::Host => HOST,
                        Part::Device(key) => key.as_str(),
                        Part::Variant(_) | Part::Thin { .. } => return Ok(None),
                    };
                    Ok(Some((EntryPath::root().child(name.as_bytes()), self.output.join(name))))
                };
                self.write_parts(wheels, &prepared, &tree, Vec::new(), place)?;
            }
            (Format::Directory, _) => self.write_directories(&prepared, &tree)?,
            (Format::Wheel, Some(wheels)) => self.write_wheels(wheels, &prepared, &tree)?,
            (Format::Wheel, None) => {
                bail!("{}: wheels can be made of a wheel only", self.source.path().display());
            }
        }
        keep_learnt(&prepared.resources);
        Ok(ExitCode::SUCCESS)
    }

    /// Writes what the split is restricted to, for `verify`. Wheels say so themselves.
    fn write_statement(&self, prepared: &Prepared, output: &mut Output) -> anyhow::Result<()> {
        // Views without the host part are no split that could lack something.
        let has_host = self.view.iter().any(|view| view.trim_matches('/') == HOST);
        let views = if has_host { &*self.view } else { &[] };
        let file = self.output.join(REPORTS).join(STATEMENT);
        match prepared.statement.clone().with_views(views).to_json() {
            Some(text) => output.write_file(&file, &text)?,
            // What is there is about the host part that is replaced.
            None if has_host || self.view.is_empty() => output.outdate(file),
            None => {}
        }
        Ok(())
    }

    /// Refuses options that would do nothing with this format.
    fn check_usage(&self) -> Result<(), clap::Error> {
        let of_wheels = || self.view.iter().any(|view| view.trim_start_matches('/').starts_with(WHEELS));
        let problem = match self.format {
            Format::Wheel if !self.view.is_empty() => "--view chooses directories; it cannot choose wheels",
            Format::Directory if self.options.generate_variant_wheel && !of_wheels() => {
                "--generate-variant-wheel makes a wheel; it needs --format wheel"
            }
            Format::Wheel | Format::Directory => return Ok(()),
        };
        Err(clap::Error::raw(ErrorKind::ArgumentConflict, format!("{problem}\n")))
    }

    /// Whether there is something to do.
    fn check(&self, prepared: &Prepared) -> anyhow::Result<()> {
        let (input, plan) = (self.source.path().display(), &prepared.plan);
        if matches!(self.format, Format::Wheel) && prepared.wheels.as_ref().is_some_and(|wheels| wheels.has_symlinks) {
            bail!(
                "{input}: wheels cannot hold its symlinks; put copies in their place, or remove those that the warnings name"
            );
        }
        if !plan.keys.is_empty() {
            return Ok(());
        }
        if !plan.unsplit.is_empty() {
            return match self.format {
                // What a host part is like whose binaries stayed fat is for `verify` to tell.
                Format::Directory => Ok(()),
                Format::Wheel => bail!("{input}: none of its fat binaries can be split; the warnings say why"),
            };
        }
        if plan.keys_of_input(Packaging::Bundles).is_empty() {
            bail!("{input}: it has neither device code nor kernel databases, so there is nothing to split");
        }
        bail!("{input}: --gpu-targets and --exclude-targets leave nothing of it, so there is nothing to split");
    }

    fn write_directories(&self, prepared: &Prepared, tree: &Tree) -> anyhow::Result<()> {
        let views = self.directories(&prepared.plan)?;
        if let Some((view, _)) = views.iter().find(|(view, _)| tree.resolve(ROOT, view).is_none()) {
            bail!("--view {view}: there is no such view; there are {}, and what is in {MERGED}/", names(tree));
        }
        let places: Vec<_> = views.iter().map(|(_, place)| place.clone()).collect();
        let mut output = self.prepare_output(&places, prepared)?;
        let roots: Vec<_> = views.iter().filter_map(|(view, _)| tree.resolve(ROOT, view)).collect();
        let archives = prepared.plan.archives.iter();
        let archives = archives.filter(|planned| roots.iter().any(|&root| tree.resolve(root, &planned.path).is_some()));
        let archives: Vec<_> = archives.map(|planned| &*planned.archive).collect();
        write_with_archives(tree, &output.views(&views), &archives)?;
        self.write_statement(prepared, &mut output)?;
        output.publish()
    }

    fn prepare_output(&self, places: &[PathBuf], prepared: &Prepared) -> anyhow::Result<Output> {
        Output::prepare(&self.output, places, self.force, self.source.path(), &prepared.resources)
    }

    fn write_wheels(&self, wheels: &WheelSet, prepared: &Prepared, tree: &Tree) -> anyhow::Result<()> {
        let place =
            |name: &str| (EntryPath::root().child(WHEELS.as_bytes()).child(name.as_bytes()), self.output.join(name));
        let index: Vec<_> = wheels.variants_index.iter().map(|(name, _)| place(name)).collect();
        self.write_parts(wheels, prepared, tree, index, |part| Ok(Some(place(&part.file_name()?))))
    }

    /// Writes the parts of a wheel, and `others`. `place` says which node of the tree shows a part, and where to write it.
    fn write_parts(
        &self,
        wheels: &WheelSet,
        prepared: &Prepared,
        tree: &Tree,
        others: Vec<(EntryPath, PathBuf)>,
        place: impl Fn(&WheelPart) -> anyhow::Result<Option<(EntryPath, PathBuf)>>,
    ) -> anyhow::Result<()> {
        let parts: Vec<_> = wheels.hosts.iter().chain(wheels.devices.values()).cloned().collect();
        let views = parts.iter().filter_map(|part| place(part).transpose()).chain(others.into_iter().map(Ok));
        let views = views.collect::<anyhow::Result<Vec<_>>>()?;
        let places: Vec<_> = views.iter().map(|(_, place)| place.clone()).collect();
        let mut output = self.prepare_output(&places, prepared)?;
        let archives: Vec<&Archive> = parts.iter().flat_map(|part| part.archives()).collect();
        let progress = Progress { total: unmade_size(&archives).into(), ..Progress::default() };
        show_bytes("Writing", &progress.done, &progress.total, || -> anyhow::Result<()> {
            WheelSet::make(&parts, &progress.done)?;
            wheels.check_claims(false, &AtomicU64::new(0));
            Ok(export::write(tree, &output.views(&views), &progress)?)
        })?;
        if let Format::Directory = self.format {
            self.write_statement(prepared, &mut output)?;
        }
        output.publish()
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

/// Clears set-ID bits, and names on stderr what had some: a copy would run with the rights of the user who makes it.
pub(super) fn clear_set_id(tree: &mut Tree) {
    if let [first, rest @ ..] = &*tree.clear_set_id() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        eprintln!("kpackfs: warning: {first:?}{more}: the set-ID bits are left out; --keep-set-id keeps them");
    }
}

/// The directories that a mount would show.
fn names(tree: &Tree) -> String {
    let children = tree.children(ROOT).into_iter().flatten().filter(|child| !child.hidden);
    children.map(|child| String::from_utf8_lossy(child.name)).collect::<Vec<_>>().join(", ")
}

/// Makes the archives that are in these views, all of them together, and writes the views.
pub(super) fn write_with_archives(
    tree: &Tree,
    views: &[(EntryPath, PathBuf)],
    archives: &[&Archive],
) -> anyhow::Result<()> {
    let progress = Progress { total: unmade_size(archives).into(), ..Progress::default() };
    show_bytes("Writing", &progress.done, &progress.total, || {
        make_archives(archives, &progress.done)?;
        Ok(export::write(tree, views, &progress)?)
    })
}
