//! What stays known of the inputs of parts.

use crate::source::{Attributes, Input, ListedState, Witnesses};

/// The inputs of parts, when they were listed.
#[derive(Clone, Debug, Default)]
pub struct PartInputs {
    /// Contents that show whether an input has changed.
    pub witnesses: Witnesses,
    /// The state of each.
    pub states: Vec<ListedState>,
    /// Who can read all of each.
    pub readers: Vec<Attributes>,
}

impl PartInputs {
    pub(super) fn add(&mut self, input: &Input) {
        self.witnesses.extend(input.witnesses());
        self.states.push(input.state());
        self.readers.push(input.readers());
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.witnesses.extend(other.witnesses);
        self.states.extend(other.states);
        self.readers.extend(other.readers);
    }
}
