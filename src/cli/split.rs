//! `kpackfs split`.

mod checks;
mod index;
mod said;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::artifacts::artifacts;
use super::confinement::Opens;
use super::image_output::{ImageOptions, ImageOutput};
use super::input::InputOptions;
use super::interrupt;
use super::limits::{LimitOptions, parts_of, wheels_of};
use super::options::{SplitOptions, VariantOptions};
use super::output_format::OutputFormat;
use super::output_name::directory_or_bucket;
use super::prepare::{CommandSession, check_claims, place_of, save_index};
use super::said::{SaidOptions, WrittenOutput};
use super::split_views::directories;
use super::split_warnings::{is_part, names, warn_of_fat, warn_of_others, warn_of_use};
use super::terminal::{note, warn};
use super::thin_wheels::{Versions, keys_of, thin_wheels, warn_of_signatures};
use super::writing::{OutputTarget, ViewsToPublish, WorkBefore, Writing, archives_in, clear_set_id};
use crate::bucket::credential_files;
use crate::export::{Inputs, StatementChange};
use crate::kpack::{make_archives, unmade_size};
use crate::metrics::Progress;
use crate::report::PartChoice;
use crate::resources::WorkPolicy;
use crate::rope::ReadError;
use crate::session::Prepared;
use crate::source::{Attributes, EntryPath};
use crate::split::Statement;
use crate::tree::{ROOT, Tree};
use crate::view::{self, FAT, FAT_WHEEL, HOST, MERGED, THIN, WHEELS};
use crate::wheelparts::{SplitWheel, WheelPart, WheelSet};

/// Write the host part and the device parts to a disk
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs split torch.whl --format wheel --gpu-targets gfx942 -o dist")]
pub(super) struct Split {
    #[command(flatten)]
    source: InputOptions,

    /// Directory to write to; it may have other files
    ///
    /// An index can also be published in a bucket, `s3://BUCKET/PREFIX` (docs/package-index.md).
    #[arg(short, long, value_name = "DIR", value_parser = directory_or_bucket(), alias = "output-dir", required_unless_present = "add_to")]
    output: Option<PathBuf>,

    /// Replace what has the names of the output
    ///
    /// With --format directory and without --view, all parts of an earlier split in DIR are replaced, too.
    #[arg(long)]
    force: bool,

    /// Format
    #[arg(long, value_enum, default_value_t = OutputFormat::Directory, hide_default_value = true, alias = "output-format")]
    format: OutputFormat,

    /// Write only this view, such as host, gfx942 or thin/gfx942
    ///
    /// It may be given several times. The default is host and every device part, or every GPU with --format
    /// thin-wheel, where views are named gfx942 or gfx1100+gfx1036. With --format wheel, the view fat is the wheel
    /// from which a host wheel and its device wheels were made.
    #[arg(long, value_name = "VIEW")]
    view: Vec<String>,

    #[command(flatten)]
    options: SplitOptions,

    #[command(flatten)]
    variant: VariantOptions,

    #[command(flatten)]
    versions: Versions,

    #[command(flatten)]
    images: ImageOptions,

    #[command(flatten)]
    limits: LimitOptions,

    /// Keep set-user-ID and set-group-ID bits of an install tree
    ///
    /// A warning names the option.
    #[arg(long, hide = true)]
    keep_set_id: bool,

    #[command(flatten)]
    writing: Writing,

    #[command(flatten)]
    said: SaidOptions,

    /// Publish by http, not only by https
    ///
    /// Others on the way can read and change what http carries. An error names the option.
    #[arg(long, hide = true)]
    allow_http: bool,
}

/// Where the pieces of an output are.
type OutputPlaces = Vec<PathBuf>;

/// What is written.
#[derive(Clone, Copy)]
struct SplitWork<'a> {
    prepared: &'a Prepared,
    tree: &'a Tree,
    /// What is stated about it next to it. Wheels contain their statement.
    stated: &'a [StatementChange],
    to: OutputTarget<'a>,
}

impl Split {
    /// Where it writes to, unless images are added to a layout.
    fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(""))
    }

    pub(super) fn opens(&self) -> Opens {
        if self.is_to_bucket() {
            let opens = Opens::inputs(self.source.places()).server(&credential_files());
            return if self.options.resources.keeps_frames() { self.options.resources.opens(opens) } else { opens };
        }
        let opens = self.options.resources.opens(Opens::inputs(self.source.places()));
        let output = self.images.add_to.as_deref().or(self.output.as_deref());
        let opens = output.into_iter().fold(opens, Opens::directory);
        match self.format {
            OutputFormat::Oci if self.writing.may_link() => opens.linked(&place_of(self.source.path())),
            _ => opens,
        }
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.check_usage()?;
        interrupt::watch()?;
        let named = self.source.named()?;
        let inputs = &Inputs::of(&named);
        let mut directories = self.output.iter().filter(|_| !self.is_to_bucket());
        directories.try_for_each(|output| inputs.check_outside(output))?;
        // Comparing with RECORD would cost several times as much as making a thin wheel.
        let is_compared = !matches!(self.format, OutputFormat::ThinWheel);
        let policy =
            WorkPolicy { hash_members: is_compared, hash_spliced: true, check_bundles: true, ..WorkPolicy::default() };
        let options =
            SplitOptions { variant: self.variant.label().cloned(), policy, ..self.options.clone() }.of_writer();
        let (directory, force, writing, limits) = (self.output(), self.force, self.writing, self.limits);
        let to = OutputTarget { directory, force, inputs, writing, limits };
        if let OutputFormat::Oci = self.format {
            let (options, split, input, said) = (&self.images, &options, self.source.path(), self.said);
            let images = ImageOutput { options, split, input, to, said };
            let written = images.write(&named)?;
            return self.said.say(&written).map(|()| ExitCode::SUCCESS);
        }
        if let OutputFormat::Index = self.format {
            return self.write_index(&named, to, &options);
        }
        if let Some(mut artifacts) = artifacts(&self.source, &named, &options)? {
            return match self.format {
                OutputFormat::Directory => {
                    artifacts.choose(&self.view)?;
                    let written = artifacts.parts.write(to, self.keep_set_id)?;
                    self.say(&written, false, artifacts.not_split(self.said))?;
                    artifacts.check_all().map(|()| ExitCode::SUCCESS)
                }
                OutputFormat::Wheel | OutputFormat::ThinWheel | OutputFormat::Index | OutputFormat::Oci => {
                    bail!("{}: wheels can be made of a wheel only", self.source.path().display())
                }
            };
        }
        let archives_to = (self.view.is_empty() && self.format.has_archives()).then(|| self.output());
        let session = CommandSession::new(&named, &options)?.with_output(archives_to);
        let mut prepared = session.session().open_together(&named)?;
        if let Some(wheels) = &mut prepared.wheels {
            wheels.has_local_versions = self.versions.local_version;
        }
        self.check(&prepared)?;
        let is_whole = |view: &String| [FAT, THIN].iter().any(|name| view.trim_start_matches('/').starts_with(name));
        let has_archives = is_compared && (self.view.is_empty() || !self.view.iter().all(is_whole));
        warn_of_use(&prepared, has_archives);
        if is_compared {
            check_claims(&prepared)?;
        }
        let mut tree = view::lay_out(&prepared.input, &prepared.plan, prepared.wheels.as_ref(), &[])?;
        if !self.keep_set_id {
            clear_set_id(&mut tree);
        }
        let places = self.write(SplitWork { prepared: &prepared, tree: &tree, stated: &[], to })?;
        save_index(&prepared.resources);
        let not_split = self.said.not_split([(&prepared.input, &prepared.plan)], &prepared.resources);
        self.say(&places, prepared.plan.joined.is_empty(), not_split)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the output in its format.
    fn write(&self, work: SplitWork<'_>) -> anyhow::Result<OutputPlaces> {
        let prepared = work.prepared;
        let views = directories(&self.view, self.output(), &prepared.plan)?;
        let stated = match self.format {
            OutputFormat::Directory => vec![self.stated(prepared, &views)?],
            OutputFormat::Wheel | OutputFormat::ThinWheel | OutputFormat::Index | OutputFormat::Oci => Vec::new(),
        };
        let work = SplitWork { stated: &stated, ..work };
        let places = match (self.format, &prepared.wheels) {
            (OutputFormat::Directory, Some(wheels)) if self.view.is_empty() => {
                let place = |part: &WheelPart| {
                    let name = match &part.part {
                        SplitWheel::Host => HOST,
                        SplitWheel::Device(key) => key.as_str(),
                        SplitWheel::Variant(_) | SplitWheel::Fat | SplitWheel::Thin { .. } => return Ok(None),
                    };
                    Ok(Some((EntryPath::root().child(name.as_bytes()), self.output().join(name))))
                };
                self.write_parts(wheels, work, Vec::new(), place)?
            }
            (OutputFormat::Directory, _) => self.write_directories(work, &views)?,
            (OutputFormat::Wheel, Some(wheels)) if !self.view.is_empty() => self.write_fat_wheel(wheels, work)?,
            (OutputFormat::Wheel, Some(wheels)) => self.write_wheels(wheels, work)?,
            (OutputFormat::Wheel, None) if prepared.plan.keeps_wheels && self.view.is_empty() => {
                self.copy_wheels(work)?
            }
            (OutputFormat::ThinWheel, Some(wheels)) => self.write_thin_wheels(wheels, work)?,
            (OutputFormat::Wheel | OutputFormat::ThinWheel, None) | (OutputFormat::Index | OutputFormat::Oci, _) => {
                bail!(
                    "{}: wheels can be made of a wheel only, or of a host wheel and device wheels that its extras require; \
                     --format index takes any wheels",
                    self.source.path().display()
                );
            }
        };
        warn_of_signatures(&prepared.input);
        if !stated.is_empty() && self.view.is_empty() {
            warn_of_others(self.output(), &views);
        }
        Ok(places)
    }

    /// The statement for the output directory.
    fn stated(&self, prepared: &Prepared, views: &[(EntryPath, PathBuf)]) -> anyhow::Result<StatementChange> {
        let parts: Vec<_> = views.iter().map(|(view, _)| view.to_string()).collect();
        let without_code = view::views_without_code(&prepared.plan).filter(|name| parts.contains(name)).collect();
        let split_id = Some(prepared.split_id.text()?);
        let stated = Statement::of(&prepared.plan.options).with_views(&self.view);
        let statement = Statement { split_id, without_code, parts, ..stated };
        let mut manifests = prepared.manifests();
        manifests.retain(|(part, _)| views.iter().any(|(view, _)| view.as_bytes() == part.as_bytes()));
        let change = StatementChange::new(self.output(), statement, is_part, warn)?;
        Ok(change.with_manifests(self.output(), manifests, views.iter().map(|(view, _)| view)))
    }

    fn write_directories(&self, work: SplitWork<'_>, views: &[(EntryPath, PathBuf)]) -> anyhow::Result<OutputPlaces> {
        let SplitWork { prepared, tree, .. } = work;
        if let Some((view, _)) = views.iter().find(|(view, _)| tree.resolve(ROOT, view).is_none()) {
            bail!(
                "--view {view}: there is no such view; there are {}, and those in {MERGED}/ and {THIN}/",
                names(tree)
            );
        }
        if views.iter().any(|(view, _)| view.components().next() == Some(THIN.as_bytes())) {
            warn_of_fat(&prepared.plan);
        }
        let archives = archives_in(&prepared.plan, tree, views);
        let make = |progress: &Progress| make_archives(&archives, &progress.done);
        self.write_views(views, work, WorkBefore { bytes: unmade_size(&archives), make })
    }

    /// Writes views of a tree and their statement, unless one of them is too large.
    fn write_views(
        &self,
        views: &[(EntryPath, PathBuf)],
        SplitWork { prepared, tree, stated, to }: SplitWork<'_>,
        before: WorkBefore<impl FnOnce(&Progress) -> Result<(), ReadError> + Send>,
    ) -> anyhow::Result<OutputPlaces> {
        let is_whole = self.view.is_empty();
        let choice = if is_whole { PartChoice::Gpus } else { PartChoice::Views };
        let are_wheels = is_whole && matches!(self.format, OutputFormat::Wheel);
        let parts = || if are_wheels { wheels_of(prepared) } else { Ok(parts_of(tree, views)) };
        let to_publish = ViewsToPublish { tree, views, stated, ours: Vec::new(), choice };
        to.publish_views(to_publish, before, parts, &prepared.resources)
    }

    /// Writes files of a tree that need no archive.
    fn write_files(&self, views: &[(EntryPath, PathBuf)], work: SplitWork<'_>) -> anyhow::Result<OutputPlaces> {
        self.write_views(views, work, WorkBefore { bytes: 0, make: |_: &_| Ok(()) })
    }

    fn write_wheels(&self, wheels: &WheelSet, work: SplitWork<'_>) -> anyhow::Result<OutputPlaces> {
        let index: Vec<_> = wheels.variants_index.iter().map(|(name, _)| self.wheel_place(name)).collect();
        if !index.is_empty() {
            note(
                "no released installer chooses AMD GPUs by a variant wheel; those that cannot read it take the host wheel next to it, \
                 which has no kernels",
            );
        }
        self.write_parts(wheels, work, index, |part| Ok(Some(self.wheel_place(&part.file_name()?))))
    }

    /// Writes the wheels of the input as they are.
    fn copy_wheels(&self, work: SplitWork<'_>) -> anyhow::Result<OutputPlaces> {
        let prepared = work.prepared;
        let (wheels, root) = (prepared.listed()?, prepared.input.root);
        let mut tree = Tree::new(Attributes { mode: 0o755, ..root });
        view::show_all_wheels(&mut tree, root, &wheels)?;
        let views: Vec<_> = wheels.iter().map(|wheel| self.wheel_place(&wheel.file_name())).collect();
        self.write_files(&views, SplitWork { tree: &tree, ..work })
    }

    /// Where a wheel is in the tree, and where it is written.
    fn wheel_place(&self, name: &str) -> (EntryPath, PathBuf) {
        let place = EntryPath::root().child(WHEELS.as_bytes()).child(name.as_bytes());
        (place, self.output().join(name))
    }

    /// Writes the wheel as it was before it was split.
    fn write_fat_wheel(&self, wheels: &WheelSet, work: SplitWork<'_>) -> anyhow::Result<OutputPlaces> {
        let Some(fat) = &wheels.fat else {
            bail!("--view {FAT}: {} is not split, so it is this wheel", self.source.path().display());
        };
        let name = fat.file_name()?;
        let place = EntryPath::root().child(FAT_WHEEL.as_bytes()).child(name.as_bytes());
        self.write_files(&[(place, self.output().join(name))], work)
    }

    fn write_thin_wheels(&self, wheels: &WheelSet, work: SplitWork<'_>) -> anyhow::Result<OutputPlaces> {
        let SplitWork { prepared, tree, .. } = work;
        let views = thin_wheels(tree, wheels, &self.view, self.output())?;
        // Members are copied in their compressed form, which shows no damage.
        let keys = keys_of(&views);
        prepared.check_members(|key| keys.contains(key))?;
        warn_of_fat(&prepared.plan);
        self.write_files(&views, work)
    }

    /// Writes the parts of a wheel, and `others`. `place` returns the node of a part in the tree, and the path to write
    /// it to.
    fn write_parts(
        &self,
        wheels: &WheelSet,
        work: SplitWork<'_>,
        others: Vec<(EntryPath, PathBuf)>,
        place: impl Fn(&WheelPart) -> anyhow::Result<Option<(EntryPath, PathBuf)>>,
    ) -> anyhow::Result<OutputPlaces> {
        let parts: Vec<_> = wheels.hosts.iter().chain(wheels.devices.values()).cloned().collect();
        let views = parts.iter().filter_map(|part| place(part).transpose()).chain(others.into_iter().map(Ok));
        let views = views.collect::<anyhow::Result<Vec<_>>>()?;
        let as_wheels = matches!(self.format, OutputFormat::Wheel);
        let make = |progress: &Progress| WheelSet::make(&parts, as_wheels, progress);
        self.write_views(&views, work, WorkBefore { bytes: WheelSet::unmade_size(&parts, as_wheels), make })
    }
}
