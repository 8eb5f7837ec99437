//! Relocations: the values of pointers at run time, and everything that points into the device code.
//!
//! Linkers disagree on what a relocated pointer holds in the file. GNU ld writes the value. lld writes 0, and only the
//! relocation's addend has the value. So the value is taken from the relocation, never from the place.

use std::collections::HashMap;
use std::ops::Range;

use object::elf::{self, Rela64, Sym64};
use object::pod::{bytes_of, slice_from_bytes};
use object::{I64, LittleEndian as LE, U64};

use super::dynamic::{ADDRESSES, Dynamic};
use super::image::ElfImage;
use crate::binary::BinaryError;
use crate::binary::changes::Patch;
use crate::binary::error::OTHER_MACHINE;
use crate::binary::pod::read_pod;
use crate::binary::words::{WINDOW, WordWindow};
use crate::rope::to_usize;

/// Entries read at a time.
const CHUNK: u64 = 4096;

/// Where a pointer's value is stored, and so what has to be patched to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointerEncoding {
    /// In a relocation with an addend.
    Addend {
        /// File offset of the `Elf64_Rela`.
        entry: u64,
    },
    /// In the eight bytes in place: RELR, or an executable that is loaded at its linked address.
    InPlace,
}

impl PointerEncoding {
    /// The changes, in addition to the wrapper's, that make the pointer lead to an address.
    pub(super) fn lead_to(self, address: u64, image: &ElfImage) -> Result<Option<Patch>, BinaryError> {
        let Self::Addend { entry } = self else { return Ok(None) };
        let machine = Machine::of(image)?;
        let old: Rela64<LE> = read_pod(&image.content, entry)?;
        let new = Rela64 {
            r_offset: old.r_offset,
            r_info: U64::new(LE, machine.relative.into()),
            r_addend: I64::new(LE, address.cast_signed()),
        };
        Ok(Some(Patch::overwrite(entry, bytes_of(&new))))
    }
}

/// The value of one pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointer {
    /// Its value at run time, relative to the load base.
    pub(super) value: u64,
    /// Where it is stored.
    pub(super) encoding: PointerEncoding,
}

/// Relocation types of one machine, from its psABI.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// Base + addend.
    relative: u32,
    /// Symbol + addend, 64 bits.
    absolute: u32,
}

impl Machine {
    /// The relocation types of the file's machine.
    fn of(image: &ElfImage) -> Result<Self, BinaryError> {
        match image.header.e_machine.get(LE) {
            elf::EM_X86_64 => Ok(Self { relative: elf::R_X86_64_RELATIVE.0, absolute: elf::R_X86_64_64.0 }),
            elf::EM_AARCH64 => Ok(Self { relative: elf::R_AARCH64_RELATIVE.0, absolute: elf::R_AARCH64_ABS64.0 }),
            _ => Err(BinaryError::unsupported(OTHER_MACHINE)),
        }
    }
}

/// The values of the pointers at the addresses `slots`, in order. Fails if anything else in the file points into
/// `device`, or if a slot has an unknown relocation.
pub(super) fn resolve(image: &ElfImage, slots: &[u64], device: &Range<u64>) -> Result<Vec<Pointer>, BinaryError> {
    let walk = walk(image, slots, device)?;
    slots.iter().map(|slot| walk.pointer(*slot)).collect()
}

/// The value of each pointer, whatever else points to the same place.
pub(super) fn resolve_each(image: &ElfImage, slots: &[u64]) -> Vec<Result<Pointer, BinaryError>> {
    match walk(image, slots, &(0..0)) {
        Ok(walk) => slots.iter().map(|slot| walk.pointer(*slot)).collect(),
        Err(error) => slots.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// The value of each pointer at `slots`; `None` for a slot that is not a pointer.
pub(super) fn resolve_some(image: &ElfImage, slots: &[u64]) -> Result<Vec<Option<u64>>, BinaryError> {
    let walk = walk(image, slots, &(0..0))?;
    if let Some(Err(error)) = walk.found.values().find(|found| found.is_err()) {
        return Err(error.clone());
    }
    Ok(slots.iter().map(|slot| walk.pointer(*slot).ok().map(|pointer| pointer.value)).collect())
}

fn walk<'a>(image: &'a ElfImage, slots: &[u64], device: &'a Range<u64>) -> Result<Walk<'a>, BinaryError> {
    let machine = Machine::of(image)?;
    let (symbols, found, headers) = (HashMap::new(), HashMap::new(), image.header_addresses());
    let mut walk = Walk { image, machine, device, headers, symbols, slots: Slots::new(slots), found };
    let dynamic = Dynamic::read(image)?;
    walk.check_apart(&dynamic.addresses, "its dynamic section")?;
    let entry = (image.header.e_entry.get(LE) > 0).then(|| image.header.e_entry.get(LE));
    for address in ADDRESSES.into_iter().filter_map(|tag| dynamic.get(tag)).chain(entry) {
        walk.check_apart(&(address..address.saturating_add(1)), "something that its dynamic section describes")?;
    }
    walk.read_symbols(&dynamic)?;
    for table in dynamic.rela_tables()? {
        walk.each(table, |walk, rela: &Rela64<LE>, entry| walk.relocation(rela, entry))?;
    }
    if let Some(table) = dynamic.table(elf::DT_RELR, elf::DT_RELRSZ)? {
        walk.walk_relr(table)?;
    }
    Ok(walk)
}

struct Walk<'a> {
    image: &'a ElfImage,
    machine: Machine,
    device: &'a Range<u64>,
    /// Addresses of headers, ascending.
    headers: Vec<Range<u64>>,
    /// Values of dynamic symbols in the device code, by symbol number.
    symbols: HashMap<u32, u64>,
    /// Addresses of the wrappers' pointers.
    slots: Slots,
    /// The relocated value of each slot, or why it is not understood.
    found: HashMap<u64, Result<Pointer, BinaryError>>,
}

impl Walk<'_> {
    /// Reads the dynamic symbols in the device code. Only relocatable device code (-fgpu-rdc) has such symbols.
    fn read_symbols(&mut self, dynamic: &Dynamic) -> Result<(), BinaryError> {
        let Some(start) = dynamic.get(elf::DT_SYMTAB) else { return Ok(()) };
        let section = self.image.sections.iter().find(|section| section.address == start && section.is_allocated());
        // Without section headers, the string table marks the end of the symbol table, as in every linker's layout.
        // patchelf moves the string table to another segment.
        let loaded = self.image.loads().map(|(_, load)| load.address..load.address.saturating_add(load.file_size));
        let limit = { loaded }.find(|load| load.contains(&start)).map_or(u64::MAX, |load| load.end);
        let end = match (section, dynamic.get(elf::DT_STRTAB)) {
            (Some(section), _) => start.saturating_add(section.size),
            (None, Some(strings)) if strings > start => strings.min(limit),
            _ => return Ok(()),
        };
        if start < self.device.end && self.device.start < end {
            return Err(BinaryError::unsupported("its dynamic symbol table seems to reach into the device code"));
        }
        let mut index = 0;
        self.each(start..end, |walk, symbol: &Sym64<LE>, _| {
            let value = symbol.st_value.get(LE);
            if symbol.st_shndx.get(LE) != elf::SHN_UNDEF && walk.device.contains(&value) {
                walk.symbols.insert(index, value);
            }
            index += 1;
            Ok(())
        })
    }

    fn relocation(&mut self, rela: &Rela64<LE>, entry: u64) -> Result<(), BinaryError> {
        let place = rela.r_offset.get(LE);
        let kind = rela.r_type(LE, false).0;
        let addend = rela.r_addend.get(LE);
        let value = if kind == self.machine.relative {
            Some(addend.cast_unsigned())
        } else {
            self.symbols.get(&rela.r_sym(LE, false)).map(|value| value.wrapping_add_signed(addend))
        };
        if self.slots.contains(place) {
            let pointer = match value {
                Some(value) if kind == self.machine.relative || kind == self.machine.absolute => {
                    Ok(Pointer { value, encoding: PointerEncoding::Addend { entry } })
                }
                _ => Err(BinaryError::unsupported(format!(
                    "the wrapper pointer at {place:#x} has an unusual relocation"
                ))),
            };
            self.note(place, pointer);
            return Ok(());
        }
        // R_X86_64_NONE and R_AARCH64_NONE. GNU ld fills places in the table that it does not need with zeros.
        if kind == 0 { Ok(()) } else { self.check_stranger(place, value) }
    }

    /// RELR (gABI, "Relative relocation table"): an even word is an address, an odd one a bitmap of the 63 words after
    /// the last address.
    fn walk_relr(&mut self, table: Range<u64>) -> Result<(), BinaryError> {
        // Each of them takes eight bytes of the file.
        let most = self.image.content.size() / 8;
        let mut next = 0_u64;
        let mut places = Vec::new();
        self.each(table, |_, word: &U64<LE>, _| {
            if places.len() as u64 > most {
                return Err(BinaryError::malformed(format!("it has more than {most} relative relocations")));
            }
            let word = word.get(LE);
            if word & 1 == 0 {
                places.push(word);
                next = word.wrapping_add(8);
            } else {
                places.extend((0..63).filter(|bit| word >> (bit + 1) & 1 == 1).map(|bit| next.wrapping_add(8 * bit)));
                next = next.wrapping_add(63 * 8);
            }
            Ok(())
        })?;
        // Linkers write them in order, so that nothing is read twice.
        places.sort_unstable();
        let mut window = WordWindow::default();
        for place in places {
            let value = word(self.image, place, &mut window)?;
            if self.slots.contains(place) {
                self.note(place, Ok(Pointer { value, encoding: PointerEncoding::InPlace }));
            } else {
                self.check_stranger(place, Some(value))?;
            }
        }
        Ok(())
    }

    fn note(&mut self, place: u64, pointer: Result<Pointer, BinaryError>) {
        let twice = || BinaryError::unsupported(format!("the wrapper pointer at {place:#x} is relocated twice"));
        self.found.entry(place).and_modify(|found| *found = Err(twice())).or_insert(pointer);
    }

    /// Fails if these addresses overlap the device code or a wrapper, which change.
    fn check_apart(&self, addresses: &Range<u64>, what: &str) -> Result<(), BinaryError> {
        // Without device code, nothing changes.
        if self.device.is_empty() || addresses.is_empty() {
            return Ok(());
        }
        if addresses.start < self.device.end && self.device.start < addresses.end {
            return Err(BinaryError::unsupported(format!("{what} is in its device code")));
        }
        // A pointer is the third field of a wrapper of 24 bytes, after two fields of four bytes.
        let behind = self.slots.first_from(addresses.start.saturating_sub(15));
        if behind.is_some_and(|slot| slot < addresses.end.saturating_add(8)) {
            return Err(BinaryError::unsupported(format!("{what} is in a fat binary wrapper")));
        }
        Ok(())
    }

    fn check_stranger(&self, place: u64, value: Option<u64>) -> Result<(), BinaryError> {
        if self.device.contains(&place) {
            return Err(BinaryError::unsupported(format!(
                "there is a relocation inside the device code, at {place:#x}"
            )));
        }
        let addresses = place..place.saturating_add(8);
        let next = self.headers.partition_point(|table| table.end <= addresses.start);
        if !self.device.is_empty() && self.headers.get(next).is_some_and(|table| table.start < addresses.end) {
            return Err(BinaryError::unsupported(format!("there is a relocation inside its headers, at {place:#x}")));
        }
        self.check_apart(&addresses, "what another relocation than that of a pointer changes")?;
        match value {
            Some(value) if self.device.contains(&value) => Err(BinaryError::unsupported(format!(
                "the pointer at address {place:#x} leads into the device code at {value:#x} and is not a wrapper's"
            ))),
            _ => Ok(()),
        }
    }

    fn pointer(&self, slot: u64) -> Result<Pointer, BinaryError> {
        if let Some(pointer) = self.found.get(&slot) {
            return pointer.clone();
        }
        if self.image.header.e_type.get(LE) != elf::ET_EXEC {
            return Err(BinaryError::unsupported(format!("the wrapper pointer at {slot:#x} is not relocated")));
        }
        let value = self.image.read_at_address::<U64<LE>>(slot)?.get(LE);
        Ok(Pointer { value, encoding: PointerEncoding::InPlace })
    }

    /// Calls `visit` with each entry of a table at the addresses `table`, and with the entry's file offset.
    fn each<T: object::pod::Pod>(
        &mut self,
        table: Range<u64>,
        mut visit: impl FnMut(&mut Self, &T, u64) -> Result<(), BinaryError>,
    ) -> Result<(), BinaryError> {
        let size = size_of::<T>() as u64;
        let count = (table.end - table.start) / size;
        // mold writes empty tables at address 0.
        if count == 0 {
            return Ok(());
        }
        let start = self
            .image
            .offset_of(table.start, count * size)
            .ok_or_else(|| BinaryError::malformed("a dynamic table is not in the file"))?;
        if self.image.is_in_headers(start, count * size) {
            return Err(BinaryError::malformed("its headers are in a dynamic table"));
        }
        self.check_apart(&table, "a dynamic table")?;
        let mut bytes = Vec::new();
        for first in (0..count).step_by(usize::try_from(CHUNK).unwrap_or(1)) {
            let here = CHUNK.min(count - first);
            bytes.resize(to_usize(here * size), 0);
            let offset = start + first * size;
            self.image.content.read_at(offset, &mut bytes)?;
            let here = to_usize(here);
            let (entries, _) =
                slice_from_bytes::<T>(&bytes, here).map_err(|()| BinaryError::malformed("unreadable table"))?;
            for (index, entry) in entries.iter().enumerate() {
                visit(self, entry, offset + index as u64 * size)?;
            }
        }
        Ok(())
    }
}

/// The addresses of pointers, ascending. A library has a million relocations, and a few dozen pointers close to each
/// other.
struct Slots(Vec<u64>);

impl Slots {
    fn new(slots: &[u64]) -> Self {
        let mut slots = slots.to_vec();
        slots.sort_unstable();
        Self(slots)
    }

    /// The first address at or after `address`.
    fn first_from(&self, address: u64) -> Option<u64> {
        let (&first, &last) = (self.0.first()?, self.0.last()?);
        // Most addresses are before or after all of them.
        if address <= first {
            return Some(first);
        }
        if address > last {
            return None;
        }
        self.0.get(self.0.partition_point(|&slot| slot < address)).copied()
    }

    fn contains(&self, address: u64) -> bool {
        self.first_from(address) == Some(address)
    }
}

/// The word at an address. Fails if it is not in the file.
fn word(image: &ElfImage, address: u64, window: &mut WordWindow) -> Result<u64, BinaryError> {
    let missing = || BinaryError::malformed(format!("a relocated word at {address:#x} is not in the file"));
    let fill = || {
        let place = |length| Some((image.offset_of(address, length)?, length));
        let (offset, length) = [WINDOW, 4096, 8].into_iter().find_map(place).ok_or_else(missing)?;
        let mut bytes = vec![0; to_usize(length)];
        image.content.read_at(offset, &mut bytes)?;
        Ok(bytes)
    };
    window.word(address, 8, fill)?.ok_or_else(missing)
}
