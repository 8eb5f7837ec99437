#![no_main]

#[path = "../bodies/ring_request.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
