//! The headers of an ELF file, and reading by virtual address.
//!
//! Formats and names are those of the System V ABI (gABI), chapters 4 and 5: 64-bit, little-endian.

use std::ops::Range;
use std::sync::Arc;

use object::elf::{self, FileHeader64, ProgramFlags, ProgramHeader64, ProgramType, SectionFlags, SectionHeader64};
use object::pod::{Pod, bytes_of, bytes_of_slice};
use object::{LittleEndian as LE, U32, U64};

use crate::binary::pod::{self, read_pod};
use crate::binary::{BinaryError, LinkedMachine};
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, to_usize};

/// The most section headers that are read. Linked files have some dozens; only object files have many thousands, and
/// those are not read. Each thread may hold those of one file.
const MAX_SECTIONS: u64 = 1 << 11;

/// The most program headers. Linkers make a dozen.
const MAX_SEGMENTS: u16 = 1024;

/// The largest section name table in bytes, and the limit on all names together: several sections may share one name.
/// Those of linked files have about a kilobyte.
pub(super) const MAX_NAMES: u64 = 1 << 20;
const MAX_NAMES_TOGETHER: usize = 256 << 10;

/// Bytes of the longest section name.
const MAX_NAME: usize = 4096;

/// Headers of an ELF file. All offsets and sizes are in bytes. They are the file's own claims, and are checked where
/// they are used.
#[derive(Debug)]
pub(crate) struct ElfImage {
    pub(crate) content: Arc<dyn Content>,
    pub(crate) header: FileHeader64<LE>,
    pub(crate) segments: Vec<ElfSegment>,
    pub(crate) sections: Vec<ElfSection>,
    /// Index of the section that holds the section names.
    pub(crate) names_index: usize,
}

/// A program header.
#[derive(Clone, Debug)]
pub(crate) struct ElfSegment {
    pub(crate) kind: ProgramType,
    pub(crate) flags: ProgramFlags,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) physical_address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) alignment: u64,
}

/// A section header with its name.
#[derive(Clone, Debug)]
pub(crate) struct ElfSection {
    pub(crate) name: Vec<u8>,
    pub(crate) header: SectionHeader64<LE>,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl ElfImage {
    /// Whether addresses may contain code, according to sections. Those that are not loaded say nothing about memory.
    pub(super) fn may_have_code(&self, addresses: &Range<u64>) -> bool {
        let is_code = |section: &ElfSection| {
            let end = section.address.saturating_add(section.size);
            let is_there = section.address < addresses.end && addresses.start < end;
            section.is_allocated() && section.flags().0 & elf::SHF_EXECINSTR.0 != 0 && is_there
        };
        self.sections.is_empty() || self.sections.iter().any(is_code)
    }

    /// Reads the headers. `Ok(None)` if this is not an ELF file that can have device code for a loader: it is not
    /// 64-bit little-endian, neither an executable nor a shared library, or code of a GPU itself.
    pub(crate) fn read(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        let is_for_host = |it: &FileHeader64<LE>| LinkedMachine::Elf(it.e_machine.get(LE).0).is_host();
        let Some(header) = Self::loadable_header(content)?.filter(is_for_host) else { return Ok(None) };
        let segments = read_segments(content, &header)?;
        let (sections, names_index) = read_sections(content, &header)?;
        Ok(Some(Self { content: Arc::clone(content), header, segments, sections, names_index }))
    }

    /// The header of a 64-bit little-endian executable or shared library.
    pub(super) fn loadable_header(content: &Arc<dyn Content>) -> Result<Option<FileHeader64<LE>>, BinaryError> {
        if content.size() < size_of::<FileHeader64<LE>>() as u64 {
            return Ok(None);
        }
        let header = read_pod::<FileHeader64<LE>>(content, 0)?;
        let elf::Ident { magic, class, data, .. } = header.e_ident;
        let is_loadable = matches!(header.e_type.get(LE), elf::ET_EXEC | elf::ET_DYN)
            && (magic, class, data) == (elf::ELFMAG, elf::ELFCLASS64, elf::ELFDATA2LSB);
        Ok(is_loadable.then_some(header))
    }

    /// The loadable segments in file order.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (usize, &ElfSegment)> {
        self.segments.iter().enumerate().filter(|(_, segment)| segment.kind == elf::PT_LOAD)
    }

    /// The program header with this index.
    pub(crate) fn segment(&self, index: usize) -> Result<&ElfSegment, BinaryError> {
        self.segments.get(index).ok_or_else(|| BinaryError::malformed("no such program header"))
    }

    /// The first section with this name, but for unused ones (`SHT_NULL`) and that with index 0 (`SHN_UNDEF`).
    pub(crate) fn section(&self, name: &[u8]) -> Option<(usize, &ElfSection)> {
        self.sections.iter().enumerate().skip(1).find(|(_, section)| !section.is_null() && section.name == name)
    }

    /// Fails unless the bytes of all loadable segments are in the file. They are missing from files that have
    /// debug information only, and some tools keep the old numbers there.
    pub(crate) fn check_bounds(&self) -> Result<(), BinaryError> {
        let mut loaded = 0_u64;
        for (_, segment) in self.loads() {
            let in_memory = segment.address.checked_add(segment.memory_size);
            let in_file = segment.offset.checked_add(segment.file_size);
            if in_memory.is_none() || in_file.is_none_or(|end| end > self.content.size()) {
                return Err(BinaryError::malformed("a segment reaches past the end of the file"));
            }
            // Otherwise the same bytes could be searched any number of times.
            loaded = loaded.saturating_add(segment.file_size);
            if loaded / 2 > self.content.size() {
                return Err(BinaryError::malformed("its segments overlap in the file"));
            }
        }
        Ok(())
    }

    /// The file offset of `length` bytes at a virtual address, if all of them are in the file.
    pub(crate) fn offset_of(&self, address: u64, length: u64) -> Option<u64> {
        self.loads().find_map(|(_, load)| load.offset_of(address, length))
    }

    /// The number of bytes from a virtual address on that one segment loads from the file.
    pub(crate) fn loaded_from(&self, address: u64) -> Option<u64> {
        let rest = |load: &ElfSegment| load.file_size.checked_sub(address.checked_sub(load.address)?);
        self.loads().find_map(|(_, load)| rest(load).filter(|&rest| rest > 0))
    }

    /// Reads what one segment loads at a virtual address, up to `limit` bytes.
    pub(crate) fn read_loaded(&self, address: u64, limit: u64) -> Result<Arc<[u8]>, BinaryError> {
        let unmapped = || BinaryError::malformed(format!("its pointer leads to {address:#x}, where nothing is loaded"));
        let length = self.loaded_from(address).ok_or_else(unmapped)?.min(limit);
        let offset = self.offset_of(address, length).ok_or_else(unmapped)?;
        Ok(WholeFile::part(Parser::Elf, &*self.content, offset, length)?.into_bytes().into())
    }

    /// File offsets of the section header table.
    pub(crate) fn section_headers(&self) -> Range<u64> {
        let start = self.header.e_shoff.get(LE);
        let size = self.sections.len() as u64 * size_of::<SectionHeader64<LE>>() as u64;
        start..start.saturating_add(size)
    }

    /// Whether bytes of a section are in a loadable segment.
    pub(crate) fn is_loaded(&self, section: &ElfSection) -> bool {
        self.loads().any(|(_, load)| load.offset < section.end() && section.offset < load.end())
    }

    /// Whether these bytes overlap the section header table, which changes when sections move.
    pub(crate) fn is_in_section_headers(&self, offset: u64, size: u64) -> bool {
        let table = self.section_headers();
        offset < table.end && table.start < offset.saturating_add(size)
    }

    /// File offsets of the file header, the program headers and the section headers, which may all change.
    fn headers(&self) -> [Range<u64>; 3] {
        let start = self.header.e_phoff.get(LE);
        let length = u64::from(self.header.e_phnum.get(LE)) * size_of::<ProgramHeader64<LE>>() as u64;
        let file_header = 0..size_of::<FileHeader64<LE>>() as u64;
        [file_header, start..start.saturating_add(length), self.section_headers()]
    }

    /// Whether these bytes overlap headers.
    pub(crate) fn is_in_headers(&self, offset: u64, size: u64) -> bool {
        self.headers().iter().any(|table| offset < table.end && table.start < offset.saturating_add(size))
    }

    /// The addresses of headers, as far as segments map them: ranges that do not overlap, ascending.
    pub(crate) fn header_addresses(&self) -> Vec<Range<u64>> {
        let mapped = |(_, load): (usize, &ElfSegment)| {
            let (offset, end, address) = (load.offset, load.end(), load.address);
            self.headers().into_iter().filter_map(move |table| {
                let (from, to) = (table.start.max(offset), table.end.min(end));
                (from < to).then(|| address.saturating_add(from - offset)..address.saturating_add(to - offset))
            })
        };
        let mut all: Vec<Range<u64>> = self.loads().flat_map(mapped).collect();
        all.sort_unstable_by_key(|range| range.start);
        all.dedup_by(|next, range| {
            let overlaps = next.start <= range.end;
            range.end = if overlaps { range.end.max(next.end) } else { range.end };
            overlaps
        });
        all
    }

    /// The virtual address of a file offset, if a segment maps it.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        self.loads().find_map(|(_, load)| {
            let inside = offset.checked_sub(load.offset)?;
            (inside < load.file_size).then(|| load.address.checked_add(inside))?
        })
    }

    /// Reads one structure at a virtual address.
    pub(crate) fn read_at_address<T: Pod>(&self, address: u64) -> Result<T, BinaryError> {
        let offset = self
            .offset_of(address, size_of::<T>() as u64)
            .ok_or_else(|| BinaryError::malformed(format!("nothing is loaded at address {address:#x}")))?;
        read_pod(&self.content, offset)
    }
}

impl ElfSegment {
    fn decode(header: &ProgramHeader64<LE>) -> Self {
        Self {
            kind: header.p_type.get(LE),
            flags: header.p_flags.get(LE),
            offset: header.p_offset.get(LE),
            address: header.p_vaddr.get(LE),
            physical_address: header.p_paddr.get(LE),
            file_size: header.p_filesz.get(LE),
            memory_size: header.p_memsz.get(LE),
            alignment: header.p_align.get(LE),
        }
    }

    fn encode(&self) -> ProgramHeader64<LE> {
        ProgramHeader64 {
            p_type: U32::new(LE, self.kind),
            p_flags: U32::new(LE, self.flags),
            p_offset: U64::new(LE, self.offset),
            p_vaddr: U64::new(LE, self.address),
            p_paddr: U64::new(LE, self.physical_address),
            p_filesz: U64::new(LE, self.file_size),
            p_memsz: U64::new(LE, self.memory_size),
            p_align: U64::new(LE, self.alignment),
        }
    }

    /// The file offset of `length` bytes at a virtual address, if it has all of them in the file.
    pub(crate) fn offset_of(&self, address: u64, length: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address)?;
        (inside.checked_add(length)? <= self.file_size).then(|| self.offset.checked_add(inside))?
    }

    /// The offset after the last byte in the file.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.file_size)
    }
}

impl ElfSection {
    /// The offset after the last byte in the file.
    pub(crate) fn end(&self) -> u64 {
        if self.is_nobits() { self.offset } else { self.offset.saturating_add(self.size) }
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|inside| inside < self.size)
    }

    pub(crate) fn is_nobits(&self) -> bool {
        self.header.sh_type.get(LE) == elf::SHT_NOBITS
    }

    pub(crate) fn is_null(&self) -> bool {
        self.header.sh_type.get(LE) == elf::SHT_NULL
    }

    pub(crate) fn is_allocated(&self) -> bool {
        self.flags().0 & elf::SHF_ALLOC.0 != 0
    }

    pub(crate) fn flags(&self) -> SectionFlags {
        self.header.sh_flags.get(LE)
    }
}

/// The bytes of a program header table.
pub(crate) fn encode_segments(segments: &[ElfSegment]) -> Vec<u8> {
    let headers: Vec<_> = segments.iter().map(ElfSegment::encode).collect();
    bytes_of_slice(&headers).to_vec()
}

/// The bytes of a section header table.
pub(crate) fn encode_sections(sections: &[ElfSection]) -> Vec<u8> {
    sections.iter().flat_map(|section| bytes_of(&section.header)).copied().collect()
}

/// Reads `count` structures at a file offset. The caller has bounded `count`.
pub(super) fn read_table<T: Pod>(content: &Arc<dyn Content>, offset: u64, count: u64) -> Result<Vec<T>, BinaryError> {
    pod::read_table(Parser::Elf, content, offset, count)
}

pub(super) fn read_segments(
    content: &Arc<dyn Content>,
    header: &FileHeader64<LE>,
) -> Result<Vec<ElfSegment>, BinaryError> {
    let count = header.e_phnum.get(LE);
    if count > MAX_SEGMENTS {
        return Err(BinaryError::unsupported(format!("it has {count} program headers; the limit is {MAX_SEGMENTS}")));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    if usize::from(header.e_phentsize.get(LE)) != size_of::<ProgramHeader64<LE>>() {
        return Err(BinaryError::malformed("unusual size of a program header"));
    }
    let table = read_table::<ProgramHeader64<LE>>(content, header.e_phoff.get(LE), count.into())?;
    Ok(table.iter().map(ElfSegment::decode).collect())
}

/// The sections, and the index of the one with their names. A file without section headers has none.
fn read_sections(
    content: &Arc<dyn Content>,
    header: &FileHeader64<LE>,
) -> Result<(Vec<ElfSection>, usize), BinaryError> {
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return Ok((Vec::new(), 0));
    }
    if usize::from(header.e_shentsize.get(LE)) != size_of::<SectionHeader64<LE>>() {
        return Err(BinaryError::malformed("unusual size of a section header"));
    }
    if offset.saturating_add(size_of::<SectionHeader64<LE>>() as u64) > content.size() {
        return Err(BinaryError::malformed("the section headers are past the end of the file"));
    }
    // gABI: counts that do not fit into the file header are in section header 0.
    let first: SectionHeader64<LE> = read_pod(content, offset)?;
    let count = match header.e_shnum.get(LE) {
        0 => first.sh_size.get(LE),
        count => count.into(),
    };
    let names_index = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => first.sh_link.get(LE),
        index => index.0.into(),
    };
    if count > MAX_SECTIONS {
        return Err(BinaryError::unsupported(format!("it has {count} sections; the limit is {MAX_SECTIONS}")));
    }
    let table = read_table::<SectionHeader64<LE>>(content, offset, count)?;
    let names_index = to_usize(names_index.into());
    let names = match table.get(names_index) {
        Some(names) if names_index != 0 => read_names(content, names)?,
        _ => Vec::new(),
    };
    let mut length = 0;
    let section = |header: SectionHeader64<LE>| {
        let name = name_at(&names, header.sh_name.get(LE))?;
        length += name.len();
        if length > MAX_NAMES_TOGETHER {
            return Err(BinaryError::unsupported(format!(
                "the names of its sections take more than {MAX_NAMES_TOGETHER} bytes"
            )));
        }
        let (offset, address, size) = (header.sh_offset.get(LE), header.sh_addr.get(LE), header.sh_size.get(LE));
        Ok(ElfSection { name: name.to_vec(), offset, address, size, header })
    };
    Ok((table.into_iter().map(section).collect::<Result<_, _>>()?, names_index))
}

fn read_names(content: &Arc<dyn Content>, names: &SectionHeader64<LE>) -> Result<Vec<u8>, BinaryError> {
    let size = names.sh_size.get(LE);
    if size > MAX_NAMES {
        return Err(BinaryError::unsupported(format!("its section names take {size} bytes; the limit is {MAX_NAMES}")));
    }
    read_table::<u8>(content, names.sh_offset.get(LE), size)
}

fn name_at(names: &[u8], offset: u32) -> Result<&[u8], BinaryError> {
    let start = to_usize(offset.into());
    let rest = names.get(start..).unwrap_or_default();
    let rest = rest.get(..=MAX_NAME).unwrap_or(rest);
    let name = rest.split(|&byte| byte == 0).next().unwrap_or_default();
    if name.len() > MAX_NAME {
        return Err(BinaryError::unsupported(format!("the name of a section is longer than {MAX_NAME} bytes")));
    }
    Ok(name)
}
