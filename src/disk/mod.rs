//! Access to files that other programs may have replaced, locked or leased, without hanging; the list of mounts.

mod lock;
mod mountinfo;
mod open;

#[cfg(test)]
pub(crate) use lock::LOCK_TIMEOUT;
pub(crate) use lock::{Deadline, LockKind, try_lock};
pub(crate) use mountinfo::{MOUNTINFO, MountEntry, absolute_mount_point, list_all_mounts, topmost_mount};
pub(crate) use open::{MAX_TEXT, open, open_listed, open_with, read, read_to_string};
pub(crate) use rocm_kpack::NotRegular;
