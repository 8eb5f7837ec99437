//! Access to files that other programs may have replaced, locked or leased, without hanging.

mod lock;
mod open;

#[cfg(test)]
pub(crate) use lock::LOCK_TIMEOUT;
pub(crate) use lock::{Deadline, LockKind, try_lock};
pub(crate) use open::{open, open_listed, open_with, read, read_to_string};
pub(crate) use rocm_kpack::NotRegular;
