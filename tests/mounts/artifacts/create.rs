//! Archives and bundles made of code objects.

use std::fs;

use rocm_kpack::{Archive, ArchiveFile};

use crate::artifacts::place::{Place, set};

/// Code objects of a fixture in a directory, next to other files.
fn loose() -> Place {
    let place = Place::new();
    place.fixture("x.so", "features.so");
    place.succeeds(&["kpack", "unbundle", "x.so", "-o", "code"]);
    fs::create_dir(place.at("code/more")).unwrap();
    let object = fs::read(place.at("code/x.so.0.gfx90a:xnack-.hsaco")).unwrap();
    place.file("code/more/y.co", object).file("code/table.csv", "no code");
    place
}

#[test]
fn archives_of_files_are_read_by_the_runtime() {
    let place = loose();
    for (scheme, level) in [("none", "3"), ("zstd", "3"), ("zstd", "19")] {
        let options = ["--compression", scheme, "--compression-level", level];
        place.succeeds(&[&["kpack", "create", "code", "-o", "out", "--force"][..], &options].concat());
        let (mut count, mut sizes) = (0, 0);
        for name in place.names("out") {
            let target = name.strip_prefix("code_").unwrap().strip_suffix(".kpack").unwrap().to_owned();
            let path = place.at(&format!("out/{name}"));
            let archive = Archive::open(ArchiveFile::open(&path).unwrap()).unwrap();
            for (key, of) in place.archive(&format!("out/{name}")) {
                assert_eq!(of, target);
                let code = archive.get(&key, &target).unwrap().unwrap();
                assert!(code == fs::read(place.at("code").join(&key)).unwrap(), "{key}");
                assert!(key == "more/y.co" || key.contains(&format!(".{target}.")), "{key} in {name}");
                count += 1;
            }
            sizes += fs::metadata(path).unwrap().len();
        }
        assert_eq!(count, place.files("code").len() - 1, "without the table");
        assert!(sizes > 0);
    }
    assert!(place.archive("out/code_gfx90a:xnack-.kpack").contains(&("more/y.co".into(), "gfx90a:xnack-".into())));
}

#[test]
fn files_are_named_as_they_were_and_targets_can_be_said() {
    let place = loose();
    let file = "code/x.so.0.gfx90a:xnack-.hsaco";
    place.succeeds(&["kpack", "create", file, "-o", "one/a.kpack"]);
    assert_eq!(place.archive("one/a.kpack"), [(file.to_owned(), "gfx90a:xnack-".to_owned())].into());
    let path = place.at(file);
    place.succeeds(&["kpack", "create", path.to_str().unwrap(), "-o", "two", "--group", "mine"]);
    let name = "x.so.0.gfx90a:xnack-.hsaco";
    assert_eq!(place.archive("two/mine_gfx90a:xnack-.kpack"), [(name.to_owned(), "gfx90a:xnack-".to_owned())].into());
    let said = place.fails(1, &["kpack", "create", file, "-o", "no.kpack", "--target", "gfx942"]);
    assert!(said.contains("not taken as code for gfx942: it is code for gfx90a:xnack-"), "{said}");
    let said = place.fails(1, &["kpack", "create", "code/table.csv", "-o", "no.kpack"]);
    assert!(said.contains("code/table.csv: its header names no target"), "{said}");
    let said = place.fails(1, &["kpack", "create", "code", "-o", "no.kpack"]);
    assert!(said.contains("no.kpack: there is code for ") && said.contains("--target"), "{said}");
    let said = place.fails(1, &["kpack", "create", file, file, "-o", "no"]);
    assert!(said.contains("there is another code object for gfx90a:xnack-"), "{said}");
    assert!(!place.at("no").exists() && !place.at("no.kpack").exists());
}

#[test]
fn the_archives_of_a_binary_are_those_of_its_split() {
    for (fixture, name) in [("features.so", "libx.so"), ("ccob-mixed.so", "libccob.so.1"), ("win.dll", "x.dll")] {
        let place = Place::new();
        place.fixture(name, fixture);
        place.succeeds(&["split", name, "-o", "split"]);
        place.succeeds(&["kpack", "create", "--from-binary", name, "-o", "out"]);
        let split: Vec<_> = place.files("split").into_iter().filter(|file| file.contains("/.kpack/")).collect();
        assert_eq!(place.names("out").len(), split.len());
        for file in &split {
            let made = place.at("out").join(file.rsplit('/').next().unwrap());
            assert!(fs::read(made).unwrap() == fs::read(place.at("split").join(file)).unwrap(), "{file}");
        }
    }
    let place = Place::new();
    place.fixture("host.so", "host-only.so");
    assert!(
        place.fails(1, &["kpack", "create", "--from-binary", "host.so", "-o", "o"]).contains("no code objects in it")
    );
}

#[test]
fn one_code_object_goes_to_a_file_or_to_standard_output() {
    let place = loose();
    place.succeeds(&["kpack", "create", "--from-binary", "x.so", "-o", "out", "--target", "gfx90a:xnack-"]);
    let archive = "out/x.so_gfx90a:xnack-.kpack";
    assert_eq!(place.names("out").len(), 1);
    let expected = fs::read(place.at("code/x.so.0.gfx90a:xnack-.hsaco")).unwrap();
    let one = ["kpack", "extract", archive, "--binary", "x.so#0", "--target", "gfx90a:xnack-", "-o"];
    place.succeeds(&[&one[..], &["one.hsaco"]].concat());
    assert!(fs::read(place.at("one.hsaco")).unwrap() == expected);
    let printed = place.run(&[&one[..], &["-"]].concat());
    assert!(printed.status.success() && printed.stdout == expected);
    place.succeeds(&[&one[..], &["directory/"]].concat());
    assert_eq!(place.names("directory"), set(["x.so.0.gfx90a:xnack-.hsaco"]));
    place.fixture("plain.so", "plain.so");
    place.succeeds(&["kpack", "create", "--from-binary", "plain.so", "-o", "p.kpack", "--target", "gfx90a"]);
    let said =
        place.fails(1, &["kpack", "extract", "p.kpack", "--binary", "plain.so", "--target", "gfx90a", "-o", "f"]);
    assert!(said.contains("code objects fit; name one with --binary NAME#INDEX, such as plain.so#0"), "{said}");
    assert!(place.fails(1, &["kpack", "extract", "p.kpack", "-o", "-"]).contains("code objects fit"));
    assert!(!place.at("f").exists());
}

#[test]
fn a_summary_counts_what_is_in_an_archive() {
    let place = Place::new();
    place.fixture("plain.so", "plain.so");
    place.succeeds(&["kpack", "create", "--from-binary", "plain.so", "-o", "p.kpack", "--target", "gfx90a"]);
    let count = place.archive("p.kpack").len();
    let said = String::from_utf8(place.run(&["kpack", "list", "--summary", "p.kpack"]).stdout).unwrap();
    assert!(said.contains(&format!("gfx90a  {count} code objects of 1 name")), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn bundles_give_code_objects_back() {
    let place = loose();
    fs::remove_dir_all(place.at("code/more")).unwrap();
    fs::remove_file(place.at("code/table.csv")).unwrap();
    let files: Vec<_> = place.names("code").into_iter().filter(|it| it.contains(".so.0.")).collect();
    let files: Vec<_> = files.iter().map(|name| format!("code/{name}")).collect();
    assert!(files.len() > 1);
    let mut arguments = vec!["kpack", "bundle", "-o", "bundle.hipfb"];
    arguments.extend(files.iter().map(String::as_str));
    place.succeeds(&arguments);
    place.succeeds(&["kpack", "unbundle", "bundle.hipfb", "-o", "back"]);
    assert_eq!(place.names("back").len(), files.len());
    for file in &files {
        let target = file.strip_suffix(".hsaco").unwrap().rsplit('.').next().unwrap();
        let back = fs::read(place.at(&format!("back/bundle.hipfb.0.{target}.hsaco"))).unwrap();
        assert!(back == fs::read(place.at(file)).unwrap(), "{file}");
    }
    // Laid out as clang does: the host's empty entry first, code at multiples of 4096.
    let bytes = fs::read(place.at("bundle.hipfb")).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((&bytes[..24], number(24)), (&b"__CLANG_OFFLOAD_BUNDLE__"[..], files.len() as u64 + 1));
    let mut at = 32;
    for entry in 0..number(24) {
        let id = &bytes[at + 24..][..usize::try_from(number(at + 16)).unwrap()];
        let (start, size) =
            if entry == 0 { (&b"host-x86_64"[..], 0) } else { (&b"hipv4-amdgcn-amd-amdhsa--gfx"[..], 1) };
        assert!(id.starts_with(start) && number(at + 8).min(1) == size, "{}", String::from_utf8_lossy(id));
        assert!(size == 0 || number(at) % 4096 == 0);
        at += 24 + id.len();
    }
    let said = place.fails(1, &["kpack", "bundle", &files[0], &files[0], "-o", "twice"]);
    assert!(said.contains("there is another code object for"), "{said}");
}

/// A runtime takes the first entry that fits, so code behind it would never run.
#[test]
fn bundles_of_code_that_fits_one_gpu_are_refused() {
    let place = loose();
    let of_mode = "code/x.so.0.gfx90a:xnack-.hsaco";
    let bare = "code/x.so.1.gfx90a.hsaco";
    for files in [[bare, of_mode], [of_mode, bare]] {
        let said = place.fails(1, &["kpack", "bundle", files[0], files[1], "-o", "b"]);
        assert!(said.contains("fit one GPU") && said.contains("gfx90a:xnack-"), "{said}");
        assert!(!place.at("b").exists());
    }
    let both = [of_mode, "code/x.so.0.gfx90a:xnack+.hsaco"];
    place.succeeds(&["kpack", "bundle", both[0], both[1], "-o", "b"]);
}
