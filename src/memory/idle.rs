//! Releases what has been unused for a while, and returns free memory to the system.

use std::time::Duration;

use super::malloc::trim_malloc;
use crate::sync::{Arc, Mutex, thread};

/// Longer than the pauses between the requests of one reader, and short enough that an idle daemon soon looks small.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts events, so that the watching thread sees whether there were any since its last check.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<IdleState>);

#[derive(Debug, Default)]
struct IdleState {
    is_on: bool,
    watched: bool,
    /// Number of things that became idle.
    events: u64,
}

impl Idle {
    /// From now on, what is idle is released.
    pub(super) fn turn_on(&self) {
        self.0.lock().is_on = true;
    }

    /// Records that something of `owner` became idle, and starts the watching thread if it is turned on and does not run. The thread
    /// ends when it has called `release`, or when the owner is dropped.
    pub(super) fn watch<T: Send + Sync + 'static>(self: &Arc<Self>, owner: &Arc<T>, release: fn(&T)) {
        let mut state = self.0.lock();
        state.events += 1;
        if !state.is_on || state.watched {
            return;
        }
        let (idle, owner) = (Arc::clone(self), Arc::downgrade(owner));
        let work = move || {
            let mut seen = 0;
            loop {
                thread::sleep(PATIENCE);
                let Some(owner) = owner.upgrade() else { return };
                let mut state = idle.0.lock();
                if state.events == seen {
                    state.watched = false;
                    drop(state);
                    release(&owner);
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
