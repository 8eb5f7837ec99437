//! A content that is computed when it is read, although its size is known.

use std::sync::Arc;

use once_cell::sync::OnceCell;

use super::content::PositionedReader;
use super::{Content, Identity, InOrderReader, ReadError, Rope};

type Work = Box<dyn Fn() -> Result<Rope, ReadError> + Send + Sync>;

/// A content of known size that is made by its first reader; concurrent readers wait for it. If it turns out to have
/// another size, every read fails.
#[derive(derive_more::Debug)]
#[debug("LazyContent({entry:?}, {size} bytes)")]
pub struct LazyContent {
    entry: Arc<str>,
    size: u64,
    identity: Option<Identity>,
    work: Work,
    made: OnceCell<Rope>,
}

impl LazyContent {
    /// A content of `size` bytes that `work` makes. `entry` names it in messages.
    pub fn new(
        entry: impl Into<Arc<str>>,
        size: u64,
        identity: Option<Identity>,
        work: impl Fn() -> Result<Rope, ReadError> + Send + Sync + 'static,
    ) -> Self {
        Self { entry: entry.into(), size, identity, work: Box::new(work), made: OnceCell::new() }
    }

    /// A content that has been made already.
    pub fn done(entry: impl Into<Arc<str>>, identity: Option<Identity>, made: Rope) -> Self {
        let size = made.size();
        let entry = entry.into();
        let never = Arc::clone(&entry);
        let work = Box::new(move || Err(ReadError::Changed { entry: Arc::clone(&never) }));
        Self { entry, size, identity, work, made: OnceCell::with_value(made) }
    }

    /// The result of the work. The first call does the work.
    fn get(&self) -> Result<&Rope, ReadError> {
        self.made.get_or_try_init(|| {
            let made = (self.work)()?;
            if made.size() == self.size { Ok(made) } else { Err(ReadError::Changed { entry: Arc::clone(&self.entry) }) }
        })
    }
}

impl Content for LazyContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.get()?.read_at(offset, buffer)
    }

    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        match self.get() {
            Ok(made) => made.reader(offset),
            // Its first read returns the error.
            Err(_) => Box::new(PositionedReader { content: self, at: offset }),
        }
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.made.get().is_some_and(|made| made.is_nonblocking(offset, length))
    }

    fn identity(&self) -> Option<Identity> {
        self.identity
    }
}

#[cfg(test)]
mod tests {

    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::rope::Segment;

    fn rope() -> Rope {
        Rope::new([Segment::literal(*b"abc")]).unwrap()
    }

    #[test]
    fn the_work_is_done_once_and_only_when_it_is_needed() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let later = LazyContent::new("x", 3, None, move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(rope())
        });
        assert_eq!((later.size(), later.is_nonblocking(0, 1), count.load(Ordering::SeqCst)), (3, false, 0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut bytes = [0; 2];
                    later.read_at(1, &mut bytes).unwrap();
                    assert_eq!(&bytes, b"bc");
                });
            }
        });
        assert_eq!((later.is_nonblocking(0, 1), count.load(Ordering::SeqCst)), (true, 1));
    }

    #[test]
    fn a_wrong_size_is_never_served() {
        let later = LazyContent::new("x", 4, None, || Ok(rope()));
        assert!(matches!(later.read_at(0, &mut [0; 1]), Err(ReadError::Changed { .. })));
        assert!(LazyContent::done("x", None, rope()).read_at(0, &mut [0; 3]).is_ok());
    }
}
