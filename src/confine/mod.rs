//! Confinement: what the code of this process can no longer do, whatever an input makes it do.
//!
//! The kernel enforces each layer until the process ends. A layer that this kernel or container lacks is left out,
//! since an input can be read without it; [`state`] says why. `SECURITY.md` says what each layer stops.

mod calls;
mod files;
mod privileges;
#[cfg(debug_assertions)]
mod testing;

use std::fmt::Display;

use parking_lot::Mutex;
use rustix::thread::CapabilitySet;
use serde::Serialize;

pub(crate) use self::calls::Calls;
pub(crate) use self::files::{FileRules, WriteAccess};
pub(crate) use self::privileges::can_mount;
#[cfg(debug_assertions)]
pub(crate) use self::testing::{try_actions, try_files, try_threads};

/// One layer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConfinementLayer {
    /// What it restricts.
    pub(crate) layer: &'static str,
    /// Whether the kernel enforces it.
    pub(crate) in_force: bool,
    /// How much of it is in force, or why it is not.
    pub(crate) detail: String,
}

/// The layer that restricts files.
pub(crate) const FILES: &str = "files";

/// What this process has asked for, in the order of the first time.
static STATE: Mutex<Vec<ConfinementLayer>> = Mutex::new(Vec::new());

/// The layers of this process; none if it is not confined.
pub(crate) fn state() -> Vec<ConfinementLayer> {
    STATE.lock().clone()
}

fn record(layer: &'static str, result: Result<String, impl Display>) {
    let in_force = result.is_ok();
    let detail = result.unwrap_or_else(|error| error.to_string());
    let mut state = STATE.lock();
    state.retain(|other| other.layer != layer);
    state.push(ConfinementLayer { layer, in_force, detail });
}

/// No core dumps, since these would have what was read. They are refused for the whole process.
pub(crate) fn refuse_core_dumps() {
    record("core dumps", privileges::refuse_core_dumps());
}

/// Drops all capabilities of this thread but these. Threads that it starts have no others.
pub(crate) fn keep_capabilities(kept: CapabilitySet) {
    record("capabilities", privileges::keep_capabilities(kept));
}

/// No set-user-ID program and no file capability has an effect on this thread and those that it starts.
pub(crate) fn refuse_new_privileges() {
    record("new privileges", privileges::refuse_new_privileges());
}

/// Restricts the files that this thread, and those that it starts, can open, create and remove (Landlock).
pub(crate) fn restrict_files(rules: Result<&FileRules, &'static str>) {
    record(FILES, rules.map_err(ToOwned::to_owned).and_then(files::restrict));
}

/// Restricts the system calls of all threads (seccomp).
pub(crate) fn restrict_calls(calls: Calls) {
    record("system calls", calls::restrict(calls));
}

/// Says why a layer is not used.
pub(crate) fn leave_out(layer: &'static str, reason: &str) {
    record(layer, Err(reason));
}
