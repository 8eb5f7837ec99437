//! Reads a split image as a loader does.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::image::{PeImage, PeSection};
use super::{FATBIN, MARKER, WRAPPERS, lint, read_wrappers, relocation};
use crate::binary::BinaryError;
use crate::binary::marker::{MARKER_ALONE, MAX_MARKER, Markers};
use crate::binary::split::{Problems, SplitBinary, SplitWrapper, split_wrappers};
use crate::binary::wrapper::WrapperFields;
use crate::rope::Content;

/// Bytes read at a time.
const STEP: u64 = 1 << 20;

/// A wrapper in the file. Its pointer is an absolute address.
struct RawPeWrapper {
    offset: u64,
    /// RVA of its pointer.
    slot: u64,
    fields: WrapperFields,
}

/// Looks for split wrappers, or a marker without any.
pub(in crate::binary) fn read_split(content: &Arc<dyn Content>) -> Result<Option<SplitBinary>, BinaryError> {
    let Some(image) = PeImage::read(content)? else { return Ok(None) };
    let named = |name| image.sections.iter().find(|section| section.header.name == name);
    let mut problems = Problems::default();
    let found = match named(WRAPPERS) {
        Some(section) => wrappers(&image, section, &mut problems)?,
        None => Vec::new(),
    };
    let marker = named(MARKER);
    if found.is_empty() && marker.is_none() {
        return Ok(None);
    }
    if found.is_empty() {
        problems.push_damage(MARKER_ALONE.to_owned());
    }
    if marker.is_none() {
        problems.push("it has no section .kpackrf".to_owned());
    }
    lint::check(&image, &mut problems)?;
    if let Some(section) = named(FATBIN)
        && has_content(&image, section)?
    {
        problems.push(format!("it still holds device code: .hip_fat has {} bytes", section.loaded_size()));
    }
    let range = named(WRAPPERS).map_or(0..0, |section| section.address..section.address + section.virtual_size);
    let relocated = match relocation::pointers(&image, &range) {
        Err(BinaryError::Read(error)) => return Err(error.into()),
        Err(error) => {
            problems.push(error.to_string());
            None
        }
        Ok(relocated) => Some(relocated),
    };
    let mut markers = Markers::default();
    let mut wrappers = Vec::new();
    for (position, found) in found.into_iter().enumerate() {
        // If the image is moved, the pointer would still hold the marker's linked address.
        if !image.is_fixed() && relocated.as_ref().is_some_and(|relocated| !relocated.contains(&found.slot)) {
            problems.push(format!("the pointer of wrapper {position} has no base relocation"));
        }
        let target = found.fields.pointer.checked_sub(image.base());
        if let (Some(section), Some(target)) = (marker, target)
            && !section.contains(target)
        {
            let (address, expected) = (found.fields.pointer, image.base().saturating_add(section.address));
            problems.push(format!("wrapper {position} points at {address:#x}, outside of .kpackrf at {expected:#x}"));
        }
        let marker = markers.get(found.fields.pointer, || read_marker(&image, &found));
        let RawPeWrapper { offset, fields, .. } = found;
        wrappers.push(SplitWrapper { offset, version: fields.version, index: fields.index, marker });
    }
    problems.extend(relocated.and_then(|relocated| strangers(named(WRAPPERS)?, &wrappers, &relocated)));
    Ok(Some(problems.into_binary(wrappers)))
}

/// The split wrappers of the section.
fn wrappers(image: &PeImage, section: &PeSection, problems: &mut Problems) -> Result<Vec<RawPeWrapper>, BinaryError> {
    if section.loaded_size() == 0 {
        return Ok(Vec::new());
    }
    let bytes = read_wrappers(image, section)?;
    let found = split_wrappers(&bytes, section.offset, problems).into_iter();
    let raw = |(at, fields)| RawPeWrapper { offset: section.offset + at, slot: section.address + at + 8, fields };
    Ok(found.map(raw).collect())
}

/// Whether a section has any byte that is not zero. Other splitters leave a piece of `.hip_fat` that is all zeros.
fn has_content(image: &PeImage, section: &PeSection) -> Result<bool, BinaryError> {
    let size = section.loaded_size();
    for start in (0..size).step_by(usize::try_from(STEP).unwrap_or(1)) {
        let bytes = image.read_at_address(section.address + start, STEP.min(size - start))?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The bytes at a pointer, up to the end of its section in the file.
fn read_marker(image: &PeImage, found: &RawPeWrapper) -> Result<Arc<[u8]>, BinaryError> {
    let unmapped = || {
        let pointer = found.fields.pointer;
        BinaryError::malformed(format!("its pointer leads to {pointer:#x}, where nothing is loaded from the file"))
    };
    let address = found.fields.pointer.checked_sub(image.base()).ok_or_else(unmapped)?;
    let section = image.section_at(address).ok_or_else(unmapped)?;
    let rest = section.loaded_size().checked_sub(address - section.address).filter(|&rest| rest > 0);
    let length = rest.ok_or_else(unmapped)?.min(MAX_MARKER);
    Ok(image.read_at_address(address, length)?.into())
}

/// Relocations in the wrappers other than those of pointers. They would damage the wrappers when the image is moved.
fn strangers(section: &PeSection, wrappers: &[SplitWrapper], relocated: &BTreeSet<u64>) -> Option<String> {
    let slots: BTreeSet<_> =
        wrappers.iter().map(|wrapper| wrapper.offset - section.offset + section.address + 8).collect();
    let mut inside = relocated.range(section.address..section.address + section.virtual_size);
    let stranger = inside.find(|address| !slots.contains(address))?;
    Some(format!("there is a base relocation at {stranger:#x}, among the wrappers but not of a pointer"))
}
