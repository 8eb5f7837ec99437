//! Options about memory, disk space and threads.

use std::path::{Path, PathBuf};
use std::sync::Once;

use clap::Args;

use crate::cli::confinement::Opens;
use crate::cli::memory::MemoryOption;
use crate::cli::terminal::warn;
use crate::disk::{Scratch, check_cache};
use crate::index::FrameStore;

/// The resources of a command that plans a split.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ResourceOptions {
    #[command(flatten)]
    pub(in crate::cli) cache: CacheOptions,

    /// Keep compressed code objects on disk, up to this size
    ///
    /// The size is that for all inputs, and at most half of the free space; 0 keeps none. `split` keeps them only if this option
    /// is given. The default is 4096.
    #[arg(long, value_name = "MIB", alias = "keep-frames", value_parser = clap::value_parser!(u64).range(0..=1 << 30), help_heading = "Resources", hide_short_help = true)]
    frame_cache: Option<u64>,

    /// The most that temporary files take on disk
    ///
    /// They are unpacked tar archives, and code objects until they are written. The default is half of the free space.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30), help_heading = "Resources", hide_short_help = true)]
    scratch: Option<u64>,

    /// Unpack tar archives to more than 1,000 times their size
    ///
    /// Archives do that which were made to fill a disk. The error names the option.
    #[arg(long, help_heading = "Resources", hide = true)]
    pub(in crate::cli) allow_ratio: bool,

    #[command(flatten)]
    pub(in crate::cli) memory: MemoryOption,

    #[command(flatten)]
    pub(in crate::cli) threads: ThreadOptions,
}

impl ResourceOptions {
    /// What a command with these options opens in addition. The cache is not opened if other users may write to it.
    pub(in crate::cli) fn opens(&self, opens: Opens) -> Opens {
        let cache = &self.cache;
        let is_checked = |directory: &PathBuf| check_cache(directory, cache.is_named()).is_ok();
        opens.cache(cache.directory().filter(is_checked)).temporary()
    }

    /// Whether compressed code objects are kept on disk because the user says so.
    pub(in crate::cli) fn keeps_frames(&self) -> bool {
        self.frame_cache.is_some_and(|mib| mib > 0) && self.cache.directory().is_some()
    }

    /// The frame store of an input, with this cache directory.
    pub(in crate::cli) fn frame_store(&self, cache: Option<&Path>, input: &Path) -> FrameStore {
        let [frames, scratch] = [self.frame_cache, self.scratch].map(|size| size.map(|size| size << 20));
        FrameStore::open(cache, input, frames).with_scratch(Scratch::new(scratch, self.allow_ratio))
    }
}

/// The number of threads.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(in crate::cli) struct ThreadOptions {
    /// Number of threads [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_JOBS), help_heading = "Resources", hide_short_help = true)]
    pub(in crate::cli) jobs: Option<u16>,
}

/// More threads than any machine has cores would only use memory.
pub(super) const MAX_JOBS: i64 = 1024;

/// The location of indexes, if there are any.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct CacheOptions {
    #[command(flatten)]
    place: CachePlace,

    /// Neither read nor write the cache directory
    #[arg(long, help_heading = "Resources", hide_short_help = true)]
    no_cache: bool,
}

/// The location of indexes.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct CachePlace {
    /// Directory of the indexes, which store results about each input
    ///
    /// The default is the value of the variable `KPACKFS_CACHE_DIR`, or kpackfs in `XDG_CACHE_HOME`, which is ~/.cache by default. An
    /// empty `KPACKFS_CACHE_DIR` means none.
    #[arg(long, value_name = "DIR", global = true, help_heading = "Resources", hide_short_help = true)]
    cache_dir: Option<PathBuf>,
}

impl CacheOptions {
    /// The directory, unless other users may write to it. That is reported once.
    pub(in crate::cli) fn safe_directory(&self) -> Option<PathBuf> {
        static REPORT: Once = Once::new();
        let directory = self.directory()?;
        let checked = check_cache(&directory, self.is_named()).inspect_err(|error| {
            let what = "it is not used for indexes and compressed code objects; name another one with --cache-dir";
            REPORT.call_once(|| warn(&format!("{}: {error}, so {what}", directory.display())));
        });
        checked.ok().map(|()| directory)
    }

    /// The directory; `None` if indexes are disabled, which an empty variable does, too.
    pub(in crate::cli) fn directory(&self) -> Option<PathBuf> {
        if self.no_cache { None } else { self.place.directory() }
    }

    /// Whether the user has named one.
    fn is_named(&self) -> bool {
        self.place.cache_dir.is_some()
    }
}

impl CachePlace {
    /// The directory; `None` if there is none.
    pub(in crate::cli) fn directory(&self) -> Option<PathBuf> {
        let named = self.cache_dir.clone().or_else(default_directory);
        let directory = named.filter(|directory| !directory.as_os_str().is_empty())?;
        // A daemon writes to it after changing its working directory.
        Some(std::path::absolute(&directory).unwrap_or(directory))
    }
}

/// The directory in the variable, or else the user's cache directory (XDG Base Directory Specification).
fn default_directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KPACKFS_CACHE_DIR") {
        return Some(named.into());
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let above = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    above.map(|above| above.join("kpackfs"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::MAX_JOBS;
    use crate::cli::Cli;

    #[test]
    fn numbers_that_would_take_the_whole_machine_are_refused() {
        for (option, least, most) in [("--jobs", 1, MAX_JOBS), ("--memory", 16, 1 << 20)] {
            for (number, is_taken) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
                let number = number.to_string();
                let cli = Cli::try_parse_from(["kpackfs", "split", "a.whl", "--output", "out", option, &number]);
                assert_eq!(cli.is_ok(), is_taken, "{option} {number}");
            }
        }
    }
}
