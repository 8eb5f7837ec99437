//! `kpackfs kpack`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::confinement::Opens;
use super::memory::MemoryOption;
use super::output_name::directory;
use super::pack::{self, Create};
use super::progress::show_bytes;
use super::replacing::Replacing;
use super::said::{SaidOptions, WrittenOutput};
use super::table::{counted, size};
use super::terminal::{escaped, stdout, warn};
use super::unbundle::{CODE_OBJECTS, file_name, unbundle};
use super::{interrupt, json};
use crate::export::{Inputs, NewFiles};
use crate::fatbin::{CODE_HEADER, is_bundle};
use crate::gpu::TargetId;
use crate::kpack::{ArchiveReader, TocEntry};
use crate::memory::Budget;
use crate::metrics::Progress;
use crate::near::near;
use crate::opened::check_there;
use crate::resources::Resources;
use crate::source::{begins_binary, open_file};
use crate::threads;

/// List, extract and create .kpack archives and offload bundles
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  kpackfs kpack list torch_gfx942.kpack\n  kpackfs kpack unbundle libtorch_hip.so -o code"
)]
pub(super) struct Kpack {
    #[command(subcommand)]
    command: KpackCommand,

    #[command(flatten)]
    memory: MemoryOption,
}

#[derive(Debug, Subcommand)]
enum KpackCommand {
    /// List the code objects of an archive
    #[command(after_long_help = "Example:\n  kpackfs kpack list torch_gfx942.kpack")]
    List {
        /// The archive
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print only numbers and sizes for each target
        #[arg(short, long, conflicts_with = "json")]
        summary: bool,
    },
    /// Create archives from code objects, or from the code of a fat binary
    Create(Create),
    /// Create an uncompressed offload bundle from code objects
    #[command(after_long_help = "Example:\n  kpackfs kpack bundle x.gfx90a.hsaco x.gfx942.hsaco -o x.hipfb")]
    Bundle {
        /// Code objects, each for a different target
        ///
        /// Of one processor, all or none must name a feature.
        #[arg(required = true)]
        file: Vec<PathBuf>,
        /// File to write
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        replacing: Replacing,
        #[command(flatten)]
        said: SaidOptions,
    },
    /// Write the code objects of an archive to files
    ///
    /// With --binary and --target, which must select exactly one, it is written to the file OUT, or to standard output
    /// if OUT is `-`. Without them, or if OUT is a directory or ends with a slash, each is written to a file of its own
    /// in that directory.
    #[command(after_long_help = "Example:\n  kpackfs kpack extract torch_gfx942.kpack -o code")]
    Extract {
        /// The archive
        file: PathBuf,
        /// File or directory to write to
        #[arg(short, long, value_name = "OUT")]
        output: PathBuf,
        /// Only this binary, by its name in the archive
        ///
        /// #INDEX may be left out.
        #[arg(long, value_name = "NAME")]
        binary: Option<String>,
        /// Only this target
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
        #[command(flatten)]
        replacing: Replacing,
        #[command(flatten)]
        said: SaidOptions,
    },
    /// Write the code objects of fat binaries and of offload bundles to files
    ///
    /// The bundles may be compressed.
    #[command(after_long_help = "Example:\n  kpackfs kpack unbundle libtorch_hip.so --target gfx942 -o code")]
    Unbundle {
        /// Binaries or bundles
        #[arg(required = true)]
        file: Vec<PathBuf>,
        /// Directory to write to
        #[arg(short, long, value_name = "DIR", value_parser = directory(), alias = "output-dir")]
        output: PathBuf,
        /// Only this target; without features, all of the processor
        #[arg(long, value_name = "TARGET", alias = "gfx-arch", value_parser = TargetId::typed)]
        target: Option<TargetId>,
        #[command(flatten)]
        replacing: Replacing,
        #[command(flatten)]
        said: SaidOptions,
    },
}

impl Kpack {
    /// What is read and written.
    fn files(&self) -> (Vec<PathBuf>, Option<&Path>) {
        match &self.command {
            KpackCommand::List { file, .. } => (vec![file.clone()], None),
            KpackCommand::Create(create) => (create.inputs(), Some(&create.output)),
            KpackCommand::Bundle { file, output, .. } | KpackCommand::Unbundle { file, output, .. } => {
                (file.clone(), Some(output))
            }
            KpackCommand::Extract { file, output, .. } => (vec![file.clone()], Some(output)),
        }
    }

    pub(super) fn opens(&self) -> Opens {
        let (inputs, output) = self.files();
        // Only `extract` writes to stdout.
        let is_extracted = matches!(self.command, KpackCommand::Extract { .. });
        let output = output.map(|output| if is_extracted { output.to_owned() } else { Path::new(".").join(output) });
        Opens::inputs(inputs).temporary().file_or_directory(output.as_deref())
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let memory = self.memory.limit()?;
        check_there(&self.files().0)?;
        interrupt::watch()?;
        threads::start_pool(None)?;
        match &self.command {
            KpackCommand::List { file, json, summary } => list(file, *json, *summary)?,
            KpackCommand::Create(create) => create.run(memory)?,
            KpackCommand::Bundle { file, output, replacing, said } => {
                said.say(&pack::bundle(file, output, *replacing)?)?;
            }
            KpackCommand::Extract { file, output, binary, target, replacing, said } => {
                let written = extract(file, output, binary.as_deref(), target.as_deref(), *replacing)?;
                written.iter().try_for_each(|written| said.say(written))?;
            }
            KpackCommand::Unbundle { file, output, target, replacing, said } => {
                said.say(&unbundle(file, output, target.as_ref(), *replacing, memory)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn open(file: &Path) -> anyhow::Result<ArchiveReader> {
    let (content, place) = (open_file(file, &Resources::new(0))?, file.display());
    if content.beginning(CODE_HEADER).is_ok_and(|head| is_bundle(&head) || begins_binary(&head)) {
        bail!(
            "{place}: no archive; `kpackfs kpack unbundle` writes the code objects of a binary or of a bundle, and \
             `kpackfs inspect` lists them"
        );
    }
    ArchiveReader::open(content).with_context(|| place.to_string())
}

fn list(file: &Path, as_json: bool, is_summary: bool) -> anyhow::Result<()> {
    let reader = open(file)?;
    let mut out = stdout();
    if as_json {
        return json::write(&mut out, &reader.whole_toc()?);
    }
    let toc = reader.toc();
    let (group, targets, scheme) = (&toc.group_name, toc.gfx_arches.join(" "), &toc.compression_scheme);
    writeln!(out, "{}", escaped(&format!("group {group}, targets {targets}, compression {scheme}")))?;
    if is_summary {
        return summarise(&reader, &mut out);
    }
    for (key, target, entry) in reader.entries() {
        let stored = reader.stored_size(entry).map_or_else(|| "?".to_owned(), size);
        let line = format!("{key}  {target}  {}  stored {stored}", size(entry.original_size));
        writeln!(out, "{}", escaped(&line))?;
    }
    Ok(())
}

/// Prints the number of names, code objects and bytes for each target.
fn summarise(reader: &ArchiveReader, out: &mut impl Write) -> anyhow::Result<()> {
    for target in &reader.toc().gfx_arches {
        let entries: Vec<_> = reader.entries().filter(|(_, of, _)| of == target).collect();
        let names: BTreeSet<_> = entries.iter().map(|(key, ..)| key.rsplit_once('#').map_or(*key, |it| it.0)).collect();
        let code = entries.iter().map(|(.., entry)| entry.original_size).sum();
        let stored: Option<u64> = entries.iter().map(|(.., entry)| reader.stored_size(entry)).sum();
        let (names, objects) =
            (counted(names.len(), "name", "names"), counted(entries.len(), "code object", "code objects"));
        let stored = stored.map_or_else(|| "?".to_owned(), size);
        writeln!(out, "{}", escaped(&format!("{target}  {objects} of {names}  {}  stored {stored}", size(code))))?;
    }
    Ok(())
}

/// The binary of a key of an archive, NAME#INDEX.
fn name_of(key: &str) -> &str {
    key.rsplit_once('#').map_or(key, |(name, _)| name)
}

/// Writes the code objects of this binary and this target, or of all. Returns what was written to files.
fn extract(
    file: &Path,
    output: &Path,
    binary: Option<&str>,
    target: Option<&str>,
    replacing: Replacing,
) -> anyhow::Result<Option<WrittenOutput>> {
    let reader = open(file)?;
    let is_directory = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    let is_one = binary.is_some() && target.is_some() && !is_directory;
    // With no budget, one code object is decompressed at a time.
    let budget = Budget::new(0);
    let is_wanted = |key: &str, of: &str| {
        binary.is_none_or(|binary| binary == key || binary == name_of(key)) && target.is_none_or(|target| target == of)
    };
    let found: Vec<_> = reader.entries().filter(|(key, target, _)| is_wanted(key, target)).collect();
    let Some((first, ..)) = found.first() else {
        let names: BTreeSet<_> = reader.entries().map(|(key, ..)| name_of(key)).collect();
        let unknown = binary.filter(|binary| !names.contains(name_of(binary)));
        let meant = unknown.map(|binary| near(binary, &names)).unwrap_or_default();
        let wanted: Vec<_> = binary.into_iter().chain(target).collect();
        let (file, wanted) = (file.display(), wanted.join(", "));
        bail!("{file}: there is no code object {wanted} in it; kpackfs kpack list names those in it{meant}")
    };
    let write =
        |&(key, target, entry): &(&str, &str, &TocEntry), out: &mut dyn Write, place: &Path, progress: &Progress| {
            // The error of reading names the archive.
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", place.display()));
            let read = reader.read(entry, &budget, |piece| {
                progress.advance(piece.len() as u64);
                out.write_all(piece).map_err(named)
            });
            read.with_context(|| format!("{}: {key}, {target}", file.display()))
        };
    let is_stdout = output == Path::new("-");
    let mut new = NewFiles::new(replacing.force);
    match found.as_slice() {
        [only] if is_stdout => {
            return write(only, &mut stdout(), output, &Progress::default()).map(|()| None);
        }
        &[only] if is_one => new.add(output.to_owned(), only.0.to_owned(), only)?,
        _ if is_one || is_stdout => {
            let (file, count) = (file.display(), found.len());
            bail!("{file}: {count} code objects fit; name one with --binary NAME#INDEX, such as {first}, and --target");
        }
        _ => {
            for &(key, target, entry) in &found {
                // `lib/libx.so#0` for `gfx942` becomes `lib/libx.so.0.gfx942.hsaco`.
                let path = output.join(file_name(&format!("{}.{target}.hsaco", key.replace('#', ".")))?);
                new.add(path, format!("{key} ({target})"), (key, target, entry))?;
            }
        }
    }
    let inputs = Inputs::of_files(&[file.to_owned()]);
    let places = show_bytes("Writing", |progress| {
        progress.expect(found.iter().map(|(.., entry)| entry.original_size).fold(0, u64::saturating_add));
        new.write(&inputs, warn, |object, mut file, place| write(object, &mut file, place, progress))
    })?;
    WrittenOutput::at(CODE_OBJECTS, output, &places).map(Some)
}
