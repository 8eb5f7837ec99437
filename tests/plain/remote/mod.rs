//! Wheels on a server: the same answers as about files, few requests, and errors that name what a server does wrong.

mod access;
mod answers;
mod faults;
mod requests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::common::mounts::wheel;
use crate::common::server::{Asked, Reply, Server};
use crate::common::{PATIENCE, program};

/// A wheel of 6 MB, with deflated libraries, and large members that are deflated and stored.
fn demo() -> &'static PathBuf {
    static MADE: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let make = || {
        let place = tempfile::tempdir().unwrap();
        let wheel = wheel(place.path());
        (place, wheel)
    };
    &MADE.get_or_init(make).1
}

/// Exit code, stdout and stderr.
type Answer = (Option<i32>, String, String);

const NAME: &str = "demo-1.0-py3-none-any.whl";

fn inspect(input: &str, options: &[&str]) -> Command {
    command(&[&["inspect", input], options].concat())
}

fn command(arguments: &[&str]) -> Command {
    let mut command = program();
    let home = demo().parent().unwrap();
    command.args(arguments).arg("--allow-http").current_dir(home).env("HOME", home);
    // A server of these tests may be slow, and is not silent but where that is tested.
    command.env("KPACKFS_SILENCE", PATIENCE.as_millis().to_string()).env("KPACKFS_PAUSE", "3");
    command.env("KPACKFS_CACHE_DIR", home.join("cache")).env_remove("KPACKFS_TOKEN");
    command
}

/// The milliseconds that are waited for a server which stays silent.
const SILENCE: &str = "300";

fn said(output: &Output) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What is said about the wheel on a server, and its requests.
fn ask(behaviour: impl Fn(&Asked) -> Reply + Send + Sync + 'static, options: &[&str]) -> (Answer, Vec<Asked>) {
    ask_for(&PATIENCE.as_millis().to_string(), behaviour, options)
}

/// The same if no more than so many milliseconds are waited for a server.
fn ask_for(
    silence: &str,
    behaviour: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    options: &[&str],
) -> (Answer, Vec<Asked>) {
    let server = Server::start(fs::read(demo()).unwrap(), behaviour);
    let output = inspect(&server.url(NAME), options).env("KPACKFS_SILENCE", silence).output().unwrap();
    (said(&output), server.asked())
}

/// What is said about the wheel as a file.
fn local(options: &[&str]) -> Answer {
    let output = inspect(demo().to_str().unwrap(), options).arg("--no-cache").output().unwrap();
    said(&output)
}

/// Fails with what was said on stderr, since reports would fill the screen.
#[track_caller]
fn same(found: &Answer, expected: &Answer, what: &str) {
    assert!(found == expected, "{what}: {:?} {} instead of {:?} {}", found.0, found.2, expected.0, expected.2);
}

/// The answer to a question about `FILE`, which is at `input`.
fn say_of(input: &str, question: &[&str]) -> Answer {
    let words: Vec<_> = question.iter().map(|word| if *word == "FILE" { input } else { word }).collect();
    let (code, out, err) = said(&command(&words).output().unwrap());
    (code, out.replace(input, "FILE"), err.replace(input, "FILE"))
}

/// Compares the answer about a wheel on a server with that about the file.
#[track_caller]
fn says_as_of(file: &Path, url: &str, question: &[&str], code: i32) {
    let found = say_of(url, question);
    assert_eq!(found.0, Some(code), "{question:?}: {} {}", found.1, found.2);
    same(&found, &say_of(file.to_str().unwrap(), question), &format!("{question:?}"));
}
