//! Device code of programs and libraries for 32-bit or big-endian hosts, which are not split.

use std::sync::Arc;

use memchr::memmem;
use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};

use super::image::{MAX_NAMES, read_table};
use super::sections::WRAPPERS;
use crate::binary::error::{BinaryError, OTHER_MACHINE};
use crate::binary::pod::read_pod;
use crate::rope::Content;

/// Fails if a file is a program or a library of such a host with a section of wrappers. What is damaged is none.
pub(super) fn refuse(content: &Arc<dyn Content>) -> Result<(), BinaryError> {
    let has_wrappers = |names: Option<Vec<u8>>| names.is_some_and(|names| memmem::find(&names, WRAPPERS).is_some());
    let Ok(header) = read_pod::<FileHeader32<Endianness>>(content, 0) else { return Ok(()) };
    let elf::Ident { class, data, .. } = header.e_ident;
    let endian = if data == elf::ELFDATA2MSB { Endianness::Big } else { Endianness::Little };
    let names = match class {
        elf::ELFCLASS32 => names::<FileHeader32<Endianness>>(content, endian),
        _ if endian == Endianness::Big => names::<FileHeader64<Endianness>>(content, endian),
        _ => None,
    };
    if has_wrappers(names) { Err(BinaryError::unsupported(OTHER_MACHINE)) } else { Ok(()) }
}

/// The names of all sections.
fn names<Header: FileHeader<Endian = Endianness>>(content: &Arc<dyn Content>, endian: Endianness) -> Option<Vec<u8>> {
    let header: Header = read_pod(content, 0).ok()?;
    let is_loadable = matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN);
    let number = u64::from(header.e_shstrndx(endian).0);
    let at = number.checked_mul(u64::from(header.e_shentsize(endian)))?.checked_add(header.e_shoff(endian).into())?;
    let section: Header::SectionHeader = read_pod(content, at).ok().filter(|_| is_loadable)?;
    let size: u64 = section.sh_size(endian).into();
    read_table::<u8>(content, section.sh_offset(endian).into(), size.min(MAX_NAMES)).ok()
}

#[cfg(test)]
mod tests {
    use crate::binary::FatBinary;
    use crate::rope::testing::literal;

    /// A shared library with one section, which has the names (gABI, "ELF Header" and "Sections").
    fn library(is_64: bool, is_big: bool, names: &[u8]) -> Vec<u8> {
        let (word, header, section) = if is_64 { (8, 64, 64) } else { (4, 52, 40) };
        let ident = [b"\x7fELF".as_slice(), &[1 + u8::from(is_64), 1 + u8::from(is_big), 1], &[0; 9]].concat();
        let words = |count| std::iter::repeat_n((0, word), count);
        let of_header =
            [(3, 2), (0, 2), (1, 4)].into_iter().chain(words(2)).chain([(header, word), (0, 4), (header, 2)]);
        let of_header = of_header.chain([(0, 2), (0, 2), (section, 2), (1, 2), (0, 2)]);
        let place = [(header + section, word), (names.len() as u64, word)];
        let of_section =
            [(0, 4), (3, 4)].into_iter().chain(words(2)).chain(place).chain([(0, 4), (0, 4)]).chain(words(2));
        let fields = of_header.chain(of_section).flat_map(|(value, size): (u64, usize)| {
            let mut bytes = value.to_be_bytes()[8 - size..].to_vec();
            if !is_big {
                bytes.reverse();
            }
            bytes
        });
        ident.into_iter().chain(fields).chain(names.iter().copied()).collect()
    }

    #[test]
    fn code_for_other_hosts_is_refused() {
        for (is_64, is_big) in [(false, false), (false, true), (true, true)] {
            let scan = |names| FatBinary::scan(&literal(library(is_64, is_big, names)));
            let error = scan(b"\0.hip_fatbin\0.hipFatBinSegment\0").unwrap_err();
            assert_eq!(error.to_string(), super::OTHER_MACHINE, "{is_64} {is_big}");
            assert!(scan(b"\0.text\0.data\0").unwrap().is_none());
        }
    }
}
