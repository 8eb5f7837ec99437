//! Uncompressed offload bundles.

/// An uncompressed bundle with its code objects one after the other, after the table.
pub(crate) fn plain(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut at = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((entries.len() as u64).to_le_bytes());
    for (id, code) in entries {
        table.extend([at, code.len(), id.len()].into_iter().flat_map(|field| (field as u64).to_le_bytes()));
        table.extend(id.as_bytes());
        at += code.len();
    }
    table.extend(entries.iter().flat_map(|(_, code)| *code));
    table
}
