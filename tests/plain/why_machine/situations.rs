//! What `why` answered falsely or poorly before: wheels, parts of splits, closed directories, foreign archives, modes.
//! Nothing is installed; package managers leave the same files behind as are made here.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{KPACKFS, fixture};
use crate::common::{self, copied_program, copy_all, succeeds};

const LIBRARY: &str = "lib/python3.11/site-packages/demo/lib/plain.so";
const SITE: &str = "lib/python3.11/site-packages";
const ARCHIVE: &str = "lib/python3.11/site-packages/demo/.kpack/demo_gfx1030.kpack";
const DEVICE: &str = "amd_demo_device_gfx1030-1.0";

/// `fat` and `wheels/` with the wheels of `demo`, `dirs/` with its parts, and `env/`, an environment with all of it.
pub(super) struct Place(TempDir);

impl Place {
    pub(super) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        // Another user runs `why` where permissions count.
        fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        place.put("fat/demo/lib/plain.so", &fs::read(fixture("plain.so")).unwrap());
        place.put("fat/demo-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\n");
        let wheel = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-any\n";
        place.put("fat/demo-1.0.dist-info/WHEEL", wheel.as_bytes());
        place.put("fat/demo-1.0.dist-info/RECORD", b"demo/lib/plain.so,,\n");
        let split = |arguments: &[&str]| {
            succeeds(Command::new(KPACKFS).arg("split").args(arguments).current_dir(place.0.path()))
        };
        split(&["fat", "-o", "wheels", "--format", "wheel"]);
        split(&["fat", "-o", "dirs"]);
        // A mount also has the merged views.
        succeeds(Command::new("cp").args(["-a", "dirs", "views"]).current_dir(place.0.path()));
        fs::create_dir_all(place.at("views/merged/gfx1030")).unwrap();
        let site = place.at(&format!("env/{SITE}"));
        fs::create_dir_all(&site).unwrap();
        for part in ["host", "gfx1030", "gfx90a"] {
            copy_all(place.at(&format!("dirs/{part}/.")), &site);
        }
        for name in ["demo-1.0", DEVICE, "amd_demo_device_gfx90a-1.0"] {
            fs::write(site.join(format!("{name}.dist-info/INSTALLER")), "pip\n").unwrap();
        }
        fs::create_dir(site.join("pip")).unwrap();
        place.put("env/bin/python3.11", b"");
        place
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        common::put(self.at(path), bytes);
    }

    fn restored(&self) -> &Self {
        fs::remove_dir_all(self.at("work")).ok();
        fs::remove_dir_all(self.at("home")).ok();
        copy_all(self.at("env"), self.at("work"));
        self
    }

    /// The answer, without the configuration of the user's pip.
    pub(super) fn why(&self, environment: &[(&str, &str)], arguments: &str) -> Value {
        let mut command = Command::new(KPACKFS);
        command.args(["why", "--json"]).args(arguments.split(' ')).current_dir(self.0.path());
        command.env("HOME", self.at("home")).env("XDG_CONFIG_HOME", self.at("home"));
        for variable in ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"] {
            command.env_remove(variable);
        }
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let code = match answer.get("status").and_then(Value::as_str).unwrap() {
            "found" => 0,
            "no-code" => 1,
            "unreadable" => 3,
            "unknown" => 5,
            _ => 4,
        };
        assert_eq!(output.status.code(), Some(code), "{answer}");
        answer
    }
}

/// How `work` is changed, the GPUs and other arguments, the status or the identifier of the first cause if there is no
/// code, and what the sentence contains.
type Case = (fn(&Place), &'static str, &'static str, &'static str);

fn remove_device(it: &Place) {
    fs::remove_file(it.at("work").join(ARCHIVE)).unwrap();
    fs::remove_dir_all(it.at("work").join(SITE).join(format!("{DEVICE}.dist-info"))).unwrap();
}

fn let_uv_find_wheels(it: &Place) {
    let configuration = format!("find-links = [\"{}\"]\n", it.at("wheels").display());
    it.put("home/uv/uv.toml", configuration.as_bytes());
}

fn fat_wheel(it: &Place) {
    let script = "import shutil; shutil.make_archive('fat', 'zip', 'fat')";
    succeeds(Command::new("python3").args(["-c", script]).current_dir(it.0.path()));
    fs::rename(it.at("fat.zip"), it.at("work/demo-1.0-py3-none-any.whl")).unwrap();
}

/// A library of which one wrapper has code for other GPUs only.
fn partial(it: &Place) {
    fs::copy(fixture("mixed.so"), it.at("work/mixed.so")).unwrap();
}

/// That library in a wheel.
fn partial_wheel(it: &Place) {
    let script = "import sys, zipfile; zipfile.ZipFile('work/demo-1.0-py3-none-any.whl', 'a').write('work/mixed.so', 'mixed.so')";
    fat_wheel(it);
    partial(it);
    succeeds(Command::new("python3").args(["-c", script]).current_dir(it.0.path()));
}

/// The host wheel alone.
fn alone(it: &Place) {
    let name = "demo-1.0-py3-none-any.whl";
    fs::copy(it.at("wheels").join(name), it.at("work").join(name)).unwrap();
}

/// Views of two GPUs, and a device part.
fn views(it: &Place) {
    let views = ["merged/gfx1030", "merged/gfx90a", "thin/gfx1030", "thin/gfx90a"];
    let views = views.iter().flat_map(|view| ["--view", view]);
    succeeds(Command::new(KPACKFS).args(["split", "fat", "-o", "work/views"]).args(views).current_dir(it.0.path()));
    succeeds(Command::new("cp").args(["-a", "dirs/gfx90a", "work/views"]).current_dir(it.0.path()));
}

/// The device wheel for gfx1030 in another version.
fn other_version(it: &Place, to: &str, version: &str) {
    let wheel = it.at("wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl");
    let script = "import sys, zipfile\nold, new = zipfile.ZipFile(sys.argv[1]), zipfile.ZipFile(sys.argv[2], 'w')\n\
                  version = b'Version: %s\\n' % sys.argv[3].encode()\n\
                  for name in old.namelist(): new.writestr(name, old.read(name).replace(b'Version: 1.0\\n', version))\n\
                  new.close()";
    succeeds(Command::new("python3").args(["-c", script]).arg(wheel).arg(it.at(to)).arg(version));
}

/// All wheels, one of them truncated.
fn damaged_wheel(it: &Place, name: &str) {
    copy_all(it.at("wheels"), it.at("work/wheels"));
    let damaged = it.at("work/wheels").join(name);
    let bytes = fs::read(&damaged).unwrap();
    fs::write(damaged, bytes.get(..bytes.len() / 2).unwrap()).unwrap();
}

/// A library with code for one XNACK mode.
fn mode(it: &Place) {
    succeeds(Command::new(KPACKFS).args(["split", "-o"]).arg(it.at("work/modes")).arg(fixture("features.so")));
    let archive = "features.so_gfx90a:xnack+.kpack";
    let directory = it.at("work/modes/only");
    fs::create_dir_all(directory.join(".kpack")).unwrap();
    fs::copy(it.at("work/modes/host/features.so"), directory.join("features.so")).unwrap();
    fs::copy(it.at("work/modes/gfx90a/.kpack").join(archive), directory.join(".kpack").join(archive)).unwrap();
    // The same as a fat library, without the marker's archives.
    let view = ["split", "--view", "thin/gfx90a:xnack+", "-o"];
    succeeds(Command::new(KPACKFS).args(view).arg(it.at("work/thin")).arg(fixture("features.so")));
}

fn several_versions(it: &Place) {
    let site = it.at("work").join(SITE);
    copy_all(site.join("demo-1.0.dist-info"), site.join("demo-0.9.dist-info"));
    let metadata = site.join("demo-0.9.dist-info/METADATA");
    let text = fs::read_to_string(&metadata).unwrap().replace("1.0", "0.9");
    fs::write(metadata, text).unwrap();
    let record = site.join("demo-0.9.dist-info/RECORD");
    let text = fs::read_to_string(&record).unwrap().replace("sha256=", "sha256=AAAA");
    fs::write(record, text).unwrap();
}

const CASES: &[Case] = &[
    (|_| (), "gfx1030 work", "found", "is found"),
    // Wheels.
    (fat_wheel, "gfx1030 work/demo-1.0-py3-none-any.whl", "found", "once it is installed"),
    (fat_wheel, "gfx942 work/demo-1.0-py3-none-any.whl", "no-code", "only for gfx1030 and gfx90a"),
    (
        partial_wheel,
        "gfx1100 --binary mixed.so work/demo-1.0-py3-none-any.whl",
        "found",
        "but wrapper 0 of 2 has no code for gfx1100, which the others have",
    ),
    (partial, "gfx1100 work/mixed.so", "found", "is found, but wrapper 0 of 2 has no code"),
    (
        alone,
        "gfx1030 work/demo-1.0-py3-none-any.whl",
        "wheel-alone",
        "install it with the extra device-gfx1030, from where you have the wheel",
    ),
    (|_| (), "gfx942 wheels", "package-none", "it has some for gfx1030, gfx90a"),
    (|_| (), "gfx1030,gfx90a wheels", "found", "by all of 2 look-ups"),
    (|_| (), "gfx1030 wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl", "found", "is found"),
    (
        |_| (),
        "gfx90a wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl",
        "no-code",
        "the archive has code for gfx1030 only",
    ),
    (|_| (), "gfx90a --binary other.so wheels", "unknown", "no file in wheels is called so"),
    (
        |it| {
            alone(it);
            other_version(it, "work/device-2.0-py3-none-any.whl", "2.0");
        },
        "gfx1030 work/demo-1.0-py3-none-any.whl work/device-2.0-py3-none-any.whl",
        "package-version",
        "these wheels cannot be installed together",
    ),
    // Wheels of one distribution for several systems are installations of their own, with the device wheels of each.
    (
        |it| {
            copy_all(it.at("wheels"), it.at("work/wheels"));
            let name = |tags: &str| it.at(&format!("work/wheels/demo-1.0-{tags}.whl"));
            fs::copy(name("py3-none-any"), name("cp312-cp312-linux_x86_64")).unwrap();
        },
        "gfx1030,gfx90a work/wheels",
        "found",
        "is found, once it is installed, by all of 4 look-ups",
    ),
    // Another version of a device wheel is not what an installer takes.
    (
        |it| {
            copy_all(it.at("wheels"), it.at("work/wheels"));
            other_version(it, "work/wheels/amd_demo_device_gfx1030-0.9-py3-none-any.whl", "0.9");
        },
        "gfx1030 work/wheels",
        "found",
        "demo/lib/plain.so: code for gfx1030 is found, once it is installed",
    ),
    // A directory with one wheel.
    (
        |it| {
            fs::create_dir(it.at("work/one")).unwrap();
            fs::copy(it.at("wheels/demo-1.0-py3-none-any.whl"), it.at("work/one/demo-1.0-py3-none-any.whl")).unwrap();
        },
        "gfx1030 work/one",
        "wheel-alone",
        "from where you have the wheel",
    ),
    // The targets of a wheel are not the GPUs of one machine.
    (fat_wheel, "gfx942,gfx1030 work/demo-1.0-py3-none-any.whl", "no-code", "no code for gfx942"),
    // One of several paths is not there.
    (|_| (), "gfx1030 work nowhere", "unknown", "nowhere: No such file"),
    // The others of several wheels are answered for.
    (
        |it| damaged_wheel(it, "demo-1.0-py3-none-any.whl"),
        "gfx1030 work/wheels",
        "unreadable",
        "work/wheels/demo-1.0-py3-none-any.whl: not a usable wheel",
    ),
    (
        |it| damaged_wheel(it, "amd_demo_device_gfx1030-1.0-py3-none-any.whl"),
        "gfx90a,gfx1030 work/wheels",
        "wheel-alone",
        "work/wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl cannot be read",
    ),
    (
        |it| damaged_wheel(it, "amd_demo_device_gfx1030-1.0-py3-none-any.whl"),
        "gfx90a work/wheels",
        "unreadable",
        "work/wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl: not a usable wheel",
    ),
    (
        |it| it.put("work/cut.tar", &[b'x'; 1000]),
        "gfx1030 work/cut.tar dirs",
        "unknown",
        "work/cut.tar: a file of no known format",
    ),
    // Splits and mounts.
    (|_| (), "gfx1030 dirs", "found", "is found"),
    (|_| (), "gfx942 dirs", "package-none", "the split has no part for gfx942"),
    (|_| (), "gfx1030 dirs/host", "host-part", "dirs/gfx1030 over it in one directory"),
    (|_| (), "gfx1030 views/host", "host-part", "views/merged/gfx1030 has both parts"),
    // A part or a view that is for another GPU.
    (views, "gfx1030 work/views/merged/gfx90a", "other-view", "work/views/merged/gfx1030, the view for gfx1030"),
    (views, "gfx1030 work/views/thin/gfx90a", "other-view", "work/views/thin/gfx1030, the view for gfx1030"),
    (views, "gfx1030 work/views/gfx90a", "other-view", "work/views/merged/gfx1030, the view for gfx1030"),
    (views, "gfx1030 work/views/merged/gfx1030", "found", "is found"),
    (|_| (), "gfx1030 dirs/gfx90a", "other-view", "dirs, which has the parts for gfx1030"),
    (|_| (), "gfx1030 dirs/gfx1030", "archive-alone", "no library there leads to the archive"),
    // Archives without their library are no answer, whatever is around the directory.
    (
        |_| (),
        "gfx1030 env/lib/python3.11/site-packages/demo/.kpack",
        "archive-alone",
        "no library there leads to the archive",
    ),
    // Files.
    // The archives of several GPUs side by side.
    (
        |_| (),
        "gfx1030,gfx90a env/lib/python3.11/site-packages/demo/.kpack",
        "archive-alone",
        "no library there leads to the archive",
    ),
    (|_| (), "gfx1030 dirs/gfx1030/demo/.kpack/demo_gfx1030.kpack", "found", "is found"),
    (|_| (), "gfx942 dirs/gfx1030/demo/.kpack/demo_gfx1030.kpack", "no-code", "the archive has code for gfx1030 only"),
    (
        |it| {
            let archive = it.at("dirs/gfx1030/demo/.kpack/demo_gfx1030.kpack");
            succeeds(Command::new(KPACKFS).args(["kpack", "extract"]).arg(archive).arg("-o").arg(it.at("work/code")));
            fs::rename(it.at("work/code/lib/plain.so.0.gfx1030.hsaco"), it.at("work/code/some.co")).unwrap();
        },
        "gfx90a work/code/some.co",
        "no-code",
        "the file is code for gfx1030",
    ),
    // Packages.
    (remove_device, "gfx1030 work", "package-missing", "install amd-demo-device-gfx1030==1.0 from where you have it"),
    (
        |it| {
            remove_device(it);
            it.put("work/pip.conf", b"[global]\nindex-url = https://pypi.org/simple\n");
        },
        "gfx1030 work",
        "package-missing",
        "a public index may have another package of that name",
    ),
    (
        |it| {
            remove_device(it);
            let url = br#"{"url": "https://wheels.example/demo-1.0-py3-none-any.whl", "archive_info": {}}"#;
            it.put(&format!("work/{SITE}/demo-1.0.dist-info/direct_url.json"), url);
        },
        "gfx1030 work",
        "package-missing",
        "demo came from https://wheels.example/demo-1.0-py3-none-any.whl: install amd-demo-device-gfx1030==1.0 from there",
    ),
    (
        |it| {
            remove_device(it);
            fs::remove_file(it.at("work").join(SITE).join("demo-1.0.dist-info/INSTALLER")).unwrap();
        },
        "gfx1030 work",
        "not-installed",
        "the wheel was unpacked, not installed: unpack amd-demo-device-gfx1030 1.0 over it",
    ),
    // The older of two dist-info directories is not that of the library.
    (
        |it| {
            several_versions(it);
            remove_device(it);
        },
        "gfx1030 work",
        "package-missing",
        "the package amd-demo-device-gfx1030 1.0 is not installed",
    ),
    (
        |it| {
            several_versions(it);
            fs::remove_file(it.at("work").join(ARCHIVE)).unwrap();
        },
        "gfx1030 work",
        "several-versions",
        "demo has several dist-info directories",
    ),
    // The marker leads to no archive, though there are some.
    (
        |it| {
            let directory = it.at("work/tree/lib");
            fs::create_dir_all(directory.join("../.kpack")).unwrap();
            fs::copy(it.at("work").join(LIBRARY), directory.join("plain.so")).unwrap();
            fs::copy(it.at("work").join(ARCHIVE), directory.join("../.kpack/other_gfx1030.kpack")).unwrap();
        },
        "gfx1030 work/tree",
        "archives-none",
        "the directory has other_gfx1030.kpack only, to which the marker does not lead",
    ),
];

/// A situation with a command, of which a part is given.
type Remedied = (fn(&Place), &'static str, &'static str, &'static str, &'static str);

const WITH_COMMAND: &[Remedied] = &[
    (
        |_| (),
        "gfx1030 wheels/demo-1.0-py3-none-any.whl",
        "wheel-alone",
        "which are in amd-demo-device-gfx1030 1.0",
        "pip install wheels/demo-1.0-py3-none-any.whl wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl",
    ),
    (
        |it| {
            remove_device(it);
            it.put("work/pip.conf", b"[global]\nextra-index-url = https://user:secret@wheels.example/simple\n");
        },
        "gfx1030 work",
        "package-missing",
        "(pip is configured to use https://wheels.example/simple)",
        "work/bin/python3.11 -m pip install --no-deps 'amd-demo-device-gfx1030==1.0'",
    ),
    (
        |it| {
            remove_device(it);
            let url =
                format!("{{\"url\": \"file://{}/wheels/demo.whl\", \"archive_info\": {{}}}}", it.0.path().display());
            it.put(&format!("work/{SITE}/demo-1.0.dist-info/direct_url.json"), url.as_bytes());
        },
        "gfx1030 work",
        "package-missing",
        "the extra device-gfx1030 of demo requires it",
        "work/bin/python3.11 -m pip install --no-deps /",
    ),
    (
        |it| {
            remove_device(it);
            fs::rename(it.at("work").join(SITE), it.at("work/target")).unwrap();
            let_uv_find_wheels(it);
        },
        "gfx1030 work/target",
        "package-missing",
        "is not installed",
        "uv pip install --target ",
    ),
    // What uv installed is a hard link into its cache, where damage is, too.
    (
        |it| {
            for name in ["demo-1.0", DEVICE] {
                it.put(&format!("work/{SITE}/{name}.dist-info/INSTALLER"), b"uv\n");
            }
            it.put(&format!("work/{SITE}/demo/.kpack/demo_gfx1030.kpack"), b"KPAK");
            let_uv_find_wheels(it);
        },
        "gfx1030 work",
        "archive-damaged",
        "demo_gfx1030.kpack is damaged",
        "/work/bin/python3.11 --reinstall --no-deps --no-cache ",
    ),
    // With symlinks into uv's cache there is an unpacked wheel behind each, and a runtime looks for archives there.
    (
        |it| {
            remove_device(it);
            let (site, cache) = (it.at("work").join(SITE), it.at("home/cache"));
            fs::create_dir_all(cache.join("demo/lib")).unwrap();
            copy_all(site.join("demo-1.0.dist-info"), cache.join("demo-1.0.dist-info"));
            fs::remove_file(cache.join("demo-1.0.dist-info/INSTALLER")).unwrap();
            fs::rename(site.join("demo/lib/plain.so"), cache.join("demo/lib/plain.so")).unwrap();
            symlink(cache.join("demo/lib/plain.so"), site.join("demo/lib/plain.so")).unwrap();
            it.put(&format!("work/{SITE}/demo-1.0.dist-info/INSTALLER"), b"uv\n");
            let_uv_find_wheels(it);
        },
        "gfx1030 work",
        "package-missing",
        "the extra device-gfx1030 of demo requires it",
        "/work/bin/python3.11 --reinstall --no-deps --no-cache --link-mode copy ",
    ),
    // Modes.
    (mode, "gfx90a work/modes/only", "other-mode", "its features differ", "export HSA_XNACK=1"),
    (mode, "gfx90a:xnack- --wrapper 0 work/thin", "other-mode", "its features differ", "export HSA_XNACK=1"),
];

#[test]
fn each_situation_has_the_right_answer() {
    let place = Place::new();
    let plain = CASES.iter().map(|&(change, arguments, outcome, sentence)| (change, arguments, outcome, sentence, ""));
    for (change, arguments, outcome, sentence, command) in plain.chain(WITH_COMMAND.iter().copied()) {
        change(place.restored());
        let answer = place.why(&[], &format!("--target {arguments}"));
        let context = format!("{arguments}: {answer:#}");
        let is_status = ["found", "unreadable", "unknown", "nothing"].contains(&outcome);
        let (status, cause) = if is_status { (outcome, "") } else { ("no-code", outcome) };
        assert_eq!(answer["status"], status, "{context}");
        assert_eq!(answer["causes"][0]["id"].as_str().unwrap_or_default(), cause, "{context}");
        assert!(answer["sentence"].as_str().unwrap().contains(sentence), "{context}");
        let printed = answer["command"].as_str();
        assert_eq!(printed.is_none(), command.is_empty(), "{context}");
        assert!(printed.unwrap_or_default().contains(command), "{context}");
        assert!(!answer.to_string().contains("secret"), "{context}");
        let is_packed = arguments.contains("wheel") || arguments.contains(".whl") || arguments.ends_with(" dirs");
        assert!(is_packed || !answer["sentence"].as_str().unwrap().contains("once it is installed"), "{context}");
        if let Some(export) = printed.filter(|it| it.starts_with("export ")) {
            let (name, value) = export.trim_start_matches("export ").split_once('=').unwrap();
            let again = place.why(&[(name, value)], &format!("--target {}", arguments.replace(":xnack-", "")));
            assert_eq!(again["status"], "found", "{context}: {again:#}");
        }
    }
}

/// Root may read everything, so another user asks.
#[test]
fn what_may_not_be_read_is_named() {
    let place = Place::new();
    let is_root = rustix::process::geteuid().is_root();
    let program = copied_program(place.0.path());
    let why = || {
        let mut command = if is_root { Command::new("setpriv") } else { Command::new(&program) };
        if is_root {
            command.args(["--reuid=65534", "--clear-groups"]).arg(&program);
        }
        let output = command.args(["why", "--json", "--target", "gfx1030"]).arg(place.at("work")).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap(), answer)
    };
    let closed = |path: &str, mode: u32| {
        fs::set_permissions(place.at("work").join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, command) in [(".kpack", "chmod a+rx "), (".kpack/demo_gfx1030.kpack", "chmod a+r ")] {
        place.restored();
        closed(&format!("{SITE}/demo/{path}"), 0);
        let (code, answer) = why();
        assert_eq!((code, &answer["causes"][0]["id"]), (1, &"archive-denied".into()), "{answer:#}");
        let printed = answer["command"].as_str().unwrap();
        assert!(printed.starts_with(command) && printed.ends_with(path), "{answer:#}");
        succeeds(Command::new("sh").args(["-c", printed]));
        assert_eq!(why().0, 0);
    }
    place.restored();
    let secret = format!("{SITE}/demo/lib/secret.so");
    fs::copy(place.at("work").join(LIBRARY), place.at("work").join(&secret)).unwrap();
    closed(&secret, 0);
    let (code, answer) = why();
    assert_eq!((code, &answer["status"], &answer["found"]), (3, &"unreadable".into(), &false.into()), "{answer:#}");
    assert!(answer["unread"][0].as_str().unwrap().contains("secret.so: Permission denied"), "{answer:#}");
    place.restored();
    fs::create_dir(place.at("work").join(SITE).join("demo/closed")).unwrap();
    closed(&format!("{SITE}/demo/closed"), 0o711);
    let (code, answer) = why();
    assert_eq!((code, &answer["status"]), (3, &"unreadable".into()), "{answer:#}");
    assert!(
        answer["unread"][0].as_str().unwrap().ends_with("demo/closed: Permission denied (os error 13)"),
        "{answer:#}"
    );
}

/// A process that reads an object of an archive whole needs as much memory as the object has bytes.
#[test]
fn a_large_code_object_is_read_in_pieces() {
    let place = Place::new();
    let code = place.at("large.co");
    // Zeros behind a code object compress to little.
    let archive = place.at("dirs/gfx1030/demo/.kpack/demo_gfx1030.kpack");
    succeeds(Command::new(KPACKFS).args(["kpack", "extract"]).arg(archive).arg("-o").arg(place.at("code")));
    fs::copy(place.at("code/lib/plain.so.0.gfx1030.hsaco"), &code).unwrap();
    fs::File::options().append(true).open(&code).unwrap().set_len(600 << 20).unwrap();
    place.restored();
    let mut archive = fs::File::create(place.at("work").join(ARCHIVE)).unwrap();
    archive.write_all(&large_archive(&code)).unwrap();
    let mut command = Command::new("sh");
    let limit = "ulimit -v 450000; exec \"$0\" why --memory 64 --json --target gfx1030 \"$1\"";
    let output = command.args(["-c", limit, KPACKFS]).arg(place.at("work")).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(answer["status"], "found", "{answer:#}");
}

/// An archive with one compressed code object.
fn large_archive(code: &Path) -> Vec<u8> {
    let mut frame = Vec::new();
    let size = fs::metadata(code).unwrap().len();
    zstd::stream::copy_encode(fs::File::open(code).unwrap(), &mut frame, 1).unwrap();
    let entry = |key: &str| {
        let entry = rmpv(&[("type", text("hsaco")), ("ordinal", vec![0]), ("original_size", number(size))]);
        (key.to_owned(), rmpv(&[("gfx1030", entry)]))
    };
    let keys: Vec<_> = ["lib/plain.so#0", "lib/plain.so#1"].map(entry).into();
    let keys: Vec<_> = keys.iter().map(|(key, entry)| (key.as_str(), entry.clone())).collect();
    let mut blob = 1_u32.to_le_bytes().to_vec();
    blob.extend(u32::try_from(frame.len()).unwrap().to_le_bytes());
    blob.extend(frame);
    let toc = rmpv(&[
        ("format_version", vec![1]),
        ("group_name", text("demo")),
        ("gfx_arch_family", text("gfx1030")),
        ("gfx_arches", [vec![0x91], text("gfx1030")].concat()),
        ("compression_scheme", text("zstd-per-kernel")),
        ("zstd_offset", vec![64]),
        ("zstd_size", number(blob.len() as u64)),
        ("toc", rmpv(&keys)),
    ]);
    let mut archive = b"KPAK\x01\0\0\0".to_vec();
    archive.extend((64 + blob.len() as u64).to_le_bytes());
    archive.resize(64, 0);
    [archive, blob, toc].concat()
}

/// A `MessagePack` map of at most 15 encoded values.
fn rmpv(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut map = vec![0x80 | u8::try_from(fields.len()).unwrap()];
    for (name, value) in fields {
        map.extend(text(name));
        map.extend(value);
    }
    map
}

fn text(text: &str) -> Vec<u8> {
    [&[0xd9, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn number(number: u64) -> Vec<u8> {
    [&[0xcf][..], &number.to_be_bytes()].concat()
}

/// An upgrade replaces files that a program goes on to use.
#[test]
fn libraries_that_a_process_has_loaded_and_that_are_gone_are_named() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for name in ["plain.so", "mixed.so", "host-only.so"] {
        fs::copy(fixture(name), at(name)).unwrap();
    }
    let map = "import mmap, sys\nfiles = [open(p, 'rb') for p in sys.argv[1:]]\n\
               maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]\n\
               print('mapped', flush=True)\nsys.stdin.read()";
    let mut process = Command::new("python3");
    process.args(["-c", map]).args(["plain.so", "mixed.so", "host-only.so"].map(at));
    let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let why = || {
        let output = Command::new(KPACKFS)
            .args(["why", "--json", "--target", "gfx90a", "--pid", &process.id().to_string()])
            .output()
            .unwrap();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    assert_eq!(why().0, Some(0));
    fs::remove_file(at("host-only.so")).unwrap();
    // The kernel shows only root what was deleted.
    assert_eq!(why().0, Some(if rustix::process::geteuid().is_root() { 0 } else { 3 }), "it has no device code");
    fs::rename(at("mixed.so"), at("plain.so")).unwrap();
    let (code, answer) = why();
    let gone = |name: &str| {
        let process = process.id();
        format!(
            "{}: deleted or replaced since process {process} loaded it, as by an upgrade; restart the program, and ask again",
            at(name).display()
        )
    };
    // The other file is where it was moved to.
    assert_eq!((code, &answer["unread"]), (Some(3), &serde_json::json!([gone("plain.so")])), "{answer}");
    fs::remove_file(at("plain.so")).unwrap();
    let (code, answer) = why();
    assert_eq!(code, Some(3), "{answer}");
    let unread: BTreeSet<_> =
        answer["unread"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect();
    assert!(unread.contains(&gone("plain.so")), "{answer}");
    drop(process.stdin.take());
    process.wait().unwrap();
}
