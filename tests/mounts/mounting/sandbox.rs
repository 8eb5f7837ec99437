//! The sandbox in which the scripts run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{namespaces, skipped};

/// The beginning of every script. `$D` is a directory of the test, `$IN` an install tree with one fat library, `$M` a
/// mount point.
const PROLOGUE: &str = r#"
set -u
mount -t overlay -o "ro,lowerdir=$D/sbin:$(realpath /sbin)" overlay "$(realpath /sbin)" || exit 99
M=$D/m IN=$D/in
daemon() { pidof kpackfs; }
gone() { while kill -0 "$1" 2>/dev/null; do sleep 0.01; done; }
stop() { kill -STOP "$1"; until grep -q '^State:.T' "/proc/$1/status"; do sleep 0.01; done; }
# Every user may open the device, as is usual on other machines. fusermount3 reads /etc/mtab, which small images lack.
for_users() {
    [ -e /etc/mtab ] || { mkdir "$D/etc"; ln -s /proc/self/mounts "$D/etc/mtab"; mount -t overlay -o "ro,lowerdir=$D/etc:/etc" overlay /etc; }
    mknod -m 666 "$D/fuse" c 10 229 && mount --bind "$D/fuse" /dev/fuse || { echo no; exit; }
    mkdir "$D/bin" && cp "$(command -v kpackfs)" "$D/bin/"
    chown 65534 "$M"; chmod 755 "$IN"
    cd /
}
as() { setpriv --reuid=65534 --regid=65534 --clear-groups env PATH="$D/bin:$PATH" HOME=/nonexistent "$@"; }
"#;

/// A script that takes longer than this many seconds hangs.
const LIMIT: &str = "600";

/// A directory with an input and a mount point.
pub(crate) struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// `None` if this machine cannot provide one.
    pub(crate) fn new() -> Option<Self> {
        let sandbox = Self { directory: tempfile::tempdir().unwrap() };
        for name in ["sbin", "m", "in"] {
            fs::create_dir(sandbox.at(name)).unwrap();
        }
        // Other users must be able to reach it.
        fs::set_permissions(sandbox.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy("tests/fixtures/plain.so", sandbox.at("in/plain.so")).unwrap();
        for name in ["mount.kpackfs", "mount.fuse.kpackfs"] {
            symlink(program(), sandbox.at("sbin").join(name)).unwrap();
        }
        let output = sandbox.output("exec 3<>/dev/fuse", &[]);
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            skipped(&format!("no namespaces, overlayfs or /dev/fuse here; NOTHING was checked: {reason}"));
            return None;
        }
        Some(sandbox)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The output of a script, stdout and stderr, with `$D` in place of the directory, and without what a mount says when it is ready.
    pub(crate) fn run(&self, script: &str) -> String {
        self.run_with(script, &[])
    }

    /// The same with variables.
    pub(crate) fn run_with(&self, script: &str, variables: &[(&str, &Path)]) -> String {
        let output = self.output(&format!("exec 2>&1\n{script}"), variables);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {text}", output.status);
        let is_of_mount = |line: &&str| line.starts_with("kpackfs: mounted on ") || line.starts_with("next: ls ");
        let text: String = text.split_inclusive('\n').filter(|line| !is_of_mount(line)).collect();
        text.replace(self.directory.path().to_str().unwrap(), "$D")
    }

    fn output(&self, script: &str, variables: &[(&str, &Path)]) -> Output {
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let mut unshare = Command::new("timeout");
        // unshare --fork blocks SIGTERM.
        unshare.args(["--signal=KILL", LIMIT]);
        let mut options = vec!["--pid", "--fork", "--kill-child", "--mount-proc"];
        if !is_root {
            options.extend(["--user", "--map-root-user"]);
        }
        unshare.args(namespaces::unshare(&options));
        let path = std::env::var("PATH").unwrap();
        let beside = program().parent().unwrap().display().to_string();
        unshare.args(["bash", "-c", &format!("{PROLOGUE}{script}")]).stdin(Stdio::null());
        unshare.env("D", self.directory.path()).env("PATH", format!("{beside}:{path}:/sbin"));
        unshare.env("KPACKFS_CACHE_DIR", "").envs(variables.iter().copied());
        unshare.output().unwrap()
    }
}

pub(crate) fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_kpackfs").into()
}

/// Whether a command exists. If not, reports what is not checked.
pub(crate) fn has(command: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", command]).status().unwrap().success();
    if !found {
        skipped(&format!("no {command} here; what it would check was NOT checked"));
    }
    found
}
