//! Options that all commands share that plan a split.

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::memory::MemoryOption;
use super::selection::Selection;
use super::terminal::warn;
use crate::deflate::DeflateLevel;
use crate::disk::{Scratch, check_cache};
use crate::gpu::TargetId;
use crate::index::FrameStore;
use crate::kpack::{Compression, DEFAULT_LEVEL};
use crate::resources::WorkPolicy;
use crate::rope::Identity;
use crate::session::SplitChoices;
use crate::source::EntryPath;
use crate::split::{FileDigest, Packaging, PlanOptions, Statement};
use crate::view::MadeTime;
use crate::wheel::{self, Requirements, StatedExtras, VariantLabel, WheelError};
use crate::wheelparts::{AssemblyOptions, DosTime, WheelOptions};

/// Options of a split.
#[derive(Clone, Debug, Args)]
pub(super) struct SplitOptions {
    #[command(flatten)]
    selection: Selection,

    /// Directory that gets a .kpack directory; may be given several times [default: every top-level package of a wheel
    /// with device code, the root of an install tree]
    #[arg(long, value_name = "DIR", help_heading = "Split")]
    overlay_root: Vec<String>,

    /// First part of the archives' names [default: the name of the wheel or the binary, "rocm" for an install tree]
    #[arg(long, value_name = "NAME", alias = "artifact-prefix", help_heading = "Split")]
    group: Option<String>,

    /// An earlier name of --artifact-prefix, used if no other is given.
    #[arg(long, value_name = "NAME", hide = true)]
    component_name: Option<String>,

    /// Compression of code objects in archives: zstd or none
    #[arg(long, value_name = "SCHEME", default_value = "zstd", help_heading = "Split")]
    compression: Compression,

    /// zstd level, 1 to 22
    #[arg(long, value_name = "LEVEL", default_value_t = DEFAULT_LEVEL, value_parser = clap::value_parser!(i32).range(1..=22), help_heading = "Split")]
    compression_level: i32,

    /// Prefix of the names of device wheels [default: amd-NAME-device]
    #[arg(long, value_name = "PREFIX", help_heading = "Wheels")]
    device_package_prefix: Option<String>,

    /// Requirements of device wheels, such as "rocm-sdk-device-@GFXARCH@ == 7.1"; those with @GFXARCH@ are omitted from
    /// wheels for families
    #[arg(long, value_name = "REQUIREMENT", num_args = 1.., value_parser = requirement, help_heading = "Wheels")]
    device_requires_dist: Vec<String>,

    /// Requirements with extras for GPUs, such as "rocm[libraries,device-all]": keep them, or split them between the
    /// wheels
    #[arg(long, value_enum, default_value_t = RequirementsForm::Keep, help_heading = "Wheels")]
    requirements: RequirementsForm,

    /// With --requirements split: the extras that a required distribution has, such as rocm=libraries,device-gfx942. May
    /// be given several times [default: those that the requirement names, or unchecked device-TARGET]
    #[arg(long, value_name = "NAME=LIST", requires = "requirements", help_heading = "Wheels")]
    requirements_extras: Vec<StatedExtras>,

    /// Deflate members of wheels with this level, 1 to 9, unless INPUT is a wheel that stores them; 0 stores those that
    /// are not deflated in INPUT. A wheel that a mount deflates has no size until its members are deflated [default: 6 for
    /// split, 0 for all other commands]
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=9), help_heading = "Wheels")]
    deflate: Option<u8>,

    /// The level without --deflate.
    #[arg(skip)]
    default_level: Option<DeflateLevel>,

    /// What the command needs that can be computed in passing.
    #[arg(skip)]
    pub(super) policy: WorkPolicy,

    /// Also make a variant wheel
    #[arg(long, help_heading = "Wheels")]
    pub(super) generate_variant_wheel: bool,

    /// The label of the variant wheel
    #[arg(long, value_name = "LABEL", default_value = "variant", value_parser = VariantLabel::new, requires = "generate_variant_wheel", help_heading = "Wheels")]
    variant_label: VariantLabel,

    /// The digests in the manifests of trees and artifacts: XXH3-128, which finds damage, or SHA-256, which also finds
    /// forged files. Wheels always have SHA-256
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Digests::Xxh3, conflicts_with = "no_manifest", help_heading = "Split")]
    digests: Digests,

    /// Leave out the manifest of each part, by which verify finds what is damaged, missing or of another split
    #[arg(long, help_heading = "Split")]
    no_manifest: bool,

    #[command(flatten)]
    ignored: Ignored,

    #[command(flatten)]
    pub(super) cache: CacheOptions,

    /// Keep compressed code objects on disk, up to this size for all inputs and at most half of the free space; 0 keeps
    /// none. `split` keeps them only if this option is given [default: 4096]
    #[arg(long, value_name = "MIB", alias = "keep-frames", value_parser = clap::value_parser!(u64).range(0..=1 << 30), help_heading = "Resources")]
    frame_cache: Option<u64>,

    /// Temporary files on disk, in MiB: unpacked tar archives, and code objects until they are written [default: half of
    /// the free space]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30), help_heading = "Resources")]
    scratch: Option<u64>,

    /// Unpack tar archives to more than 1,000 times their size, as archives do that were made to fill a disk
    #[arg(long, help_heading = "Resources")]
    pub(super) allow_ratio: bool,

    #[command(flatten)]
    pub(super) memory: MemoryOption,

    /// Number of threads that plan and compress [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_JOBS), help_heading = "Resources")]
    pub(super) jobs: Option<u16>,
}

/// The form of requirements with extras for GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RequirementsForm {
    /// As in the input, in host wheels and thin wheels
    Keep,
    /// rocm[libraries] in the host wheel, rocm[device-TARGET] in each device wheel, and the extras of its GPUs in a thin
    /// wheel
    Split,
}

/// The digests in manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Digests {
    Xxh3,
    Sha256,
}

/// Options of rocm-kpack's tools without effect here. They are accepted so that callers of those tools can call this
/// one.
#[derive(Clone, Debug, Args)]
pub(super) struct Ignored {
    #[arg(long, value_name = "PATH", hide = true)]
    clang_offload_bundler: Option<PathBuf>,

    #[arg(long, value_name = "DIR", hide = true)]
    tmp_dir: Option<PathBuf>,

    #[arg(long, hide = true)]
    verbose: bool,
}

impl Ignored {
    /// Prints which of them were given on stderr.
    pub(super) fn note(&self) {
        let given = [
            ("--clang-offload-bundler", self.clang_offload_bundler.is_some()),
            ("--tmp-dir", self.tmp_dir.is_some()),
            ("--verbose", self.verbose),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).for_each(|(option, _)| note(option));
    }
}

/// Says that an option has no effect.
pub(super) fn note(option: &str) {
    eprintln!("kpackfs: note: {option} has no effect here and is ignored");
}

fn requirement(text: &str) -> Result<String, WheelError> {
    wheel::check_requirement(text).map(|()| text.to_owned())
}

/// More threads than any machine has cores would only use memory.
pub(super) const MAX_JOBS: i64 = 1024;

/// The location of indexes.
#[derive(Clone, Debug, Args)]
pub(super) struct CacheOptions {
    /// Directory of the indexes, which store results about each input [default: ~/.cache/kpackfs, or the value of the
    /// variable `KPACKFS_CACHE_DIR`]
    #[arg(long, value_name = "DIR", global = true, help_heading = "Resources")]
    cache_dir: Option<PathBuf>,

    /// Neither read nor write the cache directory
    #[arg(long, help_heading = "Resources")]
    no_cache: bool,
}

impl CacheOptions {
    /// The directory, unless other users may write to it. That is reported once.
    pub(super) fn safe_directory(&self) -> Option<PathBuf> {
        static REPORT: Once = Once::new();
        let directory = self.directory()?;
        let is_named = self.cache_dir.is_some();
        let checked = check_cache(&directory, is_named).inspect_err(|error| {
            let what = "it is not used for indexes and compressed code objects; name another one with --cache-dir";
            REPORT.call_once(|| warn(&format!("{}: {error}, so {what}", directory.display())));
        });
        checked.ok().map(|()| directory)
    }

    /// The directory; `None` if indexes are disabled, which an empty variable does, too.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        let named = self.cache_dir.clone().or_else(default_directory);
        let directory = named.filter(|directory| !directory.as_os_str().is_empty())?;
        // A daemon writes to it after changing its working directory.
        Some(std::path::absolute(&directory).unwrap_or(directory))
    }
}

/// The directory in the variable, or else the user's cache directory (XDG Base Directory Specification).
fn default_directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KPACKFS_CACHE_DIR") {
        return Some(named.into());
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let above = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    above.map(|above| above.join("kpackfs"))
}

impl SplitOptions {
    /// The options of a command that writes wheels.
    pub(super) fn of_writer(&self) -> Self {
        Self { default_level: Some(DeflateLevel::default()), ..self.clone() }
    }

    /// The options of a command that will need what this policy computes.
    pub(super) fn with_policy(&self, policy: WorkPolicy) -> Self {
        Self { policy, ..self.clone() }
    }

    /// The targets of `--gpu-targets`; none if it is not given.
    pub(super) fn wanted_gpus(&self) -> Vec<TargetId> {
        self.selection.wanted_gpus()
    }

    /// The same options without `--gpu-targets`.
    pub(super) fn for_all_targets(&self) -> Self {
        Self { selection: self.selection.for_all_targets(), ..self.clone() }
    }

    /// Prints options without effect on stderr.
    pub(super) fn note_ignored(&self) {
        self.ignored.note();
        if self.component_name.is_some() && self.group.is_some() {
            note("--component-name");
        }
    }

    /// The frame store of an input, with this cache directory.
    pub(super) fn frame_store(&self, cache: Option<&Path>, input: &Path) -> FrameStore {
        let [frames, scratch] = [self.frame_cache, self.scratch].map(|size| size.map(|size| size << 20));
        FrameStore::open(cache, input, frames).with_scratch(Scratch::new(scratch, self.allow_ratio))
    }

    /// The options of wheels. Their files have the time of `SOURCE_DATE_EPOCH`, if it is set (reproducible-builds.org).
    pub(super) fn to_wheel_options(&self) -> anyhow::Result<WheelOptions> {
        let stamp = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(seconds) if !seconds.is_empty() => {
                let expected = || format!("SOURCE_DATE_EPOCH={seconds:?}: a number of seconds since 1970 is expected");
                DosTime::of(seconds.parse().with_context(expected)?)
            }
            _ => DosTime::default(),
        };
        let statement = Statement::of(&self.to_options(Packaging::Bundles)?);
        let options = WheelOptions {
            names: AssemblyOptions {
                device_prefix: self.device_package_prefix.clone(),
                device_requires: self.device_requires_dist.clone(),
                requirements: match self.requirements {
                    RequirementsForm::Keep => Requirements::Keep,
                    RequirementsForm::Split => Requirements::Split(self.requirements_extras.iter().cloned().collect()),
                },
                deflate: self.deflate.map_or(self.default_level, DeflateLevel::new),
            },
            variant: self.generate_variant_wheel.then(|| self.variant_label.clone()),
            statement,
            has_manifests: !self.no_manifest,
            has_local_versions: false,
            stamp,
            identity: None,
        };
        Ok(WheelOptions { identity: Some(self.identity(&options)?), ..options })
    }

    /// All choices about a split.
    pub(super) fn choices(&self) -> anyhow::Result<SplitChoices> {
        Ok(SplitChoices {
            plan: self.to_options(Packaging::Bundles)?,
            wheels: self.to_wheel_options()?,
            made: self.made_time()?,
        })
    }

    /// What the time of made files depends on, without the input.
    pub(super) fn made_time(&self) -> anyhow::Result<MadeTime> {
        Ok(MadeTime::of_options(&self.identity(&self.to_wheel_options()?)?))
    }

    /// Identifies all options that change bytes, and the program's version.
    fn identity(&self, wheels: &WheelOptions) -> anyhow::Result<Identity> {
        let text = format!("{} {wheels:?} {:?}", env!("CARGO_PKG_VERSION"), self.to_options(Packaging::Bundles)?);
        Ok(Identity::describe("options of wheels").add(text.as_bytes()).finish())
    }

    /// The options of planning.
    pub(super) fn to_options(&self, packaging: Packaging) -> anyhow::Result<PlanOptions> {
        let root = |name: &String| match name.trim_matches('/') {
            "" | "." => Ok(EntryPath::root()),
            name => EntryPath::new(name.as_bytes()).with_context(|| format!("--overlay-root {name}")),
        };
        let roots = self.overlay_root.iter().map(root).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(PlanOptions {
            databases: self.selection.databases()?,
            gpu_targets: self.selection.gpu_targets(packaging),
            exclude_targets: self.selection.exclude_targets(packaging),
            packaging,
            overlay_roots: (!roots.is_empty()).then_some(roots),
            group: self.group.clone().or_else(|| self.component_name.clone()),
            compression: match self.compression {
                Compression::None => Compression::None,
                Compression::Zstd(_) => Compression::Zstd(self.compression_level),
            },
            manifests: (!self.no_manifest).then_some(match self.digests {
                Digests::Xxh3 => FileDigest::Xxh3,
                Digests::Sha256 => FileDigest::Sha256,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::MAX_JOBS;
    use crate::cli::Cli;

    #[test]
    fn numbers_that_would_take_the_whole_machine_are_refused() {
        for (option, least, most) in [("--jobs", 1, MAX_JOBS), ("--memory", 16, 1 << 20)] {
            for (number, is_taken) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
                let number = number.to_string();
                let cli = Cli::try_parse_from(["kpackfs", "split", "a.whl", "--output", "out", option, &number]);
                assert_eq!(cli.is_ok(), is_taken, "{option} {number}");
            }
        }
    }
}
