//! Takes arbitrary bytes for the buffers of an entry of a ring, header and payload, and decodes the request in them.

use kpackfs::fs::{HEADER, Operation, Request};

/// Checks bytes that may be a request. A header that is too short is filled with zeros.
pub(crate) fn run(bytes: &[u8]) {
    let (start, payload) = bytes.split_at(bytes.len().min(HEADER));
    let mut header = [0; HEADER];
    header[..start.len()].copy_from_slice(start);
    let size = u32::from_ne_bytes(header[272..276].try_into().expect("four bytes")) as usize;
    let operation = u32::from_ne_bytes(header[4..8].try_into().expect("four bytes"));
    let Some(request) = Request::decode(&header, payload) else {
        // Only names can be wrong: longer than the payload, or without an end.
        assert!([1, 22].contains(&operation) && payload.get(..size).is_none_or(|name| !name.contains(&0)));
        return;
    };
    assert_eq!(request.node.to_ne_bytes(), header[16..24]);
    if let Operation::Lookup { name } | Operation::Getxattr { name, .. } = request.operation {
        assert!(name.len() < size && payload.starts_with(name) && payload[name.len()] == 0 && !name.contains(&0));
    }
}
