//! Where `why` looks: the environment of a project, and the root that a directory is in.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{copy_all, fixture, program, put, ran, succeeds};

fn why(place: &Path, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = program();
    command.args(["why", "--json", "--target", "gfx90a"]).args(arguments).current_dir(place);
    let output = command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX").output().unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), answer, String::from_utf8(output.stderr).unwrap())
}

fn libraries(answer: &Value) -> Vec<PathBuf> {
    answer["lookups"].as_array().unwrap().iter().map(|it| it["library"].as_str().unwrap().into()).collect()
}

#[test]
fn the_environment_of_a_project_is_found_from_below() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let site = place.join(".venv/lib/python3.11/site-packages/demo");
    for directory in [&site, &place.join("src/deep/.venv")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(site.join("plain.so"), fixture("plain.so")).unwrap();
    fs::write(place.join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    // What is called so and is no environment does not count.
    for from in ["", "src", "src/deep"] {
        let (code, answer, said) = why(&place.join(from), &[]);
        assert_eq!((code, libraries(&answer)), (Some(0), vec![site.join("plain.so")]), "{from}: {answer:#}");
        let expected = format!("the environment of {} is examined", place.join(".venv").display());
        assert!(said.contains(&expected), "{said}");
    }
    // What another user has made is not run. Only root can make such a one here.
    let nearer = place.join("src/.venv");
    fs::create_dir(&nearer).unwrap();
    fs::write(nearer.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let is_of_other = chown(&nearer, Some(54_321), None).is_ok();
    let (_, answer, said) = why(&place.join("src"), &[]);
    assert_eq!(libraries(&answer).is_empty(), !is_of_other, "{said}");
}

/// Its libraries, links and HIP runtime are those of the root, whichever directory of it is named.
#[test]
fn a_directory_of_an_unpacked_root_stays_in_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let root = place.join("root");
    let (mut split, fat) = (program(), fixture("plain.so"));
    fs::create_dir_all(place.join("fat")).unwrap();
    for file in ["fat/plain.so", "outside.so"] {
        fs::write(place.join(file), &fat).unwrap();
    }
    succeeds(split.args(["split", "-q", "fat", "-o", "parts"]).current_dir(&place));
    for directory in ["etc", "usr/lib", "usr/bin", "opt/demo"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for part in ["host", "gfx90a"] {
        copy_all(place.join(format!("parts/{part}/.")), root.join("opt/demo"));
    }
    symlink("/opt/demo/plain.so", root.join("usr/lib/libdemo.so")).unwrap();
    symlink(place.join("outside.so"), root.join("usr/lib/liboutside.so")).unwrap();
    fs::write(root.join("usr/lib/libamdhip64.so.7"), b"\x7fELF kpack_load_code_object").unwrap();
    let (inside, outside) = (root.join("opt/demo/plain.so"), place.join("outside.so"));
    // Without the mark it may be any directory, whose links lead to where this machine has them.
    let (_, answer, _) = why(&place, &["root/usr/lib"]);
    assert_eq!(libraries(&answer), [&*outside], "{answer:#}");
    for mark in ["etc/os-release", "usr/lib/os-release"] {
        fs::write(root.join(mark), "ID=demo\n").unwrap();
        for named in ["root/usr/lib", "root/usr", "root", "root/usr/lib/../lib", "root/opt/demo/plain.so"] {
            let (code, answer, _) = why(&place, &[named]);
            assert_eq!((code, libraries(&answer)), (Some(0), vec![inside.clone()]), "{named}: {answer:#}");
            let evidence = answer["lookups"][0]["evidence"].to_string();
            let expected = format!("would load {}", root.join("usr/lib/libamdhip64.so.7").display());
            assert!(evidence.contains(&expected), "{named}: {evidence}");
        }
        fs::remove_file(root.join(mark)).unwrap();
    }
    // Nor does a chain of links leave it.
    fs::write(root.join("etc/os-release"), "ID=demo\n").unwrap();
    symlink(&place, root.join("usr/bin/up")).unwrap();
    symlink("../bin/up/outside.so", root.join("usr/lib/libchain.so")).unwrap();
    assert_eq!(libraries(&why(&place, &["root/usr"]).1), [&*inside]);
    // Nor is `usr` a root on a system of OSTree.
    fs::create_dir(root.join("usr/etc")).unwrap();
    fs::write(root.join("usr/etc/os-release"), "ID=demo\n").unwrap();
    assert_eq!(libraries(&why(&place, &["root/usr"]).1), [inside]);
}

/// pip renames what it replaces, and deletes it at the end of an upgrade.
#[test]
fn what_pip_left_of_an_upgrade_is_not_examined() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let site = place.join(".venv/lib/python3.11/site-packages");
    for directory in ["demo", "demo-1.dist-info"] {
        fs::create_dir_all(site.join(directory)).unwrap();
    }
    fs::write(site.join("demo/plain.so"), fixture("plain.so")).unwrap();
    fs::write(place.join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    copy_all(site.join("demo"), site.join("~emo"));
    copy_all(site.join("demo-1.dist-info"), site.join("~emo-1.dist-info"));
    for named in [".venv", site.to_str().unwrap()] {
        let (code, answer, _) = why(&place, &[named]);
        assert_eq!((code, libraries(&answer)), (Some(0), vec![site.join("demo/plain.so")]), "{named}: {answer:#}");
    }
    // Nothing imports it if it is all that is there.
    for installed in ["demo", "demo-1.dist-info"] {
        fs::remove_dir_all(site.join(installed)).unwrap();
        let (code, answer, _) = why(&place, &[".venv"]);
        assert_eq!(code, Some(4), "{answer:#}");
        let expected = "pip left lib/python3.11/site-packages/~emo and lib/python3.11/site-packages/~emo-1.dist-info of \
             upgrades that were interrupted, which nothing imports and which may be deleted";
        assert!(answer["sentence"].as_str().unwrap().contains(expected), "{answer:#}");
    }
    // Elsewhere it is a name like others.
    fs::remove_dir_all(site.join("~emo-1.dist-info")).unwrap();
    assert_eq!(libraries(&why(&place, &[".venv"]).1), [site.join("~emo/plain.so")]);
}

/// Such a file is there: no name is lost on the way to the message.
#[test]
fn a_name_that_is_not_utf8_is_an_input() {
    let place = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"na\xefve.so");
    fs::write(place.path().join(name), fixture("plain.so")).unwrap();
    let said = program().arg(name).current_dir(place.path()).output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("'kpackfs inspect INPUT' reports what it is"), "{said}");
}

/// The sources may be a project with environments in it, which would answer for the package.
#[test]
fn the_sources_of_editable_installations_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let print = "import sys; print(sys.executable, 'python%d.%d' % sys.version_info[:2])";
    let printed = Command::new("python3").args(["-c", print]).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let (python, version) = printed.trim().split_once(' ').unwrap();
    let venv = place.join("demo/.venv");
    let site = venv.join("lib").join(version).join("site-packages");
    let home = Path::new(python).parent().unwrap().display();
    put(venv.join("pyvenv.cfg"), format!("home = {home}\n"));
    fs::create_dir(venv.join("bin")).unwrap();
    symlink(python, venv.join("bin/python")).unwrap();
    put(place.join("demo/demo/plain.so"), fixture("plain.so"));
    put(site.join("demo-1.dist-info/RECORD"), "");
    let sources = place.join("demo").display().to_string();
    for is_editable in [true, false] {
        let url = format!(r#"{{"url": "file://{sources}", "dir_info": {{"editable": {is_editable}}}}}"#);
        // Installed into an environment, and in a tree with a directory of packages somewhere in it.
        for packages in [&site, &place.join("root/opt/packages")] {
            put(packages.join("demo-1.dist-info/direct_url.json"), &url);
        }
        let by_interpreter = ["--python", "demo/.venv", "demo"];
        let named = [&["demo/.venv"][..], &[site.to_str().unwrap()], &["root"], &by_interpreter[..2], &by_interpreter];
        for named in named {
            let (code, said) = ran(&place, &[&["why", "--target", "gfx90a"], named].concat());
            let sentences =
                [format!("{sources} (sources of an editable"), format!("its sources in {sources} are not searched")];
            let is_named = sentences.iter().any(|sentence| said.contains(sentence));
            assert!(code == Some(4) && is_named == is_editable, "{named:?}: {code:?} {said}");
        }
    }
}
