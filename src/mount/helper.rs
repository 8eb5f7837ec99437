//! Mounting and unmounting for unprivileged users, by fusermount3, which is set-uid root.

#[cfg(test)]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::MountError;
use super::options::MountOptions;
use super::sys;

const HELPER: &str = "fusermount3";

/// Mounts through the helper, and receives the FUSE device from it.
pub(super) fn mount(mount_point: &Path, how: &MountOptions) -> Result<OwnedFd, MountError> {
    let failed = |message: String| MountError::Helper { path: mount_point.to_owned(), message };
    let (ours, theirs) = UnixStream::pair().map_err(MountError::system("socketpair"))?;
    // The helper sends the device through the descriptor that `_FUSE_COMMFD` names. As standard input, the descriptor
    // is inherited.
    let mut command = Command::new(HELPER);
    command.arg("-o").arg(options(how)).arg("--").arg(mount_point);
    command.env("_FUSE_COMMFD", "0").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| not_run(mount_point, &error))?;
    // `command` holds the other end of the socket. While that is open, the end of the stream is not visible.
    drop(command);
    let device = sys::receive_fd(&ours);
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    match device {
        Ok(Some(device)) if output.status.success() => Ok(device),
        Err(error) => Err(failed(error.to_string())),
        Ok(_) => Err(failed(reason(&output))),
    }
}

/// Unmounts through the helper.
pub(super) fn unmount(mount_point: &Path, lazy: bool) -> Result<(), MountError> {
    let failed = |message: String| MountError::Helper { path: mount_point.to_owned(), message };
    let flags: &[&str] = if lazy { &["-u", "-z"] } else { &["-u"] };
    let output = Command::new(HELPER)
        .args(flags)
        .arg("--")
        .arg(mount_point)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_run(mount_point, &error))?;
    let message = reason(&output);
    match output.status.success() {
        true => Ok(()),
        false if message.contains("busy") => Err(MountError::Busy(mount_point.to_owned())),
        false => Err(failed(message)),
    }
}

/// The error of a helper that cannot be started.
fn not_run(mount_point: &Path, error: &io::Error) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper(mount_point.to_owned()),
        _ => MountError::Helper { path: mount_point.to_owned(), message: error.to_string() },
    }
}

fn reason(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.trim().strip_prefix("fusermount3: ").unwrap_or(text.trim()) {
        "" => output.status.to_string(),
        text => text.to_owned(),
    }
}

fn options(how: &MountOptions) -> OsString {
    let mut options = b"ro,nosuid,nodev,default_permissions,subtype=kpackfs,fsname=".to_vec();
    for &byte in how.source.as_os_str().as_bytes() {
        // fusermount splits at commas without a preceding backslash, and removes backslashes (libfuse
        // util/fusermount.c, get_string_opt).
        if matches!(byte, b',' | b'\\') {
            options.push(b'\\');
        }
        options.push(byte);
    }
    if how.allow_other {
        options.extend_from_slice(b",allow_other");
    }
    if how.no_exec {
        options.extend_from_slice(b",noexec");
    }
    OsString::from_vec(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::PassthroughChoice;
    use crate::mount::transport::Transport;

    fn of(source: &OsStr) -> MountOptions {
        MountOptions {
            mount_point: "/unused".into(),
            source: source.into(),
            allow_other: false,
            no_exec: true,
            passthrough: PassthroughChoice::Auto,
            transport: Transport::DevFuse,
        }
    }

    #[test]
    fn commas_and_backslashes_in_the_source_are_escaped() {
        let options = MountOptions { allow_other: true, ..of(OsStr::new("/a,b\\c.whl")) };
        let text = super::options(&options);
        assert!(text.to_str().unwrap().ends_with(r"fsname=/a\,b\\c.whl,allow_other,noexec"), "{text:?}");
    }

    #[test]
    fn the_helper_mounts_and_unmounts() {
        if std::fs::File::open("/dev/fuse").is_err() {
            eprintln!("SKIPPED: /dev/fuse cannot be opened");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        for source in [&b"/a, b\\c.whl"[..], b"/\"a'\nb\tc\\,.whl", b"/\xff,\\040"] {
            let source = OsStr::from_bytes(source);
            let device = mount(&path, &of(source)).unwrap();
            let entry = super::super::topmost(&path).unwrap().unwrap();
            drop(device);
            unmount(&path, true).unwrap();
            assert_eq!((&*entry.kind, &*entry.source), ("fuse.kpackfs", source));
        }
        let error = unmount(&path, false).unwrap_err();
        assert!(matches!(error, MountError::Helper { .. }), "{error}");
    }
}
