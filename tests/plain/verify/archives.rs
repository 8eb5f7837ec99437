//! Archives with wrong content, or in the wrong place.

use std::fs;
use std::path::Path;

use kpackfs::verify::Check;

use crate::verify::splits::{
    FEATURES, FoundBy, GFX90A, GFX1030, PLAIN, XNACK, copy, edit, edit_toc, offset_of, write_at,
};

fn grow(toc: &mut kpackfs::kpack::Toc, key: &str) {
    toc.toc.get_mut(key).unwrap().values_mut().next().unwrap().original_size += 1;
}

fn remove_archives(root: &Path) {
    for part in fs::read_dir(root).unwrap() {
        drop(fs::remove_dir_all(part.unwrap().path().join(".kpack")));
    }
}

#[test]
fn wrong_archives_are_named() {
    FoundBy(Check::Archive).each(&[
        ("truncated", |at| edit(&at.join(GFX90A), |bytes| bytes.truncate(90)), GFX90A, "table of contents"),
        ("empty", |at| fs::write(at.join(GFX90A), "").unwrap(), GFX90A, "it is too short"),
        ("no archive", |at| write_at(&at.join(GFX90A), 0, b"x"), GFX90A, "not a version 1 kpack"),
        ("frame", |at| write_at(&at.join(GFX90A), 72, b"oops"), GFX90A, " for gfx90a: "),
        (
            "size",
            |at| edit_toc(&at.join(GFX90A), |toc| grow(toc, "lib/plain-bfd.so#0")),
            GFX90A,
            "lib/plain-bfd.so#0 for gfx90a: a frame and the table of contents disagree",
        ),
        (
            "name",
            |at| fs::rename(at.join(GFX90A), at.join("gfx90a/.kpack/rocm_gfx942.kpack")).unwrap(),
            "gfx90a/.kpack/rocm_gfx942.kpack",
            "its name says gfx942, but it offers gfx90a",
        ),
        (
            "target",
            |at| {
                edit_toc(&at.join(GFX90A), |toc| {
                    let targets = toc.toc.get_mut("lib/plain-bfd.so#0").unwrap();
                    let entry = targets.remove("gfx90a").unwrap();
                    targets.insert("gfx942".to_owned(), entry);
                });
            },
            GFX90A,
            "the archive does not offer this target",
        ),
        (
            "code of another processor",
            |at| {
                copy(&at.join(GFX90A), &at.join(GFX1030));
                edit_toc(&at.join(GFX1030), |toc| {
                    toc.gfx_arches = vec!["gfx1030".to_owned()];
                    for targets in toc.toc.values_mut() {
                        *targets = targets.values().map(|entry| ("gfx1030".to_owned(), entry.clone())).collect();
                    }
                });
            },
            GFX1030,
            "lib/plain-bfd.so#0 for gfx1030: it is code for gfx90a",
        ),
    ]);
    FoundBy(Check::Lookup).each(&[
        ("all archives gone", |at| remove_archives(at), PLAIN, "no archive has code for wrapper 0, 1"),
        (
            "names without an index",
            |at| {
                edit_toc(&at.join(GFX90A), |toc| {
                    let old = toc.toc.remove("lib/plain-bfd.so#0").unwrap();
                    toc.toc.insert("lib/plain-bfd.so".to_owned(), old);
                });
            },
            GFX90A,
            "no wrapper asks for lib/plain-bfd.so",
        ),
        (
            "first archive without the code of a later one",
            |at| edit_toc(&at.join(XNACK), |toc| drop(toc.toc.remove("lib/features.so#1"))),
            FEATURES,
            "on gfx90a:xnack+ a loader that stops at gfx90a/.kpack/rocm_gfx90a:xnack+.kpack misses code which \
                 gfx90a/.kpack/rocm_gfx90a.kpack has, for wrapper 1",
        ),
        (
            "unreachable",
            |at| fs::rename(at.join(GFX90A), at.join("gfx90a/.kpack/other_gfx90a.kpack")).unwrap(),
            "gfx90a/.kpack/other_gfx90a.kpack",
            "no marker leads to it",
        ),
        (
            "a search path that leaves the tree",
            |at| {
                let place = offset_of(&at.join(PLAIN), b"../.kpack");
                write_at(&at.join(PLAIN), place, b"/");
            },
            PLAIN,
            "no archive has code for wrapper 0, 1",
        ),
    ]);
}

#[test]
fn parts_that_hold_what_belongs_elsewhere_are_named() {
    const DATABASE: &str = "lib/rocblas/library/TensileLibrary_gfx90a.dat";
    fn moved(root: &Path, from: &str, to: &str) {
        fs::create_dir_all(root.join(to).parent().unwrap()).unwrap();
        fs::rename(root.join(from), root.join(to)).unwrap();
    }
    FoundBy(Check::Separation).each(&[
        (
            "archive in another part",
            |at| moved(at, GFX90A, "gfx1030/.kpack/rocm_gfx90a.kpack"),
            "gfx1030/.kpack/rocm_gfx90a.kpack",
            "it is for gfx90a, which belongs to gfx90a and not to gfx1030",
        ),
        (
            "archive in host",
            |at| moved(at, GFX90A, "host/.kpack/rocm_gfx90a.kpack"),
            "host/.kpack/rocm_gfx90a.kpack",
            "it is in the host part, and markers lead to it",
        ),
        (
            "archive twice",
            |at| copy(&at.join(GFX90A), &at.join("gfx1030/.kpack/rocm_gfx90a.kpack")),
            GFX90A,
            "it is also at gfx1030/.kpack/rocm_gfx90a.kpack",
        ),
        (
            "database in host",
            |at| moved(at, &format!("gfx90a/{DATABASE}"), &format!("host/{DATABASE}")),
            "host/lib/rocblas/library/TensileLibrary_gfx90a.dat",
            "it belongs to the rocblas database of gfx90a",
        ),
        (
            "database in another part",
            |at| moved(at, &format!("gfx90a/{DATABASE}"), &format!("gfx1030/{DATABASE}")),
            "gfx1030/lib/rocblas/library/TensileLibrary_gfx90a.dat",
            "which belongs to gfx90a and not to gfx1030",
        ),
        (
            "something else",
            |at| fs::write(at.join("gfx90a/notes"), "x").unwrap(),
            "gfx90a/notes",
            "it is neither an archive nor of a database",
        ),
    ]);
}
