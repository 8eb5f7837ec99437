#![no_main]

#[path = "../bodies/artifact_manifest.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
