//! The import tables of a PE file ("PE Format" of Microsoft, "The .idata Section" and "Delay-Load Import Tables").

use std::collections::BTreeSet;
use std::sync::Arc;

use object::LittleEndian as LE;
use object::pe::{self, ImageDelayloadDescriptor, ImageImportDescriptor};
use object::pod::{Pod, from_bytes};

use super::image::PeImage;
use crate::binary::BinaryError;
use crate::binary::imports::{Imports, LinkedMachine, MAX_IMPORT_NAME, MAX_IMPORTS, read_name};
use crate::memory::{Parser, ParserMemory};
use crate::rope::Content;

/// Reads the names of imported DLLs; `Ok(None)` for a file that is not a 64-bit image.
pub(in crate::binary) fn imports(content: &Arc<dyn Content>) -> Result<Option<Imports>, BinaryError> {
    let Some(image) = PeImage::read(content)? else { return Ok(None) };
    let table = ParserMemory::new(Parser::Imports);
    let needed =
        names::<ImageImportDescriptor>(&image, pe::IMAGE_DIRECTORY_ENTRY_IMPORT, &table, |it| it.name.get(LE))?;
    let delayed = names::<ImageDelayloadDescriptor>(&image, pe::IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, &table, |it| {
        it.dll_name_rva.get(LE)
    })?;
    Ok(Some(Imports {
        machine: LinkedMachine::Pe,
        soname: None,
        needed,
        delayed,
        rpath: Vec::new(),
        runpath: None,
        needed_versions: Vec::new(),
        versions: BTreeSet::new(),
        _table: table,
    }))
}

/// The names in a table of descriptors, which ends with an empty one. `name` returns the RVA of a name.
fn names<T: Pod>(
    image: &PeImage,
    directory: usize,
    table: &ParserMemory,
    name: impl Fn(&T) -> u32,
) -> Result<Vec<Vec<u8>>, BinaryError> {
    let mut found = Vec::new();
    let Some((mut at, _)) = image.directory(directory) else { return Ok(found) };
    for _ in 0..MAX_IMPORTS {
        let bytes = image.read_at_address(at, size_of::<T>() as u64)?;
        let (descriptor, _) =
            from_bytes::<T>(&bytes).map_err(|()| BinaryError::malformed("unreadable import table"))?;
        let address = name(descriptor);
        if address == 0 {
            return Ok(found);
        }
        let start = image.offset_of(address.into(), 1);
        let start = start.ok_or_else(|| BinaryError::malformed("the name of a DLL is not in the file"))?;
        found.push(read_name(&image.content, start, start.saturating_add(MAX_IMPORT_NAME), table)?);
        at = at.saturating_add(size_of::<T>() as u64);
    }
    Err(BinaryError::malformed(format!("it imports more than {MAX_IMPORTS} DLLs")))
}
