//! The rewritten file as a rope over the original.

use object::pe::{self, ImageDataDirectory, ImageDebugDirectory, ImageNtHeaders64, ImageSectionHeader, SectionFlags};
use object::pod::{bytes_of, bytes_of_slice, slice_from_bytes};
use object::{LittleEndian as LE, U32};

use super::checksum::{CHECKSUM_SIZE, FIELD};
use super::layout::Layout;
use super::{CoffWrapper, FatCoff, MARKER};
use crate::binary::BinaryError;
use crate::binary::changes::{Change, Piece};
use crate::binary::form::Form;

/// The most debug directory entries that are looked at; linkers write a handful.
pub(super) const MAX_DEBUG: u64 = 1024;

impl FatCoff {
    /// The changes after which the file has a form of its device code.
    pub(in crate::binary) fn changes(&self, form: &Form) -> Result<Vec<Change>, BinaryError> {
        let layout = Layout::plan(self, form.size())?;
        let mut changes = self.point_wrappers(form)?;
        changes.extend(self.replace_device_code(&layout, form)?);
        changes.extend(self.patch_sections(&layout, form)?);
        changes.extend(self.move_debug_data(&layout)?);
        changes.extend(self.drop_signature(&layout));
        let headers = self.headers(&layout)?;
        let bytes = bytes_of(&headers);
        let start = self.image.headers_offset;
        if self.image.headers.optional_header.check_sum.get(LE) == 0 {
            changes.push(Change::patch(start, bytes));
            return Ok(changes);
        }
        // A file with a checksum is expected to have a right one.
        let field = usize::try_from(FIELD).unwrap_or(0);
        let behind = field + usize::try_from(CHECKSUM_SIZE).unwrap_or(0);
        let replacement = vec![
            Piece::literal(bytes.get(..field).unwrap_or_default()),
            Piece::Checksum,
            Piece::literal(bytes.get(behind..).unwrap_or_default()),
        ];
        changes.push(Change { start, end: start + bytes.len() as u64, replacement });
        Ok(changes)
    }

    /// Each wrapper leads to its place in the form, by its address as linked: its relocation stays.
    fn point_wrappers(&self, form: &Form) -> Result<Vec<Change>, BinaryError> {
        let start = self.image.base().checked_add(self.device.addresses.start);
        let start = start.ok_or_else(|| BinaryError::malformed("its image base is too high"))?;
        let point = |(index, wrapper): (usize, &CoffWrapper)| {
            let address = start.wrapping_add(form.place(wrapper.bundle)?);
            Ok(Change::patch(wrapper.offset, form.wrapper(index, address)))
        };
        self.wrappers.iter().enumerate().map(point).collect()
    }

    /// The form, zeros, and the cut. If the section's end is not aligned, zeros stay behind the cut.
    fn replace_device_code(&self, layout: &Layout, form: &Form) -> Result<Vec<Change>, BinaryError> {
        let device = &self.device.offsets;
        let padding = (layout.cut.start - device.start).checked_sub(form.size());
        let padding = padding.ok_or_else(|| BinaryError::unsupported("its device code is too small"))?;
        let mut changes = form.replace(vec![Piece::Zeros(padding)], device.start..layout.cut.end);
        let rest = vec![Piece::Zeros(device.end - layout.cut.end)];
        changes.push(Change { start: layout.cut.end, end: device.end, replacement: rest });
        Ok(changes)
    }

    /// The file and optional header, without a checksum.
    fn headers(&self, layout: &Layout) -> Result<ImageNtHeaders64, BinaryError> {
        let image = &self.image;
        let mut headers = image.headers;
        let symbols = layout.moved(headers.file_header.pointer_to_symbol_table.get(LE))?;
        headers.file_header.pointer_to_symbol_table = U32::new(LE, symbols);
        headers.optional_header.check_sum = U32::new(LE, 0);
        let device = image.sections.get(self.section).map(|section| section.header.characteristics.get(LE).0);
        if device.is_some_and(|flags| flags & pe::IMAGE_SCN_CNT_INITIALIZED_DATA.0 != 0) {
            // Linkers do not agree on what else counts, so the sum is corrected and not made again.
            let size = headers.optional_header.size_of_initialized_data.get(LE);
            let cut = cut_size(layout)?;
            headers.optional_header.size_of_initialized_data = U32::new(LE, size.checked_sub(cut).unwrap_or(size));
        }
        Ok(headers)
    }

    fn patch_sections(&self, layout: &Layout, form: &Form) -> Result<Option<Change>, BinaryError> {
        let image = &self.image;
        let cut = cut_size(layout)?;
        let mut sections = Vec::with_capacity(image.sections.len());
        for (index, section) in image.sections.iter().enumerate() {
            let mut header = section.header;
            if index == self.section {
                shrink(&mut header, section.virtual_size, cut)?;
                if !form.is_thin() {
                    become_marker(&mut header);
                }
            } else if section.raw_size > 0 {
                header.pointer_to_raw_data = U32::new(LE, layout.moved(header.pointer_to_raw_data.get(LE))?);
            }
            header.pointer_to_relocations = U32::new(LE, layout.moved(header.pointer_to_relocations.get(LE))?);
            header.pointer_to_linenumbers = U32::new(LE, layout.moved(header.pointer_to_linenumbers.get(LE))?);
            sections.push(header);
        }
        Ok(Some(Change::patch(image.table_offset, bytes_of_slice(&sections))))
    }

    /// Debug data need not be loaded, so its directory has file offsets beside RVAs.
    fn move_debug_data(&self, layout: &Layout) -> Result<Option<Change>, BinaryError> {
        let Some((address, size)) = self.image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG) else { return Ok(None) };
        let count = size / size_of::<ImageDebugDirectory>() as u64;
        if count > MAX_DEBUG {
            return Err(BinaryError::unsupported(format!("it has {count} debug directory entries")));
        }
        let malformed = || BinaryError::malformed("its debug directory is not in the file");
        let start = self.image.offset_of(address, size).ok_or_else(malformed)?;
        let bytes = self.image.read_at_address(address, size)?;
        let count = usize::try_from(count).map_err(|_| malformed())?;
        let (entries, _) = slice_from_bytes::<ImageDebugDirectory>(&bytes, count).map_err(|()| malformed())?;
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            entry.pointer_to_raw_data = U32::new(LE, layout.moved(entry.pointer_to_raw_data.get(LE))?);
        }
        Ok(Some(Change::patch(start, bytes_of_slice(&entries))))
    }

    /// No signature is valid after this, so there must not seem to be one; see [`Layout::certificates`].
    fn drop_signature(&self, layout: &Layout) -> Vec<Change> {
        let index = pe::IMAGE_DIRECTORY_ENTRY_SECURITY;
        if self.image.directories.get(index).is_none() {
            return Vec::new();
        }
        let size = size_of::<ImageDataDirectory>();
        let entry = self.image.directories_offset() + (index * size) as u64;
        vec![Change::patch(entry, vec![0; size]), Change::cut(layout.certificates.start, layout.certificates.end)]
    }
}

fn cut_size(layout: &Layout) -> Result<u32, BinaryError> {
    u32::try_from(layout.cut.end - layout.cut.start).map_err(|_| BinaryError::malformed("its size"))
}

fn shrink(header: &mut ImageSectionHeader, virtual_size: u64, cut: u32) -> Result<(), BinaryError> {
    let malformed = || BinaryError::malformed("its .hip_fat section has an impossible size");
    let size = header.size_of_raw_data.get(LE).checked_sub(cut).ok_or_else(malformed)?;
    header.virtual_size = U32::new(LE, u32::try_from(virtual_size).map_err(|_| malformed())?);
    header.size_of_raw_data = U32::new(LE, size);
    Ok(())
}

fn become_marker(header: &mut ImageSectionHeader) {
    header.name = MARKER;
    // Relocatable device code makes it writable, though nobody writes. Memory that could be written would have to be
    // set aside for all of the section.
    let flags = header.characteristics.get(LE).0 & !pe::IMAGE_SCN_MEM_WRITE.0;
    header.characteristics = U32::new(LE, SectionFlags(flags));
}
