//! Changes fields of headers and tables. Changes at random places would mostly hit code.

/// The offset of a field, and its size in bytes.
type Field = (usize, usize);

pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut random = seed | 1;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        random as usize
    };
    let bytes = &mut data[..size];
    let fields = if bytes.starts_with(b"\x7FELF") { elf(bytes) } else { coff(bytes) };
    let fields = fields.unwrap_or_default();
    if fields.is_empty() || next() % 8 == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, most);
    }
    for _ in 0..=next() % 3 {
        let (at, length) = fields[next() % fields.len()];
        let (other, _) = fields[next() % fields.len()];
        let Some(old) = get(bytes, at, length) else { continue };
        let value = match next() % 10 {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (next() % 64),
            3 => size as u64,
            4 => old.wrapping_add(next() as u64 % 64),
            5 => old.wrapping_sub(next() as u64 % 64),
            6 => old ^ 1 << (next() % 64),
            7 => old.wrapping_mul(2),
            // The most plausible value for a field is the value of another one.
            _ => get(bytes, other, length).unwrap_or(0),
        };
        if let Some(field) = bytes.get_mut(at..at + length) {
            field.copy_from_slice(&value.to_le_bytes()[..length]);
        }
    }
    size
}

fn get(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    Some(bytes.get(at..at.checked_add(length)?)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    usize::try_from(get(bytes, at, length)?).ok()
}

/// The fields of `count` structures of this shape.
fn table(fields: &mut Vec<Field>, start: usize, count: usize, shape: &[usize]) {
    let mut at = start;
    for _ in 0..count.min(64) {
        for &length in shape {
            fields.push((at, length));
            at = at.saturating_add(length);
        }
    }
}

fn elf(bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    table(&mut fields, 16, 1, &[2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2]);
    let (segments, sections) = (number(bytes, 32, 8)?, number(bytes, 40, 8)?);
    let (segment_count, section_count) = (number(bytes, 56, 2)?, number(bytes, 60, 2)?);
    table(&mut fields, segments, segment_count, &[4, 4, 8, 8, 8, 8, 8, 8]);
    table(&mut fields, sections, section_count, &[4, 4, 8, 8, 8, 8, 4, 4, 8, 8]);
    for section in 0..section_count.min(64) {
        let Some(header) = sections.checked_add(section * 64).filter(|&at| at < bytes.len()) else { break };
        let (Some(kind), Some(at), Some(size)) =
            (get(bytes, header + 4, 4), number(bytes, header + 24, 8), number(bytes, header + 32, 8))
        else {
            continue;
        };
        match kind {
            // SHT_RELA, SHT_DYNAMIC, SHT_RELR
            4 => table(&mut fields, at, size / 24, &[8, 8, 8]),
            6 => table(&mut fields, at, size / 16, &[8, 8]),
            19 => table(&mut fields, at, size / 8, &[8]),
            _ => {}
        }
    }
    wrappers(bytes, &mut fields);
    Some(fields)
}

fn coff(bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = vec![(60, 4)];
    let headers = number(bytes, 60, 4)?;
    table(&mut fields, headers.checked_add(4)?, 1, &[2, 2, 4, 4, 4, 2, 2]);
    let optional = headers.checked_add(24)?;
    table(&mut fields, optional, 1, &[2, 1, 1, 4, 4, 4, 4, 4, 8, 4, 4, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 2, 2, 8, 8, 8, 8]);
    table(&mut fields, optional.checked_add(104)?, 17, &[4, 4]);
    let sections = optional.checked_add(number(bytes, headers.checked_add(20)?, 2)?)?;
    let count = number(bytes, headers.checked_add(6)?, 2)?;
    table(&mut fields, sections, count, &[8, 4, 4, 4, 4, 4, 4, 2, 2, 4]);
    // Base relocations and debug directory, by RVA.
    for directory in [5, 6] {
        let Some(address) = number(bytes, optional + 112 + directory * 8, 4) else { continue };
        for section in 0..count.min(64) {
            let header = sections.checked_add(section * 40)?;
            let (Some(start), Some(size), Some(at)) =
                (number(bytes, header + 12, 4), number(bytes, header + 16, 4), number(bytes, header + 20, 4))
            else {
                continue;
            };
            if address >= start && address - start < size {
                table(&mut fields, at + (address - start), 16, if directory == 5 { &[4, 4, 2, 2] } else { &[4; 7] });
            }
        }
    }
    wrappers(bytes, &mut fields);
    Some(fields)
}

fn wrappers(bytes: &[u8], fields: &mut Vec<Field>) {
    let magic = 0x4849_5046_u32.to_le_bytes();
    let found = bytes.windows(4).enumerate().filter(|(_, there)| **there == magic).map(|(at, _)| at).take(16);
    found.for_each(|at| table(fields, at, 1, &[4, 4, 8, 8]));
    let bundles = bytes.windows(24).enumerate().filter(|(_, there)| *there == b"__CLANG_OFFLOAD_BUNDLE__");
    bundles.map(|(at, _)| at).take(4).for_each(|at| table(fields, at + 24, 1, &[8, 8, 8, 8]));
}
