//! Functions that read one archive.

use std::ffi::{CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use super::{allocated, guarded, out, required, string};
use crate::archive::Archive;
use crate::error::{Error, ErrorCode, malformed};
use crate::file::ArchiveFile;

/// What `kpack_archive_t` points at.
#[derive(Debug)]
pub struct Handle {
    archive: Archive<ArchiveFile>,
    targets: Vec<CString>,
    /// Computed when the first name is asked for.
    names: OnceLock<Vec<CString>>,
}

impl Handle {
    fn open(path: &Path) -> Result<Self, Error> {
        let archive = ArchiveFile::open(path).and_then(Archive::open)?;
        let targets = c_strings(archive.targets().iter().map(String::as_str))?;
        Ok(Self { archive, targets, names: OnceLock::new() })
    }

    fn names(&self) -> Result<&[CString], Error> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let names = c_strings(self.archive.names()?)?;
        Ok(self.names.get_or_init(|| names))
    }
}

fn c_strings<'a>(strings: impl Iterator<Item = &'a str>) -> Result<Vec<CString>, Error> {
    strings.map(|text| CString::new(text).map_err(|_| malformed(format!("{text:?} is no name")))).collect()
}

fn path_of(path: &std::ffi::CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

fn utf8(text: &std::ffi::CStr) -> Result<&str, Error> {
    text.to_str().map_err(|_| Error::Argument("a name is not UTF-8"))
}

/// Opens an archive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_open(path: *const c_char, archive: *mut *mut Handle) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let (path, archive) = unsafe { (string(path, "path")?, out(archive, "archive")?) };
        *archive = std::ptr::null_mut();
        *archive = Box::into_raw(Box::new(Handle::open(path_of(path))?));
        Ok(())
    })
}

/// Closes an archive, and frees the strings that belong to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_close(archive: *mut Handle) {
    guarded(|| {
        if !archive.is_null() {
            // SAFETY: it comes from `kpack_open`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(archive) });
        }
        Ok(())
    });
}

/// Returns the number of targets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_get_architecture_count(archive: *const Handle, count: *mut usize) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let (archive, count) = unsafe { (required(archive, "archive")?, out(count, "count")?) };
        *count = archive.targets.len();
        Ok(())
    })
}

/// Returns one of the targets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_get_architecture(
    archive: *const Handle,
    index: usize,
    arch: *mut *const c_char,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let (archive, arch) = unsafe { (required(archive, "archive")?, out(arch, "arch")?) };
        *arch = archive.targets.get(index).ok_or(Error::Argument("index"))?.as_ptr();
        Ok(())
    })
}

/// Returns the number of names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_get_binary_count(archive: *const Handle, count: *mut usize) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let (archive, count) = unsafe { (required(archive, "archive")?, out(count, "count")?) };
        *count = archive.archive.name_count();
        Ok(())
    })
}

/// Returns one of the names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_get_binary(
    archive: *const Handle,
    index: usize,
    binary: *mut *const c_char,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let (archive, binary) = unsafe { (required(archive, "archive")?, out(binary, "binary")?) };
        *binary = archive.names()?.get(index).ok_or(Error::Argument("index"))?.as_ptr();
        Ok(())
    })
}

/// Copies a code object out of an archive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_get_kernel(
    archive: *const Handle,
    binary: *const c_char,
    arch: *const c_char,
    kernel: *mut *mut c_void,
    size: *mut usize,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let (archive, binary, arch, kernel, size) = unsafe {
            let names = (string(binary, "binary")?, string(arch, "arch")?);
            (required(archive, "archive")?, names.0, names.1, out(kernel, "kernel")?, out(size, "size")?)
        };
        let (binary, arch) = (utf8(binary)?, utf8(arch)?);
        (*kernel, *size) = (std::ptr::null_mut(), 0);
        let archive = &archive.archive;
        let entry = archive.find(binary, arch)?.ok_or_else(|| Error::NoKernel(format!("{binary} for {arch}")))?;
        (*kernel, *size) = allocated(&archive.object(&entry)?)?;
        Ok(())
    })
}

/// Frees a code object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_free_kernel(kernel: *mut c_void) {
    // SAFETY: it comes from `malloc` or is null.
    unsafe { libc::free(kernel) }
}

/// Calls a function with each target of an archive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_enumerate_architectures(
    path: *const c_char,
    callback: Option<unsafe extern "C" fn(*const c_char, *mut c_void) -> bool>,
    user_data: *mut c_void,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let path = unsafe { string(path, "path")? };
        let callback = callback.ok_or(Error::Argument("callback"))?;
        let handle = Handle::open(path_of(path))?;
        for target in &handle.targets {
            // SAFETY: the caller's function takes a string and the caller's pointer.
            if !unsafe { callback(target.as_ptr(), user_data) } {
                break;
            }
        }
        Ok(())
    })
}
