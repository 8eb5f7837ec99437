//! Tests which archive a code object comes from.

use std::fs;
use std::path::PathBuf;

use rocm_kpack::ErrorCode::{self, *};
use rocm_kpack::{Cache, Environment, Marker, Scheme};

use crate::archives::archive;

/// An archive: its path, the targets that it lists, and its code objects by name and target. Each code object is the
/// text "path name target".
type Shelved = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

/// Archives as a split and an installation have them.
const SHELF: [Shelved; 11] = [
    (".kpack/t_gfx942.kpack", &["gfx942"], &[("lib/x.so#0", "gfx942"), ("lib/x.so#1", "gfx942")]),
    (".kpack/t_gfx942:xnack+.kpack", &["gfx942:xnack+"], &[("lib/x.so#1", "gfx942:xnack+")]),
    (".kpack/t_gfx942:sramecc+.kpack", &["gfx942:sramecc+"], &[("lib/x.so#1", "gfx942:sramecc+")]),
    (".kpack/t_gfx90a.kpack", &["gfx90a"], &[("lib/x.so#0", "gfx90a"), ("lib/x.so#2", "gfx90a")]),
    (".kpack/t_gfx90a:xnack+.kpack", &["gfx90a:xnack+"], &[("lib/x.so#1", "gfx90a:xnack+")]),
    (".kpack/t_gfx9-4-generic.kpack", &["gfx9-4-generic"], &[("lib/x.so#3", "gfx9-4-generic")]),
    (".kpack/t_gfx11-generic.kpack", &["gfx11-generic"], &[("lib/x.so#0", "gfx11-generic")]),
    // It lists a target that it is not named after, and has a code object for a target that it does not list.
    (".kpack/t_gfx1030.kpack", &["gfx1030", "gfx1031"], &[("lib/x.so#0", "gfx1031"), ("lib/x.so#0", "gfx1032")]),
    (
        "all.kpack",
        &["gfx942", "gfx90a"],
        &[("lib/x.so#0", "gfx942"), ("lib/x.so#0", "gfx90a"), ("lib/x.so#9", "gfx942")],
    ),
    ("other.kpack", &["gfx942"], &[("lib/x.so#0", "gfx942")]),
    ("empty.kpack", &["gfx942"], &[]),
];

const USUAL: &[&str] = &["../.kpack/t_@GFXARCH@.kpack"];

struct Case {
    paths: &'static [&'static str],
    index: u32,
    targets: &'static [&'static str],
    /// `ROCM_KPACK_PATH` and `ROCM_KPACK_PATH_PREFIX`, below the directory of the shelf.
    path: &'static [&'static str],
    prefix: &'static [&'static str],
    expected: Result<&'static str, ErrorCode>,
}

const fn case(index: u32, targets: &'static [&'static str], expected: Result<&'static str, ErrorCode>) -> Case {
    Case { paths: USUAL, index, targets, path: &[], prefix: &[], expected }
}

fn cases() -> Vec<Case> {
    let found = Ok::<&'static str, ErrorCode>;
    let all = |case: Case| Case { path: &["all.kpack"], ..case };
    let before = |case: Case| Case { prefix: &["other.kpack", "all.kpack"], ..case };
    vec![
        case(0, &["gfx942"], found("t_gfx942.kpack lib/x.so#0 gfx942")),
        case(0, &["amdgcn-amd-amdhsa--gfx942"], found("t_gfx942.kpack lib/x.so#0 gfx942")),
        // Features: the most specific archive that has the code object, not the first one that lists the target.
        case(1, &["gfx942:xnack+"], found("t_gfx942:xnack+.kpack lib/x.so#1 gfx942:xnack+")),
        case(0, &["gfx942:xnack+"], found("t_gfx942.kpack lib/x.so#0 gfx942")),
        case(1, &["gfx942:sramecc+:xnack+"], found("t_gfx942:sramecc+.kpack lib/x.so#1 gfx942:sramecc+")),
        case(1, &["gfx942:sramecc-:xnack+"], found("t_gfx942:xnack+.kpack lib/x.so#1 gfx942:xnack+")),
        case(1, &["gfx942:sramecc-:xnack-"], found("t_gfx942.kpack lib/x.so#1 gfx942")),
        case(2, &["gfx90a:xnack+"], found("t_gfx90a.kpack lib/x.so#2 gfx90a")),
        case(1, &["gfx90a:xnack-"], Err(KernelNotFound)),
        // Generic targets: HIP asks for them after the device's own target.
        case(3, &["gfx942:xnack+", "gfx9-4-generic:xnack+"], found("t_gfx9-4-generic.kpack lib/x.so#3 gfx9-4-generic")),
        case(0, &["gfx942:xnack+", "gfx9-4-generic:xnack+"], found("t_gfx942.kpack lib/x.so#0 gfx942")),
        case(0, &["gfx1100", "gfx11-generic"], found("t_gfx11-generic.kpack lib/x.so#0 gfx11-generic")),
        case(0, &["gfx11-generic", "gfx942"], found("t_gfx11-generic.kpack lib/x.so#0 gfx11-generic")),
        case(1, &["gfx11-generic", "gfx942"], found("t_gfx942.kpack lib/x.so#1 gfx942")),
        // Failures: no archive at all, none for the target, none with the name.
        case(0, &["gfx1200"], Err(ArchiveNotFound)),
        case(0, &["gfx1030:xnack+"], Err(KernelNotFound)),
        case(4, &["gfx942", "gfx9-4-generic"], Err(KernelNotFound)),
        case(4_000_000_000, &["gfx942"], Err(KernelNotFound)),
        case(0, &[""], Err(ArchiveNotFound)),
        // An archive is opened because of one target, and offers another one.
        case(0, &["gfx1031", "gfx1030"], found("t_gfx1030.kpack lib/x.so#0 gfx1031")),
        case(0, &["gfx1031"], Err(ArchiveNotFound)),
        case(0, &["gfx1032", "gfx1030"], Err(KernelNotFound)),
        // Several search paths, and paths without a placeholder. Absolute paths have their own test.
        Case {
            paths: &["../nothing.kpack", "../other.kpack"],
            ..case(0, &["gfx942"], found("other.kpack lib/x.so#0 gfx942"))
        },
        Case {
            paths: &["../empty.kpack", "../other.kpack"],
            ..case(0, &["gfx942"], found("other.kpack lib/x.so#0 gfx942"))
        },
        Case {
            paths: &["../other.kpack", "../all.kpack"],
            ..case(9, &["gfx942"], found("all.kpack lib/x.so#9 gfx942"))
        },
        Case { paths: &["../empty.kpack"], ..case(0, &["gfx90a"], Err(ArchNotFound)) },
        Case { paths: &["../broken.kpack"], ..case(0, &["gfx942"], Err(ArchiveNotFound)) },
        Case {
            paths: &["../broken.kpack", "../all.kpack"],
            ..case(0, &["gfx942"], found("all.kpack lib/x.so#0 gfx942"))
        },
        // The order of targets comes before the order of archives: the first archive has only the second target.
        Case {
            paths: &["../other.kpack", "../all.kpack"],
            ..case(0, &["gfx90a", "gfx942"], found("all.kpack lib/x.so#0 gfx90a"))
        },
        // An unreadable archive is passed over. It is reported only if no other archive has the code object.
        Case {
            paths: &["../damaged.kpack", "../all.kpack"],
            ..case(0, &["gfx942"], found("all.kpack lib/x.so#0 gfx942"))
        },
        Case { paths: &["../damaged.kpack"], ..case(0, &["gfx942"], Err(DecompressionFailed)) },
        // ROCM_KPACK_PATH replaces the paths; ROCM_KPACK_PATH_PREFIX comes before them.
        all(case(0, &["gfx942"], found("all.kpack lib/x.so#0 gfx942"))),
        all(case(1, &["gfx942"], Err(KernelNotFound))),
        all(case(0, &["gfx1030"], Err(ArchNotFound))),
        all(before(case(0, &["gfx942"], found("all.kpack lib/x.so#0 gfx942")))),
        Case { path: &["nothing.kpack"], ..case(0, &["gfx942"], Err(ArchiveNotFound)) },
        before(case(0, &["gfx942"], found("other.kpack lib/x.so#0 gfx942"))),
        before(case(9, &["gfx942"], found("all.kpack lib/x.so#9 gfx942"))),
        before(case(1, &["gfx942"], found("t_gfx942.kpack lib/x.so#1 gfx942"))),
        before(case(0, &["gfx90a"], found("all.kpack lib/x.so#0 gfx90a"))),
    ]
}

#[test]
fn code_comes_from_the_right_archive() {
    let root = tempfile::tempdir().unwrap();
    for directory in ["lib", ".kpack"] {
        fs::create_dir(root.path().join(directory)).unwrap();
    }
    for (path, targets, codes) in SHELF {
        let name = path.rsplit('/').next().unwrap();
        let codes: Vec<_> = codes.iter().map(|(key, target)| (key, target, format!("{name} {key} {target}"))).collect();
        let codes: Vec<_> = codes.iter().map(|(key, target, text)| (**key, **target, text.as_bytes())).collect();
        fs::write(root.path().join(path), archive(Scheme::ZstdPerKernel, targets, &codes)).unwrap();
    }
    fs::write(root.path().join("broken.kpack"), "no archive").unwrap();
    let mut damaged = archive(Scheme::ZstdPerKernel, &["gfx942"], &[("lib/x.so#0", "gfx942", b"code")]);
    damaged[74] ^= 0xFF;
    fs::write(root.path().join("damaged.kpack"), damaged).unwrap();
    let below = |paths: &[&str]| paths.iter().map(|path| root.path().join(path)).collect::<Vec<PathBuf>>();
    for (number, case) in cases().iter().enumerate() {
        let environment =
            Environment { path: below(case.path), path_prefix: below(case.prefix), ..Environment::default() };
        let marker = Marker {
            kpack_search_paths: case.paths.iter().map(ToString::to_string).collect(),
            kernel_name: "lib/x.so".to_owned(),
        };
        let cache = Cache::new(environment);
        // The second load uses the cache.
        for _ in 0..2 {
            let found = cache.load(&marker, &root.path().join("lib/x.so"), case.index, case.targets);
            let found = found.map(|code| String::from_utf8(code).unwrap()).map_err(|error| error.code());
            assert_eq!(found.as_deref(), case.expected.as_ref().map(|text| *text), "case {number}: {:?}", case.targets);
        }
    }
    // An absolute path, and a path that leads out of a directory that is reached by a link.
    let marker = |path: String| Marker { kpack_search_paths: vec![path], kernel_name: "lib/x.so".to_owned() };
    let cache = Cache::new(Environment::default());
    let absolute = marker(root.path().join("other.kpack").to_str().unwrap().to_owned());
    assert!(cache.load(&absolute, "/nowhere/x.so".as_ref(), 0, &["gfx942"]).is_ok());
    assert_eq!(
        cache.load(&marker("x".to_owned()), "x.so".as_ref(), 0, &["gfx942"]).unwrap_err().code(),
        ArchiveNotFound
    );
    let none = Marker { kpack_search_paths: Vec::new(), kernel_name: "x".to_owned() };
    assert_eq!(cache.load(&none, "x.so".as_ref(), 0, &["gfx942"]).unwrap_err().code(), InvalidMetadata);
    let disabled = Cache::new(Environment { is_disabled: true, ..Environment::default() });
    assert_eq!(disabled.load(&absolute, "x.so".as_ref(), 0, &["gfx942"]).unwrap_err().code(), NotImplemented);
}

/// An archive that is installed after a first search is found by the second.
#[test]
fn archives_may_come_later() {
    let root = tempfile::tempdir().unwrap();
    let marker = Marker { kpack_search_paths: vec!["x.kpack".to_owned()], kernel_name: "x".to_owned() };
    let cache = Cache::new(Environment::default());
    let load = || cache.load(&marker, &root.path().join("x.so"), 0, &["gfx942"]);
    assert_eq!(load().unwrap_err().code(), ArchiveNotFound);
    let path = root.path().join("x.kpack");
    fs::write(&path, archive(Scheme::None, &["gfx942"], &[("x#0", "gfx942", b"code")])).unwrap();
    assert_eq!(load().unwrap(), b"code");
    // An open archive stays usable after its file is deleted, as the program that uses it does.
    fs::remove_file(&path).unwrap();
    assert_eq!(load().unwrap(), b"code");
}
