//! The command line. All printing, progress bars and exit codes are here.

mod artifacts;
mod cache;
mod diff;
mod failure;
mod generate;
mod index;
mod inspect;
mod interrupt;
mod json;
mod kpack;
mod lists;
mod log;
mod mount;
mod mount8;
mod options;
mod pack;
mod prepare;
mod progress;
mod recombine;
mod replacing;
mod selection;
mod serving;
mod split;
mod status;
mod terminal;
mod thin_wheels;
mod unbundle;
mod verify;
mod why;
mod writing;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::failure::{FAILURE, is_broken_pipe, text};

use crate::report::table;

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
    Status(status::StatusArguments),
    Inspect(inspect::Inspect),
    Split(split::Split),
    Recombine(Box<recombine::Recombine>),
    Verify(verify::Verify),
    Why(why::Why),
    Diff(Box<diff::Compare>),
    Kpack(kpack::Kpack),
    Index(index::IndexArguments),
    Cache(cache::CacheArguments),
    Generate(generate::Generate),
}

/// Runs the command in the arguments.
pub fn run() -> ExitCode {
    if let Err(error) = prepare::check_address_space(0) {
        eprintln!("kpackfs: {error}");
        return ExitCode::from(FAILURE);
    }
    crate::memory::set_up_malloc();
    log::start();
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(caller) = mount8::caller(&arguments, &Cli::command()) {
        return mount8::run(caller, arguments, &Cli::command(), |command| {
            Ok(Cli::try_parse_from(command)?.command.run())
        });
    }
    match Cli::parse_from(lists::bind(arguments)).command.run() {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(of_usage) => of_usage.exit(),
            Err(error) => {
                eprintln!("kpackfs: {}", terminal::message(&text(&error)));
                ExitCode::from(FAILURE)
            }
        },
    }
}

impl Command {
    fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Mount(command) => command.run(),
            Self::Umount(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Inspect(command) => command.run(),
            Self::Split(command) => command.run(),
            Self::Recombine(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Why(command) => command.run(),
            Self::Diff(command) => command.run(),
            Self::Kpack(command) => command.run(),
            Self::Index(command) => command.run(),
            Self::Cache(command) => command.run(),
            Self::Generate(command) => command.run(&Cli::command()),
        }
    }
}
