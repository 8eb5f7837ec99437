//! The `kpackfs` command.

use std::process::ExitCode;

use kpackfs::memory::Malloc;

#[global_allocator]
static MALLOC: Malloc = Malloc;

fn main() -> ExitCode {
    // Read here, so that another commit compiles this file only.
    kpackfs::cli::run(option_env!("KPACKFS_COMMIT"))
}
