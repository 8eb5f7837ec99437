//! Mutexes and condition variables with ranks. A panic under a lock does not invalidate what is in it: each statement
//! leaves that consistent.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use super::rank::{Held, NONE};

#[cfg(feature = "shuttle")]
use shuttle::sync as of;
#[cfg(not(feature = "shuttle"))]
use std::sync as of;

/// A mutex with a rank.
#[derive(Debug)]
pub(crate) struct Mutex<T, const RANK: u8 = NONE>(of::Mutex<T>);

/// A guard of a mutex.
pub(crate) struct MutexGuard<'a, T, const RANK: u8 = NONE> {
    guard: of::MutexGuard<'a, T>,
    held: Held<RANK>,
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Condvar(of::Condvar);

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Self(of::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T, RANK> {
        let held = Held::before_lock();
        MutexGuard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), held }
    }

    /// `None` if another thread has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T, RANK>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { guard, held: Held::after_try() })
    }
}

impl<T: Default, const RANK: u8> Default for Mutex<T, RANK> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, const RANK: u8> Deref for MutexGuard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> DerefMut for MutexGuard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T, const RANK: u8>(
        &self,
        MutexGuard { guard, held }: MutexGuard<'a, T, RANK>,
    ) -> MutexGuard<'a, T, RANK> {
        MutexGuard { guard: self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), held }
    }

    pub(crate) fn wait_timeout<'a, T, const RANK: u8>(
        &self,
        MutexGuard { guard, held }: MutexGuard<'a, T, RANK>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T, RANK>, of::WaitTimeoutResult) {
        let (guard, result) = self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { guard, held }, result)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, debug_assertions, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::sync::rank;

    #[test]
    fn the_wrong_order_is_noticed_before_it_can_hang() {
        let (outer, inner) = (Mutex::<u8, { rank::CHUNKS }>::new(1), Mutex::<u8, { rank::BUDGET }>::new(2));
        {
            let _outer = outer.lock();
            assert_eq!(*inner.lock(), 2);
        }
        let wrong = std::panic::catch_unwind(|| {
            let _inner = inner.lock();
            assert!(outer.try_lock().is_some(), "it does not wait");
            drop(outer.lock());
        });
        let text = *wrong.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(text, format!("a lock of rank {} is taken under one of rank {}", rank::CHUNKS, rank::BUDGET));
        drop(outer.lock());
    }
}
