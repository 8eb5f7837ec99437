//! Files without section headers: device code is found through wrappers, and wrappers through their magic.
//!
//! A magic alone proves nothing. A wrapper counts only if its pointer leads to an offload bundle, or, in a split file,
//! to a marker.

use std::collections::{BTreeMap, BTreeSet};

use object::LittleEndian as LE;
use object::elf;
use rocm_kpack::Marker;

use super::image::{ElfImage, ElfSegment, read_table};
use super::relocation;
use super::sections::{MappedDevice, WrappedCode, WrapperPlace};
use crate::binary::BinaryError;
use crate::binary::marker::{MAX_MARKER, MAX_MARKERS, Markers};
use crate::binary::wrapper::{FATBIN_WRAPPER_MAGIC, FATBIN_WRAPPER_SIZE, HIPK_MAGIC};
use crate::fatbin::{MAGIC_SIZE, bundle_size, is_bundle};
use crate::rope::to_usize;

/// Bytes searched at a time.
const STEP: u64 = 1 << 20;

/// The most padding between two bundles, in bytes. It must be all zeros.
const MAX_PADDING: u64 = 1 << 16;

/// The most places that may look like wrappers. There is one for each translation unit.
const MAX_CANDIDATES: usize = 1 << 16;

/// Finds the device code that wrappers lead to.
pub(super) fn find(image: &ElfImage) -> Result<Option<WrappedCode>, BinaryError> {
    image.check_bounds()?;
    let found: Vec<_> = candidates(image, FATBIN_WRAPPER_MAGIC)?
        .into_iter()
        .filter_map(|(place, address)| Some((place, image.offset_of(address, 1)?)))
        .collect();
    let bundles = bundles(image, found.iter().map(|&(_, offset)| offset).collect())?;
    let (Some((&start, _)), Some(end)) = (bundles.first_key_value(), bundles.values().copied().max()) else {
        return Ok(None);
    };
    let places = found.into_iter().filter(|(_, offset)| bundles.contains_key(offset)).map(|(place, _)| place).collect();
    if !split_places(image)?.is_empty() {
        return Err(BinaryError::unsupported("some of its fat binary wrappers are split already and some are not"));
    }
    check_padding(image, &bundles)?;
    let not_loaded = || BinaryError::malformed("its device code is not loaded by one segment");
    let is_around = |load: &ElfSegment| load.offset <= start && end <= load.end();
    let (load, segment) = image.loads().find(|(_, load)| is_around(load)).ok_or_else(not_loaded)?;
    let address = segment.address.checked_add(start - segment.offset);
    let addresses = address.and_then(|address| Some(address..address.checked_add(end - start)?));
    let addresses = addresses.ok_or_else(not_loaded)?;
    // After the split they would be taken for split wrappers, or hide the real ones.
    let false_ones = candidates(image, HIPK_MAGIC)?;
    if false_ones.len() >= MAX_MARKERS || false_ones.iter().any(|(_, address)| addresses.contains(address)) {
        return Err(BinaryError::unsupported("there is something that looks like wrappers which have been split"));
    }
    Ok(Some(WrappedCode { section: None, places, device: MappedDevice { offsets: start..end, load }, addresses }))
}

/// The wrappers that lead to a readable marker.
pub(super) fn split_places(image: &ElfImage) -> Result<Vec<WrapperPlace>, BinaryError> {
    let mut markers = Markers::default();
    let mut places = Vec::new();
    for (place, address) in candidates(image, HIPK_MAGIC)? {
        let marker = markers.get(address, || image.read_loaded(address, MAX_MARKER));
        if marker.is_ok_and(|bytes| Marker::decode(&bytes).is_ok()) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Those `places` at which a bundle begins, with its end. A bundle ends at the next one at the latest, so no part of
/// the file is read for several of them. Fails if the end of a bundle cannot be determined.
fn bundles(image: &ElfImage, places: BTreeSet<u64>) -> Result<BTreeMap<u64, u64>, BinaryError> {
    let mut bundles = BTreeMap::new();
    let mut limit = image.content.size();
    for offset in places.into_iter().rev() {
        if let Some(size) = bundle_size(&image.content, offset, limit) {
            bundles.insert(offset, offset.saturating_add(size));
            limit = offset;
            continue;
        }
        let length = (MAGIC_SIZE as u64).min(image.content.size().saturating_sub(offset));
        if is_bundle(&read_table(&image.content, offset, length)?) {
            let reason = format!("it has no section headers, and the offload bundle at {offset:#x} has no end");
            return Err(BinaryError::unsupported(reason));
        }
    }
    Ok(bundles)
}

/// The places that look like wrappers with this magic and hold a pointer, with the address that it holds.
fn candidates(image: &ElfImage, magic: u32) -> Result<Vec<(WrapperPlace, u64)>, BinaryError> {
    // In a file without relocations, wrappers may be read-only.
    let is_fixed = image.header.e_type.get(LE) == elf::ET_EXEC;
    let mut places = Vec::new();
    for (_, load) in image.loads().filter(|(_, load)| is_fixed || load.flags.0 & elf::PF_W.0 != 0) {
        search(image, load, magic, &mut places)?;
    }
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let slots: Vec<_> = places.iter().map(WrapperPlace::pointer).collect();
    let values = relocation::resolve_some(image, &slots)?;
    Ok(places.into_iter().zip(values).filter_map(|(place, value)| Some((place, value?))).collect())
}

/// Adds the places in a segment that have a wrapper's magic and version.
fn search(image: &ElfImage, load: &ElfSegment, magic: u32, places: &mut Vec<WrapperPlace>) -> Result<(), BinaryError> {
    let mut pattern = magic.to_le_bytes().to_vec();
    pattern.extend(1_u32.to_le_bytes());
    // Wrappers are aligned in memory. A segment without alignment may be at any file offset.
    let mut offset = load.offset.saturating_add(load.address.wrapping_neg() % 8);
    let mut bytes = Vec::new();
    while offset + FATBIN_WRAPPER_SIZE <= load.end() {
        let here = STEP.min(load.end() - offset) / 8 * 8;
        bytes.resize(to_usize(here), 0);
        image.content.read_at(offset, &mut bytes)?;
        let found = bytes.chunks_exact(8).zip((offset..).step_by(8)).filter(|(word, _)| *word == pattern);
        let is_whole = |offset: &u64| offset + FATBIN_WRAPPER_SIZE <= load.end();
        let place = |offset| WrapperPlace { offset, address: load.address.wrapping_add(offset - load.offset) };
        places.extend(found.map(|(_, offset)| offset).filter(is_whole).map(place));
        if places.len() > MAX_CANDIDATES {
            return Err(BinaryError::unsupported("it has no section headers, and too much in it looks like wrappers"));
        }
        offset += here.max(8);
    }
    Ok(())
}

/// Fails if there is anything but padding between known bundles: a bundle without a wrapper cannot be told from other
/// data.
fn check_padding(image: &ElfImage, bundles: &BTreeMap<u64, u64>) -> Result<(), BinaryError> {
    let mut end = bundles.keys().next().copied().unwrap_or(0);
    for (&start, &bundle_end) in bundles {
        let length = start.saturating_sub(end);
        let mut padding = vec![0; to_usize(length.min(MAX_PADDING))];
        image.content.read_at(end.min(start), &mut padding)?;
        if length > MAX_PADDING || padding.iter().any(|&byte| byte != 0) {
            return Err(BinaryError::unsupported(
                "it has no section headers, and there is something unknown between its offload bundles",
            ));
        }
        end = end.max(bundle_end);
    }
    Ok(())
}
