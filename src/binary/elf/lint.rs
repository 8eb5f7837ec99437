//! Rules of loaders, linkers and inspection tools for files, as far as rewriting is likely to break them.

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64};

use super::FatElf;
use super::image::{ElfImage, ElfSection, ElfSegment};
use super::sections::{FATBIN, MARKER};
use crate::binary::BinaryError;
use crate::binary::pod::read_pod;
use crate::binary::split::Problems;

/// Bytes of memory that a writable segment may have without a section that accounts for them. With strict overcommit,
/// more would be charged to every process for nothing.
const MAX_UNEXPLAINED: u64 = 1 << 20;

impl FatElf {
    /// The rules that it breaks.
    pub(in crate::binary) fn problems(&self) -> Result<Vec<String>, BinaryError> {
        let mut problems = Problems::default();
        check(&self.image, &mut problems)?;
        Ok(problems.into_list())
    }
}

/// Adds a sentence for each rule that the file breaks.
pub(super) fn check(image: &ElfImage, problems: &mut Problems) -> Result<(), BinaryError> {
    loads(image, problems);
    program_headers(image, problems);
    sections(image, problems);
    tables(image, problems);
    names(image, problems)
}

/// gABI, "Program Header". glibc before 2.35 refuses a segment whose offset and address differ modulo its own
/// alignment, even if that is larger than a page.
fn loads(image: &ElfImage, problems: &mut Problems) {
    let mut end = 0;
    for (number, load) in image.loads() {
        let mut say = |what: String| problems.push(format!("program header {number}: {what}"));
        if load.alignment > 1 && !load.alignment.is_power_of_two() {
            say(format!("alignment {:#x} is not a power of two", load.alignment));
        } else if load.alignment > 1 && load.address.wrapping_sub(load.offset) % load.alignment != 0 {
            let (offset, address, alignment) = (load.offset, load.address, load.alignment);
            say(format!("offset {offset:#x} and address {address:#x} differ modulo its alignment {alignment:#x}"));
        }
        if load.file_size > load.memory_size {
            say("it is longer in the file than in memory".to_owned());
        }
        if load.address < end {
            say("it does not begin behind the segment before it".to_owned());
        }
        end = end.max(load.address.saturating_add(load.memory_size));
        let extra = load.memory_size.saturating_sub(load.file_size);
        let is_known = !image.sections.is_empty();
        if is_known && load.flags.0 & elf::PF_W.0 != 0 && extra > MAX_UNEXPLAINED.saturating_add(explained(image, load))
        {
            say(format!("{extra} writable bytes without file content, and no section that needs them"));
        }
    }
}

/// Bytes of a segment's memory after its file content that sections of zero-initialised variables account for.
fn explained(image: &ElfImage, load: &ElfSegment) -> u64 {
    let memory = load.address..load.address.saturating_add(load.memory_size);
    let of_variables = image.sections.iter().filter(|section| {
        section.is_nobits() && section.is_allocated() && section.name != FATBIN && memory.contains(&section.address)
    });
    of_variables.map(|section| section.size).fold(0, u64::saturating_add)
}

fn program_headers(image: &ElfImage, problems: &mut Problems) {
    let table = image.header.e_phoff.get(LE);
    let size = image.segments.len() as u64 * size_of::<ProgramHeader64<LE>>() as u64;
    let position = |kind| image.segments.iter().position(|segment| segment.kind == kind);
    if let Some((number, header)) = position(elf::PT_PHDR).and_then(|at| Some((at, image.segments.get(at)?))) {
        if header.offset != table || header.file_size != size || header.memory_size != size {
            problems.push(format!("program header {number}: PT_PHDR does not describe the program header table"));
        } else if image.offset_of(header.address, size) != Some(table) {
            problems.push(format!("program header {number}: PT_PHDR is not inside a loaded segment"));
        }
        if position(elf::PT_LOAD).is_some_and(|first| first < number) {
            problems.push(format!("program header {number}: PT_PHDR follows a loaded segment"));
        }
    }
    let inner = [elf::PT_DYNAMIC, elf::PT_INTERP, elf::PT_TLS, elf::PT_GNU_EH_FRAME, elf::PT_GNU_RELRO];
    for (number, segment) in image.segments.iter().enumerate() {
        let is_inner = inner.contains(&segment.kind) && segment.file_size > 0;
        // Linkers round the end of PT_GNU_RELRO up to a page, so only its beginning is checked.
        if is_inner && image.offset_of(segment.address, 1) != Some(segment.offset) {
            problems.push(format!("program header {number}: its address and offset belong to no loaded segment"));
        }
    }
}

fn sections(image: &ElfImage, problems: &mut Problems) {
    let size = image.content.size();
    let mut unloaded = None;
    for section in image.sections.iter().filter(|section| !section.is_null()) {
        let name = String::from_utf8_lossy(&section.name);
        let mut say = |what: &str| problems.push(format!("section {name}: {what}"));
        if !section.is_nobits() && section.offset.checked_add(section.size).is_none_or(|end| end > size) {
            say("it reaches past the end of the file");
        }
        let alignment = section.header.sh_addralign.get(LE);
        if alignment > 1 && section.address % alignment != 0 {
            say("its address is not aligned");
        }
        if !section.is_allocated() {
            // `ld -q` keeps the relocations of each section, right behind it.
            if !matches!(section.header.sh_type.get(LE), elf::SHT_RELA | elf::SHT_REL) {
                unloaded.get_or_insert_with(|| name.clone().into_owned());
            }
            continue;
        }
        // Tools such as dwz refuse this. Files from patchelf already have such sections, so only the marker's section
        // is checked.
        if let Some(before) = unloaded.as_ref().filter(|_| section.name == MARKER) {
            say(&format!("it is loaded but comes after {before}, which is not"));
        }
        let is_thread_local = section.flags().0 & elf::SHF_TLS.0 != 0;
        if section.size == 0 || (section.is_nobits() && is_thread_local) {
            continue;
        }
        if load_of(image, section).is_none() {
            say("it is not inside a loaded segment");
        } else if !section.is_nobits() && image.offset_of(section.address, section.size) != Some(section.offset) {
            say("its address and its offset are not the same place");
        }
        for (needs, flag, reason) in [
            (elf::SHF_EXECINSTR.0, elf::PF_X, "it has code, but its segment is not executable"),
            (elf::SHF_WRITE.0, elf::PF_W, "it is writable, but its segment is not"),
        ] {
            let lacks = |load: &ElfSegment| load.flags.0 & flag.0 == 0;
            if section.flags().0 & needs != 0 && load_of(image, section).is_some_and(lacks) {
                say(reason);
            }
        }
    }
}

/// The loaded segment with a section.
fn load_of<'a>(image: &'a ElfImage, section: &ElfSection) -> Option<&'a ElfSegment> {
    let has = |load: &ElfSegment| {
        let inside = section.address.checked_sub(load.address);
        inside.and_then(|inside| inside.checked_add(section.size)).is_some_and(|end| end <= load.memory_size)
    };
    image.loads().map(|(_, load)| load).find(|load| has(load))
}

/// Headers and sections must not overlap in the file.
fn tables(image: &ElfImage, problems: &mut Problems) {
    let header = &image.header;
    let segments = image.segments.len() as u64 * size_of::<ProgramHeader64<LE>>() as u64;
    let sections = image.section_headers();
    let of_sections =
        image.sections.iter().filter(|section| !section.is_null()).map(|section| {
            (section.offset, section.end(), format!("section {}", String::from_utf8_lossy(&section.name)))
        });
    let range = |start: u64, size: u64, name: &str| (start, start.saturating_add(size), name.to_owned());
    let mut ranges: Vec<_> = of_sections
        .chain([
            range(0, header.e_ehsize.get(LE).into(), "the file header"),
            range(header.e_phoff.get(LE), segments, "the program header table"),
            (sections.start, sections.end, "the section header table".to_owned()),
        ])
        .filter(|(start, end, _)| start < end)
        .collect();
    ranges.sort();
    let mut last: Option<(u64, String)> = None;
    for (start, end, name) in ranges {
        if let Some((_, other)) = last.as_ref().filter(|(last, _)| start < *last) {
            problems.push(format!("{other} and {name} overlap in the file"));
        }
        if last.as_ref().is_none_or(|(last, _)| end > *last) {
            last = Some((end, name));
        }
    }
}

fn names(image: &ElfImage, problems: &mut Problems) -> Result<(), BinaryError> {
    if image.sections.is_empty() {
        return Ok(());
    }
    let table = image.sections.get(image.names_index).filter(|table| table.header.sh_type.get(LE) == elf::SHT_STRTAB);
    let Some(table) = table.filter(|table| table.size > 0 && table.end() <= image.content.size()) else {
        problems.push("its sections have no names".to_owned());
        return Ok(());
    };
    let [first]: [u8; 1] = read_pod(&image.content, table.offset)?;
    let [last]: [u8; 1] = read_pod(&image.content, table.end() - 1)?;
    if first != 0 || last != 0 {
        problems.push("its table of section names does not begin and end with NUL".to_owned());
    }
    if image.sections.iter().any(|section| u64::from(section.header.sh_name.get(LE)) >= table.size) {
        problems.push("the name of a section lies outside of the table of names".to_owned());
    }
    Ok(())
}
