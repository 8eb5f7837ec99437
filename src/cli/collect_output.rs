//! What `collect` writes: a directory or a packed file, or one of them for each piece.

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::collecting::Collected;
use super::limits::{LimitOptions, measured};
use super::output_name::directory_or_packed;
use super::prepare::answers;
use super::progress::show_bytes;
use super::said::WrittenOutput;
use super::terminal::warn;
use super::writing::{WorkBefore, Writing, archives_in, clear_set_id, write_views};
use crate::collect::code_of;
use crate::disk::{PREFIX, parent};
use crate::export::{
    ExportError, Inputs, Output, PackedFormat, ReadyViews, Replace, WantedSums, expect_packed, not_a_directory,
    not_regular, write_packed,
};
use crate::gpu::{GpuSet, TargetId};
use crate::kpack::{make_archives, unmade_size};
use crate::metrics::Progress;
use crate::report::{Judgement, PartChoice, PartGpus, SizedPart, TooLarge};
use crate::rope::SizeBounds;
use crate::session::Prepared;
use crate::source::EntryPath;
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
        match self.stage(collected, output, inputs) {
            Ok((staged, places)) => {
                staged.publish(self.writing.durability())?;
                self.said(output, &places, &collected.gpus)
            }
            Err(error) => match error.downcast::<TooLarge>() {
                Ok(TooLarge(judgement)) => Err(self.advised(judgement, collected, output, inputs, again)?.into()),
                Err(error) => Err(error),
            },
        }
    }

    /// Writes what was collected, without its names. Fails if it is too large.
    fn stage(&self, collected: &Collected, place: &Path, inputs: &Inputs) -> anyhow::Result<(Output, Vec<PathBuf>)> {
        let resources = &collected.prepared.resources;
        let (_, arch, thin) = collected.view();
        let (mut tree, _) = view::lay_out_listed(collected.prepared.planned(), &arch, &thin)?;
        if !self.keep_set_id {
            clear_set_id(&mut tree);
        }
        let pieces = self.pieces(&mut tree, collected, place)?;
        self.limits.check_bounds(|| Ok(directories(&tree, &pieces)), PartChoice::Gpus)?;
        let places: Vec<_> = pieces.iter().map(|piece| piece.place.clone()).collect();
        let (directory, mut views, mut gone) = (self.directory(place), views_of(&pieces), Vec::new());
        check_kinds(&places)?;
        if let ([only], false, true) = (&*pieces, self.shared, directory == place) {
            gone = self.earlier_entries(place)?;
            let entries = tree.resolve(ROOT, &only.view).and_then(|root| tree.children(root)).into_iter().flatten();
            let names = entries.filter(|entry| !entry.hidden).map(|entry| entry.name);
            views = names.map(|name| (only.view.child(name), place.join(OsStr::from_bytes(name)))).collect();
        }
        let parts: Vec<_> = views.iter().map(|(_, part)| part.clone()).collect();
        gone.retain(|entry| !parts.contains(entry));
        let replace = Replace::all(self.force);
        let mut staged = Output::prepare(directory, &parts, &gone, &replace, inputs, &resources.store, warn)?;
        self.write_pieces(&tree, &pieces, &views, &mut staged, &collected.prepared)?;
        Ok((staged, places))
    }

    /// The directory in which the pieces get their names. One that is there keeps its attributes and the symlinks that lead
    /// to it, and may be the working directory of a process.
    pub(super) fn directory<'p>(&self, output: &'p Path) -> &'p Path {
        let is_inside = PackedFormat::of(output).is_none() && (self.shared || answers(output, Path::is_dir));
        if is_inside { output } else { parent(output) }
    }

    /// The entries of a directory that is empty, or else to be replaced and proven to be an earlier result.
    fn earlier_entries(&self, place: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(place).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.with_context(|| place.display().to_string())?;
        let is_left = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let entries: Vec<_> = entries.iter().filter(|entry| !is_left(entry)).map(DirEntry::path).collect();
        let place = place.to_owned();
        match (self.force, place.join(view::REPORTS).join(view::COLLECTED).is_file()) {
            _ if entries.is_empty() => Ok(entries),
            (true, true) => Ok(entries),
            (true, false) => bail!(
                "{}: --force replaces what `collect` has written, and there is no .kpackfs/collect.json; name another directory",
                place.display()
            ),
            (false, _) => Err(ExportError::Existing(place.display().to_string()).into()),
        }
    }

    fn pieces(&self, tree: &mut Tree, collected: &Collected, place: &Path) -> anyhow::Result<Vec<WrittenPiece>> {
        let of = |gpus: &[TargetId]| GpuSet::new(gpus.iter().cloned()).map_or(PartGpus::All, PartGpus::Of);
        if !self.shared {
            let (view, ..) = collected.view();
            return Ok(vec![WrittenPiece { view, place: place.to_owned(), gpus: of(&collected.gpus) }]);
        }
        let pieces = view::show_shared(tree, &collected.gpus, collected.has_archives)?;
        ensure!(!pieces.is_empty(), "--shared: there is no code for any GPU, so there is one piece only");
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
        views: &[(EntryPath, PathBuf)],
        output: &mut Output,
        prepared: &Prepared,
    ) -> anyhow::Result<()> {
        let archives = archives_in(&prepared.plan, tree, &views_of(pieces));
        let staged = output.views(views);
        let is_packed = |(_, place): &&(EntryPath, PathBuf)| PackedFormat::of(place).is_some();
        let (packed, unpacked): (Vec<_>, Vec<_>) = staged.iter().cloned().partition(|view| is_packed(&view));
        let check = |ready: &ReadyViews| {
            let all = || SizeBounds::exact(ready.sizes().map(|(_, size)| size).sum());
            let unpacked = || match directories(tree, pieces) {
                parts if self.shared => measured(parts, output, ready),
                parts => parts.into_iter().map(|part| SizedPart { size: all(), ..part }).collect(),
            };
            self.limits.check(|| Ok(unpacked()), PartChoice::Gpus)
        };
        let make = |progress: &Progress| make_archives(&archives, &progress.done);
        let before = WorkBefore { bytes: unmade_size(&archives), make };
        let files = write_views(tree, &unpacked, before, WantedSums::new(), self.writing, check, &prepared.resources)?;
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
        place: &Path,
        inputs: &Inputs,
        again: CollectFor<'_>,
    ) -> anyhow::Result<TooLarge> {
        let (gpus, Some(limit)) = (&collected.gpus, self.limits.max_part) else { return Ok(TooLarge(judgement)) };
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
        Ok(match (places, gpus.first()) {
            ([only], Some(gpu)) if only.is_dir() => {
                written.next("kpackfs why", [only.as_os_str(), "--target".as_ref(), gpu.to_string().as_ref()])
            }
            // The first one of several is for no GPU.
            ([.., last], _) => written.next("kpackfs inspect", [last]),
            ([], _) => written,
        })
    }
}

/// Fails if a file would replace a directory, or a directory a file.
fn check_kinds(places: &[PathBuf]) -> Result<(), ExportError> {
    places.iter().filter(|place| place.exists()).try_for_each(|place| match (PackedFormat::of(place), place.is_dir()) {
        (Some(_), true) => Err(not_regular(place)),
        (None, false) => Err(not_a_directory(place)),
        _ => Ok(()),
    })
}

/// The views that pieces are, with their places.
fn views_of(pieces: &[WrittenPiece]) -> Vec<(EntryPath, PathBuf)> {
    pieces.iter().map(|piece| (piece.view.clone(), piece.place.clone())).collect()
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
    let name = piece.place.file_name().unwrap_or(piece.place.as_os_str()).to_string_lossy().into_owned();
    Some(SizedPart::of_node(name, piece.gpus.clone(), tree, node))
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
