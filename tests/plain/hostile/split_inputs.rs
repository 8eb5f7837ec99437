//! Split input whose markers and archives contradict themselves or each other.

use std::collections::BTreeMap;

use kpackfs::binary::marker;
use kpackfs::kpack::{Toc, TocEntry};
use rocm_kpack::Archive;

use crate::hostile::{Kind, split_input};

/// A marker, and archives for gfx90a and gfx1030, from a split of a fixture. The file has two bytes of length, the
/// marker, four bytes of length, and both archives.
const WHOLE: &[u8] = include_bytes!("../../../fuzz/regressions/split_input/whole");

const PATH: &str = "../.kpack/x_@GFXARCH@.kpack";

fn parts() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let length = usize::from(u16::from_le_bytes(WHOLE[..2].try_into().unwrap()));
    let (marker, rest) = WHOLE[2..].split_at(length);
    let length = u32::from_le_bytes(rest[..4].try_into().unwrap());
    let (first, second) = rest[4..].split_at(usize::try_from(length).unwrap());
    (marker.to_vec(), first.to_vec(), second.to_vec())
}

fn whole(marker: &[u8], first: &[u8], second: &[u8]) -> Vec<u8> {
    let [marker_length, length] = [marker.len(), first.len()];
    let marker_length = u16::try_from(marker_length).unwrap().to_le_bytes();
    let length = u32::try_from(length).unwrap().to_le_bytes();
    [&marker_length, marker, &length, first, second].concat()
}

/// An archive with another table of contents.
fn with_toc(archive: &[u8], change: impl FnOnce(&mut Toc)) -> Vec<u8> {
    let offset = usize::try_from(u64::from_le_bytes(archive[8..16].try_into().unwrap())).unwrap();
    let mut toc = Archive::open(archive).unwrap().toc().unwrap();
    change(&mut toc);
    [&archive[..offset], &toc.encode()].concat()
}

pub(crate) fn each_entry(archive: &[u8], mut change: impl FnMut(&mut TocEntry)) -> Vec<u8> {
    with_toc(archive, |toc| toc.toc.values_mut().flat_map(BTreeMap::values_mut).for_each(&mut change))
}

pub(crate) fn kinds() -> Vec<Kind> {
    let (marker_bytes, first, second) = parts();
    let of_path = |path: &str| marker("lib/x.so", &[path.to_owned()]);
    let with_first = |archive: &[u8]| whole(&marker_bytes, archive, &second);
    let all_of_both = with_toc(&first, |toc| {
        toc.gfx_arches.push("gfx1030".to_owned());
        for targets in toc.toc.values_mut() {
            let entry = targets["gfx90a"].clone();
            targets.insert("gfx1030".to_owned(), entry);
        }
    });
    vec![
        ("code for gfx90a is called gfx1030, too", with_first(&all_of_both)),
        ("sizes of 0", with_first(&each_entry(&first, |entry| entry.original_size = 0))),
        ("sizes of 16 EB", with_first(&each_entry(&first, |entry| entry.original_size = u64::MAX))),
        ("sizes of 1 GB", with_first(&each_entry(&first, |entry| entry.original_size = 1 << 30))),
        ("one code object for both wrappers", with_first(&each_entry(&first, |entry| entry.ordinal = 0))),
        ("ordinals past the end", with_first(&each_entry(&first, |entry| entry.ordinal = 1 << 40))),
        ("no target is offered", with_first(&with_toc(&first, |toc| toc.gfx_arches.clear()))),
        (
            "a name that is no target",
            with_first(&with_toc(&first, |toc| {
                toc.gfx_arches = vec!["../x".to_owned()];
                for targets in toc.toc.values_mut() {
                    let entry = targets["gfx90a"].clone();
                    *targets = BTreeMap::from([("../x".to_owned(), entry)]);
                }
            })),
        ),
        ("frames that overlap the table", with_first(&with_toc(&first, |toc| toc.zstd_size = Some(1 << 40)))),
        ("the archives are swapped", whole(&marker_bytes, &second, &first)),
        ("one archive twice", whole(&marker_bytes, &first, &first)),
        ("an archive of nothing", with_first(&[])),
        ("a path to nowhere", whole(&of_path("../../../../etc/passwd"), &first, &second)),
        ("a path to the binary", whole(&of_path("x.so"), &first, &second)),
        ("a path with two placeholders", whole(&of_path("../.kpack/x_@GFXARCH@@GFXARCH@.kpack"), &first, &second)),
        ("a thousand paths", whole(&marker("lib/x.so", &vec![PATH.to_owned(); 100]), &first, &second)),
        ("no path", whole(&marker("lib/x.so", &[]), &first, &second)),
        ("no marker", whole(&[], &first, &second)),
    ]
}

/// Whichever byte changes: either the code comes from the archives and is for the stated GPU, or nothing is joined.
#[test]
fn no_changed_byte_makes_a_wrong_kernel() {
    for step in 0..400_usize {
        let mut bytes = WHOLE.to_vec();
        // The tables are at the ends of the archives. Multiples of a prime spread over all bytes.
        let at = (step * 7919) % bytes.len();
        bytes[at] = bytes[at].wrapping_add(u8::try_from(1 + step % 255).unwrap());
        split_input::run(&bytes);
    }
}
