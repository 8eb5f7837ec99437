//! Opens, lists and loads from arbitrary bytes, in memory and through the C interface, and compares the two.

#![expect(unsafe_code, clippy::expect_used, reason = "calls the C interface; what fails here is a finding")]

use std::ffi::{CString, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{null, null_mut};

use rocm_kpack::ffi::{
    kpack_cache_create, kpack_cache_destroy, kpack_close, kpack_free_code_object, kpack_free_kernel,
    kpack_get_architecture, kpack_get_architecture_count, kpack_get_binary, kpack_get_binary_count, kpack_get_kernel,
    kpack_load_code_object, kpack_open,
};
use rocm_kpack::{Archive, Error, ErrorCode, Marker};

/// The number of entries that are read; more would only take time.
const MOST: usize = 16;

/// Checks bytes that may be an archive.
pub(crate) fn run(bytes: &[u8]) {
    drop(Marker::decode(bytes));
    let archive = Archive::open(bytes);
    // SAFETY: a name without NUL.
    let descriptor = unsafe { libc::memfd_create(c"archive".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: no other code has the descriptor.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes).expect("a memfd takes what is written to it");
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("no NUL");
    let mut handle = null_mut();
    // SAFETY: a string and a place for the result.
    let opened = unsafe { kpack_open(path.as_ptr(), &raw mut handle) };
    if opened != ErrorCode::Success {
        assert!(handle.is_null());
        // C cannot pass such a name.
        let has_nul = |archive: &Archive<&[u8]>| archive.targets().iter().any(|target| target.contains('\0'));
        assert!(
            archive.is_err_and(|error| error.code() == opened) || Archive::open(bytes).is_ok_and(|it| has_nul(&it))
        );
        return;
    }
    let archive = archive.expect("C opens no more than Rust");
    let (mut names, mut targets) = (0, 0);
    // SAFETY: the handle is open until the end of this function.
    unsafe {
        assert_eq!(kpack_get_binary_count(handle, &raw mut names), ErrorCode::Success);
        assert_eq!(kpack_get_architecture_count(handle, &raw mut targets), ErrorCode::Success);
        let mut string = null();
        for index in 0..targets {
            assert_eq!(kpack_get_architecture(handle, index, &raw mut string), ErrorCode::Success);
        }
        assert_eq!(kpack_get_architecture(handle, targets, &raw mut string), ErrorCode::InvalidArgument);
        for index in 0..names {
            kpack_get_binary(handle, index, &raw mut string);
        }
        assert_ne!(kpack_get_binary(handle, names, &raw mut string), ErrorCode::Success);
    }
    let mut cache = null_mut();
    // SAFETY: a place for the result.
    assert_eq!(unsafe { kpack_cache_create(&raw mut cache) }, ErrorCode::Success);
    drop(archive.toc());
    assert_eq!(archive.names().expect("in memory").count(), names);
    let some: Vec<_> = archive.names().expect("in memory").take(MOST).collect();
    for name in some {
        for target in archive.targets().iter().take(MOST) {
            let found = archive.get(name, target).and_then(|code| code.ok_or(Error::NoKernel(String::new())));
            let (Ok(c_name), Ok(c_target)) = (CString::new(name), CString::new(target.as_str())) else { continue };
            let (mut code, mut size) = (null_mut(), 0);
            // SAFETY: strings, and places for results.
            unsafe {
                let answer = kpack_get_kernel(handle, c_name.as_ptr(), c_target.as_ptr(), &raw mut code, &raw mut size);
                same(&found, answer, code, size);
                kpack_free_kernel(code);
            }
            let Some((kernel_name, index)) = name.rsplit_once('#') else { continue };
            let Ok(index) = index.parse::<u32>() else { continue };
            // Through a marker, as a HIP runtime loads. Only targets whose sole candidate is their own name are tried.
            if format!("{kernel_name}#{index}") != name || rocm_kpack::search::candidates(target) != [target.as_str()] {
                continue;
            }
            let marker = Marker {
                kpack_search_paths: vec![path.to_str().expect("ASCII").to_owned()],
                kernel_name: kernel_name.to_owned(),
            };
            let marker = marker.encode();
            let targets = [c_target.as_ptr()];
            // SAFETY: a marker, strings, one target, and places for results.
            unsafe {
                let answer = kpack_load_code_object(
                    cache,
                    marker.as_ptr().cast(),
                    path.as_ptr(),
                    index,
                    targets.as_ptr(),
                    1,
                    &raw mut code,
                    &raw mut size,
                );
                if marker.len() <= 64 << 10 {
                    same(&found, answer, code, size);
                }
                kpack_free_code_object(code);
            }
        }
    }
    // SAFETY: neither is used later.
    unsafe {
        kpack_cache_destroy(cache);
        kpack_close(handle);
    }
}

/// Whether C and Rust got the same.
unsafe fn same(found: &Result<Vec<u8>, Error>, answer: ErrorCode, code: *const c_void, size: usize) {
    match found {
        Ok(found) => {
            assert_eq!(answer, ErrorCode::Success);
            // SAFETY: on success there are `size` bytes.
            assert!(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), size) } == found.as_slice());
        }
        Err(error) => assert_eq!((answer, code.is_null(), size), (error.code(), true, 0), "{error}"),
    }
}
