//! Options that select targets and databases.

use anyhow::Context;
use clap::Args;

use super::lists::pieces;
use crate::database::{Databases, TORCH_FAT};
use crate::gpu::{BundleKey, TargetId, TargetIdError};
use crate::split::Packaging;

/// The selection of targets and databases.
#[derive(Clone, Debug, Args)]
pub(super) struct Selection {
    /// Only these GPU targets or families [default: all]
    #[arg(long, value_name = "LIST", value_parser = targets, help_heading = "Split")]
    gpu_targets: Option<Vec<TargetList>>,

    /// Omit these GPU targets or families, such as gfx906, for which compilers make code if no target is named
    #[arg(long, value_name = "LIST", value_parser = targets, help_heading = "Split")]
    exclude_targets: Vec<TargetList>,

    /// The kernel databases to move out of the host part; "" for none [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 0.., alias = "split-databases", help_heading = "Split")]
    databases: Option<Vec<String>>,

    /// A preset for --databases
    #[arg(long, value_name = "TYPE", value_parser = [TORCH_FAT], help_heading = "Split")]
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

impl Selection {
    /// The targets of `--gpu-targets`; none if it is not given.
    pub(super) fn wanted_gpus(&self) -> Vec<TargetId> {
        self.gpu_targets.iter().flatten().flat_map(|list| &list.0).cloned().collect()
    }

    /// The same selection without `--gpu-targets`.
    pub(super) fn for_all_targets(&self) -> Self {
        Self { gpu_targets: None, ..self.clone() }
    }

    /// The wanted device parts; all if `None`.
    pub(super) fn gpu_targets(&self, packaging: Packaging) -> Option<Vec<BundleKey>> {
        self.gpu_targets.as_ref().map(|lists| keys(lists, packaging))
    }

    /// The device parts to omit.
    pub(super) fn exclude_targets(&self, packaging: Packaging) -> Vec<BundleKey> {
        keys(&self.exclude_targets, packaging)
    }

    /// The handlers that the user chose, if any.
    pub(super) fn chosen_databases(&self) -> anyhow::Result<Option<Databases>> {
        let is_chosen = self.databases.is_some() || self.wheel_type.is_some();
        is_chosen.then(|| self.databases()).transpose()
    }

    /// The handlers that are asked for the database of a file.
    pub(super) fn databases(&self) -> anyhow::Result<Databases> {
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
