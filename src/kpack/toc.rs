//! The MessagePack parts: table of contents and marker.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::KpackError;

/// The table of contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Toc {
    /// Always 1.
    pub format_version: u32,
    /// The product that the archive belongs to.
    pub group_name: String,
    /// The architecture family; the splitters write the target here.
    pub gfx_arch_family: String,
    /// The targets that a loader finds in this archive.
    pub gfx_arches: Vec<String>,
    /// `none` or `zstd-per-kernel`.
    pub compression_scheme: String,
    /// Where the zstd frames begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zstd_offset: Option<u64>,
    /// How many bytes count, lengths and frames take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zstd_size: Option<u64>,
    /// Where each code object is, with the scheme `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blobs: Option<Vec<Blob>>,
    /// By binary and wrapper (`lib/libx.so#0`), then by target.
    pub toc: BTreeMap<String, BTreeMap<String, TocEntry>>,
}

/// Where a code object is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Blob {
    /// From the beginning of the archive.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
}

/// A code object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TocEntry {
    /// Always `hsaco`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its number in the archive.
    pub ordinal: u64,
    /// Its size when it is not compressed.
    pub original_size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) kpack_search_paths: Vec<String>,
    pub(super) kernel_name: String,
}

/// MessagePack with maps by field name.
pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    // Plain strings, numbers, lists and maps into a vector: there is nothing that could fail.
    rmp_serde::to_vec_named(value).unwrap_or_default()
}

/// Reads a value and ignores what stands behind it.
pub(super) fn decode_prefix<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, KpackError> {
    T::deserialize(&mut rmp_serde::Deserializer::from_read_ref(bytes)).map_err(KpackError::from)
}
