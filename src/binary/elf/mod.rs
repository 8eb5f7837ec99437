//! ELF executables and shared libraries with device code.

mod equivalence;
mod image;
mod joined;
mod layout;
mod lint;
mod phdr_slot;
mod prefilter;
mod relocation;
mod rewrite;
mod sectionless;
mod split;
mod symbols;

use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf;

use self::image::{ElfImage, ElfSection, ElfSegment, read_wrappers};
pub(super) use self::joined::join;
use self::layout::MappedDevice;
use self::relocation::{Pointer, PointerEncoding};
pub(super) use self::split::read_split;
pub(super) use self::symbols::Symbols;
use super::{BinaryError, FATBIN_WRAPPER_MAGIC, FATBIN_WRAPPER_SIZE, HIPK_MAGIC, MAX_WRAPPERS, Wrapper, any_overlap};
use crate::rope::Content;

/// Section with the offload bundles.
const FATBIN: &[u8] = b".hip_fatbin";
/// Section with the fat binary wrappers.
const WRAPPERS: &[u8] = b".hipFatBinSegment";
/// Section with the marker of a file that has been split.
const MARKER: &[u8] = b".rocm_kpack_ref";

/// Whether a file may have device code or may have been split. A compressed file is judged by a small part of it;
/// others are not read.
pub(super) fn may_have_code(content: &Arc<dyn Content>) -> Result<bool, BinaryError> {
    let is_compressed = content.packed().is_some_and(|packed| packed.deflated);
    Ok(!is_compressed || prefilter::is_possible(content)?)
}

/// An ELF file whose device code has been located.
#[derive(Debug)]
pub(super) struct FatElf {
    image: ElfImage,
    /// Index of the section with the device code, if the file has section headers.
    section: Option<usize>,
    device: MappedDevice,
    /// Virtual addresses of the device code.
    addresses: Range<u64>,
    /// The wrappers in the order of their section, which is that of their indices.
    wrappers: Vec<ElfWrapper>,
}

#[derive(Debug)]
struct ElfWrapper {
    offset: u64,
    /// File offset of its bundle.
    bundle: u64,
    encoding: PointerEncoding,
}

impl FatElf {
    /// Looks for device code. `Ok(None)` if there is none, or none any longer.
    pub(super) fn scan(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        if !may_have_code(content)? {
            return Ok(None);
        }
        let Some(image) = ElfImage::read(content)? else { return Ok(None) };
        let Some((WrappedCode { section, device, addresses, .. }, wrappers)) = look_through(&image)? else {
            return Ok(None);
        };
        Ok(Some(Self { image, section, device, addresses, wrappers }))
    }

    /// The device code's range in the file, and its address.
    pub(super) fn device_code(&self) -> (Range<u64>, u64) {
        (self.device.offsets.clone(), self.addresses.start)
    }

    /// The wrappers, and the file offset after the last byte of device code.
    pub(super) fn wrappers(&self) -> Vec<Wrapper> {
        let limit = self.device.offsets.end;
        self.wrappers.iter().map(|wrapper| Wrapper { bundle: wrapper.bundle, limit }).collect()
    }
}

/// The ranges of the program's data, without device code and its wrappers.
pub(super) fn data_ranges(content: &Arc<dyn Content>) -> Result<Vec<Range<u64>>, BinaryError> {
    let Some(image) = ElfImage::read(content)? else { return Ok(Vec::new()) };
    let is_data = |section: &&ElfSection| {
        section.is_allocated()
            && section.flags().0 & elf::SHF_EXECINSTR.0 == 0
            && section.header.sh_type.get(LE) == elf::SHT_PROGBITS
            && ![FATBIN, WRAPPERS, MARKER].contains(&&*section.name)
    };
    Ok(image.sections.iter().filter(is_data).map(|section| section.offset..section.end()).collect())
}

/// The device code of an image, and its wrappers with their bundles.
fn look_through(image: &ElfImage) -> Result<Option<(WrappedCode, Vec<ElfWrapper>)>, BinaryError> {
    let found = if image.sections.is_empty() { sectionless::find(image)? } else { find(image)? };
    let Some(found) = found else { return Ok(None) };
    check_segments(image, &found.device)?;
    let slots: Vec<_> = found.places.iter().map(WrapperPlace::pointer).collect();
    let pointers = relocation::resolve(image, &slots, &found.addresses)?;
    let lead = |(place, pointer)| wrapper(place, pointer, &found.addresses, &found.device);
    let wrappers = found.places.iter().zip(pointers).map(lead).collect::<Result<_, _>>()?;
    Ok(Some((found, wrappers)))
}

/// Device code and its wrappers.
struct WrappedCode {
    section: Option<usize>,
    places: Vec<WrapperPlace>,
    device: MappedDevice,
    addresses: Range<u64>,
}

/// The location of a wrapper: file offset and virtual address.
struct WrapperPlace {
    offset: u64,
    address: u64,
}

impl WrapperPlace {
    /// The address of the pointer: the third field, after two of four bytes.
    fn pointer(&self) -> u64 {
        self.address.wrapping_add(8)
    }
}

/// gABI, "Program Header": loadable segments are in ascending order of address. A change in one must not be visible in
/// another, and no other header may describe device code as something else.
fn check_segments(image: &ElfImage, device: &MappedDevice) -> Result<(), BinaryError> {
    let is_other = |segment: &&ElfSegment| !matches!(segment.kind, elf::PT_LOAD | elf::PT_GNU_RELRO);
    let code = &device.offsets;
    let tells = |segment: &ElfSegment| segment.file_size > 0 && segment.offset < code.end && code.start < segment.end();
    if image.segments.iter().filter(is_other).any(tells) {
        return Err(BinaryError::unsupported("another program header covers a part of its device code"));
    }
    let mut end = 0;
    let mut ranges = Vec::new();
    for (_, load) in image.loads() {
        if load.address < end || load.file_size > load.memory_size {
            return Err(BinaryError::malformed("its segments are not one after the other in memory"));
        }
        end = load.address.saturating_add(load.memory_size);
        ranges.extend((load.file_size > 0).then_some((load.offset, load.end())));
    }
    if any_overlap(ranges) {
        return Err(BinaryError::unsupported("two of its segments load the same bytes"));
    }
    Ok(())
}

/// The fields of a wrapper.
struct Fields {
    magic: u32,
    version: u32,
    pointer: u64,
    index: u64,
}

/// The wrapper at `at` in these bytes of a section; `None` if they end before it does.
fn wrapper_at(bytes: &[u8], at: u64) -> Option<Fields> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?.first_chunk::<24>()?;
    let ([start, pointer, index], _) = rest.as_chunks::<8>().0.split_first_chunk()?;
    let (magic, version) = start.split_first_chunk()?;
    Some(Fields {
        magic: u32::from_le_bytes(*magic),
        version: u32::from_le_bytes(*version.first_chunk()?),
        pointer: u64::from_le_bytes(*pointer),
        index: u64::from_le_bytes(*index),
    })
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
fn find(image: &ElfImage) -> Result<Option<WrappedCode>, BinaryError> {
    let (fatbin, wrappers) = (only(image, FATBIN)?, only(image, WRAPPERS)?);
    let has_bytes = |found: &(usize, &ElfSection)| !found.1.is_nobits();
    if fatbin.as_ref().is_some_and(has_bytes) || wrappers.as_ref().is_some_and(has_bytes) {
        image.check_bounds()?;
    }
    // In a .debug file both are NOBITS. After a split the wrappers have the magic HIPK.
    let places = match wrappers {
        Some((_, section)) if !section.is_nobits() => wrapper_places(image, section)?,
        _ => Vec::new(),
    };
    let has_code = fatbin.is_some_and(|(_, section)| !section.is_nobits() && section.size > 0);
    let Some((section, fatbin)) = fatbin.filter(|_| has_code) else {
        return if places.is_empty() {
            Ok(None)
        } else {
            Err(BinaryError::unsupported("it has fat binary wrappers but no .hip_fatbin section"))
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

/// Finds the wrappers in their section. Instrumented builds pad each wrapper with zeros (ROCm/llvm-project#2544).
fn wrapper_places(image: &ElfImage, section: &ElfSection) -> Result<Vec<WrapperPlace>, BinaryError> {
    let bytes = read_wrappers(image, section)?;
    let mut places = Vec::new();
    let mut split = false;
    let mut at = 0_u64;
    while let Some(wrapper) = wrapper_at(&bytes, at) {
        let offset = section.offset + at;
        at += match (wrapper.magic, wrapper.version) {
            (FATBIN_WRAPPER_MAGIC, 1) => {
                let address = section.address.wrapping_add(at);
                if image.offset_of(address, FATBIN_WRAPPER_SIZE) != Some(offset) {
                    return Err(BinaryError::malformed("its fat binary wrappers are not loaded"));
                }
                if places.len() == MAX_WRAPPERS {
                    return Err(BinaryError::unsupported(format!("it has more than {MAX_WRAPPERS} wrappers")));
                }
                places.push(WrapperPlace { offset, address });
                FATBIN_WRAPPER_SIZE
            }
            (HIPK_MAGIC, 1) => {
                split = true;
                FATBIN_WRAPPER_SIZE
            }
            (0, 0) => 8,
            _ => {
                return Err(BinaryError::unsupported(format!("there is no fat binary wrapper at {offset:#x}")));
            }
        };
    }
    if split && !places.is_empty() {
        return Err(BinaryError::unsupported("some of its fat binary wrappers are split already and some are not"));
    }
    Ok(places)
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

fn wrapper(
    place: &WrapperPlace,
    pointer: Pointer,
    addresses: &Range<u64>,
    device: &MappedDevice,
) -> Result<ElfWrapper, BinaryError> {
    if !addresses.contains(&pointer.value) {
        return Err(BinaryError::unsupported(format!(
            "the wrapper at {:#x} points outside of the .hip_fatbin section",
            place.address
        )));
    }
    let bundle = device.offsets.start + (pointer.value - addresses.start);
    Ok(ElfWrapper { offset: place.offset, bundle, encoding: pointer.encoding })
}
