//! `mount.kpackfs`: what mount(8) starts for the file system type `kpackfs`.

fn main() {}
