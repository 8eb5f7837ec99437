//! Saves what is learnt while an input is mounted.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::Resources;

/// How long news are gathered before they are written down.
const GATHER: Duration = Duration::from_secs(2);

/// Starts a thread that saves what is learnt, for as long as the process lives.
pub fn keep(resources: &Arc<Resources>) -> io::Result<()> {
    if resources.memory.file().is_none() {
        return Ok(());
    }
    resources.memory.set_mounted();
    let resources = Arc::clone(resources);
    let keep = move || {
        loop {
            resources.memory.wait_for_news();
            thread::sleep(GATHER);
            if !resources.memory.save_or_log() {
                // It will not get better by trying again and again.
                return;
            }
        }
    };
    thread::Builder::new().name("kpackfs-keeper".to_owned()).spawn(keep).map(drop)
}
