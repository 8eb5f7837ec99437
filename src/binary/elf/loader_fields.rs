//! Header fields that the kernel and `ld.so` read: what a rewritten file must have in common with the original.
//!
//! glibc's `elf/dl-load.c` and Linux's `fs/binfmt_elf.c` read the file header, the place, permissions and alignment of
//! segments, and the ranges of `PT_DYNAMIC`, `PT_TLS`, `PT_GNU_RELRO`, `PT_GNU_STACK` and notes. They do not read
//! section headers.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, ProgramFlags, ProgramType};

use super::image::{ElfImage, ElfSegment};

/// The first unnecessary difference in what a loader reads of the headers. `device` are the addresses of the device
/// code, where anything may be that is only read.
pub(super) fn difference(old: &ElfImage, new: &ElfImage, device: &Range<u64>) -> Option<String> {
    if file_header(old) != file_header(new) {
        return Some("its file header has changed".to_owned());
    }
    protection(old, new).or_else(|| permissions(old, new, device)).or_else(|| other_headers(old, new, device))
}

/// The fields of the file header that do not depend on where tables are.
fn file_header(image: &ElfImage) -> impl PartialEq {
    let header = &image.header;
    let ident = &header.e_ident;
    (
        (ident.magic, ident.class, ident.data, ident.version, ident.os_abi, ident.abi_version),
        (header.e_type.get(LE), header.e_machine.get(LE), header.e_version.get(LE), header.e_flags.get(LE)),
        (header.e_entry.get(LE), header.e_phentsize.get(LE)),
    )
}

/// Compares the permissions of memory. Memory that was not writable may be mapped writable if it becomes read-only
/// after relocation.
fn permissions(old: &ElfImage, new: &ElfImage, device: &Range<u64>) -> Option<String> {
    let of = |flags: ProgramFlags| flags.0 & (elf::PF_R.0 | elf::PF_W.0 | elf::PF_X.0);
    let protected = relro(new).map(memory);
    for (number, load) in new.loads() {
        let range = memory(load);
        let mut is_new = true;
        for (_, original) in old.loads() {
            let common = common(&range, &memory(original));
            if common.is_empty() {
                continue;
            }
            is_new = false;
            let is = of(load.flags);
            // A part of an executable segment without code need not be executable any more.
            let code = if old.may_have_code(&common) { elf::PF_X.0 } else { 0 };
            let was = of(original.flags) & (!elf::PF_X.0 | is | code);
            let becomes_readonly =
                || protected.as_ref().is_some_and(|it| it.start <= common.start && common.end <= it.end);
            let is_of_device = || is == elf::PF_R.0 && device.start <= common.start && common.end <= device.end;
            let is_same = was == is || was | elf::PF_W.0 == is && becomes_readonly() || is_of_device();
            if !is_same {
                let at = common.start;
                return Some(format!(
                    "program header {number}: memory at {at:#x} was {} and is {}",
                    text(was),
                    text(is)
                ));
            }
        }
        if is_new && !range.is_empty() && of(load.flags) & (elf::PF_W.0 | elf::PF_X.0) != 0 {
            let (at, flags) = (range.start, text(of(load.flags)));
            return Some(format!("program header {number}: memory at {at:#x} was not mapped and is {flags}"));
        }
    }
    None
}

/// Compares what becomes read-only after relocation. It may begin earlier, where nothing was writable.
fn protection(old: &ElfImage, new: &ElfImage) -> Option<String> {
    let (was, is) = (relro(old), relro(new));
    let (Some(was), Some(is)) = (was, is) else {
        return (was.is_some() != is.is_some()).then(|| "PT_GNU_RELRO was added or removed".to_owned());
    };
    let (before, after) = (memory(was), memory(is));
    let added = after.start..before.start.max(after.start);
    let is_writable = |load: &ElfSegment| load.flags.0 & elf::PF_W.0 != 0;
    let was_writable = old.loads().any(|(_, load)| is_writable(load) && !common(&memory(load), &added).is_empty());
    let is_same = after.start <= before.start && after.end == before.end && was.flags == is.flags && !was_writable;
    (!is_same).then(|| format!("PT_GNU_RELRO was {before:#x?} and is {after:#x?}"))
}

/// Compares the other program headers that describe loaded memory, and `PT_GNU_STACK`. What describes nothing but
/// device code describes nothing in a binary without it.
fn other_headers(old: &ElfImage, new: &ElfImage, device: &Range<u64>) -> Option<String> {
    type Fields = (ProgramType, ProgramFlags, u64, u64, u64, u64);
    let fields = |image: &ElfImage| {
        let is_apart =
            |kind: ProgramType| matches!(kind, elf::PT_NULL | elf::PT_PHDR | elf::PT_LOAD | elf::PT_GNU_RELRO);
        let is_loaded = |segment: &ElfSegment| {
            let range = memory(segment);
            let is_device = device.start <= range.start && range.end <= device.end;
            segment.kind == elf::PT_GNU_STACK
                || !is_device && image.loads().any(|(_, load)| !common(&memory(load), &range).is_empty())
        };
        let read = image.segments.iter().filter(|segment| !is_apart(segment.kind) && is_loaded(segment));
        let mut fields: Vec<Fields> =
            read.map(|it| (it.kind, it.flags, it.address, it.file_size, it.memory_size, it.alignment)).collect();
        fields.sort_unstable_by_key(|it| (it.0.0, it.1.0, it.2, it.3, it.4, it.5));
        fields
    };
    let (was, is) = (fields(old), fields(new));
    let gone = was.iter().find(|it| !is.contains(it));
    let added = is.iter().find(|it| !was.contains(it));
    let kind = gone.or(added).map(|it| it.0.0).or_else(|| (was.len() != is.len()).then_some(0))?;
    Some(format!("a program header of type {kind:#x}, which loaders read, has changed"))
}

fn relro(image: &ElfImage) -> Option<&ElfSegment> {
    image.segments.iter().find(|segment| segment.kind == elf::PT_GNU_RELRO)
}

/// The addresses of a segment.
fn memory(segment: &ElfSegment) -> Range<u64> {
    segment.address..segment.address.saturating_add(segment.memory_size)
}

fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// Permissions as in `/proc/self/maps`.
fn text(flags: u32) -> String {
    let letter = |flag: ProgramFlags, letter| if flags & flag.0 == 0 { '-' } else { letter };
    [letter(elf::PF_R, 'r'), letter(elf::PF_W, 'w'), letter(elf::PF_X, 'x')].iter().collect()
}
