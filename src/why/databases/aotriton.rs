//! AOTriton's images: `aotriton.images/amd-<arch>/flash/`, with a zip file or a directory for each kernel.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::listing::{DatabaseListing, NoListing, is_readable};
use super::place::DatabasePlace;
use super::problem::{self, Problem};
use crate::database::{Arch, Handler};
use crate::disk;
use crate::gpu::{BundleKey, TargetId};
use crate::source::EntryPath;
use crate::why::answer::DatabaseLookup;

/// The kernels that attention needs on each GPU, in all versions from 0.8 to 0.12. Others are for some GPUs only.
const KERNELS: [&str; 4] = ["attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_preprocess"];

/// The directory with all images.
const DIRECTORY: &str = "aotriton.images";

/// How the files begin: local headers of zip files, and `AKS2` (`packed_kernel_common.cc`).
const MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"AKS2"];

/// The most files of a directory whose beginnings are read.
const MAX_FILES: usize = 4096;

/// Follows AOTriton.
pub(super) fn look_up(place: &DatabasePlace, device: &TargetId, lookup: &mut DatabaseLookup) -> Option<Problem> {
    let base = &place.directory;
    let listing = match DatabaseListing::of(base) {
        Ok(listing) => listing,
        Err(NoListing::Denied) => return Some(denied(base)),
        Err(NoListing::Absent) => {
            let reason = format!("{} is not there", base.display());
            return Some(printing(base, Problem::new(&problem::DATABASE_MISSING, reason, base).doubtful()));
        }
    };
    lookup.directory = Some(base.display().to_string());
    let own: Vec<_> = listing.names.iter().filter(|name| is_for(name, device)).collect();
    if own.is_empty() {
        let others: Vec<_> = listing.names.iter().filter_map(|name| name.strip_prefix("amd-")).collect();
        let has = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        let reason = format!("{} has no images for {}; it has {has}", base.display(), device.processor());
        return Some(printing(base, Problem::new(&problem::DATABASE_MISSING, reason, base).doubtful()));
    }
    let checked = own.iter().map(|name| check(&listing.path(name), lookup));
    // Older versions had one directory for gfx11xx, newer ones two. One of them has to be complete.
    let problems: Vec<_> = checked.collect();
    if problems.iter().any(Option::is_none) { None } else { problems.into_iter().flatten().next() }
}

/// Whether a directory has images for a GPU.
fn is_for(name: &str, device: &TargetId) -> bool {
    let path = EntryPath::new(format!("{DIRECTORY}/{name}/flash").as_bytes()).ok();
    match path.and_then(|path| Handler::Aotriton.named_arch(&path)) {
        Some(Arch::Target(target)) => target.processor() == device.processor(),
        Some(Arch::Bundle(key)) => BundleKey::of(device).packaging_chain().contains(&key),
        None => false,
    }
}

/// Checks the images of one directory.
fn check(directory: &Path, lookup: &mut DatabaseLookup) -> Option<Problem> {
    let flash = directory.join("flash");
    let listing = match DatabaseListing::of(&flash) {
        Ok(listing) => listing,
        Err(NoListing::Denied) => return Some(denied(&flash)),
        Err(NoListing::Absent) => {
            let reason = format!("{} is missing", flash.display());
            return Some(printing(&flash, Problem::new(&problem::DATABASE_FILE_MISSING, reason, &flash)));
        }
    };
    lookup.saw(format!("{} has {} kernels", flash.display(), listing.names.len()));
    for kernel in KERNELS {
        let zip = format!("{kernel}.zip");
        if listing.has(kernel) {
            if let Some(problem) = check_directory(&listing.path(kernel)) {
                return Some(problem);
            }
        } else if !listing.has(&zip) {
            let path = flash.join(&zip);
            let reason = format!("{}/{kernel} is missing, a kernel of attention", flash.display());
            return Some(printing(&path, Problem::new(&problem::DATABASE_FILE_MISSING, reason, &path)));
        } else if let Some(problem) = check_file(&listing.path(&zip)) {
            return Some(problem);
        }
    }
    None
}

fn check_directory(directory: &Path) -> Option<Problem> {
    match DatabaseListing::of(directory) {
        Ok(listing) if listing.names.is_empty() => {
            let reason = format!("{} is empty", directory.display());
            Some(Problem::new(&problem::DATABASE_FILE_MISSING, reason, directory))
        }
        Ok(listing) => listing.ending(&[".aks2"]).take(MAX_FILES).find_map(|name| check_file(&listing.path(name))),
        Err(_) => Some(denied(directory)),
    }
}

/// Checks how a file begins.
fn check_file(path: &Path) -> Option<Problem> {
    if !is_readable(path) {
        return Some(denied(path));
    }
    let mut beginning = Vec::new();
    let read = disk::open(path).and_then(|(file, _)| file.take(4).read_to_end(&mut beginning));
    let is_known = read.is_ok() && MAGICS.contains(&&*beginning);
    let reason = format!("{} is damaged: it is no archive of images", path.display());
    (!is_known).then(|| Problem::new(&problem::DATABASE_DAMAGED, reason, path))
}

fn denied(path: &Path) -> Problem {
    printing(path, Problem::denied(path))
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
