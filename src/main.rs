//! The `kpackfs` command.

fn main() {}
