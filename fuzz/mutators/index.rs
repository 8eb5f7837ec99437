//! Changes the content of a block of an index, and corrects its checksum.

use crate::records::{close, open};

pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let contents = if seed % 2 == 0 { open(&data[..size]) } else { None };
    let Some(mut contents) = contents.filter(|contents| !contents.is_empty()) else {
        return libfuzzer_sys::fuzzer_mutate(data, size, most);
    };
    let which = usize::try_from(seed / 2).unwrap_or_default() % contents.len();
    let body = &mut contents[which];
    let length = body.len();
    body.resize(length + most, 0);
    let room = body.len();
    let length = libfuzzer_sys::fuzzer_mutate(body, length, room);
    body.truncate(length);
    let contents: Vec<_> = contents.iter().map(Vec::as_slice).collect();
    let made = close(&contents);
    if made.len() > most {
        return libfuzzer_sys::fuzzer_mutate(data, data.len().min(most), most);
    }
    data[..made.len()].copy_from_slice(&made);
    made.len()
}
