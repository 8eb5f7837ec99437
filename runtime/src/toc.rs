//! The table of contents as it is stored.

use std::collections::BTreeMap;

use serde::Serialize;

/// The table of contents.
#[derive(Clone, Debug, Serialize)]
pub struct Toc {
    /// Always 1.
    pub format_version: u32,
    /// The product that the archive belongs to.
    pub group_name: String,
    /// The architecture family; splitters (kpackfs and rocm-kpack) write the target here.
    pub gfx_arch_family: String,
    /// The targets that a loader finds in this archive.
    pub gfx_arches: Vec<String>,
    /// The name of a [`Scheme`](crate::Scheme).
    pub compression_scheme: String,
    /// Where the zstd frames begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zstd_offset: Option<u64>,
    /// Bytes of the count, lengths and frames together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zstd_size: Option<u64>,
    /// Where each code object is; only with the scheme `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blobs: Option<Vec<Blob>>,
    /// Code objects by binary and wrapper (`lib/libx.so#0`), then by target.
    pub toc: BTreeMap<String, BTreeMap<String, TocEntry>>,
}

/// Where a code object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Blob {
    /// From the beginning of the archive.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
}

/// A code object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TocEntry {
    /// Always `hsaco`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its number in the archive.
    pub ordinal: u64,
    /// Its size when it is not compressed.
    pub original_size: u64,
}

impl Toc {
    /// The bytes at the end of an archive.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

/// MessagePack with maps by field name.
#[expect(clippy::expect_used, reason = "writing plain strings, numbers, lists and maps to a vector cannot fail")]
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain fields")
}
