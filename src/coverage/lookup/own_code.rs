//! The code of a catalogue that is not lazy. It does not name its files: the library loads each one whose name has the
//! GPU (`TensileHost::initialize`, ROCm/rocm-libraries). Processors are in its rows. For a GPU without a row,
//! helper kernels are all there is: rocBLAS 5.5.1 serves gfx1010 so (`findings/rocblas-serves-a-gpu-without-its-file.sh`).

use std::path::Path;

use super::files::LibraryFiles;
use super::listing::DatabaseListing;
use super::problem::{self, Problem};
use crate::database::tensile::HELPERS;
use crate::loader::NameSearch;

/// What is wrong if helper kernels are the only `code` for a processor, and the catalogue has a row for it.
pub(super) fn check(
    files: &dyn LibraryFiles,
    catalogue: &Path,
    processor: &str,
    code: &[&str],
    listing: &DatabaseListing,
) -> Option<Problem> {
    if code.iter().any(|name| !name.starts_with(HELPERS)) || !has_row(files, catalogue, processor) {
        return None;
    }
    let stem = format!("TensileLibrary_{processor}");
    let path = listing.path(&format!("{stem}.co"));
    let reason = format!(
        "{} or {stem}.hsaco is missing: {} has kernels for {processor}, and helper kernels are the only code for it",
        path.display(),
        catalogue.display()
    );
    Some(Problem::new(&problem::DATABASE_FILE_MISSING, reason, path))
}

/// Whether the processor is a text in a catalogue, which msgpack begins with its length. Only the predicates of rows have
/// such texts.
fn has_row(files: &dyn LibraryFiles, catalogue: &Path, processor: &str) -> bool {
    let Some(length) = u8::try_from(processor.len()).ok().filter(|length| *length < 32) else { return false };
    let text = [&[0xa0 | length], processor.as_bytes()].concat();
    files.open(catalogue).and_then(|it| NameSearch::in_content(&*it, [&text])) == Some([true])
}
