//! Compares an image with its rewritten form: everything but the device code has to be there, at the same address.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::pe::{self, ImageDebugDirectory};

use super::image::{PeImage, PeSection};
use super::{FATBIN, FatCoff, MARKER, UNUSED};
use crate::binary::BinaryError;
use crate::binary::ranges::{STEP, differ, without};
use crate::binary::wrapper::FATBIN_WRAPPER_SIZE;
use crate::rope::Content;

impl FatCoff {
    /// The first unnecessary difference between this file and `split`.
    pub(in crate::binary) fn first_difference(&self, split: &Arc<dyn Content>) -> Result<Option<String>, BinaryError> {
        let Some(other) = PeImage::read(split)? else { return Ok(Some("it is no longer a PE32+ image".to_owned())) };
        if fixed(&self.image) != fixed(&other) {
            return Ok(Some("its headers have changed".to_owned()));
        }
        if self.directories(&self.image) != self.directories(&other) {
            return Ok(Some("its data directories have changed".to_owned()));
        }
        let known: Vec<_> = self.image.sections.iter().map(|section| section.address).collect();
        let changes_memory = |section: &&PeSection| {
            let flags = section.header.characteristics.get(LE).0;
            !known.contains(&section.address) && flags & (pe::IMAGE_SCN_MEM_WRITE | pe::IMAGE_SCN_MEM_EXECUTE).0 != 0
        };
        if let Some(section) = other.sections.iter().find(changes_memory) {
            return Ok(Some(format!("the section at {:#x} is new, and is writable or executable", section.address)));
        }
        let patched = self.patched();
        for (index, section) in self.image.sections.iter().enumerate() {
            // If the section was the last one, nothing has to remain of it.
            if index == self.section {
                continue;
            }
            // A section without bytes has the same address as the one after it.
            let candidates = other.sections.iter().filter(|counterpart| counterpart.address == section.address);
            let is_other = |counterpart: &&PeSection| attributes(counterpart) != attributes(section);
            let Some(counterpart) = candidates.min_by_key(is_other) else {
                return Ok(Some(format!("the section at {:#x} is missing", section.address)));
            };
            // A joined image has another section for device code, and the section of the marker in `other` is unused.
            let is_unused = section.header.name == UNUSED && [FATBIN, MARKER].contains(&counterpart.header.name);
            if attributes(counterpart) != attributes(section)
                || (counterpart.header.name != section.header.name && !is_unused)
            {
                return Ok(Some(format!("the section at {:#x} has changed", section.address)));
            }
            if let Some(at) = self.compare(section, &other, &patched)? {
                return Ok(Some(format!("the byte at address {at:#x} has changed")));
            }
        }
        self.compare_rest(&other)
    }

    /// All data directories except the certificates, which are not valid for another file.
    fn directories(&self, image: &PeImage) -> Vec<Option<(u64, u64)>> {
        let all = (0..self.image.directories.len()).filter(|&index| index != pe::IMAGE_DIRECTORY_ENTRY_SECURITY);
        all.map(|index| image.directory(index)).collect()
    }

    /// RVAs that may change, by their start.
    fn patched(&self) -> BTreeMap<u64, u64> {
        let rva = |offset: u64| {
            let section =
                self.image.sections.iter().find(|section| (section.offset..section.end()).contains(&offset))?;
            Some(section.address + (offset - section.offset))
        };
        let of_wrappers = self.wrappers.iter().filter_map(|wrapper| Some((rva(wrapper.offset)?, FATBIN_WRAPPER_SIZE)));
        // Its last field is a file offset.
        let entry = size_of::<ImageDebugDirectory>() as u64;
        let debug = self.image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG).into_iter();
        let of_debug = debug.flat_map(|(start, size)| (1..=size / entry).map(move |end| (start + end * entry - 4, 4)));
        of_wrappers.chain(of_debug).map(|(start, length)| (start, start + length)).collect()
    }

    /// The first RVA at which the other file loads a different byte of a section.
    fn compare(
        &self,
        section: &PeSection,
        other: &PeImage,
        patched: &BTreeMap<u64, u64>,
    ) -> Result<Option<u64>, BinaryError> {
        let end = section.address + section.loaded_size();
        for Range { start, end } in without(section.address..end, patched) {
            for at in (start..end).step_by(usize::try_from(STEP).unwrap_or(1)) {
                let length = STEP.min(end - at);
                if other.offset_of(at, length).is_none() {
                    return Ok(Some(at));
                }
                let (old, new) = (self.image.read_at_address(at, length)?, other.read_at_address(at, length)?);
                if let Some(difference) = old.iter().zip(&new).position(|(old, new)| old != new) {
                    return Ok(Some(at + difference as u64));
                }
            }
        }
        Ok(None)
    }

    /// Compares the bytes after the sections in the file, such as symbols, without certificates.
    fn compare_rest(&self, other: &PeImage) -> Result<Option<String>, BinaryError> {
        let (start, other_start) = (self.image.end_of_sections(), other.end_of_sections());
        let size = self.image.content.size();
        let certificates = self.image.directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY);
        let signed = certificates.filter(|&(at, length)| at >= start && at + length == size);
        let length = signed.map_or(size, |(at, _)| at).saturating_sub(start);
        if other.content.size().saturating_sub(other_start) != length {
            return Ok(Some("what follows its sections has another length".to_owned()));
        }
        let difference = differ(&self.image.content, start, &other.content, other_start, length)?;
        Ok(difference.map(|_| "what follows its sections has changed".to_owned()))
    }
}

/// Header fields that no splitter has a reason to change.
fn fixed(image: &PeImage) -> impl PartialEq {
    let (file, optional) = (&image.headers.file_header, &image.headers.optional_header);
    (
        (file.machine.get(LE), file.characteristics.get(LE), file.time_date_stamp.get(LE)),
        (optional.image_base.get(LE), optional.address_of_entry_point.get(LE), optional.subsystem.get(LE)),
        (optional.dll_characteristics.get(LE), optional.section_alignment.get(LE), optional.file_alignment.get(LE)),
        (optional.size_of_stack_reserve.get(LE), optional.size_of_heap_reserve.get(LE)),
        (optional.size_of_stack_commit.get(LE), optional.size_of_heap_commit.get(LE)),
        (optional.major_operating_system_version.get(LE), optional.minor_operating_system_version.get(LE)),
        (optional.major_subsystem_version.get(LE), optional.minor_subsystem_version.get(LE)),
        (optional.win32_version_value.get(LE), optional.loader_flags.get(LE)),
        (optional.magic.get(LE), optional.number_of_rva_and_sizes.get(LE)),
    )
}

fn attributes(section: &PeSection) -> impl PartialEq {
    (section.virtual_size, section.header.characteristics.get(LE))
}
