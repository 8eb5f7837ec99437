//! Package indexes: what `split --format index` writes, read by Python and installed from by pip.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::{Files, assert_same, files_below, fixture, program, run, skipped};
use crate::wheels_mount::wheels::{Mount, python, small, split, wheel};

/// A wheel with device code and one without, in a directory of their own.
pub(crate) fn release(directory: &TempDir) -> PathBuf {
    small(directory);
    wheel(directory, "rocm_bootstrap", &[("rocm_bootstrap/__init__.py", Vec::new())]);
    directory.path().to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    kpackfs::split::hex(&Sha256::digest(bytes))
}

/// Splits into an index, and returns its files.
fn index(inputs: &[&Path], arguments: &[&str]) -> (TempDir, Files) {
    let out = tempfile::tempdir().unwrap();
    let mut split = program();
    split.arg("split").args(inputs).arg("-o").arg(out.path()).args(["--format", "index"]).args(arguments);
    run(&mut split);
    let written = files_below(&out.path().join("simple"));
    (out, written)
}

/// Checks each page, and that the index has nothing else. Returns the file names of all wheels.
pub(crate) fn check_pages(index: &Files, version: &str) -> BTreeSet<String> {
    let parsed = |path: &str| serde_json::from_slice::<Value>(&index[Path::new(path)]).unwrap();
    let root = parsed("index.json");
    assert_eq!(root["meta"]["api-version"], version);
    let mut seen: BTreeSet<PathBuf> = ["index.html", "index.json"].map(PathBuf::from).into();
    let mut names = BTreeSet::new();
    for project in root["projects"].as_array().unwrap() {
        let project = project["name"].as_str().unwrap();
        let page = parsed(&format!("{project}/index.json"));
        let html = String::from_utf8(index[Path::new(&format!("{project}/index.html"))].clone()).unwrap();
        seen.extend(["index.html", "index.json"].map(|name| Path::new(project).join(name)));
        for file in page["files"].as_array().unwrap() {
            let name = file["filename"].as_str().unwrap();
            let path = Path::new(project).join(name);
            let metadata = Path::new(project).join(format!("{name}.metadata"));
            let (bytes, text) = (&index[&path], &index[&metadata]);
            if version == "1.1" {
                assert_eq!(file["size"].as_u64(), Some(bytes.len() as u64), "{name}");
                assert_eq!(file["hashes"]["sha256"], sha256(bytes), "{name}");
                assert!(html.contains(&format!("#sha256={}\"", sha256(bytes))), "{html}");
            }
            assert_eq!(file["core-metadata"]["sha256"], sha256(text), "{name}");
            // Its readers of pip before 23.2 have faults (PEP 714).
            assert!(file.get("dist-info-metadata").is_none() && !html.contains("dist-info-metadata"), "{html}");
            assert!(html.contains(&format!("data-core-metadata=\"sha256={}\"", sha256(text))), "{html}");
            seen.extend([path, metadata]);
            names.insert(name.to_owned());
        }
    }
    assert_eq!(seen, index.keys().cloned().collect());
    names
}

/// The METADATA next to a wheel is that in it, as Python reads it.
fn check_metadata(directory: &Path) {
    let script = "import pathlib, sys, zipfile
for path in pathlib.Path(sys.argv[1]).rglob('*.whl'):
    with zipfile.ZipFile(path) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith('.dist-info/METADATA')]
        assert wheel.read(name) == path.with_name(path.name + '.metadata').read_bytes(), path";
    python(["-c", script, directory.to_str().unwrap()]);
}

#[test]
fn an_index_has_the_parts_and_wheels_without_device_code_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let (out, written) = index(&[&inputs], &[]);
    let names = check_pages(&written, "1.1");
    check_metadata(out.path());
    let [small, plain] = ["small-1.0-py3-none-any.whl", "rocm_bootstrap-1.0-py3-none-any.whl"];
    let parts = files_below(split(&inputs.join(small), &["--format", "wheel"]).path());
    for (name, bytes) in &parts {
        let name = name.to_str().unwrap();
        let project = name.split('-').next().unwrap().replace('_', "-");
        assert!(written.get(&Path::new(&project).join(name)) == Some(bytes), "{name} differs");
    }
    assert_eq!(written[Path::new(&format!("rocm-bootstrap/{plain}"))], fs::read(inputs.join(plain)).unwrap());
    assert_eq!(names.len(), parts.len() + 1);
    // The order of inputs, and the number of threads, change nothing.
    let [first, second] = [plain, small].map(|name| inputs.join(name));
    let (_out, again) = index(&[&first, &second], &["-j", "1"]);
    assert!(again == written, "another order gives other files");
}

#[test]
fn a_split_of_wheels_becomes_an_index_of_their_parts() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let fat = inputs.join("small-1.0-py3-none-any.whl");
    let (_out, expected) = index(&[&fat], &[]);
    // Host and device wheels are recognised as one set next to other wheels.
    let parts = split(&fat, &["--format", "wheel"]);
    fs::copy(
        inputs.join("rocm_bootstrap-1.0-py3-none-any.whl"),
        parts.path().join("rocm_bootstrap-1.0-py3-none-any.whl"),
    )
    .unwrap();
    let (_out, written) = index(&[parts.path()], &[]);
    let names = check_pages(&written, "1.1");
    let expected = check_pages(&expected, "1.1");
    assert_eq!(names.difference(&expected).collect::<Vec<_>>(), ["rocm_bootstrap-1.0-py3-none-any.whl"]);
    assert!(expected.is_subset(&names));
}

#[test]
fn wheels_that_cannot_be_in_one_index_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let other = tempfile::tempdir().unwrap();
    let plain = inputs.join("rocm_bootstrap-1.0-py3-none-any.whl");
    let refused = |name: &str, part_of_message: &str| {
        let second = other.path().join(name);
        fs::copy(&plain, &second).unwrap();
        let out = other.path().join("out");
        let output =
            program().arg("split").args([&plain, &second]).arg("-o").arg(&out).args(["--format", "index"]).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(part_of_message) && error.contains(name), "{error}");
        assert!(!out.join("simple").exists());
    };
    refused("rocm_bootstrap-1.0-py3-none-any.whl", "both are rocm-bootstrap 1.0");
    refused("ROCM.Bootstrap-1.0-py3-none-any.whl", "both are rocm-bootstrap 1.0");
    refused("rocm_bootstrap-1.0-py3-none-a<b>.whl", "is not the name of a wheel");
}

#[test]
fn an_index_is_replaced_only_with_force() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let plain = inputs.join("rocm_bootstrap-1.0-py3-none-any.whl");
    let (out, _) = index(&[&plain], &[]);
    let again = || {
        let mut split = program();
        split.arg("split").arg(&inputs).arg("-o").arg(out.path()).args(["--format", "index"]);
        split
    };
    let output = again().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    run(again().arg("--force"));
    assert!(check_pages(&files_below(&out.path().join("simple")), "1.1").len() > 1);
}

#[test]
fn pip_installs_from_an_index_by_digest() {
    if !Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return skipped("python3 has no pip");
    }
    let directory = tempfile::tempdir().unwrap();
    let (out, written) = index(&[&release(&directory)], &[]);
    let lock = directory.path().join("requirements.txt");
    let line = |project: &str, name: &str| {
        let digest = sha256(&written[Path::new(&format!("{project}/{name}-1.0-py3-none-any.whl"))]);
        format!("{project}==1.0 --hash=sha256:{digest}\n")
    };
    let device = line("amd-small-device-gfx90a", "amd_small_device_gfx90a");
    fs::write(&lock, line("small", "small") + &line("rocm-bootstrap", "rocm_bootstrap") + &device).unwrap();
    let install = |arguments: &[&str]| {
        let target = tempfile::tempdir().unwrap();
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--isolated", "--no-cache-dir", "--quiet", "--no-compile", "--index-url"]);
        pip.arg(format!("file://{}/simple/", out.path().display())).arg("--target").arg(target.path());
        run(pip.args(arguments));
        files_below(target.path())
            .into_keys()
            .filter(|path| !path.to_string_lossy().contains(".dist-info"))
            .collect::<Vec<_>>()
    };
    let by_extra = install(&["small[device-gfx90a]"]);
    assert!(by_extra.contains(&PathBuf::from("small/.kpack/small_gfx90a.kpack")), "{by_extra:?}");
    assert_eq!(install(&["--require-hashes", "-r", lock.to_str().unwrap()]), by_extra);
}

#[test]
fn a_mount_of_several_wheels_shows_what_split_writes() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let cache = tempfile::tempdir().unwrap();
    // `split` deflates what a mount stores by default.
    let cached = ["--cache-dir", cache.path().to_str().unwrap(), "--deflate", "6"];
    let (_out, written) = index(&[&inputs], &["--no-cache"]);
    let Some(mount) = Mount::new(&inputs, &cached) else { return };
    // Nothing is known about the wheels, and pages do not wait for that.
    let shown = files_below(&mount.at("simple"));
    assert_eq!(check_pages(&shown, "1.0"), check_pages(&written, "1.1"));
    let is_page = |path: &Path| path.extension().is_some_and(|suffix| suffix == "html" || suffix == "json");
    let without_pages = |index: &Files| -> Files {
        index.iter().filter(|(path, _)| !is_page(path)).map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
    };
    assert_same(&without_pages(&written), &without_pages(&shown), "split and a mount");
    drop(mount);

    run(program().arg("index").arg(&inputs).arg("--wheel-digests").args(cached));
    let mount = Mount::new(&inputs, &cached).unwrap();
    assert_same(&written, &files_below(&mount.at("simple")), "split and a mount with digests");
    let all = fs::read_dir(mount.at("wheels")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(all.collect::<BTreeSet<_>>(), check_pages(&written, "1.1"));
    // Each wheel has the views that it has alone.
    let alone = Mount::new(&inputs.join("small-1.0-py3-none-any.whl"), &cached).unwrap();
    for view in ["host", "gfx90a", "merged/gfx90a", "thin/gfx1030", "thin-wheels/gfx1030"] {
        let there = files_below(&mount.at(&format!("small/1.0/py3-none-any/{view}")));
        assert_same(&files_below(&alone.at(view)), &there, view);
    }
    assert!(mount.at("rocm-bootstrap/1.0/py3-none-any/host/rocm_bootstrap/__init__.py").exists());
    let listed = run(Command::new("ls").arg(mount.at("")));
    assert!(listed.contains("simple\n") && !listed.contains("simple-thin"), "{listed}");
    let thin = files_below(&mount.at("simple-thin/gfx1030"));
    assert_eq!(check_pages(&thin, "1.0").len(), 2);
    assert_same(&thin, &merged(&thin, &files_below(&alone.at("simple-thin/gfx1030"))), "one wheel and several");
}

/// These files, with those of the projects of another index.
fn merged(all: &Files, other: &Files) -> Files {
    let of_projects = other.iter().filter(|(path, _)| path.parent() != Some(Path::new("")));
    let mut all = all.clone();
    all.extend(of_projects.map(|(path, bytes)| (path.clone(), bytes.clone())));
    all
}

#[test]
fn a_wheel_that_changes_fails_alone() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let Some(mount) = Mount::new(&inputs, &["--no-cache"]) else { return };
    let plain = "rocm_bootstrap-1.0-py3-none-any.whl";
    fs::write(inputs.join(plain), b"another one").unwrap();
    for path in [format!("wheels/{plain}"), format!("simple/rocm-bootstrap/{plain}")] {
        let error = fs::read(mount.at(&path)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{path}: {error}");
    }
    assert!(!fs::read(mount.at("wheels/small-1.0-py3-none-any.whl")).unwrap().is_empty());
    assert!(!fs::read(mount.at("small/1.0/py3-none-any/gfx90a/small/.kpack/small_gfx90a.kpack")).unwrap().is_empty());
    let page = fs::read_to_string(mount.at("simple/rocm-bootstrap/index.html")).unwrap();
    assert!(page.contains(plain), "{page}");
}

#[test]
fn several_wheels_are_planned_once_and_listed_in_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    wheel(&directory, "other", &[("other/lib.so", fixture("plain.so")), ("other/data", vec![7; 1 << 16])]);
    let cache = tempfile::tempdir().unwrap();
    let cached = ["--cache-dir", cache.path().to_str().unwrap()];
    let table = run(program().arg("inspect").arg(&inputs).arg("--sizes").args(cached));
    let row =
        |name: &str| table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{table}")).to_owned();
    assert!(row("small-1.0-py3-none-any.whl").ends_with("gfx1030 gfx11 gfx1100 gfx90a gfx942"), "{table}");
    assert!(!row("rocm_bootstrap-1.0").contains("gfx"), "{table}");
    assert!(table.contains("3 wheels") && row("gfx942 ").contains('%'), "{table}");
    // The index has what planning finds about each of them.
    let Some(mount) = Mount::new(&inputs, &cached) else { return };
    let inflated = mount.counter("bytes_inflated");
    drop(mount);
    let metadata = 16 << 10;
    assert!(inflated < metadata, "{inflated} bytes were inflated again");
}

/// Each wheel takes one descriptor, and METADATA and signatures none.
#[test]
fn a_release_needs_one_descriptor_for_each_wheel() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..40 {
        wheel(&directory, &format!("plain{number}"), &[("x", Vec::new())]);
    }
    let limited = |limit: u32| {
        let out = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &limit.to_string(), env!("CARGO_BIN_EXE_kpackfs")]);
        shell.arg("split").arg(directory.path()).arg("-o").arg(out.path()).args(["--format", "index", "--no-cache"]);
        let output = shell.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (is_done, said) = limited(70);
    assert!(is_done, "{said}");
    let (is_done, said) = limited(35);
    assert!(!is_done && said.contains("may have 35 files open") && said.contains("ulimit"), "{said}");
}

/// A wheel that stays as it is keeps what was signed about it.
#[test]
fn signatures_of_wheels_that_stay_as_they_are_stay_next_to_them() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let [plain, small] = ["rocm_bootstrap-1.0-py3-none-any.whl", "small-1.0-py3-none-any.whl"];
    let suffixes = [".asc", ".publish.attestation", ".sigstore.json"];
    for (wheel, suffix) in [plain, small].iter().flat_map(|wheel| suffixes.map(|suffix| (wheel, suffix))) {
        fs::write(inputs.join(format!("{wheel}{suffix}")), suffix).unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    let mut split = program();
    split.arg("split").arg(&inputs).arg("-o").arg(out.path()).args(["--format", "index"]);
    let output = split.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let mut written = files_below(&out.path().join("simple"));
    for suffix in suffixes {
        let kept = written.remove(Path::new(&format!("rocm-bootstrap/{plain}{suffix}")));
        assert_eq!(kept.as_deref(), Some(suffix.as_bytes()));
        assert!(said.contains(&format!("{small}{suffix}: it is for the input only")), "{said}");
    }
    assert!(said.matches("for the input only").count() == suffixes.len(), "{said}");
    check_pages(&written, "1.1");
    let [with, without] = ["rocm-bootstrap", "small"]
        .map(|project| String::from_utf8(written[Path::new(&format!("{project}/index.html"))].clone()).unwrap());
    assert!(with.contains("data-gpg-sig=\"true\"") && !without.contains("gpg-sig"), "{with}{without}");
}
