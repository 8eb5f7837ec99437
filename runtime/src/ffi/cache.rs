//! Functions that find the code object of a wrapper.

use std::ffi::{OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{allocated, guarded, out, required, string};
use crate::cache::{Cache, Environment};
use crate::error::{Error, ErrorCode};
use crate::maps;
use crate::marker::{MAX_MARKER, Marker};

/// Creates a cache, and reads the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_cache_create(cache: *mut *mut Cache) -> ErrorCode {
    guarded(|| {
        // SAFETY: as the header says.
        let cache = unsafe { out(cache, "cache")? };
        *cache = Box::into_raw(Box::new(Cache::new(Environment::read())));
        Ok(())
    })
}

/// Closes all archives of a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_cache_destroy(cache: *mut Cache) {
    guarded(|| {
        if !cache.is_null() {
            // SAFETY: it comes from `kpack_cache_create`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(cache) });
        }
        Ok(())
    });
}

/// Returns the file that is mapped at an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_discover_binary_path(
    address: *const c_void,
    path: *mut c_char,
    path_size: usize,
    offset: *mut usize,
) -> ErrorCode {
    guarded(|| {
        if address.is_null() || path.is_null() || path_size == 0 {
            return Err(Error::Argument("address, path or path_size"));
        }
        let (found, at) = maps::file_at(address.addr()).ok_or(Error::NoMapping)?;
        let found = found.as_os_str().as_bytes();
        if found.len() >= path_size {
            return Err(Error::Argument("path_size"));
        }
        // SAFETY: the caller's buffer has `path_size` bytes, more than the path; `offset` is valid or null.
        unsafe {
            path.copy_from_nonoverlapping(found.as_ptr().cast(), found.len());
            path.add(found.len()).write(0);
            if let Some(offset) = offset.as_mut() {
                *offset = usize::try_from(at).unwrap_or(usize::MAX);
            }
        }
        Ok(())
    })
}

/// Finds and copies the code object that a wrapper asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_load_code_object(
    cache: *const Cache,
    metadata: *const c_void,
    binary_path: *const c_char,
    index: u32,
    archs: *const *const c_char,
    arch_count: usize,
    code_object: *mut *mut c_void,
    size: *mut usize,
) -> ErrorCode {
    guarded(|| {
        let is_array = arch_count > 0 && arch_count <= isize::MAX.unsigned_abs() / size_of::<*const c_char>();
        if metadata.is_null() || archs.is_null() || !is_array {
            return Err(Error::Argument("metadata, archs or arch_count"));
        }
        // SAFETY: as the header says.
        let (cache, binary, code_object, size) = unsafe {
            let binary = string(binary_path, "binary_path")?;
            (required(cache, "cache")?, binary, out(code_object, "code_object")?, out(size, "size")?)
        };
        (*code_object, *size) = (std::ptr::null_mut(), 0);
        cache.check_enabled()?;
        // SAFETY: there are `arch_count` strings; null ones are left out.
        let targets: Vec<&str> = unsafe {
            let given = std::slice::from_raw_parts(archs, arch_count);
            let given = given.iter().filter_map(|&arch| string(arch, "arch").ok());
            // No archive offers a target that is not UTF-8.
            given.filter_map(|arch| arch.to_str().ok()).collect()
        };
        // SAFETY: the caller keeps the metadata while this call lasts.
        let marker = Marker::decode(&unsafe { maps::bytes_at(metadata.cast(), MAX_MARKER) })?;
        let binary = Path::new(OsStr::from_bytes(binary.to_bytes()));
        let take = |found: &crate::cache::FoundObject| allocated(&found.object()?);
        (*code_object, *size) = cache.load_with(&marker, binary, index, &targets, take)?;
        Ok(())
    })
}

/// Frees a code object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpack_free_code_object(code_object: *mut c_void) {
    // SAFETY: it comes from `malloc` or is null.
    unsafe { libc::free(code_object) }
}
