//! The C interface. Names, order of arguments and codes are those of rocm-kpack's `librocm_kpack.so.0`.
//! `include/rocm_kpack/kpack.h` documents each function.
//!
//! Every function body runs inside `guarded`, so that nothing unwinds into the caller.

#![expect(unsafe_code, reason = "the C interface: pointers of the caller are believed as far as the header says")]
#![allow(clippy::missing_safety_doc, reason = "the header says what callers have to keep to")]

mod archive;
mod cache;

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use archive::*;
pub use cache::*;

use crate::error::{Error, ErrorCode};
use crate::object::Object;
use crate::source::Source;

/// Runs the body of a function. A panic, which would be a defect of this library, becomes an I/O error.
fn guarded(body: impl FnOnce() -> Result<(), Error>) -> ErrorCode {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ErrorCode::Success,
        Ok(Err(error)) => error.code(),
        Err(_) => ErrorCode::IoError,
    }
}

/// What a pointer that must not be null points at.
unsafe fn required<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Error> {
    // SAFETY: callers pass valid pointers, or null.
    unsafe { pointer.as_ref() }.ok_or(Error::Argument(name))
}

/// A place for a result; the pointer must not be null.
unsafe fn out<'a, T>(pointer: *mut T, name: &'static str) -> Result<&'a mut T, Error> {
    // SAFETY: callers pass pointers to something of that type, or null.
    unsafe { pointer.as_mut() }.ok_or(Error::Argument(name))
}

/// A string; the pointer must not be null.
unsafe fn string<'a>(pointer: *const c_char, name: &'static str) -> Result<&'a CStr, Error> {
    if pointer.is_null() {
        return Err(Error::Argument(name));
    }
    // SAFETY: strings end with NUL.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// A code object in memory that the caller frees with `free`.
fn allocated<S: Source>(object: &Object<'_, S>) -> Result<(*mut c_void, usize), Error> {
    let size = object.size();
    // SAFETY: `malloc` takes any number. An empty code object has a pointer, too.
    let memory = unsafe { libc::malloc(size.max(1)) };
    if memory.is_null() {
        return Err(Error::Memory(size));
    }
    // SAFETY: no other code knows these `size` bytes, and they need not be initialized.
    let code = unsafe { std::slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), size) };
    // Decompression does not panic. If it did, only this memory would leak.
    if let Err(error) = object.write_to(code) {
        // SAFETY: it comes from `malloc`.
        unsafe { libc::free(memory) };
        return Err(error);
    }
    Ok((memory, size))
}
