//! Whether a tree can be mounted at a place.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use rustix::io::Errno;

use super::{FILESYSTEM_TYPE, MountError, MountOptions, Transport, all_mounts};
use crate::disk::{MountEntry, absolute_mount_point, is_dead, mount_around, topmost_mount};
use crate::fs::check_rings;

/// A mount point or device that can be served.
#[derive(Debug)]
pub(crate) enum MountTarget {
    /// This directory, an absolute path.
    Directory(PathBuf),
    /// The FUSE device with this number, which has been mounted already.
    Handed(RawFd),
}

/// Checks the mount point.
pub(crate) fn check(options: &MountOptions) -> Result<MountTarget, MountError> {
    if options.transport == Transport::Uring {
        check_rings()?;
    }
    let path = &options.mount_point;
    if let Some(number) = path.to_str().and_then(|path| path.strip_prefix("/dev/fd/")?.parse().ok()) {
        return check_device(path, number);
    }
    let failed = |source| MountError::MountPoint { path: path.clone(), source };
    let place = match absolute_mount_point(path) {
        Ok(place) => place,
        Err(error) => {
            // In a mount of kpackfs, nobody can create it.
            check_around(&all_mounts()?, &std::path::absolute(path).map_err(failed)?, &options.source)?;
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            return Err(if is_missing { MountError::NoDirectory(path.clone()) } else { failed(error) });
        }
    };
    // One list for both: what another process mounts here in between would be taken for a mount around this place.
    let mounts = all_mounts()?;
    check_free(&mounts, &place)?;
    check_around(&mounts, &place, &options.source)?;
    // Another filesystem may be there, such as autofs below a mount that systemd makes on demand. autofs ignores
    // accesses from mount(8)'s process group, so a daemon leaves that group only after it has mounted.
    if !std::fs::metadata(&place).map_err(failed)?.is_dir() {
        return Err(MountError::NotADirectory(place));
    }
    // Reads of a covered input would come back to this mount and wait for themselves.
    let input = options.source.canonicalize().unwrap_or_else(|_| options.source.clone());
    if input.starts_with(&place) {
        return Err(MountError::CoversInput { path: place, input });
    }
    // So is a file in a directory of the input.
    let covered = place.starts_with(&input).then(|| place.read_dir().map_err(failed)).transpose()?;
    if let Some(first) = covered.and_then(|mut entries| entries.find_map(Result::ok)) {
        return Err(MountError::CoversInput { path: place, input: first.path() });
    }
    Ok(MountTarget::Directory(place))
}

/// Fails if a kpackfs is mounted there, dead or not.
pub(super) fn check_free(mounts: &[MountEntry], place: &Path) -> Result<(), MountError> {
    let ours = topmost_mount(mounts, place).filter(|entry| entry.kind == FILESYSTEM_TYPE);
    ours.map_or(Ok(()), |entry| {
        let (path, source_name) = (place.to_owned(), entry.source.to_string_lossy().into_owned());
        Err(if is_dead(place) { MountError::Stale(path) } else { MountError::AlreadyMounted { path, source_name } })
    })
}

/// Fails if a mount point is in a mount whose daemon is gone, in a mount of the input, or in the mount that contains the
/// input: one would be read through the other.
fn check_around(mounts: &[MountEntry], place: &Path, source: &Path) -> Result<(), MountError> {
    let Some(around) = mount_around(mounts, place).filter(|mount| mount.kind == FILESYSTEM_TYPE) else { return Ok(()) };
    let (path, mount) = (place.to_owned(), around.mount_point.clone());
    if is_dead(&mount) {
        return Err(MountError::InDeadMount { path, mount });
    }
    let input = source.canonicalize().unwrap_or_else(|_| source.to_owned());
    let is_of_input = [source, &*input].iter().any(|input| around.source == input.as_os_str());
    if is_of_input || input.starts_with(&mount) {
        return Err(MountError::InOwnMount { path, mount, input });
    }
    Ok(())
}

/// The numbers of /dev/fuse: `MISC_MAJOR` and `FUSE_MINOR` in the kernel.
const FUSE_DEVICE: (u32, u32) = (10, 229);

fn check_device(path: &Path, number: RawFd) -> Result<MountTarget, MountError> {
    let failed = |source| MountError::Handed { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let device = (major(metadata.rdev()), minor(metadata.rdev()));
    if metadata.file_type().is_char_device() && device == FUSE_DEVICE {
        Ok(MountTarget::Handed(number))
    } else {
        Err(failed(Errno::NODEV.into()))
    }
}
