//! Makes archives for tests and benches.

use std::collections::BTreeMap;

use rocm_kpack::{Blob, HEADER_SIZE, Scheme, Toc, TocEntry, VERSION, header};

/// An archive of code objects by name and target, which lists `targets`.
pub(crate) fn archive(scheme: Scheme, targets: &[&str], codes: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut stored = Vec::new();
    let mut blobs = Vec::new();
    let mut toc: BTreeMap<String, BTreeMap<String, TocEntry>> = BTreeMap::new();
    if scheme == Scheme::ZstdPerKernel {
        stored.extend(u32::try_from(codes.len()).unwrap().to_le_bytes());
    }
    for (ordinal, (name, target, code)) in codes.iter().enumerate() {
        let entry = TocEntry { kind: "hsaco".to_owned(), ordinal: ordinal as u64, original_size: code.len() as u64 };
        toc.entry((*name).to_owned()).or_default().insert((*target).to_owned(), entry);
        if scheme == Scheme::ZstdPerKernel {
            let frame = zstd::bulk::compress(code, 3).unwrap();
            stored.extend(u32::try_from(frame.len()).unwrap().to_le_bytes());
            stored.extend(frame);
        } else {
            blobs.push(Blob { offset: HEADER_SIZE + stored.len() as u64, size: code.len() as u64 });
            stored.extend(*code);
        }
    }
    let is_compressed = scheme == Scheme::ZstdPerKernel;
    let toc = Toc {
        format_version: VERSION,
        group_name: "test".to_owned(),
        gfx_arch_family: targets.first().copied().unwrap_or_default().to_owned(),
        gfx_arches: targets.iter().map(ToString::to_string).collect(),
        compression_scheme: scheme.name().to_owned(),
        zstd_offset: is_compressed.then_some(HEADER_SIZE),
        zstd_size: is_compressed.then_some(stored.len() as u64),
        blobs: (!is_compressed).then_some(blobs),
        toc,
    };
    around(&stored, &toc.encode())
}

/// A header, code objects and a table of contents.
pub(crate) fn around(stored: &[u8], toc: &[u8]) -> Vec<u8> {
    [&header(HEADER_SIZE + stored.len() as u64), stored, toc].concat()
}
