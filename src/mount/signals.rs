//! Signals. One thread waits for them; all others block them.

use std::io;
use std::mem;
use std::ptr;

use rustix::process;

/// Number of a signal.
pub type Signal = libc::c_int;

/// Signals that end the process.
pub const ENDING: [Signal; 2] = [libc::SIGTERM, libc::SIGINT];

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    #[expect(unsafe_code, reason = "system calls with a C structure")]
    // SAFETY: `sigset_t` is plain data for which zeros are valid, and the calls write to this local only.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Blocks signals in this thread and in all threads that it creates, so that [`wait`] gets them.
pub fn block(signals: &[Signal]) -> io::Result<()> {
    mask(libc::SIG_BLOCK, signals)
}

fn mask(how: libc::c_int, signals: &[Signal]) -> io::Result<()> {
    let set = set_of(signals);
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: the set is a local that outlives the call; the old mask is not requested.
    let error = unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Unblocks signals in this thread.
pub fn unblock(signals: &[Signal]) -> io::Result<()> {
    mask(libc::SIG_UNBLOCK, signals)
}

/// Whether this program was started with a signal ignored, as shells do for background jobs.
pub fn is_ignored(signal: Signal) -> bool {
    #[expect(unsafe_code, reason = "a system call with a C structure")]
    // SAFETY: `sigaction` is plain data for which zeros are valid; nothing is changed, and the call writes to this local only.
    unsafe {
        let mut now: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Waits for one of these signals, which have to be blocked.
pub fn wait(signals: &[Signal]) -> io::Result<Signal> {
    let set = set_of(signals);
    let mut signal = 0;
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: both pointers are to locals that outlive the call.
    let error = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
    if error == 0 { Ok(signal) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Ignores a signal from now on.
pub fn ignore(signal: Signal) {
    set_action(signal, libc::SIG_IGN);
}

fn set_action(signal: Signal, action: libc::sighandler_t) {
    #[expect(unsafe_code, reason = "rustix has no safe interface to it")]
    // SAFETY: callers ignore the signal, or restore its default action. No handler is installed that could run.
    unsafe {
        libc::signal(signal, action);
    }
}

/// Ends this process by the default action of a signal, so that a shell sees the cause.
pub fn die_of(signal: Signal) -> ! {
    set_action(signal, libc::SIG_DFL);
    // Whether or not this succeeds, the process ends below.
    unblock(&[signal]).ok();
    if let Some(signal) = process::Signal::from_named_raw(signal) {
        process::kill_process(process::getpid(), signal).ok();
    }
    std::process::exit(128 + signal)
}
