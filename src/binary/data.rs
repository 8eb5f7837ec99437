//! The sections of a binary in which device code may be without a wrapper.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::data_section::{DataRole, DataSection};
use super::error::BinaryError;
use super::{HostFormat, coff, elf};
use crate::rope::Content;

/// The sections of a binary, and what they do not describe. `None` if it is no file for a loader, or has no section headers.
pub(super) fn data_sections(content: &Arc<dyn Content>) -> Result<Option<Vec<DataSection>>, BinaryError> {
    let Some(mut sections) = HostFormat::read(content, elf::data_sections, coff::data_sections)? else {
        return Ok(None);
    };
    let described = ranges(&sections, |_| true, content.size());
    let starts = iter::once(0).chain(described.iter().map(|range| range.end));
    let ends = described.iter().map(|range| range.start).chain([content.size()]);
    let others = starts.zip(ends).filter(|(start, end)| start < end);
    let others = others.map(|(start, end)| DataSection { role: DataRole::Unloaded, range: start..end });
    sections.extend(others);
    Ok(Some(sections))
}

/// The ranges of sections with some roles, in file order and disjoint.
pub(super) fn ranges(sections: &[DataSection], is_wanted: impl Fn(DataRole) -> bool, size: u64) -> Vec<Range<u64>> {
    let wanted = sections.iter().filter(|section| is_wanted(section.role));
    let mut ranges: Vec<_> = wanted.map(|section| section.range.start..section.range.end.min(size)).collect();
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    // Sections of a crafted file may overlap.
    ranges.dedup_by(|next, last| {
        let overlap = next.start < last.end;
        last.end = if overlap { last.end.max(next.end) } else { last.end };
        overlap
    });
    ranges
}

/// Whether a binary has a section for bundles, to which wrappers lead.
pub(crate) fn has_bundles(content: &Arc<dyn Content>) -> bool {
    let is_one = |section: &DataSection| section.role == DataRole::Bundles && !section.range.is_empty();
    data_sections(content).ok().flatten().is_some_and(|sections| sections.iter().any(is_one))
}

/// The ranges of a binary that hold data of the program, in file order and disjoint. Empty if it is no binary or has no
/// section headers.
pub fn data_ranges(content: &Arc<dyn Content>) -> Result<Vec<Range<u64>>, BinaryError> {
    let sections = data_sections(content)?.unwrap_or_default();
    Ok(ranges(&sections, |role| role == DataRole::Data, content.size()))
}
