//! What tests ask of chunks.

use super::Chunks;
use crate::source::stream_index::StreamIndex;

impl Chunks {
    /// The index in its stored form.
    pub(in crate::source) fn export(&self) -> Option<StreamIndex> {
        StreamIndex::of(&self.state.lock().index, &self.stream)
    }

    /// Whether no decode is in flight.
    pub(in crate::source) fn is_idle(&self) -> bool {
        self.state.lock().decodes.is_empty()
    }

    /// Removes all chunks from the cache.
    pub(in crate::source) fn forget(&self) {
        let id = self.state.lock().id;
        self.drop_chunks(id);
    }

    /// Offsets of checkpoints.
    pub(in crate::source) fn checkpoints(&self) -> Vec<u64> {
        self.state.lock().index.checkpoints.iter().map(|checkpoint| checkpoint.boundary.output).collect()
    }
}
