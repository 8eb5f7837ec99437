//! Reads arbitrary bytes as a marker, encodes the marker, and reads it again.

use rocm_kpack::Marker;

/// Checks bytes that may be a marker.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(marker) = Marker::decode(bytes) else { return };
    let encoded = marker.encode();
    // Bytes after a marker do not matter.
    for bytes in [encoded.clone(), [&*encoded, b"\xC1rest"].concat()] {
        match Marker::decode(&bytes) {
            Ok(again) => assert_eq!(again, marker),
            // Other encoders may write it in fewer bytes.
            Err(_) => assert!(bytes.len() > 64 << 10),
        }
    }
}
