//! How many requests are made, and how many bytes come.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NAME, demo, inspect, said, same, says_as_of};
use crate::common::server::{Asked, Reply, Server};
use crate::common::{program, succeeds};

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
import random, struct, sys, zipfile
fixture, demo, wheel = sys.argv[1:]
library = open(fixture, 'rb').read()
at, = struct.unpack_from('<Q', library, 0x28)
size, count = struct.unpack_from('<HH', library, 0x3a)
made = bytearray(library + random.Random(1).randbytes(12 << 20))
made += bytes(-len(made) % 8)
struct.pack_into('<Q', made, 0x28, len(made))
with zipfile.ZipFile(demo) as old, zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as new:
    new.writestr('demo/__init__.py', '# Small files are before large ones.\n' * 9)
    new.writestr('demo/libx.so', bytes(made) + library[at:at + size * count])
    for member in old.infolist():
        if '.dist-info/' in member.filename:
            new.writestr(member, old.read(member))
";
    succeeds(Command::new("python3").args(["-c", script, "tests/fixtures/plain.so"]).args([demo(), &wheel]));
    wheel
}

/// The caches have room for a quarter of these files, each of which is looked at again after the others.
#[test]
fn the_beginnings_of_files_come_once_with_little_memory() {
    let place = tempfile::tempdir().unwrap();
    let wheel = place.path().join(NAME);
    let script = r"
import random, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], 'w', zipfile.ZIP_DEFLATED) as new:
    for number in range(200):
        new.writestr(f'demo/{number}.bin', random.Random(number).randbytes(100_000))
    for member in old.infolist():
        if '.dist-info/' in member.filename:
            new.writestr(member, old.read(member))
";
    succeeds(Command::new("python3").args(["-c", script]).args([demo(), &wheel]));
    let bytes = fs::read(&wheel).unwrap();
    let expected = said(&inspect(wheel.to_str().unwrap(), &["--json", "--no-cache"]).output().unwrap());
    let server = Server::start(bytes.clone(), |_| Reply::Right);
    // More threads than room for what they read ask again.
    same(
        &said(&inspect(&server.url(NAME), &["--json", "--memory", "16", "-j", "1"]).output().unwrap()),
        &expected,
        "files",
    );
    let asked = server.asked();
    let sent: usize = asked.iter().map(|it| it.sent).sum();
    assert!(asked.len() <= 8 && sent <= bytes.len() + (1 << 20), "{} requests, {sent} bytes", asked.len());
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
    // An answer that is slow is not asked for again.
    let [right, slow]: [fn(&Asked) -> Reply; 2] = [|_| Reply::Right, |_| Reply::Slow];
    for (behaviour, memory) in [(right, "16"), (right, "256"), (slow, "16")] {
        let (found, asked) = ask(behaviour, memory);
        same(&found, &expected, memory);
        let sent: usize = asked.iter().map(|it| it.sent).sum();
        // Its end, and all before it.
        assert!(asked.len() <= 2 && sent <= bytes.len() + (1 << 20), "{} requests, {sent} bytes", asked.len());
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

/// Code is compressed and the library rewritten for them, which takes several passes over its bytes.
#[test]
fn sizes_take_the_bytes_of_a_wheel_once_if_it_has_room() {
    let place = tempfile::tempdir().unwrap();
    let wheel = large(place.path());
    let bytes = fs::read(&wheel).unwrap();
    let server = Server::start(bytes.clone(), |_| Reply::Right);
    let question =
        |input: &str| said(&inspect(input, &["--json", "--sizes", "--memory", "32", "-j", "1"]).output().unwrap());
    let found = question(&server.url(NAME));
    assert!(found.0 == Some(0) && found.1.contains("\"archive_size\": "), "{found:?}");
    same(&found, &question(wheel.to_str().unwrap()), "sizes");
    let asked = server.asked();
    let sent: usize = asked.iter().map(|it| it.sent).sum();
    assert!(asked.len() <= 2 && sent <= bytes.len() + (1 << 20), "{} requests, {sent} bytes", asked.len());
}

/// A device wheel of 2 MB, whose archive has 40 code objects.
fn device_wheel(place: &Path) -> PathBuf {
    let file = |name: &str| place.join(name).to_str().unwrap().to_owned();
    let wheel = place.join("demo_gfx90a-1.0-py3-none-any.whl");
    succeeds(program().args([
        "kpack",
        "unbundle",
        "tests/fixtures/plain.so",
        "--target",
        "gfx90a",
        "-o",
        &file("one"),
    ]));
    let script = r"
import os, pathlib, random, sys
noise = random.Random(1)
code = next(pathlib.Path(sys.argv[1]).glob('*gfx90a*')).read_bytes()
os.mkdir(sys.argv[2])
for number in range(40):
    pathlib.Path(sys.argv[2], f'{number}.co').write_bytes(code + noise.randbytes(50_000))
";
    succeeds(Command::new("python3").args(["-c", script, &file("one"), &file("many")]));
    succeeds(program().args(["kpack", "create", &file("many"), "-o", &file("demo_gfx90a.kpack")]));
    let script = r"
import sys, zipfile
archive, wheel = sys.argv[1:]
with zipfile.ZipFile(wheel, 'w') as new:
    new.write(archive, 'demo/.kpack/demo_gfx90a.kpack')
    for name, text in [('METADATA', 'Metadata-Version: 2.1\nName: demo_gfx90a\nVersion: 1.0\n'),
                       ('WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n'), ('RECORD', '')]:
        new.writestr(f'demo_gfx90a-1.0.dist-info/{name}', text)
";
    succeeds(Command::new("python3").args(["-c", script, &file("demo_gfx90a.kpack")]).arg(&wheel));
    wheel
}

/// Names and the table of contents say what it has. `why` reads each code object's place in the archive as well.
#[test]
fn a_device_wheel_takes_few_requests() {
    let place = tempfile::tempdir().unwrap();
    let wheel = device_wheel(place.path());
    let bytes = fs::read(&wheel).unwrap();
    for (question, code, requests, most) in [
        (&["inspect", "FILE", "--json", "--no-cache"][..], 0, 2, 64 << 10),
        (&["inspect", "FILE", "--json", "--no-cache", "--require", "gfx90a"], 1, 2, 64 << 10),
        (&["why", "FILE", "--json", "--target", "gfx90a"], 0, 4, bytes.len()),
    ] {
        let server = Server::start(bytes.clone(), |_| Reply::Right);
        says_as_of(&wheel, &server.url("demo_gfx90a-1.0-py3-none-any.whl"), question, code);
        let asked = server.asked();
        let sent: usize = asked.iter().map(|it| it.sent).sum();
        assert!(asked.len() <= requests && sent <= most, "{question:?}: {} requests, {sent} bytes", asked.len());
    }
}
