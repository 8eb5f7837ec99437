//! The answers about wheels on a server are those about files.

use std::fs;

use super::{NAME, ask, demo, inspect, local, said, same, say_of, says_as_of};
use crate::common::server::{Reply, Server};
use crate::common::{program, succeeds};

#[test]
fn a_wheel_on_a_server_has_the_answers_of_a_file_by_few_requests() {
    let size = usize::try_from(demo().metadata().unwrap().len()).unwrap();
    let all: [&[&str]; 6] = [
        &["--json"],
        &["--json", "--sizes"],
        &["--json", "--require", "gfx942"],
        &["--require", "gfx90a"],
        &["--markdown"],
        &["--json", "--memory", "16"],
    ];
    for options in all {
        let (found, asked) = ask(|_| Reply::Right, options);
        same(&found, &local(options), &format!("{options:?}"));
        let sent: usize = asked.iter().map(|it| it.sent).sum();
        assert!(asked.iter().all(|it| it.header("accept-encoding") == Some("identity")));
        assert!(asked.iter().skip(1).all(|it| it.header("if-match") == Some("\"one\"")));
        // `--sizes` reads all of it.
        if !options.contains(&"--sizes") {
            assert!(asked.len() <= 6 && sent < size / 2, "{options:?}: {} requests, {sent} bytes", asked.len());
        }
    }
    assert!(!demo().with_file_name("cache").exists(), "nothing is kept on disk");
}

#[test]
fn why_and_verify_say_of_a_wheel_on_a_server_what_they_say_of_a_file() {
    let split = tempfile::tempdir().unwrap();
    succeeds(program().args(["split", "--format", "wheel"]).arg(demo()).arg("-o").arg(split.path()));
    // What is next to a file says more about it.
    let alone = tempfile::tempdir().unwrap();
    let host = alone.path().join(NAME);
    fs::copy(split.path().join(NAME), &host).unwrap();
    let target = ["--target", "gfx90a", "--json"];
    for (file, options, code) in [
        (demo(), [&["why", "FILE"][..], &target].concat(), 0),
        (demo(), vec!["why", "FILE", "--target", "gfx1201", "--all"], 1),
        (&host, [&["why", "FILE"][..], &target].concat(), 1),
        (demo(), vec!["verify", "FILE", "--json"], 2),
        (&host, vec!["verify", "FILE", "--json"], 1),
        (demo(), vec!["verify", split.path().to_str().unwrap(), "--json", "--against", "FILE"], 0),
    ] {
        let server = Server::start(fs::read(file).unwrap(), |_| Reply::Right);
        says_as_of(file, &server.url(NAME), &options, code);
        let dies =
            Server::start(fs::read(file).unwrap(), |it| if it.number == 0 { Reply::Right } else { Reply::Close });
        let (code, out, err) = say_of(&dies.url(NAME), &options);
        let text = format!("{out}{err}");
        assert!(code == Some(5) && text.contains("before the end of an answer"), "{options:?}: {code:?} {text}");
    }
}

#[test]
fn what_is_no_wheel_on_a_server_is_named() {
    for (bytes, code, words) in [
        (vec![0; 200_000], 5, "no wheel despite its name"),
        (b"!<arch>\ndebian-binary   ".repeat(9_000), 5, "a Debian package"),
        (b"PK\x03\x04".repeat(50_000), 1, "it is truncated or damaged"),
        (Vec::new(), 5, "the server"),
    ] {
        let server = Server::start(bytes, |_| Reply::Right);
        let (found, out, err) = said(&inspect(&server.url(NAME), &[]).output().unwrap());
        assert_eq!((found, &*out), (Some(code), ""), "{err}");
        assert!(err.contains(words) && err.contains(&server.url(NAME)), "{err}");
    }
}
