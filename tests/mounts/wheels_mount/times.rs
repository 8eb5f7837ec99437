//! Modification times of wheels and of the files of a package index, in a mount and on a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{is_made, now, paths_below, program, run};
use crate::wheels_mount::simple::release;
use crate::wheels_mount::wheels::{Mount, small, wheel};

/// The time of files of the input, in seconds since 1970.
const OLD: i64 = 1_600_000_000;

/// The modification time and the size of each file below a directory.
fn times(root: &Path) -> BTreeMap<PathBuf, (i64, u64)> {
    let times = |path: PathBuf| {
        let metadata = root.join(&path).metadata().unwrap();
        metadata.is_file().then_some((path, (metadata.mtime(), metadata.size())))
    };
    paths_below(root).into_iter().filter_map(times).collect()
}

fn set_old(path: &Path) {
    let old = UNIX_EPOCH + Duration::from_secs(OLD.unsigned_abs());
    File::open(path).unwrap().set_modified(old).unwrap();
}

#[test]
fn wheels_and_dist_info_of_other_options_have_other_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let input = small(&directory);
    let options: [&[&str]; 5] = [
        &[],
        &["--deflate", "6"],
        &["--gpu-targets", "gfx90a"],
        &["--gpu-targets", "gfx942"],
        &["--device-requires-dist", "torch"],
    ];
    let shown = |options: &[&str]| {
        let mount = Mount::new(&input, options)?;
        let views = ["host", "wheels", "simple", "thin/gfx90a", "thin-wheels/gfx90a", "merged/gfx90a"];
        let views = views.iter().filter(|view| mount.at(view).exists());
        let times = views
            .flat_map(|view| times(&mount.at(view)).into_iter().map(|(path, it)| (Path::new(view).join(path), it)));
        let with_kind = times.map(|(path, time)| (is_made(&mount.at(path.to_str().unwrap())), path, time));
        Some(with_kind.map(|(is_made, path, time)| (path, (time, is_made))).collect::<BTreeMap<_, _>>())
    };
    let mut mounts: Vec<BTreeMap<PathBuf, _>> = Vec::new();
    for options in options {
        let Some(times) = shown(options) else { return };
        assert_eq!(shown(options).unwrap(), times, "{options:?}: equal mounts");
        mounts.push(times);
    }
    // It is the default of a mount.
    assert_eq!(shown(&["--deflate", "0"]).unwrap(), mounts[0]);
    let is_page = |path: &Path| path.extension().is_some_and(|suffix| suffix == "html" || suffix == "json");
    let mut differing = BTreeSet::new();
    for (number, one) in mounts.iter().enumerate() {
        for other in &mounts[..number] {
            let common = one.iter().filter_map(|(path, here)| Some((path, here, other.get(path)?)));
            for (path, here, there) in common.filter(|(path, ..)| !path.starts_with("simple") || !is_page(path)) {
                let is_other = here.0.0 != there.0.0;
                assert_eq!(is_other, here.1 || there.1, "{}", path.display());
                differing.extend(is_other.then_some(path.as_path()));
            }
        }
    }
    let wheel = "small-1.0-py3-none-any.whl";
    for path in [
        format!("wheels/{wheel}"),
        format!("simple/small/{wheel}.metadata"),
        format!("thin-wheels/gfx90a/{wheel}"),
        "host/small-1.0.dist-info/RECORD".to_owned(),
        "host/small/lib/liblong.so".to_owned(),
        "thin/gfx90a/small/lib/liblong.so".to_owned(),
    ] {
        assert!(differing.contains(Path::new(&path)), "{path}: {differing:?}");
    }
    // Pages of one size with other texts.
    let page = Path::new("simple/index.html");
    let [(one, _), (other, _)] = [mounts[2][page], mounts[3][page]];
    assert!(one.1 == other.1 && one.0 != other.0, "{one:?}, {other:?}");
}

#[test]
fn a_wheel_as_it_is_keeps_its_time_and_is_no_reason_for_others_to_change() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let plain = "rocm_bootstrap-1.0-py3-none-any.whl";
    let signature = format!("{plain}.asc");
    fs::write(inputs.join(&signature), "signed").unwrap();
    for name in [plain, &signature] {
        set_old(&inputs.join(name));
    }
    let Some(mount) = Mount::new(&inputs, &[]) else { return };
    let simple = times(&mount.at("simple"));
    let wheels = times(&mount.at("wheels"));
    drop(mount);
    for name in [plain, &signature] {
        assert_eq!(simple[&Path::new("rocm-bootstrap").join(name)].0, OLD, "{name}");
    }
    assert_eq!(wheels[Path::new(plain)].0, OLD);

    wheel(&directory, "other", &[("other/x", Vec::new())]);
    let mount = Mount::new(&inputs, &[]).unwrap();
    for (path, time) in times(&mount.at("wheels")) {
        assert!(wheels.get(&path).is_none_or(|before| *before == time), "{}", path.display());
    }
    let with_other = times(&mount.at("simple"));
    assert_ne!(with_other[Path::new("index.html")].0, simple[Path::new("index.html")].0);
    assert_eq!(with_other[Path::new("small/index.html")], simple[Path::new("small/index.html")]);
}

#[test]
fn an_index_that_is_replaced_is_newer_file_by_file() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = release(&directory);
    let plain = Path::new("rocm-bootstrap/rocm_bootstrap-1.0-py3-none-any.whl");
    set_old(&inputs.join(plain.file_name().unwrap()));
    let out = tempfile::tempdir().unwrap();
    let begun = now();
    let index = |options: &[&str]| {
        let mut split = program();
        split.arg("split").arg(&inputs).arg("-o").arg(out.path()).args(["--format", "index", "--force"]);
        run(split.args(options).env("SOURCE_DATE_EPOCH", "1700000000"));
        times(&out.path().join("simple"))
    };
    let mut before = index(&["--gpu-targets", "gfx942"]);
    for options in [["--gpu-targets", "gfx90a"], ["--gpu-targets", "gfx90a"], ["--deflate", "0"]] {
        let after = index(&options);
        let ended = now();
        assert_eq!(after[plain].0, OLD);
        for (path, (time, _)) in after.iter().filter(|(path, _)| *path != plain) {
            assert!((begun..=ended).contains(time), "{options:?}: {}", path.display());
            assert!(before.get(path).is_none_or(|old| old.0 < *time), "{options:?}: {}", path.display());
        }
        before = after;
    }
}
