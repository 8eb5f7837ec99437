//! Core dumps, capabilities and new privileges.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// A limit of 0 bytes does not count where dumps go to a program; one of 1 byte does (kernel, fs/coredump.c), and no file is as short.
const NO_CORE: u64 = 1;

pub(super) fn refuse_core_dumps() -> io::Result<String> {
    let limit = Some(getrlimit(Resource::Core).maximum.map_or(NO_CORE, |most| most.min(NO_CORE)));
    setrlimit(Resource::Core, Rlimit { current: limit, maximum: limit })?;
    Ok("refused".to_owned())
}

pub(super) fn keep_capabilities(kept: CapabilitySet) -> io::Result<String> {
    let now = capabilities(None)?;
    let (effective, permitted) = (now.effective & kept, now.permitted & kept);
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() })?;
    let names: Vec<_> = permitted.iter_names().map(|(name, _)| name).collect();
    Ok(if names.is_empty() { "none".to_owned() } else { format!("only {}", names.join(", ")) })
}

pub(super) fn refuse_new_privileges() -> io::Result<String> {
    set_no_new_privs(true)?;
    Ok("refused".to_owned())
}

/// Whether this thread may call mount(2), so that it needs no set-user-ID helper.
pub(crate) fn can_mount() -> bool {
    capabilities(None).is_ok_and(|now| now.effective.contains(CapabilitySet::SYS_ADMIN))
}
