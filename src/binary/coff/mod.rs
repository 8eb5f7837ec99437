//! Windows executables and DLLs (PE32+) with device code.

mod checksum;
mod equivalence;
mod image;
mod imports;
mod joined;
mod layout;
mod lint;
mod relocation;
mod rewrite;
mod split;

use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::pe;

pub(super) use self::checksum::{CHECKSUM_SIZE, computed_checksum};
use self::image::{PeImage, PeSection};
pub(super) use self::imports::imports;
pub(super) use self::joined::join;
pub(super) use self::split::read_split;
use super::data_section::{DataRole, DataSection};
use super::error::OTHER_MACHINE;
use super::marker::MARKER_ALONE;
use super::ranges::any_overlap;
use super::wrapper::{WrapperFields, check_size};
use super::{BinaryError, Wrapper};
use crate::devicecode::DeviceForm;
use crate::rope::Content;

/// Section with the offload bundles. Object files may call it `.hip_fatbin`; linkers truncate names in images to eight
/// bytes.
const FATBIN: [u8; 8] = *b".hip_fat";
/// Section with the fat binary wrappers.
const WRAPPERS: [u8; 8] = *b".hipFatB";
/// The new name of `.hip_fat`, as rocm-kpack calls its section. It fills the field.
const MARKER: [u8; 8] = *b".kpackrf";
/// The name of an unused section that was meant for device code or a marker.
const UNUSED: [u8; 8] = *b".kpackun";

/// The sections with NVIDIA's device code.
const NVIDIA: [[u8; 8]; 2] = [*b".nv_fatb", *b"__nv_rel"];

/// Bytes of a page on all supported machines.
const PAGE: u32 = 4096;

/// Whether an image has a certificate table.
pub(super) fn is_signed(content: &Arc<dyn Content>) -> bool {
    let image = PeImage::read(content).ok().flatten();
    image.is_some_and(|image| image.directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY).is_some())
}

/// The sections that may hold device code. `None` if it is no image.
pub(super) fn data_sections(content: &Arc<dyn Content>) -> Result<Option<Vec<DataSection>>, BinaryError> {
    let data = |section: &PeSection| {
        let flags = section.header.characteristics.get(LE).0;
        let is_data = flags & pe::IMAGE_SCN_CNT_INITIALIZED_DATA.0 != 0 && flags & pe::IMAGE_SCN_MEM_EXECUTE.0 == 0;
        let role = match section.header.name {
            _ if !is_data => DataRole::Other,
            name if NVIDIA.contains(&name) => DataRole::Foreign(DeviceForm::NvidiaFatbin),
            FATBIN => DataRole::Bundles,
            WRAPPERS | MARKER => DataRole::Other,
            _ => DataRole::Data,
        };
        DataSection { role, range: section.offset..section.end() }
    };
    Ok(PeImage::read(content)?.map(|image| image.sections.iter().map(data).collect()))
}

/// An image whose device code has been located.
#[derive(Debug)]
pub(super) struct FatCoff {
    image: PeImage,
    /// Index of the section with the device code.
    section: usize,
    device: DeviceRange,
    /// The wrappers in the order of their section, which is that of their indices.
    wrappers: Vec<CoffWrapper>,
}

/// The location of the device code.
#[derive(Clone, Debug)]
struct DeviceRange {
    /// File offsets, including padding.
    offsets: Range<u64>,
    /// RVAs.
    addresses: Range<u64>,
}

#[derive(Debug)]
struct CoffWrapper {
    offset: u64,
    /// File offset of its bundle.
    bundle: u64,
}

impl FatCoff {
    /// Looks for device code. `Ok(None)` if there is none, or none any longer.
    pub(super) fn scan(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        let Some(image) = PeImage::read(content)? else { return Ok(None) };
        let wrappers = only(&image, WRAPPERS)?;
        let fatbin = only(&image, FATBIN)?.filter(|(_, section)| section.loaded_size() > 0);
        let [offsets, split] = match wrappers {
            Some((_, section)) => wrapper_offsets(&image, section)?,
            None => Default::default(),
        };
        let (section, fatbin) = match fatbin {
            // Images that rocm-kpack has split keep a piece of the old section.
            _ if !split.is_empty() => return Ok(None),
            Some(_) if offsets.is_empty() => {
                return Err(BinaryError::unsupported("it has a .hip_fat section but no fat binary wrappers"));
            }
            Some(fatbin) => fatbin,
            None if offsets.is_empty() => {
                let is_marker = |section: &PeSection| section.header.name == MARKER && section.loaded_size() > 0;
                let is_alone = image.sections.iter().any(is_marker);
                return if is_alone { Err(BinaryError::unsupported(MARKER_ALONE)) } else { Ok(None) };
            }
            None => return Err(BinaryError::unsupported("it has fat binary wrappers but no .hip_fat section")),
        };
        check(&image)?;
        let device = device(&image, section, fatbin)?;
        let wrappers = find_bundles(&image, &offsets, wrappers.map(|(_, section)| section), fatbin, &device)?;
        Ok(Some(Self { image, section, device, wrappers }))
    }

    /// The device code's range in the file, and its linked address.
    pub(super) fn device_code(&self) -> (Range<u64>, u64) {
        (self.device.offsets.clone(), self.image.base().wrapping_add(self.device.addresses.start))
    }

    /// The wrappers, and the file offset after the last byte of device code.
    pub(super) fn wrappers(&self) -> Vec<Wrapper> {
        let loaded = self.image.sections.get(self.section).map_or(0, PeSection::loaded_size);
        let limit = self.device.offsets.start + loaded;
        self.wrappers.iter().map(|wrapper| Wrapper { bundle: wrapper.bundle, limit }).collect()
    }
}

/// The only section with this name. Linkers do not merge sections of one name if their flags differ.
fn only(image: &PeImage, name: [u8; 8]) -> Result<Option<(usize, &PeSection)>, BinaryError> {
    let mut sections = image.sections.iter().enumerate().filter(|(_, section)| section.header.name == name);
    let first = sections.next();
    if sections.next().is_some() {
        let name = String::from_utf8_lossy(&name);
        return Err(BinaryError::unsupported(format!("it has more than one {name} section")));
    }
    Ok(first)
}

/// The bytes of the section that holds wrappers.
fn read_wrappers(image: &PeImage, section: &PeSection) -> Result<Vec<u8>, BinaryError> {
    let size = section.loaded_size();
    check_size(size)?;
    image.read_at_address(section.address, size)
}

/// The file offsets of wrappers with device code, and of those that have been split. There are none of one kind.
fn wrapper_offsets(image: &PeImage, section: &PeSection) -> Result<[Vec<u64>; 2], BinaryError> {
    let size = section.loaded_size();
    if size == 0 {
        return Ok(Default::default());
    }
    if image.offset_of(section.address, size) != Some(section.offset) {
        return Err(BinaryError::malformed("its fat binary wrappers are not loaded"));
    }
    let (places, split) = WrapperFields::places(&read_wrappers(image, section)?, section.offset)?;
    Ok([places, split].map(|places| places.into_iter().map(|at| section.offset + at).collect()))
}

/// Refuses images that kpackfs cannot change without affecting how they are loaded.
fn check(image: &PeImage) -> Result<(), BinaryError> {
    let (file, optional) = (&image.headers.file_header, &image.headers.optional_header);
    if !matches!(file.machine.get(LE), pe::IMAGE_FILE_MACHINE_AMD64 | pe::IMAGE_FILE_MACHINE_ARM64) {
        return Err(BinaryError::unsupported(OTHER_MACHINE));
    }
    // "PE Format": with an alignment below the page size, file offsets and RVAs are equal.
    if optional.section_alignment.get(LE) < PAGE {
        return Err(BinaryError::unsupported("its sections are not aligned to pages"));
    }
    let alignment = optional.file_alignment.get(LE);
    if !alignment.is_power_of_two() || !(512..=64 << 10).contains(&alignment) {
        return Err(BinaryError::malformed(format!("a file alignment of {alignment} bytes")));
    }
    let is_past_end = |section: &PeSection| section.raw_size > 0 && section.end() > image.content.size();
    if image.sections.iter().any(is_past_end) {
        return Err(BinaryError::malformed("a section reaches past the end of the file"));
    }
    // "PE Format", "Section Table": addresses ascend.
    if !image.sections.is_sorted_by(|section, next| section.address + section.virtual_size <= next.address) {
        return Err(BinaryError::malformed("its sections are not one after the other in memory"));
    }
    let table_end = image.table_offset + (image.sections.len() * size_of::<pe::ImageSectionHeader>()) as u64;
    let sections = image.sections.iter().filter(|section| section.raw_size > 0);
    if any_overlap(sections.map(|section| (section.offset, section.end())).chain([(0, table_end)]).collect()) {
        return Err(BinaryError::unsupported("two of its sections, or one and the headers, have the same bytes"));
    }
    if optional.dll_characteristics.get(LE).0 & pe::IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY.0 != 0 {
        return Err(BinaryError::unsupported("Windows loads it with a valid signature only, which it would lose"));
    }
    Ok(())
}

/// The location of the device code, which must not share its bytes.
fn device(image: &PeImage, index: usize, section: &PeSection) -> Result<DeviceRange, BinaryError> {
    let device = DeviceRange {
        offsets: section.offset..section.end(),
        addresses: section.address..section.address + section.virtual_size,
    };
    let overlaps = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let other_overlaps = image.sections.iter().enumerate().any(|(other, section)| {
        let addresses = section.address..section.address + section.virtual_size;
        let offsets = section.offset..section.end();
        other != index && (overlaps(&offsets, &device.offsets) || overlaps(&addresses, &device.addresses))
    });
    if other_overlaps {
        return Err(BinaryError::unsupported("another section overlaps its device code"));
    }
    if !device.offsets.start.is_multiple_of(512) {
        return Err(BinaryError::malformed("its .hip_fat section is not where sections are"));
    }
    if let Some(number) = image.directories_in(&device.addresses).next() {
        return Err(BinaryError::unsupported(format!("data directory {number} lies in its device code")));
    }
    Ok(device)
}

/// The wrappers at these file offsets, with their bundles.
fn find_bundles(
    image: &PeImage,
    offsets: &[u64],
    wrappers: Option<&PeSection>,
    fatbin: &PeSection,
    device: &DeviceRange,
) -> Result<Vec<CoffWrapper>, BinaryError> {
    let Some(wrappers) = wrappers else { return Ok(Vec::new()) };
    // The pointer is the third field, after two of four bytes.
    let slots: Vec<_> = offsets.iter().map(|offset| wrappers.address + (offset - wrappers.offset) + 8).collect();
    let range = wrappers.address..wrappers.address + wrappers.virtual_size;
    let addresses = relocation::resolve(image, &slots, &range, &device.addresses)?;
    let loaded = fatbin.address..fatbin.address + fatbin.loaded_size();
    let find = |(&offset, address): (&u64, u64)| {
        if loaded.contains(&address) {
            return Ok(CoffWrapper { offset, bundle: fatbin.offset + (address - fatbin.address) });
        }
        Err(BinaryError::unsupported(format!(
            "the wrapper at offset {offset:#x} points outside of the .hip_fat section"
        )))
    };
    offsets.iter().zip(addresses).map(find).collect()
}

#[cfg(test)]
mod joined_tests;
#[cfg(test)]
mod tests;
