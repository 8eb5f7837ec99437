//! Malformed headers: every field of the ELF header, the program headers, the section headers and the dynamic section
//! is changed, and so are the headers of PE images.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kpackfs::binary::{FatBinary, SplitBinary};
use kpackfs::fatbin::read_bundle;
use kpackfs::resources::Resources;
use kpackfs::rope::Content;
use rayon::prelude::*;

use crate::common::fixture;
use crate::shapes::shown::{Shown, content, program_headers, whole, word};

const MARKER: &[u8] = b"the marker";

/// The number of single changes for each of which a pair of changes is tried.
const SINGLES: usize = 4;

/// Scans and splits the file, whatever it is taken for. Returns whether that succeeds; panics if the result is
/// inconsistent.
fn look(bytes: Vec<u8>, resources: &Arc<Resources>) -> bool {
    let fat = content(bytes);
    SplitBinary::read(&fat).ok();
    let Ok(Some(binary)) = FatBinary::scan(&fat) else { return false };
    for wrapper in binary.wrappers() {
        read_bundle(&fat, wrapper.bundle, wrapper.limit, resources).ok();
    }
    let Ok(rope) = binary.rewrite(MARKER) else { return false };
    let rope: Arc<dyn Content> = Arc::new(rope);
    // Panics if it cannot be read to its end.
    let bytes = whole(&*rope);
    assert!(rope.read_at(rope.size(), &mut [0]).is_err());
    let middle = bytes.len() / 2;
    let mut half = vec![0; bytes.len() - middle];
    rope.read_at(middle as u64, &mut half).unwrap();
    assert!(half == bytes[middle..]);
    binary.first_difference(&rope).ok();
    SplitBinary::read(&rope).ok();
    true
}

/// The bytes of headers: all of the file header, the program headers and the dynamic section, and a sample of the
/// section headers.
fn places(bytes: &[u8]) -> Vec<usize> {
    let count = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let dynamic = program_headers(bytes).into_iter().filter(|header| header.kind == 2).flat_map(|header| {
        let start = usize::try_from(header.offset).unwrap();
        start..start + usize::try_from(header.file_size).unwrap()
    });
    let segments = word(bytes, 32)..word(bytes, 32) + count(56) * 56;
    let sections = (word(bytes, 40)..word(bytes, 40) + count(60) * 64).step_by(8);
    (0..64).chain(segments).chain(dynamic).chain(sections).collect()
}

#[track_caller]
fn mutate(name: &str, bytes: &[u8], places: &[usize]) {
    let resources = Resources::new(1 << 20);
    let mutations = |at: &usize| {
        let old = bytes[*at];
        let values = [0xff, old ^ 0x80, old.wrapping_add(1)];
        let mut new: Vec<_> = values.into_iter().filter(|&value| value != old).map(|value| vec![value]).collect();
        if at.is_multiple_of(8) && at + 8 <= bytes.len() {
            let old = u64::from_le_bytes(bytes[*at..*at + 8].try_into().unwrap());
            let values = [u64::MAX, u64::MAX - 0xfff, i64::MAX.cast_unsigned(), 1 << 63, old.wrapping_neg(), 1 << 40];
            new.extend(values.map(|value| value.to_le_bytes().to_vec()));
        }
        new.into_iter().map(|value| (*at, value)).collect::<Vec<_>>()
    };
    let singles: Vec<_> = places.iter().flat_map(mutations).collect();
    // Some contradictions need two changes.
    let pair = |index: usize| {
        let one = &singles[index * 7919 % singles.len()];
        let other = &singles[(index * 104_729 + index / 3) % singles.len()];
        vec![one.clone(), other.clone()]
    };
    let pairs = (0..singles.len() / SINGLES).map(pair);
    let all: Vec<_> = singles.iter().map(|single| vec![single.clone()]).chain(pairs).collect();
    let panics = AtomicUsize::new(0);
    let split = all.par_iter().filter(|changes| {
        let mut bytes = bytes.to_vec();
        for (at, value) in *changes {
            bytes[*at..*at + value.len()].copy_from_slice(value);
        }
        std::panic::catch_unwind(AssertUnwindSafe(|| look(bytes, &resources))).unwrap_or_else(|_| {
            println!("{name}: panic with {changes:x?}");
            panics.fetch_add(1, Ordering::Relaxed);
            false
        })
    });
    let split = split.count();
    assert_eq!(panics.into_inner(), 0, "{name}");
    println!("{name}: {split} of {} were split all the same", all.len());
}

#[test]
fn malformed_headers_do_no_harm() {
    for name in ["plain.so", "exe-nopie-bfd", "noheaders.so", "patchelf.so", "insert-before-bss.so"] {
        let bytes = fixture(name);
        mutate(name, &bytes, &places(&bytes));
    }
}

#[test]
fn malformed_headers_of_split_files_do_no_harm() {
    for name in ["plain.so", "noheaders.so"] {
        let bytes = Shown::one(name).host(name);
        mutate(name, &bytes, &places(&bytes));
    }
}

#[test]
fn malformed_images_do_no_harm() {
    // All headers, wrappers, and relocations, which are at the end.
    let places = |bytes: &[u8]| -> Vec<_> {
        let relocations = bytes.len() - 0x200;
        (0..0x300).chain(0x1400..0x1430).chain(relocations..relocations + 0x30).collect()
    };
    for bytes in [fixture("win.dll"), Shown::one("win.dll").host("win.dll")] {
        mutate("win.dll", &bytes, &places(&bytes));
    }
}
