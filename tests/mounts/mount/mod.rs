//! Real mounts by the compiled program: what they show, what they cost, and what they leave unchanged.

mod damage;
mod kernels;
mod loading;
mod mounts;
mod numbers;
mod status;
mod thin;
mod times;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::common::{self, now, program, succeeds};
use mounts::{Mount, ODD, fat, names, survey, tar};
use tempfile::TempDir;
use times::same_but_for_times;

const VIEWS: [&str; 5] = ["gfx1030", "gfx11", "gfx1100", "gfx90a", "host"];

/// The output of `kpackfs split`.
fn split(input: &Path, options: &[&str]) -> TempDir {
    let out = tempfile::tempdir().unwrap();
    succeeds(program().arg("split").args(options).arg(input).arg("--output").arg(out.path()));
    out
}

#[test]
fn a_mount_is_what_split_writes() {
    let fat = fat();
    for compression in ["zstd", "none"] {
        let options = ["--compression", compression];
        let Some(mount) = Mount::new(fat.path(), &options) else { return };
        let begun = now();
        let written = split(fat.path(), &options);
        // A mount does not list the statement of the split.
        let listed = names(written.path());
        assert_eq!(listed.iter().filter(|name| *name != ".kpackfs").collect::<Vec<_>>(), VIEWS);
        for view in VIEWS {
            let shown = mount.at(view);
            same_but_for_times((&shown, survey(&shown)), survey(&written.path().join(view)), begun);
        }
        succeeds(program().arg("verify").arg(mount.path()).arg("--against").arg(fat.path()));
    }
}

/// A mount for all users shows nobody what only its owner can read in the input.
#[test]
fn what_is_made_of_private_files_is_private() {
    let place = tempfile::tempdir().unwrap();
    for (name, file) in [("wheel", "demo/small.txt"), ("tree", "lib/small.txt")] {
        let input = place.path().join(name);
        fs::create_dir(&input).unwrap();
        let tree = common::mounts::tree(&input);
        if name == "tree" {
            fs::remove_dir_all(tree.join("demo-1.0.dist-info")).unwrap();
            fs::rename(tree.join("demo"), tree.join("lib")).unwrap();
        }
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(tree.join(file), private.clone()).unwrap();
        if name == "wheel" {
            fs::set_permissions(tree.join("demo-1.0.dist-info/RECORD"), private).unwrap();
        }
        let Some(mount) = Mount::new(&tree, &["--no-cache"]) else { return };
        let others = |name: &str| mount.at(name).metadata().unwrap().mode() & 0o077;
        assert_eq!(
            ["split.json", "status.json", "metrics"].map(|name| others(&format!(".kpackfs/{name}"))),
            [0o044; 3]
        );
        assert_eq!(["report.json", "report.html"].map(|name| others(&format!(".kpackfs/{name}"))), [0; 2]);
        let made = if name == "tree" { "manifests/host.json" } else { "../wheels/demo-1.0-py3-none-any.whl" };
        assert_eq!(others(&format!(".kpackfs/{made}")), 0, "{made}");
        if name == "wheel" {
            let of_host = |name: &str| others(&format!("host/demo-1.0.dist-info/{name}"));
            assert_eq!(["RECORD", "kpackfs-manifest.json", "METADATA"].map(of_host), [0, 0, 0o044]);
        }
    }
}

#[test]
fn copies_are_the_same_every_time() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let Some(other) = Mount::new(fat.path(), &[]) else { return };
    let written = split(fat.path(), &[]);
    for view in VIEWS {
        let first = tar(mount.path(), view, &[]);
        assert!(first == tar(mount.path(), view, &[]), "{view}: not the same twice");
        assert!(first == tar(other.path(), view, &[]), "{view}: not the same in two mounts");
        // On a disk, files that are made have the time of writing.
        let at_one_time = ["--mtime=@0"];
        let first = tar(mount.path(), view, &at_one_time);
        assert!(first == tar(written.path(), view, &at_one_time), "{view}: not what was written");
    }
}

#[test]
fn nothing_else_is_touched() {
    let fat = fat();
    let state = || {
        let files = survey(fat.path());
        let change = |path: &Path| fat.path().join(path).symlink_metadata().map(|it| (it.ctime(), it.ctime_nsec()));
        let changes: Vec<_> = files.keys().map(|path| change(path).unwrap()).collect();
        (files, changes)
    };
    let before = state();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    for view in VIEWS {
        survey(&mount.at(view));
    }
    assert!(names(mount.temporary.path()).is_empty());
    assert!(before == state());
}

#[test]
fn mounting_and_listing_read_little_and_make_what_is_looked_at() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let total: u64 = survey(fat.path()).values().map(|entry| entry.3.len() as u64).sum();
    let read = mount.counter("bytes_read");
    assert!(read > 0 && read * 40 < total, "{read} of {total} bytes read");
    // The file without section headers is searched; the others are not.
    assert!(read < 200_000, "{read} bytes read");

    let find = |view: &str| succeeds(Command::new("find").arg(mount.at(view)).args(["-name", "*.kpack"])).stdout;
    for view in ["merged", "host", "device"] {
        assert_eq!(find(view).is_empty(), view != "merged");
    }
    assert!(find("").windows(6).any(|name| name == b".kpack"));
    succeeds(Command::new("ls").arg("-f").arg(mount.at("gfx1030/.kpack")));
    assert_eq!(mount.counter("bytes_read"), read);
    assert_eq!(mount.counter("frames_made"), 0, "listing makes nothing");

    let size = mount.at("gfx1030/.kpack/rocm_gfx1030.kpack").metadata().unwrap().len();
    let made = mount.counter("frames_made");
    assert!(size > 0 && made > 0);
    assert_eq!(fs::read(mount.at("gfx1030/.kpack/rocm_gfx1030.kpack")).unwrap().len() as u64, size);
    assert_eq!(mount.counter("frames_made"), made, "frames are made once");
}

#[test]
fn the_status_can_be_read_but_is_not_listed() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    assert_eq!(names(mount.path()), ["device", "gfx1030", "gfx11", "gfx1100", "gfx90a", "host", "merged", "thin"]);
    assert_eq!(names(&mount.at("merged")), ["gfx1030", "gfx1100", "gfx90a"]);
    assert_eq!(mount.at("device/gfx11").read_link().unwrap(), Path::new("../gfx11"));
    assert!(mount.counter("requests") > 0);
    let report = fs::read_to_string(mount.at(".kpackfs/report.json")).unwrap();
    assert!(report.contains("lib/mixed.so"), "{report}");
}

#[test]
fn a_page_is_made_when_it_is_opened() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let page = mount.at(".kpackfs/report.html");
    let size = page.metadata().unwrap().len();
    let text = fs::read_to_string(page).unwrap();
    assert_eq!(text.len() as u64, size);
    let output = program().args(["inspect", "--html", "-"]).arg(fat.path()).output().unwrap();
    // A mount does not search for device code without wrappers.
    let expected = String::from_utf8(output.stdout).unwrap();
    let (before, searched) = expected.split_once(r#""embedded":[],"device_code":["#).unwrap();
    let (_, after) = searched.split_once(r#","details":"#).unwrap();
    let expected = format!(r#"{before}"embedded":null,"device_code":null,"details":{after}"#);
    assert!(text == expected, "it is that of inspect");
}

#[test]
fn restricted_mounts_have_nothing_of_others() {
    let fat = fat();
    let options = ["--gpu-targets", "gfx1100"];
    let Some(mount) = Mount::new(fat.path(), &options) else { return };
    assert_eq!(names(mount.path()), ["device", "gfx11", "gfx1100", "host", "merged", "thin"]);
    let of_family = ["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"];
    assert!(
        names(&mount.at("thin")).iter().all(|name| of_family.iter().any(|it| name == it)),
        "{:?}",
        names(&mount.at("thin"))
    );
    assert!(!mount.at("thin/gfx90a").exists());
    let begun = now();
    let written = split(fat.path(), &options);
    for view in ["gfx11", "gfx1100", "host"] {
        let shown = mount.at(view);
        same_but_for_times((&shown, survey(&shown)), survey(&written.path().join(view)), begun);
    }
    assert!(!mount.at("host/share/miopen/db/gfx90a68.db.txt").exists());
    succeeds(program().args(["verify", "--gpu-targets", "gfx1100"]).arg(mount.path()).arg("--against").arg(fat.path()));
}

#[test]
fn merged_views_are_host_and_chain() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &["--arch", "gfx90a"]) else { return };
    let begun = now();
    let host = split(fat.path(), &[]);
    for (target, chain) in [("gfx1100", &["gfx11", "gfx1100"][..]), ("gfx90a", &["gfx90a"])] {
        let mut expected = survey(&host.path().join("host"));
        for key in chain {
            for (path, entry) in survey(&host.path().join(key)) {
                expected.entry(path).or_insert(entry);
            }
        }
        let shown = mount.at("merged").join(target);
        same_but_for_times((&shown, survey(&shown)), expected.clone(), begun);
        if target == "gfx90a" {
            let shown = mount.at("host");
            same_but_for_times((&shown, survey(&shown)), expected, begun);
        }
    }
    assert_eq!(fs::read(mount.at("host/share/miopen/db/gfx90a68.db.txt")).unwrap(), b"miopen, gfx90a");
    let output = program().args(["mount", "--arch", "gfx942"]).arg(fat.path()).arg(host.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("--arch gfx942: the input has nothing for it"), "{text}");
}

#[test]
fn odd_entries_survive() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let odd = Path::new("share").join(OsStr::from_bytes(ODD));
    assert_eq!(fs::read(mount.at("host").join(odd)).unwrap(), b"odd");
    let empty = mount.at("host/empty");
    assert_eq!((names(&empty).len(), empty.metadata().unwrap().mode() & 0o7777), (0, 0o711));
    assert_eq!(mount.at("host/lib/link.so").read_link().unwrap(), Path::new("plain.so"));
    for [one, other] in [["lib/plain.so", "lib/twin.so"], ["share/notes", "share/twin"]] {
        let [one, other] = [one, other].map(|name| mount.at("host").join(name).metadata().unwrap());
        assert_eq!((one.ino(), one.nlink(), other.nlink()), (other.ino(), 2, 2));
    }
    assert!(fs::write(mount.at("host/share/notes"), "x").is_err());
}

#[test]
fn verify_tells_by_its_exit_code() {
    let fat = fat();
    let verify = |path: &Path| program().arg("verify").arg(path).output().unwrap();
    let written = split(fat.path(), &[]);
    assert_eq!(verify(written.path()).status.code(), Some(0));
    let archive = written.path().join("gfx90a/.kpack/rocm_gfx90a.kpack");
    let mut bytes = fs::read(&archive).unwrap();
    bytes[80] ^= 0x55;
    fs::write(&archive, bytes).unwrap();
    let output = verify(written.path());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("gfx90a/.kpack/rocm_gfx90a.kpack: "), "{text}");
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    assert_eq!(verify(mount.path()).status.code(), Some(0));
}
