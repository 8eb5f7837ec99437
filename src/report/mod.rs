//! What there is to tell about a split, as numbers, tables and a page.
//!
//! It prints nothing: `cli` does.

mod details;
pub(crate) mod diff;
mod page;
mod sizes;
mod summary;
pub(crate) mod table;
mod tables;
mod text;

use serde::Serialize;

use crate::source::Input;
use crate::split::Plan;
use crate::view::WheelSet;

use sizes::SizedParts;

pub(crate) use page::{Page, PageFile};
pub(crate) use sizes::{MakingProgress, PartSize, Sizes, UserSize};
pub(crate) use summary::{BinarySummary, EmbeddedSummary, Summary};
pub(crate) use text::escaped;

/// All that `inspect` tells about a wheel or a tree. As JSON it is described in `docs/json.md`.
#[derive(Debug, Serialize)]
pub(crate) struct InspectReport {
    /// What the split consists of.
    #[serde(flatten)]
    pub summary: Summary,
    /// How large its parts are as files.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// Device code that has to stay where it is; `None` if it was not looked for.
    pub embedded: Option<Vec<EmbeddedSummary>>,
}

impl InspectReport {
    /// What is known now; see [`Sizes::make`].
    pub(crate) fn known(
        input: &Input,
        plan: &Plan,
        wheels: Option<&WheelSet>,
        embedded: Option<Vec<EmbeddedSummary>>,
    ) -> Self {
        let summary = Summary::of(input, plan);
        let sizes = SizedParts::of(input, plan, wheels).known(&summary);
        Self { summary, sizes, embedded }
    }
}
