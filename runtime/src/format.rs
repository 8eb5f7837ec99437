//! The fixed parts of an archive.

use crate::error::{Error, malformed};

/// Bytes before the first code object of archives that are written here; others may have `HEADER_FIELDS` only.
pub const HEADER_SIZE: u64 = 64;
/// The first bytes of an archive.
pub const MAGIC: &[u8; 4] = b"KPAK";
/// The only version that exists.
pub const VERSION: u32 = 1;

/// Bytes of a header that have a meaning. The table of contents can begin directly after them: rocm-kpack's library
/// requires no more, and its tests make such archives (`runtime/tests/test_kpack_api.cpp`).
pub(crate) const HEADER_FIELDS: usize = 16;

/// How code objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// As they are.
    None,
    /// Each one as a zstd frame.
    ZstdPerKernel,
}

impl Scheme {
    /// As tables of contents write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ZstdPerKernel => "zstd-per-kernel",
        }
    }

    /// Parses a name. An unknown scheme is an error: treating it as `none`, as rocm-kpack does, would return compressed
    /// bytes as code.
    pub(crate) fn of_name(name: &str) -> Result<Self, Error> {
        let known = [Self::None, Self::ZstdPerKernel].into_iter().find(|scheme| scheme.name() == name);
        known.ok_or_else(|| malformed(format!("unknown compression scheme {name:?}")))
    }
}

/// The first [`HEADER_SIZE`] bytes of an archive whose table of contents is at `toc_offset`.
pub fn header(toc_offset: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(64);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(toc_offset.to_le_bytes());
    header.resize(usize::try_from(HEADER_SIZE).unwrap_or(64), 0);
    header
}

/// Where the table of contents of an archive of `size` bytes begins.
pub(crate) fn read_header(header: [u8; HEADER_FIELDS], size: u64) -> Result<u64, Error> {
    let [m0, m1, m2, m3, v0, v1, v2, v3, offset @ ..] = header;
    if [m0, m1, m2, m3] != *MAGIC {
        return Err(malformed("it is not a version 1 kpack archive"));
    }
    let version = u32::from_le_bytes([v0, v1, v2, v3]);
    if version != VERSION {
        return Err(Error::Version(version));
    }
    let offset = u64::from_le_bytes(offset);
    if (HEADER_FIELDS as u64..size).contains(&offset) {
        Ok(offset)
    } else {
        Err(malformed("its table of contents is not in the file"))
    }
}

/// The name under which an archive lists the code objects of one wrapper.
pub fn toc_key(kernel_name: &str, wrapper: usize) -> String {
    format!("{kernel_name}#{wrapper}")
}
