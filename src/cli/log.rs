//! Where messages go: those of the file system while it serves, such as members that cannot be read, and the like.
//!
//! They go to stderr; those of a daemon to the system's log, once it has left the terminal. glibc's syslog(3) speaks to
//! /dev/log, at which journald listens as well. If there is a log file, everything goes there.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use syslog_tracing::{Facility, Options, Syslog};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::fmt::writer::{MakeWriterExt, OptionalWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

static FILE: OnceLock<File> = OnceLock::new();
static IS_DETACHED: AtomicBool = AtomicBool::new(false);

/// To be called once, before anything can be said. `RUST_LOG` says what is (default: warnings and errors).
pub(super) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let terminal = layer().with_writer(terminal).with_ansi(io::stderr().is_terminal()).without_time();
    let file = layer().with_writer(file).with_ansi(false);
    // It is there once in a process. The log has its own column for the level, in which it can be looked for.
    let system = Syslog::new(c"kpackfs", Options::LOG_PID, Facility::Daemon);
    let system = system.map(|syslog| {
        let writer = syslog.with_filter(|_| is_detached() && FILE.get().is_none());
        layer().with_writer(writer).with_ansi(false).without_time().with_level(false).with_target(false)
    });
    registry().with(filter).with(terminal).with(file).with(system).init();
}

/// Has everything appended to a file from now on.
pub(super) fn to_file(path: &Path) -> anyhow::Result<()> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    // That there is one already cannot be: there is one command in a process.
    FILE.set(file.with_context(|| format!("--log-file {}", path.display()))?).ok();
    Ok(())
}

/// Has everything go to the system's log from now on, unless there is a log file: nobody is at the terminal any more.
pub(super) fn to_system() {
    IS_DETACHED.store(true, Ordering::Relaxed);
}

fn is_detached() -> bool {
    IS_DETACHED.load(Ordering::Relaxed)
}

fn terminal() -> OptionalWriter<io::Stderr> {
    if is_detached() || FILE.get().is_some() { OptionalWriter::none() } else { OptionalWriter::some(io::stderr()) }
}

fn file() -> OptionalWriter<impl Write> {
    FILE.get().map_or_else(OptionalWriter::none, OptionalWriter::some)
}
