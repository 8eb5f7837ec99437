//! Every operation that would change something, on a mount as it is and on one that was remounted read-write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::time::{Instant, SystemTime};

use kpackfs::metrics::RequestKind;
use memmap2::MmapMut;
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, RenameFlags, XattrFlags};

use super::mounts::{Mount, output, run};
use crate::common::{PATIENCE, errno, skipped};

type Attempt = fn(file: &Path, other: &Path, fresh: &Path) -> io::Result<()>;

/// Names of system calls, each with one way to change something. `fresh` does not exist.
const ATTEMPTS: [(&str, Attempt); 35] = [
    ("open O_WRONLY, write", |file, _, _| OpenOptions::new().write(true).open(file)?.write_all(b"wrong")),
    ("open O_RDWR, pwrite", |file, _, _| writable(file)?.write_all_at(b"wrong", 2)),
    ("open O_APPEND, write", |file, _, _| OpenOptions::new().append(true).open(file)?.write_all(b"wrong")),
    ("open O_TRUNC", |file, _, _| OpenOptions::new().write(true).truncate(true).open(file).map(drop)),
    ("open O_CREAT", |_, _, fresh| File::create(fresh).map(drop)),
    ("open O_CREAT|O_EXCL", |_, _, fresh| File::create_new(fresh).map(drop)),
    ("open O_TMPFILE", |file, _, _| {
        let directory = file.parent().unwrap();
        OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(directory).map(drop)
    }),
    ("truncate", |file, _, _| {
        let text = String::from_utf8(output("truncate", [&"--no-create", &"--size=1", &file]).stderr).unwrap();
        if text.contains("Read-only file system") { Err(io::Error::from_raw_os_error(libc::EROFS)) } else { Ok(()) }
    }),
    ("ftruncate", |file, _, _| writable(file)?.set_len(1)),
    ("mkdir", |_, _, fresh| fs::create_dir(fresh)),
    ("unlink", |file, _, _| fs::remove_file(file)),
    ("rmdir", |file, _, _| fs::remove_dir(file.ancestors().nth(2).unwrap().join("none"))),
    ("rename", |file, _, fresh| fs::rename(file, fresh)),
    ("rename onto another", |file, other, _| fs::rename(file, other)),
    ("renameat2 RENAME_NOREPLACE", |file, _, fresh| {
        Ok(rustix::fs::renameat_with(CWD, file, CWD, fresh, RenameFlags::NOREPLACE)?)
    }),
    ("renameat2 RENAME_EXCHANGE", |file, other, _| {
        Ok(rustix::fs::renameat_with(CWD, file, CWD, other, RenameFlags::EXCHANGE)?)
    }),
    ("link", |file, _, fresh| fs::hard_link(file, fresh)),
    ("symlink", |_, _, fresh| symlink("x", fresh)),
    ("mknod, fifo", |_, _, fresh| Ok(rustix::fs::mknodat(CWD, fresh, FileType::Fifo, Mode::RUSR, 0)?)),
    ("mknod, socket", |_, _, fresh| Ok(rustix::fs::mknodat(CWD, fresh, FileType::Socket, Mode::RUSR, 0)?)),
    ("chmod", |file, _, _| fs::set_permissions(file, fs::Permissions::from_mode(0o600))),
    ("chmod of a directory", |file, _, _| {
        fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o700))
    }),
    ("fchmod", |file, _, _| File::open(file)?.set_permissions(fs::Permissions::from_mode(0o600))),
    ("chown", |file, _, _| chown(file, Some(1), None)),
    ("lchown", |file, _, _| lchown(file.with_file_name("link.txt"), Some(1), None)),
    ("utimensat", |file, _, _| File::open(file)?.set_modified(SystemTime::UNIX_EPOCH)),
    ("setxattr", |file, _, _| Ok(rustix::fs::setxattr(file, "user.x", b"y", XattrFlags::empty())?)),
    ("setxattr of ours", |file, _, _| Ok(rustix::fs::setxattr(file, "user.kpackfs.kind", b"y", XattrFlags::REPLACE)?)),
    ("removexattr", |file, _, _| Ok(rustix::fs::removexattr(file, "user.kpackfs.kind")?)),
    ("fallocate", |file, _, _| Ok(rustix::fs::fallocate(writable(file)?, FallocateFlags::empty(), 0, 9)?)),
    ("fallocate FALLOC_FL_PUNCH_HOLE", |file, _, _| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(writable(file)?, flags, 0, 2)?)
    }),
    ("copy_file_range", |file, other, _| {
        rustix::fs::copy_file_range(File::open(other)?, None, writable(file)?, None, 3).map(drop).map_err(Into::into)
    }),
    ("sendfile", |file, other, _| {
        rustix::fs::sendfile(writable(file)?, File::open(other)?, None, 3).map(drop).map_err(Into::into)
    }),
    ("mmap MAP_SHARED, msync", write_to_mapping),
    ("write through a hard link", |_, other, _| OpenOptions::new().write(true).open(other)?.write_all(b"wrong")),
];

fn writable(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(file)
}

#[expect(unsafe_code, reason = "mapping a file")]
fn write_to_mapping(file: &Path, _: &Path, _: &Path) -> io::Result<()> {
    let file = writable(file)?;
    // SAFETY: nothing else accesses the mapping.
    let mut map = unsafe { MmapMut::map_mut(&file)? };
    map.as_mut().write_all(b"wrong")?;
    map.flush()
}

/// The result of each attempt, as errno.
fn attempts(mount: &Mount) -> Vec<(&'static str, i32)> {
    let (file, other, fresh) = (mount.at("host/lib/small.txt"), mount.at("host/two"), mount.at("host/fresh"));
    ATTEMPTS.iter().map(|(what, attempt)| (*what, errno(attempt(&file, &other, &fresh)))).collect()
}

#[test]
fn nothing_can_be_changed_even_when_remounted() {
    let Some(mount) = Mount::new() else { return };
    for (what, errno) in attempts(&mount) {
        assert_eq!(errno, libc::EROFS, "{what}");
    }
    let remounted = output("mount", [&"-i", &"-o", &"remount,rw", &mount.place.path()]);
    if !remounted.status.success() {
        return skipped(&format!("cannot remount: {}", String::from_utf8_lossy(&remounted.stderr)));
    }
    let options = run("findmnt", [&"-no", &"FS-OPTIONS", &mount.place.path()]);
    assert!(options.starts_with("rw"), "{options}");
    for (what, errno) in attempts(&mount) {
        let by_the_kernel: &[i32] = match what {
            // Since 6.14 the kernel may itself answer requests for links.
            "link" => &[libc::EPERM, libc::ENOSYS],
            // The protocol that fuser implements has no such request.
            "open O_TMPFILE" => &[libc::EOPNOTSUPP],
            _ => &[],
        };
        assert!(errno == libc::EROFS || by_the_kernel.contains(&errno), "{what}: {errno}");
    }
    let limit = Instant::now() + PATIENCE;
    // On request, the kernel discards what was written to the mapping.
    while fs::read(mount.at("host/lib/small.txt")).unwrap() != b"hello" {
        assert!(Instant::now() < limit, "still there");
    }
    assert_eq!(fs::read(mount.at("host/two")).unwrap(), b"shared");
    assert!(mount.of_kind(RequestKind::Change) > 20);
}
