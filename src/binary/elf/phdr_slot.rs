//! Finds a program header for the tail, the part of the segment after the device code.
//!
//! The table directly follows the file header, and what follows the table has a fixed address. So the table cannot grow
//! in place. Every loader accepts a table elsewhere, but GNU strip and objcopy move it back and push everything after
//! it aside. So an existing header is reused if possible.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, ProgramFlags};

use super::image::{ElfImage, ElfSegment};
use super::sections::FATBIN;

/// A way to map the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhdrSlot {
    /// There is no tail.
    NotNeeded,
    /// In an unused or unread entry.
    ReuseUnread(usize),
    /// In the next segment, which is writable. Its beginning becomes read-only after relocation, together with the
    /// tail.
    MergeIntoRelro {
        /// The program header of the next segment.
        next: usize,
        /// The program header of the part that becomes read-only.
        protection: usize,
    },
    /// In the entry that is freed when two adjacent segments with the same permissions are merged.
    MergeLoads {
        /// The program header of the first neighbour.
        first: usize,
        /// The program header of the second neighbour.
        second: usize,
    },
    /// In a longer table, which moves into the device code.
    RelocateTable,
}

/// The slots to try, best first.
pub(super) fn candidates(image: &ElfImage, load: usize) -> Vec<PhdrSlot> {
    let mut slots = Vec::new();
    slots.extend(unread_entry(image).map(PhdrSlot::ReuseUnread));
    slots.extend(protected_next(image, load));
    slots.extend(neighbours(image, load));
    slots.extend(may_move(image, load).then_some(PhdrSlot::RelocateTable));
    slots
}

fn position(image: &ElfImage, kind: elf::ProgramType) -> Option<usize> {
    image.segments.iter().position(|segment| segment.kind == kind)
}

/// An unused entry, as patchelf leaves them, or `PT_PHDR`. From `PT_PHDR` the interpreter computes the displacement of
/// an executable (glibc's `rtld_setup_main_map`, musl's `__dls3`). It does not read that of a shared library, and an
/// executable with fixed addresses is not displaced.
pub(super) fn unread_entry(image: &ElfImage) -> Option<usize> {
    let is_displaced = position(image, elf::PT_INTERP).is_some() && image.header.e_type.get(LE) == elf::ET_DYN;
    let unread = if is_displaced { None } else { position(image, elf::PT_PHDR) };
    position(image, elf::PT_NULL).or(unread)
}

/// The next segment, if it begins with the part that becomes read-only (`PT_GNU_RELRO`), and if the tail contains no
/// code.
fn protected_next(image: &ElfImage, load: usize) -> Option<PhdrSlot> {
    let segment = image.segments.get(load)?;
    let (next, following) = image.loads().find(|(_, other)| other.address > segment.address)?;
    let protection = position(image, elf::PT_GNU_RELRO)?;
    let begins_there = image.segments.get(protection)?.address == following.address;
    let is_writable = |segment: &ElfSegment| segment.flags.0 & elf::PF_W.0 != 0;
    // What becomes read-only can be read.
    let is_readable = segment.flags.0 & elf::PF_R.0 != 0;
    let may_be_code = segment.flags.0 & elf::PF_X.0 != 0 && image.may_have_code(&tail(image, segment));
    let fits = begins_there
        && is_writable(following)
        && following.flags.0 & elf::PF_X.0 == 0
        && is_readable
        && !is_writable(segment)
        && segment.memory_size == segment.file_size
        && !may_be_code;
    fits.then_some(PhdrSlot::MergeIntoRelro { next, protection })
}

/// The addresses of a segment behind the device code.
fn tail(image: &ElfImage, segment: &ElfSegment) -> Range<u64> {
    let device = image.sections.iter().find(|section| section.name == FATBIN);
    let start = device.map_or(0, |section| section.address.saturating_add(section.size));
    start..segment.address.saturating_add(segment.memory_size)
}

/// Adjacent segments with the same permissions. lld lays out data like this: the part that becomes read-only after
/// relocation, and the rest.
fn neighbours(image: &ElfImage, load: usize) -> Vec<PhdrSlot> {
    let permissions = |flags: ProgramFlags| flags.0 & (elf::PF_R.0 | elf::PF_W.0 | elf::PF_X.0);
    let Some(device_end) = image.segments.get(load).map(ElfSegment::end) else { return Vec::new() };
    let pairs = image.loads().zip(image.loads().skip(1)).filter_map(|((first, a), (second, b))| {
        let device_is_apart = first != load && second != load;
        let follows = a.offset >= device_end;
        (device_is_apart && follows && permissions(a.flags) == permissions(b.flags))
            .then_some(PhdrSlot::MergeLoads { first, second })
    });
    pairs.collect()
}

/// Whether the kernel starts it, not a loader.
pub(super) fn is_executable(image: &ElfImage) -> bool {
    position(image, elf::PT_INTERP).is_some() || image.header.e_type.get(LE) == elf::ET_EXEC
}

/// Whether the table may move. Linux before 5.18 tells an executable's interpreter that the table is at the load base +
/// `e_phoff` (`create_elf_tables` in `fs/binfmt_elf.c`), so the table's segment must be displaced like the first one.
fn may_move(image: &ElfImage, load: usize) -> bool {
    let displacement = |segment: &ElfSegment| segment.address.wrapping_sub(segment.offset);
    let first = image.loads().next().map(|(_, first)| displacement(first));
    !is_executable(image) || image.segments.get(load).map(displacement) == first
}
