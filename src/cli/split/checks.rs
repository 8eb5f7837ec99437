//! What `kpackfs split` refuses.

use clap::error::ErrorKind;

use super::super::output_format::OutputFormat;
use super::super::split_warnings::{check_code, check_symlinks};
use super::Split;
use crate::session::Prepared;
use crate::view::{FAT, WHEELS};

impl Split {
    /// Refuses options without effect in this format.
    pub(super) fn check_usage(&self) -> Result<(), clap::Error> {
        let of_wheels = || self.view.iter().any(|view| view.trim_start_matches('/').starts_with(WHEELS));
        let problem = match self.format {
            OutputFormat::Index if self.is_to_bucket() && self.writing.sync => "--sync is about disks",
            _ if self.is_to_bucket() && !matches!(self.format, OutputFormat::Index) => {
                "to a bucket, an index is written; it needs --format index"
            }
            _ if self.allow_http && !self.is_to_bucket() => {
                "--allow-http is about buckets; it needs -o s3://BUCKET/PREFIX"
            }
            OutputFormat::Wheel if self.view.iter().any(|view| view.trim_matches('/') != FAT) => {
                "--view chooses directories; of wheels it can choose fat only"
            }
            OutputFormat::Index if !self.view.is_empty() => "--view chooses directories; an index has all wheels",
            OutputFormat::Oci if !self.view.is_empty() => "--view chooses directories; --gpu-targets chooses images",
            OutputFormat::Oci => return Ok(()),
            _ if self.images.are_given() => {
                "--add-to, --form and --layer-compression are about images; they need --format oci"
            }
            OutputFormat::Directory | OutputFormat::Wheel | OutputFormat::Index if self.versions.are_given() => {
                "--local-version and --keep-version are about thin wheels; they need --format thin-wheel"
            }
            OutputFormat::Directory | OutputFormat::ThinWheel if self.variant.label().is_some() && !of_wheels() => {
                "--generate-variant-wheel makes a wheel; it needs --format wheel"
            }
            OutputFormat::Wheel | OutputFormat::ThinWheel | OutputFormat::Directory | OutputFormat::Index => {
                return Ok(());
            }
        };
        Err(clap::Error::raw(ErrorKind::ArgumentConflict, format!("{problem}\n")))
    }

    /// Fails if there is nothing to do.
    pub(super) fn check(&self, prepared: &Prepared) -> anyhow::Result<()> {
        if !matches!(self.format, OutputFormat::Directory) {
            prepared.wheels.iter().try_for_each(|wheels| check_symlinks(self.source.path(), wheels))?;
        } else if !prepared.plan.unsplit.is_empty() {
            // `verify` reports a host part whose binaries stayed fat.
            return Ok(());
        }
        check_code(self.source.path(), prepared)
    }
}
