//! ELF executables and shared libraries with device code.

mod dynamic;
mod equivalence;
mod image;
mod imports;
mod joined;
mod joined_names;
mod layout;
mod lint;
mod loader_fields;
mod other_host;
mod phdr_slot;
mod prefilter;
mod relocation;
mod rewrite;
mod sectionless;
mod sections;
mod split;
mod symbols;

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;
use object::LittleEndian as LE;
use object::elf::{self, SectionType};

use self::image::{ElfImage, ElfSection, ElfSegment};
pub(super) use self::imports::{imports, machine};
pub(super) use self::joined::join;
use self::relocation::{Pointer, PointerEncoding};
use self::sections::{FATBIN, MARKER, MappedDevice, WRAPPERS, WrappedCode, WrapperPlace};
pub(super) use self::split::read_split;
pub(super) use self::symbols::Symbols;
use super::data_section::{DataRole, DataSection};
use super::ranges::any_overlap;
use super::{BinaryError, Wrapper};
use crate::devicecode::DeviceForm;
use crate::rope::Content;

/// LLVM's "Extensions": the type of the section `.llvm.offloading`.
const SHT_LLVM_OFFLOADING: SectionType = SectionType(0x6fff_4c0b);

/// Sections with NVIDIA's device code: of a program, and of relocatable device code.
const NVIDIA: [&[u8]; 2] = [b".nv_fatbin", b"__nv_relfatbin"];

/// Whether a section has SPIR-V, or what Intel's compilers make of it. Those of other targets hold bundles and fat binaries.
fn is_sycl(name: &[u8]) -> bool {
    name.strip_prefix(DeviceForm::Bundle.magic()).is_some_and(|kind| memmem::find(kind, b"-spir").is_some())
}

/// Whether a file may have device code or may have been split. A compressed file is judged by a small part of it;
/// others are not read.
pub(super) fn may_have_code(content: &Arc<dyn Content>) -> Result<bool, BinaryError> {
    let is_compressed = content.member().is_some_and(|member| member.packed().deflated);
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
        let Some(image) = ElfImage::read(content)? else { return other_host::refuse(content).map(|()| None) };
        let Some((WrappedCode { section, device, addresses, .. }, wrappers)) = look_through(&image)? else {
            return Ok(None);
        };
        Ok(Some(Self { image, section, device, addresses, wrappers }))
    }

    /// Bytes of memory that its section headers take.
    pub(super) fn header_bytes(&self) -> usize {
        self.image.sections.iter().map(|section| size_of::<ElfSection>() + section.name.len()).sum()
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

/// The sections that may hold device code. `None` if it is no file for a loader, or has no section headers.
pub(super) fn data_sections(content: &Arc<dyn Content>) -> Result<Option<Vec<DataSection>>, BinaryError> {
    let image = ElfImage::read(content)?.filter(|image| !image.sections.is_empty());
    let data = |section: &ElfSection| {
        let kind = section.header.sh_type.get(LE);
        let role = match &*section.name {
            _ if kind == SHT_LLVM_OFFLOADING => DataRole::Data,
            _ if kind != elf::SHT_PROGBITS || section.flags().0 & elf::SHF_EXECINSTR.0 != 0 => DataRole::Other,
            name if !section.is_allocated() && name.starts_with(b".debug") => DataRole::Other,
            _ if !section.is_allocated() => DataRole::Unloaded,
            name if NVIDIA.contains(&name) => DataRole::Foreign(DeviceForm::NvidiaFatbin),
            name if is_sycl(name) => DataRole::Foreign(DeviceForm::Sycl),
            FATBIN => DataRole::Bundles,
            WRAPPERS | MARKER => DataRole::Other,
            _ => DataRole::Data,
        };
        DataSection { role, range: section.offset..section.end() }
    };
    let table = |image: &ElfImage| DataSection { role: DataRole::Other, range: image.section_headers() };
    Ok(image.map(|image| image.sections.iter().map(data).chain([table(&image)]).collect()))
}

/// The device code of an image, and its wrappers with their bundles.
fn look_through(image: &ElfImage) -> Result<Option<(WrappedCode, Vec<ElfWrapper>)>, BinaryError> {
    let found = if image.sections.is_empty() { sectionless::find(image)? } else { sections::find(image)? };
    let Some(found) = found else { return Ok(None) };
    check_segments(image, &found.device)?;
    let slots: Vec<_> = found.places.iter().map(WrapperPlace::pointer).collect();
    let pointers = relocation::resolve(image, &slots, &found.addresses)?;
    let lead = |(place, pointer)| wrapper(place, pointer, &found.addresses, &found.device);
    let wrappers = found.places.iter().zip(pointers).map(lead).collect::<Result<_, _>>()?;
    Ok(Some((found, wrappers)))
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
