use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Arc, Lister, OpenFiles, io};
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::testing::content_of;
use crate::source::{EntryKind, Input, InputKind};

#[test]
fn everything_in_a_directory_is_listed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    fs::create_dir_all(root.join("lib/empty")).unwrap();
    fs::write(root.join("lib/a.so"), "hello").unwrap();
    fs::hard_link(root.join("lib/a.so"), root.join("lib/b.so")).unwrap();
    symlink("a.so", root.join("lib/link")).unwrap();
    std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let input = Input::open(root, &Resources::new(1 << 20)).unwrap();
    let paths: Vec<_> = input.entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(paths, ["lib", "lib/a.so", "lib/b.so", "lib/empty", "lib/link"]);
    assert!(input.warnings[0].starts_with("socket: left out"));
    assert!(matches!(input.kind, InputKind::Tree));
    let links: Vec<_> = input
        .entries
        .iter()
        .filter_map(|entry| match entry.kind {
            EntryKind::File { link_group, .. } => link_group,
            _ => None,
        })
        .collect();
    assert_eq!((links.len(), links[0]), (2, links[1]));
    let mut bytes = [0; 3];
    content_of(&input, "lib/b.so").read_at(2, &mut bytes).unwrap();
    assert_eq!(&bytes, b"llo");
}

#[test]
fn file_systems_of_the_kernel_are_no_trees() {
    for (location, name) in [("/proc", "proc"), ("/sys", "sysfs")] {
        let error = Input::survey(Path::new(location), &Resources::new(0)).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{location}: {name}, whose files the kernel generates, so it contains nothing to split")
        );
    }
}

#[test]
fn what_a_user_may_not_list_is_refused_or_left_out_with_its_name() {
    let place = tempfile::tempdir().unwrap();
    let resources = Resources::new(0);
    let found = |errno: i32, is_strict: bool, path: &str| {
        let input = Input::open(place.path(), &resources).unwrap();
        let (files, mut denied) = (Arc::new(OpenFiles::new(1)), Vec::new());
        let list = (!is_strict).then_some(&mut denied);
        let (directories, mounts) = (Vec::new(), Vec::new());
        let mut lister =
            Lister { input, directories, mounts, files, left_out: None, resources: &resources, denied: list };
        let result = lister.existing::<()>(Err(io::Error::from_raw_os_error(errno)), &place.path().join(path));
        let warnings = lister.input.warnings.join("");
        let denied = denied.iter().map(ToString::to_string).collect::<String>();
        result.map(|_| warnings + &denied).map_err(|error| error.to_string())
    };
    let (secret, root) = (place.path().join("secret").display().to_string(), place.path().display().to_string());
    let denied = "Permission denied (os error 13)";
    assert_eq!(found(libc::EACCES, false, "secret"), Ok(format!("{secret}: {denied}")));
    assert_eq!(found(libc::EACCES, true, "secret"), Err(format!("{secret}: {denied}")));
    assert_eq!(found(libc::EACCES, false, ""), Err(format!("{root}/: {denied}")));
    assert!(found(libc::EIO, false, "secret").is_err());
    assert!(found(libc::ENOENT, true, "secret").unwrap().starts_with(&format!("{secret}: left out: it was deleted")));
}

#[test]
fn a_file_that_changes_or_shrinks_is_not_served() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("data");
    fs::write(&file, "0123456789").unwrap();
    let resources = Resources::new(1 << 20);
    let input = Input::open(place.path(), &resources).unwrap();
    let content = content_of(&input, "data");
    assert!(!content.is_nonblocking(0, 10));
    content.read_at(0, &mut [0; 10]).unwrap();
    assert!(content.is_nonblocking(0, 10));
    assert_eq!(content.backing().unwrap().open().unwrap().metadata().unwrap().len(), 10);
    assert_eq!(resources.counters.bytes_read.get(), 10);
    fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"x").unwrap();
    assert!(matches!(content.read_at(0, &mut [0; 4]), Err(ReadError::Changed { .. })));
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(2).unwrap();
    assert!(matches!(content.read_at(0, &mut [0; 4]), Err(ReadError::Changed { .. })));
    assert!(matches!(content.backing().unwrap().open(), Err(ReadError::Changed { .. })));
}

#[test]
fn an_unpacked_wheel_is_recognised() {
    let place = tempfile::tempdir().unwrap();
    let info = place.path().join("x-1.dist-info");
    fs::create_dir(&info).unwrap();
    let open = || Input::open(place.path(), &Resources::new(0)).unwrap().kind;
    assert!(matches!(open(), InputKind::Tree));
    fs::write(info.join("METADATA"), "").unwrap();
    fs::write(info.join("WHEEL"), "").unwrap();
    assert!(matches!(open(), InputKind::UnpackedWheel(info) if info.as_bytes() == b"x-1.dist-info"));
    fs::create_dir(place.path().join("y-1.dist-info")).unwrap();
    assert!(matches!(open(), InputKind::Tree));
}

#[test]
fn what_pip_left_is_decided_where_a_directory_is_listed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let count = 2000;
    for name in (0..count)
        .map(|number| format!("site/~{number}/below"))
        .chain(["site/x-1.dist-info", "~y/z"].map(str::to_owned))
    {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let resources = Resources::new(0);
    let asked = Cell::new(0);
    let is_left_out = |_: &Path| {
        asked.set(asked.get() + 1);
        false
    };
    let input = Input::open_without(&root, &is_left_out, &resources).unwrap();
    let paths: Vec<_> = input.entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(paths, ["site", "site/x-1.dist-info", "~y", "~y/z"]);
    // What is in them is not listed.
    assert_eq!((asked.get(), input.leftovers.len()), (paths.len() + count, count));
    assert!(
        input
            .left_by_pip()
            .unwrap()
            .contains("pip left site/~0, site/~1, site/~10, site/~100, site/~1000 and 1995 more of")
    );
    let whole = Input::open(&root, &resources).unwrap();
    assert_eq!((whole.entries.len(), whole.left_by_pip()), (paths.len() + 2 * count, None));
}
