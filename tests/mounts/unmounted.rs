//! `ls` and `cat` show what a mount shows.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::mounts::{Mount, tree, wheel};

/// A file of a mount as tar reads it: kind, mode, size, time and target, and its bytes.
type Member = (Value, Vec<u8>);

fn kpackfs(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).arg("--no-cache").output().unwrap()
}

#[track_caller]
fn printed(arguments: &[&str]) -> Vec<u8> {
    let output = kpackfs(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn members(mount: &Path) -> BTreeMap<String, Member> {
    let tar = Command::new("tar")
        .args(["--create", "--format=pax", "--hard-dereference", "--directory"])
        .arg(mount)
        .arg(".")
        .stdout(Stdio::piped())
        .spawn();
    let mut tar = tar.unwrap();
    let mut archive = tar::Archive::new(tar.stdout.take().unwrap());
    let mut members = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().strip_prefix(".").unwrap().to_str().unwrap().to_owned();
        let kind = match entry.header().entry_type() {
            tar::EntryType::Directory => "directory",
            tar::EntryType::Symlink => "symlink",
            _ => "file",
        };
        let target = entry.link_name().unwrap().map(|target| target.to_str().unwrap().to_owned());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let header = entry.header();
        let mut described = serde_json::json!({
            "path": path,
            "kind": kind,
            "mode": format!("{:04o}", header.mode().unwrap()),
            "size": bytes.len(),
            "mtime": header.mtime().unwrap().cast_signed(),
        });
        match target {
            Some(target) => {
                described["size"] = target.len().into();
                described["target"] = target.into();
            }
            None if kind == "directory" => described["size"] = 4096.into(),
            None => {}
        }
        members.insert(path, (described, bytes));
    }
    assert!(tar.wait().unwrap().success());
    members.remove("");
    members
}

/// A tree with symlinks of all sorts.
fn linked_tree(place: &Path) -> std::path::PathBuf {
    let tree = tree(place);
    fs::remove_dir_all(tree.join("demo-1.0.dist-info")).unwrap();
    for (link, target) in [
        ("demo/lib/link.so", "plain.so"),
        ("demo/libs", "lib/"),
        ("demo/loop", "loop"),
        ("demo/out", "/etc/passwd"),
        ("demo/nothing", "missing"),
    ] {
        symlink(target, tree.join(link)).unwrap();
    }
    tree
}

#[test]
fn ls_and_cat_show_what_tar_reads_from_a_mount() {
    for make in [linked_tree, wheel] {
        let place = tempfile::tempdir().unwrap();
        let input = make(place.path());
        let Some(mount) = Mount::new(&input, &["--no-cache"]) else { return };
        let input = input.to_str().unwrap();
        let members = members(mount.path());
        let listed = printed(&["ls", input, "-R", "-l", "--json"]);
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let listed: BTreeMap<_, _> =
            listed["entries"].as_array().unwrap().iter().map(|it| (it["path"].as_str().unwrap(), it)).collect();
        for (path, (described, _)) in &members {
            assert_eq!(listed.get(path.as_str()), Some(&described));
        }
        assert_eq!(listed.len(), members.len());
        let lines = String::from_utf8(printed(&["ls", "-R", input])).unwrap();
        let mut lines: Vec<_> = lines.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, members.keys().map(String::as_str).collect::<Vec<_>>());
        let files: Vec<_> = members.iter().filter(|(_, (described, _))| described["kind"] == "file").collect();
        let names: Vec<_> = files.iter().map(|(path, _)| path.as_str()).collect();
        let bytes = printed(&[&["cat", input], &*names].concat());
        let mut rest = bytes.as_slice();
        for (path, (_, expected)) in files {
            let (here, after) = rest.split_at(expected.len().min(rest.len()));
            assert!(here == expected, "{path}");
            rest = after;
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn paths_lead_where_those_of_a_mount_lead() {
    let place = tempfile::tempdir().unwrap();
    let input = linked_tree(place.path());
    let input = input.to_str().unwrap();
    let text = |arguments: &[&str]| String::from_utf8(printed(arguments)).unwrap();
    let status = text(&["cat", input, ".kpackfs/report.json"]);
    assert!(status.contains("json_version"), "{status}");
    assert_eq!(text(&["cat", input, "/host/./demo/small.txt", "merged/gfx90a/demo/small.txt"]), "hellohello");
    assert_eq!(printed(&["cat", input, "host/demo/libs/link.so"]), printed(&["cat", input, "host/demo/lib/plain.so"]));
    assert_eq!(
        text(&["ls", input, "device/gfx90a", "-R"]),
        text(&["ls", input, "gfx90a", "-R"]).replace("gfx90a/.", "device/gfx90a/.")
    );
    assert_eq!(text(&["ls", input, "host/demo/libs"]), "compressed.so\nlink.so\nmixed.so\nplain.so\n");
    assert_eq!(text(&["ls", input, "host/demo/small.txt"]), "host/demo/small.txt\n");
    let link = text(&["ls", "-l", input, "host/demo/loop"]);
    assert!(link.starts_with("lrwxrwxrwx            4 ") && link.ends_with(" host/demo/loop -> loop\n"), "{link}");
    // Not listed, as in a mount, but there.
    let thin = text(&["ls", input, "thin/gfx90a+gfx1100/demo/lib"]);
    assert!(thin.contains("plain.so"), "{thin}");
    for (arguments, code, said) in [
        (
            &["cat", input, "host/demo/small.txt", "host/none/x"][..],
            1,
            "no host/none/x in the views; `kpackfs ls INPUT host`",
        ),
        (&["cat", input, "none"], 1, "no none in the views; `kpackfs ls INPUT` lists"),
        (&["cat", input, "host/demo"], 1, "host/demo is a directory; `kpackfs ls -R INPUT host/demo`"),
        (&["cat", input, "host/demo/loop"], 1, "no host/demo/loop"),
        (&["cat", input, "host/demo/out"], 1, "its symlink host/demo/out leads out of the views"),
        (&["cat", input, "host/../x"], 1, "host/../x: "),
        (&["cat", input], 2, "<PATH>"),
        (&["ls", input, "host/demo/small.txt/x"], 1, "no host/demo/small.txt/x"),
        (&["ls", &format!("{input}/none")], 5, "/none"),
    ] {
        let output = kpackfs(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && stderr.contains(said), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn readers_that_stop_early_see_no_error() {
    let place = tempfile::tempdir().unwrap();
    let input = tree(place.path());
    for command in ["cat \"$1\" host/demo/deflated.txt", "ls -Rl \"$1\""] {
        let line = format!("\"$0\" {command} | head -c 1 >&2; echo ${{PIPESTATUS[0]}}");
        let output =
            Command::new("bash").args(["-c", &line, env!("CARGO_BIN_EXE_kpackfs")]).arg(&input).output().unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.len()), (&b"0\n"[..], 1), "{output:?}");
    }
}
