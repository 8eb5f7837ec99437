//! Where everything is in the rewritten file: which bytes are cut out and what the program headers say then.
//!
//! Virtual addresses never change. The pages of the device code leave the file; the first of them stays, in the
//! segment that maps it already, and holds what is new: the marker and, if the program header table has to grow and
//! cannot do so in its place, that table. What the segment holds behind the device code becomes a segment of its own
//! with the same addresses, so a hole without memory is left where the device code was.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64};

use super::image::{Image, Segment};
use crate::binary::BinaryError;

/// Alignment of what follows in the file when no segment asks for more; that of the strictest usual section.
const LOOSE_ALIGNMENT: u64 = 16;

/// The layout of a rewritten file. Offsets are those of the original file unless said otherwise.
#[derive(Debug)]
pub(super) struct Layout {
    /// The bytes that leave the file.
    pub(super) cut: Range<u64>,
    /// The program headers, with offsets in the new file.
    pub(super) segments: Vec<Segment>,
    /// Where the program header table stands: its old place, or one inside the device code.
    pub(super) table: u64,
    /// Whether the table stands inside the device code.
    pub(super) table_moved: bool,
}

/// The device code and the segment that maps it.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// Offsets of the device code.
    pub(super) offsets: Range<u64>,
    /// Index of the program header of the segment that maps it.
    pub(super) load: usize,
}

/// Where one more program header finds room.
enum Room {
    /// In an entry that is not used (patchelf leaves some), or that nobody reads.
    Entry(usize),
    /// Nowhere: the table moves.
    Moved,
}

impl Layout {
    /// Plans the file in which the first `marker` bytes of the device code are replaced and as much as possible of
    /// the rest is gone.
    pub(super) fn plan(image: &Image, device: &Device, marker: u64) -> Result<Self, BinaryError> {
        let load = segment(image, device.load)?;
        let has_tail = load.end() > device.offsets.end || load.memory_size > load.file_size;
        let room = room(image);
        let in_place = image.header.e_phoff.get(LE);
        let mut table = in_place;
        let mut kept = device.offsets.start + marker;
        if has_tail && matches!(room, Room::Moved) {
            table = kept.next_multiple_of(8);
            kept = table + (image.segments.len() as u64 + 1) * size_of::<ProgramHeader64<LE>>() as u64;
        }
        if device.offsets.start + marker > device.offsets.end {
            return Err(BinaryError::unsupported("its device code is smaller than what has to replace it"));
        }
        let cut = cut(image, device, load, kept, has_tail)?;
        if cut.is_empty() {
            let segments = image.segments.clone();
            return Ok(Self { cut, segments, table: in_place, table_moved: false });
        }
        if table != in_place {
            check_move(image, load)?;
        }
        let mut layout = Self { segments: Vec::new(), table, table_moved: table != in_place, cut };
        layout.place_segments(image, device, has_tail, &room)?;
        layout.check()?;
        Ok(layout)
    }

    /// Number of bytes that leave the file.
    pub(super) fn removed(&self) -> u64 {
        self.cut.end - self.cut.start
    }

    /// The offset in the new file of a byte that stays, not counting what is added behind the last segment.
    pub(super) fn moved(&self, offset: u64) -> u64 {
        if offset >= self.cut.end { offset - self.removed() } else { offset.min(self.cut.start) }
    }

    fn place_segments(
        &mut self,
        image: &Image,
        device: &Device,
        has_tail: bool,
        room: &Room,
    ) -> Result<(), BinaryError> {
        for (index, old) in image.segments.iter().enumerate() {
            if index == device.load {
                let (front, tail) = self.divide(old, has_tail);
                self.segments.push(front);
                self.segments.extend(tail);
                continue;
            }
            if has_tail && matches!(room, Room::Entry(free) if *free == index) {
                continue;
            }
            if old.file_size > 0 && old.offset < device.offsets.end && old.end() > device.offsets.start {
                return Err(BinaryError::unsupported("another program header covers a part of its device code"));
            }
            self.segments.push(Segment { offset: self.moved(old.offset), ..old.clone() });
        }
        let size = self.segments.len() as u64 * size_of::<ProgramHeader64<LE>>() as u64;
        let (offset, address) = if self.table_moved {
            let load = segment(image, device.load)?;
            (self.table, load.address.wrapping_add(self.table.wrapping_sub(load.offset)))
        } else {
            (self.table, image.address_of(self.table).unwrap_or(0))
        };
        for header in self.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR) {
            *header = Segment {
                offset,
                address,
                physical_address: address,
                file_size: size,
                memory_size: size,
                ..header.clone()
            };
        }
        Ok(())
    }

    /// The segment with the device code, cut into the part before and the part behind it.
    fn divide(&self, load: &Segment, has_tail: bool) -> (Segment, Option<Segment>) {
        let before = self.cut.start - load.offset;
        let front = Segment { file_size: before, memory_size: before, ..load.clone() };
        let gone = self.cut.end - load.offset;
        let tail = Segment {
            offset: self.cut.start,
            address: load.address + gone,
            physical_address: load.physical_address.wrapping_add(gone),
            file_size: load.file_size.saturating_sub(gone),
            memory_size: load.memory_size.saturating_sub(gone),
            ..load.clone()
        };
        (front, has_tail.then_some(tail))
    }

    /// What every loader asks of a file (gABI, "Program Header"; glibc's `_dl_map_object_from_fd` refuses a segment
    /// whose offset and address differ modulo its own alignment).
    fn check(&self) -> Result<(), BinaryError> {
        let mut end = 0;
        for load in self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD) {
            let is_congruent = load.alignment < 2 || load.address.wrapping_sub(load.offset) % load.alignment == 0;
            if !is_congruent || load.address < end || load.file_size > load.memory_size {
                return Err(BinaryError::unsupported("its segments are laid out in an unusual way"));
            }
            end = load.address + load.memory_size;
        }
        Ok(())
    }
}

fn segment(image: &Image, index: usize) -> Result<&Segment, BinaryError> {
    image.segments.get(index).ok_or_else(|| BinaryError::malformed("no such segment"))
}

/// A `PT_PHDR` entry tells where the table is in memory, which only the start of an executable asks for.
fn room(image: &Image) -> Room {
    let position = |kind| image.segments.iter().position(|segment| segment.kind == kind);
    let is_executable = position(elf::PT_INTERP).is_some() || image.header.e_type.get(LE) == elf::ET_EXEC;
    let unread = if is_executable { None } else { position(elf::PT_PHDR) };
    position(elf::PT_NULL).or(unread).map_or(Room::Moved, Room::Entry)
}

/// Linux before 5.18 tells an executable's interpreter that the table is at the load base + `e_phoff`
/// (`create_elf_tables` in `fs/binfmt_elf.c`), so its segment must be displaced like the first one.
fn check_move(image: &Image, load: &Segment) -> Result<(), BinaryError> {
    let first = image.loads().next().map_or(load, |(_, first)| first);
    if first.address.wrapping_sub(first.offset) == load.address.wrapping_sub(load.offset) {
        Ok(())
    } else {
        Err(BinaryError::unsupported("there is no place for one more program header"))
    }
}

/// The bytes to cut: all of the device code behind `kept` that can go without changing an address or breaking the
/// alignment of anything behind it. Empty if nothing can go.
fn cut(image: &Image, device: &Device, load: &Segment, kept: u64, has_tail: bool) -> Result<Range<u64>, BinaryError> {
    let end = device.offsets.end;
    let later = image.loads().filter(|(_, other)| other.offset >= end && other.file_size > 0);
    let of_loads = later.map(|(_, other)| other.alignment).max();
    let of_sections = || {
        let later = image.sections.iter().filter(|section| section.offset >= end && !section.is_null());
        later.map(|section| section.header.sh_addralign.get(LE)).max().unwrap_or(1).max(LOOSE_ALIGNMENT)
    };
    let own = load.alignment.max(1);
    let unit = if has_tail { of_loads.unwrap_or(1).max(own) } else { of_loads.unwrap_or_else(of_sections) };
    if !unit.is_power_of_two() || !own.is_power_of_two() {
        return Err(BinaryError::malformed("an alignment is not a power of two"));
    }
    let start = if has_tail {
        // The two parts must not share a page, which is as long as the segment's alignment says at most.
        let address = load.address + (kept - load.offset);
        kept + (address.next_multiple_of(own) - address)
    } else {
        kept
    };
    let mut length = end.saturating_sub(start) / unit * unit;
    if has_tail && length > 0 && start + length >= load.end() {
        // A part without bytes in the file would be zeroed through a page that the file does not have.
        length -= unit;
    }
    Ok(start..start + length)
}
