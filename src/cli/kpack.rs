//! `kpackfs kpack`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::json;
use super::table::size;
use super::terminal::escaped;
use super::unbundle::{new_file, unbundle};
use crate::gpu::TargetId;
use crate::kpack::Reader;
use crate::memory::Budget;
use crate::resources::Resources;
use crate::source::open_file;

/// Open .kpack archives, fat binaries and offload bundles
#[derive(Debug, Args)]
pub(super) struct Kpack {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the code objects of an archive
    List {
        /// The archive
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the code objects of an archive to files
    Extract {
        /// The archive
        file: PathBuf,
        /// Directory to write to
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// Only this binary, as the archive names it, with or without #INDEX
        #[arg(long, value_name = "NAME")]
        binary: Option<String>,
        /// Only this target
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
    },
    /// Write the code objects of fat binaries and of offload bundles, compressed or not, to files
    Unbundle {
        /// Binaries or bundles
        #[arg(required = true)]
        file: Vec<PathBuf>,
        /// Directory to write to
        #[arg(short, long, value_name = "DIR", alias = "output-dir")]
        output: PathBuf,
        /// Only this target; without features it stands for all with the same processor
        #[arg(long, value_name = "TARGET", alias = "gfx-arch")]
        target: Option<TargetId>,
    },
}

impl Kpack {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Command::List { file, json } => list(file, *json)?,
            Command::Extract { file, output, binary, target } => {
                extract(file, output, binary.as_deref(), target.as_deref())?;
            }
            Command::Unbundle { file, output, target } => unbundle(file, output, target.as_ref())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn open(file: &Path) -> anyhow::Result<Reader> {
    let content = open_file(file, &Resources::new(0))?;
    Reader::open(Arc::clone(&content)).with_context(|| file.display().to_string())
}

fn list(file: &Path, as_json: bool) -> anyhow::Result<()> {
    let reader = open(file)?;
    let mut out = std::io::stdout().lock();
    if as_json {
        return json::write(&mut out, reader.toc());
    }
    let toc = reader.toc();
    let (group, targets, scheme) = (&toc.group_name, toc.gfx_arches.join(" "), &toc.compression_scheme);
    writeln!(out, "{}", escaped(&format!("group {group}, targets {targets}, compression {scheme}")))?;
    for (key, target, entry) in reader.entries() {
        let stored = reader.stored_size(entry).map_or_else(|| "?".to_owned(), size);
        let line = format!("{key}  {target}  {}  stored {stored}", size(entry.original_size));
        writeln!(out, "{}", escaped(&line))?;
    }
    Ok(())
}

fn extract(file: &Path, output: &Path, binary: Option<&str>, target: Option<&str>) -> anyhow::Result<()> {
    let reader = open(file)?;
    // One code object at a time takes what its frame needs.
    let budget = Budget::new(0);
    let is_wanted = |key: &str, of: &str| {
        let name = key.rsplit_once('#').map_or(key, |(name, _)| name);
        binary.is_none_or(|binary| binary == key || binary == name) && target.is_none_or(|target| target == of)
    };
    let mut count = 0;
    for (key, target, entry) in reader.entries().filter(|(key, target, _)| is_wanted(key, target)) {
        let path = output.join(file_name(key, target)?);
        let directory = path.parent().unwrap_or(output);
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let mut new = new_file(&path)?;
        let read = reader.read(entry, &budget, |piece| new.write_all(piece));
        read.with_context(|| format!("{}: {key}, {target}", file.display()))?;
        new.persist(&path).with_context(|| path.display().to_string())?;
        count += 1;
    }
    if count == 0 {
        bail!("{}: there is no such code object in it", file.display());
    }
    Ok(())
}

/// `lib/libx.so#0` for `gfx942` becomes `lib/libx.so.0.gfx942.hsaco`; a name that leaves the directory is refused.
fn file_name(key: &str, target: &str) -> anyhow::Result<PathBuf> {
    let name = format!("{}.{target}.hsaco", key.replace('#', "."));
    let path = crate::source::EntryPath::new(name.as_bytes()).with_context(|| format!("{name:?}"))?;
    Ok(path.as_path().to_owned())
}
