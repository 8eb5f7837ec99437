//! The rewritten file as a rope over the original.

use std::collections::HashMap;

use memchr::memmem;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionFlags, SectionHeader64};
use object::pod::bytes_of;
use object::{LittleEndian as LE, U16, U32, U64};

use super::FatElf;
use super::image::{ElfImage, ElfSection, ElfSegment, encode_sections, encode_segments, read_table};
use super::layout::{ElfLayout, unit_of_move};
use super::{joined_names, symbols};
use crate::binary::BinaryError;
use crate::binary::changes::{Patch, PatchPiece};
use crate::binary::form::CodeForm;
use crate::fatbin::CODE_ALIGNMENT;

/// The section that replaces `.hip_fatbin`.
const MARKER: &[u8] = b".rocm_kpack_ref\0";

/// The new section name table.
struct SectionNames {
    change: Option<Patch>,
    /// The new name offset of each section, if the names have been packed again.
    packed: Vec<u32>,
    /// Offset of the table in the new file.
    offset: u64,
    size: u64,
    /// Offset of the marker's name in the table.
    marker: u32,
}

impl FatElf {
    /// The changes that replace the device code with a form.
    pub(in crate::binary) fn changes(&self, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        let mut layout = ElfLayout::plan(&self.image, &self.device, self.kept_size(form)?)?;
        let mut changes = self.point_wrappers(form)?;
        let mut header = self.file_header(&layout)?;
        if let Some(section) = self.section {
            let names = if form.is_thin() { None } else { Some(self.add_name(section, &mut layout)?) };
            let offset = self.image.header.e_shoff.get(LE);
            header.e_shoff = U64::new(LE, layout.moved(offset));
            let headers = self.section_headers(section, &layout, names.as_ref(), form.size);
            changes.push(Patch::overwrite(offset, headers));
            let moves = form.moves(self.device.offsets.start);
            // A join leaves the marker's symbols where they are. So does another split.
            let (start, length) = (self.addresses.start, self.addresses.end - self.addresses.start);
            let length = if form.is_thin() { u64::MAX } else { length };
            let tables = symbols::tables(&self.image, section, start, length, &moves);
            changes.extend(tables.into_iter().map(Patch::symbols));
            changes.extend(names.and_then(|names| names.change));
        } else {
            // Without section headers, their offset would be wrong in the new file.
            header.e_shoff = U64::new(LE, 0);
            header.e_shnum = U16::new(LE, 0);
            header.e_shstrndx = U16::new(LE, elf::SHN_UNDEF);
        }
        header.e_phoff = U64::new(LE, layout.moved(layout.table));
        changes.push(Patch::overwrite(0, bytes_of(&header)));
        changes.extend(self.patch_program_headers(&layout)?);
        changes.extend(self.replace_device_code(&layout, form)?);
        Ok(changes)
    }

    /// Bytes of the device code that stay in the file. If a join has filled the file up to the next segment, whole units
    /// are removed, as if the device code had a tail; so the next join fills the same bytes.
    fn kept_size(&self, form: &CodeForm) -> Result<u64, BinaryError> {
        let (device, load) = (&self.device.offsets, self.image.segment(self.device.load)?);
        let is_next = |(_, other): &(usize, &ElfSegment)| other.offset == load.end() && other.address > load.address;
        let is_filled = load.end() == device.end && self.image.loads().any(|next| is_next(&next));
        if form.is_thin() || !is_filled || !joined_names::was_joined(&self.image) {
            return Ok(form.size);
        }
        let unit = self.image.loads().map(|(_, load)| load.alignment).max().unwrap_or(1).max(CODE_ALIGNMENT);
        let length = device.end - device.start;
        Ok(length - length.saturating_sub(form.size) / unit * unit)
    }

    /// Points each wrapper to its place in the form.
    fn point_wrappers(&self, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        let mut changes = Vec::new();
        for (index, wrapper) in self.wrappers.iter().enumerate() {
            let address = self.addresses.start.wrapping_add(form.place(wrapper.bundle)?);
            changes.push(Patch::overwrite(wrapper.offset, form.wrapper(index, address)));
            changes.extend(wrapper.encoding.lead_to(address, &self.image)?);
        }
        Ok(changes)
    }

    /// The form, possibly the program header table, zeros, and the removal of the rest.
    fn replace_device_code(&self, layout: &ElfLayout, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        let device = &self.device.offsets;
        let too_small = || BinaryError::unsupported("its device code is too small");
        let mut behind = Vec::new();
        let mut at = device.start + form.size;
        if layout.table_moved {
            let table = encode_segments(&layout.segments);
            behind.push(PatchPiece::Zeros(layout.table.checked_sub(at).ok_or_else(too_small)?));
            at = layout.table + table.len() as u64;
            behind.push(PatchPiece::literal(table));
        }
        let (end, cut_end) =
            if layout.cut.is_empty() { (device.end, device.end) } else { (layout.cut.start, layout.cut.end) };
        behind.push(PatchPiece::Zeros(end.checked_sub(at).ok_or_else(too_small)?));
        let mut changes = form.replace(behind, device.start..cut_end);
        if !layout.cut.is_empty() {
            let replacement = vec![PatchPiece::Zeros(device.end - layout.cut.end)];
            changes.push(Patch { start: layout.cut.end, end: device.end, replacement });
            let gap = &layout.gap;
            let replacement = vec![PatchPiece::Zeros(gap.zeros)];
            changes.push(Patch { start: gap.offsets.start, end: gap.offsets.end, replacement });
        }
        Ok(changes)
    }

    /// Adds the marker's name to the section names. No section is added: `.hip_fatbin` becomes the marker, so that
    /// section indices stay and allocated sections precede all others. The names do not move into the device code
    /// either: llvm-strip and llvm-objcopy confuse them when a segment loads them.
    fn add_name(&self, device: usize, layout: &mut ElfLayout) -> Result<SectionNames, BinaryError> {
        let image = &self.image;
        let table = image.sections.get(image.names_index).filter(|table| !table.is_nobits() && !table.is_null());
        let table = table.ok_or_else(|| BinaryError::unsupported("its sections have no names"))?;
        // Bytes after an unterminated name would become part of it.
        let is_inside = |it: &ElfSection| u64::from(it.header.sh_name.get(LE)) + (it.name.len() as u64) < table.size;
        if !image.sections.iter().all(|section| section.is_null() || is_inside(section)) {
            return Err(BinaryError::malformed("the name of a section does not end among the section names"));
        }
        let marker = u32::try_from(table.size).map_err(|_| BinaryError::malformed("too many section names"))?;
        let size = table.size + MARKER.len() as u64;
        let end = table.end();
        // A file that was joined has the name from an earlier split.
        if let Some(marker) = known_name(image, table)? {
            let (offset, size, packed) = (layout.moved(table.offset), table.size, Vec::new());
            return Ok(SectionNames { change: None, packed, offset, size, marker });
        }
        let last_load = image.loads().map(|(_, load)| load.end()).max().unwrap_or(0);
        if layout.cut.is_empty() {
            // If the file does not become shorter, it should not become longer either.
            if let Some((bytes, packed)) = pack_names(image, device) {
                let (offset, size) = (layout.moved(table.offset), bytes.len() as u64);
                let change = Some(Patch::overwrite(table.offset, bytes));
                return Ok(SectionNames { change, packed, offset, size, marker });
            }
        }
        let packed = Vec::new();
        if table.offset >= last_load {
            let behind = image.sections.iter().filter(|section| section.offset >= end && !section.is_null());
            let alignment =
                behind.map(|section| section.header.sh_addralign.get(LE)).max().unwrap_or(1).clamp(16, 4096);
            let growth = (MARKER.len() as u64).next_multiple_of(unit_of_move(image, end, alignment));
            let replacement = vec![PatchPiece::literal(MARKER), PatchPiece::Zeros(growth - MARKER.len() as u64)];
            let change = Some(Patch { start: end, end, replacement });
            let offset = layout.moved(table.offset);
            layout.add(end, growth);
            return Ok(SectionNames { change, packed, offset, size, marker });
        }
        // patchelf puts a segment after the section names. Then a longer copy goes to the end of the file.
        let file = image.content.size();
        let old = PatchPiece::Original { offset: table.offset, length: table.size };
        let change = Some(Patch { start: file, end: file, replacement: vec![old, PatchPiece::literal(MARKER)] });
        Ok(SectionNames { change, packed, offset: layout.moved(file), size, marker })
    }

    fn file_header(&self, layout: &ElfLayout) -> Result<FileHeader64<LE>, BinaryError> {
        let mut header = self.image.header;
        let count = u16::try_from(layout.segments.len()).ok().filter(|&count| count < elf::PN_XNUM);
        header.e_phnum = U16::new(LE, count.ok_or_else(|| BinaryError::unsupported("too many program headers"))?);
        Ok(header)
    }

    fn patch_program_headers(&self, layout: &ElfLayout) -> Result<Option<Patch>, BinaryError> {
        if layout.table_moved {
            return Ok(None);
        }
        let mut table = encode_segments(&layout.segments);
        // A removed entry must not remain after the table.
        let old = self.image.segments.len() * size_of::<ProgramHeader64<LE>>();
        if table.len() > old {
            return Err(BinaryError::unsupported("there is no place for one more program header"));
        }
        table.resize(old, 0);
        Ok(Some(Patch::overwrite(layout.table, table)))
    }

    /// The section headers. With a marker, they have new section names.
    fn section_headers(&self, device: usize, layout: &ElfLayout, names: Option<&SectionNames>, size: u64) -> Vec<u8> {
        let mut sections = self.image.sections.clone();
        for (index, section) in sections.iter_mut().enumerate() {
            if index == device {
                match names {
                    Some(names) => become_marker(section, names.marker, size),
                    None => section.header.sh_size = U64::new(LE, size),
                }
            } else if let Some(names) = names.filter(|_| index == self.image.names_index) {
                section.header.sh_offset = U64::new(LE, names.offset);
                section.header.sh_size = U64::new(LE, names.size);
            } else if !section.is_null() || (index > 0 && index == self.image.names_index) {
                // Names are looked up in this table whatever its type is.
                let is_padding = section.is_nobits() && index != self.image.names_index;
                let of_padding = if is_padding { layout.offset_of(section.address) } else { None };
                let offset = of_padding.unwrap_or_else(|| layout.moved(section.offset));
                section.header.sh_offset = U64::new(LE, offset);
            }
            if let Some(&name) = names.and_then(|names| names.packed.get(index)) {
                section.header.sh_name = U32::new(LE, name);
            }
        }
        encode_sections(&sections)
    }
}

/// The offset of the marker's name in the section names, if it is there.
fn known_name(image: &ElfImage, names: &ElfSection) -> Result<Option<u32>, BinaryError> {
    let bytes = read_table(&image.content, names.offset, names.size)?;
    let found = memmem::find(&bytes, &[b"\0", MARKER].concat());
    Ok(found.and_then(|before| u32::try_from(before + 1).ok()))
}

/// The section name table with the marker's name instead of that of section `device`, and each section's name offset. A
/// name that is the end of another one shares its bytes, which many linkers do not do. `None` if the table does not fit
/// into the old one's place, or if something else uses the old one.
fn pack_names(image: &ElfImage, device: usize) -> Option<(Vec<u8>, Vec<u32>)> {
    let table = image.sections.get(image.names_index)?;
    let is_shared = image.sections.iter().any(|section| section.header.sh_link.get(LE) as usize == image.names_index);
    if is_shared || image.is_loaded(table) {
        return None;
    }
    let marker = MARKER.strip_suffix(b"\0")?;
    let name =
        |(index, section): (usize, &ElfSection)| if index == device { marker.to_vec() } else { section.name.clone() };
    let names: Vec<_> = image.sections.iter().enumerate().map(name).collect();
    let mut longest_first: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    longest_first.sort_by(|a, b| b.iter().rev().cmp(a.iter().rev()));
    let mut bytes = vec![0];
    let mut positions = HashMap::from([(&[][..], 0)]);
    let mut last: (&[u8], u32) = (&[], 0);
    for name in longest_first {
        if name.is_empty() {
            continue;
        }
        if !last.0.ends_with(name) {
            last = (name, u32::try_from(bytes.len()).ok()?);
            bytes.extend(name);
            bytes.push(0);
        }
        positions.insert(name, last.1 + u32::try_from(last.0.len() - name.len()).ok()?);
    }
    let positions = names.iter().map(|name| positions.get(name.as_slice()).copied()).collect::<Option<_>>()?;
    (bytes.len() as u64 <= table.size).then_some((bytes, positions))
}

fn become_marker(section: &mut ElfSection, name: u32, size: u64) {
    let flags = SectionFlags(section.flags().0 & (elf::SHF_ALLOC.0 | elf::SHF_WRITE.0));
    section.header = SectionHeader64 {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, elf::SHT_PROGBITS),
        sh_flags: U64::new(LE, flags),
        sh_size: U64::new(LE, size),
        sh_addralign: U64::new(LE, 1),
        sh_entsize: U64::new(LE, 0),
        ..section.header
    };
}
