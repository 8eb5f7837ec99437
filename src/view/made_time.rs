//! The modification time of files that a mount makes: archives, wheels, pages, rewritten binaries, dist-info.
//!
//! Caches, backups and HTTP clients take a file for unchanged if its size and the second of its time are those that they
//! know. So the time is a function of the input and of the options: it is the same in every equal mount, and differs by
//! whole seconds between mounts whose bytes may differ.

use crate::rope::{Identifier, Identity};
use crate::source::ListedState;
use crate::split::NAMING;

/// The range of times in seconds, 388 days. Two mounts that differ have one time with a probability of 3 in 10^8.
const RANGE: u32 = 1 << 25;

/// 1980-01-01 in seconds since 1970: zip files express no earlier time.
const EARLIEST: i64 = 315_532_800;

/// The last second in 32 bits, in the year 2106. Zip files, ext4 and XFS can express it.
const LATEST: i64 = u32::MAX as i64;

/// What the time of made files depends on.
#[derive(Clone, Debug)]
pub struct MadeTime {
    /// Seconds since 1970.
    newest: i64,
    facts: Identifier,
}

impl MadeTime {
    /// The time for these options.
    pub fn of_options(options: &Identity) -> Self {
        let mut facts = Identity::describe("time of made files");
        facts.number(NAMING.into()).add(&options.0);
        Self { newest: i64::MIN, facts }
    }

    /// The time of a file with these bytes, made of files of which the newest is of the second `newest` since 1970.
    pub fn of_bytes(newest: i64, bytes: &[u8]) -> Self {
        let mut facts = Identity::describe("time of bytes");
        facts.add(bytes);
        Self { newest, facts }
    }

    /// The same, for an input in addition.
    #[must_use]
    pub fn and_input(mut self, state: &ListedState) -> Self {
        self.newest = self.newest.max(state.newest);
        self.facts.add(&state.identity.0);
        self
    }

    /// The same, for a further option.
    #[must_use]
    pub fn and(mut self, option: impl AsRef<[u8]>) -> Self {
        self.facts.add(option.as_ref());
        self
    }

    /// Seconds since 1970. They precede the newest file of the input by at most [`RANGE`], so they are in the future only if
    /// that is, and are at least [`EARLIEST`] and less than [`LATEST`]. They precede it by at least one, because backups read
    /// the newest files again.
    pub fn seconds(&self) -> i64 {
        let Identity([a, b, c, d, ..]) = self.facts.finish();
        let before = 1 + u32::from_le_bytes([a, b, c, d]) % RANGE;
        self.newest.clamp(EARLIEST + i64::from(RANGE), LATEST) - i64::from(before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn time(options: &str, newest: i64) -> MadeTime {
        let of = |text: &str| Identity::describe(text).finish();
        MadeTime::of_options(&of(options)).and_input(&ListedState { newest, identity: of("input") })
    }

    #[test]
    fn it_is_a_function_of_all_that_is_added() {
        let newest = 1_700_000_000;
        let times = [
            time("", newest),
            time("--deflate 0", newest),
            time("", newest).and("gfx942"),
            time("", newest).and("gfx9").and("42"),
            time("", newest).and_input(&ListedState { newest, identity: Identity::describe("other").finish() }),
            MadeTime::of_bytes(newest, b"a page"),
        ];
        let seconds = times.each_ref().map(MadeTime::seconds);
        assert_eq!(BTreeSet::from(seconds).len(), times.len(), "{seconds:?}");
        assert_eq!(time("", newest).seconds(), times[0].seconds());
        for seconds in seconds {
            assert!((newest - i64::from(RANGE)..newest).contains(&seconds), "{seconds}");
        }
    }

    #[test]
    fn absurd_times_of_the_input_stay_within_what_files_can_have() {
        for newest in [i64::MIN, -1, 0, EARLIEST, LATEST, i64::MAX] {
            for options in ["", "a", "b"] {
                let seconds = time(options, newest).seconds();
                assert!((EARLIEST..LATEST).contains(&seconds), "{newest}: {seconds}");
            }
        }
    }
}
