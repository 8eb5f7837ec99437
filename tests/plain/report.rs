//! The page of `inspect --html` agrees with the JSON, and nothing in the page runs or loads anything else.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::{fixture, program, put_in as put, run, torch_wheel};
use crate::pages::{between, data, table};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::Digest;
use tempfile::TempDir;

fn kpackfs(place: &Path, arguments: &[&str]) -> String {
    run(program().args(arguments).current_dir(place))
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
    torch_wheel(&wheel);
    fs::rename(wheel, place.path().join("torch.whl")).unwrap();
    place
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().unwrap().iter()
}

/// Texts with blanks between them, as cells have them.
fn joined(texts: &Value) -> String {
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(" ")
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
        let [wrappers, objects, code] = ["wrappers", "code_objects", "code_size"].map(number);
        let row = &libraries[binary["path"].as_str().unwrap()];
        let expected = [number("size"), number("host_size"), saved, wrappers, objects, code];
        assert_eq!(row.numbers(["original", "stripped", "saved", "wrappers", "code objects", "code"]), expected);
        assert_eq!(row.text("targets"), joined(&binary["targets"]));
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
        let databases = ["database_files", "database_size"].map(|field| device[field].as_u64().unwrap());
        let [archive, wheel] =
            [&json["parts"][key]["archive_size"], &json["parts"][key]["wheel"]["size"]].map(Value::as_u64);
        let count = Some(archives.len() as u64);
        let row = &parts[key];
        assert_eq!(row.text("level"), device["level"], "{key}");
        let columns = ["archives", "code objects", "code", "archive size", "wheel size"];
        assert_eq!(row.numbers(columns), [count, objects, code, archive, wheel], "{key}");
        // Without a database, there are no such columns.
        assert_eq!(row.numbers(["database files", "database size"]).map(Option::unwrap_or_default), databases, "{key}");
        if code > Some(0) && archive.is_some() {
            assert_eq!(compression[key].numbers(["code", "archives"]), [code, archive]);
        }
    }
    let users = tables("users");
    assert_eq!(users.len(), json["users"].as_object().unwrap().len() + 1);
    let fat = ["input_wheel_size", "input_size"].map(|field| json[field].as_u64());
    assert_eq!(users["all (fat)"].numbers(["download", "installed"]), fat);
    let data = data(page);
    for (gpu, user) in object(&json["users"]) {
        let thin = &data["details"]["thin"][gpu];
        let [split, thin] =
            [user, thin].map(|sizes| ["download_size", "installed_size"].map(|field| sizes[field].as_u64()));
        assert_eq!(users[gpu].numbers(["download", "installed"]), split, "{gpu}");
        assert_eq!(users[gpu].numbers(["thin download, estimated", "thin installed, estimated"]), thin, "{gpu}");
    }
    let databases = tables("databases");
    for (library, database) in object(&json["databases"]) {
        let row = &databases[library];
        assert_eq!(row.numbers(["files", "size"]), ["files", "size"].map(|field| database[field].as_u64()));
        assert_eq!(row.text("targets"), joined(&database["keys"]));
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
        assert_eq!(matrix[path].number("all"), binary["code_size"].as_u64());
        let targets_only = matrix[path].all_numbers().filter(|(column, _)| *column != "all");
        let mut cells: Vec<_> = targets_only.map(|(_, size)| size).collect();
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
        let columns = ["files", "size", "host part", "device code in binaries", "databases"];
        assert_eq!(shown[name].numbers(columns), [files, size, host, device, Some(databases)]);
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
    for (column, field) in
        [("original", "size"), ("stripped", "host_size"), ("code objects", "code_objects"), ("code", "code_size")]
    {
        let all: u64 = libraries.values().filter_map(|row| row.number(column)).sum();
        assert_eq!(all, sum(binaries, field), "{field}");
    }
    assert_eq!(folded.number("original"), Some(50 * fixture("small.so").len() as u64));
    let packages = table(&page, "packages");
    assert_eq!(packages.len(), 61);
    assert_eq!(
        packages.values().filter_map(|row| row.number("size")).sum::<u64>(),
        json["input_size"].as_u64().unwrap()
    );
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
fn a_page_replaces_another_one_unless_the_disk_is_full() {
    let place = inputs();
    let at = |name: &str| place.path().join(name);
    put(place.path(), "pages/real.html", b"the page that was there");
    for link in ["link.html", "pages/near.html"] {
        symlink(at("pages/real.html"), at(link)).unwrap();
    }
    symlink("pages/new.html", at("dangling.html")).unwrap();
    fs::set_permissions(at("pages/real.html"), Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(at("pages/real.html"), at("other-name.html")).unwrap();
    // A file may have 1,024 bytes, fewer than the page.
    let mut limited = Command::new("bash");
    limited.args(["-c", r#"ulimit -f 1; exec "$0" inspect tree --html link.html"#, env!("CARGO_BIN_EXE_kpackfs")]);
    let output = limited.current_dir(place.path()).env("KPACKFS_CACHE_DIR", "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("link.html: File too large"), "{said}");
    assert_eq!(fs::read(at("pages/real.html")).unwrap(), b"the page that was there");
    assert_eq!(fs::read_dir(at("pages")).unwrap().count(), 2);

    let expected = kpackfs(place.path(), &["inspect", "tree", "--html", "-"]);
    for (file, written) in [
        ("link.html", Some("pages/real.html")),
        ("pages/near.html", Some("pages/real.html")),
        ("./dangling.html", Some("pages/new.html")),
        ("page.html", Some("page.html")),
        ("/dev/null", None),
    ] {
        if let Some(written) = written.filter(|_| file != "./dangling.html") {
            fs::write(at(written), format!("{expected}, before")).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.args(["inspect", "tree", "--html", file, "--no-confinement"]).current_dir(place.path());
        command.env("KPACKFS_CACHE_DIR", "");
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(said.contains(&format!("wrote {file}, ")) && !said.contains(" 0 B"), "{said}");
        assert!(written.is_none_or(|written| fs::read_to_string(at(written)).unwrap() == expected), "{file}");
    }
    assert_eq!(fs::read_to_string(at("other-name.html")).unwrap(), expected);
    assert_eq!(at("pages/real.html").metadata().unwrap().mode() & 0o777, 0o600);
    assert!(at("link.html").is_symlink() && at("pages/near.html").is_symlink() && at("dangling.html").is_symlink());
    assert_eq!(fs::read_dir(at("pages")).unwrap().count(), 3);
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
            assert_eq!(parts[key].number("archives"), Some(archives().count() as u64), "{key}");
            assert_eq!(parts[key].number("archive size").is_some(), !sizes.is_empty(), "{key}");
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
    hostile_wheel(place.path(), 40_000);
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
    assert!(sum(data["details"]["packages"].as_array().unwrap(), "files") == 40_003);
}

fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Code in an archive stays there because of the archive, whatever leads to it in its file.
#[test]
fn code_in_an_archive_stays_because_of_that() {
    let place = tempfile::tempdir().unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    let (library, mut header) = (fixture("plain.so"), tar::Header::new_gnu());
    header.set_size(library.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, "lib/libx.so", &*library).unwrap();
    put(place.path(), "tree/data.tar", &archive.into_inner().unwrap());
    put(place.path(), "tree/libfat.so", &library);
    let said = kpackfs(place.path(), &["inspect", "tree"]);
    assert!(said.contains("in an archive: it is split if that is unpacked first"), "{said}");
    assert!(!said.contains("loaded by address"), "{said}");
}
