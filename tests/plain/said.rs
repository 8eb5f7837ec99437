//! What commands say after success: what was written, where, and what to type next. Each row is a stumble of a user who typed the
//! first words. Before (49c10d04), nothing was printed.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{code_object, fixture, put};
use crate::verify::wheels::unpacked;
use serde_json::Value;
use tempfile::TempDir;

use crate::forms::made::zipped;

struct Place(TempDir);

impl Place {
    /// With an install tree that has code for gfx90a and gfx1030.
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("fat/lib")).unwrap();
        fs::write(place.path().join("fat/lib/libx.so"), fixture("plain.so")).unwrap();
        Self(place)
    }

    /// An environment with a library for gfx1100, and a package that has code for other GPUs to which no wrapper leads.
    fn installs(&self) {
        for directory in ["venv/bin", "site/imported", "site/data-1.dist-info", "site/data"] {
            fs::create_dir_all(self.0.path().join(directory)).unwrap();
        }
        let put = |path: &str, bytes: &[u8]| fs::write(self.0.path().join(path), bytes).unwrap();
        put("site/imported/libx.so", &fixture("mixed.so"));
        put("site/data/x.so", &fixture("object.o"));
        put("site/data-1.dist-info/RECORD", b"data/x.so,,\n");
        put("venv/bin/python", b"#!/bin/sh\nprintf %s \"$PWD/site\"\n");
        let is_program = Permissions::from_mode(0o755);
        fs::set_permissions(self.0.path().join("venv/bin/python"), is_program).unwrap();
    }

    /// Stdout and stderr of a line that succeeds, as far as it can.
    #[track_caller]
    fn types(&self, line: &str) -> (String, String) {
        // No tree has the HIP runtime that the library needs.
        self.ends(i32::from(line.contains(" collect ")), line.strip_prefix("kpackfs ").unwrap())
    }

    /// Stdout and stderr of words that end with this exit code.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> (String, String) {
        let (place, mut command) = (self.0.path(), Command::new(env!("CARGO_BIN_EXE_kpackfs")));
        command.args(words.split(' ')).current_dir(place).env("KPACKFS_CACHE_DIR", place.join("cache"));
        let Output { status, stdout, stderr } = command.env("VIRTUAL_ENV", place.join("active")).output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(status.code(), Some(code), "{words}: {stdout}{stderr}");
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
    unpacked(&place.0.path().join("wheel"), "fat", "1.0");
    fs::copy(place.0.path().join("fat/lib/libx.so"), place.0.path().join("wheel/fat/libx.so")).unwrap();
    for (typed, lines) in [
        (
            "kpackfs split fat -o out",
            &[
                "kpackfs: wrote 3 parts to out, ",
                "host, 1 file",
                "gfx90a, 1 file",
                "note: data was not searched for code, \"kpackfs inspect\" does that",
                "next: kpackfs verify out --against fat",
            ][..],
        ),
        (
            "kpackfs split fat --view thin/gfx90a -o thin",
            &["kpackfs: wrote 1 view to thin, ", "thin/gfx90a, 1 file", "next: kpackfs verify thin --against fat"],
        ),
        (
            "kpackfs split fat --view gfx90a -o device",
            &["kpackfs: wrote 1 view to device, ", "next: kpackfs verify device"],
        ),
        (
            "kpackfs split wheel --view gfx90a/ --view gfx1030 -o devices",
            &["kpackfs: wrote 2 views to devices, ", "next: kpackfs verify devices"],
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
            &["kpackfs: wrote 3 pieces to ., ", "apps-common.zip", "next: kpackfs inspect apps-gfx1030.zip"],
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

/// Before (943a0737), each of these words led to an answer that said less, or to another exit code.
#[test]
fn the_next_command_can_be_pasted_with_any_name() {
    let place = Place::new();
    let run = |command: &mut Command| {
        let Output { status, stderr, .. } = command.current_dir(place.0.path()).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{said}");
        said
    };
    for name in [&b"it's\nnew"[..], b"not UTF-8: \xff", "\u{202e}so".as_bytes()] {
        let output = OsStr::from_bytes(name);
        let said = run(Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(["split", "fat", "-o"]).arg(output));
        let next = said.lines().find_map(|line| line.strip_prefix("next: kpackfs ")).unwrap();
        run(Command::new("bash").args(["-c", &format!("{} {next}", env!("CARGO_BIN_EXE_kpackfs"))]));
    }
}

#[test]
fn the_first_words_of_a_newcomer_lead_on() {
    let place = Place::new();
    fs::create_dir(place.0.path().join("empty")).unwrap();
    fs::write(place.0.path().join("x.kpack"), "").unwrap();
    fs::write(place.0.path().join("x-1.0-py3-none-any.whl"), "<html>").unwrap();
    fs::File::create(place.0.path().join("zeros")).unwrap().set_len(200 << 20).unwrap();
    place.installs();
    fs::create_dir(place.0.path().join("links")).unwrap();
    std::os::unix::fs::symlink("../x.kpack", place.0.path().join("links/x.whl")).unwrap();
    let gpu = "GPUs are named by an option: --target of why, --require of inspect, --gpu-targets of others";
    let unknown = "gfx9999 (no GPU or family of this name is known)";
    for (typed, code, wanted) in [
        ("cache list", 0, "kpackfs: nothing is kept in "),
        ("cache prune", 0, "kpackfs: no index had to be removed"),
        ("recombine a b -o c", 5, "a: No such file or directory"),
        ("recombine a b", 2, "Usage: kpackfs recombine [OPTIONS] <CONFIG> <SHARDS> --output <DIR>\n"),
        (
            "recombine x.kpack",
            2,
            "tip: CONFIG is a packaging configuration, SHARDS a directory of artifacts; of a split",
        ),
        ("recombine x.kpack fat -o c", 1, "kpackfs: x.kpack: it is no packaging configuration, which is JSON"),
        ("collect fat --from fat --gpu-targets gfx90a -o x.kpack/app", 2, "kpackfs: x.kpack: is not a directory"),
        ("status", 2, "tip: 'findmnt -t fuse.kpackfs' lists the mounts"),
        (
            "inspect dist/*.whl",
            5,
            "dist/*.whl: No such file or directory; a shell expands \"*\" outside of quotes only",
        ),
        ("kpack list none", 5, "none: No such file or directory"),
        (
            "mount fat empty -o allow_other",
            2,
            "tip: mount options are options here: '--allow-other' for '-o allow_other'",
        ),
        ("split fat -o out --keep-version", 2, "--local-version and --keep-version are about thin wheels"),
        ("inspect fat --max-part 1k", 2, "500M or 500MiB (1024 x 1024), 2GB (1000 x 1000 x 1000), or github-release"),
        ("mount x-1.0-py3-none-any.whl empty", 5, "x-1.0-py3-none-any.whl: no wheel despite its name"),
        ("kpack list zeros --memory 64", 1, "zeros: it is not a version 1 kpack archive"),
        ("kpack list fat/lib/libx.so", 1, "no archive; `kpackfs kpack unbundle` writes the code objects of a binary"),
        ("umount --help", 0, "Example:\n  kpackfs umount mnt"),
        ("kpack --help", 0, "Examples:\n  kpackfs kpack list"),
        ("cache --help", 0, "Examples:\n  kpackfs cache list"),
        ("kpack x.kpack", 2, "tip: 'kpackfs kpack list FILE' says what is in it"),
        ("kpack create fat/lib/libx.so -o y.kpack", 1, "--from-binary takes the code of a fat binary"),
        ("kpack bundle fat/lib/libx.so -o y", 1, "`kpackfs kpack unbundle` takes them out of a binary or a bundle"),
        (
            "kpack create --from-binary fat/lib/libx.so --target gfx942 -o y.kpack",
            1,
            "fat/lib/libx.so: no code objects for gfx942, but for gfx1030, gfx90a",
        ),
        ("umount none", 1, "none: not a mount point; `findmnt -t fuse.kpackfs` lists"),
        ("inspect empty", 0, "It has no files.\n"),
        ("inspect gfx942", 5, gpu),
        ("why fat gfx1151", 5, gpu),
        ("inspect rocm/pytorch:latest", 5, "skopeo copy docker://… oci:DIR:TAG"),
        (
            "inspect oci:none:tag",
            5,
            "oci:none:tag: No such file or directory; if it is an image, copy it into a layout",
        ),
        ("inspect fat --require gfx9999", 1, unknown),
        ("why fat --target gfx9999", 1, unknown),
        (
            "split fat -o out --gpu-targets gfx103x",
            1,
            "nothing for it (no GPU or family of this name is known); it has",
        ),
        // Before (df2c4683), it said that a wheel with code in its data has code for no GPU at all, and that a path which is not there
        // needs a GPU.
        ("split empty -o out --gpu-targets gfx942", 1, "there is nothing to split in it; `kpackfs inspect` says"),
        ("why none", 5, "none: No such file or directory"),
        ("why ./none", 5, "./none: No such file or directory"),
        ("why fat --python none --target gfx942", 5, "name an interpreter, or the directory of an environment"),
        ("why --python venv imported --target gfx942", 1, "imported/libx.so: no code for gfx942"),
        ("why --python venv imported --target gfx1100", 0, "imported/libx.so: code for gfx1100 is found"),
        ("why --python venv imported data --target gfx1100", 1, "data/x.so: no code for gfx1100"),
        ("why --python venv absent --target gfx942", 5, "no package of this name is in "),
        ("why libx.so.1 --target gfx942", 5, "libx.so.1: No such file or directory; `kpackfs why --binary NAME` looks"),
        ("inspect none", 5, "none: No such file or directory; if it is a package, only `kpackfs why` takes its name"),
        ("split none -o none", 1, "none: it is in the input none; name an output outside of it"),
        ("inspect none/libx.so", 5, "none/libx.so: No such file or directory\n"),
        ("split fat -o out --gpu-targets gfx942", 1, "the input has nothing for it; it has code for"),
        // Before (3456e689), none of these was asked for its neighbour, and two equal inputs took 58 rows.
        ("help splt", 2, "tip: did you mean split?"),
        ("help kpack lst", 2, "tip: did you mean list?"),
        ("inspect fta", 5, "fta: No such file or directory; did you mean fat?"),
        ("why --python venv dta --target gfx942", 5, "; did you mean data?"),
        (
            "split fat -o out --gpu-targets gfx1003",
            1,
            "(no GPU or family of this name is known; did you mean gfx1030?)",
        ),
        ("cat fat host/lib/libz.so", 1, "; did you mean host/lib/libx.so?"),
        ("ls fat lib", 1, "; did you mean host/lib?"),
        ("collect --from fat fat -o app", 2, "tip: APP comes first: all words behind '--from' are trees"),
        ("collect fat --from fat --gpu-targets gfx90a --explain lib/libz.so", 2, "; did you mean lib/libx.so?"),
        ("diff fat fat", 0, "4 equal\n\nEqual: all bytes of 1 file and 4 code objects were"),
        (
            "split links --format index -o out",
            5,
            "symlinks that lead out of it that were not looked into (1, such as x.whl)",
        ),
        ("unbundle fat", 2, "tip: 'kpackfs kpack unbundle' does that"),
        ("du fat", 2, "tip: 'kpackfs inspect --sizes INPUT' says what would be written"),
        ("absent.whl", 2, "tip: no file has this name, and no command"),
        ("split fat -o out --dry-run", 2, "tip: 'kpackfs inspect --sizes INPUT' says what would be written"),
        ("why fat --target gfx90a --wrapper 7", 5, "--wrapper 7: no library has so many"),
        ("why fat --target 1030", 2, "such as gfx942; did you mean gfx1030?"),
        ("why fat --target mi300x", 2, "mi300x is not one GPU; name processors as rocminfo does, such as gfx942"),
        ("inspect fat --require gfx94", 2, "; did you mean gfx940 or gfx941 or gfx942?"),
        ("why hipErrorNoBinaryForGpu --target gfx942", 5, "; of a message, `kpackfs why` names the cause in"),
        ("collect fat --from fat --gpu-targets gfx90a -o My.AppImage", 2, "this format is not written"),
        ("split fat -o oci:out", 2, "name it without oci: and tags"),
        ("collect fat --from fat -o app", 2, "such as gfx942, or auto for those of this machine"),
        ("inspect fat --html page.html", 0, "kpackfs: wrote page.html, "),
        ("index fat", 0, "kpackfs: wrote "),
        ("cache clear", 0, "kpackfs: removed "),
    ] {
        let (printed, said) = place.ends(code, typed);
        let said = printed + &said;
        assert!(said.contains(wanted) && !said.contains(" 0 B"), "{typed}: {said}");
    }
}

/// What is not split is named, also if only programs read it.
#[test]
fn json_says_what_is_not_split() {
    let place = Place::new();
    let expected = "stays as a whole (lib/kernel.bin); data was not searched for code, \"kpackfs inspect\" does that";
    fs::write(place.0.path().join("fat/lib/kernel.bin"), code_object(0x4c)).unwrap();
    for typed in ["kpackfs split fat -o one --json", "kpackfs split fat -o other --json -q"] {
        let written: Value = serde_json::from_str(&place.types(typed).0).unwrap();
        assert_eq!(written["not_split"], format!("1 file with device code {expected}"), "{typed}");
    }
    fs::write(place.0.path().join("fat/lib/other.bin"), code_object(0x4c)).unwrap();
    let written: Value = serde_json::from_str(&place.types("kpackfs split fat -o two --json").0).unwrap();
    let expected = expected.replace("stays", "2 files with device code stay").replace('(', "(such as ");
    assert_eq!(written["not_split"], expected);
    // An archive is data, which `inspect` searches.
    put(place.0.path().join("fat/lib/table.npz"), zipped(&[("table.npy", b"numbers".to_vec())]));
    let written: Value = serde_json::from_str(&place.types("kpackfs split fat -o four --json").0).unwrap();
    assert_eq!(written["not_split"], expected);
    // Of artifacts as well.
    let artifact = place.0.path().join("x_lib_gfx90X");
    fs::create_dir(&artifact).unwrap();
    fs::write(artifact.join("artifact_manifest.txt"), "stage\n").unwrap();
    fs::rename(place.0.path().join("fat"), artifact.join("stage")).unwrap();
    let written: Value = serde_json::from_str(&place.types("kpackfs split x_lib_gfx90X -o three --json").0).unwrap();
    assert_eq!(written["not_split"], expected.replace("lib/", "stage/lib/"));
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
