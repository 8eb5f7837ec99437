//! The rewritten file as a rope over the original.

use std::collections::HashMap;

use object::elf::{self, FileHeader64, ProgramHeader64, Rela64, SectionFlags, SectionHeader64};
use object::pod::bytes_of;
use object::{I64, LittleEndian as LE, U16, U32, U64};

use super::FatElf;
use super::image::{Image, Section, encode_sections, encode_segments, read_pod};
use super::layout::Layout;
use super::relocation::{Carrier, Machine};
use super::symbols;
use crate::binary::changes::{Change, Piece};
use crate::binary::{BinaryError, HIPK_MAGIC};

/// The section that replaces `.hip_fatbin`.
const MARKER: &[u8] = b".rocm_kpack_ref\0";

/// What is added to the section names, and where.
struct Names {
    change: Change,
    /// The name of each section, if they have been packed anew.
    packed: Vec<u32>,
    /// Where the table begins in the new file.
    offset: u64,
    size: u64,
    /// Offset of the marker's name in the table.
    marker: u32,
}

impl FatElf {
    /// The changes after which the file has no device code. `marker` is what all wrappers point at then.
    pub(in crate::binary) fn changes(&self, marker: &[u8]) -> Result<Vec<Change>, BinaryError> {
        let mut layout = Layout::plan(&self.image, &self.device, marker.len() as u64)?;
        let mut changes = self.point_wrappers()?;
        let mut header = self.file_header(&layout)?;
        if let Some(section) = self.section {
            let names = self.add_name(section, &mut layout)?;
            let offset = self.image.header.e_shoff.get(LE);
            header.e_shoff = U64::new(LE, layout.moved(offset));
            changes.push(Change::patch(offset, self.section_headers(section, &layout, &names, marker)));
            changes.extend(symbols::replace(&self.image, section, self.addresses.start));
            changes.push(names.change);
        } else {
            // What is said of section headers that are not there would lead anywhere in the new file.
            header.e_shoff = U64::new(LE, 0);
            header.e_shnum = U16::new(LE, 0);
            header.e_shstrndx = U16::new(LE, elf::SHN_UNDEF);
        }
        header.e_phoff = U64::new(LE, layout.moved(layout.table));
        changes.push(Change::patch(0, bytes_of(&header)));
        changes.extend(self.patch_program_headers(&layout)?);
        changes.extend(self.replace_device_code(&layout, marker)?);
        Ok(changes)
    }

    /// Each wrapper: magic HIPK, the marker's address, and the wrapper's index in the field that was unused.
    fn point_wrappers(&self) -> Result<Vec<Change>, BinaryError> {
        let marker = self.addresses.start;
        let machine = Machine::of(&self.image).ok_or_else(|| BinaryError::unsupported("unknown machine"))?;
        let mut changes = Vec::new();
        for (index, wrapper) in self.wrappers.iter().enumerate() {
            let mut bytes = Vec::with_capacity(24);
            bytes.extend(HIPK_MAGIC.to_le_bytes());
            bytes.extend(1_u32.to_le_bytes());
            bytes.extend(marker.to_le_bytes());
            bytes.extend((index as u64).to_le_bytes());
            changes.push(Change::patch(wrapper.offset, bytes));
            if let Carrier::Addend { entry } = wrapper.carrier {
                let old: Rela64<LE> = read_pod(&self.image.content, entry)?;
                let new = Rela64 {
                    r_offset: old.r_offset,
                    r_info: U64::new(LE, machine.relative.into()),
                    r_addend: I64::new(LE, marker.cast_signed()),
                };
                changes.push(Change::patch(entry, bytes_of(&new)));
            }
        }
        Ok(changes)
    }

    /// The marker, perhaps the program header table, zeros, and the cut.
    fn replace_device_code(&self, layout: &Layout, marker: &[u8]) -> Result<Vec<Change>, BinaryError> {
        let device = &self.device.offsets;
        let mut front = marker.to_vec();
        if layout.table_moved {
            let at = usize::try_from(layout.table - device.start)
                .map_err(|_| BinaryError::unsupported("its marker is too long"))?;
            front.resize(at, 0);
            front.extend(encode_segments(&layout.segments));
        }
        let end = if layout.cut.is_empty() { device.end } else { layout.cut.start };
        let padding = (end - device.start).checked_sub(front.len() as u64);
        let padding = padding.ok_or_else(|| BinaryError::unsupported("its device code is too small"))?;
        let replacement = vec![Piece::literal(front), Piece::Zeros(padding)];
        let mut changes = vec![Change { start: device.start, end, replacement }];
        if !layout.cut.is_empty() {
            changes.push(Change::cut(layout.cut.start, layout.cut.end));
            let replacement = vec![Piece::Zeros(device.end - layout.cut.end)];
            changes.push(Change { start: layout.cut.end, end: device.end, replacement });
            let gap = &layout.gap;
            let replacement = vec![Piece::Zeros(gap.zeros)];
            changes.push(Change { start: gap.offsets.start, end: gap.offsets.end, replacement });
        }
        Ok(changes)
    }

    /// Adds the marker's name to the section names. No section is added: `.hip_fatbin` becomes the marker, so no
    /// section index changes and allocated sections stay in front of the others. Neither do the names move into the
    /// device code: llvm-strip and llvm-objcopy mix them up when a segment loads them.
    fn add_name(&self, device: usize, layout: &mut Layout) -> Result<Names, BinaryError> {
        let image = &self.image;
        let table = image.sections.get(image.names_index).filter(|table| !table.is_nobits() && !table.is_null());
        let table = table.ok_or_else(|| BinaryError::unsupported("its sections have no names"))?;
        // What is put behind the names would become part of these.
        let is_inside = |it: &Section| u64::from(it.header.sh_name.get(LE)) + (it.name.len() as u64) < table.size;
        if !image.sections.iter().all(|section| section.is_null() || is_inside(section)) {
            return Err(BinaryError::malformed("the name of a section does not end among the section names"));
        }
        let marker = u32::try_from(table.size).map_err(|_| BinaryError::malformed("too many section names"))?;
        let size = table.size + MARKER.len() as u64;
        let end = table.end();
        let last_load = image.loads().map(|(_, load)| load.end()).max().unwrap_or(0);
        if layout.cut.is_empty() {
            // A file that does not get shorter need not get longer either.
            if let Some((bytes, packed)) = pack_names(image, device) {
                let (offset, size) = (layout.moved(table.offset), bytes.len() as u64);
                let change = Change::patch(table.offset, bytes);
                return Ok(Names { change, packed, offset, size, marker });
            }
        }
        let packed = Vec::new();
        if table.offset >= last_load {
            let behind = image.sections.iter().filter(|section| section.offset >= end && !section.is_null());
            let alignment =
                behind.map(|section| section.header.sh_addralign.get(LE)).max().unwrap_or(1).clamp(16, 4096);
            let growth = (MARKER.len() as u64).next_multiple_of(alignment);
            let replacement = vec![Piece::literal(MARKER), Piece::Zeros(growth - MARKER.len() as u64)];
            let change = Change { start: end, end, replacement };
            let offset = layout.moved(table.offset);
            layout.add(end, growth);
            return Ok(Names { change, packed, offset, size, marker });
        }
        // patchelf puts a segment behind the section names: then a longer copy goes to the end of the file.
        let file = image.content.size();
        let old = Piece::Original { offset: table.offset, length: table.size };
        let change = Change { start: file, end: file, replacement: vec![old, Piece::literal(MARKER)] };
        Ok(Names { change, packed, offset: layout.moved(file), size, marker })
    }

    fn file_header(&self, layout: &Layout) -> Result<FileHeader64<LE>, BinaryError> {
        let mut header = self.image.header;
        let count = u16::try_from(layout.segments.len()).ok().filter(|&count| count < elf::PN_XNUM);
        header.e_phnum = U16::new(LE, count.ok_or_else(|| BinaryError::unsupported("too many program headers"))?);
        Ok(header)
    }

    fn patch_program_headers(&self, layout: &Layout) -> Result<Option<Change>, BinaryError> {
        if layout.table_moved {
            return Ok(None);
        }
        let mut table = encode_segments(&layout.segments);
        // An entry that was left out must not stay behind the table.
        let old = self.image.segments.len() * size_of::<ProgramHeader64<LE>>();
        if table.len() > old {
            return Err(BinaryError::unsupported("there is no place for one more program header"));
        }
        table.resize(old, 0);
        Ok(Some(Change::patch(layout.table, table)))
    }

    fn section_headers(&self, device: usize, layout: &Layout, names: &Names, marker: &[u8]) -> Vec<u8> {
        let mut sections = self.image.sections.clone();
        for (index, section) in sections.iter_mut().enumerate() {
            if index == device {
                become_marker(section, names.marker, marker.len() as u64);
            } else if index == self.image.names_index {
                section.header.sh_offset = U64::new(LE, names.offset);
                section.header.sh_size = U64::new(LE, names.size);
            } else if !section.is_null() {
                let of_padding = if section.is_nobits() { layout.offset_of(section.address) } else { None };
                let offset = of_padding.unwrap_or_else(|| layout.moved(section.offset));
                section.header.sh_offset = U64::new(LE, offset);
            }
            if let Some(&name) = names.packed.get(index) {
                section.header.sh_name = U32::new(LE, name);
            }
        }
        encode_sections(&sections)
    }
}

/// The table of section names with the marker's name instead of that of section `device`, and the position of each
/// section's name in it. A name that another one ends with shares its bytes, which many linkers don't bother to do.
/// `None` if it does not fit into the old table's place, or if something else uses the table.
fn pack_names(image: &Image, device: usize) -> Option<(Vec<u8>, Vec<u32>)> {
    let table = image.sections.get(image.names_index)?;
    let is_shared = image.sections.iter().any(|section| section.header.sh_link.get(LE) as usize == image.names_index);
    if is_shared || image.is_loaded(table) {
        return None;
    }
    let marker = MARKER.strip_suffix(b"\0")?;
    let name =
        |(index, section): (usize, &Section)| if index == device { marker.to_vec() } else { section.name.clone() };
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

fn become_marker(section: &mut Section, name: u32, size: u64) {
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
