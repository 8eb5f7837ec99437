//! A zstd frame becomes the code object that the table of contents promises, or an error.

use std::cell::RefCell;

use zstd::zstd_safe::{self, DCtx};

use crate::error::Error;

/// What the shortest block of a frame, 4 bytes, becomes at most (RFC 8878, 3.1.1.2: `Block_Maximum_Size` is 128 KiB).
const BLOCK: (u64, u64) = (4, 128 << 10);

thread_local! {
    /// A zstd context takes some 100 KB and time to set up; each thread keeps one.
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Fails if a frame cannot become `size` bytes: before memory is taken for them.
pub(crate) fn check(frame: &[u8], size: u64) -> Result<(), Error> {
    let claimed = zstd_safe::get_frame_content_size(frame).map_err(|_| broken("it does not begin as one"))?;
    if claimed.is_some_and(|claimed| claimed != size) {
        return Err(Error::Frame("a frame and the table of contents disagree on a size".to_owned()));
    }
    let (least, most) = BLOCK;
    if size > (frame.len() as u64 / least).saturating_mul(most) {
        return Err(Error::Frame(format!("a frame of {} bytes cannot become {size} bytes", frame.len())));
    }
    Ok(())
}

/// Fills `code` with what a frame becomes. Fails unless it is as long.
pub(crate) fn decompress(frame: &[u8], code: &mut [u8]) -> Result<(), Error> {
    CONTEXT.with_borrow_mut(|kept| {
        let context = match kept {
            Some(context) => context,
            None => kept.insert(DCtx::try_create().ok_or(Error::Memory(128 << 10))?),
        };
        let expected = code.len();
        match context.decompress(code, frame) {
            Ok(size) if size == expected => Ok(()),
            Ok(size) => Err(Error::Frame(format!("a code object has {size} bytes instead of {expected}"))),
            Err(code) => Err(broken(zstd_safe::get_error_name(code))),
        }
    })
}

fn broken(reason: &str) -> Error {
    Error::Frame(format!("a zstd frame is broken: {reason}"))
}
