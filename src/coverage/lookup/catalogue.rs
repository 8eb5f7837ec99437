//! The files to which a catalogue of Tensile leads.

use std::collections::BTreeSet;
use std::path::Path;

use super::files::LibraryFiles;
use super::listing::DatabaseListing;
use crate::database::tensile::{catalogues, is_lazy, lost};
use crate::database::{Handler, begins_catalogue, catalogue_names};
use crate::memory::{Parser, WholeFile};

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
