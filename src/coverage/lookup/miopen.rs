//! MIOpen's databases: results of tuning and of searches, and compiled kernels. MIOpen works without them, but tunes and
//! compiles then, which takes minutes at the first use of a network.

use std::path::Path;

use super::files::LibraryFiles;
use super::listing::DatabaseListing;
use super::place::DatabaseSearch;
use super::problem::Problem;
use super::trail::LookupEvidence;
use crate::coverage::cause::CauseKind;
use crate::database::{Arch, Handler};
use crate::gpu::TargetId;
use crate::report::table::counted;
use crate::source::EntryPath;

/// Results of tuning: `gfx942130.db.txt`.
const TUNING: &str = ".db.txt";
/// Results of searches. Each file of [`TUNING`] in ROCm/rocm-libraries has one of these next to it, but not the reverse.
const SEARCH: &str = ".HIP.fdb.txt";
/// Compiled kernels, a package of their own.
const KERNELS: &str = ".kdb";

/// Follows MIOpen. Returns what makes it slow.
pub(super) fn look_up(search: &DatabaseSearch<'_>, evidence: &mut LookupEvidence) -> Result<(), Problem> {
    let DatabaseSearch { files, place, device, .. } = *search;
    let directory = &place.directory;
    let listing = DatabaseListing::of_database(files, directory, evidence, denied)?;
    let own: Vec<_> = listing.names.iter().map(String::as_str).filter(|name| is_for(name, device)).collect();
    if own.is_empty() {
        // Most releases have no files for most GPUs.
        let reason = format!("{} has no files for {}", directory.display(), device.processor());
        return Err(Problem::new(CauseKind::DatabaseMissing, reason, directory).doubtful());
    }
    evidence.trail.saw(format!(
        "{} for {}",
        counted(own.len(), "file there is", "files there are"),
        device.processor()
    ));
    own.iter().try_for_each(|name| check(files, &listing.path(name)))?;
    missing(&listing, &own).map_or(Ok(()), Err)
}

/// Whether a file is for a GPU by its name.
fn is_for(name: &str, device: &TargetId) -> bool {
    let path = EntryPath::new(format!("miopen/db/{name}").as_bytes()).ok();
    let arch = path.and_then(|path| Handler::Miopen.named_arch(&path));
    matches!(arch, Some(Arch::Target(target)) if target.processor() == device.processor())
}

/// Checks a file (`ReadonlyRamDb::ParseAndLoadDb` in ROCm/rocm-libraries 9d35ab7c, and `SQLiteBase` for compiled kernels).
fn check(files: &dyn LibraryFiles, path: &Path) -> Result<(), Problem> {
    if !files.is_readable(path) {
        return Err(denied(files, path));
    }
    let is_empty = files.open(path).is_some_and(|it| it.size() == 0);
    let reason = format!("{} is damaged: it is empty", path.display());
    if is_empty { Err(Problem::new(CauseKind::DatabaseDamaged, reason, path)) } else { Ok(()) }
}

/// A file that is missing although files for the GPU are there that go with it.
fn missing(listing: &DatabaseListing, own: &[&str]) -> Option<Problem> {
    let search = own.iter().filter_map(|name| name.strip_suffix(TUNING)).map(|stem| format!("{stem}{SEARCH}"));
    if let Some(name) = search.into_iter().find(|name| !listing.has(name)) {
        let path = listing.path(&name);
        let reason = format!("{} is missing, so MIOpen searches again for the kernels of each layer", path.display());
        return Some(Problem::new(CauseKind::DatabaseFileMissing, reason, path));
    }
    let has_kernels = own.iter().any(|name| name.ends_with(KERNELS));
    let other = listing.ending(&[KERNELS]).next().filter(|_| !has_kernels)?;
    let reason = format!(
        "{} has compiled kernels ({other}), and none for this GPU, so MIOpen compiles them at their first use",
        listing.directory.display()
    );
    let name = own.iter().find_map(|name| name.strip_suffix(SEARCH).or_else(|| name.strip_suffix(TUNING)));
    let path = listing.path(&format!("{}{KERNELS}", name.unwrap_or("GPU")));
    let prints = format!("Missing system database file: {} Performance may degrade.", path.display());
    Some(Problem::new(CauseKind::DatabaseFileMissing, reason, path).printing(prints))
}

fn denied(files: &dyn LibraryFiles, path: &Path) -> Problem {
    files.denied(path).printing(format!("File is unreadable: {}", files.place(path).display()))
}
