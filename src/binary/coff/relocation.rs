//! Base relocations: which pointers the loader adjusts, and which of them lead into the device code.
//!
//! "PE Format", "The .reloc Section": a block has the u32 RVA of a page, the u32 size of the block with its header, and
//! u16 entries. An entry has a type in the upper 4 bits and an offset in the page in the lower 12. The loader adds the
//! distance between the actual and the linked base to the value in place. So every pointer in the file holds its linked
//! value.

use std::collections::BTreeSet;
use std::ops::Range;

use object::LittleEndian as LE;
use object::pe::{self, BaseRelocationType, ImageBaseRelocation};
use object::pod::from_bytes;

use super::image::PeImage;
use crate::binary::BinaryError;
use crate::binary::words::{WINDOW, WordWindow};

/// The largest relocation directory that is read, in bytes. The largest real ones have a few MB.
const MAX_SIZE: u64 = 16 << 20;

/// A pointer that the loader adjusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RelocationSite {
    /// RVA. The sum of a page and an offset may exceed 32 bits.
    address: u64,
    /// Width of the pointer in bytes.
    width: u8,
}

/// The values of the pointers at the RVAs `slots`, in order, as RVAs. All slots are in `wrappers`. Fails if another
/// relocated pointer leads into `device`, or if a slot is not relocated.
pub(super) fn resolve(
    image: &PeImage,
    slots: &[u64],
    wrappers: &Range<u64>,
    device: &Range<u64>,
) -> Result<Vec<u64>, BinaryError> {
    let places = read_places(image)?;
    let mut window = WordWindow::default();
    let mut relocated = Vec::new();
    for place in places {
        let range = place.address..place.address + u64::from(place.width);
        let touches = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        if touches(device) {
            return Err(BinaryError::unsupported(format!(
                "there is a relocation inside the device code, at {:#x}",
                place.address
            )));
        }
        if touches(wrappers) {
            relocated.push(place);
            continue;
        }
        let value = word(image, place, &mut window)?;
        let inside = value.checked_sub(image.base()).is_some_and(|address| device.contains(&address));
        if inside {
            return Err(BinaryError::unsupported(format!(
                "the pointer at address {:#x} leads into the device code at {value:#x} and is not a wrapper's",
                place.address
            )));
        }
    }
    check_slots(image, slots, &relocated)?;
    slots.iter().map(|&slot| pointer(image, slot)).collect()
}

/// The RVAs in a range of 8-byte pointers that the loader adjusts.
pub(super) fn pointers(image: &PeImage, range: &Range<u64>) -> Result<BTreeSet<u64>, BinaryError> {
    let places = read_places(image)?.into_iter();
    Ok(places.filter(|place| place.width == 8 && range.contains(&place.address)).map(|place| place.address).collect())
}

/// Fails unless the relocations in the wrappers are exactly those of their pointers.
fn check_slots(image: &PeImage, slots: &[u64], relocated: &[RelocationSite]) -> Result<(), BinaryError> {
    let mut expected: Vec<_> = slots.iter().map(|&address| RelocationSite { address, width: 8 }).collect();
    expected.sort_unstable();
    if (image.is_fixed() && relocated.is_empty()) || expected == relocated {
        return Ok(());
    }
    if let Some(place) = expected.iter().find(|place| relocated.binary_search(place).is_err()) {
        return Err(BinaryError::unsupported(format!("the wrapper pointer at {:#x} is not relocated", place.address)));
    }
    Err(BinaryError::unsupported("its wrappers have relocations that are not those of their pointers"))
}

fn pointer(image: &PeImage, slot: u64) -> Result<u64, BinaryError> {
    let bytes = image.read_at_address(slot, 8)?;
    let value = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    value
        .and_then(|value| value.checked_sub(image.base()))
        .ok_or_else(|| BinaryError::unsupported(format!("the wrapper pointer at {slot:#x} leads out of the image")))
}

/// All relocations by ascending address, so that nothing has to be read twice.
fn read_places(image: &PeImage) -> Result<Vec<RelocationSite>, BinaryError> {
    let Some((address, size)) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_BASERELOC) else { return Ok(Vec::new()) };
    if size > MAX_SIZE {
        return Err(BinaryError::unsupported(format!("its relocations take {size} bytes; the limit is {MAX_SIZE}")));
    }
    let bytes = image.read_at_address(address, size)?;
    let malformed = || BinaryError::malformed("a block of its relocations has an impossible size");
    let mut places = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (header, _) = from_bytes::<ImageBaseRelocation>(rest).map_err(|()| malformed())?;
        let length = usize::try_from(header.size_of_block.get(LE)).map_err(|_| malformed())?;
        let (block, after) = rest.split_at_checked(length).ok_or_else(malformed)?;
        let entries = block.get(size_of::<ImageBaseRelocation>()..).ok_or_else(malformed)?;
        let page = u64::from(header.virtual_address.get(LE));
        let (entries, _) = entries.as_chunks::<2>();
        for entry in entries.iter().map(|entry| u16::from_le_bytes(*entry)) {
            let address = page + u64::from(entry & 0xfff);
            match BaseRelocationType(entry >> 12) {
                pe::IMAGE_REL_BASED_ABSOLUTE => (),
                pe::IMAGE_REL_BASED_DIR64 => places.push(RelocationSite { address, width: 8 }),
                pe::IMAGE_REL_BASED_HIGHLOW => places.push(RelocationSite { address, width: 4 }),
                BaseRelocationType(kind) => {
                    return Err(BinaryError::unsupported(format!(
                        "the relocation at {address:#x} is of type {kind}, which is not understood"
                    )));
                }
            }
        }
        rest = after;
    }
    places.sort_unstable();
    Ok(places)
}

/// The word at a place. Places ascend.
fn word(image: &PeImage, place: RelocationSite, window: &mut WordWindow) -> Result<u64, BinaryError> {
    let missing = || BinaryError::malformed(format!("the relocated word at {:#x} is not loaded", place.address));
    let fill = || {
        let section = image.section_at(place.address).ok_or_else(missing)?;
        let available = section.loaded_size().saturating_sub(place.address - section.address);
        // The rest of the memory is not in the file, and zero.
        if available == 0 { Ok(vec![0; 8]) } else { image.read_at_address(place.address, available.min(WINDOW)) }
    };
    window.word(place.address, place.width, fill)?.ok_or_else(missing)
}
