//! Gives memory back to the system that work left behind and that nobody has needed for a while.

use std::time::Duration;

use super::budget::Budget;
use super::malloc::trim_malloc;

use crate::sync::{Arc, Mutex, PoisonError, thread};

/// Longer than there is between the requests of a reader, shorter than a user looks at an idle daemon.
const PATIENCE: Duration = Duration::from_secs(2);

/// Knows whether something happened since it looked last.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<IdleState>);

#[derive(Debug, Default)]
struct IdleState {
    watched: bool,
    /// Number of things that became idle.
    events: u64,
}

impl Idle {
    /// Something became idle. Starts the thread that watches, unless there is one; it ends when it has done its work, or
    /// when the budget is gone.
    pub(super) fn watch(self: &Arc<Self>, budget: &Arc<Budget>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.events += 1;
        // In tests of schedules no time passes.
        if state.watched || cfg!(feature = "shuttle") {
            return;
        }
        let (idle, budget) = (Arc::clone(self), Arc::downgrade(budget));
        let work = move || {
            let mut seen = 0;
            loop {
                thread::sleep(PATIENCE);
                let Some(budget) = budget.upgrade() else { return };
                let mut state = idle.0.lock().unwrap_or_else(PoisonError::into_inner);
                if state.events == seen {
                    state.watched = false;
                    drop(state);
                    budget.release_unused();
                    // Small pieces are given back between what is still in use.
                    trim_malloc();
                    return;
                }
                seen = state.events;
            }
        };
        // Without a thread things stay until the budget needs them.
        state.watched = thread::Builder::new().name("kpackfs-idle".to_owned()).spawn(work).is_ok();
    }
}
