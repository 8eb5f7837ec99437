//! What it costs to write wheels, and manifests of wheels and trees, by the counters of work.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::fixture;
use crate::wheels_mount::wheels::{complaints, unpacked, wheel};

/// More than is kept of what was inflated.
const HOST_DATA: usize = 20 << 20;

/// A library with device code whose section headers lie behind so much other data that all of it has to be inflated before
/// anything is known.
fn library() -> Vec<u8> {
    let mut bytes = fixture("plain.so");
    // `e_shoff` of the ELF header (elf(5)).
    let field = 40..48;
    let start = u64::from_le_bytes(bytes[field.clone()].try_into().unwrap());
    let headers = bytes[usize::try_from(start).unwrap()..].to_vec();
    bytes.extend(data(HOST_DATA));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let start = bytes.len() as u64;
    bytes[field].copy_from_slice(&start.to_le_bytes());
    bytes.extend(headers);
    bytes
}

/// Bytes that compress, but not to nothing.
fn data(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 27).to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// A line of RECORD.
fn line((path, content): &(&str, Vec<u8>)) -> String {
    let mut sum = [0; 43];
    URL_SAFE_NO_PAD.encode_slice(Sha256::digest(content), &mut sum).unwrap();
    format!("{path},sha256={},{}\n", str::from_utf8(&sum).unwrap(), content.len())
}

/// Splits with little memory; these counters.
fn work<const N: usize>(directory: &TempDir, input: &Path, arguments: &[&str], counters: [&str; N]) -> [u64; N] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    command.arg("split").arg(input).arg("-o").arg(directory.path().join("out")).args(arguments);
    command.args(["--no-cache", "--memory", "16", "--force"]).env("RUST_LOG", "kpackfs=debug");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    counters.map(|counter| {
        let (_, count) = said.split_once(&format!("{counter}=")).unwrap_or_else(|| panic!("no {counter} in {said}"));
        count.split_whitespace().next().unwrap().parse().unwrap()
    })
}

/// Section headers are at the end, so a fat member is inflated once for planning, and once more for the digest of what stays.
/// Host and device wheels are made of members that were compared with RECORD: the first pass over each computes its digest.
/// Thin wheels copy all other members as they are stored. These are inflated to compare their CRC-32, and not hashed.
#[test]
fn a_fat_member_is_inflated_twice_and_any_other_at_most_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut members = vec![("costs/liba.so", library()), ("costs/data.txt", data(8 << 20))];
    let (fat, other) = (members[0].1.len() as u64, members[1].1.len() as u64);
    let record: String = members.iter().map(line).collect();
    members.push(("costs-1.0.dist-info/RECORD", record.into_bytes()));
    let input = wheel(&directory, "costs", &members);
    let thin = ["--format", "thin-wheel", "--view", "gfx90a"];
    for (arguments, compared) in [(&thin[..], [other, 0]), (&["--format", "wheel"], [other, fat + other])] {
        let [inflated, hashed] = work(&directory, &input, arguments, ["bytes_inflated", "bytes_hashed"]);
        // Around what is changed, chunks are inflated once more.
        let around = 3 << 20;
        let about = |expected: u64| expected - around..=expected + around;
        assert!(about(2 * fat + compared[0]).contains(&inflated), "{arguments:?}: {inflated}");
        assert!(about(fat + compared[1]).contains(&hashed), "{arguments:?}: {hashed}");
    }
    let out = directory.path().join("out");
    assert_eq!(complaints(&out) + &complaints(&out.join("gfx90a")), "");
    let thin = unpacked(&out.join("gfx90a/costs-1.0-py3-none-any.whl"));
    assert!(thin.iter().any(|(path, content)| path.ends_with("data.txt") && *content == members[1].1));
}

/// Digests of what is written are computed while it is written.
#[test]
fn manifests_cost_no_second_pass() {
    let directory = tempfile::tempdir().unwrap();
    let libraries = ["ccob-v3.so", "plain.so", "mixed.so"].map(|name| (format!("lib/{name}"), fixture(name)));
    let tree = directory.path().join("tree");
    std::fs::create_dir_all(tree.join("lib")).unwrap();
    for (path, bytes) in &libraries {
        std::fs::write(tree.join(path), bytes).unwrap();
    }
    // A database of one GPU.
    std::fs::create_dir_all(tree.join("lib/rocblas/library")).unwrap();
    std::fs::write(tree.join("lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat"), data(100_000)).unwrap();
    let members: Vec<_> = libraries.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
    let wheel = wheel(&directory, "costs", &members);
    for (input, format) in [(&tree, "directory"), (&wheel, "directory"), (&wheel, "wheel")] {
        for compression in ["zstd", "none"] {
            let arguments = ["--format", format, "--compression", compression];
            let counters = ["bytes_read", "bytes_inflated", "bytes_decompressed", "bytes_compressed"];
            let with = work(&directory, input, &arguments, counters);
            let without = work(&directory, input, &[&arguments[..], &["--no-manifest"]].concat(), counters);
            assert_eq!(with, without, "{format}, {compression}: {counters:?}");
        }
    }
}

/// The digests of an index are those of what is written, not of files that are read back.
#[test]
fn wheels_of_an_index_are_not_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let members = [("costs/liba.so", library()), ("costs/data.txt", data(8 << 20))];
    let input = wheel(&directory, "costs", &members);
    let counters = ["bytes_read", "bytes_inflated", "bytes_compressed"];
    let [of_index, of_wheels] =
        ["index", "wheel"].map(|format| work(&directory, &input, &["--format", format], counters));
    // METADATA is read once more, for the pages.
    let metadata = 4 << 10;
    for ((counter, index), wheels) in counters.iter().zip(of_index).zip(of_wheels) {
        assert!(index <= wheels + metadata, "{counter}: {index} for an index, {wheels} for wheels");
    }
}
