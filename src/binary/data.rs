//! The sections of a binary in which device code may be without a wrapper.

use std::ops::Range;
use std::sync::Arc;

use super::data_section::{DataRole, DataSection};
use super::error::BinaryError;
use super::{HostFormat, coff, elf};
use crate::rope::Content;

/// The sections of a binary that may hold device code. `None` if it is no file for a loader, or has no section headers.
pub(super) fn data_sections(content: &Arc<dyn Content>) -> Result<Option<Vec<DataSection>>, BinaryError> {
    HostFormat::read(content, elf::data_sections, coff::data_sections)
}

/// The ranges of sections with some roles, in file order and disjoint.
pub(super) fn ranges(sections: &[DataSection], roles: &[DataRole], size: u64) -> Vec<Range<u64>> {
    let wanted = sections.iter().filter(|section| roles.contains(&section.role));
    let mut ranges: Vec<_> = wanted.map(|section| section.range.start..section.range.end.min(size)).collect();
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    // Sections of a crafted file may overlap.
    ranges.into_iter().fold(Vec::new(), |mut merged: Vec<Range<u64>>, range| {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
        merged
    })
}

/// The ranges of a binary that hold data of the program, in file order and disjoint. Empty if it is no binary or has no
/// section headers.
pub fn data_ranges(content: &Arc<dyn Content>) -> Result<Vec<Range<u64>>, BinaryError> {
    let sections = data_sections(content)?.unwrap_or_default();
    Ok(ranges(&sections, &[DataRole::Data], content.size()))
}
