//! A split image with its device code put back.
//!
//! The bundles go into the section of the marker if its addresses suffice: splitters leave it as large in memory as the
//! device code was. Otherwise they get a new section after all others. Some files have no room for another section
//! header. Nothing can be moved to make room, since the first section follows the headers in memory.
//! File offsets in the image that are not those of sections' bytes move then: in headers, debug data, certificates.

use std::ops::Range;
use std::sync::Arc;

use object::pe::{self, ImageDataDirectory, ImageDebugDirectory, ImageNtHeaders64, ImageSectionHeader, SectionFlags};
use object::pod::{bytes_of, bytes_of_slice, slice_from_bytes};
use object::{LittleEndian as LE, U16, U32};

use super::checksum::{CHECKSUM_SIZE, FIELD};
use super::image::{MAX_SECTIONS, PeImage, PeSection};
use super::layout::PeLayout;
use super::{FATBIN, MARKER, UNUSED, WRAPPERS, check, only, relocation, wrapper_offsets};
use crate::binary::BinaryError;
use crate::binary::changes::{Patch, PatchPiece};
use crate::binary::form::BundleLayout;
use crate::binary::wrapper::{FATBIN_WRAPPER_MAGIC, WrapperFields};
use crate::rope::{Content, head, tail, to_usize};

/// Bytes of a section header.
const HEADER: u64 = size_of::<ImageSectionHeader>() as u64;

/// The most memory of an image: Windows loads no larger ones ("PE Format" leaves it to the loader; link.exe refuses
/// them with LNK1248).
const LARGEST: u64 = 1 << 31;

/// The changes that put bundles into a split image.
pub(in crate::binary) fn join(content: &Arc<dyn Content>, bundles: &BundleLayout) -> Result<Vec<Patch>, BinaryError> {
    let image = PeImage::read(content)?.ok_or_else(|| BinaryError::unsupported("it is not for a loader"))?;
    check(&image)?;
    let others = || BinaryError::malformed("its wrappers have changed");
    let (_, section) = only(&image, WRAPPERS)?.ok_or_else(others)?;
    let [_, wrappers] = wrapper_offsets(&image, section)?;
    if wrappers.len() != bundles.wrappers.len() {
        return Err(others());
    }
    let slots: Vec<_> = wrappers.iter().map(|offset| section.address + (offset - section.offset) + 8).collect();
    let range = section.address..section.address + section.virtual_size;
    let pointers = relocation::resolve(&image, &slots, &range, &(0..0))?;
    let home = match PePlacement::old(&image, &pointers, bundles.size)? {
        Some(home) => home,
        None => PePlacement::new(&image, bundles.size)?,
    };
    let mut changes: Vec<_> = wrappers
        .iter()
        .zip(&bundles.wrappers)
        .map(|(offset, inside)| {
            let address = image.base().wrapping_add(home.address + inside);
            Patch::overwrite(*offset, WrapperFields::encode(FATBIN_WRAPPER_MAGIC, address, Some(0)))
        })
        .collect();
    changes.push(home.content(bundles));
    changes.push(home.sections(&image)?);
    changes.extend(move_debug_data(&image, &home.layout)?);
    changes.extend(drop_signature(&image, &home.layout));
    changes.push(patch_headers(&image, &home.headers(&image)?));
    Ok(changes)
}

/// The section that receives the device code.
struct PePlacement {
    /// The number of its section. A new section gets the number after the last one.
    number: usize,
    /// The header of its section.
    header: ImageSectionHeader,
    /// Its RVA.
    address: u64,
    /// The bytes of the file that it replaces; empty if it is inserted.
    replaced: Range<u64>,
    /// Zeros before it in the file.
    before: u64,
    /// Its bytes in the file.
    length: u64,
    layout: PeLayout,
}

impl PePlacement {
    /// The section of the marker, or the remains of the device code's old section, if the next section begins far
    /// enough behind it.
    fn old(image: &PeImage, pointers: &[u64], size: u64) -> Result<Option<Self>, BinaryError> {
        let marker = only(image, MARKER)?.filter(|(_, it)| pointers.iter().all(|pointer| it.contains(*pointer)));
        let Some((number, section)) = only(image, FATBIN)?.or(marker) else { return Ok(None) };
        let end = image.sections.get(number + 1).map_or(LARGEST, |next| next.address);
        let has_room = section.address.checked_add(size).is_some_and(|needed| needed <= end);
        if section.raw_size == 0 || !has_room {
            return Ok(None);
        }
        // The rest of the file moves by whole units, so its alignment stays the same.
        let added = size.saturating_sub(section.raw_size).next_multiple_of(image.file_unit());
        let length = section.raw_size + added;
        let replaced = section.offset..section.end();
        let layout = PeLayout::grown(image, replaced.clone(), added);
        let header = ImageSectionHeader {
            name: FATBIN,
            virtual_size: word(section.virtual_size.max(size))?,
            size_of_raw_data: word(length)?,
            ..moved_section(section, true, &layout)?
        };
        Ok(Some(Self { number, header, address: section.address, replaced, before: 0, length, layout }))
    }

    /// A new section after all others.
    fn new(image: &PeImage, size: u64) -> Result<Self, BinaryError> {
        let last = image.sections.last().ok_or_else(|| BinaryError::malformed("it has no sections"))?;
        check_headers(image)?;
        let unit = u64::from(image.headers.optional_header.section_alignment.get(LE)).max(1);
        let address = (last.address + last.virtual_size).next_multiple_of(unit);
        if address.checked_add(size).is_none_or(|end| end > LARGEST) {
            return Err(BinaryError::unsupported("with its device code it would take more than 2 GiB of memory"));
        }
        let end = image.end_of_sections();
        let offset = end.next_multiple_of(image.file_unit());
        let (before, length) = (offset - end, size.next_multiple_of(image.file_unit()));
        let flags = SectionFlags(pe::IMAGE_SCN_CNT_INITIALIZED_DATA.0 | pe::IMAGE_SCN_MEM_READ.0);
        let header = ImageSectionHeader {
            name: FATBIN,
            virtual_size: word(size)?,
            virtual_address: word(address)?,
            size_of_raw_data: word(length)?,
            pointer_to_raw_data: word(offset)?,
            pointer_to_relocations: word(0)?,
            pointer_to_linenumbers: word(0)?,
            number_of_relocations: U16::new(LE, 0),
            number_of_linenumbers: U16::new(LE, 0),
            characteristics: U32::new(LE, flags),
        };
        let layout = PeLayout::grown(image, end..end, before + length);
        Ok(Self { number: image.sections.len(), header, address, replaced: end..end, before, length, layout })
    }

    fn content(&self, bundles: &BundleLayout) -> Patch {
        let mut replacement = bundles.pieces(self.length);
        if self.before > 0 {
            replacement.insert(0, PatchPiece::Zeros(self.before));
        }
        Patch { start: self.replaced.start, end: self.replaced.end, replacement }
    }

    /// The section table. Unused sections for device code or a marker are renamed, so that there is one section of each
    /// name.
    fn sections(&self, image: &PeImage) -> Result<Patch, BinaryError> {
        let mut headers = Vec::with_capacity(image.sections.len() + 1);
        for (number, section) in image.sections.iter().enumerate() {
            if number == self.number {
                headers.push(self.header);
                continue;
            }
            let mut header = moved_section(section, false, &self.layout)?;
            if header.name == FATBIN || header.name == MARKER {
                header.name = UNUSED;
            }
            headers.push(header);
        }
        if self.number == image.sections.len() {
            headers.push(self.header);
        }
        Ok(Patch::overwrite(image.table_offset, bytes_of_slice(&headers)))
    }

    fn headers(&self, image: &PeImage) -> Result<ImageNtHeaders64, BinaryError> {
        let mut headers = moved_headers(image, &self.layout)?;
        let (file, optional) = (&mut headers.file_header, &mut headers.optional_header);
        if self.number == image.sections.len() {
            file.number_of_sections = U16::new(LE, file.number_of_sections.get(LE).saturating_add(1));
        }
        // "PE Format": SizeOfImage is a multiple of the section alignment.
        let unit = u64::from(optional.section_alignment.get(LE)).max(1);
        let end = (self.address + u64::from(self.header.virtual_size.get(LE))).next_multiple_of(unit);
        optional.size_of_image = word(end.max(optional.size_of_image.get(LE).into()))?;
        if self.header.characteristics.get(LE).0 & pe::IMAGE_SCN_CNT_INITIALIZED_DATA.0 != 0 {
            let size = u64::from(optional.size_of_initialized_data.get(LE));
            optional.size_of_initialized_data = word(size + self.length - (self.replaced.end - self.replaced.start))?;
        }
        Ok(headers)
    }
}

/// Whether there is room for another section header. Linkers pad the headers, and tools store data in the padding.
fn check_headers(image: &PeImage) -> Result<(), BinaryError> {
    let no_place = || BinaryError::unsupported("there is no place for the header of another section");
    let table_end = image.table_offset + image.sections.len() as u64 * HEADER;
    let first = image.sections.iter().filter(|section| section.raw_size > 0).map(|section| section.offset).min();
    let end = u64::from(image.headers.optional_header.size_of_headers.get(LE)).min(first.unwrap_or(0));
    if image.sections.len() >= usize::from(MAX_SECTIONS) || table_end + HEADER > end.min(image.content.size()) {
        return Err(no_place());
    }
    let mut bytes = vec![0; size_of::<ImageSectionHeader>()];
    image.content.read_at(table_end, &mut bytes)?;
    if bytes.iter().any(|&byte| byte != 0) { Err(no_place()) } else { Ok(()) }
}

fn word(value: u64) -> Result<U32<LE>, BinaryError> {
    let value = u32::try_from(value).map_err(|_| BinaryError::unsupported("its device code is too large"))?;
    Ok(U32::new(LE, value))
}

/// The most debug directory entries that are read. Linkers write a few.
pub(super) const MAX_DEBUG: u64 = 1024;

/// The header of a section in the new file. A section that is replaced keeps its offset.
pub(super) fn moved_section(
    section: &PeSection,
    is_replaced: bool,
    layout: &PeLayout,
) -> Result<ImageSectionHeader, BinaryError> {
    let mut header = section.header;
    if section.raw_size > 0 && !is_replaced {
        header.pointer_to_raw_data = U32::new(LE, layout.moved(header.pointer_to_raw_data.get(LE))?);
    }
    header.pointer_to_relocations = U32::new(LE, layout.moved(header.pointer_to_relocations.get(LE))?);
    header.pointer_to_linenumbers = U32::new(LE, layout.moved(header.pointer_to_linenumbers.get(LE))?);
    Ok(header)
}

/// The file and optional header, without a checksum.
pub(super) fn moved_headers(image: &PeImage, layout: &PeLayout) -> Result<ImageNtHeaders64, BinaryError> {
    let mut headers = image.headers;
    let symbols = layout.moved(headers.file_header.pointer_to_symbol_table.get(LE))?;
    headers.file_header.pointer_to_symbol_table = U32::new(LE, symbols);
    headers.optional_header.check_sum = U32::new(LE, 0);
    Ok(headers)
}

/// Replaces the image's headers. If the file had a checksum, a new one is computed.
pub(super) fn patch_headers(image: &PeImage, headers: &ImageNtHeaders64) -> Patch {
    let (start, bytes) = (image.headers_offset, bytes_of(headers));
    if image.headers.optional_header.check_sum.get(LE) == 0 {
        return Patch::overwrite(start, bytes);
    }
    let field = to_usize(FIELD);
    let behind = field + to_usize(CHECKSUM_SIZE);
    let replacement =
        vec![PatchPiece::literal(head(bytes, field)), PatchPiece::Checksum, PatchPiece::literal(tail(bytes, behind))];
    Patch { start, end: start + bytes.len() as u64, replacement }
}

/// Moves the debug directory's file offsets. It has RVAs as well, because debug data need not be loaded.
pub(super) fn move_debug_data(image: &PeImage, layout: &PeLayout) -> Result<Option<Patch>, BinaryError> {
    let Some((address, size)) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG) else { return Ok(None) };
    let count = size / size_of::<ImageDebugDirectory>() as u64;
    if count > MAX_DEBUG {
        return Err(BinaryError::unsupported(format!("it has {count} debug directory entries")));
    }
    let addresses = address..address + size;
    // Relocations, for example, would have other addresses after the change.
    if let Some(other) = image.directories_in(&addresses).find(|&number| number != pe::IMAGE_DIRECTORY_ENTRY_DEBUG) {
        return Err(BinaryError::unsupported(format!("data directory {other} overlaps its debug directory")));
    }
    let malformed = || BinaryError::malformed("its debug directory is not in the file");
    let start = image.offset_of(address, size).ok_or_else(malformed)?;
    let bytes = image.read_at_address(address, size)?;
    let count = usize::try_from(count).map_err(|_| malformed())?;
    let (entries, _) = slice_from_bytes::<ImageDebugDirectory>(&bytes, count).map_err(|()| malformed())?;
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        entry.pointer_to_raw_data = U32::new(LE, layout.moved(entry.pointer_to_raw_data.get(LE))?);
    }
    Ok(Some(Patch::overwrite(start, bytes_of_slice(&entries))))
}

/// Removes the reference to the signature, which is invalid after any change; see [`PeLayout::certificates`].
pub(super) fn drop_signature(image: &PeImage, layout: &PeLayout) -> Vec<Patch> {
    let index = pe::IMAGE_DIRECTORY_ENTRY_SECURITY;
    if image.directories.get(index).is_none() {
        return Vec::new();
    }
    let size = size_of::<ImageDataDirectory>();
    let entry = image.directories_offset() + (index * size) as u64;
    vec![Patch::overwrite(entry, vec![0; size]), Patch::cut(layout.certificates.start, layout.certificates.end)]
}
