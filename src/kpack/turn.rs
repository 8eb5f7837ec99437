//! Who may make frames of several archives together: one at a time, so that nobody takes the room that another counts on.
//! Readers do not wait for an end of that, but for the frame that they have come to, which is made before others.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::frame::Frame;
use super::making::Client;

/// The turn. Those who have it make frames for all who wait.
#[derive(Debug, Default)]
pub(super) struct Turn {
    state: Mutex<State>,
    /// Told when a frame that somebody waits for is there, and when the turn ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    /// Turns that have ended.
    ended: u64,
    /// Frames that readers wait for, once for each.
    awaited: Vec<Arc<Frame>>,
}

/// The turn, for as long as this is there.
pub(super) struct Taken {
    turn: Arc<Turn>,
    /// How many had ended before.
    number: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.turn.lock();
        state.is_taken = false;
        state.ended += 1;
        drop(state);
        self.turn.changed.notify_all();
    }
}

impl Taken {
    /// What it is a turn of.
    pub(super) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Which turn it is.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn.
    pub(super) fn take(self: &Arc<Self>) -> Taken {
        let state = self.lock();
        let state = self.changed.wait_while(state, |state| state.is_taken).unwrap_or_else(PoisonError::into_inner);
        self.taken(state)
    }

    /// Waits for the turn, or for a frame. `None` if that is there, or was and has left already.
    pub(super) fn take_or_await(self: &Arc<Self>, frame: &Arc<Frame>) -> Option<Taken> {
        let state = self.await_frame(frame, |state| !state.is_taken);
        if state.is_taken || frame.is_there() { None } else { Some(self.taken(state)) }
    }

    /// Waits for a frame that is made in a turn, or for the end of that.
    pub(super) fn await_made(&self, frame: &Arc<Frame>, number: u64) {
        drop(self.await_frame(frame, |state| state.ended > number));
    }

    /// Waits until a frame is there, or nothing is to be waited for any more.
    fn await_frame(&self, frame: &Arc<Frame>, is_over: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.awaited.push(Arc::clone(frame));
        while !frame.is_there() && !is_over(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let own = state.awaited.iter().position(|awaited| awaited.id() == frame.id());
        own.map(|own| state.awaited.swap_remove(own));
        state
    }

    fn taken(self: &Arc<Self>, mut state: MutexGuard<'_, State>) -> Taken {
        state.is_taken = true;
        Taken { turn: Arc::clone(self), number: state.ended }
    }
}

impl Client for Turn {
    fn awaited(&self) -> Vec<Arc<Frame>> {
        self.lock().awaited.clone()
    }

    fn made(&self, frame: &Frame) {
        if self.lock().awaited.iter().any(|awaited| awaited.id() == frame.id()) {
            self.changed.notify_all();
        }
    }
}
