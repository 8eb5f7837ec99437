//! Splits of which not all is there, or was to be there: parts named one by one, libraries whose input has no code, views of an
//! environment, device parts alone, and databases that were damaged before.

use std::fs;
use std::path::Path;

use crate::common::{code_object, copy_all, fixture, put_in as put, ran};

#[track_caller]
fn check(place: &Path, arguments: &[&str], code: i32, expected: &str) {
    let (found, said) = ran(place, arguments);
    assert!(found == Some(code) && said.contains(expected), "{arguments:?}: {found:?} {said}");
}

/// A split of a library for gfx90a and gfx1030, and of one for gfx90a only.
fn split(place: &Path) {
    put(place, "t/plain.so", &fixture("plain.so"));
    put(place, "t/features.so", &fixture("features.so"));
    check(place, &["split", "-q", "t", "-o", "s"], 0, "");
}

#[test]
fn directories_that_are_named_need_not_be_all_parts() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    split(place);
    let note = "s/host: 1 of its device parts such as gfx90a are not among what is verified";
    check(place, &["verify", "s/host", "s/gfx1030"], 0, note);
    check(place, &["verify", "s/host", "s/gfx1030", "s/gfx90a"], 0, "0 findings");
    fs::remove_dir_all(place.join("s/gfx90a/.kpack")).unwrap();
    check(place, &["verify", "s/host", "s/gfx1030", "s/gfx90a"], 1, "features.so: no archive has code");
    fs::remove_dir_all(place.join("s/gfx90a")).unwrap();
    check(place, &["verify", "s"], 1, "[part-missing]");
    // Of parts without a statement, nobody knows how many there are.
    fs::remove_dir_all(place.join("s/.kpackfs")).unwrap();
    check(place, &["verify", "s/host", "s/gfx1030"], 0, "s/host/features.so: no archive has code");
}

#[test]
fn a_library_without_code_in_the_input_has_none_in_its_split() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    split(place);
    check(place, &["split", "-q", "t", "-o", "th", "--view", "thin/gfx1030"], 0, "");
    check(place, &["split", "-q", "th/thin/gfx1030", "-o", "again"], 0, "");
    let note = "host/features.so: no archive has code for any of its wrappers";
    check(place, &["verify", "again"], 0, note);
    check(place, &["verify", "again", "--against", "th/thin/gfx1030"], 0, note);
    for archive in fs::read_dir(place.join("again/gfx1030/.kpack")).unwrap() {
        fs::remove_file(archive.unwrap().path()).unwrap();
    }
    check(place, &["verify", "again"], 1, "[listed-missing]");
}

#[test]
fn a_view_of_an_environment_has_its_code_outside_of_its_packages() {
    for mark in ["pyvenv.cfg", "conda-meta/history"] {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        put(place, &format!("v/{mark}"), b"home = /usr/bin\n");
        put(place, "v/lib/python3.11/site-packages/foo/plain.so", &fixture("plain.so"));
        put(place, "v/lib/python3.11/site-packages/features.so", &fixture("features.so"));
        check(place, &["split", "-q", "v", "-o", "s", "--view", "host", "--view", "merged", "--view", "gfx90a"], 0, "");
        for view in ["merged/gfx90a", "merged/gfx1030"] {
            check(place, &["verify", &format!("s/{view}")], 0, "0 findings");
        }
        // The parts laid over each other have no statement.
        for part in ["s/host", "s/gfx90a"] {
            copy_all(place.join(part).join("."), place.join("laid"));
        }
        check(place, &["verify", "laid"], 0, "0 findings");
        fs::remove_dir_all(place.join("laid/.kpack")).unwrap();
        check(place, &["verify", "laid"], 1, "[no-code]");
    }
}

#[test]
fn one_directory_of_packages_of_a_view_may_have_no_code() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    put(place, "v/pyvenv.cfg", b"home = /usr/bin\n");
    put(place, "v/lib/python3.11/site-packages/plain.so", &fixture("plain.so"));
    put(place, "v/lib/python3.12/site-packages/features.so", &fixture("features.so"));
    check(place, &["split", "-q", "v", "-o", "s", "--view", "merged/gfx1030"], 0, "");
    let note = "lib/python3.12/site-packages/features.so: no archive has code for any of its wrappers";
    check(place, &["verify", "s/merged/gfx1030"], 0, note);
    fs::remove_dir_all(place.join("s/merged/gfx1030/.kpack")).unwrap();
    check(place, &["verify", "s/merged/gfx1030"], 1, "[no-code]");
}

#[test]
fn what_a_wheel_has_outside_of_packages_is_not_compared_with_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    put(place, "w/foo/plain.so", &fixture("plain.so"));
    put(place, "w/foo-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: foo\nVersion: 1.0\n");
    put(place, "w/foo-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nTag: py3-none-any\n");
    put(place, "w/foo-1.0.dist-info/RECORD", b"");
    put(place, "t/lib/plain.so", &fixture("plain.so"));
    put(place, "v/pyvenv.cfg", b"home = /usr/bin\n");
    for (input, output, to) in [("w", "sw", "v/lib/python3.11/site-packages"), ("t", "st", "v")] {
        check(place, &["split", "-q", input, "-o", output], 0, "");
        fs::create_dir_all(place.join(to)).unwrap();
        for part in ["host", "gfx90a", "gfx1030"] {
            copy_all(place.join(output).join(part).join("."), place.join(to));
        }
    }
    let note = "v: not compared: of what a wheel installs, --against compares the directory of packages only";
    check(place, &["verify", "v", "--against", "w"], 0, note);
}

#[test]
fn a_device_part_alone_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    split(place);
    copy_all(place.join("s/gfx1030"), place.join("alone"));
    for part in ["alone", "s/gfx1030"] {
        check(place, &["verify", part], 1, "it belongs to a host part, which is not among what is verified");
    }
    check(place, &["verify", "s"], 0, "0 findings");
    put(place, "alone/plain.so", &fs::read(place.join("s/host/plain.so")).unwrap());
    check(place, &["verify", "alone"], 0, "0 findings");
    // A database was no split, and has no library that was split.
    put(place, "database/lib/rocblas/library/Kernels.so-000-gfx942.hsaco", &code_object(0x4c));
    check(place, &["verify", "database"], 2, "nothing");
}

/// A split moves files of databases unchanged.
#[test]
fn code_of_a_database_that_the_input_had_so_is_noted() {
    let whole = code_object(0x3f);
    let file = "lib/hipblaslt/library/extop_gfx90a.co";
    for (content, expected) in [
        (Vec::new(), Some("it is empty")),
        ([b"x", &whole[1..]].concat(), Some("it is neither an AMDGPU ELF file nor SPIR-V")),
        (code_object(0x4c), Some("it is code for gfx942")),
        (whole[..4000].to_vec(), Some("it has 4000 bytes, but its headers need 4096")),
        (whole.clone(), None),
    ] {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        put(place, &format!("t/{file}"), &content);
        put(place, "t/plain.so", &fixture("plain.so"));
        check(place, &["split", "-q", "t", "-o", "s"], 0, "");
        let (code, said) = ran(place, &["verify", "s"]);
        let noted = said.contains("the input of the split has it so");
        assert!(code == Some(0) && noted == expected.is_some(), "{expected:?}: {said}");
        let expected = expected.map(|reason| format!("{file}: {reason}; the input of the split has it so"));
        assert!(expected.is_none_or(|expected| said.contains(&expected)), "{said}");
        // No manifest says that the input had it so.
        check(place, &["split", "-q", "t", "-o", "unlisted", "--digests", "none"], 0, "");
        check(place, &["verify", "unlisted"], i32::from(noted), "");
    }
}
