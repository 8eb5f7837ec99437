//! Detects whether an input has changed since it was mounted.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rope::{Content, ReadError};

/// A check is valid for this multiple of its own duration, so checking takes at most a twentieth of the time. A tree of
/// 20,000 files is checked every two seconds.
const REST: u32 = 20;

/// The longest time that a check is valid.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// A check that took no longer than this is repeated each time.
const QUICK: Duration = Duration::from_millis(1);

/// Contents that cannot be read once the input has changed.
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

    /// The first file that has changed since it was mounted.
    pub(super) fn changed(&self) -> Option<String> {
        // Concurrent callers wait for one check.
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

/// The name of a content whose file has changed since it was planned with.
fn changed(content: &dyn Content) -> Option<String> {
    let asked = match content.backing() {
        Some(file) => file.open().map(drop),
        None => content.read_at(0, &mut [0]),
    };
    match asked {
        Err(ReadError::Changed { entry }) => Some(entry.to_string()),
        // It existed when the input was listed.
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

    /// A slow content that counts its reads.
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
            assert_eq!(watch.changed().as_deref(), Some("x"));
            content.1.load(Ordering::Relaxed)
        };
        let begun = Instant::now();
        assert_eq!(looks(), 1);
        let until =
            |time| watch.last.lock().as_mut().map(|look| std::mem::replace(&mut look.good_until, time)).unwrap();
        let rest = until(Instant::now() + Duration::from_secs(3600));
        assert!((begun + LONGEST_REST..=Instant::now() + LONGEST_REST).contains(&rest), "{rest:?} after {begun:?}");
        assert_eq!(looks(), 1);
        // Lets the time pass.
        until(Instant::now());
        assert_eq!(looks(), 2);
    }
}
