//! `kpackfs mount` and `kpackfs umount`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::collecting::{Collecting, warn_of_missing};
use super::failure::text;
use super::input::{SHORT_FORMS, forms, input_word};
use super::lists::{AUTO, pieces};
use super::options::SplitOptions;
use super::prepare::absolute_input;
use super::serving::{Serving, absolute};
use super::terminal::warn;
use super::views::{served, views};
use crate::export::Inputs;
use crate::gpu::{BundleKey, GpuSet, KFD_TOPOLOGY, detect};
use crate::mount::{self, Served};
use crate::opened::{NamedPath, recognise_all};
use crate::view::ThinViews;

/// Show a wheel, an install tree, or artifacts as if split
///
/// Returns when the mount is ready. `kpackfs umount` or umount(8) ends it.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs mount torch.whl mnt\n  ls mnt/merged/gfx942\n  kpackfs umount mnt")]
pub(super) struct Mount {
    #[arg(
        required = true,
        num_args = 1..,
        value_parser = input_word(),
        help = SHORT_FORMS,
        long_help = concat!(
            "The input: ", forms!(), "; several wheels, or parts of one split. The views of wheels that do not belong together are in \
             DISTRIBUTION/VERSION/TAGS/"
        )
    )]
    input: Vec<PathBuf>,

    #[command(flatten)]
    options: SplitOptions,

    /// An existing directory
    ///
    /// /dev/fd/N stands for an open FUSE device that is mounted already.
    #[arg(value_name = "MOUNT_POINT")]
    place: PathBuf,

    #[command(flatten)]
    serving: Serving,

    /// Overlay these targets on host/, to run programs from there
    ///
    /// "auto" stands for the GPUs of this machine.
    #[arg(long, value_name = "LIST", help_heading = "View")]
    arch: Vec<String>,

    /// Also list thin views for sets such as gfx1036+gfx1100
    ///
    /// "auto" stands for the GPUs of this machine, and thin/auto is a link to the view for all of them.
    #[arg(long, value_name = "LIST", help_heading = "View")]
    thin: Vec<String>,

    /// Show what `collect APP --from INPUT` writes, as `collected`
    ///
    /// The views are those of that. It may be given several times.
    #[arg(long, value_name = "APP", help_heading = "Collect", hide_short_help = true)]
    collect: Vec<PathBuf>,

    #[command(flatten)]
    collecting: Collecting,
}

impl Mount {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let inputs = self.input.iter().map(|input| absolute_input(input)).collect::<anyhow::Result<Vec<_>>>();
        let inputs = inputs.inspect_err(|error| mount::tell_failure(&text(error)))?;
        let protected = Inputs::of(&inputs);
        let source = inputs.first().map_or(Path::new(""), |input| &input.path);
        let arch = self.arch()?;
        let thin = self.thin_views(Path::new(KFD_TOPOLOGY))?;
        if !self.collect.is_empty() {
            self.serving.serve(source, &protected, &self.place, || self.collected(&inputs))?;
            return Ok(ExitCode::SUCCESS);
        }
        let prepare = || views(&inputs, &self.options, &arch, &thin);
        self.serving.serve(source, &protected, &self.place, prepare)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The views of what an application needs.
    fn collected(&self, trees: &[NamedPath]) -> anyhow::Result<Served> {
        if !self.arch.is_empty() || !self.thin.is_empty() {
            bail!("--collect shows the GPUs of --gpu-targets; --arch and --thin have no effect with it");
        }
        let apps = self.collect.iter().map(|app| absolute(app)).collect::<anyhow::Result<Vec<_>>>()?;
        let collected = self.collecting.collect(&recognise_all(&apps)?, trees, &self.options, true)?;
        warn_of_missing(&collected.report);
        let (view, arch, thin) = collected.view();
        served(&collected.prepared, &arch, &thin, Some(&view))
    }

    fn arch(&self) -> anyhow::Result<Vec<BundleKey>> {
        let mut keys = Vec::new();
        for name in names("--arch", &self.arch)? {
            if name == AUTO {
                let found = detect(Path::new(KFD_TOPOLOGY)).context("--arch auto")?;
                keys.extend(found.iter().map(BundleKey::of));
            } else {
                keys.push(name.parse().context("--arch")?);
            }
        }
        Ok(keys)
    }

    /// The requested thin views. `topology` is where the kernel describes the GPUs.
    fn thin_views(&self, topology: &Path) -> anyhow::Result<ThinViews> {
        let mut views = ThinViews::default();
        for name in names("--thin", &self.thin)? {
            if name == AUTO {
                views.auto = GpuSet::new(detect(topology).context("--thin auto")?);
            } else {
                views.sets.push(name.parse().with_context(|| format!("--thin {name}"))?);
            }
        }
        Ok(views)
    }
}

/// The names in the lists of an option. A list without names is probably an empty variable of a script.
fn names<'a>(option: &str, lists: &'a [String]) -> anyhow::Result<Vec<&'a str>> {
    if lists.iter().any(|list| pieces(list).is_empty()) {
        bail!("{option}: the list is empty; name GPUs such as gfx942, or \"auto\" for those of this machine");
    }
    Ok(lists.iter().flat_map(|list| pieces(list)).collect())
}

/// Unmount a kpackfs mount
///
/// Returns when its daemon has ended, so that the file system of the input can be unmounted as well, or after 10 seconds
/// with a sentence.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs umount mnt")]
pub(super) struct Umount {
    /// The mount point
    #[arg(value_name = "MOUNT_POINT")]
    place: PathBuf,

    /// Detach the mount now, even if it is in use
    ///
    /// It ends when it is no longer used. The daemon is waited for during a second.
    #[arg(short, long)]
    lazy: bool,
}

impl Umount {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(running) = mount::umount(&self.place, self.lazy)? {
            warn(&running.to_string());
        }
        Ok(ExitCode::SUCCESS)
    }
}
