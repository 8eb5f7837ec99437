//! Reads arbitrary bytes as a marker, and once more what it says.

use kpackfs::kpack::{Marker, read_marker};

/// What is done to some bytes that are a marker, or not.
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
    // What follows a marker does not matter.
    for bytes in [encoded.clone(), [&*encoded, b"\xC1rest"].concat()] {
        match Marker::decode(&bytes) {
            Ok(again) => assert_eq!(again, marker),
            // Encoded by others it can be shorter.
            Err(_) => assert!(bytes.len() > 64 << 10),
        }
    }
}
