//! Reports about a split, as numbers, tables and a page.
//!
//! It prints nothing: `cli` does.

pub(crate) mod details;
mod device_code;
mod fitted;
mod layers;
mod limit;
mod looked_at;
mod part;
mod release;
mod sizes;
mod summary;
pub(crate) mod table;
mod tables;

use serde::Serialize;

use crate::wheelparts::PlannedInput;

pub(crate) use crate::text::escaped;
pub(crate) use device_code::{CodeSummary, EmbeddedSummary};
pub(crate) use fitted::fit;
pub(crate) use layers::LayerSummary;
pub(crate) use limit::{Judgement, PartChoice, PartLimit, TooLarge};
pub(crate) use looked_at::{FirstName, LookedAt, not_searched};
pub(crate) use part::{PartGpus, SizedPart};
pub(crate) use release::{ReleaseReport, WheelReport, needed_table};
pub(crate) use sizes::{PartSize, SizedParts, Sizes, UserSize};
pub(crate) use summary::{BinarySummary, Summary};

/// The result of `inspect` for a wheel or a tree. `docs/json.md` describes it as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct InspectReport {
    /// The content of the split.
    #[serde(flatten)]
    pub summary: Summary,
    /// The sizes of its parts as files.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// The bundles in data among it.
    pub embedded: Option<Vec<EmbeddedSummary>>,
    /// All device code; `None` if it was not searched for.
    pub device_code: Option<Vec<CodeSummary>>,
    /// The layers, from the lowest on, if the input is an image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerSummary>,
}

impl InspectReport {
    /// The report, with sizes if they `are_made`; see [`Sizes::make`].
    pub(crate) fn of(planned: PlannedInput<'_>, device_code: Option<Vec<CodeSummary>>, are_made: bool) -> Self {
        let summary = Summary::of(planned.input, planned.plan);
        let sizes = SizedParts::of(planned).sizes(&summary, are_made);
        Self::new(summary, sizes, device_code)
    }

    /// The report with these numbers.
    pub(crate) fn new(summary: Summary, sizes: Sizes, device_code: Option<Vec<CodeSummary>>) -> Self {
        let embedded = device_code.as_deref().map(CodeSummary::embedded);
        Self { summary, sizes, embedded, device_code, layers: Vec::new() }
    }
}
