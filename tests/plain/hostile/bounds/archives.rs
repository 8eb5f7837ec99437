//! Archives with large tables of contents.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use kpackfs::kpack::{Toc, TocEntry};
use rocm_kpack::{Blob, HEADER_SIZE, header};

use super::Costly;

/// An archive for gfx942 in a tree, with code objects under these names.
fn archive(place: &Path, names: impl Iterator<Item = String>) -> PathBuf {
    let code = b"a code object";
    let entry = TocEntry { kind: "hsaco".to_owned(), ordinal: 0, original_size: code.len() as u64 };
    let toc = Toc {
        format_version: 1,
        group_name: "x".to_owned(),
        gfx_arch_family: "gfx942".to_owned(),
        gfx_arches: vec!["gfx942".to_owned()],
        compression_scheme: "none".to_owned(),
        zstd_offset: None,
        zstd_size: None,
        blobs: Some(vec![Blob { offset: HEADER_SIZE, size: code.len() as u64 }]),
        toc: names.map(|name| (name, BTreeMap::from([("gfx942".to_owned(), entry.clone())]))).collect(),
    };
    fs::create_dir_all(place.join(".kpack")).unwrap();
    let path = place.join(".kpack/x_gfx942.kpack");
    fs::write(&path, [&header(HEADER_SIZE + code.len() as u64), &code[..], &toc.encode()].concat()).unwrap();
    path
}

pub(super) fn entries(place: &Path, scale: usize) -> Costly {
    let count = 30_000 * scale as u64;
    let path = archive(place, (0..count).map(|number| format!("lib/lib{}.so#{number}", number % 100)));
    Costly::new(path, count, 24 * count)
}

pub(super) fn long_name(place: &Path, _: usize) -> Costly {
    Costly::new(archive(place, std::iter::once(format!("lib/{}#0", "n".repeat(50 << 20)))), 1, 50 << 20)
}

pub(super) fn sparse(place: &Path, _: usize) -> Costly {
    let path = archive(place, std::iter::once("lib/x.so#0".to_owned()));
    File::options().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
    Costly::new(path, 1, 10)
}
