//! Ranks of locks. A thread that holds a lock takes only locks of higher ranks; docs/ARCHITECTURE.md, "Locks", says what
//! is done under which.

/// Of locks that are not checked: no other lock is taken under them.
pub(crate) const NONE: u8 = 0;
/// A large frame grows in memory.
pub(crate) const GROWING: u8 = 10;
/// A bundle is being decompressed.
pub(crate) const DECOMPRESSING: u8 = 20;
/// Blocks of a file on a server come in an answer.
pub(crate) const ANSWER: u8 = 25;
/// The schedule of bundle jobs.
pub(crate) const SCHEDULE: u8 = 30;
/// The frames of the archives, by bundle.
pub(crate) const FRAMES: u8 = 40;
/// A caller that waits for frames.
pub(crate) const TICKET: u8 = 50;
/// The state of a member, while it is opened or closed.
pub(crate) const MEMBER: u8 = 55;
/// The chunks of a member.
pub(crate) const CHUNKS: u8 = 60;
/// The sequential readers of a member or an archive, and one of them.
pub(crate) const READERS: u8 = 70;
pub(crate) const READER: u8 = 71;
/// Idle decoders, free chunks, and the decodes in flight.
pub(crate) const DECODERS: u8 = 80;
/// The list of open members.
pub(crate) const MEMBERS: u8 = 90;
/// The answers of a file on a server.
pub(crate) const REMOTE: u8 = 95;
/// The entries of a cache.
pub(crate) const CACHE: u8 = 100;
/// The idle values of a pool.
pub(crate) const POOL: u8 = 110;
/// The jobs of the executor.
pub(crate) const EXECUTOR: u8 = 120;
/// The memory budget.
pub(crate) const BUDGET: u8 = 130;

/// The locks that this thread holds. Empty, and free of cost, in release builds.
#[derive(Debug)]
pub(super) struct Held<const RANK: u8>(());

#[cfg(any(debug_assertions, feature = "shuttle"))]
mod check {
    #[cfg(feature = "shuttle")]
    use shuttle::thread_local;
    use std::cell::RefCell;
    #[cfg(not(feature = "shuttle"))]
    use std::thread_local;

    use super::{Held, NONE};

    thread_local! {
        static HELD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    impl<const RANK: u8> Held<RANK> {
        /// Before a lock is waited for.
        pub(in super::super) fn before_lock() -> Self {
            HELD.try_with(|held| {
                let highest = held.borrow().iter().copied().max().unwrap_or(NONE);
                let is_right = RANK == NONE || RANK > highest || std::thread::panicking();
                assert!(is_right, "a lock of rank {RANK} is taken under one of rank {highest}");
            })
            .ok();
            Self::after_try()
        }

        /// After a lock was taken without waiting, which is possible in each order.
        pub(in super::super) fn after_try() -> Self {
            HELD.try_with(|held| held.borrow_mut().push(RANK)).ok();
            Self(())
        }
    }

    impl<const RANK: u8> Drop for Held<RANK> {
        fn drop(&mut self) {
            HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(found) = held.iter().rposition(|&rank| rank == RANK) {
                    held.remove(found);
                }
            })
            .ok();
        }
    }
}

#[cfg(not(any(debug_assertions, feature = "shuttle")))]
impl<const RANK: u8> Held<RANK> {
    pub(super) fn before_lock() -> Self {
        Self(())
    }

    pub(super) fn after_try() -> Self {
        Self(())
    }
}
