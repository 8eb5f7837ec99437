//! What is asked, and about which input.

use std::path::PathBuf;
use std::sync::Arc;

use super::pattern::Pattern;
use crate::gpu::TargetId;
use crate::join::Joined;
use crate::resources::Resources;
use crate::source::Input;
use crate::split::{CodeOfFile, Plan};

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    /// The GPUs.
    pub gpus: Vec<TargetId>,
    /// The libraries and databases that are judged; all if it is empty.
    pub patterns: Vec<Pattern>,
    /// Whether code whose targets are not known is a failure.
    pub is_all_judged: bool,
}

/// What is examined.
pub(crate) struct CoverageInput<'a> {
    /// The artifact, of several. Its name precedes all paths.
    pub within: Option<&'a str>,
    /// The paths that the user named.
    pub locations: &'a [PathBuf],
    /// The input, after it was joined.
    pub input: &'a Input,
    /// Its split binaries.
    pub joined: &'a Joined,
    /// Its plan.
    pub plan: &'a Plan,
    /// All its device code; none if it was not searched.
    pub code: &'a [CodeOfFile],
    /// For reading.
    pub resources: &'a Arc<Resources>,
}
