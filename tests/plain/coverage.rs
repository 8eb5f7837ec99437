//! `inspect --require` names each library, wrapper and database that lacks code for a GPU, and fails then.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{code_object, copy_all, fixture, program, put_in as put, succeeds, torch_wheel};
use serde_json::{Value, json};
use tempfile::TempDir;

fn inspect(place: &Path, arguments: &[&str]) -> Output {
    program().arg("inspect").args(arguments).arg("--no-cache").current_dir(place).output().unwrap()
}

#[track_caller]
fn text(place: &Path, arguments: &[&str], code: i32) -> String {
    let output = inspect(place, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn coverage(place: &Path, arguments: &[&str], code: i32) -> Value {
    let json: Value = serde_json::from_str(&text(place, &[&["--json"], arguments].concat(), code)).unwrap();
    assert_eq!((&json["json_version"], &json["coverage"]["passed"]), (&json!(1), &json!(code == 0)));
    json["coverage"].clone()
}

/// What failed: kind, path, GPU.
fn failures(coverage: &Value) -> Vec<[String; 3]> {
    lacking(&coverage["failures"])
}

fn lacking(list: &Value) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|it| [text(&it["what"]), text(&it["path"]), text(&it["target"])]).collect()
}

/// The header of code for a processor, by its number in LLVM's `ELF.h`.
fn code(machine: u8) -> Vec<u8> {
    [b"\x7fELF\x02\x01\x01\x40\x02".as_slice(), &[0; 9], &[224], &[0; 29], &[machine], &[0; 79]].concat()
}

/// Databases for gfx90a and gfx1030, two copies of one of them.
const DATABASES: [&str; 10] = [
    "a/rocblas/library/TensileLibrary_gfx90a.co",
    "a/rocblas/library/TensileLibrary_gfx1030.co",
    "a/rocblas/library/TensileLibrary_lazy_gfx90a.dat",
    "a/rocblas/library/TensileLibrary_lazy_gfx1030.dat",
    "b/rocblas/library/gfx90a/Kernels_gfx90a.hsaco",
    "b/rocblas/library/gfx1030/Kernels_gfx1030.hsaco",
    "b/rocblas/library/gfx90a/TensileManifest.txt",
    "share/miopen/db/gfx90a6e.db.txt",
    "share/miopen/db/gfx1030_36.db.txt",
    "lib/aotriton.images/amd-gfx90x/flash/x.aks2",
];

/// A file of a database: the code has to be code.
fn of_database(path: &str) -> Vec<u8> {
    let machine = if path.contains("gfx90a") { 0x3f } else { 0x36 };
    if path.ends_with("co") { code(machine) } else { b"\x80 database".to_vec() }
}

/// A tree with code for gfx90a and gfx1030 in everything, apart from a database for a family and a plain library.
fn sound() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for name in ["plain.so", "shared.so", "compressed.so", "empty-entry.so", "host-only.so"] {
        put(place.path(), &format!("tree/lib/{name}"), &fixture(name));
    }
    for path in DATABASES {
        put(place.path(), &format!("tree/{path}"), &of_database(path));
    }
    put(place.path(), "tree/lib/aotriton.images/amd-gfx103x/flash/x.aks2", b"database");
    place
}

#[test]
fn what_lacks_code_is_named() {
    let place = sound();
    let tree = place.path().join("tree");
    fs::remove_file(tree.join("lib/empty-entry.so")).unwrap();
    let required = ["tree", "--require", "gfx90a", "gfx1030"];
    let all = coverage(place.path(), &required, 0);
    assert_eq!((all["libraries"].as_array().unwrap().len(), all["databases"].as_array().unwrap().len()), (3, 5));
    let split = |view: &str, from: &str, to: &str| {
        succeeds(program().args(["split", "tree", "-o", "out", "--force", "--view", view]).current_dir(place.path()));
        fs::copy(place.path().join("out").join(view).join(from), tree.join(to)).unwrap();
    };
    // One target is removed from one library.
    split("thin/gfx90a", "lib/plain.so", "lib/plain.so");
    let found = coverage(place.path(), &required, 1);
    assert_eq!(failures(&found), [["library", "lib/plain.so", "gfx1030"]]);
    assert_eq!(found["libraries"][1]["gpus"]["gfx1030"]["code"], "none");
    fs::write(tree.join("lib/plain.so"), fixture("plain.so")).unwrap();
    // From one wrapper: the first bundle's code for gfx90a has no bytes.
    fs::write(tree.join("lib/empty-entry.so"), fixture("empty-entry.so")).unwrap();
    let found = coverage(place.path(), &required, 0);
    assert_eq!(lacking(&found["remarks"]), [["wrapper", "lib/empty-entry.so", "gfx90a"]]);
    assert_eq!(found["libraries"][1]["gpus"]["gfx90a"]["without"], json!([0]));
    fs::remove_file(tree.join("lib/empty-entry.so")).unwrap();
    // From each file of each database.
    for path in DATABASES {
        let gpu = if path.contains("gfx90") { "gfx90a" } else { "gfx1030" };
        fs::remove_file(tree.join(path)).unwrap();
        let directory = ["a/rocblas/library", "b/rocblas/library", "share/miopen/db", "lib/aotriton.images"];
        let directory = directory.into_iter().find(|it| path.starts_with(it)).unwrap();
        if path.ends_with("TensileManifest.txt") {
            coverage(place.path(), &required, 0);
        } else if directory == "share/miopen/db" {
            // MIOpen tunes and compiles what is missing.
            let found = coverage(place.path(), &required, 0);
            assert_eq!(lacking(&found["remarks"]), [["database", directory, gpu]], "{path}");
        } else {
            let found = coverage(place.path(), &required, 1);
            assert_eq!(failures(&found), [["database", directory, gpu]], "{path}");
        }
        fs::write(tree.join(path), of_database(path)).unwrap();
    }
    coverage(place.path(), &required, 0);
}

#[test]
fn the_exit_code_and_the_reason() {
    let place = tempfile::tempdir().unwrap();
    let files = ["plain.so", "mixed.so", "features.so", "generic.so", "host-only.so", "extra-pointer.so", "win.dll"];
    for name in files {
        put(place.path(), name, &fixture(name));
    }
    put(place.path(), "empty/notes.txt", b"notes");
    for (arguments, code, said) in [
        (&["plain.so", "--require", "gfx90a"][..], 0, "All code for gfx90a is there: 1 library."),
        (
            &["plain.so", "--require", "gfx90a,gfx942"],
            1,
            "plain.so: no code for gfx942; it has code for gfx1030 and gfx90a",
        ),
        (&["mixed.so", "--require", "gfx1100"], 0, "wrapper 0 of 2 has no code for gfx1100, which the others have"),
        (&["features.so", "--require", "gfx90a"], 0, "wrapper 2 of 3 has no code for gfx90a"),
        (&["features.so", "--require", "gfx90a:xnack+"], 0, "1 library"),
        (&["generic.so", "--require", "gfx1151"], 0, "wrapper 1 of 3 has no code for gfx1151"),
        (&["generic.so", "--require", "gfx1100"], 0, "generic"),
        (&["win.dll", "--require", "gfx1100"], 0, "1 library"),
        (&["extra-pointer.so", "--require", "gfx90a"], 1, "its code for gfx90a is not known: not split: the pointer"),
        (&["host-only.so", "--require", "gfx90a"], 1, "Nothing has code for any AMD GPU."),
        (&["empty", "--require", "gfx90a"], 1, "Nothing has code for any AMD GPU."),
        (&["plain.so", "--require", "gfx90a", "--require-in", "*.dll"], 1, "Nothing that --require-in names has code"),
        (&["plain.so", "--require", "gfx11"], 2, ""),
        (&["plain.so", "--require", "amdgcnspirv"], 2, ""),
        (&["plain.so", "--require", "GFX90A"], 0, "All code for gfx90a is there: 1 library."),
        (&["plain.so", "--require", "gfx1250:xnack-"], 2, ""),
        (&["plain.so", "--require", ","], 2, ""),
        (&["plain.so", "--require-in", "*"], 2, ""),
        (&["missing.so", "--require", "gfx90a"], 5, ""),
        (&["missing.so"], 5, ""),
    ] {
        let printed = text(place.path(), arguments, code);
        assert!(printed.contains(said), "{arguments:?}: {printed}");
    }
}

/// Code for a mode is named only where a wrapper has none for the default one.
#[test]
fn code_that_is_not_reached_is_named() {
    let place = tempfile::tempdir().unwrap();
    for name in ["features.so", "mixed.so", "plain.so", "generic.so"] {
        put(place.path(), &format!("tree/{name}"), &fixture(name));
    }
    let found = |gpu: &str| {
        let found = coverage(place.path(), &["tree", "--require", gpu], 1);
        let code = found["unreachable"].as_array().unwrap().clone();
        code.into_iter()
            .map(|it| format!("{} {}: {}", it["path"], it["target"], it["reason"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    let expected =
        ["features.so", "mixed.so"].map(|name| format!("{name} gfx90a:xnack+: a gfx90a takes it only with xnack+"));
    assert_eq!(found("gfx90a"), expected);
    assert_eq!(found("gfx90a:xnack+"), Vec::<String>::new());
    assert_eq!(found("gfx1100"), Vec::<String>::new());
}

#[test]
fn only_what_is_named_is_judged() {
    let place = sound();
    put(place.path(), "tree/lib/mixed.so", &fixture("mixed.so"));
    let judged = |pattern: &str, code: i32| {
        let found = coverage(place.path(), &["tree", "--require", "gfx1030", "--require-in", pattern], code);
        assert_eq!(found["require_in"], json!([pattern]));
        ["libraries", "databases"].map(|list| found[list].as_array().unwrap().len())
    };
    assert_eq!(judged("lib/*.so", 0), [5, 0]);
    assert_eq!(judged("plain.so", 0), [1, 0]);
    assert_eq!(judged("a/**", 0), [0, 2]);
    assert_eq!(judged("rocblas", 0), [0, 3]);
}

#[test]
fn markdown_is_short_and_escaped() {
    let place = tempfile::tempdir().unwrap();
    (0..70).for_each(|number| put(place.path(), &format!("tree/lib_{number:02}.so"), &fixture("plain.so")));
    put(place.path(), "tree/lib_x|y.so", &fixture("mixed.so"));
    let printed = text(place.path(), &["tree", "--require", "gfx1030,gfx1100", "--markdown"], 1);
    let verdict = printed.lines().last().unwrap();
    assert!(verdict.starts_with("Failed: Code for gfx1100 is missing: lib\\_00.so: no code for gfx1100;"), "{verdict}");
    assert!(
        printed.contains(
            "\n### Code for each GPU\n\n| in | kind | wrappers | gfx1030 | gfx1100 |\n|---|---|---:|---|---|\n"
        )
    );
    // All failures are listed.
    assert_eq!(printed.lines().filter(|line| line.starts_with("| gfx1100 | lib")).count(), 71);
    let row = "| gfx1030 | lib\\_x\\|y.so | wrapper 1 of 2 has no code for gfx1030, which the others have |";
    assert!(printed.contains(row), "{printed}");
    assert!(printed.contains("\n11 more\n"), "{printed}");
}

/// A split tree is judged with its archives, and a wheel with its device wheels.
#[test]
fn split_inputs_are_judged_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "fat/lib/libx.so", &fixture("plain.so"));
    succeeds(program().args(["split", "fat", "-o", "out"]).current_dir(place.path()));
    let copy = |from: &str| succeeds(Command::new("cp").args(["-a", from, "tree"]).current_dir(place.path()));
    let required = ["tree", "--require", "gfx90a,gfx1030"];
    let library = |code: &str| json!(["library", "lib/libx.so", code]);
    let failed = |code: i32| json!(failures(&coverage(place.path(), &required, code)));
    copy("out/host/.");
    assert_eq!(failed(1), json!([library("gfx1030"), library("gfx90a")]));
    copy("out/gfx90a/.");
    assert_eq!(failed(1), json!([library("gfx1030")]));
    copy("out/gfx1030/.");
    assert_eq!(failed(0), json!([]));
    let archive = place.path().join("tree/.kpack/rocm_gfx1030.kpack");
    let mut bytes = fs::read(&archive).unwrap();
    bytes[4] = 9;
    fs::write(&archive, bytes).unwrap();
    let found = coverage(place.path(), &required, 1);
    let lost = &found["unreachable"][0];
    assert_eq!((&lost["path"], &lost["target"]), (&json!(".kpack/rocm_gfx1030.kpack"), &json!("gfx1030")));
    assert!(lost["reason"].as_str().unwrap().contains("but one of version 9"), "{lost}");
}

#[test]
fn metadata_is_compared_with_code() {
    let place = tempfile::tempdir().unwrap();
    let wheel = "torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl";
    torch_wheel(&place.path().join(wheel));
    succeeds(program().args(["split", wheel, "-o", "out", "--format", "wheel"]).current_dir(place.path()));
    let required = |inputs: &[&str]| {
        let arguments = [inputs, &["--require", "gfx90a", "--require-in", "**/libMIOpen.so"]].concat();
        coverage(place.path(), &arguments, 0)
    };
    let of = |gpu: &str| format!("out/amd_torch_device_{gpu}-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl");
    let host = format!("out/{wheel}");
    assert_eq!(required(&["out"])["metadata"], json!([]));
    let found = required(&[&host, &of("gfx90a"), &of("gfx1030")]);
    let missing = found["metadata"].as_array().unwrap();
    let names = |gpu: &str| {
        missing.iter().any(|it| it["target"] == gpu && it["reason"] == format!("an extra names {gpu}, without code"))
    };
    assert!(names("gfx1100") && names("gfx950") && !names("gfx90a") && !names("gfx1030"), "{missing:?}");
    // The name of a library, and that of a wheel.
    put(place.path(), "tree/libx_gfx942.so", &fixture("plain.so"));
    let found = coverage(place.path(), &["tree", "--require", "gfx90a"], 0);
    assert_eq!(found["metadata"][0]["reason"], "its name says gfx942, without code");
}

/// An artifact of two libraries, with a database, before and after its split.
#[test]
fn artifacts_are_judged_by_component() {
    let place = tempfile::tempdir().unwrap();
    let stage = |path: &str| format!("shard/blas_lib_gfx103X/blas/stage/{path}");
    put(place.path(), "shard/blas_lib_gfx103X/artifact_manifest.txt", b"blas/stage\n");
    put(place.path(), "shard/base_lib_generic/artifact_manifest.txt", b"base/stage\n");
    put(place.path(), "shard/base_lib_generic/base/stage/notes", b"text");
    put(place.path(), &stage("lib/librocblas.so.5"), &fixture("plain.so"));
    for (gpu, machine) in [("gfx1030", 0x36), ("gfx90a", 0x3f)] {
        let database = stage("lib/rocblas/library");
        put(place.path(), &format!("{database}/TensileLibrary_lazy_{gpu}.dat"), b"\x80");
        put(place.path(), &format!("{database}/x_{gpu}.co"), &code(machine));
    }
    succeeds(program().args(["split", "shard", "-o", "split"]).current_dir(place.path()));
    let tar = ["-cf", "blas_lib_gfx103X.tar", "-C", "shard/blas_lib_gfx103X", "."];
    succeeds(Command::new("tar").args(tar).current_dir(place.path()));
    let failed = |input: &str, gpus: &str, code: i32| {
        let failures = failures(&coverage(place.path(), &[input, "--require", gpus], code));
        failures.into_iter().map(|[what, path, _]| format!("{what} {path}")).collect::<Vec<_>>()
    };
    for input in ["shard", "split", "shard/blas_lib_gfx103X", "blas_lib_gfx103X.tar"] {
        assert_eq!(failed(input, "gfx1030,gfx90a", 0), Vec::<String>::new(), "{input}");
    }
    let library = "library blas_lib_gfx103X/lib/librocblas.so.5";
    let database = "database blas_lib_gfx103X/lib/rocblas/library";
    assert_eq!(failed("shard", "gfx942", 1), [library, database]);
    assert_eq!(failed("split", "gfx942", 1)[0], "library blas_lib/lib/librocblas.so.5");
    let only = ["split", "--require", "gfx942", "--require-in", "blas_lib/**/rocblas/library"];
    assert_eq!(failures(&coverage(place.path(), &only, 1)).len(), 1);
    // Without a code object, and without the device part of one GPU.
    fs::remove_file(place.path().join("split/blas_lib_gfx1030/blas/stage/lib/rocblas/library/x_gfx1030.co")).unwrap();
    assert_eq!(failed("split", "gfx1030", 1), ["database blas_lib/lib/rocblas/library"]);
    // Nobody has code objects then.
    fs::remove_dir_all(place.path().join("split/blas_lib_gfx90a")).unwrap();
    assert_eq!(failed("split", "gfx90a", 1).len(), 2);
    assert!(text(place.path(), &["split", "--require", "gfx90a", "--markdown"], 1).contains("blas\\_lib/"));
}

/// Extras, variant.json and the name of a wheel, each in both directions.
#[test]
fn metadata_of_a_wheel_is_compared_with_code() {
    let place = tempfile::tempdir().unwrap();
    let info = "wheel/x-1.0.dist-info";
    put(place.path(), "wheel/x/lib.so", &fixture("plain.so"));
    put(place.path(), &format!("{info}/WHEEL"), b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n");
    put(place.path(), &format!("{info}/RECORD"), b"");
    let contradictions = |name: &str, extras: &[&str], variants: &[&str]| {
        let extras: Vec<_> = extras.iter().map(|extra| format!("Provides-Extra: {extra}\n")).collect();
        let extras = extras.concat();
        let metadata = format!("Metadata-Version: 2.1\nName: x\nVersion: 1.0\n{extras}\n");
        put(place.path(), &format!("{info}/METADATA"), metadata.as_bytes());
        let variants = json!({"variants": {"v": {"amd": {"gfx_arch": variants}}}});
        put(place.path(), &format!("{info}/variant.json"), variants.to_string().as_bytes());
        let script = "import shutil, sys, os; os.rename(shutil.make_archive('made', 'zip', 'wheel'), sys.argv[1])";
        succeeds(Command::new("python3").args(["-c", script, name]).current_dir(place.path()));
        let found = coverage(place.path(), &[name, "--require", "gfx90a"], 0);
        let list = found["metadata"].as_array().unwrap();
        list.iter().map(|it| it["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (name, both) = ("x-1.0-py3-none-any.whl", ["gfx1030", "gfx90a"]);
    assert_eq!(contradictions(name, &["device-gfx1030", "device-gfx90a", "test"], &both), Vec::<String>::new());
    assert_eq!(contradictions(name, &[], &[]), Vec::<String>::new());
    assert_eq!(
        contradictions(name, &["device-gfx942", "device-gfx90a"], &both),
        [
            "there is code for gfx1030, which it does not name (an extra names others)",
            "an extra names gfx942, without code"
        ]
    );
    assert_eq!(
        contradictions(name, &[], &["gfx90a", "gfx1151"]),
        ["there is code for gfx1030, which it does not name (it names others)", "it names gfx1151, without code"]
    );
    let named = "x-1.0+gfx942-py3-none-any.whl";
    assert_eq!(contradictions(named, &[], &both), ["its name says gfx942, without code"]);
}

/// A wheel of this name with a library, in the directory `dist`.
fn wheel_with(place: &Path, name: &str, library: &[u8]) -> String {
    let root = format!("unpacked-{name}");
    let info = format!("{root}/{name}-1.0.dist-info");
    put(place, &format!("{root}/{name}/lib{name}.so"), library);
    put(place, &format!("{info}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n").as_bytes());
    put(place, &format!("{info}/WHEEL"), b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n");
    put(place, &format!("{info}/RECORD"), b"");
    let file = format!("{name}-1.0-py3-none-any.whl");
    let script = "import shutil, sys, os; os.makedirs('dist', exist_ok=True); \
                  os.rename(shutil.make_archive('made', 'zip', sys.argv[1]), 'dist/' + sys.argv[2])";
    succeeds(Command::new("python3").args(["-c", script, &root, &file]).current_dir(place));
    file
}

#[test]
fn each_distribution_has_a_table_and_all_have_one_verdict() {
    let place = tempfile::tempdir().unwrap();
    let sound = wheel_with(place.path(), "sound", &fixture("plain.so"));
    let other = wheel_with(place.path(), "other", &fixture("plain.so"));
    succeeds(
        program()
            .args(["split", "--format", "wheel", "-o", "parts"])
            .arg(format!("dist/{other}"))
            .current_dir(place.path()),
    );
    // A wheel that is named twice is one.
    let again = place.path().join("dist").join(&sound).display().to_string();
    let arguments =
        |gpu: &'static str| [&format!("dist/{sound}"), "parts", &again, "--require", gpu].map(str::to_owned);
    for (gpu, code, mark) in
        [("gfx90a", 0, "Passed: All code for gfx90a is there: 2 libraries."), ("gfx942", 1, "Failed: ")]
    {
        let printed = text(place.path(), &arguments(gpu).each_ref().map(String::as_str), code);
        let titles: Vec<_> = printed.lines().filter(|line| line.starts_with("Code for each GPU")).collect();
        assert_eq!(titles, [&other, &sound].map(|name| format!("Code for each GPU in {name}")));
        assert!(printed.contains("\n  sound/libsound.so") && printed.contains("\n  other/libother.so"), "{printed}");
        assert!(printed.lines().last().unwrap().starts_with(mark), "{printed}");
        assert_eq!(printed.matches("Passed: ").count() + printed.matches("Failed: ").count(), 1, "{printed}");
    }
    let json: Value =
        serde_json::from_str(&text(place.path(), &[&format!("dist/{sound}"), "parts", "--json"], 0)).unwrap();
    let page = text(place.path(), &[&format!("dist/{sound}"), "parts", "--html", "-"], 0);
    let ids: Vec<_> = page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let unique: BTreeSet<_> = ids.iter().collect();
    assert!(unique.len() == ids.len() && ids.len() > 40, "{ids:?}");
    let named =
        ["aria-labelledby=\"", "aria-describedby=\""].map(|name| page.split(name).skip(1).collect::<Vec<_>>()).concat();
    assert!(named.iter().all(|rest| unique.contains(&rest.split('"').next().unwrap())));
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    for number in 0..2 {
        assert_eq!(data["wheels"][number]["binaries"], json["wheels"][number]["binaries"]);
    }
}

/// An object file (`ET_REL`) with a code object in it.
fn object(mach: u8) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(128, 0);
    bytes[16..20].copy_from_slice(&[1, 0, 62, 0]);
    bytes.extend(code_object(mach));
    bytes
}

/// A library without section headers (`ET_DYN`) with something in it.
fn library(data: &[u8]) -> Vec<u8> {
    let mut bytes = object(0);
    bytes.truncate(128);
    bytes[16] = 3;
    bytes.extend(data);
    bytes
}

#[test]
fn code_that_no_wrapper_leads_to_is_judged() {
    let place = tempfile::tempdir().unwrap();
    let forms = [
        ("data", "lib/data.so", library(&code_object(0x4c)), "embedded"),
        ("zstd", "lib/zstd.so", library(&zstd::bulk::compress(&code_object(0x4c), 3).unwrap()), "embedded"),
        ("object", "lib/x.o", object(0x4c), "object"),
        ("static", "lib/x.a", [b"!<arch>\n", &*object(0x4c)].concat(), "object"),
        ("file", "lib/kernel.bin", code_object(0x4c), "bundle"),
    ];
    for (name, path, bytes, form) in forms {
        put(place.path(), &format!("{name}/{path}"), &bytes);
        let found = coverage(place.path(), &[name, "--require", "gfx942"], 0);
        assert_eq!((&found["libraries"][0]["form"], &found["not_judged"]), (&json!(form), &json!([])), "{name}");
        // A file for one GPU may be one that others do not need.
        let found = coverage(place.path(), &[name, "--require", "gfx90a"], 1);
        assert_eq!(failures(&found).len() + found["not_judged"].as_array().unwrap().len(), 1, "{name}");
        assert_eq!(failures(&found).is_empty(), form != "embedded", "{name}");
        let said = text(place.path(), &[name], 0);
        assert!(said.contains("It has device code in forms that are not split: ") && said.contains("gfx942"), "{said}");
        assert!(!said.contains("no device code"), "{said}");
    }
    // Files for one GPU each are one, by their directory.
    for (file, mach) in [("a.bin", 0x4c), ("b.bin", 0x3f)] {
        put(place.path(), &format!("kernels/lib/{file}"), &code_object(mach));
    }
    let found = coverage(place.path(), &["kernels", "--require", "gfx942,gfx90a"], 0);
    assert_eq!((found["libraries"].as_array().unwrap().len(), &found["libraries"][0]["path"]), (1, &json!("lib")));
    let failed = failures(&coverage(place.path(), &["kernels", "--require", "gfx1100"], 1));
    assert_eq!(failed, [["library", "lib", "gfx1100"]]);
    // Whether a GPU needs them is not known: it is a remark if other code is for it, unless they are named.
    put(place.path(), "kernels/other/c.bin", &code_object(0x41));
    put(place.path(), "kernels/other/d.bin", &code_object(0x3f));
    let found = coverage(place.path(), &["kernels", "--require", "gfx1100"], 0);
    assert_eq!(lacking(&found["remarks"]), [["library", "lib", "gfx1100"]]);
    coverage(place.path(), &["kernels", "--require", "gfx1100", "--require-in", "*"], 1);
}

/// Files of databases are assigned to GPUs by their names or by their first bytes.
#[test]
fn code_of_a_database_that_is_truncated_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let whole = code_object(0x4c);
    for (name, path) in [
        ("loose", "lib/k_gfx942.co"),
        ("tensile", "lib/rocblas/library/Kernels.so-000-gfx942.hsaco"),
        ("aiter", "aiter_meta/hsa/gfx942/fwd.co"),
        ("other name", "share/kernels_gfx942.bin"),
    ] {
        put(place.path(), &format!("{name}/{path}"), &whole);
        coverage(place.path(), &[name, "--require", "gfx942"], 0);
        put(place.path(), &format!("{name}/{path}"), &whole[..4000]);
        let found = coverage(place.path(), &[name, "--require", "gfx942"], 1);
        let reason = found["failures"][0]["reason"].as_str().unwrap();
        let file = path.rsplit('/').next().unwrap();
        let expected =
            format!("{file}, which is for gfx942, cannot be loaded: it has 4000 bytes, but its headers need 4096");
        assert!(reason.contains(&expected), "{name}: {reason}");
        // Another GPU does not need it.
        put(place.path(), &format!("{name}/{}", path.replace("gfx942", "gfx90a")), &code_object(0x3f));
        coverage(place.path(), &[name, "--require", "gfx90a"], 0);
    }
    // The library that reads it, which would say so, is not in the input.
    for (bytes, reason) in [(&b""[..], "it is empty"), (b"text", "it is no code object")] {
        put(place.path(), "tensile/lib/rocblas/library/Kernels.so-000-gfx942.hsaco", bytes);
        let found = coverage(place.path(), &["tensile", "--require", "gfx942"], 1);
        let said = found["failures"][0]["reason"].as_str().unwrap();
        assert!(said.ends_with(&format!("cannot be loaded: {reason}")), "{said}");
    }
}

#[test]
fn code_of_another_gpu_behind_an_entry_id_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let mut library = fixture("plain.so");
    let ids: Vec<_> = memchr::memmem::find_iter(&library, b"--gfx90a").collect();
    for at in ids {
        library[at + 2..at + 8].copy_from_slice(b"gfx942");
    }
    put(place.path(), "tree/lib/liba.so", &library);
    let found = coverage(place.path(), &["tree", "--require", "gfx942"], 1);
    assert!(found["failures"][0]["reason"].as_str().unwrap().contains("it is code for gfx90a"), "{found}");
    coverage(place.path(), &["tree", "--require", "gfx1030"], 0);
    let why = program().args(["why", "tree", "--target", "gfx942"]).current_dir(place.path()).output().unwrap();
    assert_eq!(why.status.code(), Some(3), "{}", String::from_utf8_lossy(&why.stdout));
}

#[test]
fn what_begins_as_code_and_is_not_understood_is_not_judged() {
    let place = tempfile::tempdir().unwrap();
    let bundle = [b"__CLANG_OFFLOAD_BUNDLE__".as_slice(), &1_u64.to_le_bytes(), &[0xff; 64]].concat();
    let later = [b"\x10\xff\x10\xad".as_slice(), &4_u32.to_le_bytes(), &[0; 64]].concat();
    for (name, bytes) in
        [("bundle", bundle), ("later", later), ("ccob", [b"CCOB\x09\0\x01\0".as_slice(), &[1; 64]].concat())]
    {
        put(place.path(), &format!("{name}/share/k.bin"), &bytes);
        let found = coverage(place.path(), &[name, "--require", "gfx942"], 1);
        assert_eq!(found["not_judged"][0]["path"], "share/k.bin", "{found}");
        let said = text(place.path(), &[name], 0);
        assert!(!said.contains("no device code"), "{said}");
    }
}

#[test]
fn a_library_with_a_wrong_checksum_is_not_without_code() {
    let place = tempfile::tempdir().unwrap();
    let mut zip = crate::forms::made::zipped(&[("lib/liba.so", fixture("plain.so"))]);
    let directory = memchr::memmem::rfind(&zip, b"PK\x01\x02").unwrap();
    zip[directory + 16] ^= 1;
    put(place.path(), "k.zip", &zip);
    let found = coverage(place.path(), &["k.zip", "--require", "gfx90a"], 1);
    assert!(found["failures"][0]["reason"].as_str().unwrap().contains("CRC-32"), "{found}");
}

#[test]
fn databases_behind_symlinks_are_read_if_they_are_in_the_input() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "tree/lib/librocblas.so.5", &fixture("plain.so"));
    for database in ["tree/share/library", "outside/library"] {
        put(place.path(), &format!("{database}/TensileLibrary_gfx90a.co"), &code(0x3f));
        put(place.path(), &format!("{database}/TensileLibrary_gfx90a.dat"), b"\x80");
    }
    let [inside, outside] = ["tree/share", "outside"].map(|path| place.path().join(path));
    // That of an unpacked root is in the input as well.
    for (target, code) in [("../share".into(), 0), ("/share".into(), 0), (inside, 0), (outside, 1)] {
        let link = place.path().join("tree/lib/rocblas");
        symlink(&target, &link).unwrap();
        let found = coverage(place.path(), &["tree", "--require", "gfx90a"], code);
        let is_named =
            found["sentence"].as_str().unwrap().contains("lib/rocblas/library is behind a symlink out of the input");
        assert_eq!(is_named, code == 1, "{target:?}: {}", found["sentence"]);
        fs::remove_file(link).unwrap();
    }
    // One file of a database.
    put(place.path(), "tree/lib/rocblas/library/TensileLibrary_gfx90a.co", &code(0x3f));
    let catalogue = "tree/lib/rocblas/library/TensileLibrary_gfx90a.dat";
    symlink(place.path().join("outside/library/TensileLibrary_gfx90a.dat"), place.path().join(catalogue)).unwrap();
    let found = coverage(place.path(), &["tree", "--require", "gfx90a"], 1);
    let reason = "TensileLibrary_gfx90a.dat is behind a symlink out of the input";
    assert!(found["sentence"].as_str().unwrap().contains(reason), "{}", found["sentence"]);
}

/// The table of a bundle may name less of a code object than its headers need.
#[test]
fn truncated_code_in_a_bundle_is_missing_for_its_gpu() {
    let place = tempfile::tempdir().unwrap();
    let mut library = fixture("plain.so");
    let id = memchr::memmem::find(&library, b"hipv4-amdgcn-amd-amdhsa--gfx90a").unwrap();
    let size = u64::from_le_bytes(library[id - 16..id - 8].try_into().unwrap());
    library[id - 16..id - 8].copy_from_slice(&(size / 2).to_le_bytes());
    let start = memchr::memmem::find(&library, b"__CLANG_OFFLOAD_BUNDLE__").unwrap();
    let end = start + memchr::memmem::find(&library[start + 24..], b"__CLANG_OFFLOAD_BUNDLE__").unwrap() + 24;
    put(place.path(), "wrapper/lib/liba.so", &library);
    put(place.path(), "file/share/k.fatbin", &library[start..end]);
    for (name, file) in [("wrapper", "lib/liba.so"), ("file", "share/k.fatbin")] {
        let found = coverage(place.path(), &[name, "--require", "gfx90a"], 1);
        assert_eq!(failures(&found), [["library", file, "gfx90a"]]);
        let reason = found["failures"][0]["reason"].as_str().unwrap();
        let half = size / 2;
        assert!(reason.contains(&format!("the code object for gfx90a: it has {half} bytes, but its headers need")));
        coverage(place.path(), &[name, "--require", "gfx1030"], 0);
        let path = format!("{name}/{file}");
        let why = program().args(["why", &path, "--target", "gfx90a"]).current_dir(place.path()).output().unwrap();
        assert_eq!(why.status.code(), Some(3), "{}", String::from_utf8_lossy(&why.stdout));
    }
}

/// What an entry of a bundle names may be no code at all. A split keeps it.
#[test]
fn what_is_no_code_in_a_bundle_is_missing_for_its_gpu() {
    let place = tempfile::tempdir().unwrap();
    let library = fixture("plain.so");
    let start = memchr::memmem::find(&library, b"__CLANG_OFFLOAD_BUNDLE__").unwrap();
    let id = memchr::memmem::find(&library, b"hipv4-amdgcn-amd-amdhsa--gfx90a").unwrap();
    let offset = u64::from_le_bytes(library[id - 24..id - 16].try_into().unwrap());
    let at = start + usize::try_from(offset).unwrap();
    for (bytes, reason) in [
        (&b"BC\xc0\xde"[..], "the code object for gfx90a: it is LLVM bitcode, which was not linked"),
        (&[0; 64], "the code object for gfx90a: it is neither an AMDGPU ELF file nor SPIR-V"),
    ] {
        let mut other = library.clone();
        other[at..at + bytes.len()].copy_from_slice(bytes);
        put(place.path(), "tree/lib/liba.so", &other);
        let found = coverage(place.path(), &["tree", "--require", "gfx90a"], 1);
        assert_eq!(failures(&found), [["library", "lib/liba.so", "gfx90a"]]);
        assert!(found["failures"][0]["reason"].as_str().unwrap().contains(reason), "{found}");
        coverage(place.path(), &["tree", "--require", "gfx1030"], 0);
    }
}

/// A split moves files of databases unchanged.
#[test]
fn verify_names_truncated_code_that_the_input_had() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "in/lib/k_gfx942.hsaco", &code_object(0x4c)[..4000]);
    succeeds(program().args(["split", "in", "-o", "out"]).current_dir(place.path()));
    let said = succeeds(program().args(["verify", "out"]).current_dir(place.path()));
    let expected = "k_gfx942.hsaco: it has 4000 bytes, but its headers need 4096; the input of the split has it so";
    assert!(
        String::from_utf8_lossy(&said.stdout).contains(expected)
            || String::from_utf8_lossy(&said.stderr).contains(expected)
    );
}

#[test]
fn what_cannot_be_judged_is_named_and_fails_if_that_is_wanted() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "tree/lib/plain.so", &fixture("plain.so"));
    put(place.path(), "tree/lib/packed.so", &library(b"UPX! and what it packed"));
    let tree = ["tree", "--require", "gfx90a"];
    let found = coverage(place.path(), &tree, 0);
    assert_eq!(found["not_judged"][0]["path"], "lib/packed.so");
    let sentence = found["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("All code for gfx90a is there: 1 library. Not judged: 1 file, lib/packed.so: "),
        "{sentence}"
    );
    assert!(text(place.path(), &tree, 0).contains("Not judged"));
    coverage(place.path(), &[&tree[..], &["--require-judged"]].concat(), 1);
    coverage(place.path(), &[&tree[..], &["--require-judged", "--require-in", "plain.so"]].concat(), 0);
    put(place.path(), "packed/lib/packed.so", &library(b"UPX! and what it packed"));
    let said = text(place.path(), &["packed", "--require", "gfx90a"], 1);
    let verdict = said.lines().last().unwrap();
    assert!(
        verdict.starts_with("Failed: Whether there is code for gfx90a is not known. Not judged: 1 file, "),
        "{verdict}"
    );
    let said = text(place.path(), &["packed"], 0);
    assert!(said.contains("packed by UPX") && !said.contains("no device code") && !said.contains(": ,"), "{said}");
}

/// A split says what is wrong with its archives, and the gate does not pass code that is none.
#[test]
fn damaged_archives_of_a_split_are_not_missing_code() {
    type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

    let place = tempfile::tempdir().unwrap();
    crate::common::put(place.path().join("tree/lib/libx.so"), fixture("plain.so"));
    let split = crate::common::ran(place.path(), &["split", "tree", "-o", "split"]);
    assert_eq!(split.0, Some(0), "{}", split.1);
    let archive = place.path().join("split/gfx90a/.kpack");
    let archive = fs::read_dir(archive).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&archive).unwrap();
    let first_frame = 64..104;
    let damages: [(&str, Damage); 5] = [
        ("it is empty", &Vec::clear),
        ("table of contents", &|bytes| bytes.truncate(bytes.len() / 2)),
        ("it is not a version 1 kpack archive", &|bytes| bytes.fill(0)),
        ("version 1", &|bytes| bytes[..4].copy_from_slice(b"KPAX")),
        ("frames", &|bytes| bytes[first_frame.clone()].iter_mut().for_each(|byte| *byte ^= 0xff)),
    ];
    for (named, damage) in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&archive, &bytes).unwrap();
        let (code, said) = crate::common::ran(place.path(), &["why", "split", "--target", "gfx90a"]);
        assert!(
            code == Some(1) && said.contains(named) && said.contains("rocm_gfx90a.kpack"),
            "{named}: {code:?} {said}"
        );
        let (code, said) = crate::common::ran(place.path(), &["inspect", "split", "--require", "gfx90a"]);
        assert!(code == Some(1) && said.contains("its code for gfx90a is not known"), "{named}: {code:?} {said}");
    }
    // Code of another GPU is no code of this one, and stored bytes that are no code are damaged.
    let options = ["--compression", "none"];
    let split =
        crate::common::ran(place.path(), &[&["split", "tree", "-o", "split", "--force"], &options[..]].concat());
    assert_eq!(split.0, Some(0), "{}", split.1);
    let mut bytes = fs::read(&archive).unwrap();
    let places: Vec<_> = memchr::memmem::find_iter(&bytes, b"\x7fELF").collect();
    for place in places {
        bytes[place] = 0;
    }
    fs::write(&archive, bytes).unwrap();
    let (code, said) = crate::common::ran(place.path(), &["why", "split", "--target", "gfx90a"]);
    assert!(code == Some(1) && said.contains("neither an AMDGPU ELF file nor SPIR-V"), "{code:?} {said}");
    assert_eq!(crate::common::ran(place.path(), &["inspect", "split", "--require", "gfx90a"]).0, Some(1));
}

/// Its parts are not where they are installed. A tree over which parts were installed is judged.
#[test]
fn a_split_in_a_tree_is_not_judged_with_it() {
    let place = tempfile::tempdir().unwrap();
    let (tree, out) = (place.path().join("tree"), place.path().join("tree/out"));
    put(&tree, "lib/plain.so", &fixture("plain.so"));
    succeeds(program().args(["split", "-o"]).arg(place.path().join("split")).arg(&tree));
    copy_all(place.path().join("split"), &out);
    let found = coverage(place.path(), &["tree", "--require", "gfx90a"], 0);
    let reason = format!("a split is not judged with the tree around it; name {} to judge it", out.display());
    assert_eq!(found["not_judged"], json!([{ "path": "out", "reason": reason }]));
    assert_eq!(found["unreachable"], json!([]));
    let (code, said) = crate::common::ran(place.path(), &["why", "tree", "--target", "gfx90a"]);
    assert!(code == Some(0) && said.contains(&format!("{}: left out: a split", out.display())), "{code:?} {said}");
    let installed = tree.join("opt");
    copy_all(out.join("host"), &installed);
    copy_all(out.join("gfx1030/."), &installed);
    copy_all(out.join(".kpackfs"), installed.join(".kpackfs"));
    let found = coverage(place.path(), &["tree", "--require", "gfx90a"], 1);
    assert_eq!(failures(&found), [["library", "opt/lib/plain.so", "gfx90a"]]);
}
