//! The page of `inspect --html` agrees with the JSON, and nothing in the page runs or loads anything else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{self, fixture, program, run};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::Digest;
use tempfile::TempDir;

fn kpackfs(place: &Path, arguments: &[&str]) -> String {
    run(program().args(arguments).current_dir(place))
}

fn put(place: &Path, path: &str, bytes: &[u8]) {
    common::put(place.join(path), bytes);
}

/// A tree, and a wheel.
fn inputs() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (path, file) in [("a/lib/libx.so", "plain.so"), ("a/lib/liby.so", "mixed.so"), ("b/libz.so", "ccob-mixed.so")] {
        put(place.path(), &format!("tree/{path}"), &fixture(file));
    }
    put(place.path(), "tree/a/lib/rocblas/library/TensileLibrary_gfx1100.co", b"database");
    put(place.path(), "tree/a/lib/rocblas/library/TensileLibrary_gfx90a.co", b"another database");
    put(place.path(), "tree/notes.txt", b"notes");
    let wheel = place.path().join("torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl");
    common::torch_wheel(&wheel);
    fs::rename(wheel, place.path().join("torch.whl")).unwrap();
    place
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start}"));
    rest.split_once(end).unwrap().0
}

/// The JSON in the page.
fn data(page: &str) -> Value {
    serde_json::from_str(between(page, r#"<script type="application/json" id="data">"#, "</script>")).unwrap()
}

/// The numbers in each row of a table, by the row's name. `None` for a cell without a number.
fn table(page: &str, id: &str) -> BTreeMap<String, Vec<Option<u64>>> {
    let body = between(between(page, &format!("<table id=\"{id}\">"), "</table>"), "<tbody>", "</tbody>");
    let number = |cell: &str| Some(cell.split_once("<data value=\"")?.1.split_once('"')?.0.parse().unwrap());
    let row = |row: &str| {
        let name = between(row, "<th scope=\"row\">", "</th>").to_owned();
        (name, row.split("<td").skip(1).map(number).collect())
    };
    body.split("<tr").skip(1).map(row).collect()
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().unwrap().iter()
}

fn sum<'a>(values: impl IntoIterator<Item = &'a Value>, field: &str) -> u64 {
    values.into_iter().map(|value| value[field].as_u64().unwrap()).sum()
}

/// Compares each table with the JSON of `inspect`.
fn compare(page: &str, json: &Value) {
    let tables = |id: &str| table(page, id);
    let binaries = json["binaries"].as_array().unwrap();
    let libraries = tables("libraries");
    assert_eq!(libraries.len(), binaries.len());
    for binary in binaries {
        let number = |field: &str| binary[field].as_u64();
        let saved = Some(number("size").unwrap() - number("host_size").unwrap());
        let targets = Some(binary["targets"].as_array().unwrap().len() as u64);
        let [wrappers, objects, code] = ["wrappers", "code_objects", "code_size"].map(number);
        let expected = vec![number("size"), number("host_size"), saved, None, wrappers, objects, code, targets];
        assert_eq!(libraries[binary["path"].as_str().unwrap()], expected);
    }
    let parts = tables("parts");
    assert_eq!(parts.len(), json["device"].as_object().unwrap().len());
    let compression = if json["parts"].to_string().contains("\"archive_size\":null") {
        BTreeMap::new()
    } else {
        tables("compression")
    };
    for (key, device) in object(&json["device"]) {
        let archives = device["archives"].as_array().unwrap();
        let [objects, code] = ["code_objects", "code_size"].map(|field| Some(sum(archives, field)));
        let [files, size] = ["database_files", "database_size"].map(|field| device[field].as_u64());
        let [archive, wheel] =
            [&json["parts"][key]["archive_size"], &json["parts"][key]["wheel"]["size"]].map(Value::as_u64);
        let count = Some(archives.len() as u64);
        assert_eq!(parts[key], [None, count, objects, code, archive, files, size, wheel], "{key}");
        if code > Some(0) && archive.is_some() {
            assert_eq!(compression[key][1..3], [code, archive]);
        }
    }
    let users = tables("users");
    assert_eq!(users.len(), json["users"].as_object().unwrap().len() + 1);
    assert_eq!(users["all (fat)"][1], json["input_wheel_size"].as_u64());
    assert_eq!(users["all (fat)"][4], json["input_size"].as_u64());
    let data = data(page);
    for (gpu, user) in object(&json["users"]) {
        let thin = &data["details"]["thin"][gpu];
        let [download, installed] =
            [user, thin].map(|sizes| ["download_size", "installed_size"].map(|field| sizes[field].as_u64()));
        assert_eq!(users[gpu], [None, download[0], None, installed[0], download[1], None, installed[1], None], "{gpu}");
    }
    let databases = tables("databases");
    for (library, database) in object(&json["databases"]) {
        let keys = Some(database["keys"].as_array().unwrap().len() as u64);
        assert_eq!(databases[library], [database["files"].as_u64(), database["size"].as_u64(), keys]);
    }
}

/// The details in the page are made from the same numbers, and add up to them.
fn add_up(page: &str, json: &Value) {
    let details = &data(page)["details"];
    let matrix = table(page, "matrix");
    for binary in json["binaries"].as_array().unwrap() {
        let path = binary["path"].as_str().unwrap();
        let code = &details["code"][path];
        let targets = || object(code).map(|(_, code)| code);
        assert_eq!(sum(targets(), "code_size"), binary["code_size"]);
        assert_eq!(sum(targets(), "code_objects"), binary["code_objects"]);
        assert_eq!(
            object(code).map(|(target, _)| target.as_str()).collect::<Vec<_>>(),
            *binary["targets"].as_array().unwrap()
        );
        assert_eq!(matrix[path][0], binary["code_size"].as_u64());
        let mut cells: Vec<_> = matrix[path].iter().skip(1).flatten().copied().collect();
        let mut expected: Vec<_> = targets().map(|code| code["code_size"].as_u64().unwrap()).collect();
        cells.sort_unstable();
        expected.sort_unstable();
        assert_eq!(cells, expected, "{path}");
    }
    for (library, database) in object(&json["databases"]) {
        let files: Vec<_> = object(&details["database_files"][library]).map(|(_, files)| files).collect();
        assert_eq!(sum(files.iter().copied(), "size"), database["size"]);
        assert_eq!(sum(files, "files"), database["files"]);
    }
    let packages = details["packages"].as_array().unwrap();
    assert_eq!(sum(packages, "size"), json["input_size"]);
    assert_eq!(sum(packages, "host_size"), json["host_size"]);
    let shown = table(page, "packages");
    for package in packages {
        let name = package["name"].as_str().filter(|name| *name != ".").unwrap_or("files in no directory");
        let databases = object(&package["databases"]).map(|(_, size)| size.as_u64().unwrap()).sum();
        let [files, size, host, device] =
            ["files", "size", "host_size", "device_size"].map(|field| package[field].as_u64());
        assert_eq!(shown[name], [files, size, host, device, Some(databases)]);
        assert_eq!(size.unwrap(), host.unwrap() + device.unwrap() + databases, "{name}");
    }
}

#[test]
fn every_number_is_that_of_the_json() {
    let place = inputs();
    for (input, sizes) in [("tree", false), ("tree", true), ("torch.whl", false), ("torch.whl", true)] {
        let sizes = if sizes { &["--sizes"][..] } else { &[] };
        let json: Value =
            serde_json::from_str(&kpackfs(place.path(), &[&["inspect", input, "--json"], sizes].concat())).unwrap();
        let page = kpackfs(place.path(), &[&["inspect", input, "--html", "-"], sizes].concat());
        let mut data = data(&page);
        data["binaries"].as_array_mut().unwrap().sort_by_key(|binary| binary["path"].as_str().unwrap().to_owned());
        for (field, value) in object(&json) {
            assert_eq!(data[field], *value, "{input}: {field}");
        }
        compare(&page, &json);
        add_up(&page, &json);
        let again = kpackfs(place.path(), &[&["inspect", input, "--html", "-"], sizes].concat());
        assert!(page == again, "{input}: the page is deterministic");
        // What was measured is in the cache now.
        let without = kpackfs(place.path(), &["inspect", input, "--html", "-"]);
        let uncached = kpackfs(place.path(), &["inspect", input, "--html", "-", "--no-cache"]);
        assert!(without == uncached, "{input}: the page does not depend on the cache");
    }
}

#[test]
fn an_estimate_for_thin_is_between_host_and_fat() {
    let place = inputs();
    let page = kpackfs(place.path(), &["inspect", "tree", "--html", "-"]);
    let data = data(&page);
    for (gpu, thin) in object(&data["details"]["thin"]) {
        let size = thin["installed_size"].as_u64().unwrap();
        assert!(size > data["host_size"].as_u64().unwrap() && size < data["input_size"].as_u64().unwrap(), "{gpu}");
        assert!(thin["download_size"].is_null(), "only wheels are downloaded");
    }
}

/// The source expression of an inline element with this text, as a content security policy has it.
fn digest(text: &str) -> String {
    let digest = sha2::Sha256::digest(text.as_bytes());
    format!("'sha256-{}'", Base64Display::new(&digest, &STANDARD))
}

#[test]
fn names_do_nothing() {
    let place = tempfile::tempdir().unwrap();
    let markup = "</script><script>alert(1)</script>";
    for name in
        [&format!("{markup}/<img src=x onerror=alert(2)>.so"), "a\"onload=\"x/\u{202e}gpj.so", "h/\u{1b}[2J'&amp;.so"]
    {
        put(place.path(), &format!("tree/{name}"), &fixture("plain.so"));
    }
    put(place.path(), "tree/]]>--><style>*{display:none}</style>/big.txt", &vec![b'x'; 100_000]);
    let page = kpackfs(place.path(), &["inspect", "tree", "--html", "-"]);
    let elements = |name: &str| page.matches(&format!("<{name}")).count();
    assert_eq!(
        (elements("script"), page.matches("</script").count(), elements("style"), elements("img")),
        (2, 2, 1, 0)
    );
    assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;"), "it is shown");
    assert!(page.contains("\\u{202e}gpj.so") && page.contains("\\u{1b}[2J'&amp;amp;.so"), "nothing is invisible");
    assert!(
        page.chars()
            .all(|letter| letter == '\n' || !letter.is_control() && !('\u{202a}'..='\u{202e}').contains(&letter))
    );
    let names: Vec<_> = data(&page)["binaries"].as_array().unwrap().iter().map(|it| it["path"].to_string()).collect();
    assert!(
        names.iter().any(|name| name.contains(markup.split('/').next().unwrap())),
        "the JSON has them as they are: {names:?}"
    );
}

#[test]
fn the_page_needs_nothing_else_and_may_do_little() {
    let place = inputs();
    let page = kpackfs(place.path(), &["inspect", "torch.whl", "--html", "-"]);
    for reference in
        ["http:", "https:", " src=", " href=", "url(", "@import", " style=", " onclick=", "eval(", "innerHTML"]
    {
        assert!(!page.contains(reference), "{reference}");
    }
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"").replace("&#39;", "'");
    let style = digest(between(&page, "<style>", "</style>"));
    let script = digest(between(&page, "<script>", "</script>"));
    let expected =
        format!("default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'");
    assert_eq!(policy, expected);
}

#[test]
fn many_libraries_make_no_large_page() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..250 {
        put(place.path(), &format!("tree/d{}/lib{number}.so", number % 70), &fixture("small.so"));
    }
    let json: Value = serde_json::from_str(&kpackfs(place.path(), &["inspect", "tree", "--json"])).unwrap();
    kpackfs(place.path(), &["inspect", "tree", "--html", "page.html"]);
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    let libraries = table(&page, "libraries");
    let folded = &libraries["50 smaller ones"];
    let binaries = json["binaries"].as_array().unwrap();
    assert_eq!((binaries.len(), libraries.len()), (250, 201));
    for (column, field) in [(0, "size"), (1, "host_size"), (5, "code_objects"), (6, "code_size")] {
        let all: u64 = libraries.values().filter_map(|row| row[column]).sum();
        assert_eq!(all, sum(binaries, field), "{field}");
    }
    assert_eq!(folded[0], Some(50 * fixture("small.so").len() as u64));
    let packages = table(&page, "packages");
    assert_eq!(packages.len(), 61);
    assert_eq!(packages.values().filter_map(|row| row[1]).sum::<u64>(), json["input_size"].as_u64().unwrap());
    assert!(page.len() < 600_000, "{}", page.len());
}

#[test]
fn one_output_is_for_one_thing() {
    let place = inputs();
    put(place.path(), "x_lib_gfx90X/artifact_manifest.txt", b"stage\n");
    put(place.path(), "x_lib_gfx90X/stage/lib/libx.so", &fixture("plain.so"));
    for (arguments, message) in [
        (&["inspect", "tree", "--html", "-", "--json"][..], "--html -: stdout is for the page then"),
        (&["inspect", "x_lib_gfx90X", "--html", "-", "--json"], "--html -: stdout is for the page then"),
        (&["inspect", "tree", "--html", "none/page.html"], "none/page.html: No such file"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(message), "{said}");
    }
    let both = kpackfs(place.path(), &["inspect", "tree", "--html", "page.html", "--json"]);
    assert!(both.starts_with('{') && place.path().join("page.html").exists());
}

#[test]
fn a_page_shows_artifacts_together() {
    let place = tempfile::tempdir().unwrap();
    for (component, library) in [("x_lib", "mixed.so"), ("y_lib", "features.so")] {
        let artifact = format!("builds/{component}_gfx90X");
        put(place.path(), &format!("{artifact}/artifact_manifest.txt"), b"stage\n");
        put(place.path(), &format!("{artifact}/stage/lib/lib.so"), &fixture(library));
        put(place.path(), &format!("{artifact}/stage/lib/rocblas/library/TensileLibrary_gfx1100.co"), b"database");
    }
    let json: Value = serde_json::from_str(&kpackfs(place.path(), &["inspect", "builds", "--json"])).unwrap();
    let artifacts = json["artifacts"].as_array().unwrap();
    for sizes in [&[][..], &["--sizes"]] {
        let page = kpackfs(place.path(), &[&["inspect", "builds", "--html", "-"], sizes].concat());
        let data = data(&page);
        for field in ["input_size", "host_size", "entries"] {
            assert_eq!(data[field], sum(artifacts, field), "{field}");
        }
        let paths: Vec<_> = table(&page, "libraries").into_keys().collect();
        assert_eq!(paths, ["x_lib_gfx90X/stage/lib/lib.so", "y_lib_gfx90X/stage/lib/lib.so"]);
        assert_eq!(table(&page, "packages").len(), 2);
        let parts = table(&page, "parts");
        for (key, part) in object(&data["device"]) {
            let of_key: Vec<_> = artifacts.iter().map(|it| &it["device"][key]).filter(|it| !it.is_null()).collect();
            let archives = || of_key.iter().flat_map(|part| part["archives"].as_array().unwrap());
            assert_eq!(sum(part["archives"].as_array().unwrap(), "code_size"), sum(archives(), "code_size"), "{key}");
            assert_eq!(part["database_size"], sum(of_key.iter().copied(), "database_size"), "{key}");
            assert_eq!(parts[key][1], Some(archives().count() as u64), "{key}");
            assert_eq!(parts[key][4].is_some(), !sizes.is_empty(), "{key}");
        }
        add_up(&page, &data);
    }
    let said = kpackfs(place.path(), &["inspect", "builds", "--html", "page.html"]);
    assert!(said.is_empty() && place.path().join("page.html").exists());
}

#[test]
fn folded_targets_say_into_what() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "tree/lib/libx.so", &fixture("features.so"));
    put(place.path(), "tree/lib/liby.so", &fixture("generic.so"));
    let page = kpackfs(place.path(), &["inspect", "tree", "--html", "-"]);
    let matrix = between(&page, "<table id=\"matrix\">", "</thead>");
    for (target, part) in [("gfx90a:xnack+", "gfx90a"), ("gfx90a:xnack-", "gfx90a")] {
        assert!(matrix.contains(&format!("{target}<small class=\"part\">in {part}</small>")), "{matrix}");
        assert!(page.contains(&format!("{target} in {part}")));
    }
    assert!(matrix.contains(">gfx90a</th>"), "it is no part of another: {matrix}");
}

/// A wheel with `members` members, whose names try every kind of injection.
fn hostile_wheel(place: &Path, members: usize) {
    let script = r#"
import sys, zipfile
path, number = sys.argv[1], int(sys.argv[2])
odd = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "a\u202egpj.exe", "\u2066x\u2069", "&lt;b&gt;", "]]>-->",
       "a\"onload=\"x", "\u200b", "x" * 200, "'); alert(3); ('", "{{7*7}}", "\ufeffy"]
with zipfile.ZipFile(path, "w") as wheel:
    for name, text in (("METADATA", "Metadata-Version: 2.1\nName: hostile\nVersion: 1\n"), ("RECORD", ""),
                       ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")):
        wheel.writestr("hostile-1.dist-info/" + name, text)
    with open("tests/fixtures/plain.so", "rb") as library:
        code = library.read()
    for at in range(number):
        name = f"{odd[at % len(odd)].replace('/', chr(0x2215))}{at % 5000}/{odd[at % 7].replace('/', chr(0x2215))}{at}"
        wheel.writestr(name + ".so", code if at % (number // 300) == 0 else b"x")
"#;
    let wheel = place.join("hostile-1-py3-none-any.whl");
    let made = Command::new("python3").args(["-c", script]).arg(&wheel).arg(members.to_string()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_wheel_of_hostile_names_makes_a_small_page_in_which_they_do_nothing() {
    let place = tempfile::tempdir().unwrap();
    hostile_wheel(place.path(), 100_000);
    kpackfs(place.path(), &["inspect", "hostile-1-py3-none-any.whl", "--html", "page.html"]);
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.len() <= 2 << 20, "{} bytes", page.len());
    assert_eq!(
        (page.matches("<script").count(), page.matches("<style").count(), page.matches("<img").count()),
        (2, 1, 0)
    );
    assert!(page.chars().all(|letter| letter == '\n' || !letter.is_control() && !is_invisible(letter)));
    let data = data(&page);
    assert_eq!(data["folded"]["binaries"].as_u64().unwrap() + 200, 301, "what is not listed is counted");
    assert!(sum(data["details"]["packages"].as_array().unwrap(), "files") == 100_003);
}

fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
