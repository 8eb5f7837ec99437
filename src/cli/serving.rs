//! Options of all commands that mount, and their implementation.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};

use super::confinement;
use super::failure::{FAILURE, NOT_UNDERSTOOD, code, text};
use super::log;
use super::said::{say, say_mounted};
use crate::confine::Calls;
use crate::export::Inputs;
use crate::fs::PassthroughChoice;
use crate::mount::{self, MountError, MountOptions, ReadyFile, ServeOptions, Served, Transport, autosave};
use crate::opened::NotUnderstood;

/// Options of mounting and serving.
#[derive(Debug, Args)]
#[group(id = "serving")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct Serving {
    /// Stay in the foreground
    #[arg(short, long, help_heading = "Mount")]
    foreground: bool,

    /// Let other users use the mount
    #[arg(long, help_heading = "Mount")]
    allow_other: bool,

    /// Neither run programs nor load libraries from the mount
    #[arg(long, hide_short_help = true, help_heading = "Mount")]
    noexec: bool,

    /// Let the kernel read files by itself (FUSE passthrough)
    #[arg(long, hide_short_help = true, value_enum, value_name = "WHEN", default_value_t = PassthroughChoice::Auto, help_heading = "Mount")]
    passthrough: PassthroughChoice,

    /// The same as `--passthrough off`
    #[arg(long, hide = true, conflicts_with = "passthrough", help_heading = "Mount")]
    no_passthrough: bool,

    /// How requests of the kernel travel
    #[arg(long, hide_short_help = true, value_enum, value_name = "KIND", default_value_t = Transport::Auto, help_heading = "Mount")]
    transport: Transport,

    /// Append messages to this file
    ///
    /// The default is stderr in the foreground, and the system's log (syslog, journald) otherwise.
    #[arg(long, value_name = "FILE", help_heading = "Mount", hide_short_help = true)]
    log_file: Option<PathBuf>,

    /// Write a line to this open file when the mount is ready
    ///
    /// If mounting fails, the file is closed without one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..), help_heading = "Mount", hide = true)]
    ready_fd: Option<i32>,

    /// Do everything except mounting
    #[arg(long, hide = true, help_heading = "Mount")]
    fake: bool,

    /// Mount in this mount namespace, such as /proc/PID/ns/mnt
    #[arg(long, hide = true, value_name = "FILE", help_heading = "Mount")]
    namespace: Option<PathBuf>,
}

/// The transport that was chosen, which the environment may name in place of `auto`.
fn resolve(transport: Transport) -> anyhow::Result<Transport> {
    match std::env::var_os("KPACKFS_TRANSPORT") {
        Some(name) if transport == Transport::Auto && !name.is_empty() => {
            let name = name.to_string_lossy();
            Transport::from_str(&name, false)
                .map_err(|_| anyhow!("KPACKFS_TRANSPORT={name}: it is auto, uring or dev-fuse"))
        }
        _ => Ok(transport),
    }
}

/// An absolute path, which stays valid when a daemon changes its working directory.
pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

/// Refuses input that cannot be read at random: compressed streams, also as artifacts.
fn check_mountable(inputs: &Inputs) -> anyhow::Result<()> {
    match inputs.stream() {
        Some(stream) => Err(NotUnderstood::Stream(stream.to_owned()).into()),
        None => Ok(()),
    }
}

impl Serving {
    /// Mounts the tree that `prepare` makes from `source`, which with others is one of `inputs`, and serves it. In the background,
    /// `prepare` runs in the daemon.
    pub(super) fn serve(
        &self,
        source: &Path,
        inputs: &Inputs,
        mount_point: &Path,
        prepare: impl FnOnce() -> anyhow::Result<Served>,
    ) -> anyhow::Result<()> {
        self.log_file.as_ref().map_or(Ok(()), |file| inputs.check_written(file).context("--log-file"))?;
        check_mountable(inputs)?;
        // Before any file is opened that could get this number.
        let ready = self.ready_fd.map(ReadyFile::inherit).transpose()?;
        if let Some(path) = &self.log_file {
            log::to_file(path)?;
        }
        let place = mount_point;
        let mount_point = absolute(place)?;
        let mount = MountOptions {
            mount_point: mount_point.clone(),
            source: source.to_owned(),
            allow_other: self.allow_other,
            no_exec: self.noexec,
            passthrough: if self.no_passthrough { PassthroughChoice::Off } else { self.passthrough },
            transport: resolve(self.transport)?,
        };
        let keeps_files = inputs.has_open_file();
        let options = ServeOptions { mount, foreground: self.foreground, is_fake: self.fake, ready, keeps_files };
        if let Some(namespace) = &self.namespace {
            mount::enter_namespace(namespace)?;
        }
        confinement::confine_daemon();
        let usable = || {
            confinement::restrict_daemon(Calls::Mounted);
            if self.foreground {
                say(&format!("mounted on {}", mount_point.display()));
            } else {
                log::to_system();
            }
        };
        let prepare = || {
            confinement::restrict_daemon(Calls::Mounting);
            let served = prepare().and_then(|served| Ok(autosave(&served.resources).map(|()| served)?));
            served.map_err(|error: anyhow::Error| MountError::Prepare {
                reason: text(&error),
                is_understood: code(&error, FAILURE) != NOT_UNDERSTOOD,
            })
        };
        mount::serve(options, prepare, usable)?;
        // A caller that waits for the file knows already, and one that made the mount unmounts it.
        if !self.foreground && !self.fake && self.ready_fd.is_none() && !place.starts_with("/dev/fd") {
            say_mounted(place);
        }
        Ok(())
    }
}
