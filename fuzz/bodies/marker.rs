//! Reads arbitrary bytes as a marker, encodes the marker, and reads it again.

use kpackfs::binary::read_marker;
use rocm_kpack::Marker;

/// Checks bytes that may be a marker.
pub(crate) fn run(bytes: &[u8]) {
    let marker = Marker::decode(bytes);
    let read = read_marker(bytes);
    let Ok(marker) = marker else {
        assert!(read.is_err());
        return;
    };
    let (name, paths) = read.expect("as above");
    assert_eq!((&name, &paths), (&marker.kernel_name, &marker.kpack_search_paths));
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
