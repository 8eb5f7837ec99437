//! Decompresses zstd frames, and fails unless they become the code object that the table of contents promises. Usually
//! it is one frame. As in zstd's own functions, and so in rocm-kpack's library, several frames become their
//! concatenation, and skippable ones become nothing.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use zstd::zstd_safe::{self, DCtx};

use crate::error::Error;
use crate::uninit;

/// What the shortest block of a frame, 4 bytes, can decompress to (RFC 8878, 3.1.1.2: `Block_Maximum_Size` is 128 KiB).
const BLOCK: (u64, u64) = (4, 128 << 10);

thread_local! {
    /// A zstd context takes some 100 KB, and time to set up. So each thread keeps one.
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Fails if frames cannot become `size` bytes. This is checked before memory is allocated for them.
pub(crate) fn check(frames: &[u8], size: u64) -> Result<(), Error> {
    let claimed = content_size(frames)?;
    if claimed.is_some_and(|claimed| claimed != size) {
        return Err(Error::Frame("a frame and the table of contents disagree on a size".to_owned()));
    }
    let (least, most) = BLOCK;
    if size > (frames.len() as u64 / least).saturating_mul(most) {
        return Err(Error::Frame(format!("a frame of {} bytes cannot become {size} bytes", frames.len())));
    }
    Ok(())
}

/// The sum of the content sizes that frames declare; `None` if one declares none. A skippable frame becomes nothing.
fn content_size(frames: &[u8]) -> Result<Option<u64>, Error> {
    let (mut rest, mut total) = (frames, Some(0_u64));
    loop {
        let size = zstd_safe::get_frame_content_size(rest).map_err(|_| broken("it does not begin as one"))?;
        total = total.zip(size).map(|(total, size)| total.saturating_add(size));
        let length = zstd_safe::find_frame_compressed_size(rest);
        let length = length.map_err(|code| broken(zstd_safe::get_error_name(code)))?;
        match rest.get(length..) {
            Some(after) if !after.is_empty() => rest = after,
            _ => return Ok(total),
        }
    }
}

/// Decompresses frames into `code`, and returns it initialized. Fails unless they fill it exactly.
pub(crate) fn decompress<'b>(frames: &[u8], code: &'b mut [MaybeUninit<u8>]) -> Result<&'b mut [u8], Error> {
    CONTEXT.with_borrow_mut(|kept| {
        let context = match kept {
            Some(context) => context,
            None => kept.insert(DCtx::try_create().ok_or(Error::Memory(128 << 10))?),
        };
        let expected = code.len();
        let mut filled = uninit::Filled::new(code);
        match context.decompress(&mut filled, frames) {
            Ok(size) if size == expected => Ok(filled.into_bytes()),
            Ok(size) => Err(Error::Frame(format!("a code object has {size} bytes instead of {expected}"))),
            Err(code) => Err(broken(zstd_safe::get_error_name(code))),
        }
    })
}

fn broken(reason: &str) -> Error {
    Error::Frame(format!("a zstd frame is broken: {reason}"))
}
