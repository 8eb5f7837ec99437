//! Where the tail behind the device code finds a program header.
//!
//! The table stands directly behind the file header, and what follows it has a fixed address, so it cannot grow in its
//! place. A table that moves elsewhere is valid for every loader, but GNU strip and objcopy put it back and push
//! everything behind it aside. So a header is found among those that are there, if at all possible.

use object::LittleEndian as LE;
use object::elf::{self, ProgramFlags};

use super::image::{ElfImage, ElfSegment};

/// A way to map the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhdrSlot {
    /// There is no tail.
    NotNeeded,
    /// In an entry that is not used, or that nobody reads.
    Entry(usize),
    /// In the next segment, which is writable. Its beginning is made read-only after relocation, and the tail with it.
    WithNext {
        /// The program header of the next segment.
        next: usize,
        /// The program header that says what is made read-only.
        protection: usize,
    },
    /// In an entry that becomes free because two neighbours with the same permissions become one.
    Joined {
        /// The program header of the first neighbour.
        first: usize,
        /// The program header of the second neighbour.
        second: usize,
    },
    /// In a longer table, which moves into the device code.
    Moved,
}

/// What can be tried, the best first.
pub(super) fn candidates(image: &ElfImage, load: usize) -> Vec<PhdrSlot> {
    let mut slots = Vec::new();
    slots.extend(unread_entry(image).map(PhdrSlot::Entry));
    slots.extend(protected_next(image, load));
    slots.extend(neighbours(image, load));
    slots.extend(may_move(image, load).then_some(PhdrSlot::Moved));
    slots
}

fn position(image: &ElfImage, kind: elf::ProgramType) -> Option<usize> {
    image.segments.iter().position(|segment| segment.kind == kind)
}

/// An unused entry, as patchelf leaves them, or `PT_PHDR`. The latter tells where the table was linked to be, from which
/// the interpreter computes how far an executable was displaced (glibc's `rtld_setup_main_map`, musl's
/// `__dls3`); nobody asks a shared library, and an executable with fixed addresses is not displaced.
pub(super) fn unread_entry(image: &ElfImage) -> Option<usize> {
    let is_displaced = position(image, elf::PT_INTERP).is_some() && image.header.e_type.get(LE) == elf::ET_DYN;
    let unread = if is_displaced { None } else { position(image, elf::PT_PHDR) };
    position(image, elf::PT_NULL).or(unread)
}

/// The next segment, if it begins with what the loader makes read-only (`PT_GNU_RELRO`), and if the tail is not to be
/// executed.
fn protected_next(image: &ElfImage, load: usize) -> Option<PhdrSlot> {
    let segment = image.segments.get(load)?;
    let (next, following) = image.loads().find(|(_, other)| other.address > segment.address)?;
    let protection = position(image, elf::PT_GNU_RELRO)?;
    let begins_there = image.segments.get(protection)?.address == following.address;
    let is_writable = |segment: &ElfSegment| segment.flags.0 & elf::PF_W.0 != 0;
    // Without sections there is no telling what an executable segment's tail is.
    let may_be_code =
        segment.flags.0 & elf::PF_X.0 != 0 && (image.sections.is_empty() || tail_has_code(image, segment));
    let fits = begins_there
        && is_writable(following)
        && following.flags.0 & elf::PF_X.0 == 0
        && !is_writable(segment)
        && segment.memory_size == segment.file_size
        && !may_be_code;
    fits.then_some(PhdrSlot::WithNext { next, protection })
}

/// Whether there is code behind the device code of an executable segment.
fn tail_has_code(image: &ElfImage, segment: &ElfSegment) -> bool {
    let device = image.sections.iter().find(|section| section.name == super::FATBIN).map_or(0, |it| it.address);
    let end = segment.address.saturating_add(segment.memory_size);
    image
        .sections
        .iter()
        .any(|section| section.flags().0 & elf::SHF_EXECINSTR.0 != 0 && (device..end).contains(&section.address))
}

/// Two segments with the same permissions next to each other, as lld lays out data: what is made read-only after
/// relocation, and the rest.
fn neighbours(image: &ElfImage, load: usize) -> Vec<PhdrSlot> {
    let loads: Vec<_> = image.loads().collect();
    let permissions = |flags: ProgramFlags| flags.0 & (elf::PF_R.0 | elf::PF_W.0 | elf::PF_X.0);
    let Some(device_end) = image.segments.get(load).map(ElfSegment::end) else { return Vec::new() };
    let pairs = loads.windows(2).filter_map(|pair| match pair {
        [(first, a), (second, b)] => {
            let device_is_apart = *first != load && *second != load;
            let follows = a.offset >= device_end;
            (device_is_apart && follows && permissions(a.flags) == permissions(b.flags))
                .then_some(PhdrSlot::Joined { first: *first, second: *second })
        }
        _ => None,
    });
    pairs.collect()
}

/// Whether the kernel starts it, rather than a loader.
pub(super) fn is_executable(image: &ElfImage) -> bool {
    position(image, elf::PT_INTERP).is_some() || image.header.e_type.get(LE) == elf::ET_EXEC
}

/// Linux before 5.18 tells an executable's interpreter that the table is at the load base + `e_phoff`
/// (`create_elf_tables` in `fs/binfmt_elf.c`), so its segment must be displaced like the first one.
fn may_move(image: &ElfImage, load: usize) -> bool {
    let displacement = |segment: &ElfSegment| segment.address.wrapping_sub(segment.offset);
    let first = image.loads().next().map(|(_, first)| displacement(first));
    !is_executable(image) || image.segments.get(load).map(displacement) == first
}
