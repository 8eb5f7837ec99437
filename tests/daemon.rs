//! The life of a daemon: readiness, failure, signals, and what a killed one leaves behind.
//!
//! It does not use the test harness, since a process with threads may not fork. Called with arguments, the same program
//! is the server.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, exit};
use std::sync::Arc;
use std::time::Instant;

use common::{transport, wait_until};
use kpackfs::fs::PassthroughChoice;
use kpackfs::mount::{MountError, MountOptions, ServeOptions, Served, find_mount, list_mounts, serve, umount};
use kpackfs::resources::Resources;
use kpackfs::rope::{Rope, Segment};
use kpackfs::source::{Attributes, EntryPath};
use kpackfs::tree::{Body, NodeKind, ROOT, Tree};

fn served() -> Served {
    let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
    let mut tree = Tree::new(attributes);
    let content = Rope::new([Segment::literal(std::process::id().to_string().into_bytes())]).unwrap();
    let kind = NodeKind::File { body: Body::Ready(Arc::new(content)), link_group: None };
    tree.insert(ROOT, &EntryPath::new(b"pid").unwrap(), attributes, kind).unwrap();
    Served { tree: Arc::new(tree), resources: Resources::new(0), total_bytes: 1 }
}

fn options(place: &Path) -> MountOptions {
    MountOptions {
        mount_point: place.to_owned(),
        source: "/in/wheel.whl".into(),
        allow_other: false,
        no_exec: false,
        passthrough: PassthroughChoice::Auto,
        transport: transport(),
    }
}

/// Runs when this program is called with `<how> <mount point>`.
fn server(how: &str, place: &Path) -> Result<(), MountError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let foreground = how == "foreground" || how == "panics";
    let options = ServeOptions { mount: options(place), foreground, is_fake: false, ready: None, keeps_files: true };
    let prepare = || match how {
        "fails" => {
            let reason = format!("no such wheel: {}", "ä".repeat(400));
            Err(MountError::Prepare { reason, is_understood: true })
        }
        "dies" => exit(7),
        "waits" => {
            println!("preparing");
            std::thread::sleep(common::PATIENCE);
            Ok(served())
        }
        _ => Ok(served()),
    };
    let ready = || {
        println!("ready");
        assert_ne!(how, "panics");
    };
    serve(options, prepare, ready)
}

/// A directory to mount on, which is unmounted in any case.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, how: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(how).arg(self.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Mounts in the background. Returns the daemon's process id, read from its own file.
    fn daemon(&self) -> String {
        // The daemon's ends of both pipes stay open until it closes them. So the return of this call proves that it
        // closed them.
        let output = self.command("background").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"ready\n");
        fs::read_to_string(self.path().join("pid")).unwrap()
    }

    fn is_mounted(&self) -> bool {
        let place = self.path().parent().unwrap().canonicalize().unwrap().join(self.path().file_name().unwrap());
        list_mounts().unwrap().iter().any(|entry| entry.mount_point == place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        while self.is_mounted() {
            umount(self.path(), true).ok();
        }
    }
}

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

fn is_gone(process: &str) -> bool {
    // A daemon whose parent has exited is a zombie until init reaps it.
    let status = fs::read_to_string(format!("/proc/{process}/stat"));
    status.map_or(true, |text| text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

fn foreground(place: &Place) -> Child {
    let mut child = place.command("foreground").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn the_mount_is_usable_when_the_command_returns() {
    let place = Place::new();
    let pid = place.daemon();
    let process = PathBuf::from("/proc").join(&pid);
    assert_eq!(process.join("cwd").read_link().unwrap(), Path::new("/"));
    for fd in 0..=2 {
        assert_eq!(process.join(format!("fd/{fd}")).read_link().unwrap(), Path::new("/dev/null"));
    }
    umount(place.path(), false).unwrap();
    wait_until("the daemon is gone", || is_gone(&pid));
}

fn reasons_reach_the_command() {
    let place = Place::new();
    let output = place.command("fails").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(32));
    assert!(text.starts_with("no such wheel: ää") && text.trim().len() <= 512, "{text}");
    let text = String::from_utf8(place.command("dies").output().unwrap().stderr).unwrap();
    assert_eq!(text.trim(), "the daemon ended before the mount was ready: exit status: 7");

    let pid = place.daemon();
    let output = place.command("background").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("a kpackfs is mounted here already, of /in/wheel.whl"), "{text}");
    kill("-TERM", &pid);
    wait_until("the daemon is gone", || is_gone(&pid) && !place.is_mounted());
}

fn a_killed_daemon_leaves_a_mount_that_umount_removes() {
    let place = Place::new();
    let pid = place.daemon();
    kill("-KILL", &pid);
    // Its threads end one by one, and the kernel sees the end only after the last of them. Cached bytes can be read
    // after the daemon's death, since the kernel does not ask it for them.
    let error = || fs::read(place.path().join("other")).err().and_then(|error| error.raw_os_error());
    wait_until("the connection is gone", || error() == Some(libc::ENOTCONN));
    let error = find_mount(place.path()).unwrap_err();
    assert!(matches!(error, MountError::Stale(_)), "{error}");
    assert!(error.to_string().contains("`kpackfs umount /"), "{error}");
    umount(place.path(), false).unwrap();
    assert!(matches!(umount(place.path(), false), Err(MountError::NotMounted(_))));
}

fn a_panic_leaves_no_mount() {
    let place = Place::new();
    let output = place.command("panics").output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(101), &b"ready\n"[..]));
    assert!(!place.is_mounted());
}

fn sigterm_lets_users_finish() {
    let place = Place::new();
    let mut child = foreground(&place);
    let mut file = File::open(place.path().join("pid")).unwrap();
    kill("-TERM", &child.id().to_string());
    wait_until("the mount is detached", || !place.is_mounted());
    assert_eq!(std::io::read_to_string(&mut file).unwrap(), child.id().to_string());
    assert!(child.try_wait().unwrap().is_none());
    drop(file);
    assert!(child.wait().unwrap().success());
}

fn sigint_ends_even_a_busy_mount_and_a_second_signal_the_process() {
    let place = Place::new();
    let mut child = foreground(&place);
    let file = File::open(place.path().join("pid")).unwrap();
    kill("-INT", &child.id().to_string());
    wait_until("the mount is detached", || !place.is_mounted());
    kill("-HUP", &child.id().to_string());
    assert!(child.try_wait().unwrap().is_none());
    kill("-INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    drop(file);
}

fn sigint_ends_a_mount_that_holds_another_one() {
    let place = Place::new();
    let mut child = foreground(&place);
    let inner = place.path().join("pid");
    assert!(Command::new("mount").arg("--bind").arg("/etc/hostname").arg(&inner).status().unwrap().success());
    kill("-INT", &child.id().to_string());
    wait_until("the mount is detached", || !place.is_mounted());
    assert!(child.wait().unwrap().success());
}

fn a_signal_while_preparing_ends_everything() {
    let place = Place::new();
    let mut child = place.command("waits").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    kill("-TERM", children.trim());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("killed by signal 15") && !place.is_mounted(), "{text}");
}

fn a_signal_spares_what_covers_the_mount() {
    let place = Place::new();
    let mut child = foreground(&place);
    let run = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).arg(place.path()).status().unwrap().success());
    };
    run("mount", &["-t", "tmpfs", "cover"]);
    kill("-TERM", &child.id().to_string());
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("not unmounted") && line.contains("covered"), "{line}");
    let still = fs::read_to_string("/proc/self/mountinfo").unwrap().contains("tmpfs cover");
    run("umount", &[]);
    assert!(still && child.try_wait().unwrap().is_none());
    umount(place.path(), false).unwrap();
    assert!(child.wait().unwrap().success());
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let [how, place] = arguments.as_slice()
        && Path::new(place).is_dir()
    {
        if let Err(error) = server(how.to_str().unwrap(), Path::new(place)) {
            eprintln!("{error}");
            exit(32);
        }
        return;
    }
    if !common::can_mount() {
        return;
    }
    let tests: [(&str, fn()); 9] = [
        ("the_mount_is_usable_when_the_command_returns", the_mount_is_usable_when_the_command_returns),
        ("reasons_reach_the_command", reasons_reach_the_command),
        ("a_killed_daemon_leaves_a_mount_that_umount_removes", a_killed_daemon_leaves_a_mount_that_umount_removes),
        ("a_panic_leaves_no_mount", a_panic_leaves_no_mount),
        ("sigterm_lets_users_finish", sigterm_lets_users_finish),
        ("sigint_ends_even_a_busy_mount", sigint_ends_even_a_busy_mount_and_a_second_signal_the_process),
        ("sigint_ends_a_mount_that_holds_another_one", sigint_ends_a_mount_that_holds_another_one),
        ("a_signal_while_preparing_ends_everything", a_signal_while_preparing_ends_everything),
        ("a_signal_spares_what_covers_the_mount", a_signal_spares_what_covers_the_mount),
    ];
    let begin = Instant::now();
    for (name, test) in tests {
        print!("test {name} ... ");
        std::io::stdout().flush().unwrap();
        test();
        println!("ok");
    }
    println!("finished in {:.2}s", begin.elapsed().as_secs_f64());
}
