//! The `.kpack` archive of rocm-kpack, version 1, and how the code objects of a split binary are found.
//!
//! An archive holds code objects by binary, wrapper index and target. Layout, all integers little-endian: `KPAK`, u32
//! version, u64 offset of the table of contents, zeros up to byte 64, the code objects, and at the end the table of contents
//! in MessagePack. With the scheme `none` code objects stand one after the other; with `zstd-per-kernel` there is a u32
//! count, and for each code object a u32 length and a zstd frame.
//!
//! [`Archive`] reads one, from a file or from any other [`Source`]. [`Cache`] finds the code object that a wrapper of a
//! split binary asks for. Built as a shared library, this crate is `librocm_kpack.so.0` with the C interface of
//! `include/rocm_kpack/kpack.h`.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use rocm_kpack::{Archive, Blob, HEADER_SIZE, Scheme, Toc, TocEntry, VERSION, header, toc_key};
//!
//! // An archive with one code object that is not compressed.
//! let code = b"a code object";
//! let size = code.len() as u64;
//! let key = toc_key("lib/libx.so", 0);
//! let entry = TocEntry { kind: "hsaco".to_owned(), ordinal: 0, original_size: size };
//! let toc = Toc {
//!     format_version: VERSION,
//!     group_name: "x".to_owned(),
//!     gfx_arch_family: "gfx90a".to_owned(),
//!     gfx_arches: vec!["gfx90a".to_owned()],
//!     compression_scheme: Scheme::None.name().to_owned(),
//!     zstd_offset: None,
//!     zstd_size: None,
//!     blobs: Some(vec![Blob { offset: HEADER_SIZE, size }]),
//!     toc: BTreeMap::from([(key.clone(), BTreeMap::from([("gfx90a".to_owned(), entry)]))]),
//! };
//! let bytes = [&header(HEADER_SIZE + size), &code[..], &toc.encode()].concat();
//!
//! let archive = Archive::open(&bytes[..])?;
//! assert_eq!(archive.targets(), ["gfx90a"]);
//! assert_eq!(archive.get(&key, "gfx90a")?.as_deref(), Some(&code[..]));
//! # Ok::<(), rocm_kpack::Error>(())
//! ```
//!
//! Archives and metadata can come from untrusted sources. Whatever they contain, the result is bytes of the promised
//! size or an [`Error`]. Memory is allocated for bytes that exist, not for lengths that are claimed.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::too_many_lines))]

mod archive;
mod cache;
mod error;
pub mod ffi;
mod file;
mod format;
mod frame;
mod log;
mod maps;
mod marker;
mod msgpack;
mod object;
mod regular;
pub mod search;
mod source;
mod stored;
mod toc;
mod uninit;

pub use archive::Archive;
pub use cache::{Cache, Environment};
pub use error::{Error, ErrorCode};
pub use file::ArchiveFile;
pub use format::{HEADER_SIZE, MAGIC, Scheme, VERSION, header, toc_key};
pub use marker::Marker;
pub use object::MAX_OBJECT_SIZE;
pub use regular::{NotRegular, open_regular, open_regular_with};
pub use source::Source;
pub use toc::{Blob, Toc, TocEntry};
