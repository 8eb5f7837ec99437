//! Changes the content of an index, and corrects its checksum.

use crate::records::{close, open};

pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let body = if seed % 2 == 0 { open(&data[..size]) } else { None };
    let Some(mut body) = body else { return libfuzzer_sys::fuzzer_mutate(data, size, most) };
    let size = body.len();
    body.resize(size + most, 0);
    let room = body.len();
    let size = libfuzzer_sys::fuzzer_mutate(&mut body, size, room);
    let made = close(&body[..size]);
    if made.len() > most {
        return libfuzzer_sys::fuzzer_mutate(data, data.len().min(most), most);
    }
    data[..made.len()].copy_from_slice(&made);
    made.len()
}
