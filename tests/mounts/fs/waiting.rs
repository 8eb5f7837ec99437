//! Processes that wait for long work.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::mounts::Mount;
use crate::common::mounts::bounded;
use crate::common::wait_until;

/// Waits for the size of `odd/unsized`.
fn lists(mount: &Mount) -> Child {
    start(Command::new("ls").arg("-l").arg(mount.at("odd")))
}

/// Waits for bytes of a file.
fn reads(mount: &Mount) -> Child {
    let file = |path: &Path| format!("if={}", path.display());
    start(Command::new("dd").arg(file(&mount.at("odd/waits"))).args(["iflag=direct", "of=/dev/null"]))
}

/// Waits for the size of `odd/unsized`, and has a handler of SIGUSR1.
fn tests(mount: &Mount) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "trap : USR1; echo; test -s \"$1\"", "sh"]).arg(mount.at("odd/unsized"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // A signal without a handler would end it.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// Whether a request waits that was interrupted by a signal, and not answered yet.
fn is_interrupted() -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    // A thread may end meanwhile.
    threads.flat_map(|thread| fs::read_to_string(thread.path().join("comm"))).any(|name| name == "kpackfs-killed\n")
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The status of a process that ends.
fn end(mut child: Child) -> ExitStatus {
    bounded("the end of a process", move || child.wait().unwrap())
}

#[test]
fn who_waits_can_be_killed() {
    let Some(mut mount) = Mount::new() else { return };
    let requests = mount.resources.clone();
    let waiting = || requests.counters.requests.waiting();
    for signal in [Signal::TERM, Signal::KILL] {
        for starts in [lists, reads] {
            let child = starts(&mount);
            wait_until("a request waits", || waiting() == 1);
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert!(!end(child).success());
            wait_until("none waits", || waiting() == 0);
        }
    }
    // Nobody else waits meanwhile.
    let other = lists(&mount);
    wait_until("a request waits", || waiting() == 1);
    assert_eq!(fs::read_dir(mount.at("odd")).unwrap().count(), 5);
    assert_eq!(fs::symlink_metadata(mount.at("odd/waits")).unwrap().len(), 4096);
    mount.release();
    assert!(end(other).success());
    assert_eq!(fs::metadata(mount.at("odd/unsized")).unwrap().len(), 4);
}

#[test]
fn a_signal_with_a_handler_fails_nothing() {
    let Some(mut mount) = Mount::new() else { return };
    let requests = mount.resources.clone();
    let waiting = || requests.counters.requests.waiting();
    let children = [tests(&mount), tests(&mount)];
    wait_until("both wait", || waiting() == 2);
    for child in &children {
        kill_process(Pid::from_child(child), Signal::USR1).unwrap();
    }
    wait_until("they are interrupted", is_interrupted);
    let [killed, other] = children;
    // The kernel says nothing of a second signal.
    kill_process(Pid::from_child(&killed), Signal::TERM).unwrap();
    assert!(!end(killed).success());
    wait_until("the other waits", || waiting() == 1);
    mount.release();
    assert!(end(other).success(), "it has its size");
}

#[test]
fn a_mount_that_ends_waits_for_no_work() {
    let Some(mut mount) = Mount::new() else { return };
    let children = [lists(&mount), reads(&mount)];
    let requests = mount.resources.clone();
    wait_until("both wait", || requests.counters.requests.waiting() == 2);
    let mounted = mount.mounted.take().unwrap();
    let unmounter = mounted.unmounter.clone();
    unmounter.unmount(true).unwrap();
    // As at SIGTERM.
    thread::spawn(move || unmounter.end_waiting());
    assert!(children.into_iter().all(|child| !end(child).success()));
    bounded("the end of the session", move || mounted.wait().unwrap());
}
