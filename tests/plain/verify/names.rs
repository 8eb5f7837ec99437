//! What parts of an installation say about each other: names, extras, statements and manifests. RECORD agrees with each damage.

use std::fs;
use std::path::Path;

use kpackfs::verify::{Rule, VerifyOptions, VerifyReport};
use tempfile::TempDir;

use crate::verify::agreed::agree;
use crate::verify::installations::{ARCHIVE, DEVICE, FAMILY, HOST, fat, installed, wheel, wheels};
use crate::verify::splits::{edit, verify};

fn site(options: &[&str]) -> TempDir {
    let out = wheels(fat().path(), options);
    installed(&["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it)))
}

fn report(site: &TempDir) -> VerifyReport {
    verify(&[site.path().to_owned()], None, &VerifyOptions::default())
}

/// The findings, each with its path.
fn found(site: &TempDir) -> Vec<(Rule, String)> {
    let mut found: Vec<_> = report(site).findings.into_iter().map(|it| (it.rule, it.path)).collect();
    found.sort();
    found
}

fn change(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(old), "{text}");
    fs::write(path, text.replace(old, new)).unwrap();
}

#[test]
fn metadata_of_another_distribution() {
    for (old, new) in [("Name: amd-fat-device-gfx1100", "Name: amd-other"), ("\nVersion: 1.0", "\nVersion: 1.1")] {
        let site = site(&[]);
        change(&site.path().join(DEVICE).join("METADATA"), old, new);
        agree(site.path(), &[]);
        assert!(found(&site).contains(&(Rule::DistributionName, DEVICE.to_owned())), "{new}: {:?}", found(&site));
    }
    let site = site(&[]);
    let renamed = "amd_fat_device_gfx1100-0.0.1.dist-info";
    change(&site.path().join(DEVICE).join("RECORD"), DEVICE, renamed);
    fs::rename(site.path().join(DEVICE), site.path().join(renamed)).unwrap();
    assert_eq!(found(&site), [(Rule::DistributionName, renamed.to_owned())]);
}

#[test]
fn metadata_that_is_gone() {
    let site = site(&[]);
    fs::write(site.path().join(HOST).join("METADATA"), "").unwrap();
    agree(site.path(), &[]);
    assert_eq!(found(&site), [(Rule::HostRequirements, HOST.to_owned())]);
    assert!(report(&site).findings[0].reason.contains("no METADATA that can be read"));
    // Of other tools, only the device distributions say that it is a host.
    for name in [HOST, DEVICE, FAMILY] {
        for file in ["kpackfs.json", "kpackfs-manifest.json"] {
            fs::remove_file(site.path().join(name).join(file)).unwrap();
        }
    }
    fs::remove_file(site.path().join(HOST).join("METADATA")).unwrap();
    agree(site.path(), &[]);
    assert_eq!(found(&site), [(Rule::HostRequirements, HOST.to_owned())]);
}

/// Installers would leave out a device distribution, or install that of another GPU.
#[test]
fn extras_of_other_gpus() {
    let damages: [fn(&str) -> String; 8] = [
        |text| text.replacen("Provides-Extra: device-gfx1100\n", "", 1),
        |text| {
            text.replacen("extra == \"device-gfx1100\"", "extra == \"device-gfx1100\" and python_version < \"3\"", 1)
        },
        |text| text.replacen("amd-fat-device-gfx1100==1.0;", "amd-fat-device-gfx1100!=1.0;", 1),
        |text| text.replacen("amd-fat-device-gfx1100==1.0;", "amd-fat-device-gfx1100==1.0,<1;", 1),
        |text| text.replacen("Requires-Dist: amd-fat-device-gfx1100==1.0; extra == \"device-all\"\n", "", 1),
        |text| text.lines().filter(|line| !line.contains("gfx1100")).map(|line| line.to_owned() + "\n").collect(),
        |text| {
            let is_of_extra = |line: &&str| line.contains("extra ==") && line.contains("'device-gfx1100'");
            let is_of_extra = |line: &&str| is_of_extra(line) || line.contains("\"device-gfx1100\"");
            text.lines().filter(|line| !is_of_extra(line)).map(|line| line.to_owned() + "\n").collect()
        },
        |text| {
            let is_of_extra = |line: &str| line.contains("extra ==") && line.contains("device-gfx1100");
            let other = |line: &str| {
                let line =
                    if is_of_extra(line) { line.replacen("device-gfx1100", "device-gfx1201", 1) } else { line.into() };
                line + "\n"
            };
            text.lines().map(other).collect()
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let site = site(&[]);
        let path = site.path().join(HOST).join("METADATA");
        let text = fs::read_to_string(&path).unwrap();
        let changed = damage(&text);
        assert_ne!(changed, text);
        fs::write(&path, changed).unwrap();
        agree(site.path(), &[]);
        let found = found(&site);
        assert!(found.contains(&(Rule::HostRequirements, HOST.to_owned())), "{number}: {found:?}");
    }
}

/// Every installer follows these.
#[test]
fn requirements_in_other_forms_are_sound() {
    for (old, new) in [
        ("extra == \"device-gfx1100\"", "(extra == \"device-gfx1100\")"),
        (
            "\nRequires-Dist: rocm-bootstrap",
            "\nRequires-Dist: amd-fat-device-gfx1100==1.0\nRequires-Dist: rocm-bootstrap",
        ),
        (
            "\nRequires-Dist: rocm-bootstrap",
            "\nRequires-Dist: amd-fat-device-gfx1100==1.0; platform_machine == \"x86_64\"\nRequires-Dist: rocm-bootstrap",
        ),
    ] {
        let site = site(&[]);
        change(&site.path().join(HOST).join("METADATA"), old, new);
        agree(site.path(), &[]);
        assert_eq!(found(&site), [], "{new}");
    }
}

#[test]
fn a_statement_is_next_to_each_manifest() {
    for damage in [fs::remove_file as fn(_) -> _, |path| fs::write(path, "{")] {
        let site = site(&[]);
        let statement = site.path().join(HOST).join("kpackfs.json");
        damage(statement).unwrap();
        agree(site.path(), &[]);
        assert!(
            found(&site).contains(&(Rule::ManifestUnreadable, format!("{HOST}/kpackfs.json"))),
            "{:?}",
            found(&site)
        );
    }
}

/// A part without a manifest next to one that has it is no damage.
#[test]
fn parts_without_manifests_are_noted() {
    let site = site(&[]);
    assert!(!report(&site).notes.iter().any(|it| it.contains("manifest")));
    for (name, number) in [(DEVICE, 1), (FAMILY, 2), (HOST, 3)] {
        fs::remove_file(site.path().join(name).join("kpackfs-manifest.json")).unwrap();
        agree(site.path(), &[]);
        let report = report(&site);
        assert_eq!(report.findings, []);
        let parts = if number == 1 { "1 part, such as ".to_owned() } else { format!("{number} parts, such as ") };
        let start = format!("no manifest is in {parts}");
        assert!(report.notes.iter().any(|it| it.starts_with(&start)), "{:?}", report.notes);
    }
}

/// A runtime may find the archive of another distribution first.
#[test]
fn an_archive_of_another_distribution() {
    let site = site(&[]);
    let other = "fat/.kpack/fat_gfx1100:xnack-.kpack";
    fs::copy(site.path().join(ARCHIVE), site.path().join(other)).unwrap();
    let dist_info = site.path().join("other-1.0.dist-info");
    fs::create_dir(&dist_info).unwrap();
    fs::write(dist_info.join("METADATA"), "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n").unwrap();
    fs::write(dist_info.join("RECORD"), format!("{other},,\nfat/version.py,,\n")).unwrap();
    assert!(found(&site).contains(&(Rule::Unlisted, other.to_owned())), "{:?}", found(&site));
}

/// Program headers and section headers of a code object in an archive lead to its end at most.
#[test]
fn a_code_object_in_an_archive_is_whole() {
    let site = site(&["--compression", "none", "--no-manifest"]);
    assert_eq!(found(&site), []);
    edit(&site.path().join(ARCHIVE), |bytes| {
        let at = bytes.windows(7).position(|it| it == b"\x7fELF\x02\x01\x01").unwrap();
        // `p_filesz` of the first program header, which follows the ELF header of 64 bytes.
        bytes[at + 64 + 32..at + 64 + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    });
    agree(site.path(), &[]);
    assert_eq!(found(&site), [(Rule::EntryUnreadable, ARCHIVE.to_owned())]);
    assert!(report(&site).findings[0].reason.contains("but its headers need"));
}
