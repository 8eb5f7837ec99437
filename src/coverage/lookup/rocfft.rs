//! rocFFT's caches of compiled kernels. Without one for the GPU it compiles kernels at their first use.

use super::listing::DatabaseListing;
use super::place::DatabaseSearch;
use super::problem::Problem;
use super::trail::LookupEvidence;
use crate::coverage::cause::CauseKind;
use crate::database::rocfft::{CACHES, cache_name};

/// Follows rocFFT: next to the library, then in the directory there. Earlier versions have a file for all GPUs.
pub(super) fn look_up(search: &DatabaseSearch<'_>, evidence: &mut LookupEvidence) -> Result<(), Problem> {
    let DatabaseSearch { files, place, device, .. } = *search;
    let names = [cache_name(device.processor()), format!("{CACHES}.db")];
    let near = |name: &String| [place.directory.with_file_name(name), place.directory.join(name)];
    let caches: Vec<_> = match place.variable {
        Some(_) => vec![place.directory.clone()],
        None => names.iter().flat_map(near).collect(),
    };
    evidence.directory = Some(place.directory.display().to_string());
    if let Some(cache) = caches.iter().find(|cache| files.is_readable(cache)) {
        evidence.trail.saw(format!("{} is there", cache.display()));
        return Ok(());
    }
    if let Some(cache) = caches.iter().find(|cache| files.open(cache).is_some()) {
        return Err(files.denied(cache));
    }
    let reason = format!(
        "there is no {} next to the library and in {}, so rocFFT compiles its kernels at their first use",
        names.first().map(String::as_str).unwrap_or_default(),
        place.directory.display()
    );
    Err(Problem::new(CauseKind::DatabaseMissing, reason, &place.directory).doubtful())
}

/// Whether there is a cache for any GPU. Most packages have none.
pub(super) fn has_any(DatabaseSearch { files, place, .. }: &DatabaseSearch<'_>) -> bool {
    let directories = [place.directory.parent(), Some(&*place.directory)].into_iter().flatten();
    let mut listings = directories.filter_map(|directory| DatabaseListing::of(*files, directory).ok());
    place.variable.is_some() || listings.any(|listing| listing.names.iter().any(|name| name.starts_with(CACHES)))
}
