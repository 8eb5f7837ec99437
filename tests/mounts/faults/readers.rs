//! Many readers, and readers that are killed.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::mounts::{Mount, bounded, noise, of_each_input};

const FILES: [&str; 4] =
    ["host/demo/deflated.txt", "host/demo/stored.bin", "gfx90a", "wheels/demo-1.0-py3-none-any.whl"];

#[test]
fn sixty_four_readers_at_a_time_read_the_same() {
    of_each_input(|input| {
        let Some(mut mount) = Mount::new(input, &["--memory", "16"]) else { return };
        let files = [(mount.at(FILES[0]), noise(3_500_000, 1)), (mount.at(FILES[1]), noise(3_000_000, 2))];
        bounded("reading", move || {
            thread::scope(|scope| {
                for number in 0..64 {
                    let (path, expected) = &files[number % 2];
                    scope.spawn(move || assert!(std::fs::read(path).unwrap() == *expected));
                }
            });
        });
        mount.is_at_rest();
        mount.end();
    });
}

/// Reads a file, or all files of a directory, past the page cache.
fn reader(mount: &Mount, name: &str) -> Child {
    let script = "find \"$0\" -type f -exec dd if={} of=/dev/null bs=64k iflag=direct status=none ';'";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(mount.at(name)).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().unwrap()
}

#[test]
fn readers_that_are_killed_leave_nothing_behind() {
    of_each_input(|input| {
        let Some(mut mount) = Mount::new(input, &[]) else { return };
        for round in 0..10 {
            let mut readers: Vec<_> = (0..16).map(|number| reader(&mount, FILES[number % FILES.len()])).collect();
            // The pauses differ, so that readers are killed at different points.
            thread::sleep(Duration::from_millis(3 * round));
            let limit = Instant::now() + PATIENCE;
            for reader in &mut readers {
                let group = rustix::process::Pid::from_child(reader);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
                while reader.try_wait().unwrap().is_none() {
                    assert!(Instant::now() < limit, "a reader cannot be killed");
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        let before = mount.open_files();
        mount.is_at_rest();
        assert!(mount.open_files() <= before);
        assert_eq!(mount.read(FILES[0], 0, 3_500_000).unwrap(), noise(3_500_000, 1));
        mount.end();
    });
}
