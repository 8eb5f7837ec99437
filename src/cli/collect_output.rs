//! What `collect` writes: a directory or a packed file, or one of them for each piece.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use super::collecting::Collected;
use super::limits::{LimitOptions, measured};
use super::output_name::directory_or_packed;
use super::progress::show_bytes;
use super::said::WrittenOutput;
use super::terminal::warn;
use super::writing::{Writing, archives_in, clear_set_id, write_views};
use crate::collect::code_of;
use crate::disk::parent;
use crate::export::{Inputs, Output, PackedFormat, Replace, WantedSums, expect_packed, write_packed};
use crate::gpu::{GpuSet, TargetId};
use crate::kpack::make_archives;
use crate::report::{Judgement, PartChoice, PartGpus, SizedPart, TooLarge};
use crate::rope::SizeBounds;
use crate::session::Prepared;
use crate::source::EntryPath;
use crate::text::quoted;
use crate::tree::{ROOT, Tree};
use crate::view;

/// What is written.
#[derive(Debug, Args)]
pub(super) struct ResultOptions {
    /// Directory, .zip or .tar.zst file to write
    ///
    /// Without it, only the report is printed.
    #[arg(short, long, value_name = "OUTPUT", value_parser = directory_or_packed())]
    pub(super) output: Option<PathBuf>,

    /// Write what all GPUs share, and what each adds
    ///
    /// They are DIR/common or NAME-common.zip, and DIR/gfx1100 or NAME-gfx1100.zip. A piece is unpacked over the
    /// common one.
    #[arg(long, requires = "output")]
    pub(super) shared: bool,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    /// Keep set-user-ID and set-group-ID bits
    ///
    /// A warning names the option.
    #[arg(long, hide = true)]
    keep_set_id: bool,

    #[command(flatten)]
    writing: Writing,

    #[command(flatten)]
    pub(super) limits: LimitOptions,
}

/// A piece of the result: its view, where it is written, and its GPUs.
struct WrittenPiece {
    view: EntryPath,
    place: PathBuf,
    gpus: PartGpus,
}

/// Collects for some of the GPUs.
type CollectFor<'a> = &'a dyn Fn(&[TargetId]) -> anyhow::Result<Collected>;

impl ResultOptions {
    /// Writes what was collected. If it is too large, it is collected for fewer GPUs, in order to find some that fit.
    pub(super) fn write(
        &self,
        collected: &Collected,
        output: &Path,
        inputs: &Inputs,
        again: CollectFor<'_>,
    ) -> anyhow::Result<WrittenOutput> {
        // "." has no name to rename to.
        let place = match output.file_name() {
            Some(_) => output.to_owned(),
            None => std::path::absolute(output).with_context(|| format!("--output {}", quoted(output)))?,
        };
        match self.stage(collected, &place, inputs) {
            Ok((staged, places)) => {
                staged.publish(self.writing.durability())?;
                self.said(&place, &places, &collected.gpus)
            }
            Err(error) => match error.downcast::<TooLarge>() {
                Ok(TooLarge(judgement)) => Err(self.advised(judgement, collected, (&place, inputs), again)?.into()),
                Err(error) => Err(error),
            },
        }
    }

    /// Writes what was collected, without its names. Fails if it is too large.
    fn stage(&self, collected: &Collected, place: &Path, inputs: &Inputs) -> anyhow::Result<(Output, Vec<PathBuf>)> {
        let Prepared { input, plan, resources, .. } = &collected.prepared;
        let (_, arch, thin) = collected.view();
        let (mut tree, _) = view::lay_out_listed((input, plan, None), &arch, &thin, Vec::new())?;
        if !self.keep_set_id {
            clear_set_id(&mut tree);
        }
        let pieces = self.pieces(&mut tree, collected, place)?;
        self.limits.check_bounds(|| Ok(directories(&tree, &pieces)), PartChoice::Gpus)?;
        let places: Vec<_> = pieces.iter().map(|piece| piece.place.clone()).collect();
        let directory = match PackedFormat::of(place) {
            None if self.shared => place,
            _ => parent(place),
        };
        let is_empty = |place: &Path| std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none());
        let replace = match &*places {
            [only] if is_empty(only) => Replace::Only(places.clone()),
            _ => Replace::all(self.force),
        };
        let mut staged = Output::prepare(directory, &places, &[], &replace, inputs, &resources.store, warn)?;
        self.write_pieces(&tree, &pieces, &mut staged, &collected.prepared)?;
        Ok((staged, places))
    }

    fn pieces(&self, tree: &mut Tree, collected: &Collected, place: &Path) -> anyhow::Result<Vec<WrittenPiece>> {
        let of = |gpus: &[TargetId]| GpuSet::new(gpus.iter().cloned()).map_or(PartGpus::All, PartGpus::Of);
        if !self.shared {
            let (view, ..) = collected.view();
            return Ok(vec![WrittenPiece { view, place: place.to_owned(), gpus: of(&collected.gpus) }]);
        }
        let pieces = view::show_shared(tree, &collected.gpus, collected.has_archives)?;
        if pieces.is_empty() {
            bail!("--shared: there is no code for any GPU, so there is one piece only");
        }
        let piece = |(name, view): (String, EntryPath)| {
            let gpu = collected.gpus.iter().find(|gpu| gpu.to_string() == name);
            WrittenPiece { view, place: place_of_piece(place, &name), gpus: of(gpu.map_or(&[], std::slice::from_ref)) }
        };
        Ok(pieces.into_iter().map(piece).collect())
    }

    fn write_pieces(
        &self,
        tree: &Tree,
        pieces: &[WrittenPiece],
        output: &mut Output,
        prepared: &Prepared,
    ) -> anyhow::Result<()> {
        let views: Vec<_> = pieces.iter().map(|piece| (piece.view.clone(), piece.place.clone())).collect();
        let archives = archives_in(&prepared.plan, tree, &views);
        let staged = output.views(&views);
        let is_packed = |(_, place): &&(EntryPath, PathBuf)| PackedFormat::of(place).is_some();
        let (packed, unpacked): (Vec<_>, Vec<_>) = staged.iter().cloned().partition(|view| is_packed(&view));
        let check = |ready: &_| {
            let unpacked = || Ok(measured(directories(tree, pieces), output, ready));
            self.limits.check(unpacked, PartChoice::Gpus)
        };
        let make = |done: &_| make_archives(&archives, done);
        let files = write_views(tree, &unpacked, (&archives, make), WantedSums::new(), self.writing, check)?;
        output.add_made(files);
        show_bytes("Packing", |progress| {
            expect_packed(tree, &packed, progress)?;
            packed.iter().try_for_each(|(view, place)| match PackedFormat::of(place) {
                Some(format) => {
                    output.add_made(write_packed(tree, view, place, format, progress)?);
                    anyhow::Ok(())
                }
                None => Ok(()),
            })
        })?;
        self.limits.check(|| packed_files(tree, pieces, &staged), PartChoice::Gpus)
    }

    /// The judgement of one piece for several GPUs, with some of them for which it fits.
    fn advised(
        &self,
        judgement: Judgement,
        collected: &Collected,
        (place, inputs): (&Path, &Inputs),
        again: CollectFor<'_>,
    ) -> anyhow::Result<TooLarge> {
        let (gpus, Some(limit)) = (&collected.gpus, self.limits.limit()) else { return Ok(TooLarge(judgement)) };
        if self.shared || gpus.len() < 2 {
            return Ok(TooLarge(judgement));
        }
        let code = code_of(&collected.prepared.input, &collected.prepared.plan, gpus);
        let size = |gpu: &TargetId| code.iter().filter_map(|code| code.gpus.get(&gpu.to_string())).sum::<u64>();
        let mut by_size = gpus.clone();
        by_size.sort_by_cached_key(size);
        for count in (1..by_size.len()).rev() {
            let Some(some) = by_size.get(..count) else { continue };
            match again(some).and_then(|fewer| self.stage(&fewer, place, inputs)) {
                Ok(_) => {
                    let names = some.iter().map(ToString::to_string).collect();
                    return Ok(TooLarge(judgement.with_gpus(limit, names)));
                }
                Err(error) if error.is::<TooLarge>() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(TooLarge(judgement.with_gpus(limit, Vec::new())))
    }

    /// The directory with what all GPUs share.
    pub(super) fn common(&self, output: &Path) -> PathBuf {
        if self.shared { place_of_piece(output, view::COMMON) } else { output.to_owned() }
    }

    /// What was written.
    fn said(&self, place: &Path, places: &[PathBuf], gpus: &[TargetId]) -> anyhow::Result<WrittenOutput> {
        // The pieces of a packed file are next to each other.
        let is_beside = self.shared && PackedFormat::of(place).is_some();
        let directory = if is_beside { parent(place) } else { place };
        let written = WrittenOutput::at(("piece", "pieces"), directory, places)?;
        Ok(match (&*written.paths(), gpus.first()) {
            ([only], Some(gpu)) if Path::new(only).is_dir() => {
                written.next(["kpackfs", "why", only, "--target", &gpu.to_string()])
            }
            // The first one of several is for no GPU.
            ([.., last], _) => written.next(["kpackfs", "inspect", last]),
            ([], _) => written,
        })
    }
}

/// The pieces that are directories.
fn directories(tree: &Tree, pieces: &[WrittenPiece]) -> Vec<SizedPart> {
    let unpacked = pieces.iter().filter(|piece| PackedFormat::of(&piece.place).is_none());
    unpacked.filter_map(|piece| sized(tree, piece)).collect()
}

/// The pieces that are files, where they were written.
fn packed_files(
    tree: &Tree,
    pieces: &[WrittenPiece],
    staged: &[(EntryPath, PathBuf)],
) -> anyhow::Result<Vec<SizedPart>> {
    let packed = pieces.iter().zip(staged).filter(|(piece, _)| PackedFormat::of(&piece.place).is_some());
    let sized = packed.filter_map(|(piece, (_, file))| {
        let part = sized(tree, piece)?;
        let size = file.metadata().with_context(|| file.display().to_string());
        Some(size.map(|metadata| SizedPart { size: SizeBounds::exact(metadata.len()), ..part }))
    });
    sized.collect()
}

/// A piece, with the sizes of its files before they are packed.
fn sized(tree: &Tree, piece: &WrittenPiece) -> Option<SizedPart> {
    let node = tree.resolve(ROOT, &piece.view)?;
    let name = piece.place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(SizedPart::of_node(name, piece.gpus.clone(), (tree, node)))
}

/// The place of a piece: in a directory, or next to a file.
fn place_of_piece(place: &Path, name: &str) -> PathBuf {
    let file = place.file_name().unwrap_or_default().to_string_lossy();
    match (PackedFormat::of(place), file.rfind(".tar.").or_else(|| file.rfind('.'))) {
        (Some(_), Some(dot)) => {
            let (stem, suffix) = file.split_at(dot);
            place.with_file_name(format!("{stem}-{name}{suffix}"))
        }
        _ => place.join(name),
    }
}
