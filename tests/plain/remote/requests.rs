//! How many requests are made, and how many bytes come.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NAME, demo, inspect, said, same};
use crate::common::server::{Asked, Reply, Server};
use crate::common::succeeds;

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
