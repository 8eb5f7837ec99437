//! How requests travel: the choice between rings and `/dev/fuse`, and what happens when a ring fails.

use std::os::fd::OwnedFd;
use std::process;
use std::sync::Arc;

use clap::ValueEnum;

use super::error::MountError;
use crate::fs::{Answers, RingError, Rings};
use crate::metrics::TransportState;
use crate::resources::Resources;

/// What [`Transport`] is called in the status.
const RINGS: &str = "uring";
const DEV_FUSE: &str = "dev-fuse";

/// How requests of the kernel and replies travel. The help of the command line has the first paragraphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Through `io_uring` where an administrator of Linux 6.14 allows it, else through /dev/fuse, unless the environment
    /// variable `KPACKFS_TRANSPORT` names one of them
    ///
    /// The status tells which, and why.
    Auto,
    /// Through queues of `io_uring`, one for each processor
    ///
    /// Mounting fails where the kernel does not allow it.
    Uring,
    /// Through /dev/fuse
    ///
    /// By read(2) and write(2).
    DevFuse,
}

/// Rings that are ready to be started. An error if there shall be none, with the reason unless it is the caller's choice.
pub(super) type PreparedRings = Result<Rings, Option<RingError>>;

/// Prepares rings where the transport wants some.
pub(super) fn prepare(transport: Transport, answers: &Arc<Answers>) -> Result<PreparedRings, MountError> {
    match transport {
        Transport::DevFuse => Ok(Err(None)),
        Transport::Auto => Ok(Rings::prepare(answers).map_err(Some)),
        Transport::Uring => Ok(Ok(Rings::prepare(answers)?)),
    }
}

/// Starts rings that are prepared, after the kernel's INIT, and records the transport in the status. Without rings, requests
/// travel through `/dev/fuse`. `fail` is called if a ring fails later.
pub(super) fn start(
    transport: Transport,
    prepared: PreparedRings,
    device: &Arc<OwnedFd>,
    fail: impl Fn(RingError) + Send + Sync + 'static,
    resources: &Resources,
) -> Result<Option<Rings>, MountError> {
    let started = prepared.and_then(|mut rings| rings.start(device, fail).map(|()| rings).map_err(Some));
    let (kind, reason, rings) = match started {
        Ok(rings) => (RINGS, None, Some(rings)),
        Err(Some(error)) if transport == Transport::Uring || !error.falls_back() => return Err(error.into()),
        Err(reason) => (DEV_FUSE, reason.map(|reason| reason.to_string()), None),
    };
    resources.transport.set(TransportState { kind, reason }).ok();
    Ok(rings)
}

/// Ends this process after a ring has failed. Readers of its processor wait for answers. They get an error when the kernel
/// ends the filesystem, which it does when no process has its device any longer.
pub(super) fn give_up(
    unmount: impl Fn() + Send + Sync + 'static,
    resources: Arc<Resources>,
) -> impl Fn(RingError) + Send + Sync + 'static {
    move |error| {
        tracing::error!("{error}");
        unmount();
        resources.index.save_or_log();
        process::exit(1)
    }
}
