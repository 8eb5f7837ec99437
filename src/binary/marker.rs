//! Markers: the names that the wrappers of a split binary point to, by which loaders find its code objects.

use std::collections::HashMap;
use std::sync::Arc;

use rocm_kpack::Marker;

use super::BinaryError;

/// Bytes of the longest marker that loaders read.
pub(super) const MAX_MARKER: u64 = 64 << 10;

/// The most markers of one binary. The wrappers of real ones share one.
pub(super) const MAX_MARKERS: usize = 64;

/// What is wrong with a binary whose wrappers are gone.
pub(super) const MARKER_ALONE: &str = "it has a marker but no wrappers";

/// The bytes of a marker. Search paths are relative to the binary's directory.
pub fn marker(kernel_name: &str, search_paths: &[String]) -> Vec<u8> {
    Marker { kpack_search_paths: search_paths.to_vec(), kernel_name: kernel_name.to_owned() }.encode()
}

/// The markers of wrappers, by pointer.
#[derive(Debug, Default)]
pub(super) struct Markers(HashMap<u64, Arc<[u8]>>);

impl Markers {
    /// The marker at a pointer, read by `read` at the first call.
    pub(super) fn get(
        &mut self,
        pointer: u64,
        read: impl FnOnce() -> Result<Arc<[u8]>, BinaryError>,
    ) -> Result<Arc<[u8]>, BinaryError> {
        if let Some(known) = self.0.get(&pointer) {
            return Ok(Arc::clone(known));
        }
        if self.0.len() == MAX_MARKERS {
            let reason = format!("its wrappers point at more than {MAX_MARKERS} markers");
            return Err(BinaryError::unsupported(reason));
        }
        let marker = read()?;
        self.0.insert(pointer, Arc::clone(&marker));
        Ok(marker)
    }
}
