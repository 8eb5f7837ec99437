//! `kpackfs recombine`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::artifacts::{serve, warn, write};
use super::options::SplitOptions;
use super::prepare::resources;
use super::progress::show_bytes;
use super::serving::{Serving, absolute};
use crate::artifact::PackagingConfig;
use crate::index::Resources;
use crate::split::{Packaging, Progress};
use crate::view::{Recombined, Shards};

/// Join the artifacts of several builds to packages: host code of one, device code of all by groups of GPUs
///
/// A shard is a directory of artifacts, as `kpackfs split` writes them or as a build leaves them.
#[derive(Debug, Args)]
#[group(id = "destination", required = true, multiple = false, args = ["output", "mount"])]
pub(super) struct Recombine {
    /// The packaging configuration, JSON
    config: PathBuf,

    /// The directory that holds the shards
    shards: PathBuf,

    /// Directory to write to; it is made, or must be empty
    #[arg(short, long, value_name = "DIR", alias = "output-dir", group = "destination", conflicts_with = "serving")]
    output: Option<PathBuf>,

    /// Show the packages at an existing directory instead
    #[arg(long, value_name = "MOUNT_POINT", group = "destination")]
    mount: Option<PathBuf>,

    /// Only this component, such as `blas_lib`; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    component: Vec<String>,

    /// Put .kpm manifests beside the archives, for old runtimes
    #[arg(long)]
    kpm: bool,

    #[command(flatten)]
    serving: Serving,

    #[command(flatten)]
    options: SplitOptions,
}

impl Recombine {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match (&self.output, &self.mount) {
            (Some(output), _) => {
                let (recombined, resources) = self.prepare(&self.config, &self.shards)?;
                write(&recombined.parts, output, true, &resources)?;
            }
            (None, Some(mount_point)) => self.serve(mount_point)?,
            (None, None) => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    fn serve(&self, mount_point: &Path) -> anyhow::Result<()> {
        let (config, shards) = (absolute(&self.config)?, absolute(&self.shards)?);
        let served = || {
            let (recombined, resources) = self.prepare(&config, &shards)?;
            serve(&recombined.parts, &shards, None, &resources)
        };
        self.serving.serve(&shards, mount_point, served)
    }

    fn prepare(&self, config_path: &Path, place: &Path) -> anyhow::Result<(Recombined, Arc<Resources>)> {
        let config = PackagingConfig::read(config_path)?;
        let options = self.options.to_options(Packaging::Processors)?;
        let resources = resources(place, &self.options)?;
        let progress = Progress::default();
        let shards = show_bytes("Planning", &progress.done, &progress.total, || {
            Shards::open(place, &self.component, &options, &resources, &progress)
        })?;
        let recombined = shards.recombine(&config, config_path, self.kpm)?;
        warn(&recombined.notes);
        Ok((recombined, resources))
    }
}
