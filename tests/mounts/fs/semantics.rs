//! What single operations guarantee: attributes, extended attributes, seeking, names, limits.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use kpackfs::metrics::RequestKind;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Rope, Segment};
use kpackfs::source::EntryPath;
use kpackfs::tree::{Body, NodeKind, Origin, OriginKind, ROOT, Tree};
use rustix::fs::{FlockOperation, SeekFrom};
use rustix::io::Errno;

use super::mounts::{BIG_SIZE, DIRECTORY, FILE, Mount, output, pattern, run};
use crate::common::errno;

/// The value of an extended attribute, read into a buffer of this size.
fn extended(path: &Path, name: &str, size: usize) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; size];
    let length = rustix::fs::getxattr(path, name, &mut buffer[..])?;
    buffer.truncate(length);
    Ok(buffer)
}

#[test]
fn extended_attributes_tell_the_origin_and_are_not_copied() {
    let mut tree = Tree::new(DIRECTORY);
    let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(*b"text")]).unwrap());
    let entry = EntryPath::new(&[b"lib/\xff".as_slice(), &[b'n'; 200]].concat()).unwrap();
    let mut add = |name: &[u8], origin| {
        let kind = NodeKind::File { body: Body::Ready(Arc::clone(&content)), link_group: None };
        let node = tree.insert(ROOT, &EntryPath::new(name).unwrap(), FILE, kind).unwrap();
        tree.set_origin(node, origin);
    };
    add(b"host/a", Origin::of(OriginKind::Rewritten, &entry));
    add(b"host/b", Origin::made(OriginKind::Archive));
    let Some(mount) = Mount::of(tree, &Resources::new(0)) else { return };
    let (a, b) = (mount.at("host/a"), mount.at("host/b"));

    assert_eq!(extended(&a, "user.kpackfs.kind", 100).unwrap(), b"rewritten");
    assert_eq!(extended(&a, "user.kpackfs.origin", 1000).unwrap(), entry.as_bytes());
    assert_eq!(extended(&b, "user.kpackfs.kind", 7).unwrap(), b"archive", "a buffer that just fits");
    assert_eq!(extended(&mount.at("host"), "user.kpackfs.kind", 100).unwrap(), b"made");
    // Size 0 asks for the size, and a buffer that is too small gets ERANGE (getxattr(2)).
    assert_eq!(rustix::fs::getxattr_query(&a, "user.kpackfs.origin"), Ok(entry.as_bytes().len()));
    assert_eq!(extended(&a, "user.kpackfs.origin", 204), Err(Errno::RANGE));
    assert_eq!(extended(&b, "user.kpackfs.kind", 6), Err(Errno::RANGE));
    for (path, name) in [(&b, "origin"), (&b, "sha256"), (&a, "sha256"), (&a, "none"), (&a, "")] {
        let name = format!("user.kpackfs.{name}");
        assert_eq!(extended(path, &name, 100), Err(Errno::NODATA), "{name}");
    }
    // Other namespaces do not exist. The kernel asks for them once, not for each file.
    for name in ["security.selinux", "system.posix_acl_access", "trusted.x"] {
        assert_eq!(extended(&a, name, 100), Err(Errno::OPNOTSUPP), "{name}");
    }

    // Those that there are cannot be listed, so no program copies them.
    for path in [&a, &mount.at("host"), &mount.place.path().to_owned()] {
        assert_eq!(rustix::fs::llistxattr(path, &mut [0_u8; 0][..]), Ok(0));
        assert_eq!(rustix::fs::llistxattr(path, &mut [0_u8; 100][..]), Ok(0));
    }
    let copies = tempfile::tempdir().unwrap();
    let copy_all = "cp -a \"$0\" \"$1/cp\" && mkdir \"$1/tar\" && tar --xattrs -C \"$0\" -c . | tar --xattrs -C \"$1/tar\" -x \
                    && rsync -aX \"$0/\" \"$1/rsync\"";
    let said = output("sh", [&"-c", &copy_all, &mount.at("host"), &copies.path()]);
    assert!(said.status.success() && said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
    for tool in ["cp", "tar", "rsync"] {
        let copy = extended(&copies.path().join(tool).join("a"), "user.kpackfs.kind", 100);
        assert!(matches!(copy, Err(Errno::NODATA | Errno::OPNOTSUPP)), "{tool}: {copy:?}");
    }
}

#[test]
fn a_file_is_one_run_of_data_and_sparse_copies_are_exact() {
    let mut tree = Tree::new(DIRECTORY);
    let data = |byte| Segment::literal(vec![byte; 10_000]);
    let rope = Rope::new([data(1), Segment::zeros(5_000_000), data(2), Segment::zeros(100_000)]).unwrap();
    let (size, expected) = (rope.size(), rope.to_vec().unwrap());
    let kind = NodeKind::File { body: Body::Ready(Arc::new(rope)), link_group: None };
    tree.insert(ROOT, &EntryPath::new(b"holes").unwrap(), FILE, kind).unwrap();
    let Some(mount) = Mount::of(tree, &Resources::new(0)) else { return };
    let place = mount.at("holes");
    let file = File::open(&place).unwrap();
    for at in [0, 9_999, 10_000, 3_000_000, size - 1] {
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(at)), Ok(at));
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(at)), Ok(size));
    }
    for at in [size, size + 1] {
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(at)), Err(Errno::NXIO));
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(at)), Err(Errno::NXIO));
    }
    // No tool takes the file for sparse: its number of blocks corresponds to its size.
    assert_eq!(place.metadata().unwrap().blocks(), size.div_ceil(512));
    let copies = tempfile::tempdir().unwrap();
    for how in ["always", "auto", "never"] {
        let copy = copies.path().join(how);
        run("cp", [&format!("--sparse={how}"), &place, &copy]);
        assert!(fs::read(&copy).unwrap() == expected, "cp --sparse={how}");
    }
    let archive = copies.path().join("archive");
    run("tar", [&"-C", &mount.place.path(), &"-Scf", &archive, &"holes"]);
    run("tar", [&"-C", &copies.path(), &"-xf", &archive]);
    assert!(fs::read(copies.path().join("holes")).unwrap() == expected, "tar -S");
}

#[test]
fn what_is_not_there_is_asked_for_once() {
    let Some(mount) = Mount::new() else { return };
    let long = OsString::from_vec(vec![b'x'; 256]);
    let odd = OsStr::from_bytes(b"\xff\xfe\xfd");
    for _ in 0..3 {
        assert_eq!(errno(fs::metadata(mount.at("host/nothing"))), libc::ENOENT);
        assert_eq!(errno(fs::metadata(mount.at("host").join(odd))), libc::ENOENT);
        assert_eq!(errno(fs::metadata(mount.at("host").join(&long))), libc::ENAMETOOLONG);
        assert_eq!(errno(File::open(mount.at("gfx942/.kpack/nothing"))), libc::ENOENT);
    }
    // The three names, the overlong name each time, and `host`, `gfx942`, `.kpack`.
    assert_eq!(mount.of_kind(RequestKind::Lookup), 9);
}

#[test]
fn statfs_tells_a_full_filesystem() {
    let Some(mount) = Mount::new() else { return };
    let found = rustix::fs::statvfs(mount.place.path()).unwrap();
    assert_eq!((found.f_bsize, found.f_frsize, found.f_namemax), (4096, 4096, 255));
    assert_eq!((found.f_blocks, found.f_bfree, found.f_bavail), (10_000_000_u64.div_ceil(4096), 0, 0));
    assert!(found.f_files > 3000);
    assert_eq!((found.f_ffree, found.f_favail), (0, 0));
    assert_eq!(rustix::fs::statvfs(mount.at("host/lib/small.txt")).unwrap().f_fsid, found.f_fsid);
}

#[test]
fn numbers_of_listings_are_those_of_stat() {
    let Some(mount) = Mount::new() else { return };
    for directory in ["", "host", "host/lib", "gfx942/.kpack"] {
        for entry in fs::read_dir(mount.at(directory)).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.ino(), entry.metadata().unwrap().ino(), "{}", entry.path().display());
        }
    }
}

#[test]
fn files_can_be_locked_and_synced() {
    let Some(mount) = Mount::new() else { return };
    let open = || File::open(mount.at("host/lib/small.txt")).unwrap();
    let (one, other) = (open(), open());
    let lock = |file: &File, how| rustix::fs::flock(file.as_fd(), how);
    lock(&one, FlockOperation::LockExclusive).unwrap();
    assert_eq!(lock(&other, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    drop(one);
    lock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    rustix::fs::fcntl_lock(&other, FlockOperation::LockShared).unwrap();
    other.sync_all().unwrap();
    File::open(mount.at("host")).unwrap().sync_all().unwrap();
}

#[test]
fn permissions_are_those_of_the_input() {
    let Some(mount) = Mount::new() else { return };
    run("test", [&"-r", &mount.at("host/lib/small.txt")]);
    let executable = output("test", [&"-x", &mount.at("host/lib/small.txt")]);
    assert!(!executable.status.success(), "nobody may execute what has no x");
    let executed = std::process::Command::new(mount.at("host/lib/small.txt")).output();
    assert_eq!(errno(executed), libc::EACCES);
}

#[test]
fn bytes_stay_while_pages_come_and_go() {
    let Some(mount) = Mount::new() else { return };
    let file = File::open(mount.at("host/lib/big.bin")).unwrap();
    for _ in 0..3 {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert!(fs::read(mount.at("host/lib/big.bin")).unwrap() == pattern(BIG_SIZE));
    }
}
