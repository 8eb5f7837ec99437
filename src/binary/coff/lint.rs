//! Rules of Windows for images that it loads, as far as rewriting is likely to break them.

use object::pe::{self, ImageDebugDirectory, ImageSectionHeader};
use object::pod::slice_from_bytes;
use object::{LittleEndian as LE, U32};

use super::checksum::{FIELD, compute};
use super::image::{PeImage, PeSection};
use super::joined::MAX_DEBUG;
use crate::binary::BinaryError;
use crate::binary::split::Problems;
use crate::rope::{Edit, edited, to_usize};

/// Adds a sentence for each rule that the file breaks.
pub(super) fn check(image: &PeImage, problems: &mut Problems) -> Result<(), BinaryError> {
    let optional = &image.headers.optional_header;
    let unit = u64::from(optional.section_alignment.get(LE));
    let file_unit = u64::from(optional.file_alignment.get(LE));
    if !unit.is_power_of_two() || !file_unit.is_power_of_two() || file_unit > unit {
        problems.push(format!("sections aligned to {file_unit:#x} in the file and to {unit:#x} in memory"));
        return Ok(());
    }
    memory(image, unit, problems);
    file(image, file_unit, problems);
    directories(image, problems);
    debug_data(image, problems)?;
    problems.extend(checksum(image)?);
    Ok(())
}

fn name(section: &PeSection) -> String {
    let name = section.header.name;
    String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// "PE Format", "Section Table": virtual addresses ascend and are adjacent, in multiples of the section alignment.
fn memory(image: &PeImage, unit: u64, problems: &mut Problems) {
    let headers = u64::from(image.headers.optional_header.size_of_headers.get(LE));
    let mut end = headers.next_multiple_of(unit);
    for section in &image.sections {
        if section.address != end {
            let (name, address) = (name(section), section.address);
            problems.push(format!("section {name}: it begins at {address:#x} instead of {end:#x}"));
        }
        end = (section.address + section.virtual_size).next_multiple_of(unit);
    }
    let size = u64::from(image.headers.optional_header.size_of_image.get(LE));
    if size != end {
        problems.push(format!("SizeOfImage is {size:#x}, but its sections end at {end:#x}"));
    }
}

/// The bytes of sections are in the file, aligned, and do not overlap.
fn file(image: &PeImage, unit: u64, problems: &mut Problems) {
    let table_end = image.table_offset + (image.sections.len() * size_of::<ImageSectionHeader>()) as u64;
    let headers = u64::from(image.headers.optional_header.size_of_headers.get(LE));
    if headers < table_end || headers % unit != 0 || headers > image.content.size() {
        problems.push(format!("SizeOfHeaders is {headers:#x}"));
    }
    let mut ranges = vec![(0, headers, "the headers".to_owned())];
    for section in image.sections.iter().filter(|section| section.raw_size > 0) {
        let name = name(section);
        let mut say = |what: &str| problems.push(format!("section {name}: {what}"));
        if section.offset % unit != 0 || section.raw_size % unit != 0 {
            say("its place in the file is not aligned");
        }
        if section.end() > image.content.size() {
            say("it reaches past the end of the file");
        }
        ranges.push((section.offset, section.end(), format!("section {name}")));
    }
    ranges.sort();
    for pair in ranges.windows(2) {
        if let [(_, end, first), (start, _, second)] = pair
            && start < end
        {
            problems.push(format!("{first} and {second} overlap in the file"));
        }
    }
}

fn directories(image: &PeImage, problems: &mut Problems) {
    for index in 0..image.directories.len() {
        let Some((address, size)) = image.directory(index) else { continue };
        // The certificate table has a file offset instead of an RVA.
        if index == pe::IMAGE_DIRECTORY_ENTRY_SECURITY {
            if address + size > image.content.size() {
                problems.push("its certificates reach past the end of the file".to_owned());
            }
        } else if image.section_at(address).is_none_or(|section| {
            let inside = address - section.address;
            inside + size > section.virtual_size.max(section.raw_size)
        }) {
            problems.push(format!("data directory {index} is not inside a section"));
        }
    }
}

/// Debuggers find debug data by offset, programs by address. Both have to lead to the same place.
fn debug_data(image: &PeImage, problems: &mut Problems) -> Result<(), BinaryError> {
    let Some((address, size)) = image.directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG) else { return Ok(()) };
    let count = size / size_of::<ImageDebugDirectory>() as u64;
    if count > MAX_DEBUG || image.offset_of(address, size).is_none() {
        problems.push("its debug directory is not in the file".to_owned());
        return Ok(());
    }
    let bytes = image.read_at_address(address, size)?;
    let count = to_usize(count);
    let unreadable = |()| BinaryError::malformed("unreadable debug directory");
    let (entries, _) = slice_from_bytes::<ImageDebugDirectory>(&bytes, count).map_err(unreadable)?;
    for (number, entry) in entries.iter().enumerate() {
        let field = |field: &U32<LE>| u64::from(field.get(LE));
        let (address, size) = (field(&entry.address_of_raw_data), field(&entry.size_of_data));
        let offset = field(&entry.pointer_to_raw_data);
        if size == 0 || offset == 0 {
            continue;
        }
        if offset + size > image.content.size() {
            problems.push(format!("debug data {number} reaches past the end of the file"));
        } else if address != 0 && image.offset_of(address, size) != Some(offset) {
            problems.push(format!("debug data {number}: its address and its offset are not the same place"));
        }
    }
    Ok(())
}

/// A checksum of 0 means that there is none. Drivers and some DLLs need one.
fn checksum(image: &PeImage) -> Result<Option<String>, BinaryError> {
    let claimed = image.headers.optional_header.check_sum.get(LE);
    if claimed == 0 {
        return Ok(None);
    }
    let without = edited(&image.content, vec![Edit::patch(image.headers_offset + FIELD, vec![0; 4])]);
    let without = without.map_err(|error| BinaryError::malformed(error.to_string()))?;
    let sum = compute(&without)?;
    Ok((sum != claimed).then(|| format!("its checksum is {claimed:#x} but should be {sum:#x}")))
}
