//! Demands for frames that were made meanwhile.

use super::{Demand, JobKey, Schedule};
use crate::kpack::frame::{Frame, MadeFrame};
use crate::sync::Arc;

impl Schedule {
    /// The frames of a job that no thread makes yet.
    pub(in super::super) fn pending(&self, key: JobKey) -> Vec<Arc<Frame>> {
        let job = self.jobs.get(&key).into_iter();
        job.flat_map(|job| &job.pending).map(|demand| Arc::clone(&demand.frame)).collect()
    }

    /// Takes out the demands of a job for frames that are there. Removes the job if no demand is left, and returns whether one
    /// is.
    pub(in super::super) fn take_met(&mut self, key: JobKey) -> (Vec<(Demand, MadeFrame)>, bool) {
        let Some(job) = self.jobs.get_mut(&key) else { return (Vec::new(), false) };
        let mut met = Vec::new();
        for demand in std::mem::take(&mut job.pending) {
            match demand.frame.made() {
                Some(made) => {
                    job.frames.remove(&demand.frame.id());
                    met.push((demand, made));
                }
                None => job.pending.push_back(demand),
            }
        }
        let is_left = !job.pending.is_empty();
        if !is_left {
            self.remove(key);
        }
        (met, is_left)
    }
}
