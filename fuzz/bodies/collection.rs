//! Reads arbitrary bytes as `collect.json`.

use kpackfs::collect::stated_gpus;
use kpackfs::gpu::GpuSet;

/// Checks bytes that may be a statement: their GPUs are the name of one directory, and of the same set.
pub(crate) fn run(bytes: &[u8]) {
    let Some(gpus) = stated_gpus(bytes) else { return };
    let name = gpus.to_string();
    assert!(!name.contains('/') && name.parse::<GpuSet>().is_ok_and(|again| again == gpus), "{name}");
}
