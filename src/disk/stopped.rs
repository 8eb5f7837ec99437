//! Mounts of kpackfs whose daemons are stopped. Whatever is asked of one waits until its daemon goes on.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::MAX_LINKS;

/// A mount whose daemon is stopped.
#[derive(Debug)]
pub struct StoppedMount {
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The daemon.
    pub process: i32,
}

impl fmt::Display for StoppedMount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mount_point, process } = self;
        write!(
            formatter,
            "the daemon of the mount {} is stopped, so that it answers nothing; `kill -CONT {process}` lets it go on",
            mount_point.display()
        )
    }
}

/// Those that this process has found.
static STOPPED: OnceLock<Vec<StoppedMount>> = OnceLock::new();

/// Has these mounts found once, before this process gives up the right to ask for daemons.
pub(crate) fn find_stopped(find: impl FnOnce() -> Vec<StoppedMount>) {
    STOPPED.get_or_init(find);
}

/// The first of these mounts that a path leads into.
pub(crate) fn stopped_mount_of(path: &Path) -> Option<&'static StoppedMount> {
    entered(STOPPED.get().filter(|mounts| !mounts.is_empty())?, path)
}

/// Whether a path leads into such a mount.
pub(crate) fn leads_to_stopped(path: &Path) -> bool {
    stopped_mount_of(path).is_some()
}

/// Fails if a path leads into such a mount.
pub(crate) fn check_answers(path: &Path) -> io::Result<()> {
    stopped_mount_of(path).map_or(Ok(()), |mount| Err(io::Error::other(mount.to_string())))
}

/// The first of some mounts that a path leads into, also through symlinks. No mount is asked for anything in it.
fn entered<'a>(mounts: &'a [StoppedMount], path: &Path) -> Option<&'a StoppedMount> {
    let names = |path: &Path| -> Vec<OsString> { path.iter().rev().map(OsStr::to_owned).collect() };
    let (mut left, mut place, mut links) = (names(&std::path::absolute(path).ok()?), PathBuf::new(), 0);
    while let Some(name) = left.pop() {
        if name == ".." {
            place.pop();
            continue;
        }
        place.push(name);
        if let Some(mount) = mounts.iter().find(|mount| mount.mount_point == place) {
            return Some(mount);
        }
        let Ok(target) = place.read_link() else { continue };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        place.pop();
        left.extend(names(&target));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_enters_a_mount_through_links_and_no_other_way() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("x")).unwrap();
        for (target, link) in [("mnt", "link"), ("../x/link/below", "x/chain"), ("turn", "turn"), ("/", "top")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        std::os::unix::fs::symlink(&root, root.join("x/link")).unwrap();
        let mounts = [StoppedMount { mount_point: root.join("mnt"), process: 7 }];
        let top = Path::new("top").join(root.strip_prefix("/").unwrap());
        for path in ["mnt", "mnt/host/no", "link/host", "x/../mnt", "x/link/mnt", "./link"].map(Path::new) {
            assert!(entered(&mounts, &root.join(path)).is_some(), "{path:?}");
        }
        assert!(entered(&mounts, &root.join(top).join("link")).is_some());
        for path in ["", "x", "mnt2/mnt", "turn/mnt", "x/chain"].map(Path::new) {
            assert!(entered(&mounts, &root.join(path)).is_none(), "{path:?}");
        }
    }
}
