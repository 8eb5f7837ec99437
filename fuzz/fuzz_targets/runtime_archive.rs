#![no_main]

#[path = "../bodies/runtime_archive.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
