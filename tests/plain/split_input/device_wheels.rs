//! What a device wheel holds stays in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::wheels::{described, members, run, text};
use super::{FIXTURES, files};
use crate::common::program;

type Members = BTreeMap<String, Vec<u8>>;

/// A file that two device wheels have with other permissions.
const PROGRAM: &str = "x/tool";

/// A path and bytes.
type WheelFile<'a> = (&'a str, Vec<u8>);

/// The mode of a file in a wheel: the program is one in the wheel for gfx90a only.
fn mode(record: &str, name: &str) -> u32 {
    if name == PROGRAM && record.contains("gfx90a") { 0o755 } else { 0o644 }
}

/// Packs a wheel with these files and a RECORD of them.
fn pack(path: &Path, record: &str, files: &[(&str, Vec<u8>)]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    let rows: String = files.iter().map(|(name, bytes)| described(name, bytes) + "\n").collect();
    let of_record = (record, format!("{rows}{record},,\n").into_bytes());
    for (name, bytes) in files.iter().chain([&of_record]) {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(mode(record, name));
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

/// Packs a wheel of version 1 with these lines in its METADATA.
fn packed(place: &Path, name: &str, metadata: &str, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let info = format!("{name}-1.dist-info");
    let [own, wheel, record] = ["METADATA", "WHEEL", "RECORD"].map(|file| format!("{info}/{file}"));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{metadata}\n");
    let tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n";
    let own = [(own.as_str(), metadata.into_bytes()), (wheel.as_str(), bytes(tags))];
    let path = place.join(format!("{name}-1-py3-none-linux_x86_64.whl"));
    pack(&path, &record, &[files, &own].concat());
    path
}

/// A host wheel with extras for these parts, and device wheels with these files.
fn set(place: &Path, host: &[WheelFile], devices: &[(&str, Vec<WheelFile>)]) -> Vec<PathBuf> {
    fs::create_dir_all(place).unwrap();
    let extra = |part: &str| {
        format!("Provides-Extra: device-{part}\nRequires-Dist: amd-x-device-{part}==1; extra == \"device-{part}\"\n")
    };
    let extras: String = devices.iter().map(|(part, _)| extra(part)).collect();
    let mut wheels = vec![packed(place, "x", &format!("Requires-Dist: numpy\n{extras}"), host)];
    for (part, files) in devices {
        wheels.push(packed(
            place,
            &format!("amd_x_device_{part}"),
            "Requires-Dist: x==1\nRequires-Dist: other\n",
            files,
        ));
    }
    wheels
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// Device wheels with nothing that kpackfs knows: tables, packages for one GPU, and a file that all of them have.
fn tables(place: &Path) -> Vec<PathBuf> {
    let of = |part: &'static str, table: &'static str, module: &'static str| {
        (
            part,
            vec![(table, bytes(part)), (module, bytes("")), ("x/shared.py", bytes("s")), ("x/device.py", bytes("d"))],
        )
    };
    let host = [("x/__init__.py", bytes("")), ("x/shared.py", bytes("s"))];
    set(
        place,
        &host,
        &[of("gfx942", "x/gemm_gfx942.csv", "x_gfx942/__init__.py"), of("gfx950", "x/t", "x_gfx950/__init__.py")],
    )
}

/// The wheels in a directory, by name.
fn wheels_of(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let named = |(path, bytes): (String, Vec<u8>)| {
        let path = Path::new(&path);
        let is_wheel = path.extension().is_some_and(|extension| extension == "whl");
        is_wheel.then(|| Some((path.file_name()?.to_str()?.to_owned(), bytes)))?
    };
    files(directory).into_iter().filter_map(named).collect()
}

fn split(inputs: &[PathBuf], out: &Path, options: &[&str]) {
    let out = text(out);
    run(&[&["split", "--no-cache", "-o", &out], options].concat(), inputs);
}

#[test]
fn wheels_without_device_code_are_copied() {
    let place = tempfile::tempdir().unwrap();
    let given = tables(&place.path().join("in"));
    let expected = wheels_of(&place.path().join("in"));
    for format in ["wheel", "index"] {
        let out = place.path().join(format);
        split(&given, &out, &["--format", format]);
        assert!(wheels_of(&out) == expected, "{format}: {:?}", wheels_of(&out).keys());
    }
    // Each part is its wheel unpacked.
    let out = place.path().join("parts");
    split(&given, &out, &[]);
    for (wheel, part) in given.iter().zip(["host", "gfx942", "gfx950"]) {
        assert!(files(&out.join(part)) == members(wheel), "{part}");
    }
    run(&["verify"], &[out]);
}

/// A split with device code, whose device wheel for gfx90a holds more.
fn with_more(place: &Path, more: &[(&str, Vec<u8>)]) -> Vec<PathBuf> {
    fs::create_dir_all(place).unwrap();
    let fixture = fs::read(Path::new(FIXTURES).join("plain.so")).unwrap();
    let fat = packed(place, "x", "Requires-Dist: numpy\n", &[("x/__init__.py", bytes("")), ("x/lib.so", fixture)]);
    split(&[fat], &place.join("split"), &["--format", "wheel", "--device-requires-dist", "other>=1"]);
    let device = place.join("split/amd_x_device_gfx90a-1-py3-none-linux_x86_64.whl");
    repack(&device, more);
    wheels_at(&place.join("split"))
}

fn wheels_at(directory: &Path) -> Vec<PathBuf> {
    let mut wheels: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    wheels.sort();
    wheels
}

/// Packs a wheel again, with more files.
fn repack(wheel: &Path, more: &[(&str, Vec<u8>)]) {
    let old: Members = members(wheel);
    let (record, _) = old.iter().find(|(name, _)| name.ends_with("/RECORD")).unwrap();
    let all = old.iter().filter(|(name, _)| *name != record).map(|(name, bytes)| (name.as_str(), bytes.clone()));
    let all: Vec<_> = all.chain(more.iter().cloned()).collect();
    pack(wheel, record, &all);
}

const DEVICE: &str = "amd_x_device_gfx90a-1-py3-none-linux_x86_64.whl";
const HOST: &str = "x-1-py3-none-linux_x86_64.whl";

#[test]
fn files_that_no_handler_knows_stay_in_their_device_wheel() {
    let place = tempfile::tempdir().unwrap();
    let more = [
        ("x/gemm_gfx90a.csv", bytes("tuned")),
        ("x_gfx90a/__init__.py", bytes("")),
        ("x_gfx90a/kernels.so", fs::read(Path::new(FIXTURES).join("features.so")).unwrap()),
    ];
    let wheels = with_more(place.path(), &more);
    let old = members(&place.path().join("split").join(DEVICE));
    let again = place.path().join("again");
    split(&wheels, &again, &["--format", "wheel"]);
    let names = |members: &Members| members.keys().cloned().collect::<Vec<_>>();
    let new = members(&again.join(DEVICE));
    assert_eq!(names(&new), names(&old));
    assert!(more.iter().all(|(name, bytes)| new[*name] == *bytes));
    assert_eq!(wheels_of(&again)[HOST], wheels_of(&place.path().join("split"))[HOST]);
    // The manifest states them, so that nothing is found.
    let manifest = String::from_utf8(new["amd_x_device_gfx90a-1.dist-info/kpackfs-manifest.json"].clone()).unwrap();
    assert!(more.iter().all(|(name, _)| manifest.contains(name)), "{manifest}");
    run(&["verify"], &wheels_at(&again));
    // Once more, the wheels are equal byte for byte.
    let twice = place.path().join("twice");
    split(&wheels_at(&again), &twice, &["--format", "wheel"]);
    assert!(wheels_of(&twice) == wheels_of(&again));
    split(&wheels, &place.path().join("index"), &["--format", "index"]);
    assert!(wheels_of(&place.path().join("index")) == wheels_of(&again));
    // Views of other GPUs do not have them.
    let views = ["merged/gfx90a", "thin/gfx90a", "thin/gfx1030", "merged/gfx1030", "fat", "host", "gfx90a"];
    let out = place.path().join("views");
    split(&wheels, &out, &views.map(|view| ["--view", view]).concat());
    for view in views {
        let is_wanted = !view.contains("gfx1030") && view != "host";
        assert_eq!(out.join(view).join("x/gemm_gfx90a.csv").exists(), is_wanted, "{view}");
    }
    let thin = place.path().join("thin");
    split(&wheels, &thin, &["--format", "thin-wheel", "--view", "gfx90a", "--view", "gfx1030"]);
    for (gpu, is_wanted) in [("gfx90a", true), ("gfx1030", false)] {
        assert_eq!(members(&thin.join(gpu).join(HOST)).contains_key("x/gemm_gfx90a.csv"), is_wanted, "{gpu}");
    }
    // A device wheel requires what it did.
    let metadata =
        |members: &Members| String::from_utf8(members["amd_x_device_gfx90a-1.dist-info/METADATA"].clone()).unwrap();
    assert!(
        metadata(&old).contains("Requires-Dist: other>=1\n") && metadata(&new) == metadata(&old),
        "{}",
        metadata(&new)
    );
}

#[test]
fn without_manifests_a_device_wheel_may_hold_what_its_record_lists() {
    let place = tempfile::tempdir().unwrap();
    let wheels = with_more(place.path(), &[("x/gemm.csv", bytes("tuned"))]);
    let out = place.path().join("out");
    split(&wheels, &out, &["--format", "wheel", "--no-manifest"]);
    assert!(members(&out.join(DEVICE)).contains_key("x/gemm.csv"));
    run(&["verify"], &wheels_at(&out));
}

#[test]
fn one_path_in_several_device_wheels() {
    let place = tempfile::tempdir().unwrap();
    let given = |name: &str, table: &str, parts: [&'static str; 2]| {
        let of = |part, table: &str| (part, vec![("x/tuning.csv", bytes(table))]);
        set(&place.path().join(name), &[("x/__init__.py", bytes(""))], &[of(parts[0], "one"), of(parts[1], table)])
    };
    // Equal files are in each part.
    let equal = given("equal", "one", ["gfx1100", "gfx11"]);
    let out = place.path().join("out");
    split(&equal, &out, &["--view", "gfx1100", "--view", "gfx11", "--view", "merged/gfx1100"]);
    for part in ["gfx1100", "gfx11", "merged/gfx1100"] {
        assert_eq!(fs::read(out.join(part).join("x/tuning.csv")).unwrap(), b"one", "{part}");
    }
    // Different ones are no problem for wheels that are copied, and each part has its own.
    let apart = given("apart", "two", ["gfx942", "gfx950"]);
    let copies = place.path().join("copies");
    split(&apart, &copies, &["--format", "index"]);
    assert!(wheels_of(&copies) == wheels_of(&place.path().join("apart")));
    let views = place.path().join("views");
    split(&apart, &views, &["--view", "merged/gfx942", "--view", "merged/gfx950"]);
    for (gpu, table) in [("gfx942", "one"), ("gfx950", "two")] {
        assert_eq!(fs::read(views.join("merged").join(gpu).join("x/tuning.csv")).unwrap(), table.as_bytes());
    }
    // An installation for gfx1100 has both wheels, so that it would lose a file.
    refused(&given("together", "two", ["gfx1100", "gfx11"]), place.path(), "x/tuning.csv");
    // What is split again has one form with everything.
    let place = tempfile::tempdir().unwrap();
    let wheels = with_more(place.path(), &[("x/tuning.csv", bytes("one"))]);
    repack(
        &place.path().join("split/amd_x_device_gfx1030-1-py3-none-linux_x86_64.whl"),
        &[("x/tuning.csv", bytes("two"))],
    );
    refused(&wheels, place.path(), "x/tuning.csv");
}

/// The split fails with a message that names this file.
fn refused(wheels: &[PathBuf], place: &Path, file: &str) {
    let out = place.join("refused");
    let mut split = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    split.args(["split", "--no-cache", "--format", "wheel", "-o"]).arg(&out).args(wheels);
    let output = split.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains(file) && said.contains("amd_x_device_"), "{said}");
    assert!(!out.exists(), "{said}");
}

/// By its statement, or, of other tools, by its name and its METADATA.
#[test]
fn a_device_wheel_without_its_host_wheel_stays_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let database = ("x/lib/rocblas/library/TensileLibrary_Type_HH_gfx90a.co", bytes("d"));
    let fat = packed(place.path(), "x", "", &[database.clone(), ("x/__init__.py", bytes(""))]);
    split(&[fat], &place.path().join("split"), &["--format", "wheel"]);
    let stated = place.path().join("split").join(DEVICE);
    let archive = ("x/.kpack/x_gfx90a.kpack", bytes("k"));
    let other = packed(place.path(), "amd_x_device_gfx90a", "Requires-Dist: x==1\n", &[database, archive]);
    for (number, device) in [stated, other].into_iter().enumerate() {
        for format in ["wheel", "thin-wheel", "directory"] {
            let out = place.path().join("refused");
            let mut split = program();
            let output = split.args(["split", "--no-cache", "--format", format, "-o"]).arg(&out).arg(&device).output();
            let output = output.unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(1) && said.contains("name the host wheel, too"), "{format}: {said}");
            assert!(!out.exists(), "{format}: {said}");
        }
        let out = place.path().join(format!("index {number}"));
        split(std::slice::from_ref(&device), &out, &["--format", "index"]);
        let expected = BTreeMap::from([(DEVICE.to_owned(), fs::read(&device).unwrap())]);
        assert!(wheels_of(&out) == expected, "{:?}", wheels_of(&out).keys());
    }
}

#[test]
fn restricted_to_a_gpu_the_host_wheel_names_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let given = tables(&place.path().join("in"));
    let out = place.path().join("out");
    split(&given, &out, &["--format", "wheel", "--gpu-targets", "gfx942"]);
    let names: Vec<_> = wheels_of(&out).into_keys().collect();
    assert_eq!(names, [DEVICE.replace("90a", "942"), HOST.to_owned()]);
    let metadata = String::from_utf8(members(&out.join(HOST))["x-1.dist-info/METADATA"].clone()).unwrap();
    assert!(metadata.contains("amd-x-device-gfx942==1") && !metadata.contains("gfx950"), "{metadata}");
    let device = members(&out.join(DEVICE.replace("90a", "942")));
    assert!(device.contains_key("x/gemm_gfx942.csv") && device.contains_key("x/shared.py"), "{:?}", device.keys());
    run(&["verify"], &wheels_at(&out));
}

/// An extra may require several distributions of a part.
#[test]
fn wheels_of_one_part_are_held_together() {
    let place = tempfile::tempdir().unwrap();
    let database = "x/lib/rocblas/library/TensileLibrary_Type_HH_gfx942.co";
    let extra = "Provides-Extra: device-gfx942\nRequires-Dist: amd-x-device-gfx942==1; extra == \"device-gfx942\"\n\
                 Requires-Dist: x-tuning-gfx942==1; extra == \"device-gfx942\"\n";
    let wheels = [
        packed(place.path(), "x", extra, &[("x/__init__.py", bytes(""))]),
        packed(place.path(), "amd_x_device_gfx942", "", &[(database, bytes("d")), ("x/a.csv", bytes("a"))]),
        packed(place.path(), "x_tuning_gfx942", "Requires-Dist: tables\n", &[("x/b.csv", bytes("b"))]),
    ];
    let out = place.path().join("out");
    split(&wheels, &out, &["--format", "wheel"]);
    let device = members(&out.join("amd_x_device_gfx942-1-py3-none-linux_x86_64.whl"));
    for file in [database, "x/a.csv", "x/b.csv"] {
        assert!(device.contains_key(file), "{file}: {:?}", device.keys());
    }
    let metadata = String::from_utf8(device["amd_x_device_gfx942-1.dist-info/METADATA"].clone()).unwrap();
    assert!(metadata.contains("Requires-Dist: tables"), "{metadata}");
}

#[test]
fn a_file_of_two_parts_keeps_the_permissions_that_it_has_in_each() {
    use std::os::unix::fs::PermissionsExt;

    let place = tempfile::tempdir().unwrap();
    let of = |part| (part, vec![(PROGRAM, bytes("#!"))]);
    let wheels = set(&place.path().join("in"), &[("x/__init__.py", bytes(""))], &[of("gfx1030"), of("gfx90a")]);
    let out = place.path().join("out");
    split(&wheels, &out, &[]);
    let mode = |part: &str| fs::metadata(out.join(part).join(PROGRAM)).unwrap().permissions().mode() & 0o111;
    assert_eq!((mode("gfx1030"), mode("gfx90a")), (0, 0o111));
}
