//! Changes a compressed bundle, including its decompressed content.

use std::io::{Read, Write};

pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let inside = if seed % 2 == 0 { changed_inside(&data[..size], most) } else { None };
    if let Some(made) = inside.filter(|made| made.len() <= most) {
        data[..made.len()].copy_from_slice(&made);
        return made.len();
    }
    libfuzzer_sys::fuzzer_mutate(data, size, most)
}

fn changed_inside(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let header = bytes.strip_prefix(b"CCOB")?;
    let version = *header.first()?;
    let is_zstd = header.get(2) == Some(&1);
    let length = match version {
        1 => 20,
        2 => 24,
        _ => 32,
    };
    let (header, body) = bytes.split_at_checked(length)?;
    let mut plain = Vec::new();
    if is_zstd {
        drop(zstd::stream::read::Decoder::new(body).ok()?.single_frame().take(1 << 20).read_to_end(&mut plain));
    } else {
        drop(flate2::read::ZlibDecoder::new(body).take(1 << 20).read_to_end(&mut plain));
    }
    let size = plain.len();
    plain.resize(size.max(16) + most / 4, 0);
    let room = plain.len();
    let size = libfuzzer_sys::fuzzer_mutate(&mut plain, size, room);
    plain.truncate(size);
    let body = if is_zstd {
        zstd::bulk::compress(&plain, 1).ok()?
    } else {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&plain).ok()?;
        encoder.finish().ok()?
    };
    let mut header = header.to_vec();
    let (total, size) = ((length + body.len()) as u64, plain.len() as u64);
    match version {
        1 => header[8..12].copy_from_slice(&size.to_le_bytes()[..4]),
        2 => {
            header[8..12].copy_from_slice(&total.to_le_bytes()[..4]);
            header[12..16].copy_from_slice(&size.to_le_bytes()[..4]);
        }
        _ => {
            header[8..16].copy_from_slice(&total.to_le_bytes());
            header[16..24].copy_from_slice(&size.to_le_bytes());
        }
    }
    Some([header, body].concat())
}
