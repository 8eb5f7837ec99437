//! `collect`: libraries, archives, databases and links that an application needs, from trees of small libraries that gcc makes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::common::{
    self, assert_same, can_mount, code_header, copy_all, files_below, fixture, program, run, succeeds, umount,
};
use serde_json::Value;
use tempfile::TempDir;

/// A directory with an application and a tree.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for directory in ["app", "tree/lib", "other/lib", "stubs"] {
            fs::create_dir_all(place.path(directory)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        common::put(self.path(name), bytes);
    }

    fn compile(&self, code: &str, output: &str, options: &[&str]) {
        let source = self.path("source.c");
        fs::write(&source, code).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.arg(source).arg("-o").arg(self.path(output)).current_dir(self.0.path());
        gcc.arg("-Wl,--allow-shlib-undefined").args(options);
        succeeds(&mut gcc);
    }

    /// A library of the tree, `lib/NAME`, with this soname.
    fn library(&self, name: &str, soname: &str, code: &str, options: &[&str]) {
        let soname = format!("-Wl,-soname,{soname}");
        self.compile(code, &format!("tree/lib/{name}"), &[&["-shared", "-fPIC", &soname], options].concat());
    }

    /// A HIP runtime with this text in it.
    fn runtime(&self, version: &str, text: &str) {
        let code = format!("const char *text(void) {{ return \"{text}\"; }}");
        let name = format!("libamdhip64.so.{version}");
        self.library(&name, &name, &code, &[]);
        self.library("libamd_comgr.so.3", "libamd_comgr.so.3", "", &[]);
    }

    /// A program of the application that needs these libraries. They are stubs if the tree does not have them.
    fn program(&self, name: &str, libraries: &[&str], runpath: &str) {
        let stub = |library: &&str| {
            let stub = format!("stubs/{library}");
            if !self.path(&stub).exists() {
                self.compile("", &stub, &["-shared", "-fPIC", &format!("-Wl,-soname,{library}")]);
            }
            stub
        };
        let stubs: Vec<_> = libraries.iter().map(stub).collect();
        let mut options = vec!["-Wl,--no-as-needed"];
        options.extend(stubs.iter().map(String::as_str));
        let runpath = format!("-Wl,-rpath,{runpath}");
        options.push(&runpath);
        self.compile("int main(void) { return 42; }", &format!("app/{name}"), &options);
    }

    fn collect(&self, gpus: &str, more: &[&str]) -> Output {
        let mut command = program();
        command.arg("collect").arg(self.path("app")).arg("--from").arg(self.path("tree"));
        command.args(["--gpu-targets", gpus, "--no-cache"]).args(more).current_dir(self.0.path()).output().unwrap()
    }

    #[track_caller]
    fn collects(&self, gpus: &str, more: &[&str]) {
        let output = self.collect(gpus, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Collects without writing. Returns the exit code and the names of what is missing.
    fn missing(&self, gpus: &str) -> (Option<i32>, Vec<String>) {
        let output = self.collect(gpus, &["--json"]);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let names =
            report["missing"].as_array().unwrap().iter().map(|piece| piece["name"].as_str().unwrap().to_owned());
        (output.status.code(), names.collect())
    }
}

fn links(place: &Path) -> Vec<(String, String)> {
    let links = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_symlink());
    let mut links: Vec<_> = links
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read_link(&path).unwrap().display().to_string(),
            )
        })
        .collect();
    links.sort();
    links
}

#[test]
fn a_program_runs_from_the_result() {
    let place = Place::new();
    place.library("libinner.so.2.1", "libinner.so.2", "int inner(void) { return 40; }", &[]);
    symlink("libinner.so.2.1", place.path("tree/lib/libinner.so.2")).unwrap();
    let outer = "int inner(void); int outer(void) { return inner() + 2; }";
    place.library("libouter.so.1", "libouter.so.1", outer, &["tree/lib/libinner.so.2.1", "-Wl,-rpath,$ORIGIN"]);
    place.library("libunneeded.so.1", "libunneeded.so.1", "", &[]);
    place.write("tree/share/doc/outer/LICENSE.md", "MIT");
    place.write("tree/share/doc/unneeded/LICENSE.md", "MIT");
    let options = ["tree/lib/libouter.so.1", "-Wl,-rpath,$ORIGIN/../lib"];
    fs::create_dir(place.path("app/bin")).unwrap();
    place.compile("int outer(void); int main(void) { return outer(); }", "app/bin/program", &options);
    let licence = |root: &str| place.path(root).join("LICENSE.md");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    fs::File::open(licence("tree/share/doc/outer")).unwrap().set_modified(old).unwrap();
    // Times of files are those of a clock with ticks of at most 10 ms.
    let begun = SystemTime::now() - Duration::from_millis(10);
    place.collects("gfx1100", &["-o", "out"]);
    let time = |path: &Path| path.metadata().unwrap().modified().unwrap();
    assert_eq!(time(&licence("out/licenses/outer")), old);
    assert!(time(&place.path("out/.kpackfs/collect.json")) >= begun, "the statement is no file of the input");
    assert_eq!(Command::new(place.path("out/bin/program")).status().unwrap().code(), Some(42));
    let files: Vec<_> = files_below(&place.path("out")).into_keys().map(|path| path.display().to_string()).collect();
    let expected = [
        ".kpackfs/collect.json",
        "bin/program",
        "lib/libinner.so.2",
        "lib/libinner.so.2.1",
        "lib/libouter.so.1",
        "licenses/outer/LICENSE.md",
    ];
    assert_eq!(files, expected);
    assert_eq!(links(&place.path("out/lib")), [("libinner.so.2".to_owned(), "libinner.so.2.1".to_owned())]);
    let text = String::from_utf8(place.collect("gfx1100", &["--explain", "libinner.so.2.1"]).stdout).unwrap();
    assert!(text.starts_with("program → libouter.so.1 → libinner.so.2.1\n"), "{text}");
    for packed in ["out.tar.zst", "out.zip"] {
        assert!(place.collect("gfx1100", &["-o", packed]).status.success(), "{packed}");
        assert!(time(&place.path(packed)) >= begun, "{packed}");
    }
    fs::create_dir(place.path("unpacked")).unwrap();
    let mut unpack = Command::new("tar");
    succeeds(unpack.args(["--zstd", "-xf"]).arg(place.path("out.tar.zst")).arg("-C").arg(place.path("unpacked")));
    assert_same(&files_below(&place.path("unpacked")), &files_below(&place.path("out")), "out.tar.zst and out");
    let list =
        "import sys, zipfile; print(*sorted(n for n in zipfile.ZipFile(sys.argv[1]).namelist() if n[-1] != '/'))";
    let names = run(Command::new("python3").args(["-c", list]).arg(place.path("out.zip")));
    assert_eq!(names.trim().split(' ').collect::<Vec<_>>(), files);
    let verify = || program().arg("verify").arg(place.path("unpacked")).output().unwrap();
    assert_eq!(verify().status.code(), Some(2), "nothing was split");
    fs::remove_file(place.path("unpacked/lib/libinner.so.2.1")).unwrap();
    let found = String::from_utf8(verify().stdout).unwrap();
    assert!(
        found.contains("lib/libinner.so.2.1: .kpackfs/collect.json lists it, but there is no such file"),
        "{found}"
    );
    let text = String::from_utf8(place.collect("gfx1100", &["--explain", "libc.so.6"]).stdout).unwrap();
    assert!(text.starts_with("libc.so.6: left out, needed by ") && text.contains("manylinux_2_28"), "{text}");
    assert_eq!(place.collect("gfx1100", &["--explain", "libnone.so"]).status.code(), Some(2));
    // The soname link is gone.
    fs::remove_file(place.path("tree/lib/libinner.so.2")).unwrap();
    assert_eq!(place.missing("gfx1100"), (Some(1), vec!["libinner.so.2".to_owned()]));
    // The output is written all the same.
    let output = place.collect("gfx1100", &["-o", "again"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), place.path("again/lib/libouter.so.1").exists()), (Some(1), true), "{said}");
}

#[test]
fn what_a_loader_would_not_find_is_missing() {
    let place = Place::new();
    place.write("old.map", "OLD { global: f; };");
    place.write("new.map", "OLD { global: f; }; NEW { global: g; } OLD;");
    let code = "int f(void) { return 0; } int g(void) { return 0; }";
    place.library("libv.so.1", "libv.so.1", code, &["-Wl,--version-script=new.map"]);
    place.compile("int g(void); int main(void) { return g(); }", "app/program", &["tree/lib/libv.so.1"]);
    assert_eq!(place.missing("gfx1100"), (Some(0), Vec::new()));
    let named = |more: &[&str], name: &str, reason: &str| {
        let output = place.collect("gfx1100", more);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && text.contains(&format!("{name}: missing, needed by ")), "{text}");
        assert!(text.contains(reason), "{text}");
    };
    named(&["--include", "libnone.so"], "libnone.so", "neither the application nor a tree has it");
    // Directories of the result.
    for (list, expected) in [("libs/:lib", "libs/libv.so.1"), ("./x/y", "x/y/libv.so.1"), (".", "libv.so.1")] {
        place.collects("gfx1100", &["--library-path", list, "-o", "out", "--force"]);
        assert!(place.path("out").join(expected).exists(), "{list}");
    }
    assert_eq!(place.collect("gfx1100", &["--library-path", "../lib"]).status.code(), Some(2));
    // One file of an archive may have several names.
    fs::hard_link(place.path("app/program"), place.path("app/same")).unwrap();
    place.collects("gfx1100", &["-o", "out.tar.zst"]);
    let list = run(Command::new("tar").args(["--zstd", "-tvf"]).arg(place.path("out.tar.zst")));
    assert!(list.contains("same link to program"), "{list}");
    // Two libraries with the path lib/libv.so.1.
    place.compile("", "other/lib/libv.so.1", &["-shared", "-fPIC", "-Wl,-soname,libw.so.1"]);
    symlink("libv.so.1", place.path("other/lib/libw.so.1")).unwrap();
    let from = ["--from", "other", "--include", "libw.so.1"];
    named(
        &from,
        "lib/libv.so.1 of other",
        "the same place in the result, lib/libv.so.1; give one of them another name",
    );
    named(&from, "lib/libv.so.1 of other", "needed by --include");
    // Without the version with which the program was linked.
    place.library("libv.so.1", "libv.so.1", "int f(void) { return 0; }", &["-Wl,--version-script=old.map"]);
    named(&[], "version NEW of libv.so.1", "does not define it; name a tree with a newer one first");
}

#[test]
fn thin_libraries_have_the_code_of_the_wanted_gpus() {
    let place = Place::new();
    place.write("tree/lib/libkernels.so.1", fixture("plain.so"));
    place.write("tree/lib/libother.so.1", fixture("compressed.so"));
    place.program("program", &["libkernels.so.1"], "$ORIGIN/lib");
    place.runtime("6", "nothing");
    let targets = |path: &str| -> Vec<String> {
        let report = run(program().args(["inspect", "--json", "--no-cache"]).arg(place.path(path)));
        let report: Value = serde_json::from_str(&report).unwrap();
        report["device"].as_object().unwrap().keys().cloned().collect()
    };
    let gpu = "gfx1030";
    assert!(targets("tree").len() > 1);
    place.collects(gpu, &["-o", "out"]);
    assert_eq!(targets("out"), [gpu]);
    assert!(!place.path("out/lib/libother.so.1").exists());
    succeeds(program().arg("verify").arg(place.path("out")));
    succeeds(program().args(["why", "--target", gpu]).arg(place.path("out")));
    assert!(place.collect(&format!("{gpu},gfx90a"), &["--shared", "-o", "pieces"]).status.success());
    let pieces = |name: &str| files_below(&place.path("pieces").join(name)).into_keys().collect::<Vec<_>>();
    assert_eq!(pieces(gpu), [Path::new("lib/libkernels.so.1")]);
    assert_eq!(pieces("gfx90a"), pieces(gpu));
    assert!(!pieces("common").contains(&PathBuf::from("lib/libkernels.so.1")) && pieces("common").len() > 3);
    let shared = fs::read(place.path("pieces").join(gpu).join("lib/libkernels.so.1")).unwrap();
    assert!(shared == fs::read(place.path("out/lib/libkernels.so.1")).unwrap(), "a piece has the code of one GPU");
    let (code, missing) = place.missing("gfx803");
    assert_eq!((code, missing), (Some(1), vec!["code for gfx803".to_owned()]));
    if can_mount() {
        let point = place.path("mount");
        fs::create_dir(&point).unwrap();
        let mut mount = program();
        mount.arg("mount").arg(place.path("tree")).arg(&point).arg("--collect").arg(place.path("app"));
        succeeds(mount.args(["--gpu-targets", gpu, "--no-cache"]));
        let shown = files_below(&point.join("collected/"));
        umount(&point);
        assert_same(&shown, &files_below(&place.path("out")), "collected/ and out");
    }
}

#[test]
fn archives_are_taken_if_the_runtime_reads_them() {
    let place = Place::new();
    place.write("fat/lib/libkernels.so.1", fixture("plain.so"));
    place.write("fat/lib/libunneeded.so.1", fixture("small.so"));
    succeeds(program().arg("split").arg(place.path("fat")).args(["--no-cache", "-o"]).arg(place.path("split")));
    let parts = fs::read_dir(place.path("split")).unwrap().map(|entry| entry.unwrap().path());
    for part in parts.filter(|path| path.file_name().is_some_and(|name| name != ".kpackfs")) {
        copy_all(part.join("."), place.path("tree"));
    }
    // The fixtures need this one.
    place.runtime("6", "kpack_load_code_object");
    place.program("program", &["libkernels.so.1"], "$ORIGIN/../lib");
    let (gpu, name) = ("gfx1030", "rocm_gfx1030.kpack");
    let archive = place.path("tree/.kpack").join(name);
    place.collects(gpu, &["-o", "out"]);
    let archives: Vec<_> = fs::read_dir(place.path("out/.kpack")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(archives, [name]);
    assert!(place.path("out/app/program").exists(), "the application is next to its libraries");
    assert_eq!(
        fs::read(place.path("out/lib/libkernels.so.1")).unwrap(),
        fs::read(place.path("tree/lib/libkernels.so.1")).unwrap()
    );
    let listed = run(program().args(["kpack", "list"]).arg(place.path("out/.kpack").join(&archives[0])));
    assert!(listed.contains("libkernels") && !listed.contains("libunneeded"), "{listed}");
    succeeds(program().arg("verify").arg(place.path("out")));
    // Of several GPUs, only pieces may be for one.
    let both = "gfx90a,gfx1030";
    place.collects(both, &["-o", "whole"]);
    place.collects(both, &["--shared", "-o", "pieces"]);
    copy_all(place.path("pieces/common/."), place.path("one"));
    copy_all(place.path("pieces/gfx90a/."), place.path("one"));
    for result in ["whole", "one"] {
        succeeds(program().arg("verify").arg(place.path(result)));
    }
    fs::remove_file(place.path("whole/.kpack").join(name)).unwrap();
    let found = program().arg("verify").arg(place.path("whole")).output().unwrap();
    let found = (found.status.code(), String::from_utf8(found.stdout).unwrap());
    let expected = ".kpack/rocm_gfx1030.kpack: .kpackfs/collect.json lists it, but there is no such file";
    assert!(found.0 == Some(1) && found.1.contains(expected), "{found:?}");
    // Parts of a split as trees.
    let id = |path: &str| serde_json::from_slice::<Value>(&fs::read(place.path(path)).unwrap()).unwrap();
    let mut parts = program();
    parts.arg("collect").arg(place.path("app")).args(["--gpu-targets", gpu, "--no-cache", "--from"]);
    parts.args(["split/host", "split/gfx1030", "tree"].map(|tree| place.path(tree)));
    succeeds(parts.arg("-o").arg(place.path("of-parts")));
    assert_eq!(
        fs::read(place.path("of-parts/.kpack").join(name)).unwrap(),
        fs::read(place.path("out/.kpack").join(name)).unwrap()
    );
    let stated = id("of-parts/.kpackfs/collect.json");
    let ids: Vec<_> = stated["trees"].as_array().unwrap().iter().map(|tree| &tree["split_ids"][0]).collect();
    let split_id = &id("split/.kpackfs/split.json")["split_id"];
    assert_eq!(ids, [split_id, split_id, &Value::Null]);
    assert_eq!(stated["trees"][2]["listing"].as_str().map(str::len), Some(64));
    // An older runtime gets the code in the libraries.
    place.runtime("6", "nothing");
    let output = place.collect(gpu, &["-o", "thin"]);
    assert!(output.status.success() && !place.path("thin/.kpack").exists());
    place.runtime("6", "kpack_load_code_object");
    fs::remove_file(&archive).unwrap();
    let (code, missing) = place.missing(gpu);
    assert_eq!(code, Some(1));
    assert_eq!(missing.first().map(String::as_str), Some("../.kpack/rocm_gfx1030.kpack"), "{missing:?}");
}

#[test]
fn what_libraries_load_by_name_is_taken_or_named() {
    let place = Place::new();
    place.library("librocblas.so.5", "librocblas.so.5", "", &[]);
    place.library("libhiprtc.so.7", "libhiprtc.so.7", "", &[]);
    place.library("libhiprtc-builtins.so.7", "libhiprtc-builtins.so.7", "", &[]);
    let kernel = "tree/lib/rocblas/library/TensileLibrary_HH_gfx1100.hsaco";
    place.write(kernel, code_header("gfx1100"));
    place.write("tree/lib/rocblas/library/TensileLibrary_HH_gfx90a.hsaco", "code");
    place.write("tree/lib/rocblas/library/TensileLibrary_gfx1100.dat", b"\x80");
    place.write("tree/lib/rocblas/library/TensileLibrary_HH_fallback.dat", "generic");
    place.program("program", &["librocblas.so.5", "libhiprtc.so.7"], "$ORIGIN");
    place.collects("gfx1100", &["-o", "out"]);
    let files: Vec<_> = files_below(&place.path("out")).into_keys().map(|path| path.display().to_string()).collect();
    let expected = [
        ".kpackfs/collect.json",
        "libhiprtc-builtins.so.7",
        "libhiprtc.so.7",
        "librocblas.so.5",
        "program",
        "rocblas/library/TensileLibrary_HH_fallback.dat",
        "rocblas/library/TensileLibrary_HH_gfx1100.hsaco",
        "rocblas/library/TensileLibrary_gfx1100.dat",
    ];
    assert_eq!(files, expected);
    // Other GPUs have helper kernels.
    place.write("tree/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco", "code");
    let helpers = place.missing("gfx1100");
    assert!(
        helpers.0 == Some(1) && helpers.1[0].ends_with("rocblas/library/Kernels.so-000-gfx1100.hsaco"),
        "{helpers:?}"
    );
    fs::remove_file(place.path("tree/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco")).unwrap();
    fs::rename(place.path("tree/lib/rocblas"), place.path("gone")).unwrap();
    assert_eq!(place.missing("gfx1100"), (Some(1), vec!["rocblas/library".to_owned()]));
    fs::rename(place.path("gone"), place.path("tree/lib/rocblas")).unwrap();
    // The runtime loads this one by its soname, whose link is not there.
    place.runtime("7", "nothing");
    fs::rename(place.path("tree/lib/libamd_comgr.so.3"), place.path("tree/lib/libamd_comgr.so.3.0.0")).unwrap();
    place.program("program", &["librocblas.so.5", "libamdhip64.so.7"], "$ORIGIN");
    assert_eq!(place.missing("gfx1100"), (Some(1), vec!["libamd_comgr.so.3".to_owned()]));
    symlink("libamd_comgr.so.3.0.0", place.path("tree/lib/libamd_comgr.so.3")).unwrap();
    assert_eq!(place.missing("gfx1100"), (Some(0), Vec::new()));
}

#[test]
fn databases_are_relative_to_the_name_that_is_loaded() {
    let place = Place::new();
    // Both directories become that of the program. rocBLAS asks for the name under which it was loaded (dladdr).
    fs::create_dir_all(place.path("tree/usr/lib")).unwrap();
    place.library("librocblas.so.5.0", "librocblas.so.5", "", &[]);
    symlink("../../lib/librocblas.so.5.0", place.path("tree/usr/lib/librocblas.so.5")).unwrap();
    place.library("libother.so.1", "libother.so.1", "", &[]);
    place.write("tree/usr/lib/rocblas/library/TensileLibrary_HH_gfx1100.hsaco", code_header("gfx1100"));
    place.write("tree/usr/lib/rocblas/library/TensileLibrary_gfx1100.dat", b"\x80");
    place.program("program", &["libother.so.1", "librocblas.so.5"], "$ORIGIN");
    place.collects("gfx1100", &["-o", "out"]);
    let files: Vec<_> = files_below(&place.path("out")).into_keys().map(|path| path.display().to_string()).collect();
    assert!(files.contains(&"rocblas/library/TensileLibrary_HH_gfx1100.hsaco".to_owned()), "{files:?}");
    assert!(files.contains(&"librocblas.so.5".to_owned()), "{files:?}");
    // A directory behind a symlink, also one of an unpacked root.
    fs::rename(place.path("tree/usr/lib/rocblas"), place.path("tree/usr/share")).unwrap();
    let leading = [PathBuf::from("../share"), PathBuf::from("/usr/share"), place.path("tree/usr/share")];
    for (number, target) in leading.iter().enumerate() {
        let link = place.path("tree/usr/lib/rocblas");
        symlink(target, &link).unwrap();
        let out = format!("out{number}");
        place.collects("gfx1100", &["-o", &out]);
        assert_same(&files_below(&place.path("out/rocblas")), &files_below(&place.path(&out).join("rocblas")), &out);
        fs::remove_file(link).unwrap();
    }
    // One that leads out of the tree is named.
    fs::rename(place.path("tree/usr/share"), place.path("outside")).unwrap();
    symlink("../../../outside", place.path("tree/usr/lib/rocblas")).unwrap();
    let output = place.collect("gfx1100", &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("the symlink usr/lib/rocblas of "), "{error}");
}

#[test]
fn hostile_trees_are_contained() {
    let place = Place::new();
    place.library("liba.so", "liba.so", "", &["-Wl,-rpath,$ORIGIN/../../../../etc"]);
    place.library("libb.so", "libb.so", "", &["-Wl,--no-as-needed", "tree/lib/liba.so"]);
    // A circle.
    place.library(
        "liba.so",
        "liba.so",
        "",
        &["-Wl,--no-as-needed", "tree/lib/libb.so", "-Wl,-rpath,$ORIGIN/../../../../etc"],
    );
    place.library("lib\nc.so", "lib\nc.so", "", &[]);
    place.write("outside/libout.so", fixture("plain.so"));
    symlink("../../outside/libout.so", place.path("tree/lib/libout.so")).unwrap();
    symlink("libloop.so", place.path("tree/lib/libloop.so")).unwrap();
    place.program("program", &["liba.so", "lib\nc.so", "libout.so", "libloop.so"], "$ORIGIN/lib");
    let output = place.collect("gfx1100", &["-o", "out"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("libout.so") && error.contains("leads out of the tree"), "{error}");
    assert!(error.contains("libloop.so"), "{error}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("lib\nc.so"), "names are escaped");
    let mut names: Vec<_> = fs::read_dir(place.path("out/lib")).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["lib\nc.so", "liba.so", "libb.so"]);
}

#[test]
fn a_path_out_of_the_tree_leads_nowhere() {
    let place = Place::new();
    fs::create_dir_all(place.path("outside")).unwrap();
    for name in ["libup.so", "librpath.so"] {
        place.library(name, name, "", &[]);
        fs::rename(place.path(&format!("tree/lib/{name}")), place.path(&format!("outside/{name}"))).unwrap();
    }
    let outside = format!("-Wl,-rpath,{}", place.path("outside").display());
    let needs = |library: &str| format!("outside/{library}");
    place.library(
        "liba.so",
        "liba.so",
        "",
        &["-Wl,--no-as-needed", &needs("libup.so"), "-Wl,-rpath,$ORIGIN/../../outside"],
    );
    let rpath = [&needs("librpath.so"), outside.as_str(), "-Wl,--disable-new-dtags"];
    place.library("libb.so", "libb.so", "", &[&["-Wl,--no-as-needed"], &rpath[..]].concat());
    // One name is a path: linkers take it from a library without a soname.
    place.compile("", "outside/libpath.so", &["-shared", "-fPIC"]);
    let path = place.path("outside/libpath.so").display().to_string();
    place.library("libc2.so", "libc2.so", "", &["-Wl,--no-as-needed", &path]);
    place.program("program", &["liba.so", "libb.so", "libc2.so"], "$ORIGIN/lib");
    let (code, mut missing) = place.missing("gfx1100");
    missing.sort();
    assert_eq!((code, missing), (Some(1), vec![path, "librpath.so".to_owned(), "libup.so".to_owned()]));
    assert_eq!(place.collect("gfx1100", &["-o", "out"]).status.code(), Some(1));
    let names: Vec<_> = files_below(&place.path("out/lib")).into_keys().collect();
    assert_eq!(names, ["liba.so", "libb.so", "libc2.so"].map(PathBuf::from));
}

#[test]
fn thousands_of_libraries_are_followed() {
    const COUNT: usize = 4_000;
    let place = Place::new();
    // Each needs the next one, and the last one needs the first one. Names have one length, so files differ in them only.
    let name = |number: usize| format!("lib{:05}.so", number % COUNT);
    place.compile("", "stubs/libNEXTX.so", &["-shared", "-fPIC", "-Wl,-soname,libNEXTX.so"]);
    place.library("model.so", "libTHISX.so", "", &["-Wl,--no-as-needed", "stubs/libNEXTX.so"]);
    let model = fs::read(place.path("tree/lib/model.so")).unwrap();
    fs::remove_file(place.path("tree/lib/model.so")).unwrap();
    let places = |text: &[u8]| -> Vec<usize> {
        (0..model.len() - text.len()).filter(|&at| model[at..].starts_with(text)).collect()
    };
    let (own, next) = (places(b"libTHISX.so"), places(b"libNEXTX.so"));
    assert!(!own.is_empty() && !next.is_empty());
    for number in 0..COUNT {
        let mut bytes = model.clone();
        for (places, name) in [(&own, name(number)), (&next, name(number + 1))] {
            for &at in places {
                bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
            }
        }
        fs::write(place.path("tree/lib").join(name(number)), bytes).unwrap();
    }
    place.program("program", &["lib00000.so"], "$ORIGIN/lib");
    let output = place.collect("gfx1100", &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let libraries = report["files"].as_array().unwrap().iter().filter(|file| file["reason"] == "needed").count();
    assert_eq!(libraries, COUNT);
}

#[test]
fn libraries_that_are_not_needed_cost_nothing() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.library("libsmall.so.1", "libsmall.so.1", "int small;", &[]);
    place.program("program", &["libsmall.so.1"], "$ORIGIN/lib");
    place.write("unneeded.so", fixture("plain.so"));
    let script = "import sys, zipfile\nwith zipfile.ZipFile('tree.whl', 'w', zipfile.ZIP_DEFLATED) as wheel:\n    \
                  wheel.write('tree/lib/libsmall.so.1', 'x/libsmall.so.1')\n    \
                  for number in range(20): wheel.write('unneeded.so', f'x/libunneeded{number}.so')\n    \
                  wheel.writestr('x-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: x\\nVersion: 1\\n')\n    \
                  wheel.writestr('x-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\n')\n    \
                  wheel.writestr('x-1.dist-info/RECORD', '')\n";
    fs::create_dir(place.path("mount")).unwrap();
    succeeds(Command::new("python3").args(["-c", script]).current_dir(place.0.path()));
    fs::rename(place.path("tree.whl"), place.path("x-1-py3-none-any.whl")).unwrap();
    let mut mount = program();
    mount.arg("mount").arg(place.path("x-1-py3-none-any.whl")).arg(place.path("mount")).arg("--collect");
    succeeds(mount.arg(place.path("app")).args(["--gpu-targets", "gfx1030", "--no-cache"]));
    let shown = files_below(&place.path("mount/collected/"));
    let status = fs::read_to_string(place.path("mount/.kpackfs/status.json")).unwrap();
    umount(&place.path("mount"));
    let library = fs::read(place.path("tree/lib/libsmall.so.1")).unwrap();
    assert_eq!(shown.get(Path::new("lib/libsmall.so.1")), Some(&library));
    let counters = &serde_json::from_str::<Value>(&status).unwrap()["counters"];
    let inflated = counters["bytes_inflated"].as_u64().unwrap();
    assert!((library.len() as u64..library.len() as u64 + 4096).contains(&inflated), "{inflated}");
    assert_eq!(counters["bytes_decompressed"], 0);
}

/// A directory, packed files and pieces: the limit is met exactly, and what is said to fit does.
#[test]
fn a_result_that_exceeds_a_limit_is_not_written() {
    let place = Place::new();
    place.library("librocblas.so.5", "librocblas.so.5", "", &[]);
    for (seed, gpu) in [(3_u32, "gfx90a"), (5, "gfx1030"), (7, "gfx1100")] {
        let noise = (0..20_000 * seed).flat_map(|at| (at + seed).wrapping_mul(2_654_435_761).to_be_bytes());
        let code: Vec<u8> = code_header(gpu).into_iter().chain(noise).collect();
        place.write(&format!("tree/lib/rocblas/library/TensileLibrary_HH_{gpu}.hsaco"), code);
        place.write(&format!("tree/lib/rocblas/library/TensileLibrary_{gpu}.dat"), b"\x80");
    }
    place.program("program", &["librocblas.so.5"], "$ORIGIN");
    let (all, size) = ("gfx90a,gfx1030,gfx1100", |path: &Path| -> u64 {
        if path.is_file() {
            return path.metadata().unwrap().len();
        }
        files_below(path).into_values().map(|bytes| bytes.len() as u64).sum()
    });
    for (name, pieces) in [("out", false), ("out.zip", false), ("out.tar.zst", false), ("out", true), ("out.zip", true)]
    {
        let run = |directory: &str, gpus: &str, more: &[&str]| {
            fs::create_dir(place.path(directory)).unwrap();
            let output = format!("{directory}/{name}");
            let shared: &[&str] = if pieces { &["--shared"] } else { &[] };
            let done = place.collect(gpus, &[&["-o", &output], shared, more].concat());
            (done.status.code(), String::from_utf8(done.stderr).unwrap())
        };
        assert_eq!(run("whole", all, &[]).0, Some(0));
        let place_of_parts = if pieces && name == "out" { place.path("whole/out") } else { place.path("whole") };
        let parts = fs::read_dir(place_of_parts).unwrap().map(|entry| size(&entry.unwrap().path()));
        let largest = parts.max().unwrap();
        assert_eq!(run("limited", all, &["--max-part", &largest.to_string()]).0, Some(0), "{name}");
        let limit = (largest - 1).to_string();
        let (code, said) = run("refused", all, &["--max-part", &limit]);
        assert!(code == Some(1) && said.contains("(1 bytes)"), "{name}: {said}");
        assert!(files_below(&place.path("refused")).is_empty(), "{name}");
        let gpus = said.split("--gpu-targets ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert_eq!(gpus.split(',').count(), 2, "{name}: {said}");
        assert!(!gpus.contains("gfx1100"), "{name}: {said}");
        assert_eq!(run("followed", gpus, &["--max-part", &limit]).0, Some(0), "{name}");
        let (code, said) = run("impossible", all, &["--max-part", "9"]);
        assert!(code == Some(1) && !said.contains("--gpu-targets"), "{name}: {said}");
        for directory in ["whole", "limited", "refused", "followed", "impossible"] {
            fs::remove_dir_all(place.path(directory)).unwrap();
        }
    }
    assert_eq!(
        place.collect(all, &["--max-part", "pypi-file"]).status.code(),
        Some(2),
        "there is no size without an output"
    );
}

#[test]
fn an_output_that_no_collect_wrote_is_not_replaced() {
    let place = Place::new();
    place.program("program", &[], "$ORIGIN");
    place.write("home/.ssh/id", "key");
    place.write("home/.kpackfs/split.json", "{}");
    place.write("file", "text");
    place.write("named.zip/file", "text");
    let before = files_below(place.0.path());
    for (output, words) in [
        ("home", "no .kpackfs/collect.json"),
        ("file", "is not a directory"),
        ("named.zip", "no regular file"),
        (".", "no .kpackfs/collect.json"),
    ] {
        for force in [&[][..], &["--force"]] {
            let refused = place.collect("gfx1100", &[&["-o", output], force].concat());
            let said = String::from_utf8(refused.stderr).unwrap();
            assert!(refused.status.code() == Some(2) && (force.is_empty() || said.contains(words)), "{output}: {said}");
        }
    }
    assert_eq!(files_below(place.0.path()), before);
    place.write(".kpackfs/collect.json", "{}");
    let refused = place.collect("gfx1100", &["-o", ".", "--force"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("or contains it"), "{said}");
    place.collects("gfx1100", &["-o", "result"]);
    let result = files_below(&place.path("result"));
    place.write("result/lib/old.so", "");
    place.write("result/old/file", "");
    assert_eq!(place.collect("gfx1100", &["-o", "result"]).status.code(), Some(2));
    place.collects("gfx1100", &["-o", "result", "--force"]);
    assert_same(&files_below(&place.path("result")), &result, "replaced");
}

#[test]
fn an_output_directory_that_is_there_stays() {
    let place = Place::new();
    place.program("program", &[], "$ORIGIN");
    place.collects("gfx1100", &["-o", "new"]);
    let expected = files_below(&place.path("new"));
    fs::create_dir(place.path("real")).unwrap();
    fs::set_permissions(place.path("real"), Permissions::from_mode(0o2775)).unwrap();
    symlink("real", place.path("link")).unwrap();
    let id = |name: &str| {
        let found = place.path(name).symlink_metadata().unwrap();
        (found.ino(), found.mode())
    };
    let before = [id("real"), id("link")];
    let limit = place.collect("gfx1100", &["-o", "link", "--max-part", "9"]);
    assert!(limit.status.code() == Some(1) && fs::read_dir(place.path("real")).unwrap().next().is_none());
    place.collects("gfx1100", &["-o", "link"]);
    assert_same(&files_below(&place.path("real")), &expected, "link");
    for output in ["real", "link/.", "link"] {
        place.write("real/old/file", "");
        place.collects("gfx1100", &["-o", output, "--force"]);
        assert_same(&files_below(&place.path("real")), &expected, output);
    }
    assert_eq!([id("real"), id("link")], before);
    fs::create_dir(place.path("working")).unwrap();
    let mut command = program();
    command.args(["collect", "../app", "--from", "../tree", "--gpu-targets", "gfx1100", "--no-cache", "-o", "."]);
    succeeds(command.current_dir(place.path("working")));
    // The statement has the name of the input as it was given.
    assert!(files_below(&place.path("working")).into_keys().eq(expected.into_keys()));
}

fn collected(place: &Place, gpus: &str) -> (Value, Vec<String>) {
    let output = place.collect(gpus, &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let files = report["files"].as_array().unwrap().iter();
    let files = files.map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    (report, files)
}

#[test]
fn rocfft_has_the_cache_of_its_gpu_from_both_places() {
    let place = Place::new();
    place.library("librocfft.so.0", "librocfft.so.0", "", &[]);
    place.library("libhelper.so.1", "libhelper.so.1", "", &[]);
    fs::create_dir_all(place.path("tree/lib/rocfft")).unwrap();
    place.compile(
        "int main(void) { return 0; }",
        "tree/lib/rocfft/rocfft_rtc_helper",
        &["-Wl,--no-as-needed", "tree/lib/libhelper.so.1", "-Wl,-rpath,$ORIGIN/.."],
    );
    for name in
        ["rocfft_kernel_cache_gfx90a.db", "rocfft/rocfft_kernel_cache_gfx1201.db", "rocfft/rocfft_kernel_cache.db"]
    {
        place.write(&format!("tree/lib/{name}"), "SQLite format 3\0");
    }
    place.write("tree/lib/librocfft-notes.txt", "");
    place.program("program", &["librocfft.so.0"], "$ORIGIN");
    let common = ["libhelper.so.1", "librocfft.so.0", "program"];
    let of_directory = ["rocfft/rocfft_kernel_cache.db", "rocfft/rocfft_rtc_helper"];
    for (gpus, own) in [
        ("gfx90a", &["rocfft_kernel_cache_gfx90a.db"][..]),
        ("gfx1201", &["rocfft/rocfft_kernel_cache_gfx1201.db"]),
        ("gfx1201,gfx90a", &["rocfft/rocfft_kernel_cache_gfx1201.db", "rocfft_kernel_cache_gfx90a.db"]),
    ] {
        let (report, mut files) = collected(&place, gpus);
        files.sort();
        let mut expected = [&common[..], &of_directory, own].concat();
        expected.sort_unstable();
        assert_eq!(files, expected, "{gpus}");
        assert_eq!(report["missing"], Value::Array(Vec::new()), "{gpus}");
    }
}

/// As in ROCm 7.14: a directory for one GPU, and the files of another one next to it.
#[test]
fn databases_may_have_directories_for_some_gpus() {
    for library in ["rocblas", "hipblaslt"] {
        let place = Place::new();
        let soname = format!("lib{library}.so.1");
        place.library(&soname, &soname, "", &[]);
        let of = |gpu: &str, below: &str| {
            let own = format!("TensileLibrary_HH_{gpu}");
            // A map of MessagePack, whose value is the name of the own catalogue.
            let lazy = [&[0x81, 0xa1, b'x', 0xa0 | u8::try_from(own.len()).unwrap()], own.as_bytes()].concat();
            let files = [
                (format!("TensileLibrary_lazy_{gpu}.dat"), lazy),
                (format!("{own}.dat"), vec![0x80]),
                (format!("{own}.co"), code_header(gpu)),
                (format!("Kernels.so-000-{gpu}.hsaco"), code_header(gpu)),
            ];
            for (name, content) in files {
                place.write(&format!("tree/lib/{library}/library/{below}{name}"), content);
            }
        };
        of("gfx90a", "gfx90a/");
        of("gfx1100", "");
        place.program("program", &[&soname], "$ORIGIN");
        for gpus in ["gfx90a", "gfx1100", "gfx1100,gfx90a"] {
            assert_eq!(place.missing(gpus), (Some(0), Vec::new()), "{library} {gpus}");
        }
        for gone in ["Kernels.so-000-gfx1100.hsaco", "gfx90a/Kernels.so-000-gfx90a.hsaco"] {
            let file = place.path(&format!("tree/lib/{library}/library/{gone}"));
            fs::rename(&file, place.path("away")).unwrap();
            let missing = vec![format!("{library}/library/{gone}")];
            assert_eq!(place.missing("gfx1100,gfx90a"), (Some(1), missing), "{library}");
            fs::rename(place.path("away"), &file).unwrap();
        }
    }
}

/// Makes the first needed name of a library lie outside of its table of names.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let field = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let at = usize::try_from(field(&bytes, 32)).unwrap();
    let segments = (0..usize::from(bytes[56])).map(|number| at + 56 * number);
    let dynamic = segments.into_iter().find(|&at| bytes[at] == 2).unwrap();
    let mut entry = usize::try_from(field(&bytes, dynamic + 8)).unwrap();
    while field(&bytes, entry) != 1 {
        entry += 16;
    }
    bytes[entry + 8..entry + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_cannot_be_read_and_would_be_loaded_is_missing() {
    let place = Place::new();
    place.library("libgpu.so.1", "libgpu.so.1", "", &[]);
    place.program("good", &[], "$ORIGIN");
    place.program("damaged", &["libgpu.so.1"], "$ORIGIN");
    let unreadable = |(report, files): (Value, Vec<String>)| {
        let missing = report["missing"].as_array().unwrap().iter().map(|piece| {
            assert!(piece["reason"].as_str().unwrap().contains("outside of its string table"), "{piece}");
            (piece["kind"].as_str().unwrap().to_owned(), piece["name"].as_str().unwrap().to_owned())
        });
        (missing.collect::<Vec<_>>(), files)
    };
    let damaged = || vec![("unreadable".to_owned(), "damaged".to_owned())];
    damage(&place.path("app/damaged"));
    assert_eq!(unreadable(collected(&place, "gfx1100")), (damaged(), vec!["good".to_owned()]));
    assert_eq!(place.collect("gfx1100", &["-o", "out"]).status.code(), Some(1));
    assert!(place.path("out/damaged").exists(), "the rest is written");
    // Alone, too.
    fs::rename(place.path("app/good"), place.path("good")).unwrap();
    assert_eq!(unreadable(collected(&place, "gfx1100")), (damaged(), Vec::new()));
    // A plug-in that is loaded by its name.
    fs::rename(place.path("app/damaged"), place.path("damaged")).unwrap();
    fs::rename(place.path("good"), place.path("app/good")).unwrap();
    place.library("libOpenImageDenoise_core.so.2.5.0", "libOpenImageDenoise_core.so.2.5.0", "", &[]);
    let module = "libOpenImageDenoise_device_hip.so.2.5.0";
    place.library(module, module, "", &["-Wl,--no-as-needed", "tree/lib/libgpu.so.1"]);
    damage(&place.path(&format!("tree/lib/{module}")));
    place.program("good", &["libOpenImageDenoise_core.so.2.5.0"], "$ORIGIN");
    let missing = unreadable(collected(&place, "gfx1100")).0;
    assert_eq!(missing, [("unreadable".to_owned(), format!("lib/{module}"))]);
}

#[test]
fn what_nothing_loads_may_be_unreadable() {
    let place = Place::new();
    place.program("program", &[], "$ORIGIN");
    place.program("other", &["libgpu.so.1"], "$ORIGIN");
    damage(&place.path("app/other"));
    let mut foreign = fs::read(place.path("app/other")).unwrap();
    // EM_AARCH64.
    foreign[18] = 183;
    place.write("app/foreign", &foreign);
    fs::remove_file(place.path("app/other")).unwrap();
    place.write("app/libscript.so", "/* GNU ld script */ GROUP ( libx.so.1 )");
    let debug = place.path("app/program.debug");
    succeeds(Command::new("objcopy").arg("--only-keep-debug").arg(place.path("app/program")).arg(&debug));
    damage_nothing_but_offsets(&debug);
    assert_eq!(place.missing("gfx1100"), (Some(0), Vec::new()));
}

/// Makes the dynamic section of a .debug file as large as in the program, as eu-strip leaves it.
fn damage_nothing_but_offsets(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let at = usize::try_from(u64::from_le_bytes(bytes[32..40].try_into().unwrap())).unwrap();
    let segments = (0..usize::from(bytes[56])).map(|number| at + 56 * number);
    let dynamic = segments.into_iter().find(|&at| bytes[at] == 2).unwrap();
    bytes[dynamic + 8..dynamic + 16].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    bytes[dynamic + 32..dynamic + 40].copy_from_slice(&512_u64.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn modules_whose_names_are_put_together_are_taken_and_others_named() {
    let place = Place::new();
    let core = "libOpenImageDenoise_core.so.2.5.1";
    place.library(core, core, "", &[]);
    place.library(
        "libOpenImageDenoise.so.2",
        "libOpenImageDenoise.so.2",
        "",
        &["-Wl,--no-as-needed", &format!("tree/lib/{core}"), "-Wl,-rpath,$ORIGIN"],
    );
    let module = |kind: &str| format!("libOpenImageDenoise_device_{kind}.so.2.5.1");
    place.library(&module("cpu"), &module("cpu"), "", &[]);
    place.library(&module("sycl"), &module("sycl"), "", &["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"]);
    place.write(&format!("tree/lib/{}", module("hip")), fixture("plain.so"));
    place.library("libother.so.1", "libother.so.1", "", &[]);
    place.write("tree/lib/libother-gpu.so", fixture("plain.so"));
    place.write("tree/lib/libstranger.so", fixture("plain.so"));
    place.runtime("6", "nothing");
    place.program("program", &["libOpenImageDenoise.so.2", "libother.so.1"], "$ORIGIN");
    let (report, files) = collected(&place, "gfx1030");
    let libraries: Vec<_> = files.iter().filter(|path| path.contains("Open")).map(String::as_str).collect();
    let expected = ["libOpenImageDenoise.so.2", core, &module("cpu"), &module("hip")];
    assert_eq!(libraries, expected);
    let warnings = report["warnings"].as_array().unwrap();
    let only = "libother-gpu.so next to collected libraries has code for gfx1030, and nothing asks for it; --include takes one in";
    assert_eq!(warnings, &[Value::from(only)]);
    let said = place.collect("gfx1030", &["--include", "libother-gpu.so"]);
    assert!(!String::from_utf8_lossy(&said.stderr).contains("warning"), "{}", String::from_utf8_lossy(&said.stderr));
    // Nothing has code at all.
    fs::remove_file(place.path("tree/lib").join(module("hip"))).unwrap();
    fs::remove_file(place.path("tree/lib/libother-gpu.so")).unwrap();
    let output = place.collect("gfx1030", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("warning: nothing that is collected has code for gfx1030"), "{said}");
    assert_eq!(output.status.code(), Some(0));
}
