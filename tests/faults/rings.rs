//! Requests through `io_uring`, where it is not allowed, and where it fails.

use std::fs;
use std::process::{Command, Stdio};

use kpackfs::mount::Transport;

use crate::common::{can_mount, program, skipped, transport, wait_until};
use crate::mounts::{Mount, bounded, tree};

#[test]
fn a_kernel_that_does_not_allow_rings_is_told_before_mounting() {
    let allowed = fs::read_to_string("/sys/module/fuse/parameters/enable_uring").ok();
    if !can_mount() || allowed.as_deref().is_some_and(|value| value.trim() == "Y") {
        return skipped("the kernel allows FUSE over io_uring; what is said otherwise was NOT checked");
    }
    let place = tempfile::tempdir().unwrap();
    let (input, mount) = (tree(place.path()), place.path().join("mount"));
    fs::create_dir(&mount).unwrap();
    let output = program().args(["mount", "--transport", "uring"]).arg(input).arg(&mount).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = match allowed {
        Some(_) => "FUSE over io_uring is off; as root, turn it on: echo Y > /sys/module/fuse/parameters/enable_uring",
        None => "the kernel has no FUSE over io_uring: that needs Linux 6.14 with CONFIG_FUSE_IO_URING",
    };
    assert_eq!(said, format!("kpackfs: --transport uring: {expected}\n"));
    assert_eq!(output.status.code(), Some(1));
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(mount.to_str().unwrap()));
}

/// Has the system calls of a ring fail from outside. Readers whose processor it served must not wait for ever.
#[test]
fn a_ring_that_fails_ends_the_mount() {
    if transport() != Transport::Uring {
        return skipped("a failing ring was NOT checked; that needs KPACKFS_TRANSPORT=uring");
    }
    let place = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(&tree(place.path()), &["--no-passthrough"]) else { return };
    assert_eq!(mount.read("host/demo/small.txt", 0, 5).unwrap(), b"hello");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "trace=io_uring_enter", "-e", "inject=io_uring_enter:error=EINVAL", "-p"]);
    let mut strace = strace.arg(mount.process().to_string()).stderr(Stdio::null()).spawn().unwrap();
    let place = mount.at("host/demo/stored.bin");
    let is_error = bounded("a reader", move || {
        loop {
            if let Err(error) = fs::read(&place) {
                return error.raw_os_error();
            }
            let file = fs::File::open(&place).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    });
    assert!([libc::ENOTCONN, libc::ECONNABORTED, libc::ENOENT].map(Some).contains(&is_error), "{is_error:?}");
    wait_until("the daemon has ended", || !fs::exists(format!("/proc/{}/exe", mount.process())).unwrap_or(false));
    strace.wait().unwrap();
    assert!(mount.log().contains("the ring of processor"), "{}", mount.log());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(mount.path().to_str().unwrap()), "the mount is left behind");
}
