//! Mounts, as listed in `/proc/self/mountinfo` (format: proc(5)).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use memchr::{memchr, memmem};
use rustix::fs::statfs;
use rustix::io::Errno;

use super::new_file::parent;
use super::read;
use crate::memory::Parser;

/// The type of mounts by kpackfs in `/proc/mounts` and `findmnt -t`.
pub(crate) const KPACKFS: &str = "fuse.kpackfs";

/// The file of the kernel that lists mounts.
pub(crate) const MOUNTINFO: &str = "/proc/self/mountinfo";

/// The most symlinks that a path may lead through (`MAXSYMLINKS` of Linux).
pub(crate) const MAX_LINKS: u32 = 40;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Number of the mount. The kernel may reuse it after an unmount.
    pub id: u64,
    /// Number of the mount that it is mounted in.
    pub parent: u64,
    /// `major:minor` of the filesystem.
    pub device: String,
    /// The directory or file of the filesystem that is mounted.
    pub root: PathBuf,
    /// The mount point.
    pub mount_point: PathBuf,
    /// Type of the filesystem, with its subtype.
    pub kind: String,
    /// Its source.
    pub source: OsString,
    /// ID of the user who mounted it, if it is a FUSE filesystem.
    pub owner: Option<u32>,
}

/// The uppermost of these mounts at `path`.
pub(crate) fn topmost_mount<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    let here = || mounts.iter().filter(|mount| mount.mount_point == path);
    here().rfind(|mount| here().all(|other| other.parent != mount.id))
}

/// The mount that a path without symlinks is in.
pub(crate) fn mount_around<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.mount_point));
    // Of several at one place, the last one is the uppermost.
    around.max_by_key(|mount| mount.mount_point.as_os_str().len())
}

/// Whether the daemon of the FUSE filesystem that a path leads to is gone. Uses statfs(2), because the kernel answers stat(2)
/// from its cache even then.
pub(crate) fn is_dead(path: &Path) -> bool {
    matches!(statfs(path), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// The mount that a path is in, if its daemon is gone.
pub(crate) fn dead_mount(path: &Path) -> Option<PathBuf> {
    if !is_dead(path) {
        return None;
    }
    // A path in such a mount has no canonical form.
    let absolute = std::path::absolute(path).ok()?;
    let real = |above: &Path| Some(above.canonicalize().ok()?.join(absolute.strip_prefix(above).ok()?));
    let place = absolute.ancestors().skip(1).find_map(real).unwrap_or_else(|| absolute.clone());
    let mounts = list_all_mounts().unwrap_or_default();
    let mount = mount_around(&mounts, &place).filter(|mount| mount.kind.starts_with("fuse"));
    Some(mount.map_or(absolute, |mount| mount.mount_point.clone()))
}

/// Where kpackfs is mounted below a directory, as paths in it. No mount is asked for anything.
pub(crate) fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let text = read(Path::new(MOUNTINFO), Parser::Text).ok();
    // Each directory that is listed asks for this, mostly where kpackfs is mounted nowhere.
    let Some(text) = text.filter(|text| memmem::find(text, KPACKFS.as_bytes()).is_some()) else { return Vec::new() };
    let (mounts, real) = (all_of(&text), directory.canonicalize().unwrap_or_default());
    // What another filesystem covers is not there.
    let is_seen = |mount: &&MountEntry| topmost_mount(&mounts, &mount.mount_point) == Some(*mount);
    let ours = mounts.iter().filter(|mount| mount.kind == KPACKFS).filter(is_seen);
    let below = ours.filter_map(|mount| Some(mount.mount_point.strip_prefix(&real).ok()?.to_owned()));
    below.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// All mounts that this process can see.
pub(crate) fn list_all_mounts() -> io::Result<Vec<MountEntry>> {
    Ok(all_of(&read(Path::new(MOUNTINFO), Parser::Text)?))
}

fn all_of(text: &[u8]) -> Vec<MountEntry> {
    text.split(|&byte| byte == b'\n').filter_map(parse).collect()
}

/// A line: `36 35 98:0 /root /mount/point options [optional fields]... - type source options`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut text = || fields.next().map(|field| String::from_utf8_lossy(field).into_owned());
    let id = text()?.parse().ok()?;
    let parent = text()?.parse().ok()?;
    let device = text()?;
    let (root, mount_point) = (unescape(fields.next()?), unescape(fields.next()?));
    fields.find(|field| *field == b"-")?;
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    let options = String::from_utf8_lossy(fields.next().unwrap_or_default());
    let owner = options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    Some(MountEntry { id, parent, device, root: root.into(), mount_point: mount_point.into(), kind, source, owner })
}

/// The kernel writes space, tab, newline, backslash and `#` as a backslash with three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let plain = memchr(b'\\', field).unwrap_or(field.len());
    let (plain, mut rest) = field.split_at(plain);
    let mut bytes = plain.to_vec();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\').and_then(octal);
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    OsString::from_vec(bytes)
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// A path in the form of mountinfo. The root of a stale mount cannot be accessed, so only its parent has to exist.
pub(crate) fn absolute_mount_point(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.file_name()) {
        (Err(error), Some(name)) if error.kind() != io::ErrorKind::NotFound => {
            Ok(parent(path).canonicalize()?.join(OsStr::from_bytes(name.as_bytes())))
        }
        (result, _) => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line =
            br"36 35 98:0 /r\040s /mnt/a\040b\134\011c rw,noatime master:1 shared:2 - fuse.kpackfs /w,x\040y.whl ro";
        let mount = parse(line).unwrap();
        assert_eq!((mount.id, mount.parent, &*mount.device), (36, 35, "98:0"));
        assert_eq!((&*mount.root, &*mount.mount_point), (Path::new("/r s"), Path::new("/mnt/a b\\\tc")));
        assert_eq!((&*mount.kind, mount.source.to_str().unwrap()), ("fuse.kpackfs", "/w,x y.whl"));
        for bad in [&b""[..], b"36", b"36 35 98:0 / /mnt rw", b"36 35 98:0 / /mnt rw - ext4", b"x 35 98:0 / /m r - a b"]
        {
            assert_eq!(parse(bad), None);
        }
        assert_eq!(unescape(br"\04\999\"), br"\04\999\".to_vec().into_iter().collect::<Bytes>().0);
    }

    struct Bytes(OsString);

    impl FromIterator<u8> for Bytes {
        fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
            Self(OsString::from_vec(bytes.into_iter().collect()))
        }
    }

    #[test]
    fn the_topmost_mount_is_the_one_that_carries_no_other() {
        let mount = |id: u64, parent: u64, place: &str| {
            parse(format!("{id} {parent} 0:{id} / {place} rw - tmpfs none rw").as_bytes()).unwrap()
        };
        let mounts = || vec![mount(20, 1, "/"), mount(9, 30, "/a"), mount(30, 20, "/a"), mount(40, 20, "/b")];
        assert_eq!(topmost_mount(&mounts(), Path::new("/a")).unwrap().id, 9);
        assert_eq!(topmost_mount(&mounts(), Path::new("/c")), None);
    }
}
