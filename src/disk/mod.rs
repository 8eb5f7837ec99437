//! Files: access to those that other programs may have replaced, locked or leased, without hanging; everything that is
//! written or kept, with its quota; the list of mounts.

mod cache;
mod lock;
mod mountinfo;
mod new_file;
mod open;
mod rename;
mod scratch;
mod staging;
mod stopped;
mod write;

pub(crate) use cache::{check_cache, create_cache};
pub(crate) use lock::{Deadline, LockKind, lock_directory, try_lock};
pub(crate) use mountinfo::{
    KPACKFS, MAX_LINKS, MOUNTINFO, MountEntry, absolute_mount_point, dead_mount, is_dead, list_all_mounts,
    mount_around, mounts_below, topmost_mount,
};
pub(crate) use new_file::{Durability, NewFile, create_private, is_orphaned, parent, sync_directory, sync_filesystem};
pub(crate) use open::{beside, open, open_listed, open_with, read, read_to_string};
pub(crate) use rename::{ASIDE, exchange, rename_new};
pub(crate) use rocm_kpack::NotRegular;
pub(crate) use scratch::{
    GRAIN, Scratch, ScratchError, ScratchFile, ScratchLease, free_bytes, half, is_writable_disk, temporary_directory,
};
pub(crate) use staging::{PREFIX, Staging, delete, delete_abandoned};
pub(crate) use stopped::{StoppedMount, check_answers, find_stopped, leads_to_stopped, stopped_mount_of};
pub(crate) use write::write_at;
