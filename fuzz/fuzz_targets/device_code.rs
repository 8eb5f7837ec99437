#![no_main]

#[path = "../bodies/device_code.rs"]
mod body;
#[path = "../bodies/support.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
