//! What a server does wrong passes, or is named.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use super::{NAME, SILENCE, ask, ask_for, demo, inspect, local, said, same};
use crate::common::PATIENCE;
use crate::common::server::{Asked, Reply, Server};

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
        let silence = patience(&lie);
        let lies = move |it: &Asked| if it.range.is_none() { lie.clone() } else { Reply::Whole };
        let ((code, out, err), _) = ask_for(&silence, lies, &["--json", "--download"]);
        assert!((code, &*out) == (Some(5), "") && err.contains(words), "{err}");
    }
}

/// The milliseconds that are waited for a server which behaves so.
fn patience(reply: &Reply) -> String {
    if matches!(reply, Reply::Silence) { SILENCE.to_owned() } else { PATIENCE.as_millis().to_string() }
}

/// Behaviours that are no reason for another answer.
#[test]
fn what_passes_changes_no_answer() {
    let expected = local(&["--json"]);
    let status = |status| Reply::Status(status, "Retry-After: 0\r\n".to_owned());
    // Threads ask at the same time, so that every second request might be always the same thread's.
    let every_first = [("429", status(429)), ("503", status(503)), ("500", status(500)), ("closes", Reply::Close)];
    for (name, reply) in every_first {
        let known = Mutex::new(HashSet::new());
        let behaviour = move |it: &Asked| {
            let is_first = known.lock().unwrap().insert(it.range.clone());
            if is_first { reply.clone() } else { Reply::Right }
        };
        same(&ask(behaviour, &["--json"]).0, &expected, name);
    }
    let before_the_file = Reply::Status(206, "Content-Range: bytes -43048-6103/6104\r\n".to_owned());
    for reply in [Reply::Whole, status(400), status(416), status(500), status(501), before_the_file] {
        let name = format!("{reply:?} for suffixes");
        let (found, asked) = ask(move |it| if it.is_suffix { reply.clone() } else { Reply::Right }, &["--json"]);
        same(&found, &expected, &name);
        assert_eq!(asked.iter().filter(|it| it.is_suffix).count(), 1, "{name}");
    }
    // The other answers come in this time.
    let silent = |it: &Asked| if it.number == 1 { Reply::Silence } else { Reply::Right };
    same(&ask_for("10000", silent, &["--json"]).0, &expected, "silence");
    same(&ask(|_| Reply::Cut(100_000), &["--json"]).0, &expected, "dies at each request");
    same(&ask(|_| Reply::Encoded("identity"), &["--json"]).0, &expected, "identity");
    // A link that expires is followed again from the URL that was named.
    let server_path = format!("/{NAME}");
    let expires = move |it: &Asked| match it.number {
        _ if it.path == server_path => Reply::Status(302, format!("Location: /signed?key=secret{}\r\n", it.number)),
        3 => Reply::Status(403, String::new()),
        _ => Reply::Right,
    };
    let (found, asked) = ask(expires, &["--json"]);
    same(&found, &expected, "an expired link");
    // Several threads may find that it has expired.
    let followed = asked.iter().filter(|it| !it.path.contains("signed")).count();
    assert!((2..asked.len() - followed).contains(&followed), "{asked:?}");
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
        (First, Shifted(1), "was asked for the last 49152 bytes and answered \"bytes "),
        (Second, Shifted(1), "was asked for the bytes"),
        (First, Total(10_000_000), "was asked for the last 49152 bytes"),
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
        (First, status(302, "Location: http://[\r\n"), "redirects to what is no URL"),
        (First, status(302, ""), "answers 302"),
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
        let ((code, out, err), asked) = ask_for(&patience(lie), behaviour, &["--json"]);
        assert!((code, &*out) == (Some(5), ""), "{since:?} {lie:?}: {code:?} {err} {asked:?}");
        assert!(err.lines().count() == 1 && !err.contains("secret"), "{since:?} {lie:?}: {err}");
        assert!(err.contains(NAME) && err.contains(words), "{since:?} {lie:?}: {err}");
        // A few threads make a few requests each.
        assert!(asked.len() <= 40, "{since:?} {lie:?}: {} requests", asked.len());
    };
    // Most of it is waiting.
    thread::scope(|scope| {
        for some in lies.chunks(lies.len().div_ceil(8)) {
            scope.spawn(move || some.iter().for_each(check));
        }
    });
}
