//! Symbol tables of a rewritten file: symbols of the removed device code.

use std::ops::Range;
use std::sync::Arc;

use object::elf::{self, Sym64};
use object::pod::{bytes_of, from_bytes};
use object::{LittleEndian as LE, U64};
use serde::{Deserialize, Serialize};

use super::dynamic::symbol_table;
use super::image::{ElfImage, ElfSection};
use crate::rope::{Content, Extent, ExtentSource, ReadError, Segment, check_range, head, tail, to_usize};

/// Bytes of a symbol.
const ENTRY: u64 = size_of::<Sym64<LE>>() as u64;

/// Bytes of a block, the unit of sharing in filesystems.
const BLOCK: u64 = 4096;

/// Bytes compared at a time; a multiple of [`BLOCK`].
const STEP: u64 = 1 << 20;

/// A symbol table in which the symbols of one section are moved to the new place of their bundle, or to the section's
/// beginning, and have no size. It is computed when it is read, since it can be larger than everything else that
/// planning reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::binary) struct Symbols {
    offset: u64,
    size: u64,
    section: u16,
    /// Address of the section.
    address: u64,
    /// Bytes behind that address up to which symbols move.
    length: u64,
    /// Offsets in the section before and after, ascending.
    moves: Vec<(u64, u64)>,
}

/// The table as a content.
#[derive(Debug)]
struct Changed {
    original: Arc<dyn Content>,
    symbols: Symbols,
}

/// All symbol tables, changed. Symbols of section number `section`, up to `length` bytes behind `address`, move with the
/// last of `moves` at or before their place. `moves` are offsets in the section before and after.
pub(super) fn tables(
    image: &ElfImage,
    section: usize,
    address: u64,
    length: u64,
    moves: &[(u64, u64)],
) -> Vec<Symbols> {
    let Some(section) = u16::try_from(section).ok().filter(|&number| number < elf::SHN_LORESERVE) else {
        return Vec::new();
    };
    // Section headers may declare anything a table. A loaded one counts only if the loader uses it.
    let dynamic = symbol_table(image);
    let is_dynamic = |table: &ElfSection| {
        dynamic == Some(table.address) && image.offset_of(table.address, table.size) == Some(table.offset)
    };
    let is_table = |table: &&ElfSection| match table.header.sh_type.get(LE) {
        elf::SHT_SYMTAB => !image.is_loaded(table),
        elf::SHT_DYNSYM => is_dynamic(table),
        _ => false,
    };
    let tables = image.sections.iter().filter(is_table).filter(|table| {
        table.header.sh_entsize.get(LE) == ENTRY && table.end() <= image.content.size() && table.size > 0
    });
    let changed = |table: &ElfSection| Symbols {
        offset: table.offset,
        size: table.size / ENTRY * ENTRY,
        section,
        address,
        length,
        moves: moves.to_vec(),
    };
    tables.map(changed).collect()
}

impl Symbols {
    /// File offsets of the table.
    pub(in crate::binary) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.size
    }

    /// The changed table in place of the one in `original`.
    pub(in crate::binary) fn of(&self, original: &Arc<dyn Content>) -> Result<Segment, ReadError> {
        let end = self.offset.checked_add(self.size).filter(|&end| end <= original.size());
        if end.is_none() || !self.size.is_multiple_of(ENTRY) {
            return Err(ReadError::OutOfRange { offset: self.offset, length: self.size, size: original.size() });
        }
        Ok(Segment::whole(Arc::new(Changed { original: Arc::clone(original), symbols: self.clone() })))
    }

    /// File offsets of the values and sizes of the section's symbols in `original`.
    pub(in crate::binary) fn values(&self, original: &Arc<dyn Content>) -> Result<Vec<Range<u64>>, ReadError> {
        let mut found = Vec::new();
        let mut at = self.offset;
        let end = self.offset.saturating_add(self.size);
        while at < end {
            let length = (STEP / ENTRY * ENTRY).min(end - at);
            let mut symbols = vec![0; to_usize(length)];
            original.read_at(at, &mut symbols)?;
            for (number, symbol) in (0..).zip(symbols.chunks_exact(size_of::<Sym64<LE>>())) {
                let is_of_section =
                    from_bytes::<Sym64<LE>>(symbol).is_ok_and(|(symbol, _)| symbol.st_shndx.get(LE).0 == self.section);
                let start = at + number * ENTRY;
                // Both are at the end of a symbol.
                found.extend(is_of_section.then_some(start + ENTRY - 16..start + ENTRY));
            }
            at += length;
        }
        Ok(found)
    }

    fn patch(&self, symbol: &mut [u8]) {
        let Ok((old, _)) = from_bytes::<Sym64<LE>>(symbol) else { return };
        let distance = old.st_value.get(LE).wrapping_sub(self.address);
        if old.st_shndx.get(LE).0 == self.section && distance <= self.length {
            let mut new = *old;
            let before = self.moves.partition_point(|(before, _)| *before <= distance);
            let after = before.checked_sub(1).and_then(|last| self.moves.get(last)).map_or(0, |(_, after)| *after);
            new.st_value = U64::new(LE, self.address.wrapping_add(after));
            new.st_size = U64::new(LE, 0);
            symbol.copy_from_slice(bytes_of(&new));
        }
    }
}

impl Changed {
    /// Lengths of consecutive parts in whole blocks of the original, and whether a symbol in them changes.
    fn parts(&self, range: Range<u64>) -> Result<Vec<(u64, bool)>, ReadError> {
        let mut parts: Vec<(u64, bool)> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let place = self.symbols.offset + at;
            let length = (STEP - place % STEP).min(range.end - at);
            let size = to_usize(length);
            let (mut old, mut new) = (vec![0; size], vec![0; size]);
            self.original.read_at(place, &mut old)?;
            self.read_at(at, &mut new)?;
            let first = to_usize(BLOCK - place % BLOCK).min(size);
            let block = to_usize(BLOCK);
            let ((old_first, old), (new_first, new)) = (old.split_at(first), new.split_at(first));
            let blocks = old.chunks(block).zip(new.chunks(block));
            for (old, new) in std::iter::once((old_first, new_first)).chain(blocks) {
                match parts.last_mut() {
                    Some((length, changes)) if *changes == (old != new) => *length += old.len() as u64,
                    _ => parts.push((old.len() as u64, old != new)),
                }
            }
            at += length;
        }
        Ok(parts)
    }
}

impl Content for Changed {
    fn size(&self) -> u64 {
        self.symbols.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let start = offset / ENTRY * ENTRY;
        let end = (offset + buffer.len() as u64).next_multiple_of(ENTRY);
        let mut symbols = vec![0; to_usize(end - start)];
        self.original.read_at(self.symbols.offset + start, &mut symbols)?;
        symbols.chunks_exact_mut(size_of::<Sym64<LE>>()).for_each(|symbol| self.symbols.patch(symbol));
        let skipped = to_usize(offset - start);
        buffer.copy_from_slice(head(tail(&symbols, skipped), buffer.len()));
        Ok(())
    }

    /// Most tables are large, and few symbols belong to the device code, so unchanged blocks are shared.
    fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        let all = || vec![Extent { length, source: ExtentSource::Read }];
        let Some(file) = self.original.backing() else { return all() };
        let Ok(parts) = self.parts(offset..offset.saturating_add(length)) else { return all() };
        let mut at = self.symbols.offset + offset;
        let extent = |(length, changes): (u64, bool)| {
            let source = if changes { ExtentSource::Read } else { ExtentSource::File { file, offset: at } };
            at += length;
            Extent { length, source }
        };
        parts.into_iter().map(extent).collect()
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.original.is_nonblocking(self.symbols.offset + offset, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Resources;
    use crate::source::{EntryKind, Input};

    /// Blocks of the table without a symbol of the section are those of the file.
    #[test]
    fn what_does_not_change_is_the_original() {
        const SYMBOLS: usize = 60_000;
        const START: usize = 1000;
        let mut bytes = vec![7; START];
        let changed = [0, 30_000, 30_001, SYMBOLS - 1];
        for number in 0..SYMBOLS {
            let section: u16 = if changed.contains(&number) { 5 } else { 6 };
            bytes.extend([0; 6]);
            bytes.extend(section.to_le_bytes());
            bytes.extend(0x5000_u64.to_le_bytes());
            bytes.extend(64_u64.to_le_bytes());
        }
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("x"), &bytes).unwrap();
        let input = Input::open(place.path(), &Resources::new(1 << 20)).unwrap();
        let EntryKind::File { content: original, .. } = &input.entries[0].kind else { panic!() };
        let size = (SYMBOLS as u64) * ENTRY;
        let symbols =
            Symbols { offset: START as u64, size, section: 5, address: 0x4000, length: 0x2000, moves: vec![(0, 0)] };
        let table = Changed { original: Arc::clone(original), symbols };
        for (offset, length) in [(0, size), (100, size - 100), (5000, 3000), (size - 10, 10)] {
            let (mut at, mut read) = (offset, 0);
            for extent in table.extents(offset, length) {
                let mut bytes = [vec![0; usize::try_from(extent.length).unwrap()], Vec::new()];
                table.read_at(at, &mut bytes[0]).unwrap();
                match extent.source {
                    ExtentSource::File { offset: place, .. } => {
                        bytes[1] = vec![0; bytes[0].len()];
                        original.read_at(place, &mut bytes[1]).unwrap();
                        assert!(bytes[0] == bytes[1], "{at}+{}", extent.length);
                    }
                    ExtentSource::Read => read += extent.length,
                    ExtentSource::Zeros => panic!("no zeros"),
                }
                at += extent.length;
            }
            assert_eq!(at, offset + length);
            assert!(read <= 3 * BLOCK, "{read} bytes are read");
            assert!(length < size || read > 0, "four symbols change");
        }
    }
}
