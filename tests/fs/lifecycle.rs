//! Mounting, unmounting, and what must not be possible.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kpackfs::fs::{FsError, MountOptions, Served, list_mounts, mount, umount};
use kpackfs::index::{RequestKind, Resources};
use kpackfs::view::Tree;

use super::support::{DIRECTORY, Mount, errno, output, run};

/// Writes to a mapping of a file, which only the write to the disk can refuse.
const MAP: &str = r"
import errno, mmap, sys
try:
    with open(sys.argv[1], 'r+b') as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0:5] = b'wrong'
        mapping.flush()
except OSError as error:
    sys.exit(errno.errorcode[error.errno])
";

/// Everything that would change something, with the errno it gets.
fn mutate(mount: &Mount) -> Vec<(&'static str, i32)> {
    let file = mount.at("host/lib/small.txt");
    let fresh = mount.at("host/fresh");
    let refused = |output: std::process::Output| {
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("Read-only file system") { libc::EROFS } else { 0 }
    };
    // On a mount that is read-write, the kernel may open a file without asking.
    let open = |options: &mut OpenOptions| errno(options.open(&file).and_then(|mut file| file.write_all(b"wrong")));
    let map = |output: std::process::Output| {
        if String::from_utf8_lossy(&output.stderr).trim() == "EROFS" { libc::EROFS } else { 0 }
    };
    vec![
        ("write", open(OpenOptions::new().write(true))),
        ("read-write", open(OpenOptions::new().read(true).write(true))),
        ("append", open(OpenOptions::new().append(true))),
        ("truncate", open(OpenOptions::new().write(true).truncate(true))),
        ("create", errno(File::create(&fresh))),
        ("mkdir", errno(fs::create_dir(&fresh))),
        ("unlink", errno(fs::remove_file(&file))),
        ("rmdir", errno(fs::remove_dir(mount.at("host/none")))),
        ("rename", errno(fs::rename(&file, &fresh))),
        ("link", errno(fs::hard_link(&file, &fresh))),
        ("symlink", errno(symlink("x", &fresh))),
        ("chmod", errno(fs::set_permissions(&file, fs::Permissions::from_mode(0o600)))),
        ("chown", errno(chown(&file, Some(1), None))),
        ("utimensat", refused(output("touch", [&file]))),
        ("allocate", refused(output("fallocate", [&"-l", &"9", &file]))),
        ("map", map(output("python3", [&"-c", &MAP, &file]))),
        ("mknod", refused(output("mknod", [&fresh, &"p"]))),
    ]
}

#[test]
fn nothing_can_be_changed_even_when_remounted() {
    let Some(mount) = Mount::new() else { return };
    for (what, errno) in mutate(&mount) {
        assert_eq!(errno, libc::EROFS, "{what}");
    }
    let remounted = output("mount", [&"-i", &"-o", &"remount,rw", &mount.place.path()]);
    if !remounted.status.success() {
        eprintln!("*** SKIPPED: cannot remount: {} ***", String::from_utf8_lossy(&remounted.stderr));
        return;
    }
    let options = run("findmnt", [&"-no", &"FS-OPTIONS", &mount.place.path()]);
    assert!(options.starts_with("rw"), "{options}");
    for (what, errno) in mutate(&mount) {
        // Since 6.14 the kernel may answer by itself to links.
        let itself = what == "link" && [libc::EPERM, libc::ENOSYS].contains(&errno);
        assert!(errno == libc::EROFS || itself, "{what}: {errno}");
    }
    let limit = Instant::now() + Duration::from_secs(10);
    // The kernel forgets what was written to the mapping as soon as it is told to.
    while fs::read(mount.at("host/lib/small.txt")).unwrap() != b"hello" {
        assert!(Instant::now() < limit, "still there");
    }
    assert!(mount.of_kind(RequestKind::Change) > 10);
}

#[test]
fn unmounting_from_outside_ends_the_session() {
    let Some(mut mount) = Mount::new() else { return };
    let mounted = mount.mounted.take().unwrap();
    let unmounter = mounted.unmounter().clone();
    let file = File::open(mount.at("host/two")).unwrap();
    assert!(matches!(umount(mount.place.path(), false), Err(FsError::Busy(_))));
    run("umount", [&"-l", &mount.place.path()]);
    // Whoever has a file open goes on.
    let mut bytes = [0; 6];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"shared");
    drop(file);
    mounted.wait().unwrap();

    // What is mounted there now is none of our business.
    run("mount", [&"-t", &"tmpfs", &"other", &mount.place.path()]);
    let ours = unmounter.unmount(true);
    let foreign = umount(mount.place.path(), true);
    run("umount", [&mount.place.path()]);
    assert!(matches!(ours, Err(FsError::NotOurs(_))), "{ours:?}");
    assert!(matches!(&foreign, Err(FsError::Foreign { kind, .. }) if kind == "tmpfs"), "{foreign:?}");
}

#[test]
fn an_abort_ends_the_session_and_leaves_no_mount() {
    let Some(mut mount) = Mount::new() else { return };
    let mounted = mount.mounted.take().unwrap();
    let place = mounted.unmounter().mount_point().to_owned();
    let entry = || list_mounts().unwrap().into_iter().find(|entry| entry.mount_point == place);
    let number = entry().unwrap().device.replace("0:", "");
    let control = tempfile::tempdir().unwrap();
    run("mount", [&"-t", &"fusectl", &"control", &control.path()]);
    let aborted = fs::write(control.path().join(number).join("abort"), "1");
    run("umount", [&control.path()]);
    aborted.unwrap();
    mounted.wait().unwrap();
    assert_eq!(entry(), None);
}

#[test]
fn a_covered_mount_is_left_alone() {
    let Some(mount) = Mount::new() else { return };
    run("mount", [&"-t", &"tmpfs", &"cover", &mount.at("host")]);
    let plain = umount(mount.place.path(), false);
    run("umount", [&mount.at("host")]);
    assert!(matches!(plain, Err(FsError::Busy(_))), "{plain:?}");
    run("mount", [&"-t", &"tmpfs", &"cover", &mount.place.path()]);
    let covered = mount.mounted.as_ref().unwrap().unmounter().unmount(true);
    run("umount", [&mount.place.path()]);
    assert!(matches!(covered, Err(FsError::NotOurs(_))), "{covered:?}");
    umount(mount.place.path(), false).unwrap();
}

#[test]
fn bad_targets_are_refused() {
    let Some(mounted) = Mount::new() else { return };
    let refused = |mount_point: PathBuf, source: &Path| {
        let options = MountOptions { mount_point, source: source.to_owned(), allow_other: false, no_exec: false };
        let tree = Arc::new(Tree::new(DIRECTORY));
        mount(&options, Served { tree, resources: Resources::new(0), total_bytes: 0 }).unwrap_err()
    };
    let other = tempfile::tempdir().unwrap();
    let place = other.path().canonicalize().unwrap();
    let file = place.join("file");
    fs::write(&file, "").unwrap();
    let source = Path::new("/source");
    assert!(matches!(refused(mounted.place.path().to_owned(), source), FsError::AlreadyMounted { .. }));
    assert!(matches!(refused(file.clone(), source), FsError::NotADirectory(_)));
    assert!(matches!(refused(place.join("nothing"), source), FsError::MountPoint { .. }));
    assert!(matches!(refused(place.clone(), &file), FsError::CoversInput { .. }));
    assert!(matches!(umount(&place, false), Err(FsError::NotMounted(_))));
    assert!(matches!(umount(&mounted.at("host"), false), Err(FsError::NotMounted(_))));
    assert!(matches!(umount(Path::new("/proc"), true), Err(FsError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
}
