//! System calls: seccomp (seccomp(2)).
//!
//! What is not listed does not exist (`ENOSYS`), as in an older kernel, for which libraries have fallbacks: glibc makes
//! threads by clone(2) without clone3(2), whose flags a filter cannot see. A process that calls the kernel as another
//! architecture is killed.

use std::collections::BTreeMap;

use libc::c_long;
use rustix::process::getpid;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

/// For which processes a system call is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Commands that end by themselves.
    Command,
    /// The same with an input on a server.
    Remote,
    /// A daemon until its mount is ready.
    Mounting,
    /// A daemon afterwards.
    Mounted,
}

const ALL: &[Calls] = &[Calls::Command, Calls::Remote, Calls::Mounting, Calls::Mounted];
const MOUNT: &[Calls] = &[Calls::Mounting, Calls::Mounted];
const MOUNTING: &[Calls] = &[Calls::Mounting];
const SOCKETS: &[Calls] = &[Calls::Remote, Calls::Mounting, Calls::Mounted];
const REMOTE: &[Calls] = &[Calls::Remote];

/// A system call, and the processes for which it is allowed.
struct Allowed {
    number: c_long,
    processes: &'static [Calls],
}

/// A row of the list: its name in libc, the processes, and what they do with it.
macro_rules! call {
    ($name:ident, $processes:ident, $reason:literal) => {
        Allowed { number: libc::$name, processes: $processes }
    };
}

const ALLOWED: &[Allowed] = &include!("allowed.in");

/// Flags of clone(2) for new namespaces (linux/sched.h).
const NAMESPACES: u64 = 0x7e02_0000;

/// ioctl(2): sharing blocks of files, size and kind of a terminal, and flags of descriptors. Not among them is `TIOCSTI`, which types into
/// the terminal.
const IOCTLS: &[u64] = &[0x4020_940d, libc::TCGETS, 0x802c_542a, libc::TIOCGWINSZ, libc::FIOCLEX, libc::FIONBIO];

/// ioctl(2) of a FUSE device (linux/fuse.h): another session, a file that the kernel reads by itself, and its end.
const FUSE_IOCTLS: &[u64] = &[0x8004_e500, 0x4010_e501, 0x4004_e502];

/// Restricts all threads.
pub(super) fn restrict(calls: Calls) -> Result<String, String> {
    let filter = filter(calls).map_err(|error| error.to_string())?;
    apply_filter_all_threads(&filter).map_err(|error| error.to_string())?;
    Ok(format!("seccomp, {} allowed", ALLOWED.iter().filter(|it| it.processes.contains(&calls)).count()))
}

fn filter(calls: Calls) -> Result<BpfProgram, BackendError> {
    let allowed = ALLOWED.iter().filter(|it| it.processes.contains(&calls));
    let rules: BTreeMap<_, _> =
        allowed.map(|it| Ok((it.number, conditions(it.number, calls)?))).collect::<Result<_, BackendError>>()?;
    let none = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    SeccompFilter::new(rules, none, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// The arguments with which a system call is allowed, in one rule for each possibility; none if all are.
fn conditions(number: c_long, calls: Calls) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |argument: u8, operator: SeccompCmpOp, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(argument, Dword, operator, value)?])
    };
    let any = |argument: u8, values: &[u64]| values.iter().map(|&value| rule(argument, Eq, value)).collect();
    let only = |argument, value: i32| any(argument, &[u64::from(value.cast_unsigned())]);
    match number {
        // Threads, and no processes.
        libc::SYS_clone => {
            let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
            Ok(vec![rule(0, MaskedEq(thread | NAMESPACES), thread)?])
        }
        // No new code.
        libc::SYS_mmap | libc::SYS_mprotect => {
            Ok(vec![rule(2, MaskedEq(u64::from(libc::PROT_EXEC.cast_unsigned())), 0)?])
        }
        libc::SYS_ioctl if calls == Calls::Command => any(1, IOCTLS),
        libc::SYS_ioctl if calls == Calls::Remote => any(1, &[IOCTLS, &[libc::FIONREAD]].concat()),
        libc::SYS_ioctl => any(1, &[IOCTLS, FUSE_IOCTLS].concat()),
        libc::SYS_prctl if calls == Calls::Mounting => {
            any(0, &[libc::PR_SET_NAME, libc::PR_SET_NO_NEW_PRIVS].map(|it| u64::from(it.cast_unsigned())))
        }
        libc::SYS_prctl => only(0, libc::PR_SET_NAME),
        // This process, but no other one.
        libc::SYS_kill | libc::SYS_tgkill => only(0, getpid().as_raw_nonzero().get()),
        libc::SYS_prlimit64 => only(0, 0),
        // The server, and those that know its address.
        libc::SYS_socket if calls == Calls::Remote => {
            any(0, &[libc::AF_INET, libc::AF_INET6].map(|it| u64::from(it.cast_unsigned())))
        }
        // The system's log, the service manager, `kpackfs umount`.
        libc::SYS_socket => only(0, libc::AF_UNIX),
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    const LIST: &str = include_str!("allowed.in");
    /// What `scripts/trace-calls` found in tests: a system call and a kind of process in each line.
    const MADE: &str = include_str!("../../tests/facts/system-calls.txt");

    /// The processes and the reason of each system call.
    fn rows() -> BTreeMap<&'static str, (Vec<&'static str>, &'static str)> {
        let rows = LIST.lines().filter_map(|line| line.trim().strip_prefix("call!(SYS_")?.strip_suffix("\"),"));
        let row = |row: &'static str| {
            let (head, reason) = row.split_once(", \"").unwrap();
            let (name, processes) = head.split_once(", ").unwrap();
            let processes = match processes {
                "ALL" => vec!["command", "remote", "mounting", "mounted"],
                "MOUNT" => vec!["mounting", "mounted"],
                "MOUNTING" => vec!["mounting"],
                "SOCKETS" => vec!["remote", "mounting", "mounted"],
                "REMOTE" => vec!["remote"],
                other => panic!("{other}"),
            };
            (name, (processes, reason))
        };
        rows.map(row).collect()
    }

    #[test]
    fn the_list_has_what_tests_make_and_says_why_it_has_more() {
        let rows = rows();
        assert_eq!(rows.len(), super::ALLOWED.len(), "a name is there twice, or a row is not understood");
        let made: BTreeSet<_> = MADE.lines().map(|line| line.split_once(' ').unwrap()).collect();
        let is_allowed = |(name, process): &(&str, &str)| rows.get(name).is_some_and(|(all, _)| all.contains(process));
        assert_eq!(made.iter().filter(|it| !is_allowed(it)).collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
        let is_made = |name: &str| made.iter().any(|(made, _)| *made == name);
        let untraced = rows.iter().filter(|(_, (_, reason))| reason.starts_with("untraced: ")).map(|(name, _)| *name);
        let unmade = rows.keys().copied().filter(|name| !is_made(name));
        assert_eq!(untraced.collect::<Vec<_>>(), unmade.collect::<Vec<_>>());
    }

    #[test]
    fn no_process_may_run_programs_or_change_the_system() {
        let rows = rows();
        for name in [
            "execve",
            "execveat",
            "fork",
            "vfork",
            "clone3",
            "ptrace",
            "process_vm_writev",
            "init_module",
            "finit_module",
            "bpf",
            "keyctl",
            "add_key",
            "unshare",
            "setns",
            "pivot_root",
            "userfaultfd",
            "perf_event_open",
            "kexec_load",
            "reboot",
        ] {
            assert!(!rows.contains_key(name), "{name}");
        }
        for name in ["mount", "seccomp"] {
            assert_eq!(rows[name].0, ["mounting"]);
        }
        assert_eq!(rows["io_uring_setup"].0, ["mounting", "mounted"]);
        for name in ["socket", "connect"] {
            assert_eq!(rows[name].0, ["remote", "mounting", "mounted"]);
        }
        assert_eq!(rows["bind"].0, ["mounting", "mounted"]);
    }
}
