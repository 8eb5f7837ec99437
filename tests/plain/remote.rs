//! Wheels on a server: the same answers as about files, few requests, and errors that name what a server does wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread;

use tempfile::TempDir;

use crate::common::mounts::wheel;
use crate::common::server::{Asked, Reply, Server};
use crate::common::{program, succeeds};

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
    command.env("KPACKFS_CACHE_DIR", home.join("cache")).env("KPACKFS_SILENCE", "300").env_remove("KPACKFS_TOKEN");
    command
}

fn said(output: &Output) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What is said about the wheel on a server, and its requests.
fn ask(behaviour: impl Fn(&Asked) -> Reply + Send + Sync + 'static, options: &[&str]) -> (Answer, Vec<Asked>) {
    let server = Server::start(fs::read(demo()).unwrap(), behaviour);
    let output = inspect(&server.url(NAME), options).output().unwrap();
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
        let say = |input: &str| {
            let words: Vec<_> = options.iter().map(|word| if *word == "FILE" { input } else { word }).collect();
            let (code, out, err) = said(&command(&words).output().unwrap());
            (code, out.replace(input, "FILE"), err.replace(input, "FILE"))
        };
        let found = say(&server.url(NAME));
        assert_eq!(found.0, Some(code), "{options:?}: {} {}", found.1, found.2);
        same(&found, &say(file.to_str().unwrap()), &format!("{options:?}"));
        let dies =
            Server::start(fs::read(file).unwrap(), |it| if it.number == 0 { Reply::Right } else { Reply::Close });
        let words: Vec<_> = options.iter().map(|word| word.replace("FILE", &dies.url(NAME))).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (code, out, err) = said(&command(&words).output().unwrap());
        let text = format!("{out}{err}");
        assert!(code == Some(5) && text.contains("before the end of an answer"), "{words:?}: {code:?} {text}");
    }
}

#[test]
fn all_of_a_wheel_is_read_from_a_server_without_ranges_if_that_is_allowed() {
    let expected = local(&["--json"]);
    let breaks = |it: &Asked| if it.range.is_none() && it.number == 2 { Reply::Cut(100_000) } else { Reply::Whole };
    for memory in ["256", "16"] {
        let (found, asked) = ask(breaks, &["--json", "--download", "--memory", memory]);
        same(&found, &expected, memory);
        assert_eq!(asked.iter().filter(|it| it.range.is_none()).count(), 2);
    }
    assert!(!demo().with_file_name("cache").exists(), "nothing is kept on disk");
    // With ranges the option changes nothing.
    let (found, asked) = ask(|_| Reply::Right, &["--json", "--download"]);
    same(&found, &expected, "ranges");
    assert!(asked.iter().all(|it| it.range.is_some()));

    let large = Server::start(vec![0; 9 << 20], |_| Reply::Whole);
    let (code, _, err) = said(&inspect(&large.url(NAME), &["--download", "--memory", "16"]).output().unwrap());
    assert!(code == Some(5) && err.contains("9437184 bytes are more than half of --memory"), "{err}");
    for (lie, words) in [
        (Reply::Cut(7), "before the end of an answer"),
        (Reply::Encoded("gzip"), "content-encoding"),
        (Reply::Status(403, String::new()), "refuses it (403)"),
        (Reply::Silence, "does not answer in time"),
    ] {
        let lies = move |it: &Asked| if it.range.is_none() { lie.clone() } else { Reply::Whole };
        let ((code, out, err), _) = ask(lies, &["--json", "--download"]);
        assert!((code, &*out) == (Some(5), "") && err.contains(words), "{err}");
    }
}

#[test]
fn small_wheels_take_one_request() {
    let bytes = fs::read(demo()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let small = place.path().join("small-1.0-py3-none-any.whl");
    let script = "import sys, zipfile\nfrom_, to = (zipfile.ZipFile(name, mode) for name, mode in zip(sys.argv[1:], 'rw'))\n\
                  for it in from_.infolist():\n if it.file_size < 100000: to.writestr(it, from_.read(it))\nto.close()";
    succeeds(Command::new("python3").args(["-c", script]).args([demo(), &small]));
    let bytes_of_small = fs::read(&small).unwrap();
    assert!(bytes_of_small.len() < 64 << 10 && bytes.len() > 64 << 10);
    // A server without ranges sends it as well.
    for reply in [Reply::Right, Reply::Whole] {
        let server = Server::start(bytes_of_small.clone(), move |_| reply.clone());
        let found = said(&inspect(&server.url("small-1.0-py3-none-any.whl"), &["--json"]).output().unwrap());
        same(&found, &said(&inspect(small.to_str().unwrap(), &["--json", "--no-cache"]).output().unwrap()), "small");
        assert_eq!(server.asked().len(), 1);
    }
}

/// A wheel with a fat library of 12 MB, which has its section headers at its end and does not become smaller when deflated.
fn large(place: &Path) -> PathBuf {
    let wheel = place.join(NAME);
    let script = r"
import os, struct, sys, zipfile
fixture, demo, wheel = sys.argv[1:]
library = open(fixture, 'rb').read()
at, = struct.unpack_from('<Q', library, 0x28)
size, count = struct.unpack_from('<HH', library, 0x3a)
made = bytearray(library + os.urandom(12 << 20))
made += bytes(-len(made) % 8)
struct.pack_into('<Q', made, 0x28, len(made))
with zipfile.ZipFile(demo) as old, zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as new:
    new.writestr('demo/libx.so', bytes(made) + library[at:at + size * count])
    for member in old.infolist():
        if '.dist-info/' in member.filename:
            new.writestr(member, old.read(member))
";
    succeeds(Command::new("python3").args(["-c", script, "tests/fixtures/plain.so"]).args([demo(), &wheel]));
    wheel
}

#[test]
fn each_byte_of_a_deflated_library_comes_once_whatever_the_memory() {
    let place = tempfile::tempdir().unwrap();
    let wheel = large(place.path());
    let bytes = fs::read(&wheel).unwrap();
    let expected = said(&inspect(wheel.to_str().unwrap(), &["--json", "--no-cache"]).output().unwrap());
    assert!(expected.0 == Some(0) && expected.1.contains("gfx"), "{expected:?}");
    let ask = |behaviour: fn(&Asked) -> Reply, memory: &str| {
        let server = Server::start(bytes.clone(), behaviour);
        let found = said(&inspect(&server.url(NAME), &["--json", "--memory", memory]).output().unwrap());
        (found, server.asked())
    };
    for memory in ["16", "256"] {
        let (found, asked) = ask(|_| Reply::Right, memory);
        same(&found, &expected, memory);
        let sent: usize = asked.iter().map(|it| it.sent).sum();
        assert!(asked.len() <= 3 && sent <= bytes.len() + (1 << 20), "{} requests, {sent} bytes", asked.len());
    }
    // Its answer is read while it is inflated, and goes on where it breaks off.
    let (found, asked) = ask(|it| if it.number == 0 { Reply::Right } else { Reply::Cut(3_000_000) }, "16");
    same(&found, &expected, "breaks off");
    let begins: Vec<_> = asked.iter().skip(1).filter_map(|it| Some(it.range.as_ref()?.start)).collect();
    assert!((5..=8).contains(&begins.len()) && begins.is_sorted(), "{begins:?}");
    let changes = |it: &Asked| match it.number {
        0 => Reply::Right,
        1 => Reply::Cut(5_000_000),
        _ => Reply::Tag("\"two\""),
    };
    let ((code, out, err), _) = ask(changes, "16");
    assert!((code, &*out) == (Some(5), "") && err.contains("changed"), "{err}");
}

/// Behaviours that are no reason for another answer.
#[test]
fn what_passes_changes_no_answer() {
    let expected = local(&["--json"]);
    let busy = |status| {
        move |it: &Asked| {
            if it.number.is_multiple_of(2) { Reply::Status(status, "Retry-After: 0\r\n".into()) } else { Reply::Right }
        }
    };
    let right = |found: (Answer, Vec<Asked>), name: &str| same(&found.0, &expected, name);
    right(ask(busy(429), &["--json"]), "429");
    right(ask(busy(503), &["--json"]), "503");
    right(
        ask(
            |it| if it.number.is_multiple_of(2) { Reply::Status(500, String::new()) } else { Reply::Right },
            &["--json"],
        ),
        "500",
    );
    right(ask(|it| if it.number.is_multiple_of(2) { Reply::Close } else { Reply::Right }, &["--json"]), "closes");
    right(ask(|it| if it.number == 1 { Reply::Silence } else { Reply::Right }, &["--json"]), "silence");
    right(ask(|it| if it.is_suffix { Reply::Whole } else { Reply::Right }, &["--json"]), "no suffixes");
    right(
        ask(|it| if it.is_suffix { Reply::Status(416, String::new()) } else { Reply::Right }, &["--json"]),
        "416 for suffixes",
    );
    right(ask(|_| Reply::Cut(100_000), &["--json"]), "dies at each request");
    right(ask(|_| Reply::Encoded("identity"), &["--json"]), "identity");
    // A link that expires is followed again from the URL that was named.
    let server_path = format!("/{NAME}");
    let expires = move |it: &Asked| match it.number {
        _ if it.path == server_path => Reply::Status(302, format!("Location: /signed?key=secret{}\r\n", it.number)),
        3 => Reply::Status(403, String::new()),
        _ => Reply::Right,
    };
    let (found, asked) = ask(expires, &["--json"]);
    same(&found, &expected, "an expired link");
    // Two threads may find that it has expired.
    let followed = asked.iter().filter(|it| !it.path.contains("signed")).count();
    assert!((2..=3).contains(&followed), "{asked:?}");
}

/// When a server begins to lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Since {
    First,
    Second,
}

/// What is said about each lie. None is taken for an answer, whatever was read before it.
#[test]
fn a_server_that_lies_is_named() {
    use Reply::{AsWhole, Close, Cut, Encoded, Noise, Shifted, Silence, Tag, Total, Whole};
    use Since::{First, Second};
    let status = |status, headers: &str| Reply::Status(status, headers.to_owned());
    let lies = [
        (
            First,
            Whole,
            "does not answer requests for ranges; give --download to read all of it, or download it: curl -LO http://127.0.0.1:",
        ),
        (Second, Whole, "does not answer requests for ranges"),
        (First, AsWhole, "does not answer requests for ranges"),
        (Second, AsWhole, "does not answer requests for ranges"),
        (First, Shifted(1), "was asked for the bytes"),
        (Second, Shifted(1), "was asked for the bytes"),
        (First, Total(10_000_000), "was asked for the bytes"),
        (Second, Total(10_000_000), "changed"),
        (Second, Tag("\"two\""), "changed"),
        (Second, Tag("W/\"one\""), "changed"),
        (Second, status(412, ""), "changed"),
        (Second, status(416, ""), "changed"),
        (First, Encoded("gzip"), "content-encoding \"gzip\""),
        (Second, Encoded("br"), "content-encoding \"br\""),
        (First, Cut(0), "before the end of an answer"),
        (Second, Cut(7), "before the end of an answer"),
        (First, status(401, ""), "refuses it (401)"),
        (Second, status(403, ""), "refuses it (403)"),
        (First, status(404, ""), "no such file (404)"),
        (Second, status(410, ""), "no such file (410)"),
        (First, status(416, ""), "the server answers 416"),
        (First, status(429, "Retry-After: 0\r\n"), "busy (429) and asks to wait 0 s"),
        (First, status(429, "Retry-After: 100000\r\n"), "busy (429) and asks to wait 100000 s"),
        (Second, status(503, ""), "busy (503)"),
        (First, status(500, ""), "answers 500"),
        (First, status(204, ""), "answers 204"),
        (First, status(302, "Location: /again\r\n"), "redirected again and again"),
        (First, status(302, ""), "rules of HTTP"),
        (
            First,
            status(302, "Location: http://127.0.0.1:1/secret?key=secret\r\n"),
            "cannot be reached: Connection refused",
        ),
        (First, Close, "before the end of an answer"),
        (Second, Close, "before the end of an answer"),
        (First, Silence, "does not answer in time"),
        (Second, Silence, "does not answer in time"),
        (First, Noise, "rules of HTTP"),
    ];
    let check = |(since, lie, words): &(Since, Reply, &str)| {
        let (since, reply) = (*since, lie.clone());
        let behaviour = move |it: &Asked| if it.number == 0 && since == Second { Reply::Right } else { reply.clone() };
        let ((code, out, err), asked) = ask(behaviour, &["--json"]);
        assert!((code, &*out) == (Some(5), ""), "{since:?} {lie:?}: {code:?} {err} {asked:?}");
        assert!(err.lines().count() == 1 && !err.contains("secret"), "{since:?} {lie:?}: {err}");
        assert!(err.contains(NAME) && err.contains(words), "{since:?} {lie:?}: {err}");
        assert!(asked.len() <= 12, "{since:?} {lie:?}: {} requests", asked.len());
    };
    // Most of it is waiting.
    thread::scope(|scope| {
        for some in lies.chunks(lies.len().div_ceil(8)) {
            scope.spawn(move || some.iter().for_each(check));
        }
    });
}

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
    fs::write(&netrc, "machine 127.0.0.1 login user password secret\n".repeat(30_000)).unwrap();
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
fn what_is_no_wheel_on_a_server_is_named() {
    for (bytes, code, words) in [
        (vec![0; 200_000], 5, "a file of no known format"),
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
