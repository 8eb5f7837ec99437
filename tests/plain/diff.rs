//! `diff` reports what changed, whatever form the inputs have, and fails if something grew.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{fixture, program, put_in as put, torch_wheel};
use crate::pages::{self, table};
use serde_json::{Value, json};
use tempfile::TempDir;

fn run(place: &Path, arguments: &[&str]) -> Output {
    program().args(arguments).current_dir(place).output().unwrap()
}

#[track_caller]
fn kpackfs(place: &Path, arguments: &[&str]) -> String {
    crate::common::run(program().args(arguments).current_dir(place))
}

#[track_caller]
fn diff(place: &Path, before: &str, after: &str) -> Value {
    serde_json::from_str(&kpackfs(place, &["diff", "--json", before, after])).unwrap()
}

/// A tree of libraries, and a database.
fn tree(place: &Path, name: &str, libraries: &[(&str, &[u8])]) {
    for (path, bytes) in libraries {
        put(place, &format!("{name}/{path}"), bytes);
    }
    put(place, &format!("{name}/lib/rocblas/library/TensileLibrary_gfx1100.co"), b"database");
}

fn amount(count: u64, size: u64) -> Value {
    json!({"count": count, "size": size})
}

fn wheel(place: &Path) {
    let wheel = place.join("torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl");
    torch_wheel(&wheel);
    fs::rename(wheel, place.join("torch.whl")).unwrap();
}

/// Digests and sizes of the code objects of a fixture for each target, in the order of the wrappers, as an independent
/// program found them.
fn truth(name: &str) -> BTreeMap<String, Vec<(String, u64)>> {
    let expected: Value = serde_json::from_slice(&fixture("expected.json")).unwrap();
    let mut targets = BTreeMap::<String, Vec<_>>::new();
    for wrapper in expected[name]["wrappers"].as_array().unwrap() {
        for (target, object) in wrapper.as_object().unwrap() {
            let object = (object["sha256"].as_str().unwrap().to_owned(), object["size"].as_u64().unwrap());
            targets.entry(target.clone()).or_default().push(object);
        }
    }
    targets
}

#[test]
fn code_objects_are_compared_by_digest() {
    let place = tempfile::tempdir().unwrap();
    let names = [
        "plain.so",
        "ccob-v3.so",
        "mixed.so",
        "mixed-shuffled.so",
        "features.so",
        "empty-entry.so",
        "rdc.so",
        "twins.so",
    ];
    for name in names {
        tree(place.path(), name, &[("lib/libx.so", &fixture(name))]);
    }
    for old in names {
        for new in names {
            let said = diff(place.path(), old, new);
            let (before, after) = (truth(old), truth(new));
            let (mut same, mut changed, mut added, mut removed) = (0, 0, 0, 0);
            for target in before.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>() {
                let [mut left, mut right] = [&before, &after].map(|of| of.get(target).cloned().unwrap_or_default());
                let all = [&left, &right].map(|of| (of.len() as u64, of.iter().map(|(_, size)| size).sum::<u64>()));
                let pair = &said["libraries"][0]["targets"][target];
                assert_eq!(
                    [&pair["before"], &pair["after"]],
                    [&amount(all[0].0, all[0].1), &amount(all[1].0, all[1].1)]
                );
                let mut equal = 0;
                right.retain(|object| match left.iter().position(|other| other == object) {
                    Some(found) => {
                        left.remove(found);
                        equal += 1;
                        false
                    }
                    None => true,
                });
                same += equal;
                changed += left.len().min(right.len());
                added += right.len().saturating_sub(left.len());
                removed += left.len().saturating_sub(right.len());
            }
            let count = |what: &Value| usize::try_from(what["count"].as_u64().unwrap()).unwrap();
            let objects = &said["code_objects"];
            let counts =
                [&objects["same"], &objects["changed"]["after"], &objects["added"], &objects["removed"]].map(count);
            assert_eq!(counts, [same, changed, added, removed], "{old} and {new}");
            let pieces = kpackfs(place.path(), &["diff", "--json", "--memory", "16", "-j", "1", old, new]);
            assert_eq!(serde_json::from_str::<Value>(&pieces).unwrap(), said, "with little memory");
        }
    }
}

/// Offsets of the AMDGPU ELF files in a file.
fn code_objects(bytes: &[u8]) -> Vec<usize> {
    let is_code = |at: &usize| bytes[*at..].starts_with(b"\x7fELF") && bytes[at + 18..at + 20] == [224, 0];
    (0..bytes.len().saturating_sub(64)).filter(is_code).collect()
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// Makes the first function in the symbol table of each code object larger.
fn grow_kernels(bytes: &mut [u8], by: u8) {
    for start in code_objects(bytes) {
        let table = start + number(bytes, start + 40);
        let sections = usize::from(bytes[start + 60]);
        let symbols = (0..sections).map(|it| table + 64 * it).find(|it| bytes[it + 4] == 11).unwrap();
        let (offset, size) = (start + number(bytes, symbols + 24), number(bytes, symbols + 32));
        let function = (offset..offset + size).step_by(24).find(|at| bytes[at + 4] & 15 == 2).unwrap();
        bytes[function + 16] += by;
    }
}

#[test]
fn kernels_are_compared_by_symbol() {
    let place = tempfile::tempdir().unwrap();
    let old = fixture("plain.so");
    let objects = code_objects(&old).len() as u64;
    assert_eq!(objects, 4, "two units, two targets");
    // Changes another byte outside of symbols: in the text that each code object contains.
    let text = b"of a kpackfs fixture";
    let mut other_text = old.clone();
    while let Some(at) = other_text.windows(text.len()).position(|window| window == text) {
        other_text[at] = b'O';
    }
    let mut larger = old.clone();
    grow_kernels(&mut larger, 8);
    let renamed: Vec<u8> = {
        let mut bytes = old.clone();
        for at in 0..bytes.len() - 13 {
            if bytes[at..].starts_with(b"unit_kernel_1") && at > code_objects(&old)[0] {
                bytes[at] = b'U';
            }
        }
        bytes
    };
    for (name, bytes) in [("old", &old), ("text", &other_text), ("larger", &larger), ("renamed", &renamed)] {
        tree(place.path(), name, &[("lib/libx.so", bytes)]);
    }
    let counts = |said: &Value, what: &str| {
        let of = &said[what];
        [&of["same"], &of["changed"]["after"], &of["added"], &of["removed"]].map(|it| it["count"].as_u64().unwrap())
    };
    let said = diff(place.path(), "old", "text");
    assert_eq!((counts(&said, "code_objects"), counts(&said, "kernels")), ([0, 4, 0, 0], [4, 0, 0, 0]));
    assert_eq!(said["changed_kernels"].as_array().unwrap().len(), 0);
    let said = diff(place.path(), "old", "larger");
    assert_eq!((counts(&said, "code_objects"), counts(&said, "kernels")), ([0, 4, 0, 0], [0, 4, 0, 0]));
    let changed = said["changed_kernels"].as_array().unwrap();
    let names: Vec<_> = changed.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["unit_kernel_0", "unit_kernel_1"]);
    for kernel in changed {
        assert_eq!(kernel["targets"], json!(["gfx1030", "gfx90a"]));
        let [before, after] = ["before", "after"].map(|side| kernel[side]["size"].as_u64().unwrap());
        assert!(before > 0 && after == before + 16, "8 bytes for each of two targets: {kernel}");
    }
    let said = diff(place.path(), "old", "renamed");
    assert_eq!((counts(&said, "code_objects"), counts(&said, "kernels")), ([2, 2, 0, 0], [2, 0, 2, 2]));
    let names: Vec<_> =
        said["changed_kernels"].as_array().unwrap().iter().map(|it| (&it["name"], &it["change"])).collect();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&(&json!("Unit_kernel_1"), &json!("added"))), "{names:?}");
    assert!(names.contains(&(&json!("unit_kernel_1"), &json!("removed"))), "{names:?}");
    assert_eq!(said["unread_symbols"], json!({"before": 0, "after": 0}));
}

/// A tree, a wheel and artifacts, each fat and split.
fn forms() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let libraries: [(&str, &[u8]); 3] =
        [("lib/libx.so", &fixture("mixed.so")), ("lib/libz.so", &fixture("ccob-mixed.so")), ("notes.txt", b"notes")];
    tree(place.path(), "tree", &libraries);
    put(place.path(), "builds/x_lib_gfx90X/artifact_manifest.txt", b"stage\n");
    tree(place.path(), "builds/x_lib_gfx90X/stage", &libraries);
    wheel(place.path());
    kpackfs(place.path(), &["split", "tree", "-o", "tree-split"]);
    kpackfs(place.path(), &["split", "builds", "-o", "builds-split"]);
    kpackfs(place.path(), &["split", "torch.whl", "-o", "torch-split"]);
    kpackfs(place.path(), &["split", "torch.whl", "--format", "wheel", "-o", "torch-wheels"]);
    place
}

#[test]
fn an_input_and_its_split_have_the_same_code() {
    let place = forms();
    for (fat, split, form, differs) in [
        ("tree", "tree-split", "split", 0),
        ("builds", "builds-split", "artifacts", 0),
        // METADATA, RECORD and WHEEL differ.
        ("torch.whl", "torch-split", "split", 3),
        ("torch.whl", "torch-wheels", "wheels", 3),
    ] {
        let said = diff(place.path(), fat, split);
        assert_eq!(said["inputs"]["after"]["form"], form);
        assert_eq!(said["warnings"], json!([]), "{split}");
        let nothing = amount(0, 0);
        for what in ["code_objects", "kernels"] {
            let changes = &said[what];
            assert!(changes["same"]["count"].as_u64().unwrap() > 0, "{split}: {what}");
            for other in [&changes["changed"]["before"], &changes["added"], &changes["removed"]] {
                assert_eq!(*other, nothing, "{split}: {what}: {changes}");
            }
        }
        for library in said["libraries"].as_array().unwrap() {
            assert_eq!(library["change"], "same", "{split}: {library}");
        }
        let inputs = &said["inputs"];
        for field in ["code", "databases"] {
            assert_eq!(inputs["before"][field], inputs["after"][field], "{split}: {field}");
        }
        let changed = said["members"]["changed"]["before"]["count"].as_u64().unwrap();
        assert!(changed <= differs, "{split}: {}", said["members"]);
        if differs == 0 {
            assert_eq!(inputs["before"]["host_size"], inputs["after"]["host_size"], "{split}");
            assert_eq!(said["members"]["list"], json!([]));
            let text = kpackfs(place.path(), &["diff", fat, split]);
            assert!(text.contains("\n\nEqual: all bytes of ") && text.lines().count() < 14, "{text}");
        }
    }
    let said = diff(place.path(), "torch-split", "torch-wheels");
    assert_eq!(said["code_objects"]["same"], said["inputs"]["before"]["code"]);
}

#[test]
fn all_forms_of_a_wheel_have_its_code() {
    let place = tempfile::tempdir().unwrap();
    wheel(place.path());
    let unpack = |wheel: &Path, to: &str| {
        zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap().extract(place.path().join(to)).unwrap();
    };
    for format in ["wheel", "index", "thin-wheel"] {
        kpackfs(place.path(), &["split", "torch.whl", "--format", format, "-o", format]);
    }
    let site = "lib/python3.12/site-packages";
    put(place.path(), "venv/pyvenv.cfg", b"home = /usr/bin");
    put(place.path(), "conda/conda-meta/history", b"");
    unpack(&place.path().join("torch.whl"), &format!("venv/{site}"));
    for wheel in fs::read_dir(place.path().join("wheel")).unwrap() {
        unpack(&wheel.unwrap().path(), &format!("conda/{site}"));
    }
    put(place.path(), "wheel/SHA256SUMS", b"");
    // The libraries of conda's packages are next to Python's packages.
    for name in ["venv", "conda"] {
        put(place.path(), &format!("more/{name}/lib/libx.so"), &fixture("plain.so"));
        let copy = Command::new("cp").arg("-a").arg(name).arg("more").current_dir(place.path()).output().unwrap();
        assert!(copy.status.success(), "{copy:?}");
    }
    for (input, form, added) in [
        ("wheel", "wheels", 0),
        ("index", "wheels", 0),
        ("index/simple", "wheels", 0),
        ("thin-wheel", "wheels", 0),
        ("venv", "tree", 0),
        ("conda", "tree", 0),
        ("more/venv", "tree", 4),
        ("more/conda", "tree", 4),
    ] {
        let said = diff(place.path(), "torch.whl", input);
        assert_eq!(said["inputs"]["after"]["form"], form, "{input}");
        let objects = &said["code_objects"];
        assert_eq!(objects["same"], said["inputs"]["before"]["code"], "{input}");
        assert_eq!(objects["added"]["count"], added, "{input}");
        assert_eq!([&objects["changed"]["before"], &objects["removed"]], [&amount(0, 0); 2], "{input}");
        let is_left_out = said["warnings"].to_string().contains("SHA256SUMS");
        assert_eq!(is_left_out, input == "wheel", "{input}: {}", said["warnings"]);
    }
}

/// The report with before and after exchanged.
fn mirrored(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let name = |name: &String| match name.as_str() {
                "before" => "after".to_owned(),
                "after" => "before".to_owned(),
                "added" => "removed".to_owned(),
                "removed" => "added".to_owned(),
                other => other.to_owned(),
            };
            Value::Object(members.iter().map(|(key, value)| (name(key), mirrored(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(mirrored).collect()),
        Value::String(text) if text == "added" => json!("removed"),
        Value::String(text) if text == "removed" => json!("added"),
        other => other.clone(),
    }
}

#[test]
fn what_was_added_one_way_is_removed_the_other() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path(), "old", &[("a/libx.so", &fixture("plain.so")), ("a/liby.so", &fixture("mixed.so"))]);
    tree(place.path(), "new", &[("a/libx.so", &fixture("generic.so")), ("b/libz.so", &fixture("features.so"))]);
    put(place.path(), "new/lib/rocblas/library/TensileLibrary_gfx90a.co", b"another");
    let (there, back) = (diff(place.path(), "old", "new"), diff(place.path(), "new", "old"));
    assert_eq!(mirrored(&there), back);
    let changes: BTreeMap<_, _> = there["libraries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["path"].as_str().unwrap(), it["change"].as_str().unwrap()))
        .collect();
    assert_eq!(changes, BTreeMap::from([("a/libx.so", "changed"), ("a/liby.so", "removed"), ("b/libz.so", "added")]));
    assert_eq!(there["targets"]["gfx90a"]["databases"], json!({"before": amount(0, 0), "after": amount(1, 7)}));
    assert_eq!(there["databases"]["rocblas"]["gfx1100"], json!({"before": amount(1, 8), "after": amount(1, 8)}));
    let text = kpackfs(place.path(), &["diff", "old", "new"]);
    assert!(
        text.contains("Targets added: ")
            && text.contains("gfx11-generic")
            && text.contains("Targets removed: gfx1030."),
        "{text}"
    );
}

#[test]
fn growth_is_gated() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path(), "old", &[("lib/libx.so", &fixture("plain.so")), ("text", &"x".repeat(100_000).into_bytes())]);
    tree(place.path(), "new", &[("lib/libx.so", &fixture("plain.so")), ("text", &"x".repeat(110_000).into_bytes())]);
    let said = diff(place.path(), "old", "new");
    let [before, after] = ["before", "after"].map(|side| said["inputs"][side]["host_size"].as_u64().unwrap());
    assert_eq!(after, before + 10_000);
    for (limit, code) in [("0", 1), ("7", 1), ("11", 0), ("11%", 0)] {
        let output = run(place.path(), &["diff", "--fail-above", limit, "old", "new"]);
        let (said, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(code), "{limit}: {error}");
        assert_eq!(error.contains("the host part grew by"), code == 1, "{error}");
        let verdict = said.lines().last().unwrap();
        assert!(verdict.starts_with(if code == 1 { "Failed: " } else { "Passed: Nothing grew" }), "{said}");
    }
    assert_eq!(run(place.path(), &["diff", "--fail-above", "0", "new", "old"]).status.code(), Some(0), "it shrank");
    // A database for one target.
    put(place.path(), "new/lib/rocblas/library/TensileLibrary_gfx1100.co", b"database that grew");
    let output = run(place.path(), &["diff", "--fail-above", "50", "--json", "old", "new"]);
    let gate: Value = serde_json::from_slice::<Value>(&output.stdout).unwrap()["gate"].clone();
    assert_eq!(
        gate["exceeded"],
        json!([{"what": "target", "name": "gfx1100", "before": 8, "after": 18, "is_estimate": false}])
    );
    assert_eq!(run(place.path(), &["diff", "old", "none"]).status.code(), Some(5), "it is not there");
    // A directory that a step before should have filled.
    fs::create_dir(place.path().join("empty")).unwrap();
    for inputs in [["empty", "new"], ["old", "empty"]] {
        let output = run(place.path(), &[&["diff", "--fail-above", "5"], &inputs[..]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains("empty: it has no device code"), "{error}");
    }
    for arguments in [
        &["old", "new", "--fail-above", "-1"][..],
        &["old", "new", "--fail-above", "x"],
        &["old", "new", "--html", "-", "--json"],
        // The failure is not caused by growth.
        &["old", "new", "--html", "none/page.html"],
        &["old", "new", "--fail-above", "0", "--html", "none/page.html"],
    ] {
        assert_eq!(run(place.path(), &[&["diff"], arguments].concat()).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn tar_archives_make_no_artifacts_of_a_directory() {
    let place = forms();
    for name in ["tree", "tree-split", "torch-wheels"] {
        let plain = diff(place.path(), name, name);
        put(place.path(), &format!("{name}/notes.tar"), b"archive");
        let said = diff(place.path(), name, name);
        assert_eq!(said["inputs"]["after"]["form"], plain["inputs"]["after"]["form"], "{name}");
        assert_eq!(said["inputs"]["after"]["code"], plain["inputs"]["after"]["code"], "{name}");
        assert_ne!(said["inputs"]["after"]["code"]["count"], 0, "{name}");
    }
    put(place.path(), "builds/notes.tar", b"archive");
    put(place.path(), "builds/notes/text", b"text");
    let warnings = diff(place.path(), "builds", "builds-split")["warnings"].to_string();
    assert!(warnings.contains("builds/notes.tar: not compared") && warnings.contains("builds/notes: "), "{warnings}");
}

#[test]
fn artifacts_of_all_shards_count() {
    let place = tempfile::tempdir().unwrap();
    for name in ["old", "new"] {
        for family in ["gfx110X-all", "gfx94X-dcgpu"] {
            let artifact = format!("{name}/blas_lib_{family}");
            put(place.path(), &format!("{artifact}/artifact_manifest.txt"), b"stage\n");
            tree(place.path(), &format!("{artifact}/stage"), &[("lib/libx.so", &fixture("plain.so"))]);
            put(place.path(), &format!("{artifact}/stage/notes.txt"), family.as_bytes());
        }
    }
    put(place.path(), "new/blas_lib_gfx94X-dcgpu/stage/notes.txt", b"longer than it was before");
    let said = diff(place.path(), "old", "new");
    assert_eq!(said["inputs"]["before"]["files"]["count"], 6);
    assert_eq!(said["inputs"]["before"]["code"]["count"], 8, "four of each shard");
    let changed = said["members"]["list"].as_array().unwrap();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0]["change"], "changed");
    assert!(changed[0]["path"].as_str().unwrap().starts_with("blas_lib_gfx94X-dcgpu/"), "{changed:?}");
}

#[test]
fn databases_that_are_not_wanted_do_not_count() {
    let place = tempfile::tempdir().unwrap();
    for name in ["old", "new"] {
        tree(place.path(), name, &[("lib/libx.so", &fixture("plain.so"))]);
        put(place.path(), &format!("{name}/lib/rocblas/library/TensileLibrary_gfx90a.co"), b"wanted");
    }
    put(place.path(), "new/lib/rocblas/library/TensileLibrary_gfx1100.co", b"database that grew");
    let arguments = ["diff", "--json", "--gpu-targets", "gfx90a", "--fail-above", "0", "old", "new"];
    let said: Value = serde_json::from_str(&kpackfs(place.path(), &arguments)).unwrap();
    assert_eq!(said["databases"], json!({"rocblas": {"gfx90a": {"before": amount(1, 6), "after": amount(1, 6)}}}));
    assert_eq!(said["targets"]["gfx1100"], Value::Null);
    assert_eq!(said["members"]["list"], json!([]));
}

#[test]
fn downloads_are_estimated_until_they_are_known() {
    let place = tempfile::tempdir().unwrap();
    wheel(place.path());
    let estimated = diff(place.path(), "torch.whl", "torch.whl");
    let exact: Value =
        serde_json::from_str(&kpackfs(place.path(), &["diff", "--json", "--sizes", "torch.whl", "torch.whl"])).unwrap();
    let sizes: Value =
        serde_json::from_str(&kpackfs(place.path(), &["inspect", "--json", "--sizes", "torch.whl"])).unwrap();
    let size = fs::metadata(place.path().join("torch.whl")).unwrap().len();
    for said in [&estimated, &exact] {
        assert_eq!(said["downloads"]["all"], json!({"before": size, "after": size, "is_estimate": false}));
    }
    let users = sizes["users"].as_object().unwrap();
    assert!(!users.is_empty());
    for (gpu, user) in users {
        assert_eq!(estimated["downloads"][gpu]["is_estimate"], true);
        assert_eq!(
            exact["downloads"][gpu],
            json!({"before": user["download_size"], "after": user["download_size"], "is_estimate": false})
        );
    }
}

/// An item of a list of the JSON by its name.
fn named<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item[field] == name).unwrap_or_else(|| panic!("{name}: {list}"))
}

/// Compares the tables of a page with its JSON.
fn tables_say(page: &str, data: &Value) {
    let sizes = |pair: &Value| ["before", "after"].map(|side| pair[side].as_u64());
    let some = |pair: &Value| {
        let amounts = ["before", "after"].map(|side| &pair[side]);
        amounts.map(|amount| amount["size"].as_u64().filter(|_| amount["count"] != 0))
    };
    let targets = table(page, "targets");
    assert_eq!(targets.len(), data["targets"].as_object().unwrap().len());
    for (target, it) in data["targets"].as_object().unwrap() {
        assert_eq!(targets[target].numbers(["code before", "code after"]), some(&it["code"]), "{target}");
        assert_eq!(targets[target].numbers(["equal objects"]), [it["code_objects"]["same"]["count"].as_u64()]);
    }
    let libraries = table(page, "libraries");
    assert_eq!(libraries.len(), data["libraries"].as_array().unwrap().len());
    let (row, library) = (&libraries["lib/libx.so"], named(&data["libraries"], "path", "lib/libx.so"));
    assert_eq!(row.numbers(["host before", "host after"]), sizes(&library["host_size"]));
    assert_eq!(row.number("objects equal"), library["code_objects"]["same"]["count"].as_u64());
    assert!(row.text("equal objects %").ends_with(" %") && row.text("equal kernels %").ends_with(" %"));
    let kernel = &data["changed_kernels"][0];
    let row = &table(page, "kernels")[kernel["name"].as_str().unwrap()];
    assert_eq!(
        (row.text("change"), row.numbers(["before", "after"])),
        (kernel["change"].as_str().unwrap(), some(kernel))
    );
    let (row, package) = (&table(page, "packages")["lib"], named(&data["packages"], "name", "lib"));
    assert_eq!(row.numbers(["host before", "host after"]), sizes(&package["host_size"]));
    let row = &table(page, "members")["notes.txt"];
    assert_eq!(row.numbers(["before", "after"]), sizes(named(&data["members"]["list"], "path", "notes.txt")));
    assert_eq!((row.text("change"), row.text("size change")), ("changed", "+7 B (+140.0 %)"));
    let row = &table(page, "databases")["rocblas"];
    assert_eq!(row.numbers(["before", "after"]), some(&data["databases"]["rocblas"]["gfx1100"]));
}

/// A wheel with a library, and a field in its METADATA.
fn wheel_with(wheel: &Path, field: &str) {
    let mut zip = zip::ZipWriter::new(fs::File::create(wheel).unwrap());
    let metadata = format!("Metadata-Version: 2.1\nName: x\nVersion: 1\n{field}\n");
    let form = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n";
    for (name, bytes) in [
        ("x/libx.so", fixture("plain.so")),
        ("x-1.dist-info/METADATA", metadata.into_bytes()),
        ("x-1.dist-info/WHEEL", form.to_vec()),
        ("x-1.dist-info/RECORD", Vec::new()),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap();
}

#[test]
fn the_page_shows_metadata_and_downloads_of_wheels() {
    let place = tempfile::tempdir().unwrap();
    wheel_with(&place.path().join("old.whl"), "Requires-Dist: numpy<2");
    wheel_with(&place.path().join("new.whl"), "Requires-Python: >=3.12");
    let page = kpackfs(place.path(), &["diff", "old.whl", "new.whl", "--html", "-"]);
    let fields = table(&page, "metadata");
    assert_eq!(fields["Requires-Dist"].text("before"), "numpy&lt;2");
    assert_eq!(fields["Requires-Python"].text("after"), "&gt;=3.12");
    let all = &pages::data(&page)["downloads"]["all"];
    let row = &table(&page, "downloads")["all (fat)"];
    assert_eq!(row.numbers(["before", "after"]), ["before", "after"].map(|side| all[side].as_u64()));
    assert!(page.contains("<title>all (fat): before and after</title>"), "bars have the name of their row");
}

#[test]
fn the_page_says_what_the_json_says() {
    let place = tempfile::tempdir().unwrap();
    let name = "</script><script>alert(1)</script>/a\u{202e}b.so";
    for (input, library, notes) in [("old", "plain.so", &b"notes"[..]), ("new", "mixed.so", b"longer notes")] {
        let library = fixture(library);
        tree(place.path(), input, &[("lib/libx.so", &library), (name, &library), ("notes.txt", notes)]);
    }
    let json =
        kpackfs(place.path(), &["diff", "old", "new", "--json", "--html", "page.html", "--fail-above", "1000000"]);
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    let data = pages::data(&page);
    assert_eq!(data, serde_json::from_str::<Value>(&json).unwrap());
    assert_eq!(page.matches("<script").count(), 2, "names do nothing");
    assert!(!page.contains('\u{202e}') && page.contains("a\\u{202e}b.so"), "nothing is invisible");
    for reference in ["http:", "https:", " src=", " href=", "url(", "@import", " style=", " onclick=", "innerHTML"] {
        assert!(!page.contains(reference), "{reference}");
    }
    tables_say(&page, &data);
    for form in ["--markdown", "--json"] {
        let text = kpackfs(place.path(), &["diff", "old", "new", form]);
        assert!(!text.contains('\u{202e}'), "{text}");
        assert!(text.len() < 65_536, "a comment on GitHub has 65,536 letters at most");
    }
}

/// Code that cannot be read is neither removed nor added.
#[test]
fn a_library_that_cannot_be_read_is_named() {
    let place = tempfile::tempdir().unwrap();
    let [whole, damaged] = [fixture("plain.so"), fixture("plain.so")[..20_000].to_vec()];
    for (name, library) in [("whole", &whole), ("damaged", &damaged), ("also", &damaged)] {
        tree(place.path(), name, &[("lib/libx.so", library), ("lib/liby.so", &whole)]);
    }
    let unknown = "What code lib/libx.so has in damaged is not known, since it cannot be read there.";
    for (names, unread) in [
        (["whole", "damaged"], json!({"before": [], "after": ["lib/libx.so"]})),
        (["damaged", "whole"], json!({"before": ["lib/libx.so"], "after": []})),
        (["damaged", "also"], json!({"before": [], "after": []})),
    ] {
        let of = |options: &[&str]| run(place.path(), &[&["diff"], &names[..], options].concat());
        let is_known = names[1] == "also";
        for options in [&[][..], &["--fail-above", "1"]] {
            let output = of(options);
            assert_eq!(output.status.code(), Some(if is_known { 0 } else { 2 }), "{names:?}");
            let [said, complaint] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
            assert_eq!([said.contains(unknown), complaint.contains(unknown)], [!is_known; 2], "{said}{complaint}");
        }
        let json: Value = serde_json::from_slice(&of(&["--json"]).stdout).unwrap();
        assert_eq!(json["unread_libraries"], unread);
    }
}
