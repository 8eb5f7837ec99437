//! Tests of mounting and unmounting.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::fs::PassthroughChoice;
use kpackfs::mount::{MountError, MountOptions, Served, list_mounts, mount, umount};
use kpackfs::resources::Resources;
use kpackfs::tree::Tree;

use super::mounts::{DIRECTORY, Mount, run};
use crate::common::transport;

#[test]
fn unmounting_from_outside_ends_the_session() {
    let Some(mut mount) = Mount::new() else { return };
    let mounted = mount.mounted.take().unwrap();
    let unmounter = mounted.unmounter.clone();
    let file = File::open(mount.at("host/two")).unwrap();
    assert!(matches!(umount(mount.place.path(), false), Err(MountError::Busy(_))));
    run("umount", [&"-l", &mount.place.path()]);
    // A process that has a file open can continue.
    let mut bytes = [0; 6];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"shared");
    drop(file);
    mounted.wait().unwrap();

    // What is mounted there now must not be touched.
    run("mount", [&"-t", &"tmpfs", &"other", &mount.place.path()]);
    let ours = unmounter.unmount(true);
    let foreign = umount(mount.place.path(), true);
    run("umount", [&mount.place.path()]);
    assert!(matches!(ours, Err(MountError::NotOurs(_))), "{ours:?}");
    assert!(matches!(&foreign, Err(MountError::Foreign { kind, .. }) if kind == "tmpfs"), "{foreign:?}");
}

#[test]
fn an_abort_ends_the_session_and_leaves_no_mount() {
    let Some(mut mount) = Mount::new() else { return };
    let mounted = mount.mounted.take().unwrap();
    let place = mounted.unmounter.place.clone();
    let entry = || list_mounts().unwrap().into_iter().find(|entry| entry.mount_point == place);
    let number = entry().unwrap().device.replace("0:", "");
    let control = tempfile::tempdir().unwrap();
    run("mount", [&"-t", &"fusectl", &"control", &control.path()]);
    let aborted = fs::write(control.path().join(number).join("abort"), "1");
    // The file can still be open in a program that another thread starts.
    run("umount", [&"-l", &control.path()]);
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
    assert!(matches!(&plain, Err(MountError::HasMount { inner, .. }) if *inner == mount.at("host")), "{plain:?}");
    run("mount", [&"-t", &"tmpfs", &"cover", &mount.place.path()]);
    let covered = mount.mounted.as_ref().unwrap().unmounter.unmount(true);
    run("umount", [&mount.place.path()]);
    assert!(matches!(covered, Err(MountError::NotOurs(_))), "{covered:?}");
    umount(mount.place.path(), false).unwrap();
}

#[test]
fn bad_targets_are_refused() {
    let Some(mounted) = Mount::new() else { return };
    let refused = |mount_point: PathBuf, source: &Path| {
        let options = MountOptions {
            mount_point,
            source: source.to_owned(),
            allow_other: false,
            no_exec: false,
            passthrough: PassthroughChoice::Auto,
            transport: transport(),
        };
        let tree = Arc::new(Tree::new(DIRECTORY));
        mount(&options, Served { tree, resources: Resources::new(0), total_bytes: 0 }).unwrap_err()
    };
    let other = tempfile::tempdir().unwrap();
    let place = other.path().canonicalize().unwrap();
    let file = place.join("file");
    fs::write(&file, "").unwrap();
    let source = Path::new("/source");
    assert!(matches!(refused(mounted.place.path().to_owned(), source), MountError::AlreadyMounted { .. }));
    assert!(matches!(refused(file.clone(), source), MountError::NotADirectory(_)));
    assert!(matches!(refused(place.join("nothing"), source), MountError::NoDirectory(_)));
    assert!(matches!(refused(place.clone(), &file), MountError::CoversInput { .. }));
    assert!(matches!(umount(&place, false), Err(MountError::NotMounted(_))));
    let inside = umount(&mounted.at("host"), false);
    let Err(MountError::InMount { mount_point, .. }) = inside else { panic!("{inside:?}") };
    assert_eq!(mount_point, mounted.place.path());
    assert!(matches!(umount(Path::new("/proc"), true), Err(MountError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
}
