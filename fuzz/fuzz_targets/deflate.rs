#![no_main]

#[path = "../bodies/deflate.rs"]
mod body;
#[path = "../bodies/records.rs"]
mod records;
#[path = "../bodies/support.rs"]
mod support;
#[path = "../bodies/zipped.rs"]
mod zipped;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
