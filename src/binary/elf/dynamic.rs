//! The dynamic section, as loaders read it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{self, Dyn64, DynamicTag};

use super::image::{ElfImage, ElfSegment, read_table};
use crate::binary::BinaryError;
use crate::rope::Content;

/// The values of the dynamic section, by tag.
#[derive(Debug, Default)]
pub(super) struct Dynamic {
    values: HashMap<i64, u64>,
    /// The addresses of the section in memory.
    pub(super) addresses: Range<u64>,
}

/// Tags whose value is an address at which loaders read or start to execute.
pub(super) const ADDRESSES: [DynamicTag; 13] = [
    elf::DT_FINI,
    elf::DT_FINI_ARRAY,
    elf::DT_GNU_HASH,
    elf::DT_HASH,
    elf::DT_INIT,
    elf::DT_INIT_ARRAY,
    elf::DT_PLTGOT,
    elf::DT_PREINIT_ARRAY,
    elf::DT_STRTAB,
    elf::DT_SYMTAB,
    elf::DT_VERDEF,
    elf::DT_VERNEED,
    elf::DT_VERSYM,
];

impl Dynamic {
    /// Reads the section. A file without one has no values.
    pub(super) fn read(image: &ElfImage) -> Result<Self, BinaryError> {
        let mut segments = image.segments.iter().filter(|segment| segment.kind == elf::PT_DYNAMIC);
        let Some(segment) = segments.next() else { return Ok(Self::default()) };
        if segments.next().is_some() {
            return Err(BinaryError::unsupported("it has two dynamic segments"));
        }
        // The loader reads it from memory, so its address has to match its offset.
        if image.offset_of(segment.address, segment.file_size) != Some(segment.offset) {
            return Err(BinaryError::malformed("its dynamic segment is not loaded"));
        }
        if image.is_in_headers(segment.offset, segment.file_size) {
            return Err(BinaryError::malformed("its headers are in the dynamic segment"));
        }
        // Loaders take the last one (glibc's `elf_get_dynamic_info`).
        let values =
            entries(&image.content, segment, 1 << 16)?.into_iter().map(|(tag, value)| (tag.0, value)).collect();
        let dynamic = Self { values, addresses: segment.address..segment.address.saturating_add(segment.file_size) };
        // Addends in place, or packed tables. No toolchain for HIP binaries writes them on 64-bit machines.
        if dynamic.get(elf::DT_RELSZ).is_some_and(|size| size > 0)
            || dynamic.get(ANDROID_RELA).is_some()
            || (dynamic.get(elf::DT_PLTREL).is_some_and(|kind| kind != elf::DT_RELA.0.unsigned_abs()))
        {
            return Err(BinaryError::unsupported("it has relocations without addends"));
        }
        Ok(dynamic)
    }

    pub(super) fn get(&self, tag: DynamicTag) -> Option<u64> {
        self.values.get(&tag.0).copied()
    }

    /// Address and size of a table.
    pub(super) fn table(&self, address: DynamicTag, size: DynamicTag) -> Result<Option<Range<u64>>, BinaryError> {
        match (self.get(address), self.get(size)) {
            (Some(start), Some(size)) => {
                let end = start.checked_add(size);
                Ok(Some(start..end.ok_or_else(|| BinaryError::malformed("a relocation table is too long"))?))
            }
            _ => Ok(None),
        }
    }

    /// The tables of relocations with addends. The PLT's table may be a part of the other one.
    pub(super) fn rela_tables(&self) -> Result<Vec<Range<u64>>, BinaryError> {
        let all = self.table(elf::DT_RELA, elf::DT_RELASZ)?;
        let plt = self.table(elf::DT_JMPREL, elf::DT_PLTRELSZ)?;
        let plt = plt.filter(|plt| !all.as_ref().is_some_and(|all| all.contains(&plt.start)));
        Ok(all.into_iter().chain(plt).collect())
    }
}

/// The tags and values of a dynamic section up to `DT_NULL`, at most so many.
pub(super) fn entries(
    content: &Arc<dyn Content>,
    segment: &ElfSegment,
    most: u64,
) -> Result<Vec<(DynamicTag, u64)>, BinaryError> {
    let count = segment.file_size / size_of::<Dyn64<LE>>() as u64;
    let table = read_table::<Dyn64<LE>>(content, segment.offset, count.min(most))?;
    let entries = table.iter().map(|entry| (entry.d_tag.get(LE), entry.d_val.get(LE)));
    Ok(entries.take_while(|(tag, _)| *tag != elf::DT_NULL).collect())
}

/// `DT_ANDROID_RELA`: relocations in Android's packed form.
const ANDROID_RELA: DynamicTag = DynamicTag(0x6000_0011);

/// The address of the symbol table that the loader uses.
pub(super) fn symbol_table(image: &ElfImage) -> Option<u64> {
    Dynamic::read(image).ok()?.get(elf::DT_SYMTAB)
}
