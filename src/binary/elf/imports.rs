//! The dynamic section as far as it names libraries, search paths and versions (gABI chapter 5, "Dynamic Linking"; for
//! versions the Linux Standard Base, "Symbol Versioning").

use std::collections::BTreeSet;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::elf::{self, Dyn64, DynamicTag, Verdaux, Verdef, Vernaux, Verneed};

use super::dynamic;
use super::image::ElfImage;
use crate::binary::BinaryError;
use crate::binary::imports::{Imports, LinkedMachine, MAX_IMPORTS, NeededVersion, read_name};
use crate::binary::pod::read_pod;
use crate::memory::{Parser, ParserMemory};
use crate::rope::Content;

/// Reads what a loader reads; `Ok(None)` for a file that is not a 64-bit program or library, or has debugging information only.
pub(in crate::binary) fn imports(content: &Arc<dyn Content>) -> Result<Option<Imports>, BinaryError> {
    let Some(image) = ElfImage::read(content)? else { return Ok(None) };
    // A .debug file has the section without content, and may have program headers that lead nowhere.
    if image.section(b".dynamic").is_some_and(|(_, section)| section.is_nobits()) {
        return Ok(None);
    }
    let reader = ImportReader { entries: entries(&image)?, table: ParserMemory::new(Parser::Imports), image: &image };
    let needed = reader.all(elf::DT_NEEDED).map(|at| reader.name(at)).collect::<Result<_, _>>()?;
    let soname = reader.last(elf::DT_SONAME).map(|at| reader.name(at)).transpose()?;
    let rpath = reader.last(elf::DT_RPATH).map(|at| reader.name(at)).transpose()?;
    let runpath = reader.last(elf::DT_RUNPATH).map(|at| reader.name(at)).transpose()?;
    let (needed_versions, versions) = (reader.needed_versions()?, reader.versions()?);
    Ok(Some(Imports {
        machine: LinkedMachine::Elf(image.header.e_machine.get(LE).0),
        soname,
        needed,
        delayed: Vec::new(),
        rpath: rpath.map(|paths| divided(&paths)).unwrap_or_default(),
        runpath: runpath.map(|paths| divided(&paths)),
        needed_versions,
        versions,
        _table: reader.table,
    }))
}

/// The machine of a 64-bit program or library, by its header.
pub(in crate::binary) fn machine(content: &Arc<dyn Content>) -> Option<u16> {
    let header = ElfImage::loadable_header(content).ok()??;
    Some(header.e_machine.get(LE).0)
}

/// The directories of a search path. An empty one is the current directory, which no result should depend on.
fn divided(paths: &[u8]) -> Vec<Vec<u8>> {
    paths.split(|&byte| byte == b':').filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The entries of the dynamic section up to `DT_NULL`.
fn entries(image: &ElfImage) -> Result<Vec<(DynamicTag, u64)>, BinaryError> {
    let Some(segment) = image.segments.iter().find(|segment| segment.kind == elf::PT_DYNAMIC) else {
        return Ok(Vec::new());
    };
    let count = segment.file_size / size_of::<Dyn64<LE>>() as u64;
    if count > MAX_IMPORTS {
        return Err(BinaryError::malformed(format!("its dynamic section has more than {MAX_IMPORTS} entries")));
    }
    dynamic::entries(&image.content, segment, MAX_IMPORTS)
}

struct ImportReader<'a> {
    image: &'a ElfImage,
    entries: Vec<(DynamicTag, u64)>,
    /// The memory of the names.
    table: ParserMemory,
}

impl ImportReader<'_> {
    fn all(&self, wanted: DynamicTag) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(move |(tag, _)| *tag == wanted).map(|(_, value)| *value)
    }

    /// Loaders take the last entry of a tag.
    fn last(&self, wanted: DynamicTag) -> Option<u64> {
        self.all(wanted).last()
    }

    /// The name at an offset in the string table.
    fn name(&self, at: u64) -> Result<Vec<u8>, BinaryError> {
        let missing = || BinaryError::malformed("a name is outside of its string table");
        let table = self.last(elf::DT_STRTAB).zip(self.last(elf::DT_STRSZ));
        let (address, size) = table.filter(|(_, size)| at < *size).ok_or_else(missing)?;
        let start = self.image.offset_of(address.checked_add(at).ok_or_else(missing)?, 1).ok_or_else(missing)?;
        read_name(&self.image.content, start, start.saturating_add(size - at), &self.table)
    }

    /// The versions of `DT_VERNEED`.
    fn needed_versions(&self) -> Result<Vec<NeededVersion>, BinaryError> {
        let mut found = Vec::new();
        let (Some(mut at), Some(count)) = (self.last(elf::DT_VERNEED), self.last(elf::DT_VERNEEDNUM)) else {
            return Ok(found);
        };
        let mut steps = 0;
        for _ in 0..count.min(MAX_IMPORTS) {
            let file: Verneed<LE> = self.at(at)?;
            let library: Arc<[u8]> = self.name(file.vn_file.get(LE).into())?.into();
            let mut next = at.saturating_add(file.vn_aux.get(LE).into());
            for _ in 0..file.vn_cnt.get(LE) {
                steps += 1;
                check_steps(steps)?;
                let version: Vernaux<LE> = self.at(next)?;
                let is_weak = version.vna_flags.get(LE).0 & elf::VER_FLG_WEAK.0 != 0;
                let name = self.name(version.vna_name.get(LE).into())?;
                found.push(NeededVersion { library: Arc::clone(&library), version: name, is_weak });
                next = next.saturating_add(version.vna_next.get(LE).into());
            }
            match file.vn_next.get(LE) {
                0 => break,
                step => at = at.saturating_add(step.into()),
            }
        }
        Ok(found)
    }

    /// The versions of `DT_VERDEF`.
    fn versions(&self) -> Result<BTreeSet<Vec<u8>>, BinaryError> {
        let mut found = BTreeSet::new();
        let (Some(mut at), Some(count)) = (self.last(elf::DT_VERDEF), self.last(elf::DT_VERDEFNUM)) else {
            return Ok(found);
        };
        for _ in 0..count.min(MAX_IMPORTS) {
            let version: Verdef<LE> = self.at(at)?;
            // The first name is that of the version, the others are those it is based on.
            let name: Verdaux<LE> = self.at(at.saturating_add(version.vd_aux.get(LE).into()))?;
            found.insert(self.name(name.vda_name.get(LE).into())?);
            match version.vd_next.get(LE) {
                0 => break,
                step => at = at.saturating_add(step.into()),
            }
        }
        Ok(found)
    }

    /// A structure at an address.
    fn at<T: object::pod::Pod>(&self, address: u64) -> Result<T, BinaryError> {
        let offset = self.image.offset_of(address, size_of::<T>() as u64);
        read_pod(&self.image.content, offset.ok_or_else(|| BinaryError::malformed("a version is not loaded"))?)
    }
}

fn check_steps(steps: u64) -> Result<(), BinaryError> {
    if steps <= MAX_IMPORTS {
        Ok(())
    } else {
        Err(BinaryError::malformed(format!("it needs more than {MAX_IMPORTS} versions")))
    }
}
