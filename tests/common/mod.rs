//! What suites share: whether anything can be mounted here, and saying that something is skipped.

#![allow(dead_code, reason = "no suite needs all of it")]

use std::fs::OpenOptions;
use std::io::Write;

/// Says that something is not tested, past the test harness, which shows nothing of a test that passes.
pub(crate) fn skipped(why: &str) {
    std::io::stderr().write_all(format!("\n*** SKIPPED: {why} ***\n").as_bytes()).unwrap();
}

/// Whether `/dev/fuse` can be opened. If not, says that the test is skipped, or fails with `KPACKFS_REQUIRE_FUSE=1`, which CI sets: there
/// a test that mounts nothing must not pass.
pub(crate) fn can_mount() -> bool {
    let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") else { return true };
    let is_required = std::env::var_os("KPACKFS_REQUIRE_FUSE").is_some_and(|value| value == "1");
    assert!(!is_required, "/dev/fuse cannot be opened ({error}), and KPACKFS_REQUIRE_FUSE=1 demands it");
    skipped(&format!("/dev/fuse cannot be opened ({error}); NOTHING was mounted or checked"));
    false
}
