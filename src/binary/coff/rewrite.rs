//! The rewritten file as a rope over the original.

use object::pe::{self, ImageNtHeaders64, ImageSectionHeader, SectionFlags};
use object::pod::bytes_of_slice;
use object::{LittleEndian as LE, U32};

use super::joined::{drop_signature, move_debug_data, moved_headers, moved_section, patch_headers};
use super::layout::PeLayout;
use super::{CoffWrapper, FatCoff, MARKER};
use crate::binary::BinaryError;
use crate::binary::changes::{Patch, PatchPiece};
use crate::binary::form::CodeForm;

impl FatCoff {
    /// The changes that replace the device code with a form.
    pub(in crate::binary) fn changes(&self, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        let layout = PeLayout::plan(self, form.size)?;
        let mut changes = self.point_wrappers(form)?;
        changes.extend(self.replace_device_code(&layout, form)?);
        changes.extend(self.patch_sections(&layout, form)?);
        changes.extend(move_debug_data(&self.image, &layout)?);
        changes.extend(drop_signature(&self.image, &layout));
        changes.push(patch_headers(&self.image, &self.headers(&layout)?));
        Ok(changes)
    }

    /// Points each wrapper to its place in the form, by linked address. Its relocation stays.
    fn point_wrappers(&self, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        let start = self.image.base().checked_add(self.device.addresses.start);
        let start = start.ok_or_else(|| BinaryError::malformed("its image base is too high"))?;
        let point = |(index, wrapper): (usize, &CoffWrapper)| {
            let address = start.wrapping_add(form.place(wrapper.bundle)?);
            Ok(Patch::overwrite(wrapper.offset, form.wrapper(index, address)))
        };
        self.wrappers.iter().enumerate().map(point).collect()
    }

    /// The form, zeros, and the removal of the rest. If the section's end is not aligned, zeros follow.
    fn replace_device_code(&self, layout: &PeLayout, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        let device = &self.device.offsets;
        let padding = (layout.cut.start - device.start).checked_sub(form.size);
        let padding = padding.ok_or_else(|| BinaryError::unsupported("its device code is too small"))?;
        let mut changes = form.replace(vec![PatchPiece::Zeros(padding)], device.start..layout.cut.end);
        let rest = vec![PatchPiece::Zeros(device.end - layout.cut.end)];
        changes.push(Patch { start: layout.cut.end, end: device.end, replacement: rest });
        Ok(changes)
    }

    /// The file and optional header, without a checksum.
    fn headers(&self, layout: &PeLayout) -> Result<ImageNtHeaders64, BinaryError> {
        let image = &self.image;
        let mut headers = moved_headers(image, layout)?;
        let device = image.sections.get(self.section).map(|section| section.header.characteristics.get(LE).0);
        if device.is_some_and(|flags| flags & pe::IMAGE_SCN_CNT_INITIALIZED_DATA.0 != 0) {
            // Linkers disagree on what else counts, so the sum is adjusted, not computed again.
            let size = headers.optional_header.size_of_initialized_data.get(LE);
            let cut = cut_size(layout)?;
            headers.optional_header.size_of_initialized_data = U32::new(LE, size.checked_sub(cut).unwrap_or(size));
        }
        Ok(headers)
    }

    fn patch_sections(&self, layout: &PeLayout, form: &CodeForm) -> Result<Option<Patch>, BinaryError> {
        let image = &self.image;
        let cut = cut_size(layout)?;
        let mut sections = Vec::with_capacity(image.sections.len());
        for (index, section) in image.sections.iter().enumerate() {
            let mut header = moved_section(section, index == self.section, layout)?;
            if index == self.section {
                shrink(&mut header, section.virtual_size, cut)?;
                if !form.is_thin() {
                    become_marker(&mut header);
                }
            }
            sections.push(header);
        }
        Ok(Some(Patch::overwrite(image.table_offset, bytes_of_slice(&sections))))
    }
}

fn cut_size(layout: &PeLayout) -> Result<u32, BinaryError> {
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
    // With -fgpu-rdc the section is writable, although nothing writes to it. Writable memory would be committed for the
    // whole section.
    let flags = header.characteristics.get(LE).0 & !pe::IMAGE_SCN_MEM_WRITE.0;
    header.characteristics = U32::new(LE, SectionFlags(flags));
}
