#![no_main]

#[path = "../bodies/index_file.rs"]
mod body;
#[path = "../mutators/index.rs"]
mod mutator;
#[path = "../bodies/records.rs"]
mod records;
#[path = "../bodies/support.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutator::mutate(data, size, most, seed)
});
