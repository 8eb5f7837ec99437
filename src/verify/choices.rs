//! The options of `verify`, completed by the statement of the split.

use std::sync::Arc;

use super::error::VerifyError;
use super::parts::Parts;
use super::rules::Rule;
use super::statement::LocatedStatement;
use crate::database::Databases;
use crate::gpu::{BundleKey, GpuSet};
use crate::resources::Resources;
use crate::split::{Statement, StatementError};

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The databases that were split off the host part. If `None`, those in the split's statement, or all.
    pub databases: Option<Databases>,
    /// The targets to which the split was restricted. If `None`, those in the split's statement, or all.
    pub gpu_targets: Option<Vec<BundleKey>>,
    /// Omitted targets, in addition to those in the split's statement.
    pub exclude_targets: Vec<BundleKey>,
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
    pub(super) gpu_targets: Option<Vec<BundleKey>>,
    pub(super) exclude_targets: Vec<BundleKey>,
}

impl Choices {
    /// Whether the split was restricted to some targets.
    pub(super) fn is_restricted(&self) -> bool {
        self.gpu_targets.is_some() || !self.exclude_targets.is_empty()
    }

    /// The options, completed by the split's statement. The databases include loose code objects in `parts`.
    pub(super) fn new(
        options: &VerifyOptions,
        located: Option<&LocatedStatement>,
        parts: &Parts,
        resources: &Arc<Resources>,
    ) -> Result<Self, VerifyError> {
        let default = LocatedStatement::default();
        let located = located.unwrap_or(&default);
        let choices = Self::with(options, &located.statement).map_err(|error| located.failed(error))?;
        let files = parts.files().map(|file| (file.path, file.content));
        Ok(Self { databases: choices.databases.of(files, resources), ..choices })
    }

    fn with(options: &VerifyOptions, statement: &Statement) -> Result<Self, StatementError> {
        Ok(Self {
            databases: options.databases.clone().or(statement.databases()?).unwrap_or_else(Databases::all),
            gpu_targets: options.gpu_targets.clone().or(statement.gpu_targets()?),
            exclude_targets: [&*options.exclude_targets, &*statement.exclude_targets()?].concat(),
        })
    }
}
