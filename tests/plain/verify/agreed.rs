//! Damages to installations with which RECORD agrees, so that only the files themselves show them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kpackfs::split::hex;
use kpackfs::verify::{Rule, VerifyOptions};
use sha2::{Digest, Sha256};

use crate::verify::installations::{ARCHIVE, DATABASE, DEVICE, FAMILY, HOST, fat, installed, wheel, wheels};
use crate::verify::splits::{copy, edit, edit_toc, verify};

/// Makes all RECORDs of an installation state what is there. `added` are new files of the host or device distribution.
pub(crate) fn agree(site: &Path, added: &[&str]) {
    for name in [HOST, DEVICE, FAMILY] {
        let record = site.join(name).join("RECORD");
        let text = fs::read_to_string(&record).unwrap();
        let old = text.lines().map(|line| line.split(',').next().unwrap());
        let new = added.iter().copied().filter(|path| (name == HOST) == path.contains(".so") && name != FAMILY);
        let mut text = String::new();
        for path in old.chain(new).filter(|path| site.join(path).is_file()) {
            let bytes = fs::read(site.join(path)).unwrap();
            let mut digest = [0; 43];
            URL_SAFE_NO_PAD.encode_slice(Sha256::digest(&bytes), &mut digest).unwrap();
            let digest = String::from_utf8_lossy(&digest).into_owned();
            let stated =
                if path.ends_with("RECORD") { ",".to_owned() } else { format!("sha256={digest},{}", bytes.len()) };
            text.extend([path, ",", &stated, "\n"]);
        }
        fs::write(&record, text).unwrap();
    }
}

fn replace(path: &Path, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    edit(path, |bytes| {
        let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
    });
}

fn metadata(site: &Path, name: &str, change: impl Fn(&str) -> String) {
    let path = site.join(name).join("METADATA");
    fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
}

/// A damage, the rule that a finding must name, and a part of its path.
type Damage = (&'static str, fn(&Path), Rule, &'static str);

const LIBRARY: &str = "fat/generic.so";

const DAMAGES: [Damage; 22] = [
    (
        "the marker leads to another package",
        |at| replace(&at.join(LIBRARY), b".kpack/fat_@", b".kpack/fax_@"),
        Rule::OrphanEntry,
        ARCHIVE,
    ),
    (
        "the marker leads elsewhere",
        |at| replace(&at.join(LIBRARY), b".kpack/fat_@", b"xkpack/fat_@"),
        Rule::OrphanEntry,
        ARCHIVE,
    ),
    (
        "the marker has another name",
        |at| {
            edit(&at.join(LIBRARY), |bytes| {
                let find = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).position(|it| it == text).unwrap();
                let field = find(bytes, b"kernel_name");
                let name = field + find(&bytes[field..], b"generic.so");
                bytes[name] = b'G';
            });
        },
        Rule::OrphanEntry,
        ARCHIVE,
    ),
    (
        "an entry moved",
        |at| {
            edit_toc(&at.join(ARCHIVE), |toc| {
                let entry = toc.toc.remove("generic.so#0").unwrap();
                toc.toc.insert("generic.so#7".to_owned(), entry);
            });
        },
        Rule::OrphanEntry,
        ARCHIVE,
    ),
    (
        "an entry too many",
        |at| {
            edit_toc(&at.join(ARCHIVE), |toc| {
                let entry = toc.toc["generic.so#0"].clone();
                toc.toc.insert("other.so#0".to_owned(), entry);
            });
        },
        Rule::OrphanEntry,
        ARCHIVE,
    ),
    ("no archives", |at| fs::remove_dir_all(at.join("fat/.kpack")).unwrap(), Rule::NoCode, HOST),
    (
        "a link to nothing",
        |at| {
            fs::remove_file(at.join(ARCHIVE)).unwrap();
            symlink("../../nothing.kpack", at.join(ARCHIVE)).unwrap();
        },
        Rule::DanglingLink,
        ARCHIVE,
    ),
    (
        "twice",
        |at| {
            for name in ["METADATA", "RECORD"] {
                copy(&at.join(HOST).join(name), &at.join("fat-0.9.dist-info").join(name));
            }
            metadata(at, "fat-0.9.dist-info", |text| text.replace("Version: 1.0", "Version: 0.9"));
        },
        Rule::DistributionTwice,
        "fat-0.9.dist-info",
    ),
    (
        "METADATA of the fat wheel",
        |at| {
            let keep = |line: &&str| !line.contains("device-");
            metadata(at, HOST, |text| text.lines().filter(keep).flat_map(|line| [line, "\n"]).collect());
        },
        Rule::HostRequirements,
        HOST,
    ),
    (
        "METADATA of a device wheel of another version",
        |at| metadata(at, DEVICE, |text| text.replace("Requires-Dist: fat==1.0", "Requires-Dist: fat==0.9")),
        Rule::DeviceRequirements,
        DEVICE,
    ),
    (
        "the statement of another part",
        |at| copy(&at.join(FAMILY).join("kpackfs.json"), &at.join(DEVICE).join("kpackfs.json")),
        Rule::WrongPart,
        DEVICE,
    ),
    (
        "a frame that cannot be decoded",
        |at| edit(&at.join(ARCHIVE), |bytes| bytes[72..80].fill(0xff)),
        Rule::EntryUnreadable,
        ARCHIVE,
    ),
    (
        "a wrapper with another index",
        |at| replace(&at.join(LIBRARY), b"HIPK\x01\0\0\0", b"HIPK\x02\0\0\0"),
        Rule::WrapperFields,
        LIBRARY,
    ),
    ("a library without its name", |at| fs::remove_file(at.join(LIBRARY)).unwrap(), Rule::ListedMissing, LIBRARY),
    ("another ABI version", |at| edit(&at.join(LIBRARY), |bytes| bytes[8] ^= 1), Rule::ListedChanged, LIBRARY),
    (
        "an entry that is missing",
        |at| edit_toc(&at.join(ARCHIVE), |toc| drop(toc.toc.remove("generic.so#0").unwrap())),
        Rule::ListedEntry,
        ARCHIVE,
    ),
    (
        "nothing of a device distribution",
        |at| {
            fs::remove_file(at.join(ARCHIVE)).unwrap();
            fs::remove_file(at.join(DATABASE)).unwrap();
        },
        Rule::DeviceEmpty,
        DEVICE,
    ),
    (
        "a code object without an entry",
        |at| edit_toc(&at.join(ARCHIVE), |toc| drop(toc.toc.remove("generic.so#0").unwrap())),
        Rule::ArchiveForm,
        ARCHIVE,
    ),
    (
        "bytes behind an archive",
        |at| edit(&at.join(ARCHIVE), |bytes| bytes.extend([0; 16])),
        Rule::ArchiveForm,
        ARCHIVE,
    ),
    (
        "a target without code",
        |at| edit_toc(&at.join(ARCHIVE), |toc| toc.gfx_arches.push("gfx1201".to_owned())),
        Rule::ArchiveTargets,
        ARCHIVE,
    ),
    (
        "the archive of another GPU",
        |at| fs::rename(at.join("fat/.kpack/fat_gfx11-generic.kpack"), at.join(ARCHIVE)).unwrap(),
        Rule::WrongPart,
        ARCHIVE,
    ),
    (
        "a part of another split",
        |at| {
            edit(&at.join(DEVICE).join("kpackfs.json"), |bytes| {
                let field = b"\"split_id\": \"";
                let digit = bytes.windows(field.len()).position(|it| it == field).unwrap() + field.len();
                bytes[digit] = if bytes[digit] == b'0' { b'1' } else { b'0' };
            });
        },
        Rule::OtherSplit,
        DEVICE,
    ),
];

/// What is done, the files that RECORD names afterwards, and the finding.
type AddedFiles = (&'static str, fn(&Path), &'static [&'static str], Rule, &'static str);

const ADDED: [AddedFiles; 4] = [
    (
        "twice, and one RECORD names the other",
        |at| {
            for name in ["METADATA", "RECORD", "kpackfs.json"] {
                copy(&at.join(DEVICE).join(name), &at.join("amd_fat_device_gfx1100-9.dist-info").join(name));
            }
        },
        &["amd_fat_device_gfx1100-9.dist-info/METADATA"],
        Rule::DistributionTwice,
        DEVICE,
    ),
    (
        "a copy of a library",
        |at| copy(&at.join(LIBRARY), &at.join("fat/backup/generic.so")),
        &["fat/backup/generic.so"],
        Rule::Unlisted,
        "fat/backup/generic.so",
    ),
    (
        "a database of another GPU",
        |at| copy(&at.join(DATABASE), &at.join("fat/lib/rocblas/library/TensileLibrary_gfx942.dat")),
        &["fat/lib/rocblas/library/TensileLibrary_gfx942.dat"],
        Rule::WrongPart,
        "TensileLibrary_gfx942.dat",
    ),
    (
        "a copy of an archive",
        |at| copy(&at.join(ARCHIVE), &at.join("fat/.kpack/fat_gfx1200.kpack")),
        &["fat/.kpack/fat_gfx1200.kpack"],
        Rule::Unlisted,
        "fat_gfx1200.kpack",
    ),
];

#[test]
fn damages_with_which_record_agrees_are_named() {
    let fat = fat();
    let out = wheels(fat.path(), &[]);
    let all = ["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it));
    let without = DAMAGES.map(|(name, damage, rule, path)| (name, damage, &[][..], rule, path));
    for (name, damage, added, rule, path) in without.into_iter().chain(ADDED) {
        let site = installed(&all);
        agree(site.path(), &[]);
        let check = || verify(&[site.path().to_owned()], None, &VerifyOptions::default());
        assert_eq!(check().findings, [], "{name}");
        damage(site.path());
        agree(site.path(), added);
        let findings = check().findings;
        let is_it = |it: &kpackfs::verify::Finding| it.rule == rule && it.path.contains(path);
        assert!(findings.iter().any(is_it), "{name}: {findings:#?}");
    }
}

/// Replaces bytes of equal length in a text.
fn replace_text(path: &Path, old: &str, new: &str) {
    replace(path, old.as_bytes(), new.as_bytes());
}

/// The manifest is believed where RECORD agrees with it, and only for installations: whether a split is good, and whether it
/// has the code of its input, shows by reading.
#[test]
fn archives_that_are_as_listed_are_not_decompressed() {
    let fat = fat();
    let out = wheels(fat.path(), &[]);
    let site = installed(&["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it)));
    let check = |against| {
        let report = verify(&[site.path().to_owned()], against, &VerifyOptions::default());
        let rules: Vec<_> = report.findings.iter().map(|it| it.rule).collect();
        (rules, report.counts.code_objects.get())
    };
    let (rules, code_objects) = check(None);
    assert!(rules.is_empty() && code_objects > 1, "{rules:?}");
    let sum = || hex(&Sha256::digest(fs::read(site.path().join(ARCHIVE)).unwrap()));
    let before = sum();
    edit(&site.path().join(ARCHIVE), |bytes| bytes[72..80].fill(0xff));
    let (rules, _) = check(None);
    assert!(rules.contains(&Rule::EntryUnreadable), "{rules:?}");
    replace_text(&site.path().join(DEVICE).join("kpackfs-manifest.json"), &before, &sum());
    let (rules, _) = check(None);
    assert!(rules.contains(&Rule::EntryUnreadable) && rules.contains(&Rule::FileChanged), "{rules:?}");
    agree(site.path(), &[]);
    assert_eq!(check(None), (Vec::new(), code_objects));
    let (rules, _) = check(Some(fat.path()));
    assert!(rules.contains(&Rule::EntryUnreadable), "{rules:?}");
}

/// Its name in archives is its file name, which fits in every directory.
#[test]
fn a_library_moved_from_the_top_of_its_package_is_named_without_manifest() {
    let fat = fat();
    copy(&fat.path().join(LIBRARY), &fat.path().join("fat/other/generic.so"));
    let out = wheels(fat.path(), &["--no-manifest"]);
    let all = ["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it));
    let site = installed(&all);
    let check = || verify(&[site.path().to_owned()], None, &VerifyOptions::default()).findings;
    agree(site.path(), &[]);
    assert_eq!(check(), []);
    fs::create_dir(site.path().join("fat/more")).unwrap();
    fs::rename(site.path().join(LIBRARY), site.path().join("fat/more/generic.so")).unwrap();
    agree(site.path(), &["fat/more/generic.so"]);
    let findings = check();
    assert!(findings.iter().any(|it| it.rule == Rule::NoArchive && it.path == "fat/more/generic.so"), "{findings:#?}");
}

/// As of splitters that write neither statements nor manifests.
pub(crate) fn without_statements(site: &Path) {
    for name in [HOST, DEVICE, FAMILY] {
        for file in ["kpackfs.json", "kpackfs-manifest.json"] {
            fs::remove_file(site.join(name).join(file)).unwrap();
        }
    }
    agree(site, &[]);
}

/// A host names its device distributions, so they are found whatever their own METADATA says.
#[test]
fn device_distributions_without_statement_are_those_that_a_host_names() {
    type Change = (fn(&Path), &'static [&'static str], Rule);
    let fat = fat();
    let out = wheels(fat.path(), &[]);
    let all = ["fat-", "amd_fat_device_gfx1100", "amd_fat_device_gfx11-"].map(|it| wheel(&out, it));
    let damages: [Change; 4] = [
        (
            |at| metadata(at, DEVICE, |text| text.replace("Requires-Dist: fat==1.0", "Requires-Dist: fat==0.9")),
            &[],
            Rule::DeviceRequirements,
        ),
        (
            |at| {
                let keep = |line: &&str| !line.starts_with("Requires-Dist");
                metadata(at, DEVICE, |text| text.lines().filter(keep).flat_map(|line| [line, "\n"]).collect());
            },
            &[],
            Rule::DeviceRequirements,
        ),
        (|at| fs::remove_file(at.join(DEVICE).join("METADATA")).unwrap(), &[], Rule::DeviceRequirements),
        (
            |at| {
                for name in ["METADATA", "RECORD"] {
                    copy(&at.join(DEVICE).join(name), &at.join("amd_fat_device_gfx1100-9.dist-info").join(name));
                }
            },
            &["amd_fat_device_gfx1100-9.dist-info/METADATA"],
            Rule::DistributionTwice,
        ),
    ];
    for (number, (damage, added, rule)) in damages.into_iter().enumerate() {
        let site = installed(&all);
        without_statements(site.path());
        let check = || verify(&[site.path().to_owned()], None, &VerifyOptions::default()).findings;
        assert_eq!(check(), [], "{number}");
        damage(site.path());
        agree(site.path(), added);
        let findings = check();
        assert!(findings.iter().any(|it| it.rule == rule && it.path.contains(DEVICE)), "{number}: {findings:#?}");
    }
}
