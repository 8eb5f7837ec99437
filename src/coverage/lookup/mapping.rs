//! The file in which newer versions of hipBLASLt and hipSPARSELt look up the catalogue of a solution.

use std::path::Path;

use super::files::LibraryFiles;
use super::listing::DatabaseListing;
use super::problem::{self, Problem};
use crate::database::tensile::files_of_name;
use crate::loader::NameSearch;

/// The file for all GPUs that earlier versions read, without its suffix (`MasterSolutionLibrary::initLibraryMapping` in
/// `projects/hipblaslt/tensilelite/include/Tensile/MasterSolutionLibrary.hpp`, ROCm/rocm-libraries 1c2f3843).
const SHARED: &str = "TensileLiteLibrary_lazy_Mapping";
/// How the name of the file for one GPU ends, which later versions read.
const OF_GPU: &str = "_Mapping.dat";

/// Checks the mapping. The library says in its strings which one it reads, if any.
pub(super) fn check(
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
        return Some(printing(Problem::new(&problem::DATABASE_FILE_MISSING, reason, path)));
    };
    let path = listing.path(&existing);
    if !files.is_readable(&path) {
        return Some(printing(Problem::denied(&path)));
    }
    let is_empty = files.open(&path).is_some_and(|it| it.size() == 0);
    let reason = format!("{} is damaged: it is empty", path.display());
    is_empty.then(|| printing(Problem::new(&problem::DATABASE_DAMAGED, reason, path)))
}

fn printing(problem: Problem) -> Problem {
    problem.printing("rocblaslt error: Could not initialize Tensile library mapping")
}
