//! Split libraries and .kpack archives in archives of an input, which are not unpacked to join them.

use std::fs;
use std::path::Path;

use crate::common::{copy_all, fixture, program, put, ran, succeeds};

/// Packs a directory.
fn pack(directory: &Path, archive: &Path) {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", directory).unwrap();
    put(archive, tar.into_inner().unwrap());
}

#[track_caller]
fn says(place: &Path, arguments: &[&str], code: i32, words: &str) {
    let (status, said) = ran(place, arguments);
    assert!(status == Some(code) && said.contains(words), "{arguments:?}: {status:?}: {said}");
}

#[test]
fn what_is_packed_apart_is_not_judged() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    put(place.join("fat/lib/x.so"), fixture("plain.so"));
    succeeds(program().args(["split", "fat", "-o", "out"]).current_dir(place));
    succeeds(program().args(["split", "fat", "-o", "views", "--view", "merged/gfx90a"]).current_dir(place));
    let (host, archive) = ("rel/host.tar/lib/x.so", "rel/gfx90a.tar/.kpack/");
    let require = ["inspect", "rel", "--require", "gfx90a"];
    let split = "it is split, and not joined with .kpack archives";
    let missing = "it is split, and no archive for it is in the input";

    // A library alone lacks its archive.
    pack(&place.join("out/host"), &place.join("rel/host.tar"));
    says(
        place,
        &["inspect", "rel"],
        0,
        "has device code in forms that are not split: host.tar/lib/x.so: split library",
    );
    says(place, &require, 1, missing);

    // Its archive may be in another one, or is in none.
    for is_packed in [true, false] {
        let loose = place.join("rel/.kpack");
        if is_packed {
            pack(&place.join("out/gfx90a"), &place.join("rel/gfx90a.tar"));
            says(place, &["inspect", "rel"], 0, ".kpack archive: gfx90a (");
            says(place, &["why", "rel", "--target", "gfx90a"], 4, archive);
            says(place, &["why", "rel", "--target", "gfx90a"], 4, host);
        } else {
            fs::remove_file(place.join("rel/gfx90a.tar")).unwrap();
            copy_all(place.join("out/gfx90a/.kpack"), &loose);
        }
        says(place, &require, 1, "Whether there is code for gfx90a is not known.");
        says(place, &require, 1, split);
        put(place.join("rel/fat.so"), fixture("plain.so"));
        says(place, &require, 0, split);
        says(place, &[&require[..], &["--require-judged"]].concat(), 1, split);
        // For another GPU there is none.
        says(place, &["inspect", "rel", "--require", "gfx1030"], 1, missing);
        says(place, &["inspect", "rel", "--require", "gfx90a,gfx1030"], 1, missing);
        fs::remove_file(place.join("rel/fat.so")).unwrap();
    }

    // An installation that is packed as a whole, next to a library whose archive is in none.
    fs::remove_dir_all(place.join("rel")).unwrap();
    pack(&place.join("views/merged/gfx90a"), &place.join("rel/all.tar"));
    says(place, &require, 1, "Not judged: 2 files");
    says(place, &["inspect", "rel/all.tar", "--require", "gfx90a"], 0, "gfx90a");
    copy_all(place.join("out/host/lib"), place.join("rel/lib"));
    says(place, &require, 1, "Not judged: 3 files");
}
