//! Thin views, thin wheels and installations of them: they are not splits, and everything in them is checked.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::verify::{Check, VerifyOptions, VerifyReport};
use tempfile::TempDir;

use crate::verify::installations::{fat, installed};
use crate::verify::nothing::is_nothing;
use crate::verify::splits::{Split, copy, edit, verify};
use crate::verify::wheels::split;

const DATABASE: &str = "lib/rocblas/library/TensileLibrary_gfx90a.dat";

fn report(path: PathBuf, against: Option<&Path>) -> VerifyReport {
    verify(&[path], against, &VerifyOptions::default())
}

#[test]
fn thin_trees_are_clean() {
    for gpus in ["gfx90a", "gfx90a:xnack-", "gfx1030+gfx1100", "gfx942"] {
        let view = format!("thin/{gpus}");
        let split = Split::make(&[&view]);
        for against in [None, Some(split.fat())] {
            let report = report(split.out().join(&view), against.as_deref());
            assert_eq!(report.findings, [], "{gpus}");
            assert_eq!(report.counts.binaries.get(), 0);
            assert!(report.counts.thin_binaries.get() > 40, "{gpus}: {:?}", report.counts);
            assert!(against.is_none() || report.counts.compared_code_objects.get() > 0, "{gpus}: {:?}", report.counts);
        }
        // The split around it as well.
        let all = report(split.out(), None);
        assert_eq!(all.findings, []);
        assert!(all.counts.thin_binaries.get() > 40 && all.counts.binaries.get() > 40);
    }
}

/// The files of a database for both modes of gfx90a, as rocBLAS names them, and a directory for one mode.
const OF_MODES: [&str; 4] = [
    "lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco",
    "lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco",
    "hsa/gfx90a-xnack+/a.co",
    "hsa/gfx90a-xnack+/table.csv",
];

fn write_modes(root: &Path) {
    let code = tempfile::tempdir().unwrap();
    let mut unbundle = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    unbundle.args(["kpack", "unbundle", "tests/fixtures/features.so", "-o"]).arg(code.path()).assert().success();
    for path in OF_MODES {
        let mode = if path.contains("xnack+") { "gfx90a:xnack+" } else { "gfx90a:xnack-" };
        copy(&code.path().join(format!("features.so.0.{mode}.hsaco")), &root.join(path));
    }
    fs::write(root.join(OF_MODES[3]), "no code").unwrap();
}

#[test]
fn a_thin_tree_has_no_files_of_another_mode() {
    let fat = tempfile::tempdir().unwrap();
    write_modes(fat.path());
    copy(Path::new("tests/fixtures/features.so"), &fat.path().join("lib/libx.so"));
    fs::write(fat.path().join(DATABASE), b"\x91\xaafor gfx90a").unwrap();
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    let views = ["thin/gfx90a", "thin/gfx90a:xnack-", "thin/gfx90a:xnack+"];
    split(fat.path(), &out, &views.map(|view| ["--view", view]).concat());
    for (view, expected) in views.into_iter().zip([[true; 4], [false, true, false, false], [true, false, true, true]]) {
        let is_there = |path: &str| out.join(view).join(path).exists();
        assert_eq!(OF_MODES.map(is_there), expected, "{view}");
        assert!(is_there(DATABASE), "{view}");
        assert_eq!(is_there("hsa"), expected[2], "{view}: a directory with nothing else");
        assert_eq!(report(out.join(view), Some(fat.path())).findings, [], "{view}");
    }
}

#[test]
fn a_thin_wheel_has_no_files_of_another_mode() {
    let fat = fat();
    write_modes(&fat.path().join("fat"));
    for (gpus, expected) in [("gfx90a:xnack-", [false, true, false, false]), ("gfx90a", [true; 4])] {
        let out = thin_wheels(&fat, &["--view", gpus]);
        let site = installed(&[the_wheel(&out.path().join("thin").join(gpus))]);
        assert_eq!(OF_MODES.map(|path| site.path().join("fat").join(path).exists()), expected, "{gpus}");
        assert_eq!(report(site.path().to_owned(), None).findings, [], "{gpus}");
    }
}

#[test]
fn wrappers_without_code_are_in_a_note() {
    let split = Split::make(&["thin/gfx942"]);
    let report = report(split.out().join("thin/gfx942"), None);
    let note = "lib/plain.so: wrappers without code for gfx942: 2 of 2: 0, 1";
    assert!(report.notes.iter().any(|it| it == note), "{:?}", report.notes);
}

/// A copied tree is known to be thin only if the user says so.
#[test]
fn a_tree_that_was_copied_is_thin_if_the_user_says_so() {
    let split = Split::make(&["thin/gfx90a"]);
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("rocm");
    fs::rename(split.out().join("thin/gfx90a"), &tree).unwrap();
    assert!(is_nothing(std::slice::from_ref(&tree)), "it may be fat as well");
    let said = VerifyOptions { thin: Some("gfx90a".parse().unwrap()), ..VerifyOptions::default() };
    assert_eq!(verify(std::slice::from_ref(&tree), Some(&split.fat()), &said).findings, []);
    let wrong = VerifyOptions { thin: Some("gfx1030".parse().unwrap()), ..VerifyOptions::default() };
    let found = verify(&[tree], None, &wrong).findings;
    assert!(found.iter().any(|it| it.reason.contains("code for gfx90a, which a GPU of gfx1030 cannot be given")));
}

/// A change to a file of a thin tree for gfx90a, and the finding for it.
type Damage = (&'static str, fn(&Path), Check, &'static str, &'static str);

/// The offset of the first bundle of a binary.
fn bundle(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    let at = |magic: &[u8]| bytes.windows(magic.len()).position(|window| window == magic);
    at(b"__CLANG_OFFLOAD_BUNDLE__").or_else(|| at(b"CCOB")).unwrap()
}

/// Changes a bit of the first bundle of a binary.
fn change_bundle(path: &Path, offset: usize) {
    let bundle = bundle(path);
    edit(path, |bytes| bytes[bundle + offset] ^= 1);
}

/// Reduces a library to another GPU.
fn other_gpu(library: &Path) {
    let split = Split::make(&["thin/gfx1030"]);
    copy(&split.out().join("thin/gfx1030/lib").join(library.file_name().unwrap()), library);
}

const DAMAGES: &[Damage] = &[
    ("magic of a bundle", |it| change_bundle(it, 0), Check::Binary, "lib/plain.so", "it begins with neither magic"),
    (
        "target of an entry",
        |it| {
            let id = fs::read(it).unwrap().windows(6).position(|window| window == b"gfx90a").unwrap();
            edit(it, |bytes| bytes[id..id + 6].copy_from_slice(b"gfx908"));
        },
        Check::Binary,
        "lib/plain.so",
        "code for gfx908, which a GPU of gfx90a cannot be given",
    ),
    ("compressed bytes", |it| change_bundle(it, 200), Check::Binary, "lib/compressed.so", "wrapper 0: "),
    (
        "hash of a compressed bundle",
        |it| change_bundle(it, 24),
        Check::Binary,
        "lib/ccob-v3.so",
        "its hash is not that of the bundle",
    ),
    ("truncated", |it| edit(it, |bytes| bytes.truncate(bytes.len() / 2)), Check::Binary, "lib/plain.so", ""),
    (
        "a library that is still fat",
        |it| copy(Path::new("tests/fixtures/plain.so"), it),
        Check::Binary,
        "lib/plain.so",
        "which a GPU of gfx90a cannot be given",
    ),
    (
        "a library for another GPU",
        |it| other_gpu(it),
        Check::Against,
        "lib/plain.so",
        "wrapper 0: its code for gfx90a is not found",
    ),
    ("one bit of a code object", |it| change_bundle(it, 4096 + 200), Check::Against, "lib/plain.so", "is other code"),
    ("a database is lost", |it| fs::remove_file(it).unwrap(), Check::Against, DATABASE, "the file is lost"),
    (
        "a database of another GPU",
        |it| fs::write(it, b"\x91\xabfor gfx1030").unwrap(),
        Check::Against,
        "lib/rocblas/library/TensileLibrary_gfx1030.dat",
        "it is for a target that is not wanted",
    ),
];

#[test]
fn damaged_thin_libraries_are_named() {
    let split = Split::make(&["thin/gfx90a"]);
    for (name, change, check, path, reason) in DAMAGES {
        let copied = split.copied();
        let tree = copied.out().join("thin/gfx90a");
        change(&tree.join(path));
        let fat = split.fat();
        let report = report(tree, (*check == Check::Against).then_some(&*fat));
        let is_it =
            |it: &&kpackfs::verify::Finding| it.check == *check && it.path == *path && it.reason.contains(reason);
        assert!(report.findings.iter().any(|it| is_it(&it)), "{name}: {:#?}", report.findings);
    }
}

fn thin_wheels(fat: &TempDir, options: &[&str]) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    split(fat.path(), &out.path().join("thin"), &[&["--format", "thin-wheel"], options].concat());
    out
}

fn the_wheel(directory: &Path) -> PathBuf {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn thin_wheels_and_their_installations_are_clean() {
    let fat = fat();
    for options in [&[][..], &["--local-version"]] {
        let out = thin_wheels(&fat, options);
        let all = report(out.path().join("thin"), None);
        assert_eq!(all.findings, []);
        assert!(all.counts.thin_binaries.get() > 6 && all.counts.recorded_files.get() > 20, "{:?}", all.counts);
        for gpus in ["gfx90a", "gfx1100"] {
            let wheel = the_wheel(&out.path().join("thin").join(gpus));
            let site = installed(std::slice::from_ref(&wheel));
            for place in [wheel.parent().unwrap().to_owned(), wheel, site.path().to_owned()] {
                for against in [None, Some(fat.path())] {
                    let report = report(place.clone(), against);
                    assert_eq!(report.findings, [], "{}", place.display());
                    assert_eq!((report.counts.thin_binaries.get(), report.counts.binaries.get()), (3, 0));
                    assert!(report.counts.recorded_files.get() > 5);
                    assert!(against.is_none() || report.counts.compared_code_objects.get() > 1);
                }
            }
        }
    }
}

#[test]
fn damaged_installations_are_named() {
    let fat = fat();
    let out = thin_wheels(&fat, &["--view", "gfx90a"]);
    let wheel = the_wheel(&out.path().join("thin/gfx90a"));
    let expect = |change: &dyn Fn(&Path), against: Option<&Path>, check, path: &str, reason: &str| {
        let site = installed(std::slice::from_ref(&wheel));
        change(site.path());
        let found = report(site.path().to_owned(), against).findings;
        let is_it = |it: &kpackfs::verify::Finding| it.check == check && it.path == path && it.reason.contains(reason);
        assert!(found.iter().any(is_it), "{path}: {reason}: {found:#?}");
    };
    let library = "fat/plain.so";
    expect(&|at| edit(&at.join(library), |it| it[5000] ^= 1), None, Check::Record, library, "SHA-256");
    expect(&|at| fs::remove_file(at.join(library)).unwrap(), None, Check::Record, library, "there is no such file");
    expect(
        &|at| copy(Path::new("tests/fixtures/plain.so"), &at.join(library)),
        None,
        Check::Binary,
        library,
        "which a GPU of gfx90a cannot be given",
    );
    let database = "fat/lib/rocblas/library/TensileLibrary_gfx90a.dat";
    expect(&|at| fs::remove_file(at.join(database)).unwrap(), Some(fat.path()), Check::Against, database, "is lost");
}

/// Thin wheels name their GPUs in their dist-info, and RECORD lists that file.
#[test]
fn a_thin_wheel_names_its_gpus() {
    let fat = fat();
    let out = thin_wheels(&fat, &["--view", "gfx1100+gfx90a", "--databases", "rocblas"]);
    let site = installed(&[the_wheel(&out.path().join("thin/gfx1100+gfx90a"))]);
    let read = |name: &str| fs::read_to_string(site.path().join("fat-1.0.dist-info").join(name)).unwrap();
    let statement: serde_json::Value = serde_json::from_str(&read("kpackfs.json")).unwrap();
    assert_eq!(statement["views"], serde_json::json!(["thin/gfx1100+gfx90a"]));
    assert_eq!(statement["databases"], serde_json::json!(["rocblas"]));
    assert!(read("RECORD").contains("fat-1.0.dist-info/kpackfs.json,sha256="));
    // The user's choice takes its place.
    let wrong = VerifyOptions { thin: Some("gfx1030".parse().unwrap()), ..VerifyOptions::default() };
    let found = verify(&[site.path().to_owned()], None, &wrong).findings;
    assert!(found.iter().any(|it| it.reason.contains("which a GPU of gfx1030 cannot be given")), "{found:?}");
}

/// Code object files for several targets are reduced, too, and compared with the originals.
#[test]
fn code_object_files_are_checked() {
    let fat = tempfile::tempdir().unwrap();
    copy(Path::new("tests/fixtures/plain.so"), &fat.path().join("plain.so"));
    let library = fs::read(fat.path().join("plain.so")).unwrap();
    let start = bundle(&fat.path().join("plain.so"));
    let word = |at: usize| u64::from_le_bytes(library[start + at..][..8].try_into().unwrap());
    // The entries of the table: offset, size, length of the name, name.
    let (mut at, mut end) = (32, 0);
    for _ in 0..word(24) {
        end = end.max(word(at) + word(at + 8));
        at += 24 + usize::try_from(word(at + 16)).unwrap();
    }
    let whole = library[start..][..usize::try_from(end).unwrap()].to_vec();
    fs::write(fat.path().join("Transform.hsaco"), &whole).unwrap();
    let out = tempfile::tempdir().unwrap();
    split(fat.path(), &out.path().join("out"), &["--view", "thin/gfx90a"]);
    let tree = out.path().join("out/thin/gfx90a");
    let file = tree.join("Transform.hsaco");
    let thin = fs::read(&file).unwrap();
    assert!(thin.len() < whole.len());
    let check = |against: bool| report(tree.clone(), against.then_some(fat.path()));
    for against in [false, true] {
        let report = check(against);
        assert_eq!(report.findings, []);
        assert_eq!(report.counts.thin_binaries.get(), 2, "the library and the file");
    }
    let mut other_processor = thin.clone();
    let code = thin.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    other_processor[code + 48] = 0x4c;
    fs::write(&file, other_processor).unwrap();
    let found = check(false).findings;
    assert!(
        found.iter().any(|it| it.path == "Transform.hsaco" && it.reason.contains("the code object for")),
        "{found:#?}"
    );
    fs::write(&file, &whole).unwrap();
    let found = check(false).findings;
    assert!(found.iter().any(|it| it.path == "Transform.hsaco" && it.reason.contains("cannot be given")), "{found:#?}");
    let mut other = thin;
    let last = other.len() - 1;
    other[last] ^= 1;
    fs::write(&file, other).unwrap();
    let found = check(true).findings;
    assert!(found.iter().any(|it| it.path == "Transform.hsaco" && it.reason.contains("is other code")), "{found:#?}");
}
