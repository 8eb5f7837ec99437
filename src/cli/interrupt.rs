//! SIGINT, SIGTERM and SIGHUP while output is written: incomplete output is removed before the process ends.

use anyhow::Context;

use super::confinement;
use crate::export;
use crate::mount::signals::{self, ENDING, Signal};
use crate::threads;

/// Makes these signals remove [unfinished](export::remove_unfinished) output. Call it before this process has a second thread: a signal
/// goes to any thread that does not block it.
pub(super) fn watch() -> anyhow::Result<()> {
    // The end of a session over ssh sends SIGHUP, which `nohup` ignores.
    let ending = ENDING.into_iter().chain([libc::SIGHUP]);
    let signals: Vec<Signal> = ending.filter(|&signal| !signals::is_ignored(signal)).collect();
    signals::block(&signals).context("sigprocmask")?;
    threads::spawn("kpackfs-signals", move || listen(&signals))?;
    Ok(())
}

fn listen(signals: &[Signal]) {
    let Ok(signal) = signals::wait(signals) else { return };
    // The next signal ends the process at once.
    signals::unblock(signals).ok();
    // It stays locked, so that no other thread publishes output or reports a failure to write.
    let _unfinished = export::remove_unfinished();
    confinement::remove_empty();
    signals::die_of(signal)
}
