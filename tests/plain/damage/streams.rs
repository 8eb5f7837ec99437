//! Tar archives. A later entry replaces an earlier one of its name, so nothing of a damaged archive is certain: no
//! command and no mount uses one.

use std::fs;
use std::io::Write;
use std::process::Command;

use crate::common::{fixture, gzip, program, skipped};
use crate::damage::support::noise;

/// An archive of a library and of data.
fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let data = noise(600_000, 9);
    for (name, content) in [("lib/plain.so", &fixture("plain.so")[..]), ("data", &data), ("last", b"text")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zstd(tar: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(tar).unwrap();
    encoder.finish().unwrap()
}

/// `None` without python3.
fn xz(tar: &[u8]) -> Option<Vec<u8>> {
    let place = tempfile::tempdir().unwrap();
    let [plain, packed] = ["plain", "packed"].map(|name| place.path().join(name));
    fs::write(&plain, tar).unwrap();
    let code = "import lzma, sys; open(sys.argv[2], 'wb').write(lzma.compress(open(sys.argv[1], 'rb').read(), check=lzma.CHECK_CRC64))";
    let made = Command::new("python3").args(["-c", code]).args([&plain, &packed]).output();
    if !made.is_ok_and(|made| made.status.success()) {
        skipped("there is no python3 with lzma; xz was NOT tried");
        return None;
    }
    Some(fs::read(packed).unwrap())
}

#[test]
fn a_damaged_archive_is_refused_by_name_and_place() {
    let tar = archive();
    let place = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    let mut add = |name: &str, damage: &str, bytes: Vec<u8>, expected: &'static str| {
        let path = place.path().join(format!("{damage}-{name}"));
        fs::write(&path, bytes).unwrap();
        cases.push((path, expected));
    };
    let xz = xz(&tar);
    let packed = [("x.tar.gz", Some(gzip(&tar)), 8), ("x.tar.zst", Some(zstd(&tar)), 4), ("x.tar.xz", xz, 0)];
    for (name, bytes, trailer) in packed {
        let Some(bytes) = bytes else { continue };
        for (damage, at) in [("front", 40), ("middle", bytes.len() / 2), ("behind", bytes.len() - trailer - 40)] {
            let mut invalid = bytes.clone();
            invalid[at..at + 30].fill(0xff);
            add(name, &format!("invalid-{damage}"), invalid, "");
            add(name, &format!("short-{damage}"), bytes[..at].to_vec(), " bytes of its content: ");
        }
        if trailer > 0 {
            // The CRC-32 of gzip, and the checksum of zstd.
            let mut wrong = bytes.clone();
            wrong[bytes.len() - trailer] ^= 1;
            add(name, "checksum", wrong, "");
        }
    }
    let data = tar.len() - 600_000;
    for (damage, at, expected) in [
        ("front", 300, "after 300 bytes"),
        ("middle", data, "\"data\": it reaches past the end of the archive"),
        ("between", tar.len() - 2048, "it ends without the empty blocks that end an archive"),
        ("behind", tar.len() - 1024, "it ends without the empty blocks that end an archive"),
    ] {
        let expected = if damage == "front" { "" } else { expected };
        add("x.tar", &format!("short-{damage}"), tar[..at].to_vec(), expected);
    }
    let mut header = tar.clone();
    header[tar.len() - 2048] ^= 1;
    add("x.tar", "header", header, "after member \"data\": ");

    let [output, mount_point, cache] = ["output", "mount", "cache"].map(|name| place.path().join(name));
    fs::create_dir(&mount_point).unwrap();
    for (path, expected) in cases {
        let [mut split, mut index, mut mount] = ["split", "index", "mount"].map(|name| {
            let mut command = program();
            command.args([name, "--cache-dir"]).arg(&cache);
            command
        });
        split.arg("-o").arg(&output).arg(&path);
        index.arg(&path);
        mount.arg("-f").arg(&path).arg(&mount_point);
        // A mount refuses other compressions before it reads anything.
        let is_mounted = !path.to_string_lossy().ends_with("zst") && !path.to_string_lossy().ends_with("xz");
        for command in [&mut split, &mut index, &mut mount].into_iter().take(if is_mounted { 3 } else { 2 }) {
            let found = command.output().unwrap();
            let text = String::from_utf8_lossy(&found.stderr);
            assert_eq!(found.status.code(), Some(1), "{command:?}: {text}");
            assert!(text.contains(path.file_name().unwrap().to_str().unwrap()), "{command:?}: {text}");
            assert!(text.contains(expected), "{command:?}: {text}");
        }
        assert!(!output.exists());
    }
}
