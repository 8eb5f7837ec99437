//! Announces that the mount can be used, or how far it is: to the service manager, and in the file that the caller gave.

use std::fs::File;
use std::io::Write;
use std::os::fd::RawFd;
use std::process;

use sd_notify::NotifyState;

use super::{FsError, sys};

/// Tells `$NOTIFY_SOCKET`, if there is one, what state the mount is in, and in words (`sd_notify(3)`).
pub(super) fn notify(states: &[NotifyState], words: &str) {
    // A path may have a newline, behind which the service manager would see the next variable.
    let words = words.replace('\n', " ");
    let states = [states, &[NotifyState::Status(&words)]].concat();
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// A file that becomes readable, by a line in it, when the mount can be used; it ends without one when there will be no
/// mount. That is the protocol of s6 (notification-fd).
#[derive(Debug)]
pub struct ReadyFile(File);

impl ReadyFile {
    /// Takes over the open file with this number. Call it before this process opens any itself.
    pub fn inherit(number: RawFd) -> Result<Self, FsError> {
        sys::inherited(number).map(|file| Self(file.into())).map_err(FsError::system("--ready-fd"))
    }
}

/// The mount can be used.
pub(super) fn ready(file: Option<ReadyFile>, what: &str) {
    // A daemon is not the process that the service manager has started.
    notify(&[NotifyState::Ready, NotifyState::MainPid(process::id())], &format!("Serving {what}"));
    if let Some(ReadyFile(mut file)) = file
        && let Err(error) = file.write_all(b"ready\n")
    {
        tracing::warn!("--ready-fd: {error}");
    }
}
