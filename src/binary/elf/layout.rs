//! The layout of a rewritten file: which bytes are removed, and the resulting program headers.
//!
//! Virtual addresses never change. The pages of the device code are removed from the file. The first ones stay in the
//! segment that maps them, and hold the new content. The part of that segment after the device code, its *tail*, is
//! mapped separately afterwards. That leaves a hole in memory where the device code was.
//! [`phdr_slot`](super::phdr_slot) finds a program header for the tail.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, ProgramFlags, ProgramHeader64};

use super::image::{ElfImage, ElfSection, ElfSegment};
use super::phdr_slot::{self, PhdrSlot};
use super::sections::MappedDevice;
use crate::binary::BinaryError;

/// Alignment of what follows in the file if no segment needs more; that of the strictest common section.
const LOOSE_ALIGNMENT: u64 = 16;

/// Bytes of the smallest page. Loaders map whole pages, whatever alignment a segment has.
const PAGE: u64 = 4096;

/// If at least this many bytes follow a change, they move by whole pages, so that a filesystem can share their blocks
/// with the original.
const LONG: u64 = 1 << 20;

/// Bytes of a program header.
pub(super) const ENTRY: u64 = size_of::<ProgramHeader64<LE>>() as u64;

/// The layout of a rewritten file. Offsets are those of the original file unless stated otherwise.
#[derive(Debug)]
pub(super) struct ElfLayout {
    /// The bytes that are removed.
    pub(super) cut: Range<u64>,
    /// Bytes between two merged segments that are removed and replaced with zeros.
    pub(super) gap: Gap,
    /// The program headers, with offsets of the new file.
    pub(super) segments: Vec<ElfSegment>,
    /// Offset of the program header table: the old one, or one inside of the device code.
    pub(super) table: u64,
    /// Whether the table is inside of the device code.
    pub(super) table_moved: bool,
    /// Bytes that are inserted after everything that is loaded.
    added: Insertion,
}

/// Inserted bytes. None by default.
#[derive(Clone, Copy, Debug, Default)]
struct Insertion {
    offset: u64,
    bytes: u64,
}

/// A place where bytes are replaced by `zeros` zero bytes.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    pub(super) offsets: Range<u64>,
    pub(super) zeros: u64,
}

impl ElfLayout {
    /// The layout in which the first `form` bytes of the device code are replaced and as much as possible of the rest
    /// is removed. If nothing can be removed, the device code is overwritten in place.
    pub(super) fn plan(image: &ElfImage, device: &MappedDevice, form: u64) -> Result<Self, BinaryError> {
        let load = image.segment(device.load)?;
        let kept = device.offsets.start.saturating_add(form);
        if kept > device.offsets.end {
            return Err(BinaryError::unsupported("its device code is smaller than what has to replace it"));
        }
        let has_tail = load.end() > device.offsets.end || load.memory_size > load.file_size;
        let slots = if has_tail { phdr_slot::candidates(image, device.load) } else { vec![PhdrSlot::NotNeeded] };
        for slot in slots {
            if let Some(layout) = Self::with_slot(image, device, kept, slot)? {
                return Ok(layout);
            }
        }
        Ok(Self {
            cut: kept..kept,
            gap: Gap::none(image),
            segments: image.segments.clone(),
            table: image.header.e_phoff.get(LE),
            table_moved: false,
            added: Insertion::default(),
        })
    }

    /// Bytes by which the file becomes shorter, not counting insertions at the end.
    fn gain(&self) -> i128 {
        i128::from(self.cut.end - self.cut.start) - i128::from(self.gap.growth())
    }

    /// The offset in the new file of a byte that is kept.
    pub(super) fn moved(&self, offset: u64) -> u64 {
        let removed = self.cut.end - self.cut.start;
        let moved = if offset >= self.cut.end { offset - removed } else { offset.min(self.cut.start) };
        let gap = if offset >= self.gap.offsets.end { self.gap.growth() } else { 0 };
        let added = if offset >= self.added.offset { self.added.bytes } else { 0 };
        moved.saturating_add_signed(gap).saturating_add(added)
    }

    /// Inserts bytes before `offset`, which is after everything that is loaded. Empty segments have no place and do not
    /// count.
    pub(super) fn add(&mut self, offset: u64, bytes: u64) {
        let start = self.moved(offset);
        let behind = |it: &&mut ElfSegment| it.kind != elf::PT_LOAD && it.file_size > 0 && it.offset >= start;
        for segment in self.segments.iter_mut().filter(behind) {
            segment.offset = segment.offset.saturating_add(bytes);
        }
        self.added = Insertion { offset, bytes };
    }

    /// The offset in the new file of an address, if bytes of the file are mapped there.
    pub(super) fn offset_of(&self, address: u64) -> Option<u64> {
        let mut loads = self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD);
        loads.find_map(|load| load.offset_of(address, 1))
    }

    /// The layout with this slot; `None` if the slot turns out to be unusable or if nothing is gained.
    fn with_slot(
        image: &ElfImage,
        device: &MappedDevice,
        kept: u64,
        slot: PhdrSlot,
    ) -> Result<Option<Self>, BinaryError> {
        let load = image.segment(device.load)?;
        let in_place = image.header.e_phoff.get(LE);
        let mut table = in_place;
        let mut kept = kept;
        if slot == PhdrSlot::RelocateTable {
            table = kept.next_multiple_of(8);
            kept = table + (image.segments.len() as u64 + 1) * ENTRY;
        }
        let gap = match slot {
            PhdrSlot::MergeIntoRelro { next, .. } => Gap::between(image, load, image.segment(next)?),
            PhdrSlot::MergeLoads { first, second } => {
                Gap::between(image, image.segment(first)?, image.segment(second)?)
            }
            PhdrSlot::NotNeeded | PhdrSlot::ReuseUnread(_) | PhdrSlot::RelocateTable => Some(Gap::none(image)),
        };
        let (Some(gap), Some(cut)) = (gap, cut(image, device, load, kept, slot != PhdrSlot::NotNeeded)?) else {
            return Ok(None);
        };
        let table_moved = slot == PhdrSlot::RelocateTable;
        let mut layout = Self { cut, gap, segments: Vec::new(), table, table_moved, added: Insertion::default() };
        // Linux before 5.18 tells an executable's interpreter that the table is at the load base + `e_phoff`.
        let is_table_pushed = layout.moved(table) != table && phdr_slot::is_executable(image);
        if layout.gain() <= 0 || is_table_pushed {
            return Ok(None);
        }
        layout.place_segments(image, device, slot)?;
        Ok(layout.is_loadable(image).then_some(layout))
    }

    fn place_segments(&mut self, image: &ElfImage, device: &MappedDevice, slot: PhdrSlot) -> Result<(), BinaryError> {
        let load = image.segment(device.load)?;
        let tail = self.tail(image, load);
        for (index, old) in image.segments.iter().enumerate() {
            let here = ElfSegment { offset: self.moved(old.offset), ..old.clone() };
            match slot {
                _ if index == device.load => {
                    let before = self.cut.start - load.offset;
                    let front = ElfSegment { file_size: before, memory_size: before, ..here };
                    self.segments.push(front.with_flags_of_sections(image));
                    if matches!(slot, PhdrSlot::ReuseUnread(_) | PhdrSlot::MergeLoads { .. } | PhdrSlot::RelocateTable)
                    {
                        self.segments.push(tail.clone());
                    }
                }
                PhdrSlot::ReuseUnread(free) if index == free => {}
                // The tail takes the permissions of the next segment, and becomes read-only with it after relocation.
                PhdrSlot::MergeIntoRelro { next, .. } if index == next => self.segments.push(tail.merged(&here)),
                PhdrSlot::MergeIntoRelro { protection, .. } if index == protection => {
                    self.segments.push(ElfSegment { flags: here.flags, ..tail.merged(&here) });
                }
                PhdrSlot::MergeLoads { first, second } if index == first => {
                    let second = image.segment(second)?;
                    self.segments.push(here.merged(second));
                }
                PhdrSlot::MergeLoads { second, .. } if index == second => {}
                _ if old.file_size > 0 && old.offset < device.offsets.end && old.end() > device.offsets.start => {
                    return Err(BinaryError::unsupported("another program header covers a part of its device code"));
                }
                _ => self.segments.push(here),
            }
        }
        self.describe_table(image, load);
        Ok(())
    }

    /// The part of the segment after the device code.
    fn tail(&self, image: &ElfImage, load: &ElfSegment) -> ElfSegment {
        let gone = self.cut.end - load.offset;
        let tail = ElfSegment {
            offset: self.cut.start,
            address: load.address.wrapping_add(gone),
            physical_address: load.physical_address.wrapping_add(gone),
            file_size: load.file_size.saturating_sub(gone),
            memory_size: load.memory_size.saturating_sub(gone),
            ..load.clone()
        };
        tail.with_flags_of_sections(image)
    }

    /// Updates the entry that describes the table (`PT_PHDR`), if there is one.
    fn describe_table(&mut self, image: &ElfImage, load: &ElfSegment) {
        let size = self.segments.len() as u64 * ENTRY;
        let address = if self.table_moved {
            load.address.wrapping_add(self.table.wrapping_sub(load.offset))
        } else {
            image.address_of(self.table).unwrap_or(0)
        };
        let offset = self.moved(self.table);
        for header in self.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR) {
            (header.offset, header.address, header.physical_address) = (offset, address, address);
            (header.file_size, header.memory_size) = (size, size);
        }
    }

    /// Whether every loader accepts the program headers (gABI, "Program Header"). glibc's `_dl_map_object_from_fd`
    /// refuses a segment whose offset and address differ modulo its own alignment. No loader can map one where they
    /// differ modulo a page.
    fn is_loadable(&self, image: &ElfImage) -> bool {
        let differs = |load: &ElfSegment, unit: u64| !load.address.wrapping_sub(load.offset).is_multiple_of(unit);
        let least = if image.loads().any(|(_, load)| differs(load, PAGE)) { 1 } else { PAGE };
        let mut end = 0;
        self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD).all(|load| {
            let is_congruent = !differs(load, load.alignment.max(least));
            let is_behind = load.address >= end;
            end = load.address.saturating_add(load.memory_size);
            is_congruent && is_behind && load.file_size <= load.memory_size
        })
    }
}

impl ElfSegment {
    /// Both segments as one, with the permissions of the second.
    fn merged(&self, second: &Self) -> Self {
        let distance = second.address.wrapping_sub(self.address);
        Self {
            kind: second.kind,
            flags: second.flags,
            file_size: distance.saturating_add(second.file_size),
            memory_size: distance.saturating_add(second.memory_size),
            alignment: self.alignment.max(second.alignment),
            ..self.clone()
        }
    }

    /// Removes the permission to execute if the segment has sections and none of them is executable.
    fn with_flags_of_sections(self, image: &ElfImage) -> Self {
        let range = self.address..self.address.saturating_add(self.memory_size);
        let has_sections = image.sections.iter().any(|it| it.is_allocated() && range.contains(&it.address));
        if !has_sections || image.may_have_code(&range) {
            return self;
        }
        Self { flags: ProgramFlags(self.flags.0 & !elf::PF_X.0), ..self }
    }
}

impl Gap {
    fn none(image: &ElfImage) -> Self {
        let end = image.content.size();
        Self { offsets: end..end, zeros: 0 }
    }

    /// The gap to fill so that two segments can be mapped as one. `None` if they are not adjacent or if bytes between
    /// them would be lost.
    fn between(image: &ElfImage, first: &ElfSegment, second: &ElfSegment) -> Option<Self> {
        let in_memory = second.address.checked_sub(first.address.checked_add(first.file_size)?)?;
        let in_file = second.offset.checked_sub(first.end())?;
        let is_room = in_memory >= in_file && second.address >= first.address.checked_add(first.memory_size)?;
        let gap = Self { offsets: first.end()..second.offset, zeros: in_memory };
        (is_room && gap.is_unused(image)).then_some(gap)
    }

    /// Whether nothing has its bytes in the gap. patchelf, for example, maps what it adds after everything that is not
    /// loaded. Only section names are allowed there, since they would be copied elsewhere.
    fn is_unused(&self, image: &ElfImage) -> bool {
        let is_there = |start: u64, end: u64| start < self.offsets.end && self.offsets.start < end;
        let table = image.header.e_phoff.get(LE);
        let table_end = table.saturating_add(image.segments.len() as u64 * ENTRY);
        let names = |index: usize| index == image.names_index;
        let has_bytes = |section: &ElfSection| !section.is_null() && is_there(section.offset, section.end());
        let segments = image.segments.iter().filter(|segment| segment.kind != elf::PT_GNU_RELRO);
        !image.is_in_section_headers(self.offsets.start, self.offsets.end - self.offsets.start)
            && !is_there(table, table_end)
            && !image.sections.iter().enumerate().any(|(index, section)| !names(index) && has_bytes(section))
            && !{ segments }.any(|segment| is_there(segment.offset, segment.end()))
    }

    fn growth(&self) -> i64 {
        self.zeros.cast_signed().wrapping_sub((self.offsets.end - self.offsets.start).cast_signed())
    }
}

/// The unit of a change of length at `offset`, in bytes, if what follows has this `alignment`.
pub(super) fn unit_of_move(image: &ElfImage, offset: u64, alignment: u64) -> u64 {
    let is_long = image.content.size().saturating_sub(offset) >= LONG;
    if is_long { alignment.max(PAGE) } else { alignment }
}

/// The bytes to remove: all of the device code after `kept` that can go without changing an address or breaking the
/// alignment of what follows. `None` if nothing can go.
fn cut(
    image: &ElfImage,
    device: &MappedDevice,
    load: &ElfSegment,
    kept: u64,
    has_tail: bool,
) -> Result<Option<Range<u64>>, BinaryError> {
    let end = device.offsets.end;
    let later = image.loads().filter(|(_, other)| other.offset >= end && other.file_size > 0);
    let of_loads = later.map(|(_, other)| other.alignment.max(PAGE)).max();
    let of_sections = || {
        let later = image.sections.iter().filter(|section| section.offset >= end && !section.is_null());
        let strictest = later.map(|section| section.header.sh_addralign.get(LE)).max().unwrap_or(1);
        unit_of_move(image, end, strictest.max(LOOSE_ALIGNMENT))
    };
    if image.loads().any(|(_, other)| !other.alignment.max(1).is_power_of_two()) {
        return Err(BinaryError::malformed("an alignment is not a power of two"));
    }
    let own = load.alignment.max(PAGE);
    let unit = if has_tail { of_loads.unwrap_or(1).max(own) } else { of_loads.unwrap_or_else(of_sections) }.max(1);
    if !unit.is_power_of_two() {
        return Err(BinaryError::malformed("an alignment is not a power of two"));
    }
    let start = if has_tail {
        // The two parts must not share a page. A page is at most as long as the segment's alignment.
        let address = load.address.wrapping_add(kept - load.offset);
        kept.saturating_add(address.wrapping_neg() & (own - 1))
    } else {
        kept
    };
    let mut length = end.saturating_sub(start) / unit * unit;
    if has_tail && length > 0 && start + length >= load.end() {
        // A part without bytes in the file would be zeroed through a page that the file does not have.
        length -= unit;
    }
    Ok((length > 0).then(|| start..start + length))
}
