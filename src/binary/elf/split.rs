//! Reads a split ELF file as a loader does.

use std::sync::Arc;

use super::image::{ElfImage, ElfSection, read_table, read_wrappers};
use super::relocation::{self, Pointer, PointerEncoding};
use super::{FATBIN, Fields, MARKER, WRAPPERS, WrapperPlace, lint, sectionless, wrapper_at};
use crate::binary::split::{Markers, Problems};
use crate::binary::{BinaryError, FATBIN_WRAPPER_MAGIC, FATBIN_WRAPPER_SIZE, HIPK_MAGIC, SplitBinary, SplitWrapper};
use crate::kpack;
use crate::rope::{Content, to_usize};

/// Bytes of the longest marker that loaders read.
const MAX_MARKER: u64 = 64 << 10;

/// The fields of a wrapper in the file.
struct RawElfWrapper {
    offset: u64,
    address: u64,
    version: u32,
    pointer: u64,
    index: u64,
}

impl RawElfWrapper {
    fn read(image: &ElfImage, place: &WrapperPlace) -> Result<Self, BinaryError> {
        let bytes = read_table(&image.content, place.offset, FATBIN_WRAPPER_SIZE)?;
        let fields = wrapper_at(&bytes, 0).ok_or_else(|| BinaryError::malformed("a wrapper is truncated"))?;
        Ok(Self::new(place.offset, place.address, &fields))
    }

    fn new(offset: u64, address: u64, fields: &Fields) -> Self {
        Self { offset, address, version: fields.version, pointer: fields.pointer, index: fields.index }
    }
}

/// Looks for split wrappers, or a marker without any.
pub(in crate::binary) fn read_split(content: &Arc<dyn Content>) -> Result<Option<SplitBinary>, BinaryError> {
    let Some(image) = ElfImage::read(content)? else { return Ok(None) };
    let mut problems = Problems::default();
    if image.sections.is_empty() {
        return read_headerless(&image);
    }
    let found = match image.section(WRAPPERS) {
        Some((_, section)) if !section.is_nobits() => wrappers(&image, section, &mut problems)?,
        _ => Vec::new(),
    };
    let marker = image.section(MARKER).map(|(_, section)| section);
    // A .debug file has both sections without content.
    if found.is_empty() && marker.is_none_or(ElfSection::is_nobits) {
        return Ok(None);
    }
    image.check_bounds()?;
    if found.is_empty() {
        problems.push("it has a marker but no wrappers".to_owned());
    }
    lint::check(&image, &mut problems)?;
    problems.extend(leftovers(&image));
    let marker = match marker {
        Some(section) if !section.is_nobits() && section.is_allocated() => Some(section),
        Some(_) => {
            problems.push("its section .rocm_kpack_ref is not loaded".to_owned());
            None
        }
        None => {
            problems.push("it has no section .rocm_kpack_ref".to_owned());
            None
        }
    };
    let wrappers = follow(&image, found, marker, &mut problems);
    Ok(Some(SplitBinary { wrappers, problems: problems.into_list() }))
}

/// Looks for split wrappers in a file without section names.
fn read_headerless(image: &ElfImage) -> Result<Option<SplitBinary>, BinaryError> {
    image.check_bounds()?;
    let places = headerless_places(image)?;
    if places.is_empty() {
        return Ok(None);
    }
    let mut problems = Problems::default();
    lint::check(image, &mut problems)?;
    let found = places.iter().map(|place| RawElfWrapper::read(image, place)).collect::<Result<_, _>>()?;
    if let Err(error) = sectionless::find(image) {
        problems.push(error.to_string());
    }
    let wrappers = follow(image, found, None, &mut problems);
    Ok(Some(SplitBinary { wrappers, problems: problems.into_list() }))
}

/// The wrappers that lead to a readable marker, in a file without section names.
pub(super) fn headerless_places(image: &ElfImage) -> Result<Vec<WrapperPlace>, BinaryError> {
    let mut markers = Markers::default();
    let mut places = Vec::new();
    for (place, address) in sectionless::candidates(image, HIPK_MAGIC)? {
        let marker = markers.get(address, || read_marker(image, None, address));
        if marker.is_ok_and(|bytes| kpack::read_marker(&bytes).is_ok()) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Follows the pointers of all wrappers.
fn follow(
    image: &ElfImage,
    found: Vec<RawElfWrapper>,
    marker: Option<&ElfSection>,
    problems: &mut Problems,
) -> Vec<SplitWrapper> {
    let pointers = resolve(image, &found);
    let mut markers = Markers::default();
    let mut wrappers = Vec::new();
    for (position, (found, pointer)) in found.into_iter().zip(pointers).enumerate() {
        if let Ok(pointer) = &pointer {
            problems.extend(disagreement(position, &found, *pointer));
            if let Some(section) = marker.filter(|section| !contains(section, pointer.value)) {
                problems.push(format!(
                    "wrapper {position} points at {:#x}, outside of .rocm_kpack_ref at {:#x}",
                    pointer.value, section.address
                ));
            }
        }
        let read = |at| move || read_marker(image, marker, at);
        let marker = pointer.and_then(|pointer| markers.get(pointer.value, read(pointer.value)));
        wrappers.push(SplitWrapper { offset: found.offset, version: found.version, index: found.index, marker });
    }
    wrappers
}

/// The split wrappers of the section. Instrumented builds pad each wrapper with zeros.
fn wrappers(
    image: &ElfImage,
    section: &ElfSection,
    problems: &mut Problems,
) -> Result<Vec<RawElfWrapper>, BinaryError> {
    let bytes = read_wrappers(image, section)?;
    let mut found = Vec::new();
    let mut with_code = 0;
    let mut at = 0;
    while let Some(fields) = wrapper_at(&bytes, at) {
        let offset = section.offset + at;
        at += match fields.magic {
            HIPK_MAGIC => {
                found.push(RawElfWrapper::new(offset, section.address.wrapping_add(at), &fields));
                FATBIN_WRAPPER_SIZE
            }
            FATBIN_WRAPPER_MAGIC => {
                with_code += 1;
                FATBIN_WRAPPER_SIZE
            }
            0 if fields.version == 0 => 8,
            other => {
                problems.push(format!("there is no wrapper at {offset:#x} but {other:#010x}"));
                break;
            }
        };
    }
    if with_code > 0 && !found.is_empty() {
        let all = with_code + found.len();
        problems.push(format!("{with_code} of its {all} wrappers still have the magic HIPF, the others HIPK"));
    }
    Ok(found)
}

/// Remaining device code. The section may stay, but without content.
fn leftovers(image: &ElfImage) -> Option<String> {
    let (_, section) = image.section(FATBIN)?;
    let still = !section.is_nobits() && section.size > 0;
    still.then(|| format!("it still holds device code: .hip_fatbin has {} bytes", section.size))
}

/// The pointer of each wrapper, as the loader relocates it.
fn resolve(image: &ElfImage, found: &[RawElfWrapper]) -> Vec<Result<Pointer, BinaryError>> {
    let slots: Vec<_> = found.iter().map(|wrapper| wrapper.address.wrapping_add(8)).collect();
    relocation::resolve_each(image, &slots)
}

/// Tools that do not relocate read the value in place. It may be 0, but must not be another value.
fn disagreement(position: usize, found: &RawElfWrapper, pointer: Pointer) -> Option<String> {
    let PointerEncoding::Addend { .. } = pointer.encoding else { return None };
    (found.pointer != 0 && found.pointer != pointer.value).then(|| {
        let (in_place, relocated) = (found.pointer, pointer.value);
        format!("the pointer of wrapper {position} is {in_place:#x} in place but {relocated:#x} when relocated")
    })
}

fn contains(section: &ElfSection, address: u64) -> bool {
    address.checked_sub(section.address).is_some_and(|inside| inside < section.size)
}

/// The bytes at a pointer that are mapped from the file, up to the end of the marker's section if the pointer is in it.
fn read_marker(image: &ElfImage, section: Option<&ElfSection>, address: u64) -> Result<Arc<[u8]>, BinaryError> {
    let unmapped = || BinaryError::malformed(format!("its pointer leads to {address:#x}, where nothing is loaded"));
    let mapped = |load: &super::image::ElfSegment| {
        let inside = address.checked_sub(load.address)?;
        load.file_size.checked_sub(inside).filter(|&rest| rest > 0)
    };
    let rest = image.loads().find_map(|(_, load)| mapped(load)).ok_or_else(unmapped)?;
    let in_section = section.filter(|section| contains(section, address));
    let limit = in_section.map_or(u64::MAX, |section| section.size - (address - section.address));
    let length = rest.min(limit).min(MAX_MARKER);
    let offset = image.offset_of(address, length).ok_or_else(unmapped)?;
    let mut bytes = vec![0; to_usize(length)];
    image.content.read_at(offset, &mut bytes)?;
    Ok(bytes.into())
}
