//! Pages of made-up wheels.

use std::path::Path;

use serde_json::{Value, json};

use super::{IndexedWheel, PackageIndex, WheelSums};
use crate::source::EntryPath;
use crate::wheel::{Metadata, WheelName};

fn wheel(file: &str, requires_python: &str) -> IndexedWheel {
    let name = WheelName::parse(file).unwrap();
    let (distribution, version) = (&name.distribution, &name.version);
    let text = format!(
        "Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\nRequires-Python: {requires_python}\n"
    );
    let metadata = Metadata::parse(text.into_bytes(), &EntryPath::new(b"METADATA").unwrap()).unwrap();
    IndexedWheel::new(name, &metadata, Path::new(file))
}

/// A wheel with these extras, made of another one.
fn made(file: &str, extras: &[&str]) -> IndexedWheel {
    let name = WheelName::parse(file).unwrap();
    let extras: Vec<_> = extras.iter().map(|extra| format!("Provides-Extra: {extra}\n")).collect();
    let (distribution, version, extras) = (&name.distribution, &name.version, extras.concat());
    let text = format!("Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{extras}");
    let metadata = Metadata::parse(text.into_bytes(), &EntryPath::new(b"METADATA").unwrap()).unwrap();
    IndexedWheel::new(name, &metadata, Path::new("in/fat.whl"))
}

#[test]
fn a_message_about_two_wheels_says_which_is_which() {
    let (name, whole) = ("amd_foo_device_gfx90a-1-py3-none-any.whl", "given/amd.foo_device_gfx90a-1-py3-none-any.whl");
    let mut given = wheel("amd.foo_device_gfx90a-1-py3-none-any.whl", "");
    given.input = whole.into();
    let both = [made(name, &[]), given];
    let [first, second] = [format!("{name} (made of in/fat.whl)"), whole.to_owned()];
    let error = |wheels: [IndexedWheel; 2]| PackageIndex::new(wheels).unwrap_err().to_string();
    assert!(error(both.clone()).starts_with(&format!("{first} and {second}: an index can have one")));
    let [made, given] = both;
    assert!(error([given, made]).starts_with(&format!("{second} and {first}: an index can have one")));
}

#[test]
fn wheels_of_one_version_with_other_extras_are_named() {
    let warnings = |wheels: &[(&str, &[&str])]| {
        let index = PackageIndex::new(wheels.iter().map(|(file, extras)| made(file, extras))).unwrap();
        index.warnings().collect::<Vec<_>>()
    };
    let [linux, windows] = ["a-1.0-py3-none-linux_x86_64.whl", "a-1.0.0-py3-none-win_amd64.whl"];
    let of_a = warnings(&[
        (linux, &["all", "device-gfx90a"]),
        (windows, &["all", "device_gfx1100"]),
        ("b-1.0-py3-none-any.whl", &[]),
    ]);
    let [warning] = &*of_a else { panic!("{of_a:?}") };
    assert!(
        warning.starts_with("a 1.0: only some of its wheels have the extras device-gfx1100 and device-gfx90a;"),
        "{warning}"
    );
    let other_version = "a-2.0-py3-none-win_amd64.whl";
    for same in [[(linux, &["x", "y-z"][..]), (windows, &["y_z", "X"])], [(linux, &["x"]), (other_version, &["y"])]] {
        assert_eq!(warnings(&same), [""; 0]);
    }
}

fn page(index: &PackageIndex, path: &str) -> String {
    let (_, text) = index.pages().into_iter().find(|(it, _)| it.as_bytes() == path.as_bytes()).unwrap();
    text
}

#[test]
fn a_page_has_what_installers_need_to_choose() {
    let mut known = wheel("Foo.Bar-1.0+rocm7.1-py3-none-any.whl", ">=3.9,<4");
    known.sums = Some(WheelSums { size: 17, sha256: [0xab; 32] });
    known.yanked = Some("<b>\"wrong\"</b>".to_owned());
    let digest = "ab".repeat(32);
    let metadata = known.metadata_sha256();
    let index = PackageIndex::new([known]).unwrap();

    let html = page(&index, "foo-bar/index.html");
    assert!(html.contains(&format!("href=\"Foo.Bar-1.0%2Brocm7.1-py3-none-any.whl#sha256={digest}\"")), "{html}");
    assert!(html.contains("data-requires-python=\"&gt;=3.9,&lt;4\""), "{html}");
    assert!(html.contains("data-yanked=\"&lt;b&gt;&quot;wrong&quot;&lt;/b&gt;\""), "{html}");
    assert!(html.contains(&format!("data-core-metadata=\"sha256={metadata}\"")), "{html}");
    assert!(html.contains(">Foo.Bar-1.0+rocm7.1-py3-none-any.whl</a>"), "{html}");

    let parsed: Value = serde_json::from_str(&page(&index, "foo-bar/index.json")).unwrap();
    let file = json!({
        "filename": "Foo.Bar-1.0+rocm7.1-py3-none-any.whl",
        "url": "Foo.Bar-1.0%2Brocm7.1-py3-none-any.whl",
        "hashes": {"sha256": digest},
        "requires-python": ">=3.9,<4",
        "size": 17,
        "core-metadata": {"sha256": metadata},
        "yanked": "<b>\"wrong\"</b>",
    });
    let expected =
        json!({"meta": {"api-version": "1.1"}, "name": "foo-bar", "versions": ["1.0+rocm7.1"], "files": [file]});
    assert_eq!(parsed, expected);
    let parsed: Value = serde_json::from_str(&page(&index, "index.json")).unwrap();
    assert_eq!(parsed, json!({"meta": {"api-version": "1.1"}, "projects": [{"name": "foo-bar"}]}));
}

#[test]
fn without_sizes_pages_are_of_version_1_0() {
    let mut known = wheel("a-1-py3-none-any.whl", ">=3");
    known.sums = Some(WheelSums { size: 1, sha256: [0; 32] });
    let index = PackageIndex::new([known, wheel("a-2-py3-none-any.whl", ">=3"), wheel("b-1-py3-none-any.whl", "")]);
    let index = index.unwrap();
    let parsed: Value = serde_json::from_str(&page(&index, "a/index.json")).unwrap();
    assert_eq!(parsed["meta"]["api-version"], "1.0");
    assert_eq!((parsed.get("versions"), parsed["files"][0].get("size")), (None, None));
    assert_eq!(parsed["files"][1]["hashes"], json!({}));
    assert!(page(&index, "a/index.html").contains("name=\"pypi:repository-version\" content=\"1.0\""));
    assert!(page(&index, "index.html").contains("<a href=\"a/\">a</a>"));
}

#[test]
fn wheels_that_installers_cannot_tell_apart_are_refused() {
    for (first, second) in [
        ("Foo-1-py3-none-any.whl", "foo-1-py3-none-any.whl"),
        ("foo_bar-1-py3-none-any.whl", "foo.bar-1-py3-none-any.whl"),
        ("a-1.0-py3-none-any.whl", "a-1.0.0-py3-none-any.whl"),
        ("a-1.0rc1-py3-none-any.whl", "a-1.0.RC1-py3-none-any.whl"),
        ("a-1+X.y-py3-none-any.whl", "a-1+x_y-py3-none-any.whl"),
        ("a-1-1_b-py3-none-any.whl", "a-1-01_b-py3-none-any.whl"),
        ("a-1-py2.py3-none-any.whl", "a-1-py3.py2-none-any.whl"),
    ] {
        let error = PackageIndex::new([wheel(first, ""), wheel(second, "")]).unwrap_err().to_string();
        assert!(error.contains(first) && error.contains(second), "{error}");
    }
    for (first, second) in [
        ("a-1-py3-none-any.whl", "a-1-1-py3-none-any.whl"),
        ("a-1-1-py3-none-any.whl", "a-1-1a-py3-none-any.whl"),
        ("a-1-py3-none-any.whl", "a-1+x-py3-none-any.whl"),
        ("a-1-cp311-cp311-any.whl", "a-1-cp312-cp312-any.whl"),
        ("a-1-py3-none-any.whl", "a-1-py3-none-any-rocm.whl"),
    ] {
        assert!(PackageIndex::new([wheel(first, ""), wheel(second, "")]).is_ok(), "{first} {second}");
    }
}

#[test]
fn a_wheel_and_its_metadata_are_in_the_directory_of_the_project() {
    let wheel = wheel("Foo_Bar-1-py3-none-any.whl", ">=3");
    assert_eq!(wheel.path().to_text(), "foo-bar/Foo_Bar-1-py3-none-any.whl");
    assert_eq!(wheel.metadata_path().to_text(), "foo-bar/Foo_Bar-1-py3-none-any.whl.metadata");
}
