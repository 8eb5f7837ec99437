//! Whether an input is still what it was when it was mounted.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rope::{Content, ReadError};

/// An answer is as good as new for so many times as long as it took: looking takes at most a twentieth of the time. A tree of
/// 20,000 files is looked at every two seconds.
const REST: u32 = 20;

/// But no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// An answer that took no longer than this is never kept.
const QUICK: Duration = Duration::from_millis(1);

/// Contents that fail to be read once the input has changed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    contents: Vec<Arc<dyn Content>>,
    last: Mutex<Option<Look>>,
}

#[derive(Debug)]
struct Look {
    changed: Option<String>,
    good_until: Instant,
}

impl Watch {
    pub(super) fn add(&mut self, contents: impl IntoIterator<Item = Arc<dyn Content>>) {
        self.contents.extend(contents);
    }

    /// The first file that is no longer the one that was mounted.
    pub(super) fn changed(&self) -> Option<String> {
        // Those who ask at the same time wait for one answer.
        let mut last = self.last.lock();
        let started = Instant::now();
        if let Some(look) = last.as_ref().filter(|look| started < look.good_until) {
            return look.changed.clone();
        }
        let changed = self.contents.iter().find_map(|content| changed(&**content));
        let took = started.elapsed();
        let rest = if took > QUICK { took.saturating_mul(REST).min(LONGEST_REST) } else { Duration::ZERO };
        *last = Some(Look { changed: changed.clone(), good_until: Instant::now() + rest });
        changed
    }
}

/// The name of a content whose file is no longer the one that was planned with.
fn changed(content: &dyn Content) -> Option<String> {
    let asked = match content.backing() {
        Some(file) => file.open().map(drop),
        None => content.read_at(0, &mut [0]),
    };
    match asked {
        Err(ReadError::Changed { entry }) => Some(entry.to_string()),
        // There was one when the input was listed.
        Err(ReadError::Io { entry, source }) if is_gone(&source) => Some(entry.to_string()),
        _ => None,
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    /// Takes its time, and counts the calls.
    #[derive(Debug)]
    struct Slow(Duration, AtomicU32);

    impl Content for Slow {
        fn size(&self) -> u64 {
            1
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), ReadError> {
            thread::sleep(self.0);
            self.1.fetch_add(1, Ordering::Relaxed);
            Err(ReadError::Changed { entry: "x".into() })
        }
    }

    #[test]
    fn what_takes_long_to_be_seen_is_looked_at_seldom() {
        let content = Arc::new(Slow(Duration::from_millis(500), AtomicU32::new(0)));
        let mut watch = Watch::default();
        watch.add([content.clone() as Arc<dyn Content>]);
        let looks = || {
            for _ in 0..4 {
                assert_eq!(watch.changed().as_deref(), Some("x"));
            }
            content.1.load(Ordering::Relaxed)
        };
        assert_eq!(looks(), 1);
        let rest = watch.last.lock().as_ref().unwrap().good_until - Instant::now();
        assert!(rest > Duration::from_secs(5) && rest < Duration::from_secs(60), "{rest:?}");
        // As if that time had passed.
        watch.last.lock().as_mut().unwrap().good_until = Instant::now();
        assert_eq!(looks(), 2);
    }
}
