//! The files to which a catalogue of Tensile leads, and those that lead to catalogues: newer versions of hipBLASLt and
//! hipSPARSELt look up the catalogue of a solution in a mapping.
//!
//! A catalogue that is not lazy does not name its files: the library loads each one whose name has the GPU
//! (`TensileHost::initialize`, ROCm/rocm-libraries). Processors are in its rows. For a GPU without a row, helper
//! kernels are all there is: rocBLAS 5.5.1 serves gfx1010 so (`findings/rocblas-serves-a-gpu-without-its-file.sh`).

use std::collections::BTreeSet;
use std::path::Path;

use super::files::LibraryFiles;
use super::listing::DatabaseListing;
use super::problem::Problem;
use crate::coverage::cause::CauseKind;
use crate::database::tensile_library::{HELPERS, catalogues, files_of_name, is_lazy, lost};
use crate::database::{Handler, begins_catalogue, catalogue_names};
use crate::loader::NameSearch;
use crate::memory::{Parser, WholeFile};

/// The file for all GPUs that earlier versions read, without its suffix (`MasterSolutionLibrary::initLibraryMapping` in
/// `projects/hipblaslt/tensilelite/include/Tensile/MasterSolutionLibrary.hpp`, ROCm/rocm-libraries 1c2f3843).
const SHARED: &str = "TensileLiteLibrary_lazy_Mapping";
/// How the name of the file for one GPU ends, which later versions read.
const OF_GPU: &str = "_Mapping.dat";

/// What is wrong with the files to which the lazy catalogue for a processor leads, of a database whose library is not known.
pub(crate) fn missing_of_lazy(
    handler: Handler,
    directory: &Path,
    processor: &str,
    files: &dyn LibraryFiles,
) -> Option<String> {
    let listing = DatabaseListing::of(files, directory).ok()?;
    let catalogues = catalogues(handler, processor);
    let catalogue = catalogues.iter().find(|name| is_lazy(Path::new(name)) && listing.has(name))?;
    let path = directory.join(catalogue);
    let named = match names_in(files, &path) {
        Ok(named) => named,
        Err(reason) => return Some(format!("{} is damaged: {reason}", path.display())),
    };
    let lost = lost(&named, processor, &listing.names)?;
    Some(format!("{}: {}", path.display(), lost.sentence(processor)))
}

/// The names in a catalogue. One that is not lazy names no others, and may be large: that of rocBLAS 5.5 has 117 MB.
pub(super) fn names_in(files: &dyn LibraryFiles, path: &Path) -> Result<BTreeSet<String>, String> {
    let content = files.open(path).ok_or("it is no regular file")?;
    let is_compressed = path.extension().is_some_and(|it| it == "zlib");
    if is_lazy(path) || is_compressed {
        let stored = WholeFile::of(Parser::Catalogue, &*content).map_err(|error| error.to_string())?;
        return catalogue_names(&stored, is_compressed);
    }
    let beginning = content.beginning(1).map_err(|error| error.to_string())?;
    begins_catalogue(&beginning).map(|()| BTreeSet::new())
}

/// What is wrong if helper kernels are the only `code` for a processor, and the catalogue has a row for it.
pub(super) fn check_own_code(
    files: &dyn LibraryFiles,
    catalogue: &Path,
    processor: &str,
    code: &[&str],
    listing: &DatabaseListing,
) -> Result<(), Problem> {
    if code.iter().any(|name| !name.starts_with(HELPERS)) || !has_row(files, catalogue, processor) {
        return Ok(());
    }
    let stem = format!("TensileLibrary_{processor}");
    let path = listing.path(&format!("{stem}.co"));
    let reason = format!(
        "{} or {stem}.hsaco is missing: {} has kernels for {processor}, and helper kernels are the only code for it",
        path.display(),
        catalogue.display()
    );
    Err(Problem::new(CauseKind::DatabaseFileMissing, reason, path))
}

/// Whether the processor is a text in a catalogue, which msgpack begins with its length. Only the predicates of rows have
/// such texts.
fn has_row(files: &dyn LibraryFiles, catalogue: &Path, processor: &str) -> bool {
    let Some(length) = u8::try_from(processor.len()).ok().filter(|length| *length < 32) else { return false };
    let text = [&[0xa0 | length], processor.as_bytes()].concat();
    files.open(catalogue).and_then(|it| NameSearch::in_content(&*it, [&text])) == Some([true])
}

/// Checks the mapping. The library says in its strings which one it reads, if any.
pub(super) fn check_mapping(
    files: &dyn LibraryFiles,
    library: &Path,
    listing: &DatabaseListing,
    processor: &str,
) -> Option<Problem> {
    let stem = match NameSearch::in_content(&*files.open(library)?, [SHARED.as_bytes(), OF_GPU.as_bytes()])? {
        [true, _] => SHARED.to_owned(),
        [false, true] => format!("TensileLiteLibrary_lazy_{processor}_Mapping"),
        [false, false] => return None,
    };
    let path = listing.path(&format!("{stem}.dat"));
    let Some(existing) = files_of_name(&stem).find(|name| listing.has(name)) else {
        let reason = format!("{} is missing, the mapping of solutions to catalogues", path.display());
        return Some(printing(Problem::new(CauseKind::DatabaseFileMissing, reason, path)));
    };
    let path = listing.path(&existing);
    if !files.is_readable(&path) {
        return Some(printing(files.denied(&path)));
    }
    let is_empty = files.open(&path).is_some_and(|it| it.size() == 0);
    let reason = format!("{} is damaged: it is empty", path.display());
    is_empty.then(|| printing(Problem::new(CauseKind::DatabaseDamaged, reason, path)))
}

fn printing(problem: Problem) -> Problem {
    problem.printing("rocblaslt error: Could not initialize Tensile library mapping")
}
