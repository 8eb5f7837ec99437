//! The digest and the kernels of a code object, computed in one sequential pass.
//!
//! A kernel is an object symbol `<name>.kd`, its descriptor, and a function symbol `<name>`, its code, in the dynamic
//! symbol table (LLVM's "User Guide for AMDGPU Backend", "Symbols"). Linkers put that table into the first segment,
//! before the code. So that segment is kept until the section headers at the end say where the table is.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64, SectionHeader64, Sym64};
use object::pod::{Pod, slice_from_bytes};

use super::CODE_HEADER;
use super::header::header;
use crate::memory::{Budget, Reservation};
use crate::metrics::MemoryClass;
use crate::rope::{Sha256, head, tail, to_usize};

/// The largest first segment that is kept, in bytes. Those of real code objects have at most a few MiB.
const MAX_KEPT: usize = 64 << 20;
/// Bytes that are kept without a reservation.
const SMALL: usize = 64 << 10;
/// The most sections. Real code objects have a few dozen.
const MAX_SECTIONS: u64 = 1 << 12;
/// Bytes of the longest kernel name. Names of C++ templates have a few thousand bytes.
const MAX_NAME: usize = 16 << 10;
/// Bytes scanned for names of symbols, as a multiple of their table's size. Symbols may share the bytes of their names,
/// but those of real code objects hardly do.
const MAX_SCANNED: usize = 4;
/// The suffix of kernel descriptors.
const DESCRIPTOR: &[u8] = b".kd";

/// A code object that was read.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// SHA-256 of all its bytes.
    pub sha256: [u8; 32],
    /// Size in bytes.
    pub size: u64,
    /// Its kernels without duplicates, in the order of the symbol table. `None` if it has a symbol table that cannot be
    /// read.
    pub kernels: Option<Vec<Kernel>>,
}

/// A kernel of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Its symbol, without `.kd`.
    pub name: String,
    /// Bytes of its code; 0 if no symbol has the size.
    pub size: u64,
}

/// A code object that is being read.
pub(crate) struct CodeScan {
    budget: Arc<Budget>,
    sha256: Sha256,
    /// Bytes read so far.
    at: u64,
    /// The first bytes.
    head: Vec<u8>,
    /// Number of first bytes to keep, as far as it is known.
    wanted: usize,
    /// The reservation for them.
    memory: Option<Reservation>,
    /// The section headers, and their offset.
    sections: Vec<u8>,
    place: Range<u64>,
}

impl CodeScan {
    /// A scan of a code object from its beginning. The bytes that it keeps are reserved from `budget`.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            sha256: Sha256::default(),
            at: 0,
            head: Vec::new(),
            wanted: CODE_HEADER,
            memory: None,
            sections: Vec::new(),
            place: 0..0,
        }
    }

    /// Adds the next bytes to the scan.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.sha256.update(piece);
        self.keep_head(piece);
        self.keep_sections(piece);
        self.at += piece.len() as u64;
    }

    /// The result.
    pub(crate) fn finish(self) -> Scanned {
        let kernels = self.kernels();
        Scanned { sha256: self.sha256.finish(), size: self.at, kernels }
    }

    fn keep_head(&mut self, piece: &[u8]) {
        while self.head.len() < self.wanted {
            let start = (self.head.len() as u64).checked_sub(self.at).and_then(|start| usize::try_from(start).ok());
            let Some(rest) = start.and_then(|start| piece.get(start..)).filter(|rest| !rest.is_empty()) else { return };
            let missing = self.wanted - self.head.len();
            self.head.extend_from_slice(head(rest, missing.min(rest.len())));
            if self.head.len() == self.wanted {
                self.want_more();
            }
        }
    }

    /// Determines from the kept bytes how much to keep: header, program headers, and the first segment.
    fn want_more(&mut self) {
        let Some(header) = header(&self.head) else { return };
        let sections = u64::from(header.e_shnum.get(LE)).min(MAX_SECTIONS);
        let place = header.e_shoff.get(LE);
        let segments = (header.e_phoff.get(LE), u64::from(header.e_phnum.get(LE)));
        let end_of_table = segments.0.saturating_add(segments.1 * size_of::<ProgramHeader64<LE>>() as u64);
        let length = sections * size_of::<SectionHeader64<LE>>() as u64;
        let first = || {
            let table: &[ProgramHeader64<LE>] = array(&self.head, segments.0, segments.1)?;
            let is_first = |it: &&ProgramHeader64<LE>| it.p_type.get(LE) == elf::PT_LOAD && it.p_offset.get(LE) == 0;
            table.iter().find(is_first).map(|segment| segment.p_filesz.get(LE))
        };
        let needed = end_of_table.max(first().unwrap_or(0));
        self.place = place..place.saturating_add(length);
        match usize::try_from(needed) {
            Ok(needed) if needed > self.head.len() && needed <= MAX_KEPT => {
                if needed > SMALL && self.memory.is_none() {
                    self.memory = Some(self.budget.reserve(MemoryClass::Compression, needed as u64));
                }
                self.wanted = needed;
            }
            _ => {}
        }
    }

    fn keep_sections(&mut self, piece: &[u8]) {
        let end = self.at + piece.len() as u64;
        let (from, to) = (self.place.start.max(self.at), self.place.end.min(end));
        let Some(length) = to.checked_sub(from).and_then(|length| usize::try_from(length).ok()) else { return };
        let from = to_usize(from - self.at);
        self.sections.extend_from_slice(head(tail(piece, from), length));
    }

    /// The kernels. Empty if there is no symbol table.
    fn kernels(&self) -> Option<Vec<Kernel>> {
        let count = self.sections.len() / size_of::<SectionHeader64<LE>>();
        let sections: &[SectionHeader64<LE>] = array(&self.sections, 0, count as u64)?;
        let Some(table) = sections.iter().find(|section| section.sh_type.get(LE) == elf::SHT_DYNSYM) else {
            return Some(Vec::new());
        };
        let names = sections.get(usize::try_from(table.sh_link.get(LE)).ok()?)?;
        let names: &[u8] = array(&self.head, names.sh_offset.get(LE), names.sh_size.get(LE))?;
        let count = table.sh_size.get(LE) / size_of::<Sym64<LE>>() as u64;
        let symbols: &[Sym64<LE>] = array(&self.head, table.sh_offset.get(LE), count)?;
        kernels(symbols, names)
    }
}

/// The kernels of a symbol table. `None` if the names of its symbols exceed the limit.
fn kernels(symbols: &[Sym64<LE>], names: &[u8]) -> Option<Vec<Kernel>> {
    let mut rest = names.len().saturating_mul(MAX_SCANNED);
    let mut sizes = HashMap::new();
    let mut descriptors = Vec::new();
    for symbol in symbols.iter().filter(|symbol| symbol.st_shndx.get(LE) != elf::SHN_UNDEF) {
        let Some(name) = usize::try_from(symbol.st_name.get(LE)).ok().and_then(|start| names.get(start..)) else {
            continue;
        };
        let name = head(name, name.len().min(MAX_NAME));
        let end = memchr::memchr(0, name);
        rest = rest.checked_sub(end.map_or(name.len(), |end| end + 1))?;
        let Some(name) = end.and_then(|end| name.get(..end)) else { continue };
        if symbol.st_type() == elf::STT_FUNC {
            sizes.insert(name, symbol.st_size.get(LE));
        }
        descriptors.extend(name.strip_suffix(DESCRIPTOR));
    }
    let mut known = HashSet::new();
    descriptors.retain(|name| known.insert(*name));
    let kernel = |name: &[u8]| Kernel {
        name: String::from_utf8_lossy(name).into_owned(),
        size: sizes.get(name).copied().unwrap_or(0),
    };
    Some(descriptors.into_iter().map(kernel).collect())
}

/// A table of `count` elements at `offset`.
fn array<T: Pod>(bytes: &[u8], offset: u64, count: u64) -> Option<&[T]> {
    let bytes = bytes.get(usize::try_from(offset).ok()?..)?;
    slice_from_bytes(bytes, usize::try_from(count).ok()?).ok().map(|(table, _)| table)
}

#[cfg(test)]
mod tests {
    use object::{U16, U32, U64};

    use super::*;

    fn symbol(name: u32, kind: elf::SymbolType, size: u64) -> Sym64<LE> {
        Sym64 {
            st_name: U32::new(LE, name),
            st_info: elf::SymbolInfo(kind.0),
            st_other: elf::SymbolOther(0),
            st_shndx: U16::new(LE, elf::SymbolSection(1)),
            st_value: U64::new(LE, 0),
            st_size: U64::new(LE, size),
        }
    }

    #[test]
    fn a_kernel_counts_once() {
        let names = b"\0a\0a.kd\0";
        let symbols = [symbol(1, elf::STT_FUNC, 5), symbol(3, elf::STT_OBJECT, 64), symbol(3, elf::STT_OBJECT, 64)];
        assert_eq!(kernels(&symbols, names), Some(vec![Kernel { name: "a".to_owned(), size: 5 }]));
    }

    #[test]
    fn symbols_that_share_their_names_are_not_all_read() {
        for names in [[&[b'x'; 10_000][..], b".kd\0"].concat(), vec![b'x'; 10_000]] {
            let symbols = |count: u32| (0..count).map(|at| symbol(at, elf::STT_OBJECT, 64)).collect::<Vec<_>>();
            assert!(kernels(&symbols(3), &names).is_some());
            assert_eq!(kernels(&symbols(1000), &names), None);
        }
        // Names without a letter.
        let symbols: Vec<_> = std::iter::repeat_n(symbol(0, elf::STT_OBJECT, 0), 1000).collect();
        assert_eq!(kernels(&symbols, b"\0"), None);
    }
}
