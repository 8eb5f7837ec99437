//! Announces that the mount is ready, or its progress, to the service manager and in the file that the caller gave.

use std::fs::File;
use std::io::Write;
use std::os::fd::RawFd;
use std::process;

use sd_notify::NotifyState;

use super::{MountError, sys};

/// Reports the state of the mount to `$NOTIFY_SOCKET`, if it is set, with a description (`sd_notify(3)`).
pub(crate) fn notify(states: &[NotifyState], words: &str) {
    // A path may contain a newline, after which the service manager would read another variable.
    let words = words.replace('\n', " ");
    let states = [states, &[NotifyState::Status(&words)]].concat();
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// Reports that nothing is mounted, and why.
pub(crate) fn tell_failure(reason: &str) {
    notify(&[], &format!("Not mounted: {reason}"));
}

/// A file that gets a line when the mount is ready. It is closed without one if mounting fails. This is the protocol of
/// s6 (notification-fd).
#[derive(Debug)]
pub struct ReadyFile(File);

impl ReadyFile {
    /// Takes over the open file with this number. Call it before this process opens any file.
    pub fn inherit(number: RawFd) -> Result<Self, MountError> {
        sys::inherited(number).map(|file| Self(file.into())).map_err(MountError::system("--ready-fd"))
    }
}

/// Announces that the mount is ready.
pub(super) fn say_ready(file: Option<ReadyFile>, what: &str) {
    // A daemon is not the process that the service manager started.
    notify(&[NotifyState::Ready, NotifyState::MainPid(process::id())], &format!("Serving {what}"));
    if let Some(ReadyFile(mut file)) = file
        && let Err(error) = file.write_all(b"ready\n")
    {
        tracing::warn!("--ready-fd: {error}");
    }
}
