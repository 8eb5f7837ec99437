//! The `kpackfs` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kpackfs::cli::run()
}
