//! A split ELF file with its device code put back.
//!
//! The bundles go to the old addresses of the device code if these are free and suffice: splitters leave a hole after
//! the marker. Otherwise they get a new segment after all others. Its program header replaces an unused one. Without
//! such a header, the table moves into the new segment, too, as patchelf does it.

use std::ops::Range;
use std::sync::Arc;

use object::elf::{self, FileHeader64, SectionFlags, SectionHeader64};
use object::pod::bytes_of;
use object::{LittleEndian as LE, U16, U32, U64};

use super::image::{ElfImage, ElfSection, ElfSegment, encode_sections, encode_segments};
use super::joined_names::JoinedNames;
use super::layout::ENTRY;
use super::relocation::{self, Pointer};
use super::sections::{FATBIN, MARKER, WRAPPERS, WrapperPlace, read_wrappers};
use super::{phdr_slot, sectionless};
use crate::binary::BinaryError;
use crate::binary::changes::{Patch, PatchPiece};
use crate::binary::form::BundleLayout;
use crate::binary::wrapper::{FATBIN_WRAPPER_MAGIC, FATBIN_WRAPPER_SIZE, HIPK_MAGIC, WrapperFields, check_count};
use crate::fatbin::CODE_ALIGNMENT;
use crate::rope::Content;

/// The longest resulting file, so that sums of offsets do not overflow.
const LONGEST: u64 = 1 << 60;

/// The changes that put bundles into a split file.
pub(in crate::binary) fn join(content: &Arc<dyn Content>, layout: &BundleLayout) -> Result<Vec<Patch>, BinaryError> {
    let image = ElfImage::read(content)?.ok_or_else(|| BinaryError::unsupported("it is not for a loader"))?;
    image.check_bounds()?;
    let places = places(&image)?;
    if places.len() != layout.wrappers.len() {
        return Err(BinaryError::malformed("its wrappers have changed"));
    }
    let slots: Vec<_> = places.iter().map(WrapperPlace::pointer).collect();
    let pointers = relocation::resolve(&image, &slots, &(0..0))?;
    let names = JoinedNames::of(&image)?;
    let home = hole(&image, &pointers, layout.size).or_else(|| last_segment(&image, &pointers, layout.size, &names));
    let home = match home {
        Some(home) => home,
        None => segment(&image, layout.size, names.end)?,
    };
    let mut changes = point_wrappers(&image, &places, &pointers, layout, home.address)?;
    changes.extend(home.changes(&image, layout, names)?);
    Ok(changes)
}

/// The locations of the wrappers, all of which have to be split.
fn places(image: &ElfImage) -> Result<Vec<WrapperPlace>, BinaryError> {
    if image.sections.is_empty() {
        return sectionless::split_places(image);
    }
    let Some((_, section)) = image.section(WRAPPERS).filter(|(_, section)| !section.is_nobits()) else {
        return Ok(Vec::new());
    };
    let bytes = read_wrappers(image, section)?;
    let mut places = Vec::new();
    for (at, fields) in WrapperFields::in_section(&bytes) {
        let (offset, address) = (section.offset + at, section.address.wrapping_add(at));
        let is_loaded = image.offset_of(address, FATBIN_WRAPPER_SIZE) == Some(offset);
        if (fields.magic, fields.version) != (HIPK_MAGIC, 1) || !is_loaded {
            return Err(BinaryError::unsupported(format!("there is no split wrapper at {offset:#x}")));
        }
        places.push(WrapperPlace { offset, address });
        check_count(places.len())?;
    }
    Ok(places)
}

fn point_wrappers(
    image: &ElfImage,
    places: &[WrapperPlace],
    pointers: &[Pointer],
    layout: &BundleLayout,
    start: u64,
) -> Result<Vec<Patch>, BinaryError> {
    let mut changes = Vec::new();
    for ((place, pointer), inside) in places.iter().zip(pointers).zip(&layout.wrappers) {
        let address = start.wrapping_add(*inside);
        changes.push(Patch::overwrite(place.offset, WrapperFields::encode(FATBIN_WRAPPER_MAGIC, address, Some(0))));
        changes.extend(pointer.encoding.lead_to(address, image)?);
    }
    Ok(changes)
}

/// The segment that receives the device code.
struct ElfPlacement {
    /// Its address.
    address: u64,
    /// The bytes of the file that it replaces; empty if it is inserted.
    replaced: Range<u64>,
    /// Zeros before it in the file.
    before: u64,
    /// Offset of a program header table that precedes the bundles, if it moves there.
    table: Option<u64>,
    /// Its bytes in the file, including zeros after it, but without `before`.
    length: u64,
    /// Bytes in it before the bundles: a program header table and zeros.
    in_front: u64,
    /// All program headers, with offsets of the new file.
    segments: Vec<ElfSegment>,
}

/// The addresses from the marker on. `None` if something else has them, or if anything in use follows the marker in its
/// segment.
fn hole(image: &ElfImage, pointers: &[Pointer], size: u64) -> Option<ElfPlacement> {
    let start = pointers.iter().map(|pointer| pointer.value).min()?;
    let is_here = |load: &ElfSegment| start >= load.address && start - load.address < load.file_size;
    let (number, load) = image.loads().find(|(_, load)| is_here(load))?;
    let following = image.loads().filter(|(_, other)| other.address > load.address);
    let (_, next) = following.min_by_key(|(_, other)| other.address)?;
    let offset = load.offset + (start - load.address);
    let replaced = offset..load.end();
    if load.file_size != load.memory_size
        || !start.is_multiple_of(CODE_ALIGNMENT)
        || !is_marker_alone(image, &replaced, pointers)
    {
        return None;
    }
    // The rest of the file moves by a multiple of the strictest alignment.
    let unit = image.loads().map(|(_, load)| load.alignment).max().unwrap_or(1).max(CODE_ALIGNMENT);
    let old = replaced.end - replaced.start;
    let growth = size.saturating_sub(old).checked_next_multiple_of(unit).filter(|growth| *growth < LONGEST);
    let growth = growth?;
    let free = (next.address / unit * unit).saturating_sub(start);
    // Segments may overlap: the next one may begin before the marker.
    let all = next.address.checked_sub(start)?;
    let length = if old + growth <= free {
        old + growth
    } else if size <= all
        && next.offset == replaced.end
        && all.checked_sub(old).is_some_and(|growth| growth.is_multiple_of(unit))
    {
        // Both segments map the same bytes of the page that they share.
        all
    } else {
        return None;
    };
    let growth = length - old;
    let mut segments = image.segments.clone();
    for (index, segment) in segments.iter_mut().enumerate() {
        if index == number {
            segment.file_size = segment.file_size.saturating_add(growth);
            segment.memory_size = segment.memory_size.saturating_add(growth);
        } else if segment.offset >= replaced.end && (segment.file_size > 0 || segment.kind == elf::PT_LOAD) {
            segment.offset = segment.offset.saturating_add(growth);
        }
    }
    Some(ElfPlacement { address: start, replaced, before: 0, table: None, length, in_front: 0, segments })
}

/// The segment that an earlier join added. It ends with the marker, and nothing but section names and headers follows.
fn last_segment(image: &ElfImage, pointers: &[Pointer], size: u64, names: &JoinedNames) -> Option<ElfPlacement> {
    let start = pointers.iter().map(|pointer| pointer.value).min()?;
    let (number, load) = image.loads().max_by_key(|(_, load)| load.address).filter(|_| names.is_joined)?;
    let inside = start.checked_sub(load.address).filter(|inside| *inside < load.file_size)?;
    let replaced = load.offset + inside..names.end;
    let address = start.checked_next_multiple_of(CODE_ALIGNMENT).filter(|address| *address < LONGEST)?;
    let in_front = address - start;
    if load.file_size != load.memory_size || !is_marker_alone(image, &replaced, pointers) {
        return None;
    }
    let (length, mut segments) = (in_front + size, image.segments.clone());
    let grown = segments.get_mut(number)?;
    (grown.file_size, grown.memory_size) = (inside + length, inside + length);
    Some(ElfPlacement { address, replaced, before: 0, table: None, length, in_front, segments })
}

/// Whether these bytes contain nothing but the marker, to which all pointers lead.
fn is_marker_alone(image: &ElfImage, bytes: &Range<u64>, pointers: &[Pointer]) -> bool {
    let is_apart = |start: u64, end: u64| end <= bytes.start || bytes.end <= start || start >= end;
    let table = image.header.e_phoff.get(LE);
    let is_other = |section: &&ElfSection| section.name != MARKER && section.name != FATBIN && !section.is_null();
    let of_sections = image.sections.iter().filter(is_other).all(|it| is_apart(it.offset, it.end()));
    let has_bytes = |segment: &&ElfSegment| !matches!(segment.kind, elf::PT_LOAD | elf::PT_GNU_RELRO | elf::PT_NULL);
    let of_segments = image.segments.iter().filter(has_bytes).all(|it| is_apart(it.offset, it.end()));
    let first = pointers.first().map(|pointer| pointer.value);
    let is_one = pointers.iter().all(|pointer| Some(pointer.value) == first);
    // Without sections the length of the marker is unknown.
    let is_named = image.section(MARKER).is_some();
    is_named
        && is_one
        && of_sections
        && of_segments
        && is_apart(table, table.saturating_add(image.segments.len() as u64 * ENTRY))
        && is_apart(0, size_of::<FileHeader64<LE>>() as u64)
        && !image.is_in_section_headers(bytes.start, bytes.end - bytes.start)
}

/// A new segment after all others. In the file it follows everything before `file`.
fn segment(image: &ElfImage, size: u64, file: u64) -> Result<ElfPlacement, BinaryError> {
    let too_large = || BinaryError::unsupported("its addresses are too high");
    let unit = image.loads().map(|(_, load)| load.alignment).max().unwrap_or(1).max(CODE_ALIGNMENT);
    let last = image.loads().map(|(_, load)| load.address.saturating_add(load.memory_size)).max().unwrap_or(0);
    let free = phdr_slot::unread_entry(image);
    let table = if free.is_some() { 0 } else { (image.segments.len() as u64 + 1) * ENTRY };
    let in_front = table.next_multiple_of(CODE_ALIGNMENT);
    let mut address = last.checked_next_multiple_of(unit).ok_or_else(too_large)?;
    let mut offset = file.checked_next_multiple_of(unit).ok_or_else(too_large)?;
    if free.is_none() && phdr_slot::is_executable(image) {
        // Linux before 5.18 tells an executable's interpreter that the table is at the load base + `e_phoff`.
        let first = image.loads().next().map_or(0, |(_, first)| first.address.wrapping_sub(first.offset));
        let lowest = offset.checked_add(first).ok_or_else(too_large)?;
        address = address.max(lowest).checked_next_multiple_of(unit).ok_or_else(too_large)?;
        offset = address.checked_sub(first).filter(|offset| *offset >= file).ok_or_else(too_large)?;
    }
    let length = in_front.checked_add(size).ok_or_else(too_large)?;
    if address.max(offset) >= LONGEST || length >= LONGEST {
        return Err(too_large());
    }
    let new = ElfSegment {
        kind: elf::PT_LOAD,
        flags: elf::PF_R,
        offset,
        address,
        physical_address: address,
        file_size: length,
        memory_size: length,
        alignment: unit,
    };
    let mut segments = image.segments.clone();
    if let Some(free) = free {
        segments.remove(free);
    }
    let behind = segments.iter().rposition(|segment| segment.kind == elf::PT_LOAD).map_or(segments.len(), |at| at + 1);
    segments.insert(behind, new);
    for header in segments.iter_mut().filter(|segment| free.is_none() && segment.kind == elf::PT_PHDR) {
        (header.offset, header.address, header.physical_address) = (offset, address, address);
        (header.file_size, header.memory_size) = (table, table);
    }
    let table = free.is_none().then_some(offset);
    let address = address + in_front;
    Ok(ElfPlacement { address, replaced: file..file, before: offset - file, table, length, in_front, segments })
}

impl ElfPlacement {
    /// Bytes by which the rest of the file moves.
    fn growth(&self) -> u64 {
        (self.before + self.length).saturating_sub(self.replaced.end - self.replaced.start)
    }

    fn moved(&self, offset: u64) -> u64 {
        if offset >= self.replaced.end { offset.saturating_add(self.growth()) } else { offset }
    }

    /// Offset of the bundles in the new file.
    fn offset(&self) -> u64 {
        self.replaced.start + self.before + self.in_front
    }

    /// Zeros between a table and the bundles. They belong to the section, as do the zeros after the bundles, so that
    /// nothing else is new in memory.
    fn lead(&self) -> u64 {
        let table = if self.table.is_some() { self.segments.len() as u64 * ENTRY } else { 0 };
        self.in_front.saturating_sub(table)
    }

    fn changes(&self, image: &ElfImage, layout: &BundleLayout, names: JoinedNames) -> Result<Vec<Patch>, BinaryError> {
        let mut header = image.header;
        let count = u16::try_from(self.segments.len()).ok().filter(|&count| count < elf::PN_XNUM);
        header.e_phnum = U16::new(LE, count.ok_or_else(|| BinaryError::unsupported("too many program headers"))?);
        let mut content = vec![PatchPiece::Zeros(self.before)];
        let mut changes = Vec::new();
        let table = encode_segments(&self.segments);
        if let Some(place) = self.table {
            header.e_phoff = U64::new(LE, place);
            content.push(PatchPiece::literal(table));
        } else {
            let old = image.header.e_phoff.get(LE);
            header.e_phoff = U64::new(LE, self.moved(old));
            changes.push(Patch::overwrite(old, table));
        }
        content.push(PatchPiece::Zeros(self.lead()));
        content.extend(layout.pieces(self.length - self.in_front));
        let (file, all, mut end) = (names.end, image.content.size(), Vec::new());
        if image.sections.is_empty() {
            header.e_shoff = U64::new(LE, 0);
            header.e_shnum = U16::new(LE, 0);
            header.e_shstrndx = U16::new(LE, elf::SHN_UNDEF);
        } else {
            let (bytes, headers) = self.sections(image, names)?;
            header.e_shoff = U64::new(LE, headers);
            end.push(PatchPiece::literal(bytes));
        }
        let (start, mut replaced_end) = (self.replaced.start, self.replaced.end);
        if replaced_end == file {
            content.append(&mut end);
            replaced_end = all;
        } else {
            changes.push(Patch { start: file, end: all, replacement: end });
        }
        changes.push(Patch { start, end: replaced_end, replacement: content });
        changes.push(Patch::overwrite(0, bytes_of(&header)));
        Ok(changes)
    }

    /// The section names and headers, which go to the end of the file, and the offset of the headers.
    fn sections(&self, image: &ElfImage, names: JoinedNames) -> Result<(Vec<u8>, u64), BinaryError> {
        let file = self.moved(names.end);
        let fatbin = image.section(FATBIN).map(|(index, _)| index);
        let marker = image.section(MARKER).map(|(index, _)| index);
        let device = fatbin.or(marker).ok_or_else(|| BinaryError::unsupported("it has no section for device code"))?;
        let (lead, size) = (self.lead(), self.length - self.in_front);
        let mut sections = image.sections.clone();
        for (index, section) in sections.iter_mut().enumerate() {
            if index == device {
                section.header = SectionHeader64 {
                    sh_name: U32::new(LE, names.fatbin),
                    sh_type: U32::new(LE, elf::SHT_PROGBITS),
                    sh_flags: U64::new(LE, SectionFlags(elf::SHF_ALLOC.0)),
                    sh_addr: U64::new(LE, self.address - lead),
                    sh_offset: U64::new(LE, self.offset() - lead),
                    sh_size: U64::new(LE, size + lead),
                    sh_addralign: U64::new(LE, if lead > 0 { 8 } else { CODE_ALIGNMENT }),
                    sh_entsize: U64::new(LE, 0),
                    ..section.header
                };
                continue;
            }
            if section.is_null() {
                continue;
            }
            section.header.sh_offset = U64::new(LE, self.moved(section.offset));
            if Some(index) == marker {
                section.header.sh_name = U32::new(LE, names.old_marker);
                if self.replaced.contains(&section.offset) {
                    // Its bytes have been removed.
                    section.header.sh_type = U32::new(LE, elf::SHT_PROGBITS);
                    section.header.sh_size = U64::new(LE, 0);
                }
            }
            if index == image.names_index {
                section.header.sh_flags = U64::new(LE, SectionFlags(0));
                section.header.sh_addr = U64::new(LE, 0);
                section.header.sh_offset = U64::new(LE, file);
                section.header.sh_size = U64::new(LE, names.bytes.len() as u64);
            }
        }
        Ok(names.with_headers(&encode_sections(&sections), file))
    }
}
