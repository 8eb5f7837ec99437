//! From the command to the daemon: prepare, mount, report to the caller, detach from the terminal, handle signals.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sd_notify::NotifyState;

use super::announce::{ReadyFile, notify, say_ready, tell_failure};
use super::signals::{self, ENDING};
use super::{Fault, MountError, MountOptions, Mounted, Served, Unmounter, check, ending, mount, sys};
use crate::{disk, threads};

/// Bytes of a message in the status pipe. One write of up to this size is atomic (`PIPE_BUF`, pipe(7)).
const MAX_REASON: usize = 512;

/// Replaces the omitted middle of a reason.
const OMITTED: &str = "[…]";

const READY: u8 = 0;

/// Options of serving a mount.
#[derive(Debug)]
pub struct ServeOptions {
    /// Options of mounting.
    pub mount: MountOptions,
    /// Whether this process serves the mount. Otherwise a daemon does.
    pub foreground: bool,
    /// Whether to do everything except mounting.
    pub is_fake: bool,
    /// Where to report that the mount is ready.
    pub ready: Option<ReadyFile>,
    /// Whether the daemon keeps what it inherited open, because the input is such a file. Otherwise who started it may wait for a lock or for
    /// the end of a pipe.
    pub keeps_files: bool,
}

/// Enters the mount namespace of a file such as `/proc/PID/ns/mnt`, to mount there. Call it before this process has a
/// second thread.
pub fn enter_namespace(file: &Path) -> Result<(), MountError> {
    let failed = |source| MountError::MountPoint { path: file.to_owned(), source };
    let (namespace, _) = disk::open(file).map_err(failed)?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount)).map_err(|error| failed(error.into()))
}

/// Prepares a tree, mounts it, and serves it until it is unmounted or a signal arrives.
///
/// `prepare` makes the tree. `ready` runs as soon as the mount is ready. Both may write to the terminal.
///
/// In the foreground this returns when the mount has ended. Otherwise it returns to the caller as soon as the daemon is
/// ready or has failed. `prepare` and `ready` run in the daemon, which ends its process in this function. It therefore
/// has to be called before the process has a second thread.
///
/// SIGTERM unmounts lazily and waits until the mount is no longer in use. SIGINT unmounts at once, or lazily as well if
/// the mount is in use. A second signal ends the process at once. So does the first one if the caller made the mount
/// (see [`mount`]).
///
/// A service manager is notified of each step (`sd_notify(3)`).
pub fn serve(
    options: ServeOptions,
    prepare: impl FnOnce() -> Result<Served, MountError>,
    ready: impl FnOnce(),
) -> Result<(), MountError> {
    if options.is_fake {
        return try_out(&options.mount, prepare);
    }
    if options.foreground {
        return start(options, prepare)?.serve(ready);
    }
    let (reader, writer) = std::io::pipe().map_err(MountError::system("pipe"))?;
    if let Some(child) = sys::fork()? {
        drop(writer);
        return hear(reader, child);
    }
    drop(reader);
    process::exit(i32::from(daemon(options, prepare, ready, writer).is_err()))
}

/// Everything except mounting.
fn try_out(options: &MountOptions, prepare: impl FnOnce() -> Result<Served, MountError>) -> Result<(), MountError> {
    check_early(options)?;
    prepare().map(drop)
}

/// Checks options early, because preparing may take minutes.
fn check_early(options: &MountOptions) -> Result<(), MountError> {
    match check(options) {
        // Mounting removes the stale mount.
        Err(MountError::Stale(_)) => Ok(()),
        result => result.map(drop),
    }
}

fn daemon(
    options: ServeOptions,
    prepare: impl FnOnce() -> Result<Served, MountError>,
    ready: impl FnOnce(),
    mut writer: PipeWriter,
) -> Result<(), MountError> {
    let keeps_files = options.keeps_files;
    let detached = start(options, prepare).and_then(|running| {
        // Not earlier: until the mount is ready, the terminal's signal keys reach both processes.
        setsid().map_err(MountError::system("setsid"))?;
        std::env::set_current_dir("/").map_err(MountError::system("chdir"))?;
        #[expect(clippy::disallowed_methods, reason = "a device that never waits")]
        let null = OpenOptions::new().read(true).write(true).open("/dev/null");
        Ok((running, null.map_err(MountError::system("/dev/null"))?))
    });
    match detached {
        Ok((running, null)) => running.serve_as_daemon(ready, writer, &null, keeps_files),
        Err(error) => {
            // If the pipe is closed, no process reads the message.
            writer.write_all(&message(error.fault() as u8, &error.to_string())).ok();
            Err(error)
        }
    }
}

/// The message in the status pipe: one byte, and a reason. If the reason is too long, its middle is omitted, which is
/// that of a long name: the cause comes last.
fn message(status: u8, reason: &str) -> Vec<u8> {
    let mut message = vec![status];
    if reason.len() <= MAX_REASON {
        message.extend_from_slice(reason.as_bytes());
        return message;
    }
    let half = (MAX_REASON - OMITTED.len()) / 2;
    let head = (0..=half).rev().find_map(|end| reason.get(..end));
    let tail = (reason.len() - half..=reason.len()).find_map(|start| reason.get(start..));
    for part in [head, Some(OMITTED), tail] {
        message.extend_from_slice(part.unwrap_or_default().as_bytes());
    }
    message
}

/// Waits for the daemon's message.
fn hear(mut reader: PipeReader, child: Pid) -> Result<(), MountError> {
    let mut message = Vec::new();
    reader.read_to_end(&mut message).map_err(MountError::system("the daemon's status"))?;
    match message.split_first() {
        Some((&READY, _)) => Ok(()),
        Some((&status, reason)) => {
            // The daemon ends after its message. Waiting for it avoids a zombie.
            sys::wait(child).ok();
            let reason = String::from_utf8_lossy(reason).into_owned();
            let others = [Fault::System, Fault::NotUnderstood];
            let fault = others.into_iter().find(|fault| *fault as u8 == status).unwrap_or(Fault::Named);
            Err(MountError::Daemon { reason, fault })
        }
        None => {
            let status = sys::wait(child).map_err(MountError::system("waitpid"))?;
            let how = status.signal().map_or_else(|| status.to_string(), |signal| format!("killed by signal {signal}"));
            Err(MountError::DaemonDied(how))
        }
    }
}

/// A mount, and a thread that waits for signals.
struct Running {
    mounted: Mounted,
    ready: Option<ReadyFile>,
    /// A description of the mount for messages.
    what: String,
}

/// What a signal ends: nothing yet, or the mount. Locked while mounting, so that a signal waits for the result.
type SignalTarget = Arc<Mutex<Option<Unmounter>>>;

fn start(options: ServeOptions, prepare: impl FnOnce() -> Result<Served, MountError>) -> Result<Running, MountError> {
    let what = format!("{} on {}", options.mount.source.display(), options.mount.mount_point.display());
    notify(&[], &format!("Preparing {what}"));
    match start_quietly(&options.mount, prepare) {
        Ok(mounted) => {
            if let Some(Err(error)) = mounted.unmounter.entry.as_ref().map(ending::announce) {
                tracing::warn!("{what}: `kpackfs umount` will not wait for this process: {error}");
            }
            Ok(Running { mounted, ready: options.ready, what })
        }
        Err(error) => {
            tell_failure(&error.to_string());
            Err(error)
        }
    }
}

fn start_quietly(
    options: &MountOptions,
    prepare: impl FnOnce() -> Result<Served, MountError>,
) -> Result<Mounted, MountError> {
    check_early(options)?;
    // Before any other thread is created: a signal goes to any thread that does not block it.
    signals::block(&ENDING).map_err(MountError::system("sigprocmask"))?;
    signals::ignore(libc::SIGHUP);
    signals::ignore(libc::SIGPIPE);
    sys::raise_open_files().map_err(MountError::system("RLIMIT_NOFILE"))?;
    let target = SignalTarget::default();
    let listener = Arc::clone(&target);
    threads::spawn("kpackfs-signals", move || listen(&listener))?;
    let served = prepare()?;
    let mut target = target.lock();
    let mounted = mount(options, served)?;
    *target = Some(mounted.unmounter.clone());
    Ok(mounted)
}

fn listen(target: &SignalTarget) {
    let mut is_ending = false;
    while let Ok(signal) = signals::wait(&ENDING) {
        let target = target.lock().clone();
        let Some(unmounter) = target.filter(|_| !is_ending) else { signals::die_of(signal) };
        is_ending = true;
        notify(&[NotifyState::Stopping], "Waiting for those who still use the mount");
        let result = match unmounter.unmount(signal == libc::SIGTERM) {
            Err(MountError::Busy(path) | MountError::HasMount { path, .. }) => {
                tracing::warn!(path = %path.display(), "in use: unmounted lazily");
                unmounter.unmount(true)
            }
            Err(MountError::NotMade(_)) => signals::die_of(signal),
            result => result,
        };
        match result {
            Ok(()) => drop(threads::spawn("kpackfs-ending", move || unmounter.end_waiting())),
            // The mount stays, and serves.
            Err(error) => tracing::warn!(signal, "not unmounted: {error}"),
        }
    }
}

impl Running {
    fn serve(self, ready: impl FnOnce()) -> Result<(), MountError> {
        ready();
        say_ready(self.ready, &self.what);
        self.mounted.wait()
    }

    fn serve_as_daemon(
        self,
        ready: impl FnOnce(),
        mut writer: PipeWriter,
        null: &File,
        keeps_files: bool,
    ) -> Result<(), MountError> {
        ready();
        if !keeps_files {
            sys::close_inherited().map_err(MountError::system("/proc/self/fd"))?;
        }
        // Before the caller is notified: when that process ends, the service manager has to know the remaining one.
        say_ready(self.ready, &self.what);
        // If the caller is gone, no process knows of this mount: dropping it unmounts.
        writer.write_all(&message(READY, "")).map_err(MountError::system("the caller is gone"))?;
        // The caller waits for the end of the pipe.
        drop(writer);
        let replaced = dup2_stdin(null).and_then(|()| dup2_stdout(null)).and_then(|()| dup2_stderr(null));
        replaced.map_err(MountError::system("dup2"))?;
        self.mounted.wait().inspect_err(|error| tracing::error!("{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_lose_their_middle_between_characters() {
        assert_eq!(message(READY, ""), [READY]);
        let fits = "x".repeat(MAX_REASON);
        assert_eq!(message(1, &fits), [&[1], fits.as_bytes()].concat());
        for shift in 0..4 {
            let long = format!("{}/tree/{}: name too long", "x".repeat(shift), "日".repeat(3000));
            let message = message(1, &long);
            assert!(message.len() <= 1 + MAX_REASON && message.len() > MAX_REASON - 8, "{}", message.len());
            let text = std::str::from_utf8(&message[1..]).unwrap();
            assert!(text.contains("/tree/日") && text.contains("日[…]日") && text.ends_with("日: name too long"));
        }
    }
}
