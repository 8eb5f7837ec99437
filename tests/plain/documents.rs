//! What documents name must exist: tests in SEMANTICS and FAULTS, messages in TROUBLESHOOTING. What exists must be named:
//! suites in RELEASE.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::links::dead_links;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new("docs").join(name)).unwrap()
}

/// The texts of all Rust files below some directories and files.
fn sources(places: impl IntoIterator<Item = PathBuf>) -> String {
    let mut places: Vec<_> = places.into_iter().collect();
    let mut text = String::new();
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()));
        } else if place.extension().is_some_and(|extension| extension == "rs") && place.is_file() {
            text += &fs::read_to_string(place).unwrap();
        }
    }
    text
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a text looks like the name of a test in a document.
fn is_test(name: &str) -> bool {
    name.contains("::") && name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_:0123456789".contains(&byte))
}

/// Whether a suite, or a file of `src`, has a test.
fn exists(name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap();
    let path = module.replace("::", "/");
    let places = match path.strip_prefix("lib/") {
        Some(path) => vec![Path::new("src").join(path)],
        None => ["tests/plain", "tests/mounts", "tests"].map(|program| Path::new(program).join(&path)).into(),
    };
    let files = |place: PathBuf| [place.with_extension("rs"), place.join("mod.rs"), place.join("main.rs")];
    sources(places.into_iter().flat_map(files)).contains(&format!("fn {function}("))
}

#[test]
fn tests_that_documents_name_exist() {
    for name in ["SEMANTICS.md", "FAULTS.md"] {
        let text = document(name);
        let tests: Vec<_> = quoted(&text).filter(|quoted| is_test(quoted)).collect();
        assert!(tests.len() > 20, "{name}: {tests:?}");
        let missing: Vec<_> = tests.into_iter().filter(|test| !exists(test)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{name}");
        // In a table with a column of tests, each row names a test.
        let mut shows = false;
        for line in text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-")) {
            let last = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
            match last.trim() {
                "shown by" | "test" => shows = true,
                "value" | "meaning" => shows = false,
                last => assert!(!shows || quoted(last).any(is_test), "{name}: {line}"),
            }
        }
    }
}

#[test]
fn every_fault_test_has_its_row() {
    let faults = document("FAULTS.md");
    for module in ["cache", "input", "limits", "readers"] {
        let text = fs::read_to_string(format!("tests/mounts/faults/{module}.rs")).unwrap();
        for test in text.split("#[test]\nfn ").skip(1) {
            let name = format!("`faults::{module}::{}`", test.split('(').next().unwrap());
            assert!(faults.contains(&name), "{name}");
        }
    }
}

#[test]
fn messages_that_documents_explain_are_those_of_the_program() {
    let text = document("TROUBLESHOOTING.md");
    let code = sources([PathBuf::from("src")]);
    // Strings in code may continue on the next line, and escape their quotes.
    let code = code.split("\\\n").map(str::trim_start).collect::<String>();
    let known = ["os error 5", "Bus error", "stat", "ls -l", "Read-only file system"];
    let mut explained = 0;
    for heading in text.lines().filter_map(|line| line.strip_prefix("### ")) {
        for message in quoted(heading).filter(|message| !known.contains(message)) {
            for piece in message.split('…').map(|piece| piece.trim_matches([':', ' '])) {
                assert!(code.contains(piece), "{message}: {piece:?}");
            }
            explained += 1;
        }
    }
    assert!(explained > 20);
}

fn suites() -> Vec<String> {
    let scripts = fs::read_dir("scripts").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let suites: Vec<_> = scripts.filter_map(|name| name.strip_prefix("check-").map(str::to_owned)).collect();
    assert!(suites.len() > 20);
    suites
}

#[test]
fn every_suite_is_described_and_part_of_a_release() {
    let (described, release) = (fs::read_to_string("CONTRIBUTING.md").unwrap(), document("RELEASE.md"));
    let steps = release.split("```sh\n").skip(1).filter_map(|step| step.split("```").next());
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let run: HashSet<_> = steps.flat_map(|step| step.split(|letter| !is_name(letter))).collect();
    let mut suites = suites();
    suites.retain(|suite| {
        let is_run = run.contains(suite.as_str()) || run.contains(format!("check-{suite}").as_str());
        !is_run || !described.contains(&format!("`scripts/check-{suite}"))
    });
    assert_eq!(suites, Vec::<String>::new());
}

/// What a suite has to be given: its usage without what is in brackets.
fn needed_by(suite: &str) -> String {
    let script = fs::read_to_string(format!("scripts/check-{suite}")).unwrap();
    let usage = script.split(&format!("usage: scripts/check-{suite}")).nth(1).unwrap();
    let mut depth = 0;
    let mut is_needed = |letter: char| {
        depth += i32::from("[(".contains(letter)) - i32::from("])".contains(letter));
        depth == 0 && !"])… ".contains(letter)
    };
    usage.lines().next().unwrap().chars().filter(|&letter| is_needed(letter)).collect()
}

#[test]
fn suites_of_a_release_need_no_arguments_and_run_its_program() {
    let release = document("RELEASE.md");
    let loops = release.split("for suite in ").skip(1).filter_map(|step| step.split(';').next());
    let mut called: Vec<_> = loops.flat_map(str::split_whitespace).collect();
    assert!(called.len() > 20);
    called.retain(|suite| !needed_by(suite).is_empty());
    assert_eq!(called, Vec::<&str>::new());
    for suite in suites() {
        let script = fs::read_to_string(format!("scripts/check-{suite}")).unwrap();
        assert!(!script.contains("target/debug"), "{suite} runs another program than that of KPACKFS");
    }
}

#[test]
fn every_link_leads_somewhere() {
    assert_eq!(dead_links(Path::new(".")), Vec::<String>::new());
}

#[test]
fn the_readme_is_short() {
    let words = fs::read_to_string("README.md").unwrap().split_whitespace().count();
    assert!((300..=900).contains(&words), "{words} words");
}
