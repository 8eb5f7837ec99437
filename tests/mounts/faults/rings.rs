//! Requests through `io_uring`, where it is not allowed, and where it fails.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use kpackfs::mount::Transport;
use serde_json::Value;

use crate::common::mounts::{Mount, bounded, tree};
use crate::common::namespaces;
use crate::common::{can_mount, skipped, transport, wait_until};

const ENABLE: &str = "/sys/module/fuse/parameters/enable_uring";

/// Mounts with a transport where `possible` are the possible processors, reads a file, and unmounts. Returns its content and
/// the status, or what is said.
fn mounted(transport: &str, possible: Option<&str>) -> Result<(String, Value), String> {
    let place = tempfile::tempdir().unwrap();
    let (input, mount, list) = (tree(place.path()), place.path().join("mount"), place.path().join("possible"));
    fs::create_dir(&mount).unwrap();
    fs::write(&list, possible.unwrap_or_default()).unwrap();
    let script = r#"
        [ -z "$5" ] || mount --bind "$4" /sys/devices/system/cpu/possible
        "$0" mount --no-cache --transport "$1" "$2" "$3" || { code=$?; ! grep -F "$3" /proc/mounts >&2; exit $code; }
        cat "$3/host/demo/small.txt" "$3/.kpackfs/status.json"
        umount "$3""#;
    let mut command = Command::new("timeout");
    command.arg("300").args(namespaces::unshare(&[])).args(["sh", "-ec", script]);
    command.args([env!("CARGO_BIN_EXE_kpackfs"), transport]);
    command.args([&input, &mount, &list]).arg(possible.unwrap_or_default()).env_remove("KPACKFS_TRANSPORT");
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(format!("{}{}", String::from_utf8(output.stderr).unwrap(), output.status));
    }
    let shown = String::from_utf8(output.stdout).unwrap();
    let (text, status) = shown.split_once('{').unwrap();
    Ok((text.to_owned(), serde_json::from_str(&format!("{{{status}")).unwrap()))
}

fn transport_of(status: &Value) -> (&str, Option<&str>) {
    let text = |name| status.pointer(name).and_then(Value::as_str);
    (text("/transport/kind").unwrap(), text("/transport/reason"))
}

#[test]
fn a_kernel_that_does_not_allow_rings_is_told() {
    let allowed = fs::read_to_string(ENABLE).ok();
    if !can_mount() || allowed.as_deref().is_some_and(|value| value.trim() == "Y") {
        return skipped("the kernel allows FUSE over io_uring; what is said otherwise was NOT checked");
    }
    let expected = match allowed {
        Some(_) => "FUSE over io_uring is off; as root, turn it on: echo Y > /sys/module/fuse/parameters/enable_uring",
        None => "the kernel has no FUSE over io_uring: that needs Linux 6.14 with CONFIG_FUSE_IO_URING",
    };
    let said = mounted("uring", None).unwrap_err();
    assert_eq!(said, format!("kpackfs: --transport uring: {expected}\nexit status: 1"));
    let (text, status) = mounted("auto", None).unwrap();
    assert_eq!((&*text, transport_of(&status)), ("hello", ("dev-fuse", Some(expected))));
    let (_, status) = mounted("dev-fuse", None).unwrap();
    assert_eq!(transport_of(&status), ("dev-fuse", None));
}

/// A container may show other processors than the kernel has, which then waits for queues, or refuses some.
#[test]
fn where_rings_do_not_fit_auto_takes_dev_fuse() {
    if transport() != Transport::Uring {
        return skipped("auto was NOT checked where rings are allowed; that needs KPACKFS_TRANSPORT=uring");
    }
    let (text, status) = mounted("auto", None).unwrap();
    assert_eq!((&*text, transport_of(&status)), ("hello", ("uring", None)));
    assert!(status["counters"]["ring_requests"].as_u64() > Some(0));
    // More than there are do no harm.
    let (text, status) = mounted("auto", Some("0-127")).unwrap();
    assert_eq!((&*text, transport_of(&status)), ("hello", ("uring", None)));
    let processors = thread::available_parallelism().unwrap().get() as u64;
    assert!(status["counters"]["ring_entries"].as_u64() < Some(128 * 127) || processors >= 128);
    for (possible, expected) in [
        // Unless there is one only.
        ("0", "the kernel has more processors than /sys/devices/system/cpu/possible says"),
        ("0-511", "512 processors are possible; rings are for 256 at most"),
        ("", "\"\\n\" is no list"),
    ] {
        // An empty list would mean no mount at all.
        let list = if possible.is_empty() { "\n" } else { possible };
        let (text, status) = mounted("auto", Some(list)).unwrap();
        let (kind, reason) = transport_of(&status);
        assert_eq!((&*text, kind), ("hello", "dev-fuse"), "{possible}");
        assert!(reason.unwrap().contains(expected), "{possible}: {reason:?}");
        assert_eq!(status["counters"]["ring_entries"], 0, "{possible}");
        let said = mounted("uring", Some(list)).unwrap_err();
        assert!(said.contains(expected), "{possible}: {said}");
    }
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
