//! Wheels in a mount: the same as `split` writes, checked by Python and installed by pip, at the documented cost.

mod costs;
mod directories;
mod edges;
mod index;
mod simple;
mod times;
mod wheels;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{assert_same, files_below, fixture, run, skipped};
use wheels::{Mount, complaints, inspect, kpackfs, python, small, split, torch, unpacked, wheel, wheel_names};

/// All ways to get a wheel give the same bytes, and they are right.
fn check(input: &Path, minimum: usize) {
    let written = split(input, &["--format", "wheel", "-j", "1"]);
    let wheels = files_below(written.path());
    assert!(wheels.len() >= minimum, "{:?}", wheels.keys());
    assert_eq!(complaints(written.path()), "");
    let again = split(input, &["--output-format", "wheel", "-j", "2"]);
    assert_same(&wheels, &files_below(again.path()), "one thread and two");

    let parts = split(input, &[]);
    let names = wheel_names(input);
    assert_eq!(names.len(), wheels.len());
    for (part, name) in &names {
        let there = unpacked(&written.path().join(name));
        assert_same(&files_below(&parts.path().join(part)), &there, &format!("{part} and {name}"));
    }
    let sizes = inspect(input, &["--sizes"]);
    for (part, name) in &names {
        let wheel = if part == "host" { &sizes["host_wheels"][0] } else { &sizes["parts"][part]["wheel"] };
        assert_eq!(wheel["size"].as_u64(), Some(wheels[Path::new(name)].len() as u64), "{name}");
    }
    for (gpu, user) in sizes["users"].as_object().unwrap() {
        let keys = user["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap());
        let download: usize = keys.chain(["host"]).map(|part| wheels[Path::new(&names[part])].len()).sum();
        assert_eq!(user["download_size"].as_u64(), Some(download as u64), "{gpu}");
    }

    let mount = |options: [&str; 4]| Mount::new(input, &options);
    let Some(one) = mount(["-j", "1", "--deflate", "6"]) else { return };
    let Some(two) = mount(["-j", "2", "--deflate", "6"]) else { return };
    // The second mount reads in another order: parts before wheels.
    for part in names.keys().rev() {
        assert_same(&files_below(&parts.path().join(part)), &files_below(&two.at(part)), part);
    }
    assert_same(&wheels, &files_below(&one.at("wheels")), "split and a mount");
    assert_same(&wheels, &files_below(&two.at("wheels")), "split and another mount");
    let stored = split(input, &["--format", "wheel", "--deflate", "0"]);
    let Some(plain) = mount(["-j", "2", "--deflate", "0"]) else { return };
    assert_same(&files_below(stored.path()), &files_below(&plain.at("wheels")), "split and a mount without deflating");
}

#[test]
fn torch_is_the_same_whichever_way() {
    let directory = tempfile::tempdir().unwrap();
    check(&torch(&directory), 20);
}

#[test]
fn several_packages_and_a_data_directory_are_the_same_whichever_way() {
    let directory = tempfile::tempdir().unwrap();
    let input = small(&directory);
    check(&input, 5);

    // The device wheel has a data directory of its own.
    let names = wheel_names(&input);
    let written = split(&input, &["--format", "wheel"]);
    let there = unpacked(&written.path().join(&names["gfx942"]));
    assert!(
        there.contains_key(Path::new("amd_small_device_gfx942-1.0.data/platlib/placed/rocblas/library/gfx942/x.dat"))
    );
    let there = unpacked(&written.path().join(&names["gfx90a"]));
    assert!(there.contains_key(Path::new("amd_small_device_gfx90a-1.0.data/platlib/placed/.kpack/small_gfx90a.kpack")));
    assert!(there.contains_key(Path::new("small/.kpack/small_gfx90a.kpack")));
}

#[test]
fn listing_costs_nothing_and_copying_little() {
    let directory = tempfile::tempdir().unwrap();
    let input = torch(&directory);
    let Some(mount) = Mount::new(&input, &[]) else { return };
    let planned = mount.work();
    assert_eq!((planned["bytes_deflated"], planned["frames_made"]), (0, 0));
    let wheels = mount.at("wheels");
    let listed = run(Command::new("ls").arg(&wheels));
    assert_eq!(listed.lines().count(), wheel_names(&input).len());
    run(Command::new("find").arg(&wheels));
    // Listing the directory of an architecture begins with its archives.
    run(Command::new("find").arg(mount.at("")).args(["-maxdepth", "3", "-path", "*/gfx*", "-prune"]));
    assert_eq!(mount.work(), planned, "listing");

    // All of gfx942 is databases, whose bytes the fat wheel has, compressed, with their digests.
    let names = wheel_names(&input);
    fs::read(wheels.join(&names["gfx942"])).unwrap();
    let mut zip = zip::ZipArchive::new(fs::File::open(&input).unwrap()).unwrap();
    let record = zip.by_name("torch-2.10.0+rocm7.1.dist-info/RECORD").unwrap().size();
    let mut copied = mount.work();
    *copied.get_mut("bytes_inflated").unwrap() -= record;
    assert_eq!(copied, planned, "copying databases reads RECORD");

    // The size of a wheel is that of its archives, and of nobody else's.
    let report = inspect(&input, &[]);
    let archives = report["device"]["gfx1100"]["archives"].as_array().unwrap();
    let code_objects: u64 = archives.iter().map(|archive| archive["code_objects"].as_u64().unwrap()).sum();
    let before = mount.counter("frames_made");
    wheels.join(&names["gfx1100"]).metadata().unwrap();
    let made = mount.counter("frames_made") - before;
    assert!((1..=code_objects).contains(&made), "{made} of {code_objects}");
    assert_eq!(mount.counter("bytes_deflated"), planned["bytes_deflated"]);
    wheels.join(&names["gfx1100"]).metadata().unwrap();
    fs::read(mount.at("gfx1100/torch/.kpack/torch_gfx1100.kpack")).unwrap();
    assert_eq!(mount.counter("frames_made") - before, made, "once");
}

#[test]
fn the_host_wheel_is_mostly_what_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let input = wheel(&directory, "other", &[("other/x.so", fixture("plain.so"))]);
    let short = inspect(&input, &[])["binaries"][0]["host_size"].as_u64().unwrap();
    let input = small(&directory);
    let names = wheel_names(&input);
    let Some(mount) = Mount::new(&input, &[]) else { return };
    fs::read(mount.at("wheels").join(&names["host"])).unwrap();
    let binaries = inspect(&input, &[])["binaries"].clone();
    let rewritten: u64 = binaries.as_array().unwrap().iter().map(|binary| binary["host_size"].as_u64().unwrap()).sum();
    let deflated = mount.counter("bytes_deflated");
    assert!(rewritten > (1 << 20) + short, "{rewritten}");
    assert!(deflated < rewritten / 5, "{deflated} of {rewritten}");
    assert_eq!(mount.counter("frames_made"), 0);
}

#[test]
fn files_have_the_time_of_source_date_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let input = small(&directory);
    let split_at = |time: &str, out: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.arg("split").arg(&input).arg("-o").arg(out).args(["--format", "wheel"]);
        command.env("SOURCE_DATE_EPOCH", time).output().unwrap()
    };
    let out = directory.path().join("out");
    assert!(split_at("1600000000", &out).status.success());
    let times = "import sys, zipfile\nfor path in sys.argv[1:]:\n    print({i.date_time for i in zipfile.ZipFile(path).infolist()})";
    let wheels: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    let printed = run(Command::new("python3").args(["-c", times]).args(&wheels));
    assert_eq!(printed, "{(2020, 9, 13, 12, 26, 40)}\n".repeat(wheels.len()));

    let refused = split_at("yesterday", &directory.path().join("none"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("SOURCE_DATE_EPOCH"), "{refused:?}");
}

#[test]
fn pip_installs_from_the_mount() {
    if !Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return skipped("python3 has no pip");
    }
    let directory = tempfile::tempdir().unwrap();
    let input = small(&directory);
    let Some(mount) = Mount::new(&input, &[]) else { return };
    let stub = tempfile::tempdir().unwrap();
    wheel(&stub, "rocm_bootstrap", &[("rocm_bootstrap/__init__.py", Vec::new())]);
    for extra in ["gfx90a", "device-gfx1100", "all"] {
        let target = tempfile::tempdir().unwrap();
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--isolated", "--no-index", "--no-cache-dir", "--quiet", "--no-compile"]);
        pip.arg("--find-links").arg(mount.at("wheels")).arg("--find-links").arg(stub.path());
        run(pip.arg(format!("small[{extra}]==1.0")).arg("--target").arg(target.path()));
        let installed = files_below(target.path());
        let expected = split(&input, &[]);
        let keys: &[&str] = match extra {
            "gfx90a" => &["host", "gfx90a"],
            "device-gfx1100" => &["host", "gfx1100", "gfx11"],
            _ => &["host", "gfx90a", "gfx1100", "gfx11", "gfx1030", "gfx942"],
        };
        let mut payload = 0;
        for key in keys {
            for (path, content) in files_below(&expected.path().join(key)) {
                let path = path.to_str().unwrap();
                if path.contains(".dist-info/") {
                    continue;
                }
                let installed_as = path.split_once(".data/platlib/").map_or(path, |(_, path)| path);
                assert_eq!(installed.get(Path::new(installed_as)), Some(&content), "{extra}: {path}");
                payload += 1;
            }
        }
        let is_payload = |path: &&std::path::PathBuf| {
            let first = path.components().next().unwrap().as_os_str().to_str().unwrap();
            !first.ends_with(".dist-info") && first != "rocm_bootstrap"
        };
        assert_eq!(installed.keys().filter(is_payload).count(), payload, "{extra}: {:?}", installed.keys());
    }
}

#[test]
fn a_wheel_with_nothing_to_split() {
    let directory = tempfile::tempdir().unwrap();
    let input = wheel(&directory, "plain", &[("plain/__init__.py", b"x = 1\n".to_vec())]);
    let out = directory.path().join("out");
    let (path, out_path) = (input.to_str().unwrap(), out.to_str().unwrap());
    let output = kpackfs(["split", path, "-o", out_path, "--format", "wheel"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no device code for AMD's GPUs and no kernel databases"), "{error}");
    assert!(!out.exists());
    assert_eq!(inspect(&input, &[])["device"], serde_json::json!({}));
    let Some(mount) = Mount::new(&input, &[]) else { return };
    assert_eq!(fs::read(mount.at("host/plain/__init__.py")).unwrap(), b"x = 1\n");
    assert!(mount.at("host/plain-1.0.dist-info/RECORD").exists());
    assert_eq!(complaints(&mount.at("wheels")), "");
}

#[test]
fn a_library_that_cannot_be_read_is_named_once() {
    let directory = tempfile::tempdir().unwrap();
    let input = wheel(
        &directory,
        "damaged",
        &[("damaged/lib.so", fixture("plain.so")), ("damaged/other.so", fixture("mixed.so"))],
    );
    let mut bytes = fs::read(&input).unwrap();
    // Its name first stands in its local header, and its deflate stream behind that.
    let name = b"damaged/lib.so";
    let begin = bytes.windows(name.len()).position(|there| there == name).unwrap() + name.len();
    bytes[begin..begin + 64].fill(0xff);
    fs::write(&input, bytes).unwrap();
    let output = kpackfs(["inspect", input.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.starts_with("kpackfs: warning: damaged/lib.so: not split: "), "{said}");
    assert_eq!(said.matches("lib.so").count(), 1, "{said}");
}

#[test]
fn a_wheel_with_databases_only() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["gfx90a", "gfx1100"].map(|arch| format!("d/rocblas/library/{arch}/x.dat"));
    let payload: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_bytes().to_vec())).collect();
    let input = wheel(&directory, "d", &payload);
    check(&input, 3);
    let out = directory.path().join("out");
    let (path, out) = (input.to_str().unwrap(), out.to_str().unwrap());
    let output = kpackfs(["split", "--databases", "miopen", path, "-o", out, "--format", "wheel"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_unpacked_wheel_gives_the_same_parts() {
    let directory = tempfile::tempdir().unwrap();
    let input = small(&directory);
    let tree = directory.path().join("tree");
    python(["-m", "zipfile", "-e", input.to_str().unwrap(), tree.to_str().unwrap()]);
    let written = split(&tree, &["--format", "wheel"]);
    assert_eq!(complaints(written.path()), "");
    for (part, name) in wheel_names(&input) {
        let packed = split(&input, &["--view", &part]);
        let (there, expected) = (unpacked(&written.path().join(&name)), files_below(&packed.path().join(&part)));
        assert_same(&there, &expected, &name);
    }
}

#[test]
fn reports_tell_what_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let input = torch(&directory);
    let path = input.to_str().unwrap();
    let text = |arguments: [&str; 3]| String::from_utf8(kpackfs(arguments).stdout).unwrap();
    let plain = text(["inspect", path, "--compression=zstd"]);
    assert!(!plain.contains("download") && plain.contains("which --sizes does"), "{plain}");
    let uncompressed = text(["inspect", path, "--compression=none"]);
    assert!(
        uncompressed.contains("device, all")
            && !uncompressed.contains("download")
            && uncompressed.contains("which --sizes does"),
        "{uncompressed}"
    );
    let markdown = kpackfs(["inspect", "--sizes", "--markdown", path]);
    let markdown = String::from_utf8(markdown.stdout).unwrap();
    for title in ["Split of torch", "Fat binaries", "Kernel databases", "Bundle keys", "What a user needs"] {
        assert!(markdown.contains(&format!("### {title}")), "{markdown}");
    }
    assert!(markdown.contains("| host + gfx1100 + gfx110x + gfx11 |") && !markdown.contains("--sizes"), "{markdown}");
    assert_eq!(inspect(&input, &[])["parts"]["gfx90a"]["archive_size"], serde_json::Value::Null);
    // What is reported without work is what the work reports.
    let known = inspect(&input, &["--compression=none", "--deflate=0"]);
    let made = inspect(&input, &["--compression=none", "--deflate=0", "--sizes"]);
    assert_eq!(known["parts"], made["parts"]);
}

/// The options of `split_python_wheels`, as its users write them.
#[test]
fn options_of_the_reference_are_understood() {
    let directory = tempfile::tempdir().unwrap();
    let input = torch(&directory);
    let out = directory.path().join("dist");
    let (path, out_path) = (input.to_str().unwrap(), out.to_str().unwrap());
    let output = kpackfs([
        "split",
        "--input",
        path,
        "--output-dir",
        out_path,
        "--output-format",
        "wheel",
        "--device-package-prefix",
        "amd-torch-gpu",
        "--overlay-root",
        "torch/",
        "--device-requires-dist",
        "rocm-sdk-device-@GFXARCH@ == 7.1",
        "rocm-sdk-core == 7.1",
        "--wheel-type",
        "torch-fat",
        "--compression",
        "zstd",
        "--compression-level",
        "1",
        "--generate-variant-wheel",
        "--variant-label",
        "rocm7.1",
        "-j",
        "2",
    ]);
    assert!(output.status.success(), "{output:?}");
    let there = files_below(&out);
    let host = input.file_name().unwrap().to_str().unwrap();
    let device = host.replace("torch-", "amd_torch_gpu_gfx90a-");
    for name in [host, &host.replace(".whl", "-rocm7.1.whl"), "torch-2.10.0+rocm7.1-variants.json", &device] {
        assert!(there.contains_key(Path::new(name)), "{name}: {:?}", there.keys());
    }
    let metadata = unpacked(&out.join(device));
    let metadata = &metadata[Path::new("amd_torch_gpu_gfx90a-2.10.0+rocm7.1.dist-info/METADATA")];
    let metadata = String::from_utf8_lossy(metadata);
    for requirement in ["rocm-sdk-device-gfx90a == 7.1", "rocm-sdk-core == 7.1"] {
        assert!(metadata.contains(&format!("\nRequires-Dist: {requirement}\n")), "{metadata}");
    }

    let databases = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        let text = run(command.args(["inspect", "--json"]).args(arguments));
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        report["databases"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(databases(&["--databases", "rocblas", "hipblaslt", path]), ["hipblaslt", "rocblas"]);
    assert_eq!(databases(&[path, "--databases", "rocblas,miopen", "--sizes"]), ["miopen", "rocblas"]);
    assert_eq!(databases(&[path, "--wheel-type", "torch-fat", "--databases", "aotriton"]), ["aotriton"]);
    assert_eq!(databases(&["--databases", "--input", path]), Vec::<String>::new());
    assert_eq!(databases(&["--databases", path]), Vec::<String>::new());
    assert_eq!(databases(&[path, "--databases", ""]), Vec::<String>::new());
    assert_eq!(databases(&[path]).len(), 5);
    for wrong in [&["--compression-level", "23"][..], &["--compression", "lz4"], &["--wheel-type", "vllm"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        assert_eq!(command.arg("inspect").arg(path).args(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn extended_attributes_state_the_digests_of_record() {
    let directory = tempfile::tempdir().unwrap();
    let input = torch(&directory);
    let Some(mount) = Mount::new(&input, &[]) else { return };
    let dist_info = "host/torch-2.10.0+rocm7.1.dist-info";
    let stated = |path: &str| {
        let mut buffer = [0; 100];
        let length = rustix::fs::getxattr(mount.at(path), "user.kpackfs.sha256", &mut buffer[..]).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    let rewritten = "host/torch/lib/libtorch_hip.so";
    assert_eq!(stated(rewritten), None, "nobody has computed it, and asking is no work");
    assert_eq!(mount.counter("bytes_hashed"), 0);
    fs::read(mount.at(&format!("{dist_info}/RECORD"))).unwrap();
    for path in [rewritten, "host/torch/__init__.py", &format!("{dist_info}/METADATA")] {
        let sum = run(Command::new("sha256sum").arg(mount.at(path)));
        assert_eq!(stated(path).as_deref(), sum.split(' ').next(), "{path}");
    }
}
