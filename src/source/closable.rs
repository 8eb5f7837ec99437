//! Members that are opened when they are read, and closed when the budget is short. Most members of a wheel are never read,
//! or only their first bytes are. So nothing is kept of a closed one but its place in the file, and what is known about it.

use std::fmt;
use std::ops::{Deref, Range};

use super::decoders::Decoders;
use super::deflated::Deflated;
use super::facts::MemberFacts;
use super::open_members::{CloseMember, ListedMember};
use super::stored::StoredMember;
use crate::rope::{Content, Identity, PackedContent, ReadError};
use crate::sync::{Arc, Mutex, Weak, rank};

/// What is kept of a member for as long as its input is open.
pub(super) trait Openable: fmt::Debug + Send + Sync + 'static {
    /// Bytes of the content.
    fn size(&self) -> u64;

    /// The content's identity.
    fn identity(&self) -> Identity;

    fn decoders(&self) -> &Arc<Decoders>;

    /// Opens it. `facts` are what is known from when it was open before.
    fn open(&self, listed: ListedMember, facts: MemberFacts) -> OpenMember;

    /// Reads its first bytes without opening it.
    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError>;

    /// It as a member of a zip file, if it is one.
    fn in_zip(_: &Closable<Self>) -> Option<&dyn PackedContent>
    where
        Self: Sized,
    {
        None
    }

    /// Where it begins in a file that is best read in order.
    fn place(&self) -> Option<u64> {
        None
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Closable<M> {
    pub(super) member: M,
    this: Weak<Self>,
    /// Held while the member is opened or closed, never while it is read.
    state: Mutex<ClosableState, { rank::MEMBER }>,
}

#[derive(Debug, Default)]
struct ClosableState {
    open: Option<Arc<OpenMember>>,
    /// What is known of a closed member.
    facts: Option<Box<MemberFacts>>,
}

/// What reading a member needs.
#[derive(Debug)]
pub(super) enum OpenMember {
    Stored(StoredMember),
    Deflated(Deflated),
}

impl Deref for OpenMember {
    type Target = dyn PackedContent;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Stored(stored) => stored,
            Self::Deflated(deflated) => deflated,
        }
    }
}

impl OpenMember {
    /// What is known of a member that nobody reads. `None` while something reads ahead in it.
    fn idle_facts(&self) -> Option<MemberFacts> {
        match self {
            Self::Stored(stored) => Some(stored.facts()),
            Self::Deflated(deflated) => deflated.idle_facts(),
        }
    }
}

impl<M: Openable> Closable<M> {
    pub(super) fn new(member: M) -> Arc<Self> {
        Arc::new_cyclic(|this| Self { member, this: Weak::clone(this), state: Mutex::default() })
    }

    /// Opens the member unless it is open.
    pub(super) fn open(&self) -> Arc<OpenMember> {
        let mut state = self.state.lock();
        if let Some(open) = &state.open {
            return Arc::clone(open);
        }
        let listed = self.member.decoders().members.add(Weak::<Self>::clone(&self.this));
        let facts = state.facts.take().map(|facts| *facts).unwrap_or_default();
        let open = Arc::new(self.member.open(listed, facts));
        state.open = Some(Arc::clone(&open));
        drop(state);
        self.member.decoders().members.budget.reclaim();
        open
    }

    /// The open member. `None` if it is closed and not known to be damaged.
    pub(super) fn opened(&self) -> Option<Arc<OpenMember>> {
        let state = self.state.lock();
        if state.facts.as_ref().is_some_and(|facts| facts.damage.is_some()) {
            drop(state);
            return Some(self.open());
        }
        state.open.clone()
    }
}

impl<M: Openable> CloseMember for Closable<M> {
    fn close(&self) -> bool {
        let Some(mut state) = self.state.try_lock() else { return false };
        // Readers have an Arc of their own, and none can get one now.
        let idle = state.open.as_ref().filter(|open| Arc::strong_count(open) == 1);
        let Some(facts) = idle.and_then(|open| open.idle_facts()) else { return false };
        state.facts = facts.into_box();
        let open = state.open.take();
        drop(state);
        drop(open);
        true
    }
}

impl<M: Openable> Content for Closable<M> {
    fn size(&self) -> u64 {
        self.member.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.open().read_at(offset, buffer)
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        match self.opened() {
            // It is in memory, or known to be damaged.
            Some(open) if open.is_nonblocking(0, buffer.len()) => open.peek(buffer),
            _ => self.member.peek(buffer),
        }
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.opened().map_or(length == 0, |open| open.is_nonblocking(offset, length))
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.member.identity())
    }

    fn place(&self) -> Option<u64> {
        self.member.place()
    }

    fn found(&self, range: &Range<u64>) -> Option<Vec<u64>> {
        self.opened()?.found(range)
    }

    fn inflated(&self) -> u64 {
        let state = self.state.lock();
        let closed = state.facts.as_ref().map_or(0, |facts| facts.inflated);
        state.open.as_ref().map_or(closed, |open| open.inflated())
    }

    fn check(&self) -> Result<(), ReadError> {
        self.open().check()
    }

    fn member(&self) -> Option<&dyn PackedContent> {
        M::in_zip(self)
    }
}
