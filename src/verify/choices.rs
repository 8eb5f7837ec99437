//! The options of `verify`, completed by the statement of the split.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::parts::{Part, Parts};
use super::rules::Rule;
use crate::database::Databases;
use crate::gpu::{BundleKey, GpuSet};
use crate::opened::LocatedStatement;
use crate::resources::Resources;
use crate::split::{Statement, Targets};

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The databases that were split off the host part. If `None`, those in the split's statement, or all.
    pub databases: Option<Databases>,
    /// The targets to which the split was restricted. If `wanted` is `None`, those in its statement, or all. What its statement
    /// omits is omitted, too.
    pub targets: Targets,
    /// The GPUs of a thin tree, if neither its location nor its statement names them.
    pub thin: Option<GpuSet>,
    /// Rules whose findings are notes.
    pub allow: Vec<Rule>,
    /// The components of artifacts to compare with `against`; all if empty.
    pub components: Vec<String>,
}

/// The restrictions of a split, from its statement or from the user.
#[derive(Debug)]
pub(super) struct Choices {
    pub(super) databases: Databases,
    pub(super) targets: Targets,
    /// Whether the split was asked for more than device parts.
    pub(super) has_host: bool,
    /// Whether the split moved the files of all handlers.
    pub(super) knows_all_handlers: bool,
    /// The targets of parts that other runs made of the same input, which the host part's statement does not know.
    further: BTreeSet<BundleKey>,
}

impl Choices {
    /// Whether the split has a part for this key.
    pub(super) fn wants(&self, key: &BundleKey) -> bool {
        let is_further = || self.further.contains(&key.family_of_generic());
        self.targets.contains(key) || is_further()
    }

    /// The options, completed by the split's statement. The databases include loose code objects in `parts`.
    pub(super) fn new(
        options: &VerifyOptions,
        located: Option<&LocatedStatement>,
        parts: &Parts,
        resources: &Arc<Resources>,
    ) -> anyhow::Result<Self> {
        let default = LocatedStatement::default();
        let located = located.unwrap_or(&default);
        let statement = &located.statement;
        let stated = statement.targets().map_err(|error| located.failed(&error))?;
        let databases = options.databases.clone().or(statement.databases().map_err(|error| located.failed(&error))?);
        let wanted = options.targets.wanted.clone().or(stated.wanted);
        let targets = Targets { wanted, excluded: [&*options.targets.excluded, &*stated.excluded].concat() };
        // What the user says about targets is about all parts.
        let has_further = !targets.are_all() && options.targets.are_all();
        Ok(Self {
            databases: databases
                .unwrap_or_else(Databases::all)
                .of(parts.files().map(|it| (it.path, it.content)), resources),
            further: if has_further { further(statement, parts) } else { BTreeSet::new() },
            targets,
            has_host: !statement.is_of_devices(),
            knows_all_handlers: statement.is_current(),
        })
    }
}

/// The targets of device parts that state the ID of the host part's split, in their wheels or in the directories next to
/// them.
fn further(of_host: &Statement, parts: &Parts) -> BTreeSet<BundleKey> {
    let Some(split_id) = of_host.split_id.as_deref() else { return BTreeSet::new() };
    let is_of_split = |it: &LocatedStatement| it.statement.split_id.as_deref() == Some(split_id);
    let keys = |(number, part): (usize, &Arc<Part>)| -> Vec<BundleKey> {
        let own = part.statements();
        if !own.is_empty() || number == 0 {
            return own
                .iter()
                .filter(|it| is_of_split(it))
                .filter_map(|it| it.statement.part.as_deref()?.parse().ok())
                .collect();
        }
        // Checks of the parts report statements that cannot be read.
        let of_tree = LocatedStatement::of_part(&part.input.location).ok().flatten();
        of_tree.filter(is_of_split).and_then(|_| part.name.parse().ok()).into_iter().collect()
    };
    parts.all.iter().enumerate().flat_map(keys).collect()
}
