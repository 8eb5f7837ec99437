//! Breaks installations of a fat wheel in different ways: `why` names each cause in its first line, and the command
//! that it prints repairs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::common::{copy_all, run};
use tempfile::TempDir;

const KPACKFS: &str = env!("CARGO_BIN_EXE_kpackfs");
const LIBRARY: &str = "fat/lib/plain.so";
const ARCHIVE: &str = "fat/.kpack/fat_gfx1030.kpack";
const DEVICE: &str = "amd_fat_device_gfx1030";

/// A virtual environment with the wheels of a split for gfx1030 and gfx90a installed.
struct Environment {
    place: TempDir,
    site: PathBuf,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// An unpacked wheel with one file.
fn unpacked(root: &Path, name: &str, requires: &str, file: &str, content: &[u8]) {
    let put = |path: &str, bytes: &[u8]| crate::common::put(root.join(path), bytes);
    let info = format!("{name}-1.0.dist-info");
    put(file, content);
    put(
        &format!("{info}/METADATA"),
        format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}\n").as_bytes(),
    );
    put(&format!("{info}/WHEEL"), b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-any\n");
    let names = [file.to_owned(), format!("{info}/METADATA"), format!("{info}/WHEEL"), format!("{info}/RECORD")];
    put(&format!("{info}/RECORD"), names.map(|name| format!("{name},,\n")).concat().as_bytes());
}

/// The directory that a Python in this virtual environment installs packages in.
fn site(environment: &Path) -> PathBuf {
    let print = "import sysconfig; print(sysconfig.get_paths()['platlib'])";
    run(Command::new(environment.join("bin/python")).args(["-c", print])).trim().into()
}

/// Where pip is for all environments: it takes seconds to install, and most of the time to copy an environment.
fn pip() -> &'static Path {
    static PIP: LazyLock<PathBuf> = LazyLock::new(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let place = directory.join(run(Command::new("python3").arg("--version")).trim());
        if !place.exists() {
            let made = tempfile::tempdir_in(directory).unwrap();
            run(Command::new("python3").args(["-m", "venv"]).arg(made.path()));
            // Another process may have made it meanwhile.
            fs::rename(made.path(), &place).ok();
        }
        site(&place)
    });
    &PIP
}

impl Environment {
    fn new() -> Self {
        Self::of("plain.so", "device-gfx1030,device-gfx90a")
    }

    /// The library is this fixture, and these extras are installed.
    fn of(name: &str, extras: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        unpacked(&at("fat"), "fat", "", LIBRARY, &fs::read(fixture(name)).unwrap());
        run(Command::new(KPACKFS).args(["split", "--format", "wheel", "-o"]).arg(at("wheels")).arg(at("fat")));
        // The host wheel requires it, and the test has no network.
        unpacked(&at("bootstrap"), "rocm_bootstrap", "", "rocm_bootstrap.py", b"");
        let zip = "import shutil, sys; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2])";
        run(Command::new("python3").args(["-c", zip]).arg(at("b")).arg(at("bootstrap")));
        fs::rename(at("b.zip"), at("wheels/rocm_bootstrap-1.0-py3-none-any.whl")).unwrap();
        run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at("venv")));
        let site = site(&at("venv"));
        fs::write(site.join("pip.pth"), pip().to_str().unwrap()).unwrap();
        let environment = Self { place, site };
        environment.pip(&["install", &format!("fat[{extras}]")]);
        environment.copy("venv", "backup");
        environment
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn copy(&self, from: &str, to: &str) {
        copy_all(self.at(from), self.at(to));
    }

    /// Lets pip take packages only from the directory of wheels.
    fn offline<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", self.at("wheels"))
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    }

    fn pip(&self, arguments: &[&str]) {
        run(self.offline(&mut Command::new(self.at("venv/bin/python"))).args(["-m", "pip", "-q"]).args(arguments));
    }

    fn restore(&self) {
        fs::remove_dir_all(self.at("venv")).unwrap();
        self.copy("backup", "venv");
    }

    /// The output of `why` after `before` was run in the same shell.
    fn why(&self, before: &str, arguments: &str) -> (Option<i32>, String) {
        let script = format!("{before}\nexec \"$KPACKFS\" why {arguments}");
        let mut shell = Command::new("sh");
        self.offline(&mut shell).args(["-c", &script]).env("KPACKFS", KPACKFS).env("SITE", &self.site);
        let Output { status, stdout, stderr } = shell.current_dir(self.place.path()).output().unwrap();
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }
}

/// How an installation is broken, the arguments of `why`, and what its first line contains.
type Case = (&'static str, fn(&Environment), &'static str, &'static str);

/// The first line has a command.
const MENDED: &[Case] = &[
    (
        "the device part is missing",
        |it| it.pip(&["uninstall", "-y", DEVICE]),
        "$SITE --target gfx1030",
        "the package amd-fat-device-gfx1030 1.0 is not installed",
    ),
    (
        "it is of another version",
        other_version,
        "$SITE --target gfx1030",
        "the package amd-fat-device-gfx1030 is installed in version 0.9, and fat in 1.0",
    ),
    (
        "the archive is gone",
        |it| fs::remove_file(it.site.join(ARCHIVE)).unwrap(),
        "$SITE --target gfx1030",
        "its archive is gone, although its package is installed",
    ),
    ("the archive is truncated", truncate, "$SITE --target gfx1030", "fat_gfx1030.kpack is damaged"),
    (
        "the archive is another library's",
        replace,
        "$SITE --target gfx1030",
        "; it was replaced: its SHA-256 is not the one in the RECORD of amd-fat-device-gfx1030 1.0",
    ),
    (
        "the archive is empty",
        |it| fs::write(it.site.join(ARCHIVE), "").unwrap(),
        "$SITE --target gfx1030",
        "fat_gfx1030.kpack is damaged",
    ),
    (
        "the archive is something else",
        |it| fs::write(it.site.join(ARCHIVE), [b'x'; 5000]).unwrap(),
        "$SITE --target gfx1030",
        "fat_gfx1030.kpack is damaged",
    ),
    (
        "all archives are gone",
        |it| fs::remove_dir_all(it.site.join("fat/.kpack")).unwrap(),
        "$SITE --target gfx90a",
        "its archive is gone, although its package is installed",
    ),
    (
        "all archives and the dist-info of the host are gone",
        |it| {
            fs::remove_dir_all(it.site.join("fat/.kpack")).unwrap();
            fs::remove_dir_all(it.site.join("fat-1.0.dist-info")).unwrap();
        },
        "$SITE --target gfx1030",
        "its archive is gone, although its package is installed",
    ),
    (
        "the archive is a link that leads nowhere",
        |it| {
            fs::remove_file(it.site.join(ARCHIVE)).unwrap();
            std::os::unix::fs::symlink("nowhere", it.site.join(ARCHIVE)).unwrap();
        },
        "$SITE --target gfx1030",
        "its archive is gone, although its package is installed",
    ),
    (
        "no device part is installed",
        |it| it.pip(&["uninstall", "-y", DEVICE, "amd_fat_device_gfx90a"]),
        "--python venv/bin/python --binary plain.so --target gfx90a",
        "the package amd-fat-device-gfx90a 1.0 is not installed",
    ),
    (
        "the copy of rocm-sdk",
        |it| {
            let copy = it.site.join("_rocm_sdk_devel/lib/plain.so");
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::hard_link(it.site.join(LIBRARY), copy).unwrap();
        },
        "$SITE/_rocm_sdk_devel/lib/plain.so --target gfx1030",
        "it is a copy that rocm-sdk made of ",
    ),
    (
        "the archive is for another GPU",
        |it| {
            fs::copy(it.site.join("fat/.kpack/fat_gfx90a.kpack"), it.site.join(ARCHIVE)).unwrap();
        },
        "$SITE --target gfx1030",
        "fat_gfx1030.kpack is an archive for gfx90a",
    ),
    ("a copy in another directory", copy, "$SITE/other/plain.so --target gfx1030", "it is a copy of "),
    (
        "the iGPU is first",
        |it| topology(it, &[100_306, 100_300]),
        "$SITE --topology topology",
        "the first GPU, gfx1036, has no code, though gfx1030 has",
    ),
    ("the features differ", features, "$PWD/parts --target gfx90a", "its features differ"),
];

const NOT_MENDED: &[Case] = &[
    (
        "for another GPU",
        |_| (),
        "$SITE --target gfx1201",
        "fat 1.0 has no package for gfx1201; it has some for gfx1030",
    ),
    (
        "the marker is damaged",
        spoil_marker,
        "$SITE --target gfx1030",
        "the library's marker, which names the archives, is damaged",
    ),
    (
        "a copy elsewhere",
        |it| {
            fs::copy(it.site.join(LIBRARY), it.at("plain.so")).unwrap();
        },
        "plain.so --target gfx1030",
        "the library is a copy whose archives are elsewhere",
    ),
];

/// The same with a variable, which the command changes.
type ChangedVariable = (&'static str, fn(&Environment), &'static str, &'static str, &'static str);

const VARIABLES: &[ChangedVariable] = &[
    (
        "a runtime that reads no archives",
        runtime,
        "LD_LIBRARY_PATH=$PWD/old",
        "$SITE --target gfx1030",
        "libamdhip64.so.6 does not read .kpack archives",
    ),
    (
        "archives are switched off",
        |_| (),
        "ROCM_KPACK_DISABLE=1",
        "$SITE --target gfx1030",
        "ROCM_KPACK_DISABLE forbids the runtime to read archives",
    ),
    (
        "other archives are named",
        |_| (),
        "ROCM_KPACK_PATH=/nowhere/x.kpack",
        "$SITE --target gfx1030",
        "ROCM_KPACK_PATH is set",
    ),
    (
        "a directory of archives is named",
        |_| (),
        "ROCM_KPACK_PATH=$SITE/fat/.kpack",
        "$SITE --target gfx1030",
        "fat/.kpack is a directory, and only archives can be named",
    ),
    (
        "an archive with a colon in its name is named",
        |it| {
            fs::copy(it.site.join(ARCHIVE), it.at("x:y.kpack")).unwrap();
        },
        "ROCM_KPACK_PATH=$PWD/x:y.kpack",
        "$SITE --target gfx1030",
        "/x:y.kpack has a colon in its path, and colons divide the list",
    ),
    (
        "the archive is gone, and a directory is named",
        |it| fs::remove_file(it.site.join(ARCHIVE)).unwrap(),
        "ROCM_KPACK_PATH_PREFIX=$SITE/fat/.kpack",
        "$SITE --target gfx1030",
        "although its package is installed; ROCM_KPACK_PATH_PREFIX does not help: ",
    ),
];

fn other_version(it: &Environment) {
    replace(it);
    let [old, new] = ["1.0", "0.9"].map(|version| it.site.join(format!("{DEVICE}-{version}.dist-info")));
    fs::rename(&old, &new).unwrap();
    for file in ["METADATA", "RECORD"].map(|name| new.join(name)) {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replace("Version: 1.0", "Version: 0.9").replace("gfx1030-1.0.", "gfx1030-0.9.")).unwrap();
    }
}

fn truncate(it: &Environment) {
    let file = fs::OpenOptions::new().write(true).open(it.site.join(ARCHIVE)).unwrap();
    file.set_len(file.metadata().unwrap().len() - 40).unwrap();
}

fn replace(it: &Environment) {
    fs::copy(fixture("plain.so"), it.at("other.so")).unwrap();
    let create = ["kpack", "create", "--force", "--from-binary", "other.so", "--target", "gfx1030", "-o"];
    run(Command::new(KPACKFS).args(create).arg(it.site.join(ARCHIVE)).current_dir(it.place.path()));
}

fn spoil_marker(it: &Environment) {
    let path = it.site.join(LIBRARY);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(11).position(|window| window == b"kernel_name").unwrap();
    bytes.get_mut(at - 40..at + 40).unwrap().fill(0);
    fs::write(path, bytes).unwrap();
}

fn copy(it: &Environment) {
    fs::create_dir(it.site.join("other")).unwrap();
    fs::copy(it.site.join(LIBRARY), it.site.join("other/plain.so")).unwrap();
}

fn runtime(it: &Environment) {
    fs::create_dir_all(it.at("old")).unwrap();
    fs::copy(fixture("host-only.so"), it.at("old/libamdhip64.so.6")).unwrap();
}

fn topology(it: &Environment, versions: &[u32]) {
    for (number, version) in versions.iter().enumerate() {
        let node = it.at(&format!("topology/nodes/{number}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("properties"), format!("simd_count 4\ngfx_target_version {version}\n")).unwrap();
    }
}

/// A binary with code for each setting of xnack. The code for the usual setting is removed.
fn features(it: &Environment) {
    run(Command::new(KPACKFS).args(["split", "-o"]).arg(it.at("split")).arg(fixture("features.so")));
    copy_all(it.at("split/host"), it.at("parts"));
    fs::create_dir(it.at("parts/.kpack")).unwrap();
    let archive = "features.so_gfx90a:xnack+.kpack";
    fs::copy(it.at("split/gfx90a/.kpack").join(archive), it.at("parts/.kpack").join(archive)).unwrap();
}

#[test]
fn each_cause_is_named_and_mended() {
    let environment = Environment::new();
    for target in ["gfx1030", "gfx90a", "gfx90a:sramecc+:xnack+"] {
        let (code, said) = environment.why("", &format!("$SITE --target {target}"));
        assert_eq!(code, Some(0), "{said}");
        assert!(said.lines().next().unwrap().contains("is found"), "{said}");
    }
    for arguments in ["--python venv", "--python venv fat", "", "Fat"] {
        let (code, said) = environment.why("export VIRTUAL_ENV=$PWD/venv", &format!("{arguments} --target gfx1030"));
        assert!(code == Some(0) && said.contains("plain.so: code for gfx1030 is found"), "{arguments}: {said}");
        let (code, said) = environment.why("export VIRTUAL_ENV=$PWD/venv", &format!("{arguments} --target gfx942"));
        assert!(code == Some(1) && said.contains("plain.so: no code for gfx942"), "{arguments}: {said}");
    }
    for (word, expected) in [("nothing", "no package of this name is in"), ("rocm-bootstrap", "has no libraries")] {
        let (code, said) = environment.why("export VIRTUAL_ENV=$PWD/venv", &format!("{word} --target gfx1030 2>&1"));
        assert!(code > Some(3) && said.contains(expected), "{word}: {said}");
    }
    let (code, said) = environment.why("", "--python venv/bin/python --target gfx1030 --all");
    assert!(code == Some(0) && said.contains("model: "), "{said}");
    let check =
        |name: &str, spoil: fn(&Environment), before: &str, arguments: &str, expected: &str, is_mended: bool| {
            spoil(&environment);
            let (code, said) = environment.why(before, arguments);
            let first = said.lines().next().unwrap_or_default();
            assert_eq!(code, Some(1), "{name}: {said}");
            assert!(first.contains(expected), "{name}: {said}");
            let command = first.split_once("; run: ").map(|(_, command)| command);
            assert_eq!(command.is_some(), is_mended, "{name}: {said}");
            if let Some(command) = command {
                let (code, said) = environment.why(&format!("{before}\n{command}"), arguments);
                assert_eq!(code, Some(0), "{name}: {command}: {said}");
            }
            environment.restore();
        };
    for (cases, is_mended) in [(MENDED, true), (NOT_MENDED, false)] {
        for (name, spoil, arguments, expected) in cases {
            check(name, *spoil, "", arguments, expected, is_mended);
        }
    }
    for (name, spoil, variable, arguments, expected) in VARIABLES {
        check(name, *spoil, &format!("export {variable}"), arguments, expected, true);
    }
}

/// Nothing is damaged, and nothing is to be installed, in any form of the release: `features.so` has code for gfx90a only.
#[test]
fn a_library_that_is_not_built_for_a_gpu_is_named() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    unpacked(&at("fat"), "fat", "", LIBRARY, &fs::read(fixture("plain.so")).unwrap());
    fs::copy(fixture("features.so"), at("fat/fat/lib/features.so")).unwrap();
    let record = fs::read_to_string(at("fat/fat-1.0.dist-info/RECORD")).unwrap();
    fs::write(at("fat/fat-1.0.dist-info/RECORD"), record + "fat/lib/features.so,,\n").unwrap();
    run(Command::new(KPACKFS).args(["split", "-q", "--format", "wheel", "-o"]).arg(at("wheels")).arg(at("fat")));
    for part in ["fat", DEVICE] {
        let wheel = at(&format!("wheels/{part}-1.0-py3-none-any.whl"));
        run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(at("site")));
        fs::write(at(&format!("site/{part}-1.0.dist-info/INSTALLER")), "pip\n").unwrap();
    }
    let said = |arguments: &[&str], form: &str| {
        let output = Command::new(KPACKFS).args(arguments).arg(form).current_dir(place.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{form}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let why = |form: &str, cause: &str, sentence: &str| {
        let answer: serde_json::Value =
            serde_json::from_str(&said(&["why", "--json", "--target", "gfx1030"], form)).unwrap();
        assert_eq!(answer["causes"][0]["id"], cause, "{form}: {answer:#}");
        assert!(answer["sentence"].as_str().unwrap().contains(sentence), "{form}: {answer:#}");
        assert!(cause != "archives-none" || answer["command"].is_null(), "{form}: {answer:#}");
    };
    let as_installed = "it is as amd-fat-device-gfx1030 1.0 installed it, so the library is not built for this GPU";
    why("site", "archives-none", as_installed);
    why("wheels", "archives-none", "the device wheels have its code for gfx90a, gfx90a:xnack+ and gfx90a:xnack- only");
    for form in ["site", "wheels"] {
        let said = said(&["inspect", "--require", "gfx1030"], form);
        assert!(said.contains("fat/lib/features.so: no code for gfx1030"), "{form}: {said}");
    }
    // Parts of several splits may be of several builds, and so may those that state none.
    let statement = at("site/fat-1.0.dist-info/kpackfs.json");
    let own = fs::read_to_string(&statement).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&own).unwrap();
    for id in ["0".repeat(64).into(), serde_json::Value::Null] {
        other["split_id"] = id;
        fs::write(&statement, other.to_string()).unwrap();
        why("site", "archive-replaced", "it is of another build or was replaced");
    }
    fs::remove_file(&statement).unwrap();
    why("site", "archive-replaced", "it is of another build or was replaced");
    fs::write(&statement, own).unwrap();
    fs::remove_dir_all(at("site/fat/.kpack")).unwrap();
    // The device package's RECORD names the archive, too.
    let [host, aside] = ["site/fat-1.0.dist-info", "aside"].map(at);
    fs::rename(&host, &aside).unwrap();
    why("site", "archive-gone", "its archive is gone, although its package is installed");
    let installer = at(&format!("site/{DEVICE}-1.0.dist-info/INSTALLER"));
    // pip is not to write over files of conda.
    fs::write(&installer, "conda\n").unwrap();
    why("site", "archive-gone", "conda installed amd-fat-device-gfx1030: install its package that has");
    fs::remove_file(&installer).unwrap();
    why("site", "archive-gone", "its archive is gone, although its dist-info is there");
    fs::write(installer, "pip\n").unwrap();
    fs::rename(aside, host).unwrap();
    // A device package may have kernel databases only.
    let record = at(&format!("site/{DEVICE}-1.0.dist-info/RECORD"));
    let rows = fs::read_to_string(&record).unwrap();
    let rows = rows.lines().filter(|row| !row.contains(".kpack,")).map(|row| format!("{row}\n"));
    fs::write(record, rows.collect::<String>()).unwrap();
    why("site", "archives-none", "no archive for it is among the files of amd-fat-device-gfx1030");
}

#[test]
fn a_missing_family_package_is_named_and_mended() {
    let environment = Environment::of("generic.so", "device-gfx1100");
    let family = "$SITE --target gfx1101";
    assert_eq!(environment.why("", family).0, Some(0));
    environment.pip(&["uninstall", "-y", "amd_fat_device_gfx11"]);
    let (code, said) = environment.why("", family);
    let first = said.lines().next().unwrap_or_default();
    assert_eq!(code, Some(1), "{said}");
    assert!(first.contains("the package amd-fat-device-gfx11 1.0 is not installed"), "{said}");
    let (_, command) = first.split_once("; run: ").unwrap();
    assert_eq!(environment.why(command, family).0, Some(0), "{command}");
}

/// rocm 7.14.0.post1 requires device packages of 7.14.0 (ROCm/TheRock#7503).
#[test]
fn a_post_release_and_its_device_packages_belong_together() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("out/merged/gfx1030");
    fs::create_dir_all(place.path().join("tree/lib")).unwrap();
    fs::copy(fixture("plain.so"), place.path().join("tree/lib/plain.so")).unwrap();
    let merged = ["--view", "merged/gfx1030", "-o"];
    run(Command::new(KPACKFS).arg("split").args(merged).arg(place.path().join("out")).arg(place.path().join("tree")));
    let installed = |name: &str, version: &str, requires: &str, file: &str| {
        let info = site.join(format!("{name}-{version}.dist-info"));
        fs::create_dir(&info).unwrap();
        let metadata = format!("Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{requires}\n");
        fs::write(info.join("METADATA"), metadata).unwrap();
        fs::write(info.join("RECORD"), format!("{file},,\n")).unwrap();
        fs::write(info.join("INSTALLER"), "pip\n").unwrap();
    };
    let requires = "Provides-Extra: device-gfx1030\n\
                    Requires-Dist: rocm-sdk-device-gfx1030==7.14.0; extra == \"device-gfx1030\"\n";
    installed("rocm", "7.14.0.post1", requires, "lib/plain.so");
    installed("rocm_sdk_device_gfx1030", "7.14.0", "", ".kpack/rocm_gfx1030.kpack");
    let why = || {
        let output = Command::new(KPACKFS).args(["why", "--target", "gfx1030"]).arg(&site).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert!(why().0 == Some(0) && !why().1.contains("note: "), "{}", why().1);
    // A runtime loads the code of another version.
    let metadata = site.join("rocm_sdk_device_gfx1030-7.14.0.dist-info/METADATA");
    let fits = fs::read_to_string(&metadata).unwrap();
    fs::write(&metadata, fits.replace("7.14.0", "7.13.0")).unwrap();
    let (code, said) = why();
    assert!(code == Some(0) && said.contains("code for gfx1030 is found"), "{said}");
    let versions = "the package rocm-sdk-device-gfx1030 is installed in version 7.13.0, and rocm in 7.14.0.post1";
    assert!(said.lines().any(|line| line.starts_with("note: ") && line.contains(versions)), "{said}");
    fs::write(&metadata, fits).unwrap();
    fs::remove_file(site.join(".kpack/rocm_gfx1030.kpack")).unwrap();
    let (code, said) = why();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.lines().next().unwrap().contains("its archive is gone, although its package is installed"), "{said}");
    assert!(said.contains("rocm-sdk-device-gfx1030 7.14.0 is installed"), "{said}");
}

#[test]
fn the_library_that_reads_archives_is_named() {
    let environment = Environment::new();
    runtime(&environment);
    let loads = |name: &str| {
        let path = environment.at("old").join(name);
        fs::write(path, b"\x7fELF kpack_load_code_object librocm_kpack.so.0").unwrap();
    };
    loads("libamdhip64.so.6");
    let (before, arguments) = ("export LD_LIBRARY_PATH=$PWD/old", "$SITE --target gfx1030 --all");
    let (code, said) = environment.why(before, arguments);
    assert!(code == Some(0) && said.contains("it needs librocm_kpack.so*, which is not where"), "{said}");
    loads("librocm_kpack.so.0");
    let (code, said) = environment.why(before, arguments);
    assert!(code == Some(0) && said.contains("old/librocm_kpack.so.0 to read them"), "{said}");
}

#[test]
fn views_have_their_code() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    fs::create_dir(at("tree")).unwrap();
    for name in ["plain.so", "features.so", "ccob-mixed.so"] {
        fs::copy(fixture(name), at("tree").join(name)).unwrap();
    }
    let views = ["merged/gfx90a", "thin/gfx90a"];
    run(Command::new(KPACKFS)
        .args(["split", "--view", views[0], "--view", views[1], "-o"])
        .arg(at("out"))
        .arg(at("tree")));
    for view in ["out/merged/gfx90a", "out/thin/gfx90a", "tree"] {
        let found = Command::new(KPACKFS).args(["why", "--target", "gfx90a", "--json"]).arg(at(view)).output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        assert_eq!((found.status.code(), &answer["found"]), (Some(0), &true.into()), "{view}: {answer}");
        assert_eq!(answer["lookups"].as_array().unwrap().len(), 3, "{view}: {answer}");
        for lookup in answer["lookups"].as_array().unwrap() {
            assert!(lookup["with_code"].as_u64().unwrap() > 0, "{view}: {lookup}");
        }
    }
    let of_thin =
        Command::new(KPACKFS).args(["why", "--target", "gfx1030"]).arg(at("out/thin/gfx90a/plain.so")).output();
    let of_thin = of_thin.unwrap();
    assert_eq!(of_thin.status.code(), Some(1));
    assert!(
        String::from_utf8(of_thin.stdout).unwrap().contains("the library holds its code itself, and only for gfx90a")
    );
}

#[test]
fn what_cannot_be_read_is_no_answer() {
    for (arguments, code, status, expected) in [
        (["/nowhere", "--target=gfx942"], 5, "unknown", "/nowhere: No such file"),
        (["--pid=999999999", "--target=gfx942"], 5, "unknown", "there is no process with this ID"),
        (["--python=/nowhere", "--target=gfx942"], 5, "unknown", "/nowhere: let --python name an interpreter"),
        (["--python=grep", "--target=gfx942"], 3, "unreadable", "it does not say where its packages are"),
        (["tests/fixtures/plain.so", "--binary=x.so"], 4, "nothing", "--target auto"),
        (["tests/fixtures/host-only.so", "--target=gfx942"], 4, "nothing", "name the files or their directory"),
        (["tests/fixtures/plain.so", "--topology=/nowhere"], 4, "nothing", "--target auto"),
        (["tests/fixtures/plain.so", "--target=GFX_"], 2, "", "is no target"),
        (["tests/fixtures/plain.so", "--target=gfx"], 2, "", "gfx is not one GPU"),
        (["tests/fixtures/plain.so", "--target=gfx110x"], 2, "", "gfx110x is not one GPU"),
        (["tests/fixtures/plain.so", "--target=,"], 2, "", "it names no GPU"),
    ] {
        let said = |json: &[&str]| {
            let output = Command::new(KPACKFS).arg("why").args(arguments).args(json).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{output:?}");
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
        };
        assert!(said(&[]).1.contains(expected), "{arguments:?}: {:?}", said(&[]));
        if status.is_empty() {
            assert_eq!(said(&["--json"]).0, "");
        } else {
            let answer: serde_json::Value = serde_json::from_str(&said(&["--json"]).0).unwrap();
            assert_eq!(answer["status"], status, "{answer}");
            assert!(answer["sentence"].as_str().unwrap().contains(expected), "{answer}");
        }
    }
}

/// A HIP runtime that reads archives.
fn reader() -> Vec<u8> {
    [fs::read(fixture("host-only.so")).unwrap(), b"kpack_load_code_object".to_vec()].concat()
}

/// Both are rules of ROCm 7.13: it reads archives, and earlier ones do not.
#[test]
fn the_runtime_of_a_split_is_judged_in_every_form() {
    for (runtime, code) in [(fs::read(fixture("host-only.so")).unwrap(), 1), (reader(), 0)] {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        unpacked(&at("fat"), "fat", "", LIBRARY, &fs::read(fixture("plain.so")).unwrap());
        fs::write(at("fat/fat/lib/libamdhip64.so.7"), runtime).unwrap();
        let split = |arguments: &[&str]| {
            let output = Command::new(KPACKFS).arg("split").args(arguments).current_dir(place.path()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{said}");
            said.contains("fat/lib/libamdhip64.so.7, does not read .kpack archives")
        };
        assert_eq!(split(&["fat", "-o", "out"]), code == 1);
        assert_eq!(split(&["fat", "-o", "wheels", "--format", "wheel"]), code == 1);
        assert!(!split(&["fat", "-o", "thin", "--view", "thin/gfx90a"]), "any runtime finds the code there");
        let flat = "mkdir flat && cp -a out/host/. out/gfx90a/. flat && tar -cf flat.tar -C flat .";
        run(Command::new("sh").args(["-c", flat]).current_dir(place.path()));
        for form in ["out", "wheels", "flat", "flat.tar"] {
            let output =
                Command::new(KPACKFS).args(["why", form, "--target", "gfx90a"]).current_dir(place.path()).output();
            let output = output.unwrap();
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(code), "{form}: {said}");
            let first = said.lines().next().unwrap();
            assert_eq!(
                first.contains("libamdhip64.so.7 does not read .kpack archives; use"),
                code == 1,
                "{form}: {said}"
            );
        }
        let thin = Command::new(KPACKFS)
            .args(["why", "thin/thin/gfx90a", "--target", "gfx90a"])
            .current_dir(place.path())
            .output();
        assert_eq!(thin.unwrap().status.code(), Some(0));
    }
}

/// Archives are an answer only with a runtime that reads them: without one, and with an old one in torch.
#[test]
fn an_answer_about_archives_depends_on_the_runtime_of_the_environment() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    unpacked(&at("fat"), "fat", "", LIBRARY, &fs::read(fixture("plain.so")).unwrap());
    crate::common::put(at("fat/torch/own.so"), fs::read(fixture("plain.so")).unwrap());
    run(Command::new(KPACKFS).args(["split", "fat", "-q", "-o", "out"]).current_dir(place.path()));
    run(Command::new("sh").args(["-c", "mkdir flat && cp -a out/*/. flat"]).current_dir(place.path()));
    let why = |path: &str, rocm: Option<&PathBuf>| {
        let mut command = Command::new(KPACKFS);
        command.args(["why", path, "--target", "gfx1030"]).env("HSA_OVERRIDE_GFX_VERSION", "10.3.0");
        command.envs(rocm.map(|rocm| ("ROCM_PATH", rocm)));
        let Output { status, stdout, stderr } = command.current_dir(place.path()).output().unwrap();
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    };
    let (code, said) = why("flat", None);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("; no HIP runtime is there, and a HIP runtime older than ROCm 7.13 does not read"), "{said}");
    assert!(said.contains("HSA_OVERRIDE_GFX_VERSION is set, and not followed"), "{said}");
    crate::common::put(at("flat/torch/lib/libamdhip64.so"), fs::read(fixture("host-only.so")).unwrap());
    let (code, said) = why("flat", None);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("torch/lib/libamdhip64.so does not read .kpack archives"), "{said}");
    // What does not need torch is loaded with the installed runtime.
    crate::common::put(at("rocm/lib/libamdhip64.so"), reader());
    let rocm = at("rocm");
    for (path, expected) in [("flat/fat", 0), ("flat/torch/own.so", 1)] {
        let (code, said) = why(path, Some(&rocm));
        assert_eq!(code, Some(expected), "{path}: {said}");
    }
}

#[test]
fn a_command_is_whole_however_long() {
    let place = tempfile::tempdir().unwrap();
    let deep = place.path().join(["x".repeat(200), "y".repeat(200), "z".repeat(200)].join("/"));
    unpacked(&place.path().join("fat"), "fat", "", LIBRARY, &fs::read(fixture("plain.so")).unwrap());
    run(Command::new(KPACKFS).args(["split", "--format", "wheel", "fat", "-o"]).arg(&deep).current_dir(place.path()));
    let wheel = |name: &str| deep.join(format!("{name}-1.0-py3-none-any.whl")).display().to_string();
    let output = Command::new(KPACKFS).arg("why").arg(wheel("fat")).args(["--target", "gfx1030"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (_, command) = said.lines().next().unwrap().split_once("; run: ").unwrap();
    assert_eq!(command, format!("pip install {} {}", wheel("fat"), wheel(DEVICE)));
}
