//! The `.kpack` archive of rocm-kpack, version 1: code objects by binary, wrapper index and target.
//!
//! Layout, all integers little-endian: `KPAK`, u32 version, u64 offset of the table of contents, zeros up to byte 64,
//! the code objects, and at the end the table of contents in MessagePack. With the scheme `none` code objects stand one
//! after the other; with `zstd-per-kernel` there is a u32 count, and for each code object a u32 length and a zstd frame.

mod ahead;
mod frame;
mod layout;
mod making;
mod reader;
mod toc;

use std::str::FromStr;

pub use frame::Frame;
pub use layout::{Archive, ArchiveEntry};
pub use making::{make_together, unmade_size};
pub use reader::{KpackError, Reader};
pub use toc::Toc;

/// Bytes before the first code object.
const HEADER_SIZE: u64 = 64;
/// The first bytes of an archive.
pub const MAGIC: &[u8; 4] = b"KPAK";
/// The only version there is.
const VERSION: u32 = 1;

/// How code objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// Each one as a zstd frame of this level, 1 to 22.
    Zstd(i32),
}

/// The level that rocm-kpack uses, and the best trade on real code objects.
pub const DEFAULT_LEVEL: i32 = 3;

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd(DEFAULT_LEVEL)
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "none" => Ok(Self::None),
            "zstd" | "zstd-per-kernel" => Ok(Self::default()),
            other => Err(format!("unknown compression {other:?}; there are \"zstd\" and \"none\"")),
        }
    }
}

/// The name under which an archive lists the code objects of one wrapper.
pub fn toc_key(kernel_name: &str, wrapper: usize) -> String {
    format!("{kernel_name}#{wrapper}")
}

/// What a split binary's wrappers point at: the marker. Paths are relative to the binary's directory.
pub fn marker(kernel_name: &str, search_paths: &[String]) -> Vec<u8> {
    toc::encode(&toc::Marker { kpack_search_paths: search_paths.to_vec(), kernel_name: kernel_name.to_owned() })
}

/// Reads a marker; bytes behind it do not matter.
pub fn read_marker(bytes: &[u8]) -> Result<(String, Vec<String>), KpackError> {
    let marker: toc::Marker = toc::decode_prefix(bytes)?;
    Ok((marker.kernel_name, marker.kpack_search_paths))
}

#[cfg(test)]
mod making_tests;
#[cfg(test)]
mod tests;
