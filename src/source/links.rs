//! Symlinks: where they lead, and what they are in wheels. A wheel cannot hold any: installers write a text file with
//! the target, and `wheel pack` writes a copy of the target. So a symlink to a file of the same wheel is shown as a hard
//! link to that file. In other inputs this is so for a symlink from the name of one GPU to that of another.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::input::find_dist_info;
use super::{Entry, EntryKind, EntryPath};
use crate::disk;
use crate::gpu::named_gpu;

/// The most links that are followed on the way to a file, as in Linux (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// What is at a path on the way.
#[derive(Clone, Debug)]
pub(crate) enum PathStep<'a> {
    Directory,
    File,
    /// With its target.
    Symlink(Cow<'a, [u8]>),
}

impl<'a> From<&'a EntryKind> for PathStep<'a> {
    fn from(kind: &'a EntryKind) -> Self {
        match kind {
            EntryKind::Directory => Self::Directory,
            EntryKind::File { .. } => Self::File,
            EntryKind::Symlink(target) => Self::Symlink(Cow::Borrowed(target)),
        }
    }
}

impl PathStep<'_> {
    fn on_disk(place: &Path) -> Option<Self> {
        disk::check_answers(place).ok()?;
        let kind = fs::symlink_metadata(place).ok()?.file_type();
        Some(match fs::read_link(place) {
            Ok(target) => Self::Symlink(Cow::Owned(target.into_os_string().into_vec())),
            Err(_) if kind.is_dir() => Self::Directory,
            Err(_) => Self::File,
        })
    }
}

/// The place to which a path of an input leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// An entry that is not a symlink.
    Entry(EntryPath),
    /// This symlink leads out of the input.
    Outside(EntryPath),
    /// Nothing, or symlinks in a circle.
    Nothing,
}

/// Follows all symlinks on the way to a path, as the operating system does. `kind` returns the kind of the entry at a
/// path. `location` is the directory of the input. A symlink may lead out of it and back into it; the names outside are
/// then looked up on the disk, and no file there is read. One that begins with `/` may be that of an unpacked root: it leads
/// from the root of the input if that has its target.
pub(crate) fn resolve<'a, K: Into<PathStep<'a>>>(
    path: &EntryPath,
    location: Option<&Path>,
    kind: impl Fn(&EntryPath) -> Option<K>,
) -> Resolved {
    walk(path.as_bytes(), location, &kind, &mut 0)
}

/// Whether a directory is the root of an operating system (os-release(5)), and not that of this process. `/usr` is none, although
/// it has `etc/os-release` on systems of `OSTree` (its manual, "Adapting existing mainstream distributions").
fn is_other_root(directory: &Path) -> bool {
    let has = |name: &&str| directory.join(name).symlink_metadata().is_ok();
    directory.parent().is_some() && has(&"usr") && ["etc/os-release", "usr/lib/os-release"].iter().any(has)
}

/// The root of an operating system that a path is in, if it is known to be one.
fn other_root_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|it| is_other_root(it))
}

/// The same, or else the path, which may be an unpacked root.
pub(crate) fn root_of(path: &Path) -> &Path {
    other_root_of(path).unwrap_or(path)
}

/// Where a process finds an absolute path on the disk whose root may be `root`: there, as far as [`resolve`] finds it so, or else
/// at the path. If `root` is known to be one, nothing outside of it is found: `None`.
pub(crate) fn in_root(path: &Path, root: &Path) -> Option<PathBuf> {
    let kind = |entry: &EntryPath| PathStep::on_disk(&root.join(entry.as_path()));
    let bytes = path.as_os_str().as_bytes();
    let inside = below(bytes, root).unwrap_or(bytes);
    match walk(inside, Some(root), &kind, &mut 0) {
        Resolved::Entry(found) if path.is_absolute() => Some(root.join(found.as_path())),
        _ if disk::leads_to_stopped(path) => None,
        _ if path.is_relative() || !is_other_root(root) => Some(path.to_owned()),
        // What is not there, or is not readable, is still named. It begins with `/`: only the root itself does not, which is found.
        _ => Some(root.join(Path::new(OsStr::from_bytes(inside)).strip_prefix("/").ok()?)).filter(|it| !it.exists()),
    }
}

fn walk<'a, K: Into<PathStep<'a>>>(
    path: &[u8],
    location: Option<&Path>,
    kind: &impl Fn(&EntryPath) -> Option<K>,
    followed: &mut usize,
) -> Resolved {
    let (mut at, mut is_file) = (EntryPath::root(), false);
    let mut ahead: Vec<Vec<u8>> = path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec).collect();
    // The symlinks with names in `ahead`, each with the number of names that are not its own.
    let mut links = Vec::<(EntryPath, usize)>::new();
    while let Some(name) = ahead.pop() {
        if is_file {
            return Resolved::Nothing;
        }
        links.truncate(links.partition_point(|&(_, others)| others <= ahead.len()));
        match &*name {
            b"" | b"." => continue,
            b".." => {
                // Nothing is above the root of an operating system.
                let root = || location.filter(|it| is_other_root(it)).map(|_| EntryPath::root());
                if let Some(above) = at.parent().or_else(root) {
                    at = above;
                    continue;
                }
                let Some((link, others)) = links.pop() else { return Resolved::Nothing };
                let Some(real) = location.and_then(|location| on_disk(&link, location)) else {
                    return Resolved::Outside(link);
                };
                at = EntryPath::root();
                ahead.truncate(others);
                ahead.extend(real.components().rev().map(<[u8]>::to_vec));
                continue;
            }
            _ => {}
        }
        let next = at.child(&name);
        match kind(&next).map(Into::into) {
            None => return Resolved::Nothing,
            Some(PathStep::Directory) => at = next,
            Some(PathStep::File) => (at, is_file) = (next, true),
            Some(PathStep::Symlink(target)) => {
                *followed += 1;
                if *followed > MAX_LINKS {
                    return Resolved::Nothing;
                }
                let others = ahead.len();
                let mut names = target;
                if names.starts_with(b"/") {
                    at = EntryPath::root();
                    let Some(location) = location else { return Resolved::Outside(next) };
                    names = match below(&names, location) {
                        Some(inside) => Cow::Owned(inside.to_vec()),
                        None => match walk(&names, Some(location), kind, followed) {
                            Resolved::Entry(found) if !found.is_root() => Cow::Owned(found.as_bytes().to_vec()),
                            Resolved::Outside(link) => return Resolved::Outside(link),
                            Resolved::Entry(_) | Resolved::Nothing => match on_disk(&next, location) {
                                Some(found) => Cow::Owned(found.as_bytes().to_vec()),
                                None => return Resolved::Outside(next),
                            },
                        },
                    };
                }
                ahead.extend(names.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec));
                links.push((next, others));
            }
        }
    }
    Resolved::Entry(at)
}

/// The entry to which the operating system follows a symlink of the input in a directory.
fn on_disk(link: &EntryPath, location: &Path) -> Option<EntryPath> {
    let location = location.canonicalize().ok()?;
    let target = real_path(&location, link)?;
    EntryPath::new(target.strip_prefix(&location).ok()?.as_os_str().as_bytes()).ok()
}

/// The path on the disk to which a symlink of the input in a directory leads. One of an unpacked root that [`resolve`] does not
/// follow leads to nothing.
pub(super) fn real_path(directory: &Path, link: &EntryPath) -> Option<PathBuf> {
    #[cfg(test)]
    tests::LOOKUPS.set(tests::LOOKUPS.get() + 1);
    let path = directory.join(link.as_path());
    let place = match other_root_of(directory) {
        Some(root) if root == directory => None,
        Some(root) => in_root(&path, root),
        None => Some(path),
    };
    place.filter(|it| !disk::leads_to_stopped(it))?.canonicalize().ok()
}

/// The part of an absolute path behind a directory.
pub(crate) fn below<'a>(path: &'a [u8], directory: &Path) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(directory.as_os_str().as_bytes())?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

/// Makes hard links of symlinks, as wheels and trees need it. Returns the dist-info directory if `entries` are a wheel.
pub(super) fn settle(entries: &mut [Entry], location: &Path) -> Option<EntryPath> {
    let dist_info = find_dist_info(entries);
    match dist_info {
        Some(_) => become_files(entries),
        None => leave_no_gpu(entries, location),
    }
    dist_info
}

/// Makes each symlink to a file among `entries` a hard link to that file. Links to directories, out of the wheel or to
/// nothing stay symlinks.
fn become_files(entries: &mut [Entry]) {
    become_hard_links(entries, |link, kind| match resolve(link, None, kind) {
        Resolved::Entry(target) => Some(target),
        Resolved::Outside(_) | Resolved::Nothing => None,
    });
}

/// Makes each symlink that [`file_of_other_gpu`] finds a hard link. `location` is as for [`resolve`].
fn leave_no_gpu(entries: &mut [Entry], location: &Path) {
    become_hard_links(entries, |link, kind| file_of_other_gpu(link, Some(location), kind));
}

/// Where a symlink leads if its path has the name of another GPU than that of the file: the parts of a split are for one GPU
/// each. Tools that replace equal files by symlinks make such links (`fdupes`, `rdfind`, `jdupes`). `location` and `kind` are as for
/// [`resolve`].
pub(crate) fn file_of_other_gpu<'a>(
    link: &EntryPath,
    location: Option<&Path>,
    kind: impl Fn(&EntryPath) -> Option<&'a EntryKind>,
) -> Option<EntryPath> {
    let own = named_gpu(link.components())?;
    let Resolved::Entry(file) = resolve(link, location, kind) else { return None };
    named_gpu(file.components()).is_some_and(|of_file| of_file != own).then_some(file)
}

/// Makes symlinks hard links to the files whose paths `follow` returns. It is given the kind of the entry at each path.
fn become_hard_links(
    entries: &mut [Entry],
    follow: impl for<'a> Fn(&EntryPath, &dyn Fn(&EntryPath) -> Option<&'a EntryKind>) -> Option<EntryPath>,
) {
    let kind = |path: &EntryPath| Some(&entries.get(find(entries, path)?)?.kind);
    let is_link = |entry: &&Entry| matches!(entry.kind, EntryKind::Symlink(_));
    let target = |link: &Entry| find(entries, &follow(&link.path, &kind)?);
    let links = entries.iter().filter(is_link).filter_map(|link| Some((find(entries, &link.path)?, target(link)?)));
    let links: Vec<(usize, usize)> = links.collect();
    for (link, target) in links {
        // Link groups of the operating system are inode numbers, which never get this high.
        let own_group = u64::MAX - target as u64;
        let Some(Entry { kind: EntryKind::File { content, link_group }, attributes, .. }) = entries.get_mut(target)
        else {
            continue;
        };
        let link_group = Some(*link_group.get_or_insert(own_group));
        let (kind, attributes) = (EntryKind::File { content: Arc::clone(content), link_group }, *attributes);
        if let Some(entry) = entries.get_mut(link) {
            (entry.kind, entry.attributes) = (kind, attributes);
        }
    }
}

fn find(entries: &[Entry], path: &EntryPath) -> Option<usize> {
    entries.binary_search_by(|entry| entry.path.cmp(path)).ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::Arc;

    use super::{PathStep, Resolved, become_files, below, resolve};
    use crate::resources::Resources;
    use crate::rope::Rope;
    use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind};

    thread_local! {
        /// How often a symlink was followed on the disk.
        pub(super) static LOOKUPS: Cell<usize> = const { Cell::new(0) };
    }

    const ATTRIBUTES: Attributes = Attributes { mode: 0o777, uid: 0, gid: 0, mtime: 1, mtime_nanoseconds: 0 };

    #[test]
    fn each_absolute_link_is_that_of_an_unpacked_root_or_leads_from_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let (location, alias) = (place.path().join("tree"), place.path().join("alias"));
        std::fs::create_dir_all(location.join("store")).unwrap();
        std::fs::create_dir_all(location.join("usr")).unwrap();
        symlink(&location, &alias).unwrap();
        let by_alias = alias.join("store").into_os_string().into_encoded_bytes();
        symlink(alias.join("store"), location.join("usr/lib")).unwrap();
        let probes = Cell::new(0);
        let kind = |path: &EntryPath| {
            probes.set(probes.get() + 1);
            Some(match path.as_bytes() {
                b"usr" | b"store" => PathStep::Directory,
                b"store/x" => PathStep::File,
                b"lib" => PathStep::Symlink(b"/usr/lib".into()),
                b"usr/lib" => PathStep::Symlink((&by_alias).into()),
                b"circle" => PathStep::Symlink(b"/circle".into()),
                b"disk" => PathStep::Symlink(b"/".into()),
                _ => return None,
            })
        };
        let path = |path: &str| EntryPath::new(path.as_bytes()).unwrap();
        let found = |name: &str| resolve(&path(name), Some(&location), kind);
        assert_eq!(found("lib/x"), Resolved::Entry(path("store/x")));
        assert_eq!(found("lib/y"), Resolved::Nothing);
        for outside in ["circle", "disk"] {
            assert_eq!(found(outside), Resolved::Outside(path(outside)));
        }
        probes.set(0);
        assert_eq!(found("store/y"), Resolved::Nothing);
        assert_eq!(probes.get(), 2, "nothing is looked up twice");
        let of_rocm = |path: &'static str| below(path.as_bytes(), Path::new("/t/rocm"));
        assert_eq!([of_rocm("/t/rocm/x"), of_rocm("/t/rocm-6/x")], [Some(&b"/x"[..]), None]);
    }

    #[test]
    fn unwanted_links_are_not_looked_up() {
        let place = tempfile::tempdir().unwrap();
        let (tree, outside) = (place.path().join("tree"), place.path().join("outside"));
        for directory in [&tree, &outside] {
            std::fs::create_dir(directory).unwrap();
        }
        (0..50).for_each(|number| symlink(&outside, tree.join(format!("link{number}"))).unwrap());
        let mut input = Input::open(&tree, &Resources::new(0)).unwrap();
        let lookups = |input: &Input, is_wanted: fn(&EntryPath) -> bool| {
            LOOKUPS.set(0);
            (input.links_out(is_wanted).count(), LOOKUPS.get())
        };
        assert_eq!(lookups(&input, |_| true), (50, 100), "each is followed, and resolved");
        assert_eq!(lookups(&input, |path| path.as_bytes() == b"link7"), (1, 2));
        input.kind = InputKind::Wheels(None);
        assert_eq!(lookups(&input, |_| true), (0, 0), "nothing is on the disk");
    }

    #[test]
    fn links_to_files_become_these_and_others_stay() {
        let link = |target: &str| EntryKind::Symlink(target.as_bytes().into());
        let file = || EntryKind::File { content: Arc::new(Rope::default()), link_group: None };
        let mut entries = [
            ("lib", EntryKind::Directory),
            ("lib/a.so", link("a.so.1")),
            ("lib/a.so.1", link("./a.so.1.2")),
            ("lib/a.so.1.2", file()),
            ("lib/bad", link("a.so/x")),
            ("lib/directory", link("../lib")),
            ("lib/loop", link("loop")),
            ("lib/nowhere", link("none")),
            ("lib/outside", link("../../etc/passwd")),
            ("lib/root", link("/lib/a.so")),
            ("lib/through", link("directory/../other")),
            ("other", link("lib/directory/a.so")),
        ]
        .map(|(path, kind)| Entry {
            path: EntryPath::new(path.as_bytes()).unwrap(),
            kind,
            attributes: ATTRIBUTES,
        });
        entries[3].attributes.mode = 0o644;
        become_files(&mut entries);
        let group = |entry: &Entry| match entry.kind {
            EntryKind::File { link_group, .. } => Some((link_group, entry.attributes.mode)),
            _ => None,
        };
        let groups: Vec<_> = entries.iter().filter_map(|entry| Some((entry.path.to_string(), group(entry)?))).collect();
        let names: Vec<_> = groups.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["lib/a.so", "lib/a.so.1", "lib/a.so.1.2", "lib/through", "other"]);
        assert!(groups.iter().all(|(_, group)| *group == groups[0].1 && group.0.is_some() && group.1 == 0o644));
    }
}
