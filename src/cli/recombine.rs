//! `kpackfs recombine`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::artifact_parts::PreparedParts;
use super::artifacts::warn;
use super::confinement::Opens;
use super::interrupt;
use super::limits::LimitOptions;
use super::options::RecombineOptions;
use super::output_name::directory;
use super::prepare::resources;
use super::progress::show_bytes;
use super::said::{SaidOptions, WrittenOutput};
use super::serving::{Serving, absolute};
use super::writing::{OutputTarget, Writing};
use crate::artifact::PackagingConfig;
use crate::export::Inputs;
use crate::opened::check_there;
use crate::packages::{Recombined, Shards};
use crate::resources::WorkPolicy;
use crate::split::{Packaging, Statement};

/// Join the artifacts of several builds to packages
///
/// They have the host code of one build, and the device code of all by groups of GPUs.
///
/// A shard is a directory of artifacts, as `kpackfs split` writes them or as a build leaves them.
#[derive(Debug, Args)]
#[group(id = "destination", required = true, multiple = false, args = ["output", "mount"])]
#[command(
    override_usage = "kpackfs recombine [OPTIONS] <CONFIG> <SHARDS> --output <DIR>",
    after_long_help = "Example:\n  kpackfs recombine packages.json shards -o packages"
)]
pub(super) struct Recombine {
    /// The packaging configuration, JSON
    #[arg(required = true)]
    config: Option<PathBuf>,

    /// The directory of the shards
    #[arg(required = true)]
    shards: Option<PathBuf>,

    /// CONFIG, in rocm-kpack's spelling.
    #[arg(long = "config", id = "config_path", value_name = "CONFIG", requires = "shards_path", conflicts_with_all = ["config", "shards"], hide = true)]
    named_config: Option<PathBuf>,

    /// SHARDS, in rocm-kpack's spelling.
    #[arg(long = "input-shards-dir", id = "shards_path", value_name = "SHARDS", requires = "config_path", conflicts_with_all = ["config", "shards"], hide = true)]
    named_shards: Option<PathBuf>,

    /// Directory to write to; it may have other files
    #[arg(short, long, value_name = "DIR", value_parser = directory(), alias = "output-dir", group = "destination", conflicts_with = "serving")]
    output: Option<PathBuf>,

    /// Replace what has the names of the output
    ///
    /// All packages of the same components in DIR are replaced, too.
    #[arg(long, requires = "output")]
    force: bool,

    /// Mount the packages at this directory instead
    #[arg(long, value_name = "MOUNT_POINT", group = "destination")]
    mount: Option<PathBuf>,

    /// Only this component [default: all]
    ///
    /// It may be given several times.
    #[arg(long, value_name = "NAME")]
    component: Vec<String>,

    /// Write .kpm manifests for old runtimes
    #[arg(long)]
    kpm: bool,

    #[command(flatten)]
    writing: Writing,

    #[command(flatten)]
    said: SaidOptions,

    #[command(flatten)]
    serving: Serving,

    #[command(flatten)]
    options: RecombineOptions,
}

impl Recombine {
    pub(super) fn opens(&self) -> Option<Opens> {
        let inputs = [&self.config, &self.shards, &self.named_config, &self.named_shards];
        let opens = Opens::everything(inputs.into_iter().flatten().cloned().collect());
        self.output.as_ref().map(|output| self.options.resources.opens(opens).directory(output))
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        // clap requires both in one form or the other.
        let either =
            |one: &Option<PathBuf>, other: &Option<PathBuf>| one.clone().or_else(|| other.clone()).unwrap_or_default();
        let config = either(&self.config, &self.named_config);
        let shards = either(&self.shards, &self.named_shards);
        check_there([&config, &shards])?;
        match (&self.output, &self.mount) {
            (Some(output), _) => {
                interrupt::watch()?;
                let policy = WorkPolicy { check_bundles: true, ..WorkPolicy::default() };
                let packages = self.prepare(&config, &shards, policy)?;
                let inputs = Inputs::of_shards(&config, &shards);
                let (force, writing, limits) = (self.force, self.writing, LimitOptions::default());
                let to = OutputTarget { directory: output, force, inputs: &inputs, writing, limits };
                let places = packages.write(to, true)?;
                let written = WrittenOutput::at(("package", "packages"), output, &places)?;
                self.said.say(&written.next("kpackfs verify", [output]))?;
            }
            (None, Some(mount_point)) => self.serve(mount_point, &config, &shards)?,
            (None, None) => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    fn serve(&self, mount_point: &Path, config: &Path, shards: &Path) -> anyhow::Result<()> {
        let (config, shards) = (absolute(config)?, absolute(shards)?);
        let inputs = Inputs::of_shards(&config, &shards);
        let served = || self.prepare(&config, &shards, WorkPolicy::default())?.served(&shards, None);
        self.serving.serve(&shards, &inputs, mount_point, served)
    }

    /// The packages.
    fn prepare(&self, config_path: &Path, place: &Path, policy: WorkPolicy) -> anyhow::Result<PreparedParts> {
        let config = PackagingConfig::read(config_path)?;
        let given = self.options.of_split();
        let options = given.to_options(Packaging::Processors)?;
        let made = given.made_time()?;
        let resources = resources(place, &given.with_policy(policy))?;
        let shards =
            show_bytes("Planning", |progress| Shards::open(place, &self.component, &options, &resources, progress))?;
        let Recombined { parts, notes, inputs } = shards.recombine(&config, config_path, self.kpm)?;
        warn(&notes);
        let made = made.and(format!("{config:?} {:?} {}", self.component, self.kpm));
        Ok(PreparedParts { parts, inputs, statement: Statement::of(&options), made, resources })
    }
}
