//! Splices members of a wheel that Python made, and inflates the result with every available inflater.
//!
//! Needs python3. Other inflaters are used if they are installed: unzip, bsdtar, 7z, busybox, gzip, libdeflate-gzip,
//! pigz, igzip, and Python's package `deflate`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use kpackfs::deflate::{DeflateLevel, splice};
use kpackfs::metrics::Counters;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Edit, Segment, edited};
use kpackfs::source::{EntryKind, Input};

/// Members of all kinds: text, noise, zeros and a mixture, at several levels.
const WHEEL: &str = r#"
import random, sys, zipfile
random.seed(4)
text = b"".join(random.choice([b"kernel ", b"gfx1100 ", b"\0\0\0\0", b"v_mov_b32 "]) for _ in range(300_000))
noise = random.randbytes(700_000)
mixed = b"".join(random.choice([text, noise])[at:at + 9000] for at in range(0, 600_000, 7000))
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, content in [("text", text), ("noise", noise), ("mixed", mixed + bytes(800_000) + mixed)]:
        for level in [1, 6, 9]:
            wheel.writestr(f"x/{name}{level}", content, zipfile.ZIP_DEFLATED, level)
    wheel.writestr("x-1.dist-info/METADATA", "Name: x")
    wheel.writestr("x-1.dist-info/WHEEL", "")
"#;

fn python(arguments: &[&dyn AsRef<OsStr>]) -> String {
    let output = Command::new("python3").args(arguments.iter().map(AsRef::as_ref)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Writes the spliced stream and what it has to hold. Returns how many bytes were deflated again.
fn write(original: &Arc<dyn Content>, edits: &[Edit], [stream, whole]: &[PathBuf; 2]) -> u64 {
    let counters = Counters::default();
    let spliced = splice(original, edits, DeflateLevel::default(), None, &counters).unwrap().unwrap();
    let expected = edited(original, edits.to_vec()).unwrap();
    std::fs::write(stream, spliced.stream.to_vec().unwrap()).unwrap();
    std::fs::write(whole, expected.to_vec().unwrap()).unwrap();
    assert_eq!(spliced.size, expected.size());
    assert_eq!(spliced.crc32, crc32fast::hash(&expected.to_vec().unwrap()));
    counters.bytes_deflated.get()
}

#[test]
fn every_inflater_agrees() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let wheel = place.join("x-1-py3-none-any.whl");
    python(&[&"-c", &WHEEL, &wheel]);
    let input = Input::open(&wheel, &Resources::new(1 << 28)).unwrap();
    let files = [0, 1, 2, 3].map(|step| ["stream", "whole"].map(|name| place.join(format!("{name}{step}"))));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/splice_inflaters.py");
    let mut agreed = String::new();
    let mut members = 0;
    for entry in &input.entries {
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let size = content.size();
        if size < 100_000 {
            continue;
        }
        members += 1;
        // Patches at the beginning and the end, and cuts that end anywhere inside blocks.
        for (step, files) in (0..).zip(&files) {
            let cut = size / 3 + step * 10_007;
            let edits = [
                Edit::patch(step * 5, *b"front"),
                Edit { start: cut, end: cut + 150_000, replacement: vec![Segment::zeros(step * 1000)] },
                Edit::patch(size - 100 - step, *b"behind"),
                Edit::replace(size, size, *b"appended"),
            ];
            let anew = write(content, &edits, files);
            assert!(anew < size / 4 * 3, "{}: {anew} of {size}", entry.path);
        }
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&script, &place];
        arguments.extend(files.iter().flatten().map(|file| file as &dyn AsRef<OsStr>));
        agreed = python(&arguments);
    }
    assert_eq!(members, 9);
    // It writes past the test harness, which would capture it.
    writeln!(std::io::stderr(), "\nsplice_inflaters: {agreed}").unwrap();
}
