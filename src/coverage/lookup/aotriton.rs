//! AOTriton's images: `aotriton.images/amd-<arch>/flash/`, with a zip file or a directory for each kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::{LibraryFiles, NoListing};
use super::listing::DatabaseListing;
use super::place::DatabaseSearch;
use super::problem::{Problem, Severity};
use super::trail::LookupEvidence;
use crate::coverage::cause::CauseKind;
use crate::database::Handler;
use crate::gpu::TargetId;
use crate::source::EntryPath;

/// The kernels that attention needs on each GPU, in all versions from 0.8 to 0.12. Others are for some GPUs only.
const KERNELS: [&str; 4] = ["attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_preprocess"];

/// The directory with all images.
const DIRECTORY: &str = "aotriton.images";

/// How the files begin: local headers of zip files, and `AKS2` (`packed_kernel_common.cc`).
const MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"AKS2"];

/// The most files of a directory whose beginnings are read.
const MAX_FILES: usize = 4096;

/// Follows AOTriton.
pub(super) fn look_up(search: &DatabaseSearch<'_>, evidence: &mut LookupEvidence) -> Result<(), Problem> {
    let DatabaseSearch { files, place, device, .. } = *search;
    let base = &place.directory;
    let listing = DatabaseListing::of_database(files, base, evidence, |files, path| files.denied(path));
    let listing = listing.map_err(|problem| printing(base, problem))?;
    let (own, others): (Vec<_>, Vec<_>) = listing.names.iter().partition(|name| is_for(name, device));
    if own.is_empty() {
        let others: Vec<_> = others.iter().filter_map(|name| name.strip_prefix("amd-")).collect();
        let has = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        let reason = format!("{} has no images for {}; it has {has}", base.display(), device.processor());
        return Err(printing(base, Problem::new(CauseKind::DatabaseMissing, reason, base).doubtful()));
    }
    let of_others = others.iter().filter_map(|name| files.list(&listing.path(name).join("flash")).ok());
    let of_others: BTreeSet<_> = of_others.flatten().collect();
    let checked = own.iter().map(|name| check(files, &listing.path(name), &of_others, evidence));
    // Older versions had one directory for gfx11xx, newer ones two. One of them has to be complete.
    let checked: Vec<_> = checked.collect();
    if checked.iter().any(Result::is_ok) {
        return Ok(());
    }
    let problems = checked.into_iter().filter_map(Result::err);
    problems.min_by_key(|problem| problem.severity != Severity::Remark).map_or(Ok(()), Err)
}

/// Whether a directory has images for a GPU.
fn is_for(name: &str, device: &TargetId) -> bool {
    let path = EntryPath::new(format!("{DIRECTORY}/{name}/flash").as_bytes()).ok();
    path.and_then(|path| Handler::Aotriton.named_arch(&path)).is_some_and(|arch| arch.is_for(device))
}

/// Checks the images of one directory. A kernel that `others` have none of either was left out of the build, as the backward
/// ones are of a build for inference.
fn check(
    files: &dyn LibraryFiles,
    directory: &Path,
    others: &BTreeSet<String>,
    evidence: &mut LookupEvidence,
) -> Result<(), Problem> {
    let flash = directory.join("flash");
    let listing = DatabaseListing::of(files, &flash).map_err(|error| match error {
        NoListing::Denied => denied(files, &flash),
        NoListing::Absent | NoListing::Outside => {
            let reason = format!("{} is missing", flash.display());
            printing(&flash, Problem::new(CauseKind::DatabaseFileMissing, reason, &flash))
        }
    })?;
    evidence.trail.saw(format!("{} has {} kernels", flash.display(), listing.names.len()));
    let has_any = KERNELS.iter().any(|kernel| listing.has(kernel) || listing.has(&format!("{kernel}.zip")));
    let mut left_out = Ok(());
    for kernel in KERNELS {
        let zip = format!("{kernel}.zip");
        let is_built = || others.contains(kernel) || others.contains(&zip);
        if listing.has(kernel) {
            check_directory(files, &listing.path(kernel))?;
        } else if listing.has(&zip) {
            check_file(files, &listing.path(&zip))?;
        } else if has_any && !is_built() {
            let reason = format!("{} has no {kernel}, and no other GPU has it", flash.display());
            let problem = Problem::new(CauseKind::DatabaseFileMissing, reason, flash.join(&zip)).remark();
            left_out = left_out.and(Err(problem));
        } else {
            let path = flash.join(&zip);
            let reason = format!("{}/{kernel} is missing, a kernel of attention", flash.display());
            return Err(printing(&path, Problem::new(CauseKind::DatabaseFileMissing, reason, &path)));
        }
    }
    left_out
}

fn check_directory(files: &dyn LibraryFiles, directory: &Path) -> Result<(), Problem> {
    let listing = DatabaseListing::of(files, directory).map_err(|_| denied(files, directory))?;
    if listing.names.is_empty() {
        let reason = format!("{} is empty", directory.display());
        return Err(Problem::new(CauseKind::DatabaseFileMissing, reason, directory));
    }
    listing.ending(&[".aks2"]).take(MAX_FILES).try_for_each(|name| check_file(files, &listing.path(name)))
}

/// Checks how a file begins.
fn check_file(files: &dyn LibraryFiles, path: &Path) -> Result<(), Problem> {
    if !files.is_readable(path) {
        return Err(denied(files, path));
    }
    let beginning = files.open(path).and_then(|it| it.beginning(4).ok());
    let is_known = beginning.is_some_and(|beginning| MAGICS.contains(&&beginning[..]));
    let reason = format!("{} is damaged: it is no archive of images", path.display());
    if is_known { Ok(()) } else { Err(Problem::new(CauseKind::DatabaseDamaged, reason, path)) }
}

fn denied(files: &dyn LibraryFiles, path: &Path) -> Problem {
    printing(&files.place(path), files.denied(path))
}

/// What AOTriton prints if it cannot open a file: its path below `aotriton.images` (`PackedKernel::open` in
/// `packed_kernel_common.cc`). The caller gets `hipErrorInvalidImage` (`OnDeviceKernel::load_for_device` in
/// `on_device_kernel.cc`).
fn printing(path: &Path, problem: Problem) -> Problem {
    let mut names: Vec<_> = path.iter().rev().take_while(|name| *name != DIRECTORY).collect();
    names.reverse();
    let zip = names.iter().collect::<PathBuf>();
    let zip = if names.is_empty() { "amd-…/flash/….zip".to_owned() } else { zip.display().to_string() };
    problem.printing(format!(
        "PackedKernel::open: failed to open zip {zip} (with AOTRITON_DEBUG_LEVEL=4; HIP returns hipErrorInvalidImage)"
    ))
}
