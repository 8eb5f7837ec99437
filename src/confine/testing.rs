//! What tests have a confined process try (debug builds only). Each attempt is a line on stderr: its name, and the name
//! of the error or "done".

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use libc::c_long;

fn report<T>(name: &str, result: io::Result<T>) {
    let outcome = result.err().map_or_else(|| "done".to_owned(), |error| format!("{:?}", error.raw_os_error()));
    writeln!(io::stderr(), "probe: {name}: {outcome}").ok();
}

/// Opens and creates files that are none of the command's business. Each name in `list` is read, or written if it ends with `=`.
pub(crate) fn try_files(list: &str) {
    for name in list.split(':').filter(|name| !name.is_empty()) {
        match name.strip_suffix('=') {
            Some(name) => report(name, fs::write(name, "")),
            None if Path::new(name).is_dir() => report(name, fs::read_dir(name)),
            #[expect(clippy::disallowed_methods, reason = "the tests name regular files")]
            None => report(name, File::open(name)),
        }
    }
}

/// Makes system calls with arguments that have no effect where they are allowed.
pub(crate) fn try_actions() {
    report("connect", TcpStream::connect("127.0.0.1:9"));
    report("exec", Err::<(), _>(Command::new("/nonexistent").exec()));
    let numbers = [
        ("ptrace", libc::SYS_ptrace, [16, -1, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0]),
        ("unshare", libc::SYS_unshare, [-1, 0, 0]),
        ("module", libc::SYS_finit_module, [-1, 0, 0]),
        ("keys", libc::SYS_keyctl, [-1, 0, 0]),
        ("rings", libc::SYS_io_uring_setup, [0, 0, 0]),
        ("bpf", libc::SYS_bpf, [-1, 0, 0]),
        ("clone3", libc::SYS_clone3, [0, 0, 0]),
        ("kill", libc::SYS_kill, [1, 0, 0]),
        ("code", libc::SYS_mprotect, [0, 4096, c_long::from(libc::PROT_EXEC)]),
        ("fork", libc::SYS_clone, [c_long::from(libc::SIGCHLD), 0, 0]),
    ];
    for (name, number, [first, second, third]) in numbers {
        #[expect(unsafe_code, reason = "arbitrary system calls")]
        // SAFETY: without the confinement they fail by their arguments, or do nothing; the child of clone(2) ends at once.
        let result = unsafe {
            match libc::syscall(number, first, second, third, 0, 0) {
                0 if number == libc::SYS_clone => libc::_exit(0),
                result => result,
            }
        };
        report(name, if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
}

/// Prints what the kernel says about each thread. A thread that has ended since the directory was read has no status.
pub(crate) fn try_threads() {
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        #[expect(clippy::disallowed_methods, reason = "procfs")]
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
        let kept =
            status.lines().filter(|line| ["NoNewPrivs:", "Seccomp:", "CapEff:"].iter().any(|it| line.starts_with(it)));
        let line: Vec<_> = kept.flat_map(str::split_whitespace).collect();
        writeln!(io::stderr(), "probe: thread: {}", line.join(" ")).ok();
    }
}
