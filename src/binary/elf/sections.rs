//! Device code and its wrappers, found by the names of sections.

use std::ops::Range;

use super::image::{ElfImage, ElfSection, read_table};
use crate::binary::BinaryError;
use crate::binary::marker::MARKER_ALONE;
use crate::binary::wrapper::{FATBIN_WRAPPER_SIZE, WrapperFields, check_size};

/// Section with the offload bundles.
pub(super) const FATBIN: &[u8] = b".hip_fatbin";
/// Section with the fat binary wrappers.
pub(super) const WRAPPERS: &[u8] = b".hipFatBinSegment";
/// Section with the marker of a file that has been split.
pub(super) const MARKER: &[u8] = b".rocm_kpack_ref";

/// The device code and the segment that maps it.
#[derive(Clone, Debug)]
pub(super) struct MappedDevice {
    /// Offsets of the device code.
    pub(super) offsets: Range<u64>,
    /// Index of the program header of the segment that maps it.
    pub(super) load: usize,
}

/// Device code and its wrappers.
pub(super) struct WrappedCode {
    /// Index of the section with the device code, if the file has section headers.
    pub(super) section: Option<usize>,
    pub(super) places: Vec<WrapperPlace>,
    pub(super) device: MappedDevice,
    /// Virtual addresses of the device code.
    pub(super) addresses: Range<u64>,
}

/// The location of a wrapper: file offset and virtual address.
pub(super) struct WrapperPlace {
    pub(super) offset: u64,
    pub(super) address: u64,
}

impl WrapperPlace {
    /// The address of the pointer: the third field, after two of four bytes.
    pub(super) fn pointer(&self) -> u64 {
        self.address.wrapping_add(8)
    }
}

/// The only section with this name. Further ones would be left behind.
fn only<'a>(image: &'a ElfImage, name: &[u8]) -> Result<Option<(usize, &'a ElfSection)>, BinaryError> {
    let first = image.section(name);
    let has_bytes = |section: &&ElfSection| !section.is_null() && !section.is_nobits();
    if image.sections.iter().filter(has_bytes).filter(|section| section.name == name).count() > 1 {
        let name = String::from_utf8_lossy(name);
        return Err(BinaryError::unsupported(format!("it has more than one {name} section")));
    }
    Ok(first)
}

/// Finds device code and wrappers by section names.
pub(super) fn find(image: &ElfImage) -> Result<Option<WrappedCode>, BinaryError> {
    let (fatbin, wrappers) = (only(image, FATBIN)?, only(image, WRAPPERS)?);
    let has_bytes = |found: &(usize, &ElfSection)| !found.1.is_nobits() && found.1.size > 0;
    if fatbin.as_ref().is_some_and(has_bytes) || wrappers.as_ref().is_some_and(has_bytes) {
        image.check_bounds()?;
    }
    // In a .debug file both are NOBITS. After a split the wrappers have the magic HIPK.
    let (places, is_split) = match wrappers {
        Some((_, section)) if !section.is_nobits() => wrapper_places(image, section)?,
        _ => (Vec::new(), false),
    };
    let Some((section, fatbin)) = fatbin.filter(has_bytes) else {
        return if !places.is_empty() {
            Err(BinaryError::unsupported(
                "it has fat binary wrappers but no .hip_fatbin section; if a tool removed that, its code is lost",
            ))
        } else if !is_split && image.section(MARKER).as_ref().is_some_and(has_bytes) {
            Err(BinaryError::unsupported(MARKER_ALONE))
        } else {
            Ok(None)
        };
    };
    if places.is_empty() {
        return Err(BinaryError::unsupported("it has a .hip_fatbin section but no fat binary wrappers"));
    }
    if section == image.names_index {
        return Err(BinaryError::malformed("its .hip_fatbin section is that of the section names"));
    }
    if image.section(MARKER).is_some() {
        return Err(BinaryError::unsupported("it has a section .rocm_kpack_ref already"));
    }
    let (device, addresses) = device(image, section, fatbin)?;
    Ok(Some(WrappedCode { section: Some(section), places, device, addresses }))
}

/// The bytes of the section that holds wrappers.
pub(super) fn read_wrappers(image: &ElfImage, section: &ElfSection) -> Result<Vec<u8>, BinaryError> {
    check_size(section.size)?;
    read_table(&image.content, section.offset, section.size)
}

/// The wrappers with device code in their section, and whether it has some that have been split.
fn wrapper_places(image: &ElfImage, section: &ElfSection) -> Result<(Vec<WrapperPlace>, bool), BinaryError> {
    let (places, split) = WrapperFields::places(&read_wrappers(image, section)?, section.offset)?;
    let place = |at| {
        let (offset, address) = (section.offset + at, section.address.wrapping_add(at));
        if image.offset_of(address, FATBIN_WRAPPER_SIZE) != Some(offset) {
            return Err(BinaryError::malformed("its fat binary wrappers are not loaded"));
        }
        Ok(WrapperPlace { offset, address })
    };
    Ok((places.into_iter().map(place).collect::<Result<_, _>>()?, !split.is_empty()))
}

/// The device code's location in the file, the segment that maps it, and its virtual addresses.
fn device(image: &ElfImage, index: usize, section: &ElfSection) -> Result<(MappedDevice, Range<u64>), BinaryError> {
    let malformed = || BinaryError::malformed("its .hip_fatbin section is not loaded");
    let addresses = section.address..section.address.checked_add(section.size).ok_or_else(malformed)?;
    let (load, _) = image
        .loads()
        .find(|(_, load)| {
            let inside = section.address.checked_sub(load.address);
            inside.is_some_and(|inside| {
                load.offset.checked_add(inside) == Some(section.offset)
                    && inside.saturating_add(section.size) <= load.file_size
            })
        })
        .ok_or_else(malformed)?;
    let offsets = section.offset..section.end();
    let overlaps = |other: &ElfSection| {
        !other.is_null() && !other.is_nobits() && other.offset < offsets.end && other.end() > offsets.start
    };
    if image.sections.iter().enumerate().any(|(other, section)| other != index && overlaps(section)) {
        return Err(BinaryError::unsupported("another section overlaps its device code"));
    }
    Ok((MappedDevice { offsets, load }, addresses))
}
