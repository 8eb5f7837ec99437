//! What a loader reads of a program or a library before it runs any code: the libraries it needs, and where to look.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::BinaryError;
use crate::memory::ParserMemory;
use crate::rope::{Content, ReadError};

/// The most entries of a dynamic section, of version tables, and of import tables. Real files have some dozens of needed
/// libraries and some hundreds of versions.
pub(super) const MAX_IMPORTS: u64 = 1 << 16;

/// The longest name or search path that is read, in bytes.
pub(super) const MAX_IMPORT_NAME: u64 = 1 << 16;

/// What is kept of a name apart from its bytes.
const NAME: u64 = size_of::<NeededVersion>() as u64;

/// The machine for which a file was linked. Loaders skip libraries for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkedMachine {
    /// `e_machine` of an ELF file.
    Elf(u16),
    /// A PE file.
    Pe,
}

impl LinkedMachine {
    /// Whether programs run on it. Files with code for GPUs are ELF files, too.
    pub fn is_host(self) -> bool {
        const OF_DEVICES: [u16; 3] = [object::elf::EM_AMDGPU.0, object::elf::EM_CUDA.0, object::elf::EM_BPF.0];
        !matches!(self, Self::Elf(machine) if OF_DEVICES.contains(&machine))
    }
}

/// A version of symbols that a file needs from a library (gABI extension of GNU, `DT_VERNEED`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeededVersion {
    /// The name of the library.
    pub library: Arc<[u8]>,
    /// The version, such as `GLIBC_2.34`.
    pub version: Vec<u8>,
    /// Whether the file can be loaded without it.
    pub is_weak: bool,
}

/// What a loader reads of a program or a library. Names are bytes: an ELF file may have any.
#[derive(Debug)]
pub struct Imports {
    /// The machine.
    pub machine: LinkedMachine,
    /// `DT_SONAME`.
    pub soname: Option<Vec<u8>>,
    /// `DT_NEEDED`, or the imported DLLs, in order.
    pub needed: Vec<Vec<u8>>,
    /// DLLs that are loaded at the first call of one of their functions (the delay-load import table of PE).
    pub delayed: Vec<Vec<u8>>,
    /// `DT_RPATH`, divided at colons. Loaders ignore it if there is a `DT_RUNPATH`.
    pub rpath: Vec<Vec<u8>>,
    /// `DT_RUNPATH`, divided at colons.
    pub runpath: Option<Vec<Vec<u8>>>,
    /// The versions that it needs.
    pub needed_versions: Vec<NeededVersion>,
    /// The versions that it defines. A loader checks versions only in libraries that define some.
    pub versions: BTreeSet<Vec<u8>>,
    /// Their memory.
    pub(super) _table: ParserMemory,
}

/// Reads a name that ends with a zero byte, and counts it in `table`.
pub(super) fn read_name(
    content: &Arc<dyn Content>,
    start: u64,
    end: u64,
    table: &ParserMemory,
) -> Result<Vec<u8>, BinaryError> {
    const STEP: u64 = 256;
    let end = end.min(content.size()).min(start.saturating_add(MAX_IMPORT_NAME));
    let mut name = Vec::new();
    let mut at = start;
    while at < end {
        let mut piece = vec![0; usize::try_from(STEP.min(end - at)).unwrap_or_default()];
        content.read_at(at, &mut piece)?;
        at += piece.len() as u64;
        let length = memchr::memchr(0, &piece);
        name.extend_from_slice(piece.get(..length.unwrap_or(piece.len())).unwrap_or_default());
        if length.is_some() {
            table.grow(NAME.saturating_add(name.len() as u64)).map_err(ReadError::from)?;
            return Ok(name);
        }
    }
    Err(BinaryError::malformed("the name of a library does not end"))
}
