//! Options by what they are about. A command has those that do something there.

mod archives;
mod ignored;
mod partial;
mod resources;
mod targets;
mod wheels;

pub(super) use archives::{ArchiveNames, CompressionOptions, ManifestOptions};
pub(super) use ignored::{Ignored, note};
pub(super) use partial::{DiffOptions, InspectOptions, RecombineOptions, ViewOptions};
pub(super) use resources::{CachePlace, ResourceOptions, ThreadOptions};
pub(super) use targets::{DatabaseOptions, TargetOptions, WantedTargets};
pub(super) use wheels::{DeflateOptions, RequirementOptions, VariantOptions, WheelNames};

use anyhow::Context;
use clap::Args;

use crate::deflate::DeflateLevel;
use crate::gpu::TargetId;
use crate::resources::WorkPolicy;
use crate::rope::Identity;
use crate::session::SplitChoices;
use crate::split::{Packaging, PlanOptions};
use crate::view::MadeTime;
use crate::wheel::VariantLabel;
use crate::wheelparts::{AssemblyOptions, DosTime, WheelOptions};

/// The options of a split. A command without some of them has parts of these, and the defaults of the others.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SplitOptions {
    #[command(flatten)]
    pub(super) targets: TargetOptions,

    #[command(flatten)]
    pub(super) databases: DatabaseOptions,

    #[command(flatten)]
    pub(super) names: ArchiveNames,

    #[command(flatten)]
    pub(super) compression: CompressionOptions,

    #[command(flatten)]
    pub(super) manifests: ManifestOptions,

    #[command(flatten)]
    pub(super) wheel_names: WheelNames,

    #[command(flatten)]
    pub(super) requirements: RequirementOptions,

    #[command(flatten)]
    pub(super) deflate: DeflateOptions,

    #[command(flatten)]
    pub(super) resources: ResourceOptions,

    #[command(flatten)]
    pub(super) ignored: Ignored,

    /// The label of the variant wheel, if one is made.
    #[arg(skip)]
    pub(super) variant: Option<VariantLabel>,

    /// The level of new wheels without --deflate.
    #[arg(skip)]
    pub(super) default_level: Option<DeflateLevel>,

    /// What the command needs that can be computed in passing.
    #[arg(skip)]
    pub(super) policy: WorkPolicy,

    /// Whether nothing is kept on disk.
    #[arg(skip)]
    pub(super) without_disk: bool,
}

impl SplitOptions {
    /// The options of a command that writes wheels.
    pub(super) fn of_writer(self) -> Self {
        Self { default_level: Some(DeflateLevel::default()), ..self }
    }

    /// The options of a command that will need what this policy computes.
    pub(super) fn with_policy(self, policy: WorkPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The same options with these GPUs in place of those of `--gpu-targets`.
    pub(super) fn with_gpus(&self, gpus: &[TargetId]) -> Self {
        Self { targets: self.targets.with_gpus(gpus), ..self.clone() }
    }

    /// Prints options without effect on stderr.
    pub(super) fn note_ignored(&self) {
        self.ignored.note();
        if self.names.ignores_earlier_name() {
            note("--component-name");
        }
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
        let plan = self.to_options(Packaging::Bundles)?;
        let options = WheelOptions {
            names: AssemblyOptions {
                device_prefix: self.wheel_names.device_package_prefix.clone(),
                device_requires: self.requirements.device_requires_dist.clone(),
                requirements: self.requirements.requirements(),
                deflate: self.deflate.level(self.default_level),
            },
            variant: self.variant.clone(),
            stamp,
            identity: None,
        };
        Ok(WheelOptions { identity: Some(identity(&options, &plan)), ..options })
    }

    /// All choices about a split.
    pub(super) fn choices(&self) -> anyhow::Result<SplitChoices> {
        Ok(SplitChoices {
            plan: self.to_options(Packaging::Bundles)?,
            wheels: self.to_wheel_options()?,
            of_wheels: self.of_wheels(),
            made: self.made_time()?,
        })
    }

    /// The names of options that were given and do something to wheels only.
    pub(super) fn of_wheels(&self) -> Vec<&'static str> {
        let given = [
            ("--device-package-prefix", self.wheel_names.device_package_prefix.is_some()),
            ("--device-requires-dist", !self.requirements.device_requires_dist.is_empty()),
            ("--requirements", !self.requirements.requirements.is_empty()),
            ("--deflate", self.deflate.deflate.is_some()),
        ];
        given.into_iter().filter_map(|(option, is_given)| is_given.then_some(option)).collect()
    }

    /// What the time of made files depends on, without the input.
    pub(super) fn made_time(&self) -> anyhow::Result<MadeTime> {
        Ok(MadeTime::of_options(&identity(&self.to_wheel_options()?, &self.to_options(Packaging::Bundles)?)))
    }

    /// The options of planning.
    pub(super) fn to_options(&self, packaging: Packaging) -> anyhow::Result<PlanOptions> {
        Ok(PlanOptions {
            databases: self.databases.handlers()?,
            targets: self.targets.targets(packaging),
            packaging,
            overlay_roots: self.names.overlay_roots()?,
            group: self.names.group(),
            compression: self.compression.compression(),
            manifests: self.manifests.digests(),
        })
    }
}

/// Identifies all options that change bytes, and the program's version.
fn identity(wheels: &WheelOptions, plan: &PlanOptions) -> Identity {
    let text = format!("{} {wheels:?} {plan:?}", env!("CARGO_PKG_VERSION"));
    Identity::describe("options of wheels").add(text.as_bytes()).finish()
}
