//! The data ranges of a binary, without device code and wrappers.

use std::ops::Range;
use std::sync::Arc;

use super::{BinaryError, coff, elf};
use crate::rope::Content;

/// The ranges of a binary that hold data of the program, in file order and disjoint. Empty if it is no binary or has no
/// section headers.
pub fn data_ranges(content: &Arc<dyn Content>) -> Result<Vec<Range<u64>>, BinaryError> {
    let mut magic = [0; 4];
    if content.size() < magic.len() as u64 {
        return Ok(Vec::new());
    }
    content.peek(&mut magic)?;
    let mut ranges = match magic {
        object::elf::ELFMAG => elf::data_ranges(content)?,
        [b'M', b'Z', ..] => coff::data_ranges(content)?,
        _ => Vec::new(),
    };
    for range in &mut ranges {
        range.end = range.end.min(content.size());
    }
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    // Sections of a crafted file may overlap.
    Ok(ranges.into_iter().fold(Vec::new(), |mut merged: Vec<Range<u64>>, range| {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
        merged
    }))
}
