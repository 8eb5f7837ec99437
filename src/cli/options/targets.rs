//! Options that select targets and databases.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;

use crate::cli::lists::{ALL, AUTO, pieces};
use crate::database::{Databases, Handler, TORCH_FAT, UnknownHandler};
use crate::gpu::{KFD_TOPOLOGY, TargetId, detect};
use crate::split::{Packaging, Targets};

/// The wanted targets.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct WantedTargets {
    /// Only these GPUs or families [default: all]
    ///
    /// "auto" stands for the GPUs of this machine.
    #[arg(long, value_name = "LIST", value_parser = wanted)]
    gpu_targets: Option<Vec<ChosenTargets>>,
}

/// The selection of targets.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct TargetOptions {
    #[command(flatten)]
    wanted: WantedTargets,

    /// Omit these GPUs or families
    ///
    /// For example gfx906, for which compilers make code if no target is named.
    #[arg(long, value_name = "LIST", value_parser = excluded)]
    exclude_targets: Vec<TargetList>,
}

/// The selection of databases.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct DatabaseOptions {
    /// The kernel databases to split; "" for none [default: all]
    ///
    /// The others stay in the host part.
    #[arg(long, value_name = "LIST", value_parser = database, value_delimiter = ',', num_args = 0.., alias = "split-databases", help_heading = "Split", hide_short_help = true)]
    databases: Option<Vec<String>>,

    /// A preset of rocm-kpack for --databases.
    #[arg(long, value_name = "TYPE", value_parser = [TORCH_FAT], hide = true)]
    wheel_type: Option<String>,
}

/// Targets in one value of an option.
#[derive(Clone, Debug)]
struct TargetList(Vec<TargetId>);

/// What one value of `--gpu-targets` names; all if `None`.
#[derive(Clone, Debug)]
struct ChosenTargets(Option<Vec<TargetId>>);

/// Parts have the code for all modes of their GPU, so that a mode alone cannot be left out.
fn excluded(text: &str) -> anyhow::Result<TargetList> {
    let target = |name: &str| -> anyhow::Result<TargetId> {
        let target = TargetId::typed(name)?;
        if target.features().len() > 0 {
            bail!("{name}: all code for {} is in one part; name that to omit it", target.processor());
        }
        Ok(target)
    };
    names(text).into_iter().map(target).collect::<Result<_, _>>().map(TargetList)
}

/// Looks for the GPUs of this machine while the command line is parsed: a confined command cannot read /sys.
fn wanted(text: &str) -> anyhow::Result<ChosenTargets> {
    wanted_at(text, Path::new(KFD_TOPOLOGY))
}

/// The same where the kernel describes the GPUs in `topology`.
fn wanted_at(text: &str, topology: &Path) -> anyhow::Result<ChosenTargets> {
    let mut targets = Vec::new();
    for name in names(text) {
        match name {
            ALL => return Ok(ChosenTargets(None)),
            AUTO => targets.extend(detect(topology)?),
            name => targets.push(TargetId::typed(name)?),
        }
    }
    Ok(ChosenTargets(Some(targets)))
}

/// The names in a value. An empty one is an error of its reader.
fn names(text: &str) -> Vec<&str> {
    let names = pieces(text);
    if names.is_empty() { vec![text] } else { names }
}

impl WantedTargets {
    /// The targets; none if all are wanted.
    pub(in crate::cli) fn targets(&self) -> Vec<TargetId> {
        self.chosen().unwrap_or_default()
    }

    /// The targets; all if `None`.
    fn chosen(&self) -> Option<Vec<TargetId>> {
        let lists = self.gpu_targets.as_ref()?.iter().map(|wanted| wanted.0.as_deref());
        lists.collect::<Option<Vec<_>>>().map(|lists| lists.concat())
    }

    /// As targets of a split, none of which is omitted.
    pub(in crate::cli) fn only(&self) -> TargetOptions {
        TargetOptions { wanted: self.clone(), exclude_targets: Vec::new() }
    }
}

impl TargetOptions {
    /// The targets of `--gpu-targets`; none if all are wanted.
    pub(in crate::cli) fn wanted(&self) -> Vec<TargetId> {
        self.wanted.targets()
    }

    /// The same selection with these GPUs in place of those of `--gpu-targets`.
    pub(super) fn with_gpus(&self, gpus: &[TargetId]) -> Self {
        let wanted = WantedTargets { gpu_targets: Some(vec![ChosenTargets(Some(gpus.to_vec()))]) };
        Self { wanted, ..self.clone() }
    }

    /// The same selection without `--gpu-targets`.
    pub(in crate::cli) fn for_all(&self) -> Self {
        Self { wanted: WantedTargets::default(), ..self.clone() }
    }

    /// The device parts.
    pub(in crate::cli) fn targets(&self, packaging: Packaging) -> Targets {
        let keys = |targets: Vec<TargetId>| targets.iter().map(|target| packaging.key_of(target)).collect();
        let excluded = self.exclude_targets.iter().flat_map(|list| &list.0).cloned().collect();
        Targets { wanted: self.wanted.chosen().map(keys), excluded: keys(excluded) }
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
                let names: Vec<_> = names.iter().filter(|name| !name.is_empty()).collect();
                Databases::from_names(&names).context("--databases")
            }
            (None, Some(preset)) => Databases::preset(preset).context("--wheel-type"),
            (None, None) => Ok(Databases::all()),
        }
    }
}

/// The name of a handler, or nothing.
fn database(name: &str) -> Result<String, UnknownHandler> {
    match name.trim() {
        "" => Ok(String::new()),
        name => name.parse().map(|_: Handler| name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{WantedTargets, excluded, wanted_at};

    #[test]
    fn a_mode_alone_is_not_excluded() {
        assert_eq!(excluded("gfx906,gfx90a").unwrap().0.len(), 2);
        let error = excluded("gfx906,gfx90a:xnack+").unwrap_err().to_string();
        assert_eq!(error, "gfx90a:xnack+: all code for gfx90a is in one part; name that to omit it");
    }

    #[test]
    fn words_stand_for_the_gpus_of_this_machine_and_for_all() {
        let machine = tempfile::tempdir().unwrap();
        for (node, properties) in [
            "simd_count 0\n",
            "simd_count 96\ngfx_target_version 110000\n",
            "simd_count 4\ngfx_target_version 100306\n",
        ]
        .iter()
        .enumerate()
        {
            let node = machine.path().join(format!("nodes/{node}"));
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("properties"), properties).unwrap();
        }
        let chosen = |values: &[&str]| {
            let wanted = values.iter().map(|value| wanted_at(value, machine.path()).unwrap()).collect();
            let chosen = WantedTargets { gpu_targets: Some(wanted) }.chosen()?;
            Some(chosen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(chosen(&["auto"]).unwrap(), "gfx1100 gfx1036");
        assert_eq!(chosen(&["gfx942", "auto"]).unwrap(), "gfx942 gfx1100 gfx1036");
        assert_eq!(chosen(&["auto,gfx11", "gfx942"]).unwrap(), "gfx1100 gfx1036 gfx11 gfx942");
        assert_eq!([chosen(&["all"]), chosen(&["gfx942", "all"]), chosen(&["gfx942,all"])], [None, None, None]);
        let none = tempfile::tempdir().unwrap();
        assert!(wanted_at("auto", none.path()).unwrap_err().to_string().contains("name GPUs such as gfx942"));
        assert!(wanted_at("", none.path()).is_err());
    }
}
