//! Trees with symlinks of every kind. What a loader finds is what all commands say.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kpackfs::binary::{FatBinary, SplitBinary};
use kpackfs::fatbin::read_bundle;
use kpackfs::resources::Resources;
use kpackfs::source::open_file;
use rocm_kpack::{Cache, Environment, Marker};

use crate::common::ran;

const TARGET: &str = "gfx90a";
const ARCHIVE: &str = ".kpack/rocm_gfx90a.kpack";

/// What a command is expected to do with a tree.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    /// A loader finds the code, and the library is joined with it.
    Joined,
    /// A loader does not find the code. The library is joined with what there is for another GPU.
    JoinedWithout,
    /// A loader finds the code, but outside of the input. The library stays split and the symlink is named.
    Outside,
    /// The library is a symlink out of the input, and a loader finds nothing next to its target.
    LibraryOutside,
    /// The library is a symlink to another directory of the input, and a loader finds nothing next to its target.
    LibraryElsewhere,
}

use Expected::{Joined, JoinedWithout, LibraryElsewhere, LibraryOutside, Outside};

/// A split library with archives for two GPUs in `tree`, and a directory next to that.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.at("fat/lib")).unwrap();
        fs::create_dir(place.at("outside")).unwrap();
        fs::copy(Path::new(super::FIXTURES).join("plain.so"), place.at("fat/lib/plain.so")).unwrap();
        place.kpackfs(&["split", "fat", "-o", "out"]);
        fs::create_dir(place.at("tree")).unwrap();
        for part in ["host", "gfx90a", "gfx1030"] {
            super::overlay(&place.at("out").join(part), &place.at("tree"));
        }
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    /// Moves a file or directory of the tree, and puts a symlink in its place.
    fn link(&self, path: &str, to: &str, target: impl AsRef<Path>) {
        fs::create_dir_all(self.at(to).parent().unwrap()).unwrap();
        fs::rename(self.at("tree").join(path), self.at(to)).unwrap();
        symlink(target, self.at("tree").join(path)).unwrap();
    }

    fn kpackfs(&self, arguments: &[&str]) -> (Option<i32>, String) {
        ran(self.0.path(), arguments)
    }

    /// Whether a loader finds code for the target, for a program that opens the library by this path.
    fn loads(&self, library: &str) -> bool {
        let library = self.at(library).canonicalize().unwrap();
        let split = SplitBinary::find(&open_file(&library, &Resources::new(0)).unwrap()).unwrap().unwrap();
        let cache = Cache::new(Environment::default());
        let found = |wrapper: &kpackfs::binary::SplitWrapper| {
            let marker = Marker::decode(wrapper.marker.as_ref().unwrap()).unwrap();
            cache.load(&marker, &library, u32::try_from(wrapper.index).unwrap(), &[TARGET]).is_ok()
        };
        split.wrappers.iter().all(found)
    }
}

/// The targets for which a fat library has code.
fn targets(library: &Path) -> Vec<String> {
    let resources = Resources::new(64 << 20);
    let content = open_file(library, &resources).unwrap();
    let Some(fat) = FatBinary::scan(&content).unwrap() else { return Vec::new() };
    let wrapper = fat.wrappers()[0];
    let objects = read_bundle(&content, wrapper.bundle, wrapper.limit, &resources).unwrap();
    objects.iter().map(|object| object.target.to_string()).collect()
}

/// The name of a situation, and what makes it.
type Case = (&'static str, fn(&Place));

const CASES: [(Expected, &[Case]); 5] = [
    (
        Joined,
        &[
            ("no symlink", |_| {}),
            ("file", |it| it.link(ARCHIVE, "tree/store/rocm_gfx90a.kpack", "../store/rocm_gfx90a.kpack")),
            ("file of another name", |it| it.link(ARCHIVE, "tree/store/g", "../store/g")),
            ("directory", |it| it.link(".kpack", "tree/store", "store")),
            ("absolute directory", |it| it.link(".kpack", "tree/store", it.at("tree/store"))),
            ("absolute directory by another path", |it| {
                symlink(it.at(""), it.at("alias")).unwrap();
                it.link(".kpack", "tree/store", it.at("alias/tree/store"));
            }),
            ("out of the tree and back", |it| it.link(ARCHIVE, "tree/store/g", "../../tree/store/g")),
            ("directory, out of the tree and back by another path", |it| {
                symlink("tree/store", it.at("alias")).unwrap();
                it.link(".kpack", "tree/store", "../outside/../alias");
            }),
            ("out of the tree and back through another symlink", |it| {
                it.link(ARCHIVE, "tree/store/g", "../one/../../tree/store/g");
                symlink("store", it.at("tree/one")).unwrap();
            }),
            ("package", |it| {
                fs::create_dir(it.at("package")).unwrap();
                fs::rename(it.at("tree"), it.at("package/real")).unwrap();
                fs::rename(it.at("package"), it.at("tree")).unwrap();
                symlink("real", it.at("tree/name")).unwrap();
            }),
            ("chain", |it| {
                it.link(ARCHIVE, "tree/a/b/g.kpack", "../one");
                symlink("two/g.kpack", it.at("tree/one")).unwrap();
                symlink("a/b", it.at("tree/two")).unwrap();
            }),
            ("two names", |it| {
                it.link(".kpack", "tree/store", "store");
                symlink("store", it.at("tree/other")).unwrap();
                symlink("rocm_gfx90a.kpack", it.at("tree/store/again.kpack")).unwrap();
            }),
        ],
    ),
    (
        JoinedWithout,
        &[
            ("cycle", |it| {
                it.link(ARCHIVE, "outside/g.kpack", "other.kpack");
                symlink("rocm_gfx90a.kpack", it.at("tree/.kpack/other.kpack")).unwrap();
            }),
            ("dangling", |it| it.link(ARCHIVE, "outside/g.kpack", "../none.kpack")),
            ("dangling, outside", |it| it.link(ARCHIVE, "outside/g.kpack", "/none/g.kpack")),
        ],
    ),
    (
        Outside,
        &[
            ("file outside", |it| it.link(ARCHIVE, "outside/g.kpack", "../../outside/g.kpack")),
            ("directory outside", |it| it.link(".kpack", "outside/k", it.at("outside/k"))),
        ],
    ),
    (
        LibraryOutside,
        &[
            ("library outside", |it| it.link("lib/plain.so", "outside/lib/plain.so", it.at("outside/lib/plain.so"))),
            ("library and archives outside, each in its own directory", |it| {
                it.link("lib/plain.so", "outside/1/lib/plain.so", it.at("outside/1/lib/plain.so"));
                it.link(ARCHIVE, "outside/2/.kpack/g.kpack", it.at("outside/2/.kpack/g.kpack"));
            }),
        ],
    ),
    (
        LibraryElsewhere,
        &[("library elsewhere", |it| it.link("lib/plain.so", "tree/a/b/c/plain.so", "../a/b/c/plain.so"))],
    ),
];

#[test]
fn what_a_loader_finds_through_symlinks_is_what_commands_say() {
    for (expected, (name, change)) in
        CASES.iter().flat_map(|(expected, cases)| cases.iter().map(move |it| (*expected, it)))
    {
        let place = Place::new();
        change(&place);
        let library = if place.at("tree/name").is_dir() { "tree/name/lib/plain.so" } else { "tree/lib/plain.so" };
        let loads = place.loads(library);
        assert_eq!(loads, matches!(expected, Joined | Outside), "{name}: loader");

        let (status, said) = place.kpackfs(&["why", library, "--target", TARGET]);
        assert_eq!(status, Some(i32::from(!loads)), "{name}: why: {said}");
        let (of_tree, said) = place.kpackfs(&["why", "tree", "--target", TARGET]);
        assert_eq!(of_tree, status, "{name}: why of the tree: {said}");
        if matches!(expected, LibraryOutside | LibraryElsewhere) {
            assert!(said.contains("is a symlink to it") && said.contains("--link-mode copy"), "{name}: {said}");
            let command = said.lines().find_map(|line| line.split_once("run: ")).unwrap().1;
            let (_, archive) = command.split_once("ROCM_KPACK_PATH=").unwrap();
            assert!(Path::new(archive).is_file(), "{name}: {said}");
        }

        let (_, inspected) = place.kpackfs(&["inspect", "tree"]);
        let (_, split) = place.kpackfs(&["split", "tree", "-o", "again", "--view", "fat"]);
        let named = match expected {
            Joined | JoinedWithout => None,
            Outside => Some("outside of the input"),
            LibraryOutside => Some("--link-mode copy"),
            LibraryElsewhere => Some("no archive has code for any of its wrappers"),
        };
        for said in [&inspected, &split] {
            match named {
                Some(reason) => assert!(said.contains(reason), "{name}: {said}"),
                None => assert!(expected == JoinedWithout || !said.contains("warning"), "{name}: {said}"),
            }
        }
        let (verified, findings) = place.kpackfs(&["verify", "tree"]);
        // Archives behind a symlink called `.kpack` are read.
        let is_finding = matches!(expected, Outside | LibraryOutside) && *name != "directory outside";
        if expected != LibraryElsewhere {
            assert_eq!(verified, Some(i32::from(is_finding)), "{name}: verify: {findings}");
        }
        assert!(!is_finding || findings.contains("a symlink to the"), "{name}: {findings}");
        let real = place.at(library).canonicalize().unwrap();
        let inside = real.strip_prefix(place.at("tree")).ok();
        match (expected, inside) {
            (Joined | JoinedWithout, Some(inside)) => {
                let all = targets(&place.at("again/fat").join(inside));
                assert_eq!(all.iter().any(|target| target == TARGET), loads, "{name}: fat: {all:?}");
                assert!(all.iter().any(|target| target == "gfx1030"), "{name}: fat: {all:?}");
                let (status, said) = place.kpackfs(&["split", "tree", "-o", "thin", "--view", "thin/gfx90a"]);
                assert_eq!(status == Some(0), loads, "{name}: thin: {said}");
                if loads {
                    assert_eq!(targets(&place.at("thin/thin/gfx90a").join(inside)), [TARGET], "{name}");
                    // No symlink to an archive is left.
                    let found =
                        Command::new("find").arg(place.at("again")).args(["-name", "*.kpack"]).output().unwrap();
                    assert_eq!(String::from_utf8(found.stdout).unwrap(), "", "{name}");
                }
                let (status, said) = place.kpackfs(&["split", "tree", "-o", "parts"]);
                assert_eq!(status, Some(0), "{name}: {said}");
                let (status, said) = place.kpackfs(&["verify", "parts", "--against", "tree"]);
                assert_eq!(status, Some(0), "{name}: {said}");
            }
            (Outside, Some(inside)) => {
                // It stays split, and other libraries are split.
                fs::copy(Path::new(super::FIXTURES).join("features.so"), place.at("tree/lib/features.so")).unwrap();
                let (status, said) = place.kpackfs(&["split", "tree", "-o", "others"]);
                if place.at("tree/.kpack").is_symlink() {
                    // New archives would have to be outside of the tree.
                    assert!(status == Some(1) && said.contains("both cannot be there"), "{name}: {said}");
                    continue;
                }
                assert_eq!(status, Some(0), "{name}: {said}");
                let bytes = |path: PathBuf| fs::read(path).unwrap();
                assert!(bytes(place.at("others/host").join(inside)) == bytes(real), "{name}");
                assert!(targets(&place.at("others/host/lib/features.so")).is_empty(), "{name}");
            }
            _ => {}
        }
    }
}

#[test]
fn symlinks_of_one_unpacked_wheel_are_followed_as_those_of_a_tree() {
    let place = Place::new();
    symlink("tree/store", place.at("alias")).unwrap();
    place.link(".kpack", "tree/store", "../outside/../alias");
    let dist_info = place.at("tree/x-1.0.dist-info");
    fs::create_dir(&dist_info).unwrap();
    fs::write(dist_info.join("METADATA"), "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n").unwrap();
    let wheel = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-any\n";
    fs::write(dist_info.join("WHEEL"), wheel).unwrap();
    fs::write(dist_info.join("RECORD"), "").unwrap();
    let (status, said) = place.kpackfs(&["split", "tree", "-o", "again", "--view", "fat"]);
    assert!(status == Some(0) && !said.contains("outside of the input"), "{said}");
    assert!(targets(&place.at("again/fat/lib/plain.so")).iter().any(|target| target == TARGET), "{said}");
}

/// New archives would have no place.
#[test]
fn a_library_stays_split_if_the_symlink_to_its_archives_stays() {
    let place = Place::new();
    place.link(".kpack", "tree/store", "store");
    fs::write(place.at("tree/store/README"), "").unwrap();
    let (code, said) = place.kpackfs(&["inspect", "tree"]);
    assert!(code == Some(0) && said.contains("the symlink .kpack stays"), "{said}");
    let (_, said) = place.kpackfs(&["split", "tree", "-o", "again"]);
    assert!(said.contains("nothing to split"), "{said}");
}

/// The loader divides `ROCM_KPACK_PATH` at colons, and archives for a mode have one in their names.
#[test]
fn a_command_names_archives_with_colons_by_links() {
    let place = Place(tempfile::tempdir().unwrap());
    fs::create_dir_all(place.at("fat/lib")).unwrap();
    fs::copy(Path::new(super::FIXTURES).join("features.so"), place.at("fat/lib/features.so")).unwrap();
    assert_eq!(place.kpackfs(&["split", "fat", "-o", "out"]).0, Some(0));
    fs::create_dir(place.at("tree")).unwrap();
    for part in ["host", "gfx90a"] {
        super::overlay(&place.at("out").join(part), &place.at("tree"));
    }
    place.link("lib/features.so", "outside/lib/features.so", place.at("outside/lib/features.so"));
    let arguments = "why tree/lib/features.so --target gfx90a:xnack-";
    let (status, said) = place.kpackfs(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(status, Some(1), "{said}");
    let command = said.lines().find_map(|line| line.split_once("run: ")).unwrap().1;
    assert!(command.contains("gfx90a:xnack-.kpack"), "{said}");
    let script = format!("{command}\necho \"$ROCM_KPACK_PATH\"\nexec {} {arguments}", env!("CARGO_BIN_EXE_kpackfs"));
    let output = Command::new("sh").args(["-c", &script]).current_dir(place.at("")).output().unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    let named = answer.lines().next().unwrap();
    assert!(named.split(':').all(|archive| Path::new(archive).is_file()), "{command}: {answer}");
    assert!(output.status.success(), "{command}: {answer}");
}

/// A process whose root it is finds there what its symlinks lead to.
#[test]
fn absolute_symlinks_of_an_unpacked_root_lead_through_it() {
    let place = Place::new();
    place.link(".kpack", "tree/store/archives", "/store/other");
    symlink("/store/archives", place.at("tree/store/other")).unwrap();
    symlink("/lib/plain.so", place.at("tree/store/named.so")).unwrap();
    let of_root = |arguments: &[&str]| place.kpackfs(arguments);
    for arguments in [["why", "tree", "--target", TARGET].as_slice(), &["verify", "tree"], &["inspect", "tree"]] {
        let (status, said) = of_root(arguments);
        assert!(status == Some(0) && !said.contains("warning"), "{arguments:?}: {said}");
    }
    // The HIP runtime as well, of which this one is too old.
    fs::create_dir_all(place.at("tree/opt/rocm-6/lib")).unwrap();
    fs::copy(Path::new(super::FIXTURES).join("host-only.so"), place.at("tree/opt/rocm-6/lib/libamdhip64.so.6"))
        .unwrap();
    symlink("/opt/rocm-6", place.at("tree/opt/rocm")).unwrap();
    let (status, said) = of_root(&["why", "tree", "--target", TARGET]);
    assert!(status == Some(1) && said.contains("tree/opt/rocm-6/lib/libamdhip64.so.6"), "{said}");
}
