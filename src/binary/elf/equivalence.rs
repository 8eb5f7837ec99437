//! Compares a binary with its rewritten form: everything but the device code has to be there, at the same address.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64, Rela64};

use super::image::{ElfImage, ElfSection, ElfSegment};
use super::relocation::PointerEncoding;
use super::sections::WRAPPERS;
use super::{FatElf, loader_fields, symbols};
use crate::binary::BinaryError;
use crate::binary::ranges::{STEP, differ, without};
use crate::binary::wrapper::FATBIN_WRAPPER_SIZE;
use crate::rope::Content;

/// Bytes of the file header.
const HEADER: u64 = 64;

impl FatElf {
    /// The first unnecessary difference between this file and `split`.
    pub(in crate::binary) fn first_difference(&self, split: &Arc<dyn Content>) -> Result<Option<String>, BinaryError> {
        let Some(other) = ElfImage::read(split)? else { return Ok(Some("it is no longer an ELF file".to_owned())) };
        let image = &self.image;
        if let Some(difference) = loader_fields::difference(image, &other, &self.addresses) {
            return Ok(Some(difference));
        }
        let patched = self.patched()?;
        for (_, load) in image.loads() {
            for range in without(load.offset..load.end(), &patched) {
                if let Some(at) = self.compare_memory(&other, &range)? {
                    return Ok(Some(format!("the byte at address {at:#x} has changed")));
                }
            }
            let end = load.address.saturating_add(load.memory_size);
            let is_mapped = |address: u64| {
                other
                    .loads()
                    .any(|(_, load)| address.checked_sub(load.address).is_some_and(|inside| inside < load.memory_size))
            };
            if load.memory_size > load.file_size && !is_mapped(end - 1) {
                return Ok(Some(format!("the memory at {:#x} is missing", end - 1)));
            }
        }
        if let Some(number) = self.compare_segments(&other, &patched)? {
            return Ok(Some(format!("program header {number}, which is not loaded, has become another")));
        }
        self.compare_unloaded(&other, &patched)
    }

    /// Compares what program headers describe outside of loaded segments. It may follow the section names, which become
    /// longer. Returns the number of the first one that is missing.
    fn compare_segments(&self, other: &ElfImage, patched: &BTreeMap<u64, u64>) -> Result<Option<usize>, BinaryError> {
        let mut counterparts = other.segments.iter().filter(|segment| is_unloaded(other, segment));
        for (number, segment) in self.image.segments.iter().enumerate() {
            if !is_unloaded(&self.image, segment) {
                continue;
            }
            let Some(counterpart) = counterparts
                .find(|counterpart| counterpart.kind == segment.kind && counterpart.file_size == segment.file_size)
            else {
                return Ok(Some(number));
            };
            for range in without(segment.offset..segment.end(), patched) {
                let at = counterpart.offset.saturating_add(range.start - segment.offset);
                if differ(&self.image.content, range.start, &other.content, at, range.end - range.start)?.is_some() {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Ranges of this file that may change, by their start.
    fn patched(&self) -> Result<BTreeMap<u64, u64>, BinaryError> {
        let header = &self.image.header;
        let table = header.e_phoff.get(LE);
        let table_size = self.image.segments.len() as u64 * size_of::<ProgramHeader64<LE>>() as u64;
        let mut ranges = vec![0..HEADER, table..table.saturating_add(table_size), self.device.offsets.clone()];
        for wrapper in &self.wrappers {
            ranges.push(wrapper.offset..wrapper.offset + FATBIN_WRAPPER_SIZE);
            if let PointerEncoding::Addend { entry } = wrapper.encoding {
                ranges.push(entry..entry + size_of::<Rela64<LE>>() as u64);
            }
        }
        // patchelf loads the section names and headers, too.
        let names = self.image.sections.get(self.image.names_index);
        ranges.extend(names.map(|names| names.offset..names.end()));
        ranges.push(self.image.section_headers());
        // Splitters move symbols of the device code, or leave them.
        for table in self.section.into_iter().flat_map(|section| symbols::tables(&self.image, section, 0, 0, &[])) {
            ranges.extend(table.values(&self.image.content)?);
        }
        let mut patched = BTreeMap::new();
        for range in ranges {
            let end = patched.entry(range.start).or_insert(range.end);
            *end = range.end.max(*end);
        }
        Ok(patched)
    }

    /// Compares a range of this file with what the other file loads at the same addresses.
    fn compare_memory(&self, other: &ElfImage, range: &Range<u64>) -> Result<Option<u64>, BinaryError> {
        let mut at = range.start;
        while at < range.end {
            let Some(address) = self.image.address_of(at) else { return Ok(None) };
            let length = STEP.min(range.end - at);
            let (offset, length) = match (other.offset_of(address, length), other.loaded_from(address)) {
                (Some(offset), _) => (offset, length),
                // The other file may split the segment here. Then compare up to the end of its piece.
                (None, Some(rest)) => {
                    let length = rest.min(range.end - at);
                    (other.offset_of(address, length).unwrap_or(u64::MAX), length)
                }
                (None, None) => return Ok(Some(address)),
            };
            if let Some(difference) = differ(&self.image.content, at, &other.content, offset, length)? {
                return Ok(Some(address + difference));
            }
            at += length;
        }
        Ok(None)
    }

    /// Compares sections that are not loaded, such as symbols and debug information.
    fn compare_unloaded(&self, other: &ElfImage, patched: &BTreeMap<u64, u64>) -> Result<Option<String>, BinaryError> {
        let names = self.image.names_index;
        let mut others: BTreeMap<&[u8], Vec<&ElfSection>> = BTreeMap::new();
        let is_unloaded = |section: &&ElfSection| !section.is_null() && !section.is_allocated() && !section.is_nobits();
        // In reverse, so that the first of several sections with one name wins.
        for section in other.sections.iter().rev().filter(is_unloaded) {
            others.entry(&section.name).or_default().push(section);
        }
        for (index, section) in self.image.sections.iter().enumerate() {
            let name = String::from_utf8_lossy(&section.name);
            if !is_unloaded(&section) || index == names {
                continue;
            }
            let Some(counterpart) = others.get_mut(section.name.as_slice()).and_then(Vec::pop) else {
                return Ok(Some(format!("section {name} is gone")));
            };
            let mut same = counterpart.size == section.size;
            for Range { start, end } in without(section.offset..section.end(), patched) {
                let at = counterpart.offset.saturating_add(start - section.offset);
                same = same && differ(&self.image.content, start, &other.content, at, end - start)?.is_none();
            }
            if !same && section.name != WRAPPERS {
                return Ok(Some(format!("section {name} has changed")));
            }
        }
        Ok(None)
    }
}

/// Whether a program header describes bytes outside of all loaded segments. `PT_GNU_RELRO` describes addresses only.
fn is_unloaded(image: &ElfImage, segment: &ElfSegment) -> bool {
    let is_apart = |load: &ElfSegment| segment.end() <= load.offset || load.end() <= segment.offset;
    let tells = !matches!(segment.kind, elf::PT_NULL | elf::PT_PHDR | elf::PT_LOAD | elf::PT_GNU_RELRO);
    tells
        && segment.file_size > 0
        && segment.end() <= image.content.size()
        && image.loads().all(|(_, load)| is_apart(load))
}
