//! The section names of a joined file, and the end of the file, where a join puts names and section headers.
//!
//! A file that was joined before has the names already, also after it was split again. Its names and headers are
//! replaced, so that joining it again gives the same file.

use memchr::memmem;
use object::LittleEndian as LE;
use object::elf::SectionHeader64;

use super::image::ElfImage;
use super::sections::FATBIN;
use crate::binary::BinaryError;
use crate::rope::to_usize;

/// The new name of the marker's section after a join.
const OLD_MARKER: &[u8] = b".kpack_ref_unused";

/// Section names, and the bytes that the names and headers of a joined file replace.
pub(super) struct JoinedNames {
    /// The table.
    pub(super) bytes: Vec<u8>,
    /// The offset of [`FATBIN`] in it.
    pub(super) fatbin: u32,
    /// The offset of the name for a marker that is not used.
    pub(super) old_marker: u32,
    /// The old names and headers begin here, if an earlier join put them at the end of the file; otherwise the end.
    pub(super) end: u64,
    /// Whether the file was joined before.
    pub(super) is_joined: bool,
}

impl JoinedNames {
    /// The names in a file. Without sections there are none.
    pub(super) fn of(image: &ElfImage) -> Result<Self, BinaryError> {
        let end = image.content.size();
        if image.sections.is_empty() {
            return Ok(Self { bytes: Vec::new(), fatbin: 0, old_marker: 0, end, is_joined: false });
        }
        let nameless = || BinaryError::unsupported("its sections have no names");
        let table = image.sections.get(image.names_index).filter(|it| !it.is_nobits() && !it.is_null() && it.size > 0);
        let table = table.ok_or_else(nameless)?;
        let mut bytes = vec![0; usize::try_from(table.size).map_err(|_| nameless())?];
        image.content.read_at(table.offset, &mut bytes)?;
        if bytes.last() != Some(&0) {
            return Err(BinaryError::malformed("its section names do not end"));
        }
        // The names of an earlier join follow each other.
        let added = [FATBIN, b"\0", OLD_MARKER, b"\0"].concat();
        let known = memmem::find(&bytes, &[b"\0", added.as_slice()].concat()).map(|before| before + 1);
        let fatbin = known.unwrap_or(bytes.len());
        if known.is_none() {
            bytes.extend(added);
        }
        let old_marker = u32::try_from(fatbin + FATBIN.len() + 1).map_err(|_| nameless())?;
        let fatbin = u32::try_from(fatbin).map_err(|_| nameless())?;
        let is_joined = known.is_some() && is_end(image, table.offset, table.end());
        let end = if is_joined { table.offset } else { end };
        Ok(Self { bytes, fatbin, old_marker, end, is_joined })
    }

    /// Its bytes as the end of a file, followed by these section headers; and the offset of the headers. `file` is the
    /// offset of the names.
    pub(super) fn with_headers(self, headers: &[u8], file: u64) -> (Vec<u8>, u64) {
        let mut bytes = self.bytes;
        let place = (file + bytes.len() as u64).next_multiple_of(8);
        bytes.resize(to_usize(place - file), 0);
        bytes.extend(headers);
        (bytes, place)
    }
}

/// Whether a file was joined before.
pub(super) fn was_joined(image: &ElfImage) -> bool {
    JoinedNames::of(image).is_ok_and(|names| names.is_joined)
}

/// Whether nothing but the section headers follows the names in the file.
fn is_end(image: &ElfImage, names: u64, end: u64) -> bool {
    let headers = image.header.e_shoff.get(LE);
    let count = image.sections.len() as u64;
    let is_before = |end: u64| end <= names;
    let of_sections =
        image.sections.iter().enumerate().filter(|(index, it)| *index != image.names_index && !it.is_null());
    headers == end.next_multiple_of(8)
        && headers.checked_add(count * size_of::<SectionHeader64<LE>>() as u64) == Some(image.content.size())
        && of_sections.filter(|(_, section)| !section.is_nobits()).all(|(_, section)| is_before(section.end()))
        && image.segments.iter().all(|segment| is_before(segment.end()))
}
