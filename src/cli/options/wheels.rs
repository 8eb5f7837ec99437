//! Options about wheels.

use clap::Args;

use crate::deflate::DeflateLevel;
use crate::wheel::{self, Requirements, StatedExtras, VariantLabel, WheelError};

/// The names of wheels.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct WheelNames {
    /// Prefix of the names of device wheels [default: amd-NAME-device]
    #[arg(long, value_name = "PREFIX", help_heading = "Wheels", hide_short_help = true)]
    pub(super) device_package_prefix: Option<String>,
}

/// How members of wheels are packed.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct DeflateOptions {
    /// Deflate members of wheels with this level, 1 to 9; 0 stores them
    ///
    /// Members of an input that stores them stay stored, and those that are deflated in the input stay deflated. A wheel that a
    /// mount deflates has no size until its members are deflated. The default is 6 for split and what computes its sizes, and 0
    /// for all others.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=9), help_heading = "Wheels", hide_short_help = true)]
    pub(super) deflate: Option<u8>,
}

impl DeflateOptions {
    /// The level; `default` if none is given.
    pub(super) fn level(&self, default: Option<DeflateLevel>) -> Option<DeflateLevel> {
        self.deflate.map_or(default, DeflateLevel::new)
    }
}

/// What wheels require.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct RequirementOptions {
    /// Requirements of device wheels
    ///
    /// For example "rocm-sdk-device-@GFXARCH@ == 7.1". Those with @GFXARCH@ are omitted from wheels for families.
    #[arg(long, value_name = "REQUIREMENT", num_args = 1.., value_parser = requirement, help_heading = "Wheels", hide_short_help = true)]
    pub(super) device_requires_dist: Vec<String>,

    /// Requirements with extras for GPUs, such as rocm[device-all]: keep or split
    ///
    /// `split` puts rocm[libraries] into the host wheel, rocm[device-TARGET] into each device wheel, and the extras of its GPUs
    /// into a thin wheel. rocm=libraries,device-gfx942 does so, too, and states the extras that rocm has; it may be given
    /// several times. Otherwise they are those that the requirement names, or unchecked device-TARGET.
    #[arg(long, value_name = "keep|split|NAME=LIST", value_parser = form, help_heading = "Wheels", hide_short_help = true)]
    pub(super) requirements: Vec<RequirementsForm>,

    /// The extras of a distribution, in an earlier spelling.
    #[arg(long, value_name = "NAME=LIST", requires = "requirements", hide = true)]
    requirements_extras: Vec<StatedExtras>,
}

/// What is done with requirements that have extras for GPUs.
#[derive(Clone, Debug)]
pub(super) enum RequirementsForm {
    Keep,
    Split,
    SplitWith(StatedExtras),
}

fn form(text: &str) -> Result<RequirementsForm, String> {
    match text {
        "keep" => Ok(RequirementsForm::Keep),
        "split" => Ok(RequirementsForm::Split),
        _ if text.contains('=') => text.parse().map(RequirementsForm::SplitWith).map_err(|error| format!("{error}")),
        _ => Err("it is keep, split, or NAME=LIST such as rocm=libraries,device-gfx942".to_owned()),
    }
}

fn requirement(text: &str) -> Result<String, WheelError> {
    wheel::check_requirement(text).map(|()| text.to_owned())
}

impl RequirementOptions {
    pub(super) fn requirements(&self) -> Requirements {
        let stated = self.requirements.iter().filter_map(|form| match form {
            RequirementsForm::SplitWith(extras) => Some(extras.clone()),
            RequirementsForm::Keep | RequirementsForm::Split => None,
        });
        let stated = stated.chain(self.requirements_extras.iter().cloned()).collect();
        match self.requirements.last() {
            None | Some(RequirementsForm::Keep) => Requirements::Keep,
            Some(RequirementsForm::Split | RequirementsForm::SplitWith(_)) => Requirements::Split(stated),
        }
    }
}

/// The variant wheel.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct VariantOptions {
    /// Also make a variant wheel, with this label [default label: variant]
    #[arg(
        long, value_name = "LABEL", num_args = 0..=1, require_equals = true, default_missing_value = "variant",
        value_parser = VariantLabel::new, help_heading = "Wheels", hide_short_help = true
    )]
    generate_variant_wheel: Option<VariantLabel>,

    /// The label, in rocm-kpack's spelling.
    #[arg(long, value_name = "LABEL", value_parser = VariantLabel::new, requires = "generate_variant_wheel", hide = true)]
    variant_label: Option<VariantLabel>,
}

impl VariantOptions {
    /// The label, if a variant wheel is made.
    pub(in crate::cli) fn label(&self) -> Option<&VariantLabel> {
        self.generate_variant_wheel.as_ref().map(|label| self.variant_label.as_ref().unwrap_or(label))
    }
}
