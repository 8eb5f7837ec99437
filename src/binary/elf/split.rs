//! Reads a split ELF file as a loader does.

use std::sync::Arc;

use super::image::{ElfImage, ElfSection, read_table};
use super::relocation::{self, Pointer, PointerEncoding};
use super::sections::{FATBIN, MARKER, WRAPPERS, WrapperPlace, read_wrappers};
use super::{lint, sectionless};
use crate::binary::BinaryError;
use crate::binary::marker::{MARKER_ALONE, MAX_MARKER, Markers};
use crate::binary::split::{Problems, SplitBinary, SplitWrapper, split_wrappers};
use crate::binary::wrapper::{FATBIN_WRAPPER_SIZE, WrapperFields};
use crate::rope::Content;

/// A wrapper in the file.
struct RawElfWrapper {
    place: WrapperPlace,
    fields: WrapperFields,
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
        problems.push_damage(MARKER_ALONE.to_owned());
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
    Ok(Some(problems.into_binary(wrappers)))
}

/// Looks for split wrappers in a file without section names.
fn read_headerless(image: &ElfImage) -> Result<Option<SplitBinary>, BinaryError> {
    image.check_bounds()?;
    let places = sectionless::split_places(image)?;
    if places.is_empty() {
        return Ok(None);
    }
    let mut problems = Problems::default();
    lint::check(image, &mut problems)?;
    let read = |place: WrapperPlace| {
        let bytes = read_table(&image.content, place.offset, FATBIN_WRAPPER_SIZE)?;
        let fields = WrapperFields::decode(&bytes).ok_or_else(|| BinaryError::malformed("a wrapper is truncated"))?;
        Ok(RawElfWrapper { place, fields })
    };
    let found = places.into_iter().map(read).collect::<Result<_, BinaryError>>()?;
    if let Err(error) = sectionless::find(image) {
        problems.push(error.to_string());
    }
    let wrappers = follow(image, found, None, &mut problems);
    Ok(Some(problems.into_binary(wrappers)))
}

/// Follows the pointers of all wrappers.
fn follow(
    image: &ElfImage,
    found: Vec<RawElfWrapper>,
    marker: Option<&ElfSection>,
    problems: &mut Problems,
) -> Vec<SplitWrapper> {
    let slots: Vec<_> = found.iter().map(|wrapper| wrapper.place.pointer()).collect();
    let pointers = relocation::resolve_each(image, &slots);
    let mut markers = Markers::default();
    let mut wrappers = Vec::new();
    for (position, (found, pointer)) in found.into_iter().zip(pointers).enumerate() {
        if let Ok(pointer) = &pointer {
            problems.extend(disagreement(position, &found, *pointer));
            if let Some(section) = marker.filter(|section| !section.contains(pointer.value)) {
                problems.push(format!(
                    "wrapper {position} points at {:#x}, outside of .rocm_kpack_ref at {:#x}",
                    pointer.value, section.address
                ));
            }
        }
        let marker = pointer.and_then(|Pointer { value: at, .. }| {
            let in_section = marker.filter(|section| section.contains(at));
            let limit = in_section.map_or(MAX_MARKER, |it| MAX_MARKER.min(it.size - (at - it.address)));
            markers.get(at, || image.read_loaded(at, limit))
        });
        let RawElfWrapper { place, fields } = found;
        wrappers.push(SplitWrapper { offset: place.offset, version: fields.version, index: fields.index, marker });
    }
    wrappers
}

/// The split wrappers of the section.
fn wrappers(
    image: &ElfImage,
    section: &ElfSection,
    problems: &mut Problems,
) -> Result<Vec<RawElfWrapper>, BinaryError> {
    let bytes = read_wrappers(image, section)?;
    let found = split_wrappers(&bytes, section.offset, problems).into_iter();
    let place = |at| WrapperPlace { offset: section.offset + at, address: section.address.wrapping_add(at) };
    Ok(found.map(|(at, fields)| RawElfWrapper { place: place(at), fields }).collect())
}

/// Remaining device code. The section may stay, but without content.
fn leftovers(image: &ElfImage) -> Option<String> {
    let (_, section) = image.section(FATBIN)?;
    let still = !section.is_nobits() && section.size > 0;
    still.then(|| format!("it still holds device code: .hip_fatbin has {} bytes", section.size))
}

/// Tools that do not relocate read the value in place. It may be 0, but must not be another value.
fn disagreement(position: usize, found: &RawElfWrapper, pointer: Pointer) -> Option<String> {
    let PointerEncoding::Addend { .. } = pointer.encoding else { return None };
    let (in_place, relocated) = (found.fields.pointer, pointer.value);
    (in_place != 0 && in_place != relocated).then(|| {
        format!("the pointer of wrapper {position} is {in_place:#x} in place but {relocated:#x} when relocated")
    })
}
