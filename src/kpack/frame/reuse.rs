//! A frame that was made of an equal bundle.

use super::{Frame, MadeFrame};
use crate::sync::atomic::Ordering;

impl Frame {
    /// Whether it is the frame of a code object at the same place of an equal bundle.
    pub(in super::super) fn is_of_same_code(&self, other: &Self) -> bool {
        let place = |frame: &Self| (frame.object.offset, frame.size(), frame.level);
        self.selection.is_none() && other.selection.is_none() && place(self) == place(other)
    }

    /// Uses what was made of the same code, once: if that turns out to be damaged on disk, it is made again.
    pub(in super::super) fn take_over(&self, made: MadeFrame) {
        if self.has_taken_over.swap(true, Ordering::Relaxed)
            || *self.length.get_or_init(|| made.length()) != made.length()
        {
            return;
        }
        match made {
            MadeFrame::Stored(location) => self.resources.store.share(self.key(), location),
            MadeFrame::Held(bytes) => drop(self.resources.frames.put(self.id, bytes)),
        }
        self.resources.counters.cache_hits.add(1);
    }
}
