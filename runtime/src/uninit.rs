//! Memory that is written once. A code object of 64 MB need not be zeroed before it is read.

#![expect(unsafe_code, reason = "uninitialized memory becomes a slice of bytes after it was written")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use zstd::zstd_safe::WriteBuf;

use crate::error::Error;
use crate::source::reserved;

/// `length` bytes, which `fill` writes and returns.
pub(crate) fn vec(
    length: usize,
    fill: impl for<'b> FnOnce(&'b mut [MaybeUninit<u8>]) -> Result<&'b mut [u8], Error>,
) -> Result<Vec<u8>, Error> {
    let mut bytes: Vec<u8> = reserved(length)?;
    let memory = bytes.spare_capacity_mut().get_mut(..length).unwrap_or_default();
    let (at, expected) = (memory.as_ptr().cast::<u8>(), memory.len());
    let filled = fill(memory)?;
    // Only this memory, initialized, is a `&mut [u8]` at its address.
    if filled.as_ptr() != at || filled.len() != expected || expected != length {
        return Err(io::Error::other("memory was not filled").into());
    }
    // SAFETY: these bytes are within the capacity, and initialized.
    unsafe { bytes.set_len(length) };
    Ok(bytes)
}

/// Fills memory with zeros.
pub(crate) fn zeroed(memory: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    memory.fill(MaybeUninit::new(0));
    // SAFETY: all of it was written just now.
    unsafe { &mut *(std::ptr::from_mut(memory) as *mut [u8]) }
}

/// Fills memory with the bytes of a file from `offset` on. Fails if there are fewer.
pub(crate) fn read_exact_at<'b>(
    file: &File,
    offset: u64,
    memory: &'b mut [MaybeUninit<u8>],
) -> io::Result<&'b mut [u8]> {
    let mut done = 0;
    while let Some(rest) = memory.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.checked_add(done as u64).and_then(|at| libc::off_t::try_from(at).ok());
        let at = at.ok_or(io::ErrorKind::UnexpectedEof)?;
        // SAFETY: the descriptor is open, and the kernel writes no more than the length of `rest`.
        let read = unsafe { libc::pread(file.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len(), at) };
        match usize::try_from(read) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    // SAFETY: the kernel wrote all of it.
    Ok(unsafe { &mut *(std::ptr::from_mut(memory) as *mut [u8]) })
}

/// Memory that zstd fills from its beginning.
pub(crate) struct Filled<'b> {
    memory: &'b mut [MaybeUninit<u8>],
    /// Bytes that were written.
    length: usize,
}

impl<'b> Filled<'b> {
    pub(crate) fn new(memory: &'b mut [MaybeUninit<u8>]) -> Self {
        Self { memory, length: 0 }
    }

    /// What was written.
    pub(crate) fn into_bytes(self) -> &'b mut [u8] {
        let written = self.memory.get_mut(..self.length).unwrap_or_default();
        // SAFETY: `filled_until` was called for these bytes.
        unsafe { &mut *(std::ptr::from_mut(written) as *mut [u8]) }
    }
}

// SAFETY: pointer and capacity are those of the memory, and only bytes that were written are read.
unsafe impl WriteBuf for Filled<'_> {
    fn as_slice(&self) -> &[u8] {
        let written = self.memory.get(..self.length).unwrap_or_default();
        // SAFETY: `filled_until` was called for these bytes.
        unsafe { &*(std::ptr::from_ref(written) as *const [u8]) }
    }

    fn capacity(&self) -> usize {
        self.memory.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, length: usize) {
        self.length = length;
    }
}
