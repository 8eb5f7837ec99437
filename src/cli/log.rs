//! The destination of log messages.
//!
//! They go to stderr. A daemon's messages go to the system's log once it has left the terminal: glibc's syslog(3)
//! writes to /dev/log, where journald listens as well. If there is a log file, all messages go there.

use std::fmt::{self, Debug};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use syslog_tracing::{Facility, Options, Syslog};
use tracing::field::Field;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::writer::{MakeWriterExt, OptionalWriter};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

use super::terminal::message;

static FILE: OnceLock<File> = OnceLock::new();
static IS_DETACHED: AtomicBool = AtomicBool::new(false);

/// Starts logging. Call it once, before the first message. `RUST_LOG` selects messages (default: warnings and errors).
pub(super) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let terminal = layer().fmt_fields(fields()).event_format(TerminalFormat).with_writer(terminal);
    let file = layer().fmt_fields(fields()).with_writer(file).with_ansi(false);
    // There is one per process. The log has its own column for the level.
    let system = Syslog::new(c"kpackfs", Options::LOG_PID, Facility::Daemon);
    let system = system.map(|syslog| {
        let writer = syslog.with_filter(|_| is_detached() && FILE.get().is_none());
        layer()
            .fmt_fields(fields())
            .with_writer(writer)
            .with_ansi(false)
            .without_time()
            .with_level(false)
            .with_target(false)
    });
    registry().with(filter).with(terminal).with(file).with(system).init();
}

/// Messages as the command prints its own: "kpackfs: warning: …".
struct TerminalFormat;

impl<S, F> FormatEvent<S, F> for TerminalFormat
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    F: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, F>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        };
        write!(writer, "kpackfs: {level}: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Writes the fields of a message on one line, escaped: `path` and others come from inputs.
fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        let value = message(&format!("{value:?}"));
        if field.name() == "message" { write!(writer, "{value}") } else { write!(writer, "{field}={value}") }
    };
    debug_fn(write).delimited(" ")
}

/// Appends all messages to a file from now on.
pub(super) fn to_file(path: &Path) -> anyhow::Result<()> {
    // Opening a FIFO waits for a reader, and writing to it waits until the reader reads.
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        bail!("--log-file {}: it is a FIFO; name a file", path.display());
    }
    #[expect(clippy::disallowed_methods, reason = "a terminal or another device is a fine place for messages")]
    let file = OpenOptions::new().append(true).create(true).open(path);
    // A process runs one command, so the file is set once.
    FILE.set(file.with_context(|| format!("--log-file {}", path.display()))?).ok();
    Ok(())
}

/// Sends messages to the system's log from now on, unless there is a log file: nobody is at the terminal any more.
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
