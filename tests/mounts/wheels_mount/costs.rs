//! What it costs to write wheels, and manifests of wheels and trees, by the counters of work.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::{fixture, skipped};
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

/// Splits, with little memory unless `arguments` say how much; these counters.
fn work<const N: usize>(directory: &TempDir, input: &Path, arguments: &[&str], counters: [&str; N]) -> [u64; N] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    command.arg("split").arg(input).arg("-o").arg(directory.path().join("out")).arg("--force");
    counted(command, arguments, counters)
}

/// Runs a command, with little memory unless `arguments` say how much; these counters.
fn counted<const N: usize>(mut command: Command, arguments: &[&str], counters: [&str; N]) -> [u64; N] {
    command.args(arguments).arg("--no-cache").env("RUST_LOG", "kpackfs=debug");
    if !arguments.contains(&"--memory") {
        command.args(["--memory", "16"]);
    }
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

/// An uncompressed bundle.
fn bundle(entries: [(&str, &[u8]); 2]) -> Vec<u8> {
    let mut table = [b"__CLANG_OFFLOAD_BUNDLE__".as_slice(), &2_u64.to_le_bytes()].concat();
    let mut code = Vec::new();
    for (target, object) in entries {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        table.extend(
            [4096 + code.len(), object.len(), id.len()].into_iter().flat_map(|field| (field as u64).to_le_bytes()),
        );
        table.extend(id.as_bytes());
        code.extend(object);
    }
    table.resize(4096, 0);
    [table, code].concat()
}

/// A library whose wrappers lead to these bundles, if `cc` can make one.
fn linked(directory: &TempDir, bundles: &[Vec<u8>]) -> Option<Vec<u8>> {
    let section = |(number, bundle): (usize, &Vec<u8>)| {
        std::fs::write(directory.path().join(format!("bundle{number}")), bundle).unwrap();
        format!(
            ".section .hip_fatbin,\"a\",@progbits\n.p2align 12\nbundle{number}: .incbin \"bundle{number}\"\n.p2align 12\n\
             .section .hipFatBinSegment,\"aw\",@progbits\n.p2align 3\n.long 0x48495046, 1\n.quad bundle{number}, 0\n"
        )
    };
    let text = bundles.iter().enumerate().map(section).collect::<Vec<_>>().concat();
    // Libraries without this name are passed over. As in real ones, there is data after the code.
    let text = text + ".data\n.quad __hipRegisterFatBinary\n.fill 524288, 1, 7\n";
    std::fs::write(directory.path().join("library.s"), text).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-nostdlib", "-o", "library.so", "library.s"]).current_dir(directory.path());
    if command.output().is_ok_and(|output| output.status.success()) {
        return Some(std::fs::read(directory.path().join("library.so")).unwrap());
    }
    skipped("cc cannot build a library; its code objects were NOT compressed");
    None
}

/// The pass that finds the device code of a deflated library at its end has compressed the code by then.
#[test]
fn uncompressed_code_is_inflated_once_whatever_the_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let (code, size) = (data(4 << 20), 3 << 20);
    let object = |number: usize| &code[number << 16..(number << 16) + size];
    let bundle = |number: usize| bundle([("gfx1100", object(2 * number)), ("gfx942", object(2 * number + 1))]);
    let Some(library) = linked(&directory, &[0, 1, 2].map(bundle)) else { return };
    let of_code = 2 * 6 * size as u64;
    let members = [("costs/liba.so", library.clone()), ("costs/libb.so", library)];
    let total: u64 = members.iter().map(|(_, content)| content.len() as u64).sum();
    let input = wheel(&directory, "costs", &members);
    for threads in ["2", "24", "64"] {
        let counters = ["bytes_inflated", "bytes_compressed"];
        for (targets, part) in [(&[][..], 1), (&["--gpu-targets", "gfx1100"], 2)] {
            let arguments = [&["--format", "wheel", "--memory", "64", "-j", threads], targets].concat();
            let [inflated, compressed] = work(&directory, &input, &arguments, counters);
            // The ends are read again: headers, and tables of sections.
            assert!(inflated <= total + total / 4, "-j {threads} {targets:?}: {inflated} of {total}");
            assert_eq!(compressed, of_code / part, "-j {threads} {targets:?}");
        }
    }
}

/// Headers of code are looked at in the pass that finds the device code of a deflated library at its end.
#[test]
fn inspect_inflates_uncompressed_code_once() {
    let directory = tempfile::tempdir().unwrap();
    let code = data(4 << 20);
    // An AMDGPU ELF file without program headers (elf(5)).
    let object = |number: usize, section_headers: u64| {
        let mut header = [0; 64];
        header[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x03");
        header[18..20].copy_from_slice(&224_u16.to_le_bytes());
        header[40..48].copy_from_slice(&section_headers.to_le_bytes());
        // gfx1100 and gfx942 (EF_AMDGPU_MACH).
        header[48] = [0x41, 0x4c][number % 2];
        [&header, &code[(number << 12) + 64..(number << 12) + (1 << 20)]].concat()
    };
    let bundle = |number: usize| {
        // Those of one are behind its end.
        let first = object(2 * number, if number == 4 { 5 << 20 } else { 0 });
        bundle([("gfx1100", &first), ("gfx942", &object(2 * number + 1, 0))])
    };
    let bundles: Vec<_> = (0..10).map(bundle).collect();
    let Some(library) = linked(&directory, &bundles) else { return };
    let total = library.len() as u64;
    let input = wheel(&directory, "costs", &[("costs/liba.so", library)]);
    for arguments in [&[][..], &["--require", "gfx942"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.arg("inspect").arg(&input);
        let [inflated] = counted(command, arguments, ["bytes_inflated"]);
        // The end is read again: headers, tables of sections, and data.
        assert!(inflated <= total + total / 4, "{arguments:?}: {inflated} of {total}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    let output = command.arg("inspect").arg(&input).args(["--no-cache", "--require", "gfx1100"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the code object for gfx1100: it has 1048576 bytes, but its headers need"), "{said}");
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
