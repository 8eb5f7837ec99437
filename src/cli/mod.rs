//! The command line. All printing, progress bars and exit codes are here.

mod artifacts;
mod cache;
mod index;
mod inspect;
mod kpack;
mod lists;
mod mount;
mod options;
mod prepare;
mod progress;
mod recombine;
mod selection;
mod split;
mod status;
mod table;
mod unbundle;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code for everything that went wrong but the command line itself (which is 2, clap's).
const FAILURE: u8 = 1;

/// Shows a fat ROCm wheel or install tree as if it had been split by GPU architecture.
///
/// Exit codes: 0 success, 1 failure, 2 wrong command line.
#[derive(Debug, Parser)]
#[command(name = "kpackfs", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mount(mount::Mount),
    Umount(mount::Umount),
    Status(status::Status),
    Inspect(inspect::Inspect),
    Split(split::Split),
    Recombine(Box<recombine::Recombine>),
    Verify(verify::Verify),
    Kpack(kpack::Kpack),
    Index(index::Index),
    Cache(cache::Cache),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    crate::index::set_up_heap();
    log_to_stderr();
    let cli = Cli::parse_from(lists::bind(std::env::args_os()));
    let result = match cli.command {
        Command::Mount(command) => command.run(),
        Command::Umount(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Split(command) => command.run(),
        Command::Recombine(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Kpack(command) => command.run(),
        Command::Index(command) => command.run(),
        Command::Cache(command) => command.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kpackfs: {}", text(&error));
            ExitCode::from(FAILURE)
        }
    }
}

/// What the file system has to say while it serves: members that cannot be read, and the like.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
}

/// An error with its causes. Errors that quote their cause themselves are not followed by it once more.
fn text(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            text if text.ends_with(&cause) => text.to_owned(),
            text => format!("{text}: {cause}"),
        }
    })
}

/// Whoever reads our output may stop reading.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
