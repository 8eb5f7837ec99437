//! Requests that wait for work. Each is answered once: when its work is done, or before that because the process that waits is
//! being killed (it ends only with an answer), or by the end of the mount.
//!
//! The work goes on when nobody waits for it any longer, until the process ends: a reader that asks again finds its results.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::disk;
use crate::memory::Parser;
use crate::metrics::StartedRequest;
use crate::resources::Resources;
use crate::threads;

/// The number of a request. The kernel never uses one again.
pub(super) type RequestNumber = u64;

/// What tells a request from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestId {
    pub(super) number: RequestNumber,
    /// The thread that waits. 0 if it is in no PID namespace of this process.
    pub(super) thread: u32,
}

/// How long a request may wait when the mount is ending.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often is looked whether a thread that got a signal is being killed. The kernel interrupts a request at the first signal
/// only (`request_wait_answer` in fs/fuse/dev.c).
const INTERVAL: Duration = Duration::from_millis(100);

/// Signals that end no process, unless it has asked for that: ignored by default, or they stop it (signal(7)).
const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Signals by which a user asks a process to end. Many programs have handlers of them that end it, such as `ls --color`, dd and
/// Python: they count as if there was none.
const ASKED: [i32; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Interrupts that are kept for requests which are not known yet. Most are for requests that have been answered meanwhile.
const EARLY: usize = 64;

#[derive(Debug)]
pub(super) struct WaitingRequests {
    resources: Arc<Resources>,
    state: Mutex<WaitingState>,
}

#[derive(Default, derive_more::Debug)]
struct WaitingState {
    #[debug("{}", refusals.len())]
    refusals: HashMap<RequestNumber, Refusal>,
    /// Interrupts that arrived before their requests: over rings, they travel another way.
    early: VecDeque<RequestNumber>,
    /// Whether a thread looks at the requests that were interrupted.
    is_watched: bool,
    is_ending: bool,
}

/// What answers a request with an error.
struct Refusal {
    since: Instant,
    thread: u32,
    is_interrupted: bool,
    refuse: Box<dyn FnOnce(Errno) + Send>,
}

/// A reply, until it is given.
type ReplySlot<R> = Arc<Mutex<Option<(R, StartedRequest)>>>;

/// The right to reply to a request, unless it was answered before. Dropping it drops the reply.
pub(super) struct PendingReply<R> {
    waiting: Arc<WaitingRequests>,
    number: RequestNumber,
    slot: ReplySlot<R>,
}

impl WaitingRequests {
    pub(super) fn new(resources: &Arc<Resources>) -> Arc<Self> {
        Arc::new(Self { resources: Arc::clone(resources), state: Mutex::default() })
    }

    /// Adds a request that is handed over to a worker. `refuse` replies with an error.
    pub(super) fn add<R: Send + 'static>(
        self: &Arc<Self>,
        RequestId { number, thread }: RequestId,
        started: StartedRequest,
        reply: R,
        refuse: impl FnOnce(R, Errno) + Send + 'static,
    ) -> PendingReply<R> {
        let slot = Arc::new(Mutex::new(Some((reply, started))));
        let (given, resources) = (Arc::clone(&slot), Arc::clone(&self.resources));
        let refuse = Box::new(move |error| give(&resources, &given, |reply| refuse(reply, error)));
        let refusal = Refusal { since: Instant::now(), thread, is_interrupted: false, refuse };
        let mut state = self.state.lock();
        let early = state.early.iter().position(|early| *early == number);
        let is_interrupted = early.and_then(|early| state.early.remove(early)).is_some();
        state.refusals.insert(number, refusal);
        drop(state);
        if is_interrupted {
            self.interrupt(number);
        }
        PendingReply { waiting: Arc::clone(self), number, slot }
    }

    /// A thread that waits got a signal. Most programs have handlers of signals, and expect no EINTR of stat(2): the request is
    /// answered when a signal ends the process.
    pub(super) fn interrupt(self: &Arc<Self>, number: RequestNumber) {
        let mut state = self.state.lock();
        let Some(refusal) = state.refusals.get_mut(&number) else {
            state.early.truncate(EARLY - 1);
            return state.early.push_front(number);
        };
        refusal.is_interrupted = true;
        let thread = refusal.thread;
        drop(state);
        if is_being_killed(thread) {
            return self.refuse(number);
        }
        if mem::replace(&mut self.state.lock().is_watched, true) {
            return;
        }
        let this = Arc::clone(self);
        if threads::spawn("kpackfs-killed", move || this.watch(is_being_killed)).is_err() {
            // No thread can look again, so that these requests are answered now: their processes could not be killed later.
            self.watch(|_| true);
        }
    }

    /// Answers the requests that were interrupted, as soon as their threads are being killed. Returns when none waits.
    fn watch(&self, is_being_killed: impl Fn(u32) -> bool) {
        loop {
            let mut state = self.state.lock();
            let interrupted = state.refusals.iter().filter(|(_, refusal)| refusal.is_interrupted);
            let interrupted: Vec<_> = interrupted.map(|(number, refusal)| (*number, refusal.thread)).collect();
            state.is_watched = !interrupted.is_empty();
            drop(state);
            if interrupted.is_empty() {
                return;
            }
            for (number, _) in interrupted.into_iter().filter(|(_, thread)| is_being_killed(*thread)) {
                self.refuse(number);
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Ends the wait of a thread that is being killed.
    fn refuse(&self, number: RequestNumber) {
        let refusal = self.state.lock().refusals.remove(&number);
        if let Some(refusal) = refusal {
            (refusal.refuse)(Errno::INTR);
        }
    }

    /// Whether the mount is ending. No work should begin for which a request would wait long.
    pub(super) fn is_ending(&self) -> bool {
        self.state.lock().is_ending
    }

    /// From now on, no request waits longer than [`PATIENCE`]. Runs until the process ends.
    pub(super) fn end(&self) -> ! {
        self.state.lock().is_ending = true;
        loop {
            thread::sleep(PATIENCE);
            let mut state = self.state.lock();
            let is_late = |(_, refusal): &(RequestNumber, Refusal)| refusal.since.elapsed() >= PATIENCE;
            let (late, rest): (Vec<_>, _) = mem::take(&mut state.refusals).into_iter().partition(is_late);
            state.refusals.extend(rest);
            drop(state);
            for (_, refusal) in late {
                (refusal.refuse)(Errno::IO);
            }
        }
    }
}

impl<R> PendingReply<R> {
    /// Replies, unless the request was answered before.
    pub(super) fn give(self, reply: impl FnOnce(R)) {
        give(&self.waiting.resources, &self.slot, reply);
    }
}

impl<R> Drop for PendingReply<R> {
    fn drop(&mut self) {
        self.waiting.state.lock().refusals.remove(&self.number);
        give(&self.waiting.resources, &self.slot, drop);
    }
}

fn give<R>(resources: &Resources, slot: &ReplySlot<R>, reply: impl FnOnce(R)) {
    let taken = slot.lock().take();
    if let Some((given, started)) = taken {
        let _answering = resources.counters.requests.answer(started);
        reply(given);
    }
}

/// Whether a thread ends by a signal that is pending (proc(5)). What is not known counts as killed: if it is, it could not end
/// otherwise.
fn is_being_killed(thread: u32) -> bool {
    // In a mount namespace that was entered, /proc may number processes in another way.
    let is_own = fs::read_link("/proc/self").is_ok_and(|own| own == Path::new(&process::id().to_string()));
    let status = disk::read(Path::new(&format!("/proc/{thread}/status")), Parser::Text).ok().filter(|_| is_own);
    status.and_then(|status| ends_by_signal(&String::from_utf8_lossy(&status))).unwrap_or(true)
}

/// Whether a signal is pending that is not blocked, ignored or caught, or that asks for the end. Most that end a process are pending as SIGKILL then
/// (`complete_signal` in kernel/signal.c), and those that dump core as themselves.
fn ends_by_signal(status: &str) -> Option<bool> {
    let signals = |name| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(value.trim(), 16).ok()
    };
    let pending = signals("SigPnd:")? | signals("ShdPnd:")?;
    let kept = signals("SigBlk:")? | signals("SigIgn:")? | (signals("SigCgt:")? & !set(&ASKED));
    Some(pending & !kept & !set(&HARMLESS) != 0)
}

fn set(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |set, signal| set | 1 << (signal - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_signals_end_a_process_and_others_do_not() {
        let ends = |pending: &[i32], kept: &str, signal: i32| {
            let answers = ["SigPnd", "ShdPnd"].map(|place| {
                let line = |name: &str| {
                    let signals = if name == place { set(pending) } else { 0 };
                    let signals = if name == kept { set(&[signal]) } else { signals };
                    format!("{name}:\t{signals:016x}\n")
                };
                ends_by_signal(&["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"].map(line).concat()).unwrap()
            });
            assert_eq!(answers[0], answers[1], "{pending:?}");
            answers[0]
        };
        assert!(ends(&[libc::SIGKILL, libc::SIGALRM], "SigCgt", libc::SIGALRM));
        assert!(ends(&[libc::SIGSEGV], "SigCgt", libc::SIGALRM));
        for kind in ["SigBlk", "SigIgn", "SigCgt"] {
            assert!(!ends(&[libc::SIGALRM, libc::SIGTSTP, libc::SIGURG, libc::SIGCHLD], kind, libc::SIGALRM));
            assert_eq!(
                ends(&[libc::SIGINT], kind, libc::SIGINT),
                kind == "SigCgt",
                "Ctrl-C of a program with a handler"
            );
        }
        assert_eq!(ends_by_signal("SigPnd:\t0\n"), None);
        let own = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        assert!(!is_being_killed(own) && is_being_killed(0) && is_being_killed(u32::MAX));
    }
}
