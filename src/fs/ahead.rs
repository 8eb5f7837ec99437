//! Making ahead of need: whoever has looked into the directory of an architecture will soon want to know how large its
//! archives are.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::index::Resources;
use crate::view::Make;

/// Makes one thing at a time, so that there is something left of the machine for whoever waits for another one.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What the directory that was listed last holds. What earlier ones hold and nobody has begun with is forgotten:
    /// `find` lists everything, and wants none of it.
    next: VecDeque<Arc<dyn Make>>,
    is_busy: bool,
}

impl Ahead {
    /// Has these made in the background unless they are made already.
    pub(super) fn expect(&self, makes: &[Arc<dyn Make>], resources: &Arc<Resources>) {
        for make in makes {
            make.expect();
        }
        if makes.iter().all(|make| make.made().is_some()) {
            return;
        }
        let mut state = self.lock();
        state.next = makes.iter().cloned().collect();
        if !std::mem::replace(&mut state.is_busy, true) {
            let (ahead, shared) = (self.clone(), Arc::clone(resources));
            state.is_busy = resources.workers.offer(move || ahead.make(&shared));
        }
    }

    fn make(&self, resources: &Resources) {
        while let Some(make) = self.next() {
            if make.made().is_none() {
                resources.counters.made_ahead.add(1);
                // Whoever asks for it will be told what is wrong with it.
                catch_unwind(AssertUnwindSafe(|| make.prepare().map(drop))).ok();
            }
        }
    }

    fn next(&self) -> Option<Arc<dyn Make>> {
        let mut state = self.lock();
        let next = state.next.pop_front();
        state.is_busy = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::rope::{Content, ReadError, Rope};

    /// Tells that it is being made, then waits for a word.
    #[derive(Debug)]
    struct Slow {
        name: &'static str,
        made: OnceLock<Arc<dyn Content>>,
        begun: Sender<&'static str>,
        word: Mutex<Receiver<()>>,
    }

    impl Make for Slow {
        fn made(&self) -> Option<Arc<dyn Content>> {
            self.made.get().cloned()
        }

        fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
            self.begun.send(self.name).unwrap();
            let word = self.word.lock().unwrap().recv();
            assert!(word.is_ok(), "on purpose");
            Ok(Arc::clone(self.made.get_or_init(|| Arc::new(Rope::default()))))
        }
    }

    #[test]
    fn one_at_a_time_the_last_directory_first_and_panics_stop_nothing() {
        let resources = Resources::new(0);
        let ahead = Ahead::default();
        let (begun, order) = channel();
        let slow = |name| {
            let (word, wait) = channel();
            let make = Slow { name, made: OnceLock::new(), begun: begun.clone(), word: Mutex::new(wait) };
            (Arc::new(make) as Arc<dyn Make>, word)
        };
        let next = || order.recv_timeout(Duration::from_secs(10)).unwrap();
        let ((one, word_of_one), (two, _), (three, word_of_three), (four, word_of_four)) =
            (slow("one"), slow("two"), slow("three"), slow("four"));
        ahead.expect(std::slice::from_ref(&one), &resources);
        assert_eq!(next(), "one");
        ahead.expect(&[one.clone(), two], &resources);
        ahead.expect(&[three.clone(), four.clone()], &resources);
        assert!(order.try_recv().is_err());
        word_of_one.send(()).unwrap();
        assert_eq!(next(), "three");
        drop(word_of_three);
        assert_eq!(next(), "four");
        word_of_four.send(()).unwrap();
        while four.made().is_none() {
            std::thread::yield_now();
        }
        ahead.expect(&[one, four], &resources);
        assert!(order.try_recv().is_err());
        assert_eq!((three.made().is_none(), resources.counters.made_ahead.get()), (true, 3));
    }
}
