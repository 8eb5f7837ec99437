//! Secrets, http, and the commands that read URLs.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::thread;

use super::{NAME, SILENCE, ask, demo, inspect, local, said, same};
use crate::common::program;
use crate::common::server::{Asked, Reply, Server};

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
    for asked in server.asked() {
        assert!(asked.path.ends_with("?signature=secret-of-query"));
        assert_eq!(asked.header("authorization"), Some("Basic dXNlcjpzZWNyZXQtb2YtbmV0cmM="));
    }

    // A file that is none of a person's is not read.
    fs::write(&netrc, "machine 127.0.0.1 login user password secret\n".repeat(400_000)).unwrap();
    let open = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
    let mut asking = inspect(&open.url(NAME), &["--json"]);
    let found = said(&asking.env("HOME", home.path()).env("KPACKFS_TOKEN", " \n").output().unwrap());
    same(&found, &local(&["--json"]), "a long netrc, and a token of blanks");
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
    assert!(code == Some(5) && err.contains("write them to ~/.netrc") && !err.contains("secret"), "{err}");
}

/// Nothing listens at port 1.
#[test]
fn the_proxy_of_the_scheme_is_asked_unless_the_host_is_excluded() {
    let (proxy, expected) = ("http://127.0.0.1:1", local(&["--json"]));
    for (variables, is_direct) in [
        ([("http_proxy", proxy), ("NO_PROXY", "localhost, 127.0.0.1")], true),
        ([("HTTP_PROXY", proxy), ("no_proxy", "127.0.0.0/8")], true),
        ([("https_proxy", proxy), ("HTTPS_PROXY", proxy)], true),
        ([("http_proxy", proxy), ("NO_PROXY", "localhost")], false),
        ([("ALL_PROXY", proxy), ("NO_PROXY", "127.0.0.1:1")], false),
    ] {
        let server = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
        let found = said(&inspect(&server.url(NAME), &["--json"]).envs(variables).output().unwrap());
        if is_direct {
            same(&found, &expected, &format!("{variables:?}"));
        } else {
            assert!(found.0 == Some(5) && server.asked().is_empty(), "{variables:?}: {}", found.2);
        }
    }
}

#[test]
fn a_redirect_to_a_query_keeps_the_path() {
    let behaviour = |it: &Asked| {
        let is_first = !it.path.contains("?x=1");
        if is_first { Reply::Status(302, "Location: ?x=1\r\n".to_owned()) } else { Reply::Right }
    };
    let (found, asked) = ask(behaviour, &["--json"]);
    same(&found, &local(&["--json"]), "redirected");
    assert!(asked.iter().skip(1).all(|it| it.path == format!("/{NAME}?x=1")), "{asked:?}");
}

#[test]
fn what_no_request_can_carry_is_said_of_the_one_who_has_it() {
    let server = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
    for token in [&b"a\nb"[..], "\u{e9}".as_bytes(), b"\xff", b"a\x7fb"] {
        let token = OsStr::from_bytes(token);
        let (code, _, err) = said(&inspect(&server.url(NAME), &[]).env("KPACKFS_TOKEN", token).output().unwrap());
        assert!(code == Some(5) && err.contains("KPACKFS_TOKEN") && err.lines().count() == 1, "{err}");
    }
    assert!(server.asked().is_empty());
    for (status, headers, words) in
        [(407, "", "the proxy refuses it (407)"), (416, "Content-Range: bytes */0\r\n", "it has 0 bytes on the server")]
    {
        let ((code, _, err), _) = ask(move |_| Reply::Status(status, headers.to_owned()), &[]);
        assert!(code == Some(5) && err.contains(words), "{status}: {err}");
    }
}

#[test]
fn only_https_is_taken_unless_http_is_allowed() {
    let server = Server::start(fs::read(demo()).unwrap(), |_| Reply::Right);
    let output = program().args(["inspect", &server.url(NAME)]).output().unwrap();
    let (code, _, err) = said(&output);
    assert!(code == Some(5) && err.contains("--allow-http"), "{err}");
    assert!(server.asked().is_empty());
    // TLS is spoken to what speaks none.
    let mut asking = inspect(&server.url(NAME).replace("http:", "https:"), &[]);
    // This server may wait for the end of a line.
    let (code, _, err) = said(&asking.env("KPACKFS_SILENCE", SILENCE).output().unwrap());
    assert!(code == Some(5) && err.lines().count() == 1, "{err}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/x.whl", listener.local_addr().unwrap());
    let answers = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1 << 14]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).ok();
    });
    let (code, _, err) = said(&inspect(&url, &[]).output().unwrap());
    assert!(code == Some(5) && err.contains("speaks no TLS"), "{err}");
    answers.join().unwrap();
    let capitals = server.url(NAME).replace("http:", "HTTP:");
    same(&said(&inspect(&capitals, &["--json"]).output().unwrap()), &local(&["--json"]), "capitals");
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
