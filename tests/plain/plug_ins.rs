//! Libraries that are files of a kernel database: of plug-ins for one GPU each, each GPU needs its own.

use std::fs;
use std::path::Path;

use crate::common::{fixture, put_in as put, ran};

const MIOPEN: &str = "lib/libMIOpenCKGroupedConv_";
const HIPDNN: &str = "lib/hipdnn_plugins/engines/arch_content/provider/";

/// A tree with a library for gfx90a and gfx1030, and plug-ins for these GPUs.
fn tree(place: &Path, gpus: &[&str], plug_in: &dyn Fn(&str) -> String) {
    put(place, "t/lib/libfoo.so", &fixture("plain.so"));
    put(place, "fat/q.so", &fixture("plain.so"));
    for gpu in gpus {
        let view = format!("thin/{gpu}");
        assert_eq!(ran(place, &["split", "-q", "fat", "-o", gpu, "--view", &view]).0, Some(0));
        let thin = fs::read(place.join(gpu).join(view).join("q.so")).unwrap();
        put(place, &format!("t/{}", plug_in(gpu)), &thin);
    }
}

#[track_caller]
fn check(place: &Path, arguments: &[&str], code: i32, expected: &str) {
    let (found, said) = ran(place, arguments);
    assert!(found == Some(code) && said.contains(expected), "{arguments:?}: {found:?} {said}");
}

#[test]
fn each_gpu_needs_the_plug_in_that_is_named_after_it() {
    let forms: [&dyn Fn(&str) -> String; 3] =
        [&|gpu| format!("{MIOPEN}{gpu}.so"), &|gpu| format!("{MIOPEN}{gpu}.so.1.0"), &|gpu| {
            format!("{HIPDNN}{gpu}/libk.so")
        }];
    for plug_in in forms {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        tree(place, &["gfx90a", "gfx1030"], plug_in);
        check(place, &["split", "-q", "t", "-o", "s"], 0, "");
        for gpu in ["gfx90a", "gfx1030", "gfx1030,gfx90a"] {
            check(place, &["why", "t", "--target", gpu], 0, "is found");
            check(place, &["why", "s", "--target", gpu], 0, "is found");
            check(place, &["inspect", "t", "--require", gpu], 0, "Passed");
        }
        // What is named answers for itself.
        let of_other = format!("t/{}", plug_in("gfx90a"));
        check(place, &["why", &of_other, "--target", "gfx1030"], 1, "and only for gfx90a");
        // Its own one has to have code for it.
        fs::copy(place.join(&of_other), place.join("t").join(plug_in("gfx1030"))).unwrap();
        let cause = format!("{}: no code for gfx1030", plug_in("gfx1030"));
        check(place, &["why", "t", "--target", "gfx1030"], 1, &cause);
        check(place, &["why", "t", "--target", "gfx90a"], 0, "is found");
    }
}

#[test]
fn miopen_works_without_a_plug_in() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    tree(place, &["gfx90a"], &|gpu| format!("{MIOPEN}{gpu}.so"));
    put(place, "t/lib/libMIOpen.so.1", &fixture("plain.so"));
    put(place, "t/share/miopen/db/gfx90a68.db.txt", b"key=value\n");
    check(place, &["split", "-q", "t", "-o", "s"], 0, "");
    let remark = "lib: miopen has no files for gfx1030; it has files for gfx90a";
    check(place, &["inspect", "t", "--require", "gfx1030"], 0, remark);
    check(place, &["inspect", "t", "--require", "gfx1030", "--require-in", "miopen"], 1, remark);
    check(place, &["why", "t", "--target", "gfx1030"], 0, "1 file is not judged");
    check(place, &["why", "s", "--target", "gfx1030"], 0, "1 file is not judged");
    // Of nothing at all for a GPU, the file is named where it is.
    fs::remove_file(place.join("t/lib/libfoo.so")).unwrap();
    fs::remove_file(place.join("t/lib/libMIOpen.so.1")).unwrap();
    check(place, &["split", "-q", "t", "-o", "alone"], 0, "");
    let cause = format!("{MIOPEN}gfx90a.so: no code for gfx1030");
    check(place, &["why", "t", "--target", "gfx1030"], 1, &cause);
}
