//! What the user chose, apart from the input.

use std::path::PathBuf;

use crate::metrics::Progress;
use crate::resources::Resources;
use crate::split::PlanOptions;
use crate::view::MadeTime;
use crate::wheelparts::WheelOptions;

/// The options of a split.
#[derive(Clone, Debug)]
pub(crate) struct SplitChoices {
    /// Those of planning.
    pub(crate) plan: PlanOptions,
    /// Those of wheels.
    pub(crate) wheels: WheelOptions,
    /// The names of options that the user gave and that do something to wheels only.
    pub(crate) of_wheels: Vec<&'static str>,
    /// What the time of made files depends on, without the input.
    pub(crate) made: MadeTime,
}

/// Shows how much of each stage of the work is done.
pub(crate) trait Stages {
    /// Runs a stage.
    fn stage<T: Send>(&self, title: &'static str, work: impl FnOnce(&Progress) -> T + Send) -> T;

    /// Runs the stage in which inputs are opened, whose bytes `resources` count.
    fn opening<T: Send>(&self, inputs: &[PathBuf], resources: &Resources, work: impl FnOnce() -> T + Send) -> T;
}
