//! What commands say after success: what was written, where, and what to type next. Each row is a stumble of a user who typed the
//! first words. Before (49c10d04), nothing was printed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::fixture;
use serde_json::Value;
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    /// With an install tree that has code for gfx90a and gfx1030.
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("fat/lib")).unwrap();
        fs::write(place.path().join("fat/lib/libx.so"), fixture("plain.so")).unwrap();
        Self(place)
    }

    /// Stdout and stderr of a line that succeeds, as far as it can.
    #[track_caller]
    fn types(&self, line: &str) -> (String, String) {
        let words = line.strip_prefix("kpackfs ").unwrap().split(' ');
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.args(words).current_dir(self.0.path()).env("KPACKFS_CACHE_DIR", self.0.path().join("cache"));
        let Output { status, stdout, stderr } = command.output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        // No tree has the HIP runtime that the library needs.
        let expected = i32::from(line.contains(" collect "));
        assert_eq!(status.code(), Some(expected), "{line}: {stderr}");
        (stdout, stderr)
    }

    fn size(&self, path: &str) -> u64 {
        let sizes = |directory: &Path| -> u64 {
            let size = |entry: fs::DirEntry| {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() { self.size(entry.path().to_str().unwrap()) } else { metadata.len() }
            };
            fs::read_dir(directory).unwrap().map(|entry| size(entry.unwrap())).sum()
        };
        sizes(&self.0.path().join(path))
    }
}

#[test]
fn success_says_what_was_written_and_what_comes_next() {
    let place = Place::new();
    for (typed, lines) in [
        (
            "kpackfs split fat -o out",
            &[
                "kpackfs: wrote 3 parts to out, ",
                "host, 1 file",
                "gfx90a, 1 file",
                "next: kpackfs verify out --against fat",
            ][..],
        ),
        (
            "kpackfs split fat --view thin/gfx90a -o thin",
            &["kpackfs: wrote 1 view to thin, ", "thin/gfx90a, 1 file", "next: kpackfs verify thin --against fat"],
        ),
        (
            "kpackfs kpack create --from-binary fat/lib/libx.so --target gfx90a -o x.kpack",
            &["kpackfs: wrote x.kpack, ", "next: kpackfs kpack list x.kpack"],
        ),
        ("kpackfs kpack unbundle fat/lib/libx.so -o code", &["code objects to code, ", ".gfx90a.hsaco"]),
        ("kpackfs kpack extract x.kpack -o objects/", &["code objects to objects/, "]),
        (
            "kpackfs kpack bundle code/libx.so.0.gfx90a.hsaco -o x.bundle",
            &["wrote x.bundle, ", "next: kpackfs why --target gfx90a x.bundle"],
        ),
        (
            "kpackfs collect fat --from fat --gpu-targets gfx90a -o app",
            &["kpackfs: wrote app, ", "next: kpackfs why app --target gfx90a"],
        ),
        (
            "kpackfs collect fat --from fat --gpu-targets gfx90a,gfx1030 --shared -o apps",
            &["kpackfs: wrote 3 pieces to apps, ", "common, ", "gfx1030, ", "next: kpackfs inspect apps/gfx1030"],
        ),
        (
            "kpackfs collect fat --from fat --gpu-targets gfx90a,gfx1030 --shared -o apps.zip",
            &["kpackfs: wrote 3 pieces to ., ", "apps-common.zip", "next: kpackfs inspect ./apps-gfx1030.zip"],
        ),
        (
            "kpackfs collect fat --from fat --gpu-targets gfx90a -o app.zip",
            &["kpackfs: wrote app.zip, ", "next: kpackfs inspect app.zip"],
        ),
    ] {
        let (_, said) = place.types(typed);
        let mut rest = said.lines();
        for line in lines {
            assert!(rest.any(|said| said.contains(line)), "{typed}: {line}\n{said}");
        }
        // The next command can be typed as it is.
        for next in said.lines().filter_map(|line| line.strip_prefix("next: ")) {
            place.types(next);
        }
    }
}

#[test]
fn json_has_what_was_written_and_quiet_says_nothing() {
    let place = Place::new();
    let (printed, said) = place.types("kpackfs split fat -o out --json");
    let written: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((said.as_str(), written["pieces"].as_array().unwrap().len()), ("", 3));
    for piece in written["pieces"].as_array().unwrap() {
        assert_eq!(piece["size"], place.size(&format!("out/{}", piece["name"].as_str().unwrap())), "{piece}");
    }
    let (printed, said) = place.types("kpackfs collect fat --from fat --gpu-targets gfx90a -o app --json");
    let collected: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(collected["written"]["size"], place.size("app"));
    assert!(!said.contains("wrote"), "{said}");
    let file = &collected["files"][0];
    let size = fs::metadata(place.0.path().join("app").join(file["path"].as_str().unwrap())).unwrap().len();
    assert_eq!(file["size"], size, "{file}");
    for typed in [
        "kpackfs split fat -o quiet -q",
        "kpackfs -q split fat -o quiet --force",
        "kpackfs kpack unbundle fat/lib/libx.so -o code --quiet",
    ] {
        assert_eq!(place.types(typed), (String::new(), String::new()), "{typed}");
    }
}
