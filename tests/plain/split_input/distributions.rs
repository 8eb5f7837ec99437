//! Trees as packages of a distribution have them: several are installed into one root directory.

use std::fs;
use std::path::Path;

use super::{differences, files, overlay};
use crate::common::{self, fixture, program, run, succeeds};

/// The binaries of two packages, and their fixtures.
const PACKAGES: [(&str, &[(&str, &str)]); 2] = [
    ("one", &[("usr/lib/x86_64-linux-gnu/plain.so", "plain.so"), ("usr/bin/same", "exe-pie")]),
    (
        "two",
        &[
            ("usr/lib/x86_64-linux-gnu/features.so", "features.so"),
            ("usr/lib/same", "twins.so"),
            ("usr/sbin/same", "exe-nopie"),
            ("opt/rocm/lib/mixed.so", "mixed.so"),
        ],
    ),
];

/// Lays the parts of a split over each other.
fn lay(parts: &Path, root: &Path) {
    fs::create_dir_all(root).unwrap();
    let parts = fs::read_dir(parts).unwrap().map(|part| part.unwrap().path());
    parts.filter(|part| !part.ends_with(".kpackfs")).for_each(|part| overlay(&part, root));
}

#[test]
fn packages_share_no_archive_and_have_none_in_the_root_directory() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    let split = |from: &str, to: &str| succeeds(program().arg("split").arg(at(from)).arg("-o").arg(at(to)));
    for (package, binaries) in PACKAGES {
        for root in [at(package), at("fat")] {
            for (path, name) in binaries {
                common::put(root.join(path), fixture(name));
            }
        }
        split(package, &format!("{package}.split"));
        lay(&at(&format!("{package}.split")), &at(&format!("{package}.installed")));
    }
    let [one, two] = ["one.installed", "two.installed"].map(|package| files(&at(package)));
    assert!(one.keys().all(|path| !two.contains_key(path)));
    let archives: Vec<_> = one.keys().chain(two.keys()).filter(|path| path.ends_with("_gfx90a.kpack")).collect();
    let expected = [
        "usr/lib/.kpack/bin_same_gfx90a.kpack",
        "usr/lib/x86_64-linux-gnu/.kpack/plain.so_gfx90a.kpack",
        "opt/rocm/lib/.kpack/mixed.so_gfx90a.kpack",
        "usr/lib/.kpack/same_gfx90a.kpack",
        "usr/lib/.kpack/sbin_same_gfx90a.kpack",
        "usr/lib/x86_64-linux-gnu/.kpack/features.so_gfx90a.kpack",
    ];
    assert_eq!(archives, expected);
    // Both in one root directory have the code of the fat binaries, and are split as each was.
    for parts in ["one.split", "two.split"] {
        lay(&at(parts), &at("root"));
    }
    let said = run(program().arg("verify").arg(at("root")).arg("--against").arg(at("fat")));
    assert!(said.contains("6 split binaries"), "{said}");
    split("root", "again");
    for part in ["host", "gfx90a", "gfx1030"] {
        let (again, both) = (at("again").join(part), at("both").join(part));
        fs::create_dir_all(&both).unwrap();
        for parts in ["one.split", "two.split"] {
            overlay(&at(parts).join(part), &both);
        }
        assert_eq!(differences(&both, &again), Vec::<String>::new(), "{part}");
    }
}
