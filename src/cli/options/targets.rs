//! Options that select targets and databases.

use anyhow::Context;
use clap::Args;

use crate::cli::lists::pieces;
use crate::database::{Databases, TORCH_FAT};
use crate::gpu::{BundleKey, TargetId, TargetIdError};
use crate::split::Packaging;

/// The wanted targets.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct WantedTargets {
    /// Only these GPU targets or families [default: all]
    #[arg(long, value_name = "LIST", value_parser = targets)]
    gpu_targets: Option<Vec<TargetList>>,
}

/// The selection of targets.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct TargetOptions {
    #[command(flatten)]
    wanted: WantedTargets,

    /// Omit these GPU targets or families
    ///
    /// For example gfx906, for which compilers make code if no target is named.
    #[arg(long, value_name = "LIST", value_parser = targets)]
    exclude_targets: Vec<TargetList>,
}

/// The selection of databases.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct DatabaseOptions {
    /// The kernel databases to split; "" for none [default: all]
    ///
    /// The others stay in the host part.
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 0.., alias = "split-databases", help_heading = "Split", hide_short_help = true)]
    databases: Option<Vec<String>>,

    /// A preset of rocm-kpack for --databases.
    #[arg(long, value_name = "TYPE", value_parser = [TORCH_FAT], hide = true)]
    wheel_type: Option<String>,
}

/// Targets in one value of an option.
#[derive(Clone, Debug)]
struct TargetList(Vec<TargetId>);

fn targets(text: &str) -> Result<TargetList, TargetIdError> {
    match pieces(text).as_slice() {
        // An empty name is an error.
        [] => TargetId::typed(text).map(|target| TargetList(vec![target])),
        names => names.iter().map(|name| TargetId::typed(name)).collect::<Result<_, _>>().map(TargetList),
    }
}

fn keys(lists: &[TargetList], packaging: Packaging) -> Vec<BundleKey> {
    lists.iter().flat_map(|list| &list.0).map(|target| packaging.key_of(target)).collect()
}

impl WantedTargets {
    /// The targets; none if the option is not given.
    pub(in crate::cli) fn targets(&self) -> Vec<TargetId> {
        self.gpu_targets.iter().flatten().flat_map(|list| &list.0).cloned().collect()
    }

    /// As targets of a split, none of which is omitted.
    pub(in crate::cli) fn only(&self) -> TargetOptions {
        TargetOptions { wanted: self.clone(), exclude_targets: Vec::new() }
    }
}

impl TargetOptions {
    /// The targets of `--gpu-targets`; none if it is not given.
    pub(in crate::cli) fn wanted(&self) -> Vec<TargetId> {
        self.wanted.targets()
    }

    /// The same selection with these GPUs in place of those of `--gpu-targets`.
    pub(super) fn with_gpus(&self, gpus: &[TargetId]) -> Self {
        let wanted = WantedTargets { gpu_targets: Some(vec![TargetList(gpus.to_vec())]) };
        Self { wanted, ..self.clone() }
    }

    /// The same selection without `--gpu-targets`.
    pub(super) fn for_all(&self) -> Self {
        Self { wanted: WantedTargets::default(), ..self.clone() }
    }

    /// The wanted device parts; all if `None`.
    pub(in crate::cli) fn gpu_targets(&self, packaging: Packaging) -> Option<Vec<BundleKey>> {
        self.wanted.gpu_targets.as_ref().map(|lists| keys(lists, packaging))
    }

    /// The device parts to omit.
    pub(in crate::cli) fn exclude_targets(&self, packaging: Packaging) -> Vec<BundleKey> {
        keys(&self.exclude_targets, packaging)
    }
}

impl DatabaseOptions {
    /// The handlers that the user chose, if any.
    pub(in crate::cli) fn chosen(&self) -> anyhow::Result<Option<Databases>> {
        let is_chosen = self.databases.is_some() || self.wheel_type.is_some();
        is_chosen.then(|| self.handlers()).transpose()
    }

    /// The handlers that are asked for the database of a file.
    pub(super) fn handlers(&self) -> anyhow::Result<Databases> {
        match (&self.databases, &self.wheel_type) {
            (Some(names), _) => {
                let names: Vec<_> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
                Databases::from_names(&names).context("--databases")
            }
            (None, Some(preset)) => Databases::preset(preset).context("--wheel-type"),
            (None, None) => Ok(Databases::all()),
        }
    }
}
