//! The JSON that commands print is as `docs/schema` and `docs/json.md` describe.

use std::fs;

use std::path::Path;
use std::process::Command;

use crate::common::{self, fixture};
use serde_json::Value;
use tempfile::TempDir;

fn schema(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(format!("docs/schema/{name}.json")).unwrap()).unwrap()
}

/// Changes the schema to allow no other fields. Programs ignore unknown fields, but each field must be documented.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("properties").is_some_and(Value::is_object) && members.get("type").is_some() {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            members.values_mut().for_each(strict);
        }
        Value::Array(elements) => elements.iter_mut().for_each(strict),
        _ => {}
    }
}

#[track_caller]
fn check(name: &str, json: &str) -> Value {
    let value: Value = serde_json::from_str(json).unwrap();
    let mut schema = schema(name);
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> =
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
    assert_eq!(value["json_version"], 1, "{name}");
    value
}

/// The output of a command, whatever its exit code.
fn printed(place: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).current_dir(place).output().unwrap();
    assert!(!output.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A tree, an artifact and a wheel.
fn inputs() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let put = |path: &str, bytes: &[u8]| common::put(place.path().join(path), bytes);
    for root in ["tree", "x_lib_gfx90X/stage"] {
        put(&format!("{root}/lib/libx.so"), &fixture("plain.so"));
        put(&format!("{root}/lib/rocblas/library/TensileLibrary_gfx1100.co"), b"database");
    }
    put("tree/lib/libodd.so", &fixture("extra-pointer.so"));
    put("x_lib_gfx90X/artifact_manifest.txt", b"stage\n");
    let wheel = place.path().join("torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl");
    common::torch_wheel(&wheel);
    fs::rename(wheel, place.path().join("torch.whl")).unwrap();
    place
}

#[test]
fn commands_print_what_the_schemas_say() {
    let place = inputs();
    let printed = |arguments: &[&str]| printed(place.path(), arguments);
    let tree = check("inspect", &printed(&["inspect", "--json", "tree"]));
    assert_eq!(tree["warnings"].as_array().unwrap().len(), 1);
    check("inspect", &printed(&["inspect", "--json", "torch.whl"]));
    for input in ["tree", "torch.whl"] {
        let judged = check("inspect", &printed(&["inspect", "--json", "--require", "gfx90a,gfx1151", input]));
        let count = |list: &str| judged["coverage"][list].as_array().unwrap().len();
        assert!(["failures", "libraries", "databases"].map(count).iter().all(|&count| count > 0), "{judged}");
    }
    let listed = check("ls", &printed(&["ls", "--json", "torch.whl", "wheels"]));
    assert_eq!(listed["entries"][0]["size"], Value::Null);
    let wheel = check("inspect", &printed(&["inspect", "--json", "--sizes", "torch.whl"]));
    assert!(wheel["host_wheels"][0]["size"].as_u64().unwrap() > 0);
    let page = printed(&["inspect", "--html", "-", "torch.whl"]);
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let mut data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    data.as_object_mut().unwrap().retain(|name, _| ["json_version", "details", "folded"].contains(&name.as_str()));
    check("page", &data.to_string());
    check("inspect-artifacts", &printed(&["inspect", "--json", "x_lib_gfx90X"]));
    fs::copy(place.path().join("torch.whl"), place.path().join("again.whl")).unwrap();
    let wheels = check("inspect-wheels", &printed(&["inspect", "--json", "torch.whl", "again.whl"]));
    assert_eq!(
        (wheels["wheels"].as_array().unwrap().len(), &wheels["wheels"][0]["is_whole"]),
        (2, &Value::Bool(false))
    );
    for (scheme, field) in [("zstd", "zstd_offset"), ("none", "blobs")] {
        Command::new(env!("CARGO_BIN_EXE_kpackfs"))
            .args(["split", "tree", "-o", scheme, "--compression", scheme])
            .current_dir(place.path())
            .output()
            .unwrap();
        let list = check(
            "kpack-list",
            &printed(&["kpack", "list", "--json", &format!("{scheme}/gfx90a/.kpack/rocm_gfx90a.kpack")]),
        );
        assert!(list[field] != Value::Null, "{list}");
    }
    let written = check("written", &printed(&["split", "--json", "tree", "-o", "written"]));
    assert!(!written["pieces"].as_array().unwrap().is_empty() && written["next"].is_string(), "{written}");
    let indexes = place.path().join("cache");
    let cache = ["--cache-dir", indexes.to_str().unwrap()];
    let listed = || check("cache-list", &printed(&[&["cache", "list", "--json"], &cache[..]].concat()));
    assert_eq!(listed()["indexes"].as_array().unwrap().len(), 0);
    printed(&[&["inspect", "tree"], &cache[..]].concat());
    assert_eq!(listed()["indexes"][0]["usable"], true);
    check("split", &fs::read_to_string(place.path().join("zstd/.kpackfs/split.json")).unwrap());
    for part in ["host", "gfx1100"] {
        let manifest = fs::read_to_string(place.path().join(format!("zstd/.kpackfs/manifests/{part}.json"))).unwrap();
        let manifest = check("manifest", &manifest);
        assert!(manifest["part"] == part && !manifest["files"].as_array().unwrap().is_empty(), "{manifest}");
    }
    Command::new(env!("CARGO_BIN_EXE_kpackfs"))
        .args(["split", "x_lib_gfx90X", "-o", "restricted", "--gpu-targets", "gfx1030"])
        .current_dir(place.path())
        .output()
        .unwrap();
    check("split", &fs::read_to_string(place.path().join("restricted/x_lib_generic/.kpackfs/split.json")).unwrap());
    let mut packed = tar::Builder::new(Vec::new());
    packed.append_path_with_name("tests/fixtures/plain.so", "plain.so").unwrap();
    fs::create_dir(place.path().join("packed")).unwrap();
    fs::write(place.path().join("packed/x.tar"), packed.into_inner().unwrap()).unwrap();
    let why = check("why", &printed(&["why", "--json", "--target", "gfx90a", "packed"]));
    assert_eq!(why["lookups"][0]["form"], "embedded", "{why}");
    for target in ["gfx90a", "gfx942"] {
        let why = check("why", &printed(&["why", "--json", "--target", target, "zstd/host/lib/libx.so", "tree"]));
        assert!(why["lookups"].as_array().unwrap().len() >= 2, "{why}");
        // libodd.so has a pointer that nothing explains. This does not hide what is known about other files.
        assert!(why["unread"][0].as_str().unwrap().contains("libodd.so"), "{why}");
        // The host part alone has no archives.
        assert_eq!((&why["found"], why["lookups"][0]["cause"].is_null()), (&Value::Bool(false), false), "{why}");
    }
    // There is no library for its needs, and no code for the second GPU.
    let collected = check(
        "collect",
        &printed(&["collect", "tree", "--from", "tree", "--gpu-targets", "gfx90a,gfx803", "-o", "collected", "--json"]),
    );
    assert!(!collected["missing"].as_array().unwrap().is_empty() && !collected["code"].as_array().unwrap().is_empty());
    let compared = check("diff", &printed(&["diff", "--json", "--fail-above", "0", "tree", "torch.whl"]));
    assert!(!compared["gate"]["exceeded"].as_array().unwrap().is_empty() && compared["metadata"].is_null());
    check("diff", &printed(&["diff", "--json", "torch.whl", "torch.whl"]));
    // libodd.so is still fat.
    let verified = check("verify", &printed(&["verify", "--json", "zstd", "--against", "tree"]));
    assert!(!verified["findings"].as_array().unwrap().is_empty());
}

#[test]
fn mounts_say_what_the_schemas_say() {
    if !crate::common::can_mount() {
        return;
    }
    let place = inputs();
    fs::create_dir(place.path().join("mount")).unwrap();
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).current_dir(place.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for (input, report) in [("tree", "report"), ("torch.whl", "report"), ("x_lib_gfx90X", "inspect-artifacts")] {
        run(&["mount", input, "mount"]);
        let report = fs::read_to_string(place.path().join("mount/.kpackfs/report.json")).map(|text| (report, text));
        let status = printed(place.path(), &["status", "--json", "mount"]);
        let file = if input == "x_lib_gfx90X" { "split-x_lib.json" } else { "split.json" };
        let split = fs::read_to_string(place.path().join("mount/.kpackfs").join(file));
        run(&["umount", "--lazy", "mount"]);
        let (name, text) = report.unwrap();
        check(name, &text);
        check("status", &status);
        check("split", &split.unwrap());
    }
}

/// Each property of a schema, with its description.
fn properties(schema: &Value, found: &mut Vec<(String, String)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push((name.clone(), property["description"].as_str().unwrap_or_default().to_owned()));
    }
    match schema {
        Value::Object(members) => members.values().for_each(|member| properties(member, found)),
        Value::Array(elements) => elements.iter().for_each(|element| properties(element, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented() {
    let document = fs::read_to_string("docs/json.md").unwrap();
    for entry in fs::read_dir("docs/schema").unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(document.contains(&format!("(schema/{file})")), "{file}");
        let mut found = Vec::new();
        properties(&schema(file.strip_suffix(".json").unwrap()), &mut found);
        assert!(found.len() > 6, "{file}");
        for (name, meaning) in found {
            let is_row = |line: &str| {
                let mut cells = line.split(" | ");
                let field = cells.next().unwrap_or_default().trim_start_matches("| `").trim_end_matches('`');
                field.rsplit('.').next() == Some(&name) && line.ends_with(&format!(" | {meaning} |"))
            };
            assert!(!meaning.is_empty() && document.lines().any(is_row), "{file}: {name}: {meaning}");
        }
    }
}
