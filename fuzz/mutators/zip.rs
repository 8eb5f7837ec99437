//! Changes a zip file, and then corrects most of what would end every scan early: offsets, lengths and checksums.

use std::io::Read;

use flate2::read::DeflateDecoder;

pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let size = libfuzzer_sys::fuzzer_mutate(data, size, most);
    if seed % 4 != 0 {
        mend(&mut data[..size], seed);
    }
    size
}

fn find(data: &[u8], signature: &[u8; 4]) -> Vec<usize> {
    data.windows(4).enumerate().filter(|(_, there)| there == signature).map(|(at, _)| at).take(64).collect()
}

fn mend(data: &mut [u8], seed: u32) -> Option<()> {
    let end = *find(data, b"PK\x05\x06").last()?;
    let central = find(data, b"PK\x01\x02");
    let local = find(data, b"PK\x03\x04");
    let start = *central.first()?;
    put(data, end + 16, start as u64, 4)?;
    put(data, end + 12, end.checked_sub(start)? as u64, 4)?;
    put(data, end + 8, central.len() as u64, 2)?;
    put(data, end + 10, central.len() as u64, 2)?;
    for (number, (&header, &place)) in central.iter().zip(&local).enumerate() {
        // One in eight is not corrected.
        if (seed >> (number % 16 + 2)) % 8 == 0 {
            continue;
        }
        put(data, header + 42, place as u64, 4)?;
        let name = get(data, place + 26, 2)? + get(data, place + 28, 2)?;
        let from = place + 30 + name as usize;
        let to = local.get(number + 1).copied().unwrap_or(start);
        let packed = data.get(from..to).unwrap_or_default().to_vec();
        put(data, header + 20, packed.len() as u64, 4)?;
        let mut content = Vec::new();
        if get(data, header + 10, 2)? == 8 {
            drop(DeflateDecoder::new(&*packed).take(4 << 20).read_to_end(&mut content));
        } else {
            content = packed;
        }
        put(data, header + 24, content.len() as u64, 4)?;
        put(data, header + 16, crc32fast::hash(&content).into(), 4)?;
    }
    Some(())
}

fn get(data: &[u8], at: usize, bytes: usize) -> Option<u64> {
    Some(data.get(at..at + bytes)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

fn put(data: &mut [u8], at: usize, value: u64, bytes: usize) -> Option<()> {
    data.get_mut(at..at + bytes)?.copy_from_slice(&value.to_le_bytes()[..bytes]);
    Some(())
}
