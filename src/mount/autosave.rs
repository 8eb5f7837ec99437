//! Saves the index while an input is mounted.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::resources::Resources;
use crate::threads::{self, ThreadError};

/// How long changes are collected before they are saved.
const GATHER: Duration = Duration::from_secs(2);

/// Starts a thread that saves the index after changes until the process ends.
pub fn autosave(resources: &Arc<Resources>) -> Result<(), ThreadError> {
    if resources.index.file().is_none() {
        return Ok(());
    }
    resources.index.set_mounted();
    let resources = Arc::clone(resources);
    let save = move || {
        loop {
            resources.index.wait_for_changes();
            thread::sleep(GATHER);
            if !resources.index.save_or_log() {
                // Another attempt would fail as well.
                return;
            }
        }
    };
    threads::spawn("kpackfs-autosave", save).map(drop)
}
