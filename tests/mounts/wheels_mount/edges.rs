//! Unusual members of wheels: nothing is lost, and nothing is skipped silently.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::{self, files_below, fixture, run, skipped};
use crate::wheels_mount::wheels::{Mount, complaints, kpackfs, python, unpacked, wheel, wheel_names};

const FILE: u32 = 0o100_644;

/// Deflates members with these modes to the wheel `edge`, version 1.0.
fn zipped(directory: &TempDir, members: &[(&str, u32, Vec<u8>)]) -> PathBuf {
    let out = directory.path().join("edge-1.0-py3-none-any.whl");
    let mut all = members.to_vec();
    let mut add = |name, content: &[u8]| {
        if !members.iter().any(|(member, ..)| *member == name) {
            all.push((name, FILE, content.to_vec()));
        }
    };
    add("edge-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: edge\nVersion: 1.0\n");
    add("edge-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n");
    add("edge-1.0.dist-info/RECORD", b"");
    let contents = tempfile::tempdir().unwrap();
    let write = |(number, (name, mode, content)): (usize, &(&str, u32, Vec<u8>))| {
        let path = contents.path().join(number.to_string());
        fs::write(&path, content).unwrap();
        let member = format!("i = zipfile.ZipInfo({name:?})\ni.compress_type = 8\ni.external_attr = {mode} << 16\n");
        member + &format!("z.writestr(i, open({:?}, 'rb').read())\n", path.display())
    };
    let members: String = all.iter().enumerate().map(write).collect();
    let open = format!("import zipfile\nz = zipfile.ZipFile({:?}, 'w', zipfile.ZIP_DEFLATED)\n", out.display());
    python(["-c", &(open + &members + "z.close()\n")]);
    out
}

/// Splits into `out` below the directory.
fn split(directory: &TempDir, input: &Path, more: &[&str]) -> (PathBuf, Output) {
    let out = directory.path().join("out");
    let _ = fs::remove_dir_all(&out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    command.args(["-q", "split"]).arg(input).arg("-o").arg(&out).args(more);
    (out, command.output().unwrap())
}

fn splits(directory: &TempDir, input: &Path, more: &[&str]) -> (PathBuf, String) {
    let (out, output) = split(directory, input, more);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (out, said)
}

/// The error when nothing is written.
fn refusal(directory: &TempDir, input: &Path, more: &[&str]) -> String {
    let (out, output) = split(directory, input, more);
    assert_eq!(output.status.code(), Some(1));
    assert!(!out.exists());
    String::from_utf8(output.stderr).unwrap()
}

fn verify(paths: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).arg("verify").args(paths).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn verifies(paths: &[&Path]) {
    let (code, said) = verify(paths);
    assert_eq!(code, Some(0), "{paths:?}: {said}");
}

/// A package with libraries at the wheel's root and in both data directories that are installed there.
fn in_pieces(directory: &TempDir) -> PathBuf {
    let placed = "lib/rocblas/library/gfx90a/x.dat";
    wheel(
        directory,
        "edge",
        &[
            ("edge/lib/libplain.so", fixture("plain.so")),
            ("edge-1.0.data/platlib/edge/lib/libmixed.so", fixture("mixed.so")),
            ("edge-1.0.data/purelib/edge/libsmall.so", fixture("small.so")),
            ("edge-1.0.data/purelib/edge/lib/libplain.so", fixture("plain.so")),
            ("edge-1.0.data/data/share/libmixed.so", fixture("mixed.so")),
            (&format!("edge-1.0.data/platlib/edge/{placed}"), b"database".to_vec()),
            ("edge-1.0.data/scripts/tool", b"#!python\n".to_vec()),
        ],
    )
}

#[test]
fn what_is_installed_together_has_one_archive() {
    if !Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return skipped("python3 has no pip");
    }
    let directory = tempfile::tempdir().unwrap();
    let input = in_pieces(&directory);
    let names = wheel_names(&input);
    let (out, _) = splits(&directory, &input, &["--format", "wheel"]);
    assert_eq!(complaints(&out), "");
    let target = tempfile::tempdir().unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--isolated", "--no-index", "--no-deps", "--quiet", "--no-compile", "--target"]);
    run(pip.arg(target.path()).arg(out.join(&names["host"])).arg(out.join(&names["gfx90a"])));
    let archive = target.path().join("edge/.kpack/edge_gfx90a.kpack");
    let listed = String::from_utf8(kpackfs(["kpack", "list", archive.to_str().unwrap()]).stdout).unwrap();
    for library in ["lib/libplain.so#0", "lib/libmixed.so#0", "libsmall.so#0"] {
        assert!(listed.contains(library), "{listed}");
    }
    verifies(&[target.path()]);
}

/// Most bytes of a manifest are digests.
#[test]
fn archives_and_manifests_are_stored_and_the_rest_is_deflated() {
    let directory = tempfile::tempdir().unwrap();
    let input = in_pieces(&directory);
    let names = wheel_names(&input);
    let (out, _) = splits(&directory, &input, &["--format", "wheel"]);
    let mut seen = [0; 2];
    for part in ["host", "gfx90a"] {
        let mut zip = zip::ZipArchive::new(fs::File::open(out.join(&names[part])).unwrap()).unwrap();
        for number in 0..zip.len() {
            let member = zip.by_index(number).unwrap();
            let name = member.name().unwrap();
            let is_stored = member.compression() == zip::CompressionMethod::Stored;
            let kinds = [".kpack", ".dist-info/kpackfs-manifest.json"].map(|suffix| name.ends_with(suffix));
            seen = [0, 1].map(|kind| seen[kind] + usize::from(kinds[kind]));
            let expected = kinds.contains(&true);
            // The input stores its members, and deflating would enlarge the shortest ones.
            let may_be_stored = !name.contains(".dist-info/") || member.size() < 100;
            assert!(is_stored == expected || (is_stored && may_be_stored), "{name}: {is_stored}");
        }
    }
    assert!(seen[0] > 2 && seen[1] == 2, "{seen:?}");
}

#[test]
fn a_merged_view_is_what_is_installed() {
    let directory = tempfile::tempdir().unwrap();
    let input = in_pieces(&directory);
    let (Some(mount), Some(with_arch)) = (Mount::new(&input, &[]), Mount::new(&input, &["--arch", "gfx90a"])) else {
        return;
    };
    let merged = files_below(&mount.at("merged/gfx90a"));
    assert_eq!(merged, files_below(&with_arch.at("host")));
    assert_eq!(merged, files_below(&with_arch.at("merged/gfx90a")));
    let paths: Vec<_> = merged.keys().map(|path| path.to_str().unwrap()).collect();
    let expected = [
        "amd_edge_device_gfx90a-1.0.dist-info/METADATA",
        "amd_edge_device_gfx90a-1.0.dist-info/RECORD",
        "amd_edge_device_gfx90a-1.0.dist-info/WHEEL",
        "amd_edge_device_gfx90a-1.0.dist-info/kpackfs-manifest.json",
        "amd_edge_device_gfx90a-1.0.dist-info/kpackfs.json",
        "amd_edge_device_gfx90a-1.0.dist-info/top_level.txt",
        "edge/.kpack/edge_gfx90a.kpack",
        "edge/.kpack/edge_gfx90a:xnack+.kpack",
        "edge/lib/libmixed.so",
        "edge/lib/libplain.so",
        "edge/lib/rocblas/library/gfx90a/x.dat",
        "edge/libsmall.so",
        "edge-1.0.data/data/bin/tool",
        "edge-1.0.data/data/share/.kpack/edge_gfx90a.kpack",
        "edge-1.0.data/data/share/.kpack/edge_gfx90a:xnack+.kpack",
        "edge-1.0.data/data/share/libmixed.so",
        "edge-1.0.dist-info/METADATA",
        "edge-1.0.dist-info/RECORD",
        "edge-1.0.dist-info/WHEEL",
        "edge-1.0.dist-info/kpackfs-manifest.json",
        "edge-1.0.dist-info/kpackfs.json",
    ];
    assert_eq!(paths, expected);
    for view in [mount.at("merged/gfx90a"), with_arch.at("host")] {
        verifies(&[&view]);
    }
    // Alone, the host part is the unpacked host wheel.
    assert!(mount.at("host/edge-1.0.data/platlib/edge/lib/libmixed.so").exists());
}

#[test]
fn a_record_that_contradicts_itself_tells_of_a_lost_file() {
    let directory = tempfile::tempdir().unwrap();
    let input = wheel(&directory, "edge", &[("edge/lib/libplain.so", fixture("plain.so"))]);
    let (out, _) = splits(&directory, &input, &["--view", "merged/gfx90a"]);
    let view = out.join("merged/gfx90a");
    verifies(&[&view]);
    let record = view.join("amd_edge_device_gfx90a-1.0.dist-info/RECORD");
    let other = "edge/.kpack/edge_gfx90a.kpack,sha256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,5\n";
    fs::write(&record, fs::read_to_string(&record).unwrap() + other).unwrap();
    let (code, said) = verify(&[&view]);
    assert!(code == Some(1) && said.contains("edge/.kpack/edge_gfx90a.kpack: amd_edge"), "{said}");
}

#[test]
fn two_members_with_one_place_have_to_be_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let library = ("edge/lib.so", FILE, fixture("plain.so"));
    let with = |members: &[(&str, &str)]| {
        let members: Vec<_> = members.iter().map(|(path, text)| (*path, FILE, text.as_bytes().to_vec())).collect();
        zipped(&directory, &[std::slice::from_ref(&library), &*members].concat())
    };
    let same = [("edge/a", "1"), ("edge-1.0.data/purelib/edge/a", "1")];
    splits(&directory, &with(&same), &["--format", "wheel"]);
    for (members, second) in [
        ([("edge/a", "1"), ("edge-1.0.data/purelib/edge/a", "2")], "purelib/edge/a"),
        ([("edge-1.0.data/platlib/edge/a", "1"), ("edge-1.0.data/purelib/edge/a", "2")], "purelib/edge/a"),
        ([("edge/a", "1"), ("edge-1.0.data/platlib/edge/a/b", "1")], "platlib/edge/a"),
        (
            [
                ("edge/rocblas/library/x_gfx90a.dat", "1"),
                ("edge-1.0.data/platlib/edge/rocblas/library/x_gfx90a.dat", "2"),
            ],
            "platlib/edge/rocblas/library/x_gfx90a.dat",
        ),
    ] {
        for format in ["wheel", "directory"] {
            let said = refusal(&directory, &with(&members), &["--format", format]);
            let (first, _) = members[0];
            assert!(said.contains(first) && said.contains(second) && said.contains("both are installed as"), "{said}");
        }
    }
}

#[test]
fn archives_of_the_input_keep_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("lib/one.so"), fixture("plain.so")).unwrap();
    let (out, _) = splits(&directory, &tree, &["--view", "merged/gfx90a"]);
    // One library is split already. The other one's code goes to the same archives.
    let half = directory.path().join("half");
    fs::rename(out.join("merged/gfx90a"), &half).unwrap();
    fs::write(half.join("lib/two.so"), fixture("mixed.so")).unwrap();
    let (out, said) = splits(&directory, &half, &["--view", "merged/gfx90a", "--view", "gfx90a", "--view", "host"]);
    assert_eq!(said, "");
    let merged = files_below(&out.join("merged/gfx90a"));
    let names = |merged: &crate::common::Files| -> Vec<String> {
        merged.keys().map(|path| path.to_str().unwrap().to_owned()).collect()
    };
    let archives = [".kpack/rocm_gfx90a.kpack", ".kpack/rocm_gfx90a:xnack+.kpack"];
    assert_eq!(names(&merged), [&archives[..], &["lib/one.so", "lib/two.so"]].concat());
    assert_eq!(merged[Path::new("lib/one.so")], fs::read(half.join("lib/one.so")).unwrap());
    verifies(&[&out.join("merged/gfx90a")]);
    // No marker names the archive any more.
    fs::remove_file(half.join("lib/one.so")).unwrap();
    let (out, said) = splits(&directory, &half, &["--view", "merged/gfx90a", "--view", "gfx90a", "--view", "host"]);
    assert!(said.contains(".kpack/rocm_gfx90a.kpack: an archive of the input"), "{said}");
    let merged = files_below(&out.join("merged/gfx90a"));
    let archives = [".kpack/rocm-2_gfx90a.kpack", ".kpack/rocm-2_gfx90a:xnack+.kpack", ".kpack/rocm_gfx90a.kpack"];
    assert_eq!(names(&merged), [&archives[..], &["lib/two.so"]].concat());
    assert_eq!(merged[Path::new(".kpack/rocm_gfx90a.kpack")], fs::read(half.join(".kpack/rocm_gfx90a.kpack")).unwrap());
    verifies(&[&out.join("merged/gfx90a")]);
    // A file in place of the directory cannot contain archives.
    fs::remove_dir_all(half.join(".kpack")).unwrap();
    fs::write(half.join(".kpack"), "file").unwrap();
    let said = refusal(&directory, &half, &[]);
    assert!(said.contains("\".kpack\" of the input and the archive \".kpack/rocm_gfx"), "{said}");
}

#[test]
fn members_have_the_modes_that_pip_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let library = fixture("plain.so");
    let members = [("edge/lib.so", 0o106_777, library.clone()), ("edge/text", 0o101_666, b"text".to_vec())];
    let input = zipped(&directory, &members);
    let mode = |path: PathBuf| path.metadata().unwrap().mode() & 0o7777;
    let (out, _) = splits(&directory, &input, &[]);
    assert_eq!((mode(out.join("host/edge/lib.so")), mode(out.join("host/edge/text"))), (0o755, 0o644));
    if let Some(mount) = Mount::new(&input, &[]) {
        assert_eq!((mode(mount.at("host/edge/lib.so")), mode(mount.at("host/edge/text"))), (0o755, 0o644));
    }
    // An install tree keeps its modes, but a copy has no set-ID bits unless they are asked for.
    let tree = directory.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for (name, mode) in [("lib.so", 0o4755), ("notes", 0o3660)] {
        fs::write(tree.join(name), &library).unwrap();
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let (out, said) = splits(&directory, &tree, &[]);
    assert!(said.contains("\"lib.so\" and 1 more: the set-ID bits are left out"), "{said}");
    assert_eq!((mode(out.join("host/lib.so")), mode(out.join("host/notes"))), (0o755, 0o1660));
    verifies(&[&out, Path::new("--against"), &tree]);
    let (out, said) = splits(&directory, &tree, &["--keep-set-id"]);
    assert_eq!(said, "");
    assert_eq!((mode(out.join("host/lib.so")), mode(out.join("host/notes"))), (0o4755, 0o3660));
    if let Some(mount) = Mount::new(&tree, &[]) {
        assert_eq!(mode(mount.at("host/lib.so")), 0o4755);
    }
}

#[test]
fn symlinks_become_copies() {
    const LINK: u32 = 0o120_777;
    let directory = tempfile::tempdir().unwrap();
    let input = zipped(
        &directory,
        &[
            ("edge/lib/libx.so", LINK, b"libx.so.1".to_vec()),
            ("edge/lib/libx.so.1", 0o100_755, fixture("plain.so")),
            ("edge/other/libx.so", LINK, b"../lib/libx.so".to_vec()),
            ("edge/text", FILE, b"text".to_vec()),
            ("edge/link", LINK, b"text".to_vec()),
        ],
    );
    let (out, said) = splits(&directory, &input, &["--format", "wheel"]);
    assert_eq!(said, "");
    assert_eq!(complaints(&out), "");
    let names = wheel_names(&input);
    let host = unpacked(&out.join(&names["host"]));
    assert_eq!(host[Path::new("edge/link")], b"text");
    assert_eq!(host[Path::new("edge/lib/libx.so")], host[Path::new("edge/lib/libx.so.1")]);
    assert_ne!(
        host[Path::new("edge/other/libx.so")],
        host[Path::new("edge/lib/libx.so")],
        "it has a marker of its own"
    );
    let (out, _) = splits(&directory, &input, &["--view", "merged/gfx90a"]);
    verifies(&[&out.join("merged/gfx90a")]);

    // The same for an unpacked wheel.
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("edge")).unwrap();
    for (path, content) in unpacked(&input) {
        common::put(tree.join(path), content);
    }
    fs::remove_file(tree.join("edge/link")).unwrap();
    symlink("text", tree.join("edge/link")).unwrap();
    let (out, _) = splits(&directory, &tree, &["--format", "wheel"]);
    let host = fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains("edge-1.0-"));
    assert_eq!(unpacked(&host.unwrap())[Path::new("edge/link")], b"text");

    let members = [
        ("edge/lib.so", FILE, fixture("plain.so")),
        ("edge/passwd", LINK, b"/etc/passwd".to_vec()),
        ("edge/self", LINK, b"../edge".to_vec()),
    ];
    let input = zipped(&directory, &members);
    let said = refusal(&directory, &input, &["--format", "wheel"]);
    assert!(
        said.contains("\"edge/passwd\" -> \"/etc/passwd\"") && said.contains("\"edge/self\" -> \"../edge\""),
        "{said}"
    );
}

#[test]
fn code_for_a_target_that_is_not_understood_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut odd = fixture("plain.so");
    let id = b"amdhsa--gfx1030";
    let places: Vec<_> = odd.windows(id.len()).enumerate().filter(|(_, there)| there == id).map(|(at, _)| at).collect();
    for at in places {
        odd[at..at + id.len()].copy_from_slice(b"amdhsa--GFX1030");
    }
    let tree = directory.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("mixed.so"), fixture("mixed.so")).unwrap();
    fs::write(tree.join("plain.so"), &odd).unwrap();
    let (out, said) = splits(&directory, &tree, &[]);
    assert!(
        said.contains("plain.so: runtimes that ask COMGR find no code") && said.contains("amdhsa--GFX1030; it is kept"),
        "{said}"
    );
    assert!(out.join("unknown/.kpack/rocm_unknown-.47.46.581030.kpack").exists());
    // The output of a splitter that drops such code.
    let whole = directory.path().join("whole");
    fs::create_dir(&whole).unwrap();
    fs::write(whole.join("mixed.so"), fixture("mixed.so")).unwrap();
    fs::write(whole.join("plain.so"), fixture("plain.so")).unwrap();
    let (out, _) = splits(&directory, &whole, &[]);
    let (code, said) = verify(&[&out, Path::new("--against"), &tree]);
    assert!(code == Some(1) && said.contains("its code for unknown-.47.46.581030 is not found"), "{said}");
}

#[test]
fn a_record_that_lies_is_noticed_where_digests_are_computed() {
    let directory = tempfile::tempdir().unwrap();
    let library = fixture("plain.so");
    let wrong = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let record = format!(
        "edge/lib.so,sha256={wrong},{}\nedge/text,sha256={wrong},4\nedge/long,sha256={wrong},5\n\
         edge-1.0.dist-info/LICENSE,sha256={wrong},7\n",
        library.len()
    );
    let members = [
        ("edge/lib.so", FILE, library),
        ("edge/text", FILE, b"text".to_vec()),
        ("edge/long", FILE, b"long".to_vec()),
        ("edge-1.0.dist-info/LICENSE", FILE, b"licence".to_vec()),
        ("edge-1.0.dist-info/RECORD", FILE, record.into_bytes()),
    ];
    let input = zipped(&directory, &members);
    for format in ["wheel", "directory"] {
        let (out, said) = splits(&directory, &input, &["--format", format]);
        assert!(said.contains("\"edge/long\": RECORD states another size"), "{said}");
        for member in ["edge/lib.so", "edge/text", "edge-1.0.dist-info/LICENSE"] {
            let warning = format!("{member:?}: the input's RECORD states another SHA-256");
            assert_eq!(said.matches(&warning).count(), 1, "{said}");
        }
        let (code, said) = verify(&[&out]);
        assert_eq!(code, Some(0), "{said}");
    }
    let cache = directory.path().join("cache");
    let cached = ["--cache-dir", cache.to_str().unwrap()];
    let mut index = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    let output = index.arg("index").arg(&input).args(cached).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    for member in ["edge/lib.so", "edge/text"] {
        assert!(said.contains(&format!("{member:?}: the input's RECORD states another SHA-256")), "{said}");
    }
    let (out, said) = splits(&directory, &input, &[&["--format", "wheel"], &cached[..]].concat());
    assert!(said.contains("edge/text"), "{said}");
    assert_eq!(complaints(&out), "");
}

/// The stored bytes of a member are copied as they are, but only after they have been read once.
#[test]
fn a_damaged_member_is_in_no_wheel() {
    let directory = tempfile::tempdir().unwrap();
    for (member, is_claimed) in [("edge/text", true), ("edge/text", false), ("edge-1.0.dist-info/LICENSE", true)] {
        // The SHA-256 of "text".
        let stated = "mC0bgvOrhEMnXIHmzs6kwrJQi1Ow5Vt9Cxiw7NjbcyE";
        let record = if is_claimed { format!("{member},sha256={stated},4\n") } else { String::new() };
        let members = [
            ("edge/lib.so", FILE, fixture("plain.so")),
            ("edge/text", FILE, b"text".to_vec()),
            ("edge-1.0.dist-info/LICENSE", FILE, b"text".to_vec()),
            ("edge-1.0.dist-info/RECORD", FILE, record.into_bytes()),
        ];
        let input = zipped(&directory, &members);
        let start = {
            let mut zip = zip::ZipArchive::new(fs::File::open(&input).unwrap()).unwrap();
            zip.by_name(member).unwrap().data_start().unwrap()
        };
        let mut bytes = fs::read(&input).unwrap();
        bytes[usize::try_from(start).unwrap() + 1] ^= 4;
        fs::write(&input, bytes).unwrap();
        for format in ["wheel", "directory"] {
            let (out, output) = split(&directory, &input, &["--format", format]);
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(1) && said.contains(member), "{format}: {said}");
            let is_empty = fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_none());
            assert!(is_empty || !out.exists(), "{format}");
        }
    }
}

#[test]
fn requirements_that_no_tool_takes_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let input = wheel(&directory, "edge", &[("edge/lib.so", fixture("plain.so"))]);
    for requirement in ["foo; bar", "foo >= banana"] {
        let (out, output) = split(&directory, &input, &["--format", "wheel", "--device-requires-dist", requirement]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("not a requirement") && !out.exists(), "{said}");
    }
}

/// SBOMs are kept where they hold: in the host wheel, unless they state digests of files that are rewritten.
#[test]
fn sboms_and_signatures_stay_where_they_are_true() {
    let directory = tempfile::tempdir().unwrap();
    let library = fixture("plain.so");
    let sum = kpackfs::split::hex(&Sha256::digest(&library));
    let in_dist_info = |name: &str| format!("edge-1.0.dist-info/{name}");
    let states = |name: &str, digest: &str| format!(r#"{{"files": [{{"fileName": "{name}", "value": "{digest}"}}]}}"#);
    let kept = [
        ("sboms/packages.cdx.json", r#"{"components": [{"name": "libgomp", "version": "1"}]}"#.to_owned()),
        ("sboms/python.spdx.json", states("edge/__init__.py", &sum.replace('0', "1"))),
    ];
    let dropped = [
        ("sboms/path.spdx.json", states("./edge/libedge.so", &"a".repeat(40))),
        ("sboms/sum.spdx.json", states("other.so", &sum)),
        ("sboms/deep/name.cdx.json", states("libedge.so", &"a".repeat(128))),
        ("sboms/metadata.spdx.json", states("edge-1.0.dist-info/METADATA", &"a".repeat(64))),
        ("RECORD.jws", "{}".to_owned()),
        ("RECORD.p7s", "{}".to_owned()),
    ];
    let members: Vec<_> = kept.iter().chain(&dropped).map(|(name, text)| (in_dist_info(name), text)).collect();
    let mut payload = vec![("edge/libedge.so", library)];
    payload.extend(members.iter().map(|(path, text)| (path.as_str(), text.as_bytes().to_vec())));
    let input = wheel(&directory, "edge", &payload);
    for form in [&["--format", "wheel"][..], &["--format", "thin-wheel", "--view", "gfx90a"], &[]] {
        let (out, said) = splits(&directory, &input, form);
        let found = files_below(&out).into_keys().find(|path| path.extension().is_some_and(|it| it == "whl"));
        let host = wheel_names(&input)["host"].clone();
        let wheel = match form {
            [_, "wheel"] => unpacked(&out.join(host)),
            [] => files_below(&out.join("host")),
            _ => unpacked(&out.join(found.unwrap())),
        };
        for (name, text) in &kept {
            assert_eq!(wheel.get(Path::new(&in_dist_info(name))).map(Vec::as_slice), Some(text.as_bytes()), "{name}");
        }
        for (name, _) in &dropped {
            assert!(!wheel.contains_key(Path::new(&in_dist_info(name))), "{form:?}: {name}");
            assert!(said.contains(&format!("{name}: left out")), "{said}");
        }
        assert!(!wheel.contains_key(Path::new(&in_dist_info("sboms/deep"))), "{form:?}");
        if !form.is_empty() {
            assert_eq!(complaints(&out), "");
            verifies(&[&out]);
        }
    }
}
