//! Symbol tables of a rewritten file: symbols of the device code that is gone.

use std::sync::Arc;

use object::elf::{self, Sym64};
use object::pod::{bytes_of, from_bytes};
use object::{LittleEndian as LE, U64};
use serde::{Deserialize, Serialize};

use super::image::{Image, Section};
use super::relocation;
use crate::binary::changes::{Change, Piece};
use crate::rope::{Content, ReadError, Segment, check_range};

/// Bytes of a symbol.
const ENTRY: u64 = size_of::<Sym64<LE>>() as u64;

/// A symbol table in which symbols of one section stand where their bundle does, or at the section's beginning, and have
/// no size. It is looked through when it is read, since it can be larger than everything else that planning reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::binary) struct Symbols {
    offset: u64,
    size: u64,
    section: u16,
    /// Of the section.
    address: u64,
    /// Distances from there before and after, ascending.
    moves: Vec<(u64, u64)>,
}

/// The same as a content.
#[derive(Debug)]
struct Changed {
    original: Arc<dyn Content>,
    symbols: Symbols,
}

/// Replaces all symbol tables: symbols of section number `section`, which begins at `address`, move with what is at or
/// before their places, by these distances from there before and after.
pub(super) fn replace(image: &Image, section: usize, address: u64, moves: &[(u64, u64)]) -> Vec<Change> {
    let Some(section) = u16::try_from(section).ok().filter(|&number| number < elf::SHN_LORESERVE) else {
        return Vec::new();
    };
    // Section headers can call anything a table. What is loaded is one if the loader takes it for one.
    let dynamic = relocation::symbol_table(image);
    let is_dynamic = |table: &Section| {
        dynamic == Some(table.address) && image.offset_of(table.address, table.size) == Some(table.offset)
    };
    let is_table = |table: &&Section| match table.header.sh_type.get(LE) {
        elf::SHT_SYMTAB => !image.is_loaded(table),
        elf::SHT_DYNSYM => is_dynamic(table),
        _ => false,
    };
    let tables = image.sections.iter().filter(is_table).filter(|table| {
        table.header.sh_entsize.get(LE) == ENTRY && table.end() <= image.content.size() && table.size > 0
    });
    tables
        .map(|table| {
            let size = table.size / ENTRY * ENTRY;
            let replacement =
                vec![Piece::Symbols(Symbols { offset: table.offset, size, section, address, moves: moves.to_vec() })];
            Change { start: table.offset, end: table.offset + size, replacement }
        })
        .collect()
}

impl Symbols {
    /// The table as it is to be in place of that in `original`.
    pub(in crate::binary) fn of(&self, original: &Arc<dyn Content>) -> Result<Segment, ReadError> {
        let end = self.offset.checked_add(self.size).filter(|&end| end <= original.size());
        if end.is_none() || !self.size.is_multiple_of(ENTRY) {
            return Err(ReadError::OutOfRange { offset: self.offset, length: self.size, size: original.size() });
        }
        Ok(Segment::whole(Arc::new(Changed { original: Arc::clone(original), symbols: self.clone() })))
    }

    fn patch(&self, symbol: &mut [u8]) {
        let Ok((old, _)) = from_bytes::<Sym64<LE>>(symbol) else { return };
        if old.st_shndx.get(LE).0 == self.section {
            let mut new = *old;
            let distance = old.st_value.get(LE).wrapping_sub(self.address);
            let before = self.moves.partition_point(|(before, _)| *before <= distance);
            let after = before.checked_sub(1).and_then(|last| self.moves.get(last)).map_or(0, |(_, after)| *after);
            new.st_value = U64::new(LE, self.address.wrapping_add(after));
            new.st_size = U64::new(LE, 0);
            symbol.copy_from_slice(bytes_of(&new));
        }
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
        let mut symbols = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
        self.original.read_at(self.symbols.offset + start, &mut symbols)?;
        symbols.chunks_exact_mut(size_of::<Sym64<LE>>()).for_each(|symbol| self.symbols.patch(symbol));
        let skipped = usize::try_from(offset - start).unwrap_or(0);
        let piece = symbols.get(skipped..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(piece.unwrap_or_default());
        Ok(())
    }

    fn is_prompt(&self, offset: u64, length: usize) -> bool {
        self.original.is_prompt(self.symbols.offset + offset, length)
    }
}
