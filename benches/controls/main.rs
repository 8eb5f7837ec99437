//! The controls that `scripts/bench` compares kpackfs with, and its measuring instruments. Each subcommand prints one
//! line of JSON.
//!
//! `cargo bench --bench controls -- --help`

mod clock;
mod compress;
mod deflate;
mod inflate;
mod memfs;
mod read;
mod wake;

use clap::{Parser, Subcommand};

/// Controls and measuring instruments of scripts/bench.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// C1: serve a file or a directory from memory on a mount point, until it is unmounted
    Memfs(memfs::Memfs),
    /// C2: inflate members of a wheel into a reused buffer
    Inflate(inflate::Inflate),
    /// C3: decode all bundles of an input and compress its code objects
    Compress(compress::Compress),
    /// C4: deflate files, each in one stream
    Deflate(deflate::Deflate),
    /// Read files front to back, one after the other
    Sequential(read::Sequential),
    /// Read blocks in random order, each once
    Random(read::Random),
    /// Read files front to back, all at the same time
    Many(read::Many),
    /// Tell how long it takes to wake a thread
    Wake,
}

fn main() -> anyhow::Result<()> {
    // cargo bench adds an option, which is ignored.
    let arguments = Arguments::parse_from(std::env::args_os().filter(|argument| argument != "--bench"));
    match arguments.command {
        Command::Memfs(command) => command.run(),
        Command::Inflate(command) => print(&command.run()?),
        Command::Compress(command) => print(&command.run()?),
        Command::Deflate(command) => print(&command.run()?),
        Command::Sequential(command) => print(&command.run()?),
        Command::Random(command) => print(&command.run()?),
        Command::Many(command) => print(&command.run()?),
        Command::Wake => print(&wake::Woken::run()?),
    }
}

fn print(result: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}
