//! `why` on machines that are described by files: their GPUs, and the databases of installed libraries.

mod forms;
mod overrides;
mod situations;

use std::path::{Path, PathBuf};

const KPACKFS: &str = env!("CARGO_BIN_EXE_kpackfs");

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}
