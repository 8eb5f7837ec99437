//! Returns memory that has been unused for a while to the system.

use std::time::Duration;

use super::budget::Budget;
use super::malloc::trim_malloc;

use crate::sync::{Arc, Mutex, thread};

/// Longer than the pauses between the requests of one reader, and short enough that an idle daemon soon looks small.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts events, so that the watching thread sees whether there were any since its last check.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<IdleState>);

#[derive(Debug, Default)]
struct IdleState {
    watched: bool,
    /// Number of things that became idle.
    events: u64,
}

impl Idle {
    /// Records that something became idle, and starts the watching thread unless it runs. The thread ends when it has
    /// released memory, or when the budget is dropped.
    pub(super) fn watch(self: &Arc<Self>, budget: &Arc<Budget>) {
        self.0.lock().events += 1;
        // No time passes in tests of schedules, and unit tests count work, of which a pause on a busy machine must not make more.
        if !cfg!(any(test, feature = "shuttle")) {
            self.start(budget);
        }
    }

    /// Starts the watching thread unless it runs.
    pub(super) fn start(self: &Arc<Self>, budget: &Arc<Budget>) {
        let mut state = self.0.lock();
        if state.watched {
            return;
        }
        let (idle, budget) = (Arc::clone(self), Arc::downgrade(budget));
        let work = move || {
            let mut seen = 0;
            loop {
                thread::sleep(PATIENCE);
                let Some(budget) = budget.upgrade() else { return };
                let mut state = idle.0.lock();
                if state.events == seen {
                    state.watched = false;
                    drop(state);
                    budget.release_unused();
                    // Returns free pages between pieces that are still in use.
                    trim_malloc();
                    return;
                }
                seen = state.events;
            }
        };
        // If the thread cannot be started, idle memory stays until the budget needs it.
        state.watched = thread::Builder::new().name("kpackfs-idle".to_owned()).spawn(work).is_ok();
    }
}
