//! Where requests are answered: on the thread that took them, or on the executor.

use std::sync::Arc;

use rustix::io::Errno;

use super::failure::contained;
use super::filesystem::{AfterMaking, Filesystem};
use super::waiting::{PendingReply, RequestId};
use crate::metrics::RequestKind;
use crate::tree::NodeId;

impl Filesystem {
    /// Answers a request: on this thread if it needs no work, otherwise on the executor.
    pub(super) fn answer<T: 'static>(
        self: &Arc<Self>,
        id: RequestId,
        kind: RequestKind,
        is_nonblocking: bool,
        counts: bool,
        work: impl FnOnce(&Self) -> Result<T, Errno> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        if is_nonblocking {
            return self.answer_now(kind, |this| reply(work(this)));
        }
        let pending = self.hand_over(id, kind, counts, reply, |reply, error| reply(Err(error)));
        self.run(move |this| {
            let answer = work(this);
            pending.give(|reply| reply(answer));
        });
    }

    /// Has a request wait. `counts` tells whether the status shows it. `refuse` replies with an error.
    pub(super) fn hand_over<R: Send + 'static>(
        &self,
        id: RequestId,
        kind: RequestKind,
        counts: bool,
        reply: R,
        refuse: impl FnOnce(R, Errno) + Send + 'static,
    ) -> PendingReply<R> {
        let started = self.requests().begin(kind);
        let started = if counts { self.requests().hand_over(started) } else { started };
        self.waiting.add(id, started, reply, refuse)
    }

    /// Runs a job on the executor.
    pub(super) fn run(self: &Arc<Self>, job: impl FnOnce(&Self) + Send + 'static) {
        let this = Arc::clone(self);
        self.resources.executor.run(move || job(&this));
    }

    /// Runs a job when a file has been made, or cannot be made. Each file is made once, and takes one thread of the executor
    /// however many requests wait for it. All meet the same error.
    pub(super) fn run_when_made(
        self: &Arc<Self>,
        node: NodeId,
        job: impl FnOnce(&Self, Result<(), Errno>) + Send + 'static,
    ) {
        let job: AfterMaking = Box::new(job);
        let is_first = {
            let mut making = self.making.lock();
            let jobs = making.entry(node).or_default();
            jobs.push(job);
            jobs.len() == 1
        };
        if is_first {
            self.run(move |this| {
                let made = this.guarded("getattr", node, || this.nodes.content(node)).map(drop);
                let jobs = this.making.lock().remove(&node).unwrap_or_default();
                for job in jobs {
                    contained(|| job(this, made));
                }
            });
        }
    }

    /// Answers a request on this thread.
    pub(crate) fn answer_now(&self, kind: RequestKind, job: impl FnOnce(&Self)) {
        let _answering = self.requests().answer(self.requests().begin(kind));
        contained(|| job(self));
    }
}
