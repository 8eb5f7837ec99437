//! What `inspect` says about the layers of an image.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::common::{fixture, program, succeeds};
use crate::images::layout::{Form, Layer, Layout, image};

fn layers() -> Vec<Vec<u8>> {
    let lower = Layer::new().file("opt/a.so", &fixture("mixed.so")).file("opt/old.so", &fixture("plain.so")).done();
    let databases = Layer::new()
        .file("opt/rocblas/library/TensileLibrary_Type_gfx90a.co", &[1; 300])
        .file("opt/rocblas/library/TensileLibrary_Type_gfx1030.co", &[2; 100])
        .file("opt/.wh.old.so", b"")
        .done();
    vec![lower, databases, Layer::new().file("etc/hosts", b"localhost").done()]
}

fn inspect(layout: &Layout) -> std::process::Command {
    let mut command = program();
    command.arg("inspect").arg(layout.name("x")).arg("--no-cache");
    command
}

#[test]
fn layers_state_what_one_gpu_needs() {
    let place = tempdir().unwrap();
    let whole = image(&place.path().join("in"), Form::Gzip, &layers());
    let said = succeeds(inspect(&whole).arg("--json")).stdout;
    let report: Value = serde_json::from_slice(&said).unwrap();
    let schema: Value = serde_json::from_str(include_str!("../../../docs/schema/inspect.json")).unwrap();
    jsonschema::validate(&schema, &report).unwrap();
    let [lower, databases, text] = report["layers"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let (manifest, _) = whole.documents("x");
    assert_eq!(lower["digest"], manifest["layers"][0]["digest"]);
    assert_eq!(lower["blob_size"], manifest["layers"][0]["size"]);
    let (mixed, plain) = (fixture("mixed.so").len(), fixture("plain.so").len());
    assert_eq!(
        (lower["size"].as_u64(), lower["hidden_size"].as_u64()),
        (Some((mixed + plain) as u64), Some(plain as u64))
    );
    let binary = &report["binaries"][0];
    assert_eq!((&lower["device_size"], &lower["created_by"]), (&binary["code_size"], &Value::from("RUN")));
    assert_eq!((databases["size"].as_u64(), databases["device_size"].as_u64()), (Some(400), Some(400)));
    for (gpu, size) in [("gfx90a", 300), ("gfx1030", 100), ("gfx1100", 0)] {
        assert_eq!(databases["users"][gpu], size, "{gpu}");
        assert!(lower["users"][gpu].as_u64().unwrap() > 0, "{gpu}");
    }
    assert_eq!(text["device_size"], 0);
    let said = String::from_utf8(succeeds(&mut inspect(&whole)).stdout).unwrap();
    assert!(said.contains("one GPU can do without"), "{said}");
    let page = place.path().join("page.html");
    succeeds(inspect(&whole).arg("--html").arg(&page));
    assert!(fs::read_to_string(&page).unwrap().contains("Layers of the image"));
    // Other inputs have none.
    let tree = program().args(["inspect", "tests/fixtures", "--json", "--no-cache"]).output().unwrap().stdout;
    assert_eq!(serde_json::from_slice::<Value>(&tree).unwrap().get("layers"), None);
}
