//! `kpackfs cache`.

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::json;
use super::options::CachePlace;
use super::said;
use super::table::{counted, size};
use super::terminal::{message, stdout};
use crate::disk::check_cache;
use crate::index::{self, CacheEntry, FramesUsage};

const DAY: Duration = Duration::from_secs(86_400);

/// List or delete cached indexes and compressed code objects
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:\n  kpackfs cache list\n  kpackfs cache prune --older-than 30")]
pub(super) struct CacheArguments {
    #[command(subcommand)]
    command: CacheCommand,

    #[command(flatten)]
    place: CachePlace,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List the indexes, and the size of compressed code objects
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove indexes whose input is gone or has changed, and old ones
    Prune {
        /// Remove indexes that were not written for this many days
        #[arg(long, value_name = "DAYS", default_value_t = 60)]
        older_than: u32,
    },
    /// Remove all indexes and compressed code objects
    Clear,
}

/// The listing. Sizes are in bytes, times in seconds since 1970.
#[derive(Serialize)]
struct CacheListing<'a> {
    indexes: Vec<ListedIndex<'a>>,
    code_objects: &'a FramesUsage,
}

/// An index in the listing.
#[derive(Serialize)]
struct ListedIndex<'a> {
    file: Cow<'a, str>,
    input: Option<Cow<'a, str>>,
    size: u64,
    written: u64,
    usable: bool,
}

impl CacheArguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let Some(folder) = self.place.directory() else {
            bail!("there is no directory of indexes; name one with --cache-dir or KPACKFS_CACHE_DIR");
        };
        let is_read_only = matches!(self.command, CacheCommand::List { .. });
        if !is_read_only {
            check_cache(&folder, true).with_context(|| folder.display().to_string())?;
        }
        let kept = index::list(&folder)?;
        let explain = || folder.display().to_string();
        match &self.command {
            CacheCommand::List { json } => {
                let frames = index::frames_usage(&folder).with_context(explain)?;
                if *json {
                    list_json(&kept, &frames)?;
                } else {
                    list(&kept, &frames)?;
                }
                if kept.is_empty() && frames.inputs == 0 {
                    said::say(&format!("nothing is kept in {}", folder.display()));
                }
            }
            CacheCommand::Prune { older_than } => {
                index::remove_orphans(&folder)?;
                let age = |kept: &CacheEntry| SystemTime::now().duration_since(kept.modified).unwrap_or_default();
                let is_outdated = |kept: &&CacheEntry| !kept.is_usable || age(kept) > DAY * *older_than;
                remove(kept.iter().filter(is_outdated))?;
                // Frames without an index belong to an input whose planning was interrupted.
                let current: Vec<_> =
                    kept.iter().filter(|kept| !is_outdated(kept)).filter_map(CacheEntry::stem).collect();
                let is_outdated = |name: &str| !current.contains(&name);
                say_removed(&index::remove_frames(&folder, is_outdated).with_context(explain)?);
            }
            CacheCommand::Clear => {
                index::remove_orphans(&folder)?;
                remove(kept.iter())?;
                say_removed(&index::remove_frames(&folder, |_| true).with_context(explain)?);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn say_removed(removed: &FramesUsage) {
    if removed.inputs == 0 {
        return;
    }
    said::say(&format!("removed {}, {}", code_objects_of(removed.inputs), size(removed.size)));
}

fn code_objects_of(inputs: usize) -> String {
    format!("compressed code objects of {}", counted(inputs, "input", "inputs"))
}

fn list_json(kept: &[CacheEntry], frames: &FramesUsage) -> anyhow::Result<()> {
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let indexes = kept.iter().map(|kept| ListedIndex {
        file: kept.path.to_string_lossy(),
        input: kept.location.as_ref().map(|location| location.to_string_lossy()),
        size: kept.size,
        written: seconds(kept.modified),
        usable: kept.is_usable,
    });
    json::write(&mut stdout(), &CacheListing { indexes: indexes.collect(), code_objects: frames })
}

fn list(kept: &[CacheEntry], frames: &FramesUsage) -> anyhow::Result<()> {
    let mut out = stdout();
    for kept in kept {
        let input = kept.location.as_ref().map_or_else(|| kept.path.display(), |location| location.display());
        let state = match (&kept.location, kept.is_usable) {
            (_, true) => "",
            (Some(_), false) => "  (the input is gone, or its content or metadata has changed)",
            (None, false) => "  (damaged, or of another version)",
        };
        writeln!(out, "{:>10}  {}{state}", size(kept.size), message(&input))?;
    }
    if frames.inputs > 0 {
        writeln!(out, "{:>10}  {}", size(frames.size), code_objects_of(frames.inputs))?;
    }
    Ok(())
}

fn remove<'a>(kept: impl Iterator<Item = &'a CacheEntry>) -> anyhow::Result<()> {
    let (mut count, mut bytes) = (0_usize, 0);
    for kept in kept {
        kept.remove()?;
        count += 1;
        bytes += kept.size;
    }
    said::say(&match count {
        0 => "no index had to be removed".to_owned(),
        _ => format!("removed {}, {}", counted(count, "index", "indexes"), size(bytes)),
    });
    Ok(())
}
