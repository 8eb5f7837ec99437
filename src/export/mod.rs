//! Writes views to a disk: the same bytes, names, permissions and owners as the mount shows, and the times of the
//! input. Files that are not the input's have the time when they are written.
//!
//! `output` publishes what is complete, `inputs` protects the inputs of a command.

mod before;
mod blobs;
mod dates;
mod directory;
mod error;
mod file;
mod files;
mod images;
mod inputs;
mod output;
mod packed;
mod sharing;
mod statement;
mod unfinished;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rustix::fs::{AtFlags, CWD, utimensat};

use self::directory::{LinkedFile, Ready, WriteJob, times};
use self::error::{at, no_view, reading};
use self::sharing::{Linux, Sharing, SystemCalls};
use crate::metrics::Progress;
use crate::rope::{Content, SizeBounds, in_pieces};
use crate::source::{Attributes, EntryPath};
use crate::tree::{Body, NodeId, NodeKind, ROOT, Tree};

pub(crate) use self::blobs::LayerCompression;
pub(crate) use self::dates::MadeFiles;
pub(crate) use self::directory::WantedSums;
pub use self::error::ExportError;
pub(crate) use self::error::{not_a_directory, not_regular};
pub(crate) use self::files::NewFiles;
pub(crate) use self::images::{ImageLayout, ImageWriteError, ImagesToWrite, WrittenImage, WrittenImages};
pub(crate) use self::inputs::Inputs;
pub(crate) use self::output::{Output, Replace};
pub(crate) use self::packed::{PackedFormat, expect_packed, write_packed};
pub use self::sharing::Reflink;
pub(crate) use self::statement::StatementChange;
use self::unfinished::create_directory;
pub(crate) use self::unfinished::remove_unfinished;

/// Bytes copied at a time.
const STEP: usize = 1 << 20;

/// The jobs of writing directories.
#[derive(Default)]
struct Jobs {
    files: Vec<WriteJob>,
    /// Files of `files` that may have further names.
    links: Vec<LinkedFile>,
    directories: Vec<(PathBuf, Attributes)>,
    /// Digests that are wanted of files that have no job yet.
    sums: WantedSums,
}

impl Jobs {
    /// The files that are not the input's, with all of their names.
    fn made(&self) -> MadeFiles {
        let links = self.links.iter().filter(|linked| linked.file.is_made).flat_map(|linked| &linked.names);
        let files = self.files.iter().filter(|file| file.is_made).map(|file| &file.path);
        MadeFiles(files.chain(links).cloned().collect())
    }
}

/// Writes the nodes `views` of a tree, each to the path that is given with it. Shares blocks with the input where
/// possible.
pub fn write(tree: &Tree, views: &[(EntryPath, PathBuf)], progress: &Progress) -> Result<(), ExportError> {
    write_summing(tree, views, Reflink::default(), WantedSums::new(), progress).map(drop)
}

/// Like [`write`], with a choice whether blocks are shared. Lazy contents are made one file at a time, so the caller should make several
/// archives together in advance. Digests that are wanted are computed on the way. Returns the files that are not the input's.
pub(crate) fn write_summing(
    tree: &Tree,
    views: &[(EntryPath, PathBuf)],
    reflink: Reflink,
    sums: WantedSums,
    progress: &Progress,
) -> Result<MadeFiles, ExportError> {
    progress.expect(ReadyViews::estimate(tree, views).0);
    ReadyViews::make(tree, views, sums, progress)?.write(reflink, progress)
}

/// Views of which everything is known, and of which no file is written yet.
pub(crate) struct ReadyViews {
    files: Vec<Ready>,
    links: Vec<LinkedFile>,
    directories: Vec<(PathBuf, Attributes)>,
    made: MadeFiles,
}

impl ReadyViews {
    /// The bytes that are read to make the files of views, and about how many these have.
    pub(crate) fn estimate(tree: &Tree, views: &[(EntryPath, PathBuf)]) -> (u64, u64) {
        let nodes = views.iter().filter_map(|(view, _)| tree.resolve(ROOT, view));
        let bodies = nodes.flat_map(|node| tree.files_below(node)).map(|(_, body)| body);
        let sum = |(work, size): (u64, u64), body: Body| {
            (work.saturating_add(body.work()), size.saturating_add(about(body.bounds(), body.work())))
        };
        bodies.fold((0, 0), sum)
    }

    /// Makes the contents of all files. Creates directories and symlinks.
    pub(crate) fn make(
        tree: &Tree,
        views: &[(EntryPath, PathBuf)],
        sums: WantedSums,
        progress: &Progress,
    ) -> Result<Self, ExportError> {
        let node = |view: &EntryPath| tree.resolve(ROOT, view).ok_or_else(|| no_view(view));
        let nodes = views.iter().map(|(view, path)| Ok((node(view)?, path))).collect::<Result<Vec<_>, _>>()?;
        let mut jobs = Jobs { sums, ..Jobs::default() };
        for (node, path) in nodes {
            if let Some(parent) = path.parent() {
                create_directory(parent).map_err(at(parent))?;
            }
            write_directories(tree, node, path, &mut HashMap::new(), &mut jobs)?;
        }
        let (made, files) = (jobs.made(), ready_files(jobs.files, progress)?);
        progress.settle();
        Ok(Self { files, links: jobs.links, directories: jobs.directories, made })
    }

    /// The files with their sizes. One with several names has the first.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|file| (file.path.as_path(), file.content.size()))
    }

    /// Writes the files. Returns those that are not the input's.
    pub(crate) fn write(self, reflink: Reflink, progress: &Progress) -> Result<MadeFiles, ExportError> {
        let sharing = Sharing::new(Linux, reflink);
        write_ready(self.files, &sharing, progress)?;
        self.links.into_iter().try_for_each(|file| file.link(&sharing, progress))?;
        // Writing into a directory changes its time, so the times of directories are set last, from the bottom up.
        for (path, attributes) in self.directories.iter().rev() {
            set_owner(path, attributes)?;
            let permissions = fs::Permissions::from_mode(attributes.mode.into());
            fs::set_permissions(path, permissions).map_err(at(path))?;
            set_time(path, attributes)?;
        }
        Ok(self.made)
    }
}

/// About how many bytes a file has. Code is compressed to about a quarter. What has no upper bound is taken to become as large as what is
/// read for it.
fn about(SizeBounds { least, most }: SizeBounds, work: u64) -> u64 {
    least.saturating_add(if most == u64::MAX { work } else { (most - least) / 4 })
}

/// Creates directories and symlinks, and lists the files. `linked` has the number of each group of links in `jobs.links`.
fn write_directories(
    tree: &Tree,
    node: NodeId,
    path: &Path,
    linked: &mut HashMap<u64, usize>,
    jobs: &mut Jobs,
) -> Result<(), ExportError> {
    let Some(found) = tree.node(node) else { return Ok(()) };
    let attributes = found.attributes;
    match &found.kind {
        NodeKind::Directory(_) => {
            match fs::create_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                result => result.map_err(at(path))?,
            }
            jobs.directories.push((path.to_owned(), attributes));
            for child in tree.children(node).into_iter().flatten().filter(|child| !child.hidden) {
                let path = path.join(Path::new(std::ffi::OsStr::from_bytes(child.name)));
                write_directories(tree, child.node, &path, linked, jobs)?;
            }
        }
        NodeKind::Symlink(target) => {
            symlink(std::ffi::OsStr::from_bytes(target), path).map_err(at(path))?;
            set_owner(path, &attributes)?;
            set_time(path, &attributes)?;
        }
        NodeKind::File { link_group, .. } => {
            let Some(body) = tree.body(node) else { return Ok(()) };
            let path = path.to_owned();
            if let Some(file) = link_group.and_then(|group| jobs.links.get_mut(*linked.get(&group)?)) {
                file.names.push(path);
                return Ok(());
            }
            let sum = jobs.sums.remove(&path);
            let file = WriteJob { path, content: body, attributes, is_made: tree.is_made(node), sum };
            if let Some(group) = link_group {
                linked.insert(*group, jobs.links.len());
                jobs.links.push(LinkedFile { file: file.clone(), names: Vec::new() });
            }
            jobs.files.push(file);
        }
    }
    Ok(())
}

fn ready_files(files: Vec<WriteJob>, progress: &Progress) -> Result<Vec<Ready>, ExportError> {
    // Making a content uses all cores by itself, and would wait for itself inside of the thread pool.
    files.into_iter().map(|file| file.ready(progress)).collect()
}

fn write_ready<K: SystemCalls>(
    files: Vec<Ready>,
    sharing: &Sharing<K>,
    progress: &Progress,
) -> Result<(), ExportError> {
    let batches = directory::batches(files);
    // In their order: files whose code is in one bundle then continue each other's decoder.
    batches.into_iter().par_bridge().try_for_each(|batch| batch.write(sharing, progress))
}

/// Writes a content to a file in pieces. `path` names the file in errors. Adds the bytes to `done`.
pub fn copy(content: &dyn Content, mut file: impl Write, path: &Path, done: &AtomicU64) -> Result<(), ExportError> {
    let mut reader = content.reader(0);
    let read = |piece: &mut [u8]| reader.read(piece).map_err(reading(path));
    in_pieces(content.size(), read, |piece| {
        file.write_all(piece).map_err(at(path))?;
        done.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(())
    })
}

/// Sets owner and group of a symlink or a directory. A user who may not give files away keeps them. Permissions are set
/// afterwards, because changing the owner clears set-uid.
fn set_owner(path: &Path, attributes: &Attributes) -> Result<(), ExportError> {
    match lchown(path, Some(attributes.uid), Some(attributes.gid)) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(at(path)(error)),
        _ => Ok(()),
    }
}

fn set_time(path: &Path, attributes: &Attributes) -> Result<(), ExportError> {
    utimensat(CWD, path, &times(attributes), AtFlags::SYMLINK_NOFOLLOW).map_err(|error| at(path)(error.into()))
}
