//! The headers of a PE32+ image, and reading by relative virtual address.
//!
//! Formats and names are those of Microsoft's "PE Format" specification. A relative virtual address (RVA) counts from
//! the image base. Pointers in an image are virtual addresses. The specification's "file pointer" is called an offset
//! here.

use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::pe::{self, ImageDataDirectory, ImageDosHeader, ImageNtHeaders64, ImageSectionHeader};
use object::pod::from_bytes;

use crate::binary::BinaryError;
use crate::binary::pod::{read_pod, read_table};
use crate::memory::{Parser, WholeFile};
use crate::rope::Content;

/// The most sections that Windows loads (`IMAGE_FILE_HEADER` in its API documentation).
pub(super) const MAX_SECTIONS: u16 = 96;

/// Headers of an image. All offsets, addresses and sizes are the file's own claims, and are checked where they are
/// used. They have 32 bits in the file, so sums of a few of them cannot overflow here.
#[derive(Debug)]
pub(super) struct PeImage {
    pub(super) content: Arc<dyn Content>,
    /// File offset of `headers`.
    pub(super) headers_offset: u64,
    pub(super) headers: ImageNtHeaders64,
    pub(super) directories: Vec<ImageDataDirectory>,
    /// File offset of the section table.
    pub(super) table_offset: u64,
    pub(super) sections: Vec<PeSection>,
}

/// A section header. Its name has eight bytes; linkers truncate longer ones.
#[derive(Clone, Debug)]
pub(super) struct PeSection {
    pub(super) header: ImageSectionHeader,
    /// Offset of its bytes in the file.
    pub(super) offset: u64,
    /// Bytes in the file, including padding to the file alignment.
    pub(super) raw_size: u64,
    /// RVA.
    pub(super) address: u64,
    /// Bytes in memory, without padding. Bytes that the file does not have are zero.
    pub(super) virtual_size: u64,
}

impl PeImage {
    /// Reads the headers. `Ok(None)` if this is not a linked 64-bit image. The first bytes of the file are enough to
    /// exclude most other files.
    pub(super) fn read(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        let head = content.beginning(size_of::<ImageDosHeader>())?;
        let Ok((dos, _)) = from_bytes::<ImageDosHeader>(&head) else { return Ok(None) };
        let headers_offset = u64::from(dos.e_lfanew.get(LE));
        let headers_end = headers_offset + size_of::<ImageNtHeaders64>() as u64;
        if dos.e_magic.get(LE) != pe::IMAGE_DOS_SIGNATURE || headers_end > content.size() {
            return Ok(None);
        }
        let headers: ImageNtHeaders64 = read_pod(content, headers_offset)?;
        let flags = headers.file_header.characteristics.get(LE);
        if headers.signature.get(LE) != pe::IMAGE_NT_SIGNATURE
            || headers.optional_header.magic.get(LE) != pe::IMAGE_NT_OPTIONAL_HDR64_MAGIC
            || flags.0 & pe::IMAGE_FILE_EXECUTABLE_IMAGE.0 == 0
        {
            return Ok(None);
        }
        // The data directories follow the fields of fixed size. SizeOfOptionalHeader counts both.
        let optional_size = u64::from(headers.file_header.size_of_optional_header.get(LE));
        let optional_offset = headers_offset + (size_of::<ImageNtHeaders64>() - size_of_optional()) as u64;
        let count = u64::from(headers.optional_header.number_of_rva_and_sizes.get(LE));
        let count = count.min(pe::IMAGE_NUMBEROF_DIRECTORY_ENTRIES as u64);
        if size_of_optional() as u64 + count * size_of::<ImageDataDirectory>() as u64 > optional_size {
            return Err(BinaryError::malformed("its optional header is too short"));
        }
        let directories = read_table(Parser::Pe, content, optional_offset + size_of_optional() as u64, count)?;
        let table_offset = optional_offset + optional_size;
        let count = headers.file_header.number_of_sections.get(LE);
        if count > MAX_SECTIONS {
            return Err(BinaryError::unsupported(format!("it has {count} sections")));
        }
        let table = read_table(Parser::Pe, content, table_offset, count.into())?;
        let sections = table.into_iter().map(PeSection::new).collect();
        let content = Arc::clone(content);
        Ok(Some(Self { content, headers_offset, headers, directories, table_offset, sections }))
    }

    /// A data directory: RVA and size; the certificate table has a file offset instead of an RVA. `None` if it is empty
    /// or missing.
    pub(super) fn directory(&self, index: usize) -> Option<(u64, u64)> {
        let directory = self.directories.get(index)?;
        let (address, size) = (directory.virtual_address.get(LE), directory.size.get(LE));
        (address != 0 && size != 0).then(|| (address.into(), size.into()))
    }

    /// The numbers of the data directories that overlap a range of RVAs. The certificate table is none of them.
    pub(super) fn directories_in(&self, range: &Range<u64>) -> impl Iterator<Item = usize> {
        let overlaps = |&number: &usize| {
            let directory = self.directory(number).filter(|_| number != pe::IMAGE_DIRECTORY_ENTRY_SECURITY);
            directory.is_some_and(|(start, size)| start < range.end && range.start < start + size)
        };
        (0..self.directories.len()).filter(overlaps)
    }

    /// The file offset of the data directories.
    pub(super) fn directories_offset(&self) -> u64 {
        self.headers_offset + size_of::<ImageNtHeaders64>() as u64
    }

    /// The section that contains an RVA.
    pub(super) fn section_at(&self, address: u64) -> Option<&PeSection> {
        self.sections.iter().find(|section| section.contains(address))
    }

    /// The file offset of `length` bytes at an RVA, if one section has all of them in the file.
    pub(super) fn offset_of(&self, address: u64, length: u64) -> Option<u64> {
        let section = self.section_at(address)?;
        let inside = address.checked_sub(section.address)?;
        (inside.checked_add(length)? <= section.loaded_size()).then(|| section.offset.checked_add(inside))?
    }

    /// Reads `length` bytes at an RVA. The caller has bounded `length`.
    pub(super) fn read_at_address(&self, address: u64, length: u64) -> Result<Vec<u8>, BinaryError> {
        let missing = || BinaryError::malformed(format!("{length} bytes at address {address:#x} are not in the file"));
        let offset = self.offset_of(address, length).ok_or_else(missing)?;
        if offset.saturating_add(length) > self.content.size() {
            return Err(missing());
        }
        Ok(WholeFile::part(Parser::Pe, &*self.content, offset, length)?.into_bytes())
    }

    /// The end of the last section in the file.
    pub(super) fn end_of_sections(&self) -> u64 {
        self.sections.iter().filter(|section| section.raw_size > 0).map(PeSection::end).max().unwrap_or(0)
    }

    /// The file alignment of sections.
    pub(super) fn file_unit(&self) -> u64 {
        u64::from(self.headers.optional_header.file_alignment.get(LE)).max(1)
    }

    /// Whether the image is loaded at its linked base or not at all.
    pub(super) fn is_fixed(&self) -> bool {
        self.headers.file_header.characteristics.get(LE).0 & pe::IMAGE_FILE_RELOCS_STRIPPED.0 != 0
    }

    /// The address for which the image is linked.
    pub(super) fn base(&self) -> u64 {
        self.headers.optional_header.image_base.get(LE)
    }
}

impl PeSection {
    fn new(header: ImageSectionHeader) -> Self {
        let offset = u64::from(header.pointer_to_raw_data.get(LE));
        let raw_size = if offset == 0 { 0 } else { header.size_of_raw_data.get(LE).into() };
        // Old linkers leave VirtualSize 0; then it is the size in the file.
        let virtual_size = match header.virtual_size.get(LE) {
            0 => raw_size,
            size => size.into(),
        };
        Self { header, offset, raw_size, address: header.virtual_address.get(LE).into(), virtual_size }
    }

    /// Whether an RVA is in the section.
    pub(super) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|inside| inside < self.virtual_size)
    }

    /// Bytes that are both in the file and in memory, without padding.
    pub(super) fn loaded_size(&self) -> u64 {
        self.raw_size.min(self.virtual_size)
    }

    /// The file offset after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.raw_size
    }
}

/// The size of the optional header without data directories.
const fn size_of_optional() -> usize {
    size_of::<pe::ImageOptionalHeader64>()
}
