//! The option `--memory`.

use anyhow::bail;
use clap::Args;
use rustix::process::{Resource, getrlimit};

use super::table::size;
use crate::memory::limit_tables;

/// The default, in MiB.
const MIB: u64 = 256;

/// How much memory a command takes.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct MemoryOption {
    /// Memory for caches and buffers
    ///
    /// At most half of it also is for tables of the input.
    #[arg(long = "memory", value_name = "MIB", default_value_t = MIB, global = true, value_parser = clap::value_parser!(u64).range(16..=1 << 20), help_heading = "Resources", hide_short_help = true)]
    mib: u64,
}

impl Default for MemoryOption {
    fn default() -> Self {
        Self { mib: MIB }
    }
}

impl MemoryOption {
    pub(super) fn bytes(self) -> u64 {
        self.mib << 20
    }

    /// Half of it, as far as that may be given, for each of two inputs.
    pub(super) fn halved(self) -> Self {
        Self { mib: (self.mib / 2).max(16) }
    }

    /// Applies it to the tables of the input. Returns the number of bytes. Fails if the address space is limited to less.
    pub(super) fn limit(self) -> anyhow::Result<u64> {
        check_address_space(self.bytes())?;
        limit_tables(self.bytes());
        Ok(self.bytes())
    }
}

/// Address space in addition to --memory, in bytes: stacks, the program itself, and the list of an input.
const HEADROOM: u64 = 192 << 20;

/// Fails if the address space is limited (`ulimit -v`) to less than this much memory needs. Running out of it would
/// abort the process.
pub(super) fn check_address_space(memory: u64) -> anyhow::Result<()> {
    let needed = memory.saturating_add(HEADROOM);
    match getrlimit(Resource::As).current {
        Some(limit) if limit < needed => bail!(
            "the address space is limited to {} (ulimit -v), and {} are needed; raise the limit{}",
            size(limit),
            size(needed),
            if memory > 0 { ", or lower --memory" } else { "" }
        ),
        _ => Ok(()),
    }
}
