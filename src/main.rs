//! The `kpackfs` command.

use std::process::ExitCode;

use kpackfs::memory::Malloc;

#[global_allocator]
static MALLOC: Malloc = Malloc;

fn main() -> ExitCode {
    kpackfs::cli::run()
}
