//! Host and device wheels are matched in whatever order they are named.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::verify::{Check, Rule, VerifyOptions, VerifyReport};
use tempfile::TempDir;

use crate::verify::splits::{copy, edit, verify};

const WHEEL: &str = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n";

/// The unpacked wheel of a distribution, with device code and a database.
pub(crate) fn unpacked(root: &Path, name: &str, version: &str) {
    let dist_info = root.join(format!("{name}-{version}.dist-info"));
    for fixture in ["plain.so", "features.so", "host-only.so"] {
        copy(&Path::new("tests/fixtures").join(fixture), &root.join(name).join(fixture));
    }
    let library = root.join(name).join("lib/rocblas/library");
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("TensileLibrary_gfx90a.dat"), b"\x91\xaafor gfx90a").unwrap();
    fs::write(root.join(name).join("version.py"), "version = 1\n").unwrap();
    fs::create_dir_all(&dist_info).unwrap();
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: numpy==1.0\n");
    fs::write(dist_info.join("METADATA"), metadata).unwrap();
    fs::write(dist_info.join("WHEEL"), WHEEL).unwrap();
    // RECORD as in the fat wheel: it is out of date as soon as a binary is split.
    let record = format!("{name}/plain.so,sha256={},1\n", "A".repeat(43));
    fs::write(dist_info.join("RECORD"), record).unwrap();
}

pub(crate) fn split(fat: &Path, out: &Path, options: &[&str]) {
    let mut command = assert_cmd::Command::cargo_bin("kpackfs").unwrap();
    command.args(["split", "--no-cache"]).arg(fat).arg("-o").arg(out).args(options).assert().success();
}

/// The wheels of a distribution and of its variant.
fn wheels(name: &str, version: &str) -> TempDir {
    let fat = tempfile::tempdir().unwrap();
    unpacked(fat.path(), name, version);
    let out = tempfile::tempdir().unwrap();
    split(fat.path(), &out.path().join("wheels"), &["--format", "wheel", "--generate-variant-wheel"]);
    out
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    paths.sort();
    paths
}

/// Verifies in many orders: each of the paths is first once and last once.
fn in_any_order(paths: &[PathBuf]) -> VerifyReport {
    let described = |paths: &[PathBuf]| {
        let report = verify(paths, None, &VerifyOptions::default());
        (serde_json::to_string(&report).unwrap(), report)
    };
    let (text, report) = described(paths);
    let mut paths = paths.to_vec();
    for _ in 0..paths.len() {
        paths.rotate_left(1);
        assert_eq!(described(&paths).0, text, "{paths:?}");
        paths.reverse();
        assert_eq!(described(&paths).0, text, "{paths:?}");
        paths.reverse();
    }
    report
}

#[test]
fn wheels_in_any_order() {
    let place = wheels("fat", "1.0+rocm.7");
    let out = place.path().join("wheels");
    let mut paths = list(&out);
    assert!(paths.len() == 4 && paths.iter().any(|path| path.to_string_lossy().contains("amd_fat_device_gfx90a")));
    let report = in_any_order(&paths);
    assert_eq!(report.findings, []);
    // The variant wheel is a host wheel, too.
    assert_eq!((report.counts.binaries.get(), report.counts.wrappers.get() > 4), (4, true));
    let counts = serde_json::to_string(&report.counts).unwrap();
    let of_directory = verify(&[out], None, &VerifyOptions::default());
    assert_eq!(
        (of_directory.findings.as_slice(), serde_json::to_string(&of_directory.counts).unwrap()),
        (&[][..], counts)
    );
    // A wheel that is named twice counts once. If a device wheel is missing, the findings are the same in any order.
    let removed = paths.iter().position(|path| path.to_string_lossy().contains("gfx90a")).unwrap();
    paths.push(paths[0].clone());
    assert_eq!(verify(&paths, None, &VerifyOptions::default()).findings, []);
    paths.pop();
    paths.remove(removed);
    let report = in_any_order(&paths);
    assert!(report.findings.iter().all(|finding| finding.check == Check::Lookup), "{:?}", report.findings);
}

/// No installer takes wheels for two systems together.
#[test]
fn wheels_for_two_systems() {
    let place = wheels("fat", "1.0");
    let out = place.path().join("wheels");
    let rename = |from: &str, to: &str| {
        for path in list(&out) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            fs::rename(&path, out.join(name.replace(from, to))).unwrap();
        }
    };
    rename("py3-none-any", "cp312-cp312-manylinux_2_28_x86_64");
    assert_eq!(verify(&list(&out), None, &VerifyOptions::default()).findings, []);
    let device = list(&out).into_iter().find(|path| path.to_string_lossy().contains("gfx90a")).unwrap();
    for other in ["cp312-cp312-win_amd64", "cp310-cp310-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_aarch64"] {
        let renamed = device.to_string_lossy().replace("cp312-cp312-manylinux_2_28_x86_64", other);
        fs::rename(&device, &renamed).unwrap();
        let findings = verify(&list(&out), None, &VerifyOptions::default()).findings;
        assert!(findings.iter().any(|it| it.rule == Rule::DistributionName), "{other}: {findings:?}");
        fs::rename(&renamed, &device).unwrap();
    }
}

#[test]
fn directories_in_any_order() {
    let place = tempfile::tempdir().unwrap();
    unpacked(&place.path().join("wheel"), "fat", "1.0");
    // Two distributions make it a tree, whose RECORDs stay unchanged.
    unpacked(&place.path().join("tree"), "fat", "1.0");
    unpacked(&place.path().join("tree"), "other", "2.0");
    for fat in ["wheel", "tree"] {
        let out = place.path().join(format!("{fat}-out"));
        split(&place.path().join(fat), &out, &[]);
        let paths: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
        let report = in_any_order(&paths);
        assert_eq!(report.findings, [], "{fat}");
        assert_eq!(report.counts.recorded_files.get() > 10, fat == "wheel");
        assert_eq!(verify(&[out], None, &VerifyOptions::default()).findings, [], "{fat}");
    }
}

#[test]
fn versions_are_compared_as_in_pep_440() {
    let place = tempfile::tempdir().unwrap();
    unpacked(&place.path().join("wheel"), "fat", "1.0");
    let out = place.path().join("out");
    split(&place.path().join("wheel"), &out, &[]);
    for directory in fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let inside = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        for dist_info in inside.filter(|path| path.extension().is_some_and(|extension| extension == "dist-info")) {
            edit(&dist_info.join("METADATA"), |bytes| {
                let text = std::str::from_utf8(bytes).unwrap();
                *bytes = text.replace("==1.0;", "==1.0.0;").replace("==1.0\n", "==1.0.0\n").into_bytes();
            });
        }
    }
    // RECORD states the digests from before the change.
    let report = verify(&[out], None, &VerifyOptions::default());
    let others: Vec<_> = report.findings.iter().filter(|finding| finding.check != Check::Record).collect();
    assert!(others.is_empty() && !report.findings.is_empty(), "{others:?}");
}

#[test]
fn several_distributions_in_one_directory() {
    let (one, other) = (wheels("fat", "1.0"), wheels("fat", "2.0"));
    let third = wheels("numpy", "1.0");
    let place = tempfile::tempdir().unwrap();
    for wheel in [&one, &other, &third].into_iter().flat_map(|wheels| list(&wheels.path().join("wheels"))) {
        copy(&wheel, &place.path().join(wheel.file_name().unwrap()));
    }
    let report = in_any_order(&list(place.path()));
    assert_eq!((report.findings.as_slice(), report.counts.binaries.get()), (&[][..], 12));
    // If the host wheels of a version are missing, its device wheels match no host wheel.
    for path in
        list(place.path()).iter().filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("fat-1.0"))
    {
        fs::remove_file(path).unwrap();
    }
    let report = in_any_order(&list(place.path()));
    let reason = "it belongs to fat==1.0, which is not among what is verified";
    let named = report.findings.iter().filter(|finding| finding.reason == reason);
    assert_eq!((named.count(), report.findings.len()), (2, 2), "{:?}", report.findings);
    let path = list(place.path()).into_iter().find(|path| path.to_string_lossy().contains("amd_fat_device")).unwrap();
    let [finding] = &*verify(&[path], None, &VerifyOptions::default()).findings else {
        panic!("a device wheel by itself")
    };
    assert_eq!((finding.check, finding.reason.as_str()), (Check::Distribution, reason));
}

#[test]
fn a_damaged_wheel_is_named_in_any_order() {
    let place = wheels("fat", "1.0");
    let paths = list(&place.path().join("wheels"));
    let device = paths.iter().find(|path| path.to_string_lossy().contains("gfx90a")).unwrap();
    // The archive is stored, and the first bytes of its first frame are replaced.
    edit(device, |bytes| {
        let start = bytes.windows(4).position(|window| window == b"KPAK").unwrap();
        bytes[start + 72..start + 76].copy_from_slice(b"oops");
    });
    let report = in_any_order(&paths);
    assert!(report.findings.iter().any(|finding| finding.check == Check::Record), "{:?}", report.findings);
    assert!(report.findings.iter().all(|finding| finding.path.contains("gfx90a")), "{:?}", report.findings);
}

/// pip: "has an invalid wheel".
#[test]
fn a_wheel_under_the_name_of_another_is_named() {
    for (old, new, named) in [("gfx90a", "gfx950", "gfx950 1.0"), ("-1.0-", "-1.1-", "gfx90a 1.1")] {
        let place = wheels("fat", "1.0");
        let paths = list(&place.path().join("wheels"));
        let device = paths.iter().find(|path| path.to_string_lossy().contains("gfx90a")).unwrap();
        let name = device.file_name().unwrap().to_str().unwrap().replace(old, new);
        fs::rename(device, device.with_file_name(name)).unwrap();
        let report = verify(&[place.path().join("wheels")], None, &VerifyOptions::default());
        let finding = report.findings.iter().find(|it| it.rule == Rule::DistributionName).unwrap();
        let (was, is) = ("amd-fat-device-gfx90a 1.0", format!("amd-fat-device-{named}"));
        let reason = format!("the name of its file is that of {is}, and its METADATA that of {was}");
        assert_eq!(finding.reason, reason);
    }
}

#[test]
fn wheels_of_one_version_for_two_systems() {
    let out = tempfile::tempdir().unwrap();
    for tag in ["py3-none-manylinux_2_28_x86_64", "py3-none-win_amd64"] {
        let fat = tempfile::tempdir().unwrap();
        unpacked(fat.path(), "fat", "1.0");
        let about = fat.path().join("fat-1.0.dist-info/WHEEL");
        fs::write(about, WHEEL.replace("py3-none-any", tag)).unwrap();
        if tag.contains("win") {
            fs::remove_file(fat.path().join("fat/features.so")).unwrap();
        }
        split(fat.path(), out.path(), &["--format", "wheel"]);
    }
    let paths = list(out.path());
    assert!(paths.len() >= 6, "{paths:?}");
    assert_eq!(verify(&[out.path().to_owned()], None, &VerifyOptions::default()).findings, []);
    assert_eq!(in_any_order(&paths).findings, []);
}

/// Of two runs for one GPU each, the host wheel names the device wheel of its own run only.
#[test]
fn a_device_wheel_that_no_extra_leads_to_is_named() {
    let (fat, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    unpacked(fat.path(), "demo", "1.0");
    for gpu in ["gfx90a", "gfx1030"] {
        split(fat.path(), &out.path().join(gpu), &["--format", "wheel", "--gpu-targets", gpu]);
    }
    let release = out.path().join("gfx90a");
    assert_eq!(verify(std::slice::from_ref(&release), None, &VerifyOptions::default()).findings, []);
    let device = list(&out.path().join("gfx1030")).into_iter().find(|path| path.to_str().unwrap().contains("device"));
    let device = device.unwrap();
    fs::copy(&device, release.join(device.file_name().unwrap())).unwrap();
    let report = verify(&[release], None, &VerifyOptions::default());
    let is_named = |reason: &str| reason.contains("no extra of it leads to amd-demo-device-gfx1030");
    assert!(report.findings.iter().any(|it| it.check == Check::Distribution && is_named(&it.reason)), "{report:?}");
}

#[test]
fn a_manifest_that_lists_nothing_lacks_the_split_binaries() {
    let (fat, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy(Path::new("tests/fixtures/plain.so"), &fat.path().join("lib/plain.so"));
    split(fat.path(), &out.path().join("parts"), &[]);
    let parts = out.path().join("parts");
    assert_eq!(verify(std::slice::from_ref(&parts), None, &VerifyOptions::default()).findings, []);
    edit(&parts.join(".kpackfs/manifests/host.json"), |bytes| {
        let mut manifest: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        *manifest.get_mut("files").unwrap() = serde_json::json!([]);
        *bytes = manifest.to_string().into_bytes();
    });
    let report = verify(&[parts], None, &VerifyOptions::default());
    let is_unlisted = report.findings.iter().any(|it| it.check == Check::Manifest && it.path == "host/lib/plain.so");
    assert!(is_unlisted, "{report:?}");
}

/// Installers compare the CRC-32 of each member. One of a deflated member is compared while it is read.
#[test]
fn members_have_the_checksums_that_the_zip_file_states() {
    let place = wheels("fat", "1.0");
    let (mut stored, mut deflated) = (0, 0);
    for path in list(&place.path().join("wheels")) {
        let whole = fs::read(&path).unwrap();
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&whole)).unwrap();
        for number in 0..archive.len() {
            let member = archive.by_index_raw(number).unwrap();
            if !member.is_file() || member.size() == 0 {
                continue;
            }
            let name = member.name().unwrap().into_owned();
            let is_stored = member.compression() == zip::CompressionMethod::Stored;
            *if is_stored { &mut stored } else { &mut deflated } += 1;
            // Of the local header and that in the central directory (APPNOTE 4.3.7, 4.3.12).
            let places = [member.header_start() + 14, member.central_header_start() + 16];
            edit(&path, |bytes| places.iter().for_each(|&place| bytes[usize::try_from(place).unwrap()] ^= 1));
            let report = verify(&list(&place.path().join("wheels")), None, &VerifyOptions::default());
            let found: Vec<_> = report.findings.iter().map(|it| (&*it.path, it.rule)).collect();
            let is_named = |(path, id): &(&str, Rule)| path.ends_with(&name) && *id == Rule::FileUnreadable;
            assert!(found.iter().any(is_named), "{name}: {found:?}");
            fs::write(&path, &whole).unwrap();
        }
    }
    assert!(stored > 5 && deflated > 5, "{stored} {deflated}");
}
