//! The inputs of a command, and the rule that protects them: a path that a command writes is no input, contains none,
//! and is in none.
//!
//! Paths are compared by their places in filesystems, so that symlinks, bind mounts and other names of a directory give
//! the same answer. Files are also compared by inode, because of hard links.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::error::{ExportError, refused};
use crate::artifact::{FoundArtifacts, shards};
use crate::disk::{KPACKFS, MAX_LINKS, MountEntry, is_dead, list_all_mounts, mount_around};
use crate::opened::{Named, NamedPath, outside};
use crate::source::is_stream;

/// All inputs of a command.
pub(crate) struct Inputs {
    inputs: Vec<ProtectedInput>,
    mounts: Vec<MountEntry>,
}

/// A file or directory that is not written.
struct ProtectedInput {
    /// The path that the user gave: this one, or a directory that contains it.
    given: PathBuf,
    path: PathBuf,
    location: DevicePath,
    /// The input, and all directories and symlinks on the way to it.
    leading: HashSet<DevicePath>,
}

/// A place in a filesystem, through whichever mount it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DevicePath {
    /// `major:minor`; empty if the mount is unknown.
    device: String,
    path: PathBuf,
}

impl Inputs {
    /// Whether the path of an input has the number of an open file in it.
    pub(crate) fn has_open_file(&self) -> bool {
        let places = ["/dev/fd", "/proc/self/fd"];
        self.inputs.iter().any(|input| places.iter().any(|place| input.given.starts_with(place)))
    }

    /// These inputs: also the wheels and artifacts in directories, which may be symlinks.
    pub(crate) fn of(named: &[NamedPath]) -> Self {
        let parts = |it: &NamedPath| parts_of(it).into_iter().map(|part| (it.path.clone(), part)).collect::<Vec<_>>();
        Self::at(named.iter().flat_map(parts).collect())
    }

    /// Files that are read as they are.
    pub(crate) fn of_files(files: &[PathBuf]) -> Self {
        Self::at(files.iter().map(|file| (file.clone(), file.clone())).collect())
    }

    /// One of them that a mount cannot read at any place: a compressed stream.
    pub(crate) fn stream(&self) -> Option<&Path> {
        self.inputs.iter().map(|input| &*input.path).find(|path| is_stream(path))
    }

    /// The inputs of `recombine`.
    pub(crate) fn of_shards(config: &Path, directory: &Path) -> Self {
        let of_shards = shards(directory).unwrap_or_default();
        let shards = of_shards.values().filter_map(|shard| NamedPath::of(shard).ok());
        let parts = shards.flat_map(|shard| parts_of(&shard));
        let parts = parts.chain([directory.to_owned()]).map(|part| (directory.to_owned(), part));
        Self::at(parts.chain([(config.to_owned(), config.to_owned())]).collect())
    }

    /// The inputs at these paths, each with the path that the user gave.
    fn at(paths: Vec<(PathBuf, PathBuf)>) -> Self {
        // Without the list, paths are compared as they are after resolving symlinks.
        let mut inputs = Self { inputs: Vec::new(), mounts: list_all_mounts().unwrap_or_default() };
        for (given, path) in paths {
            let found = inputs.protected(&given, path);
            inputs.inputs.extend(found);
        }
        inputs
    }

    /// An input, and what is mounted in it. A mount of kpackfs is not of it, and nothing is asked of one.
    fn protected(&self, given: &Path, path: PathBuf) -> Vec<ProtectedInput> {
        let real = real(&path, MAX_LINKS);
        let mounted = self.mounts_at(&real).filter(|mount| mount.kind != KPACKFS).map(|mount| {
            let location = DevicePath::new(&mount.device, &mount.root);
            let (given, path) = (given.to_owned(), mount.mount_point.clone());
            ProtectedInput { given, path, leading: location.ancestors().collect(), location }
        });
        let mut inputs: Vec<_> = mounted.collect();
        let location = self.locate(&real);
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let mut directories = HashMap::new();
        let named = absolute.ancestors().map(|above| self.resolve(above, &mut directories).1);
        let leading = named.chain(real.ancestors().map(|above| self.locate(above))).chain(location.ancestors());
        let leading = leading.collect();
        inputs.push(ProtectedInput { given: given.to_owned(), path, location, leading });
        inputs
    }

    /// Fails if a file or directory may not be created or replaced at `place`. A symlink there is replaced itself.
    pub(crate) fn check(&self, place: &Path) -> Result<(), ExportError> {
        self.check_all([place])
    }

    /// Like [`Inputs::check`], for several places. Each directory is looked up once: nothing is written in between.
    pub(crate) fn check_all<'p>(&self, places: impl IntoIterator<Item = &'p Path>) -> Result<(), ExportError> {
        let mut directories = HashMap::new();
        places.into_iter().try_for_each(|place| {
            let (resolved, location) = self.resolve(place, &mut directories);
            self.check_resolved(place, &resolved, &location)
        })
    }

    /// Fails if a place is in an input or in a mount by kpackfs. Nothing has to be read for this answer.
    pub(crate) fn check_outside(&self, place: &Path) -> Result<(), ExportError> {
        let (resolved, location) = self.resolve(place, &mut HashMap::new());
        self.check_around(place, &resolved, &location)
    }

    fn check_around(&self, place: &Path, resolved: &Path, location: &DevicePath) -> Result<(), ExportError> {
        if let Some(input) = self.inputs.iter().find(|input| location.is_in(&input.location)) {
            let input = input.given.display();
            return Err(refused(place, format!("it is in the input {input}; name an output outside of it")));
        }
        let around = mount_around(&self.mounts, resolved).filter(|mount| mount.kind == KPACKFS);
        around.map_or(Ok(()), |mount| {
            let (at, input) = (mount.mount_point.display(), mount.source.to_string_lossy());
            let reason = if is_dead(&mount.mount_point) {
                format!(
                    "the daemon of the mount {at} has ended: unmount it (`kpackfs umount {at}`), or name an output outside of it"
                )
            } else {
                format!("kpackfs shows {input} in {at}, and nothing can be written there; name an output outside of it")
            };
            Err(refused(place, reason))
        })
    }

    /// A path without symlinks before its last component, and where that is. `directories` are those of earlier paths.
    fn resolve(
        &self,
        place: &Path,
        directories: &mut HashMap<PathBuf, (PathBuf, DevicePath)>,
    ) -> (PathBuf, DevicePath) {
        let located = |path: PathBuf| {
            let location = self.locate(&path);
            (path, location)
        };
        let path = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return located(real(&path, MAX_LINKS));
        };
        let directory = directories.entry(parent.to_owned()).or_insert_with(|| located(real(parent, MAX_LINKS)));
        let (directory, location) = &*directory;
        let resolved = directory.join(name);
        // What exists may be a mount point.
        if resolved.symlink_metadata().is_ok() { located(resolved) } else { (resolved, location.child(name)) }
    }

    fn check_resolved(&self, place: &Path, resolved: &Path, location: &DevicePath) -> Result<(), ExportError> {
        if let Some(input) = self.inputs.iter().find(|input| input.leading.contains(location)) {
            let input = input.given.display();
            let reason = format!("it is the input {input} or contains it, and is not replaced; name another output");
            return Err(refused(place, reason));
        }
        self.check_around(place, resolved, location)?;
        let Ok(existing) = resolved.symlink_metadata() else { return Ok(()) };
        if existing.is_dir()
            && let Some(mount) = self.mounts_at(resolved).next()
        {
            // Deleting what is replaced would delete the files of that filesystem.
            let mounted = mount.mount_point.display();
            let reason =
                format!("not replaced, because {mounted} is a mount point; unmount it, or name another output");
            return Err(refused(place, reason));
        }
        let is_linked = existing.is_file() && existing.nlink() > 1;
        let input = self.inputs.iter().filter(|_| is_linked).find(|input| self.has_link(&input.path, &existing));
        input.map_or(Ok(()), |input| {
            let input = input.given.display();
            Err(refused(place, format!("it is a hard link to a file of the input {input}; name another output")))
        })
    }

    /// Fails if a file may not be written at `path`. Symlinks are followed.
    pub(crate) fn check_written(&self, path: &Path) -> Result<(), ExportError> {
        // Opening a directory for writing fails.
        if path.is_dir() { Ok(()) } else { self.check(&real(path, MAX_LINKS)) }
    }

    /// Whether a file is at this path, or below it in a directory, under any name. Nothing is asked of mounts of kpackfs.
    fn has_link(&self, path: &Path, file: &Metadata) -> bool {
        let is_same = |found: &Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
        if !path.is_dir() {
            return path.metadata().is_ok_and(|it| is_same(&it));
        }
        let is_ours = |place: &Path| self.mounts.iter().any(|it| it.kind == KPACKFS && it.mount_point == place);
        let mut directories = vec![real(path, MAX_LINKS)];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.extend(Some(entry.path()).filter(|place| !is_ours(place)));
                } else if entry.ino() == file.ino() && entry.metadata().is_ok_and(|it| is_same(&it)) {
                    return true;
                }
            }
        }
        false
    }

    /// The mounts at or below a directory.
    fn mounts_at(&self, directory: &Path) -> impl Iterator<Item = &MountEntry> {
        self.mounts.iter().filter(move |mount| mount.mount_point.starts_with(directory))
    }

    /// Where a path leads, which consists of directories except for its last component.
    fn locate(&self, path: &Path) -> DevicePath {
        let number = |path: &Path| {
            let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID).ok()?;
            (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
        };
        let number = path.ancestors().find_map(number);
        let mount = self.mounts.iter().find(|mount| Some(mount.id) == number);
        let inside = mount.and_then(|mount| Some((mount, path.strip_prefix(&mount.mount_point).ok()?)));
        inside.map_or_else(
            || DevicePath::new("", path),
            |(mount, path)| DevicePath::new(&mount.device, &mount.root.join(path)),
        )
    }
}

impl DevicePath {
    fn new(device: &str, path: &Path) -> Self {
        Self { device: device.to_owned(), path: path.to_owned() }
    }

    fn child(&self, name: &OsStr) -> Self {
        Self::new(&self.device, &self.path.join(name))
    }

    /// It and the directories above it.
    fn ancestors(&self) -> impl Iterator<Item = Self> {
        self.path.ancestors().map(|path| Self::new(&self.device, path))
    }

    fn is_in(&self, other: &Self) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// An input, and what it consists of that may be elsewhere: wheels and artifacts, which may be symlinks, the layout of an
/// image, and directories of packages.
fn parts_of(NamedPath { path, named }: &NamedPath) -> Vec<PathBuf> {
    let parts = match named {
        Named::Image(image) => return vec![image.layout.clone()],
        Named::Artifacts(FoundArtifacts::Several { artifacts, .. }) => artifacts.values().cloned().collect(),
        Named::Wheels(found) => found.wheels.clone(),
        Named::Split(split) => split.all_wheels(),
        Named::Environment(sites) => outside(path, sites),
        _ => Vec::new(),
    };
    std::iter::once(path.clone()).chain(parts).collect()
}

/// The path without symlinks. Its end need not exist.
fn real(path: &Path, most_links: u32) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(parent) = path.parent() else { return path };
    if let (Ok(target), Some(fewer)) = (path.read_link(), most_links.checked_sub(1)) {
        return real(&parent.join(target), fewer);
    }
    let parent = real(parent, most_links);
    match path.file_name() {
        Some(name) => parent.join(name),
        // The path ends with `..`.
        None => parent.parent().unwrap_or(Path::new("/")).to_owned(),
    }
}
