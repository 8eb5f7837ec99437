//! Secrets, http, and the commands that read URLs.

use std::fs;

use super::{NAME, demo, inspect, local, said, same};
use crate::common::program;
use crate::common::server::{Reply, Server};

#[test]
fn secrets_are_sent_to_their_host_and_said_to_nobody() {
    let home = tempfile::tempdir().unwrap();
    let netrc = home.path().join(".netrc");
    fs::write(&netrc, "machine 127.0.0.1 login user password secret-of-netrc\n").unwrap();
    let bytes = fs::read(demo()).unwrap();
    let server =
        Server::start(bytes, |it| if it.number == 0 { Reply::Right } else { Reply::Status(403, String::new()) });
    let url = server.url(&format!("{NAME}?signature=secret-of-query#sha256=secret-of-fragment"));
    let (code, out, err) =
        said(&inspect(&url, &["--json"]).env("HOME", home.path()).env("RUST_LOG", "trace").output().unwrap());
    assert!(code == Some(5) && err.contains(&server.url(NAME)) && !(out + &err).contains("secret"), "{err}");
    let asked = server.asked();
    let expected = "Basic dXNlcjpzZWNyZXQtb2YtbmV0cmM=";
    assert!(
        asked
            .iter()
            .all(|it| it.path.ends_with("?signature=secret-of-query") && it.header("authorization") == Some(expected))
    );

    // A file that is none of a person's is not read.
    fs::write(&netrc, "machine 127.0.0.1 login user password secret\n".repeat(400_000)).unwrap();
    let open = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
    let found = said(&inspect(&open.url(NAME), &["--json"]).env("HOME", home.path()).output().unwrap());
    same(&found, &local(&["--json"]), "a long netrc");
    assert!(open.asked().iter().all(|it| it.header("authorization").is_none()));

    // A token is for the host that was named, and not for one to which that redirects.
    let other = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
    let to = other.url("elsewhere").replace("127.0.0.1", "localhost");
    let named = Server::start(Vec::new(), move |_| Reply::Status(307, format!("Location: {to}\r\n")));
    let found = said(&inspect(&named.url(NAME), &["--json"]).env("KPACKFS_TOKEN", "secret-token").output().unwrap());
    same(&found, &local(&["--json"]), "redirected");
    assert_eq!(
        named.asked().iter().map(|it| it.header("authorization")).collect::<Vec<_>>(),
        [Some("Bearer secret-token")]
    );
    assert!(other.asked().iter().all(|it| it.header("authorization").is_none()));

    let url = server.url(NAME).replace("127", "user:secret@127");
    let (code, _, err) = said(&inspect(&url, &[]).output().unwrap());
    assert!(code == Some(5) && err.contains("write it to ~/.netrc") && !err.contains("secret"), "{err}");
}

#[test]
fn only_https_is_taken_unless_http_is_allowed() {
    let server = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
    let output = program().args(["inspect", &server.url(NAME)]).output().unwrap();
    let (code, _, err) = said(&output);
    assert!(code == Some(5) && err.contains("--allow-http"), "{err}");
    assert!(server.asked().is_empty());
    // TLS is spoken to what speaks none.
    let (code, _, err) = said(&inspect(&server.url(NAME).replace("http:", "https:"), &[]).output().unwrap());
    assert!(code == Some(5) && err.lines().count() == 1, "{err}");
}

/// Commands that read more of an input than a server gives them, or write next to it.
#[test]
fn other_commands_name_the_one_that_downloads() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("in")).unwrap();
    let url = "https://host.invalid/demo-1.0-py3-none-any.whl";
    let commands: [&[&str]; 10] = [
        &["split", url, "-o", "out"],
        &["split", "--format", "index", url, "-o", "out"],
        &["mount", url, "."],
        &["index", url],
        &["diff", url, "."],
        &["diff", ".", url],
        &["why", url, url, "--target", "gfx942"],
        &["collect", url, "--from", "in", "--gpu-targets", "gfx942", "-o", "out"],
        &["kpack", "list", url],
        &["inspect", url, url],
    ];
    for command in commands {
        let output = program().args(command).current_dir(place.path()).env("KPACKFS_CACHE_DIR", "").output().unwrap();
        let (code, _, err) = said(&output);
        assert!(code == Some(5) && err.contains(&format!("curl -LO {url}")), "{command:?}: {code:?} {err}");
    }
}
