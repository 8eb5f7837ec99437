//! Memory whose size depends on the input stays within the budget, and is freed when the process is idle.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::mounts::{Mount, bounded};
use crate::common::{run, skipped, zeros};

/// KiB that a process may take above the budget: its code, stacks and tables. A build for tests takes 34 MiB of a small input, and some more
/// where the kernel maps more of the program with each page that is needed.
const BESIDES: u64 = 44 << 10;

/// Defines `write(name, bytes)`, which adds a deflated member to the wheel `sys.argv[1]`, and `fixture(name)`.
const WHEEL: &str = r#"
import struct, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED)
write = wheel.writestr
write("x-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
write("x-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
write("x-1.0.dist-info/RECORD", "")
fixture = lambda name: open("tests/fixtures/" + name, "rb").read()
"#;

/// Libraries whose section headers follow 1 MiB of pages that look like headers of compressed bundles. All of this is
/// inflated before the device code is found.
const PAGES: &str = r#"
library = bytearray(fixture("plain.so"))
start, = struct.unpack_from("<Q", library, 40)
table = library[start:start + 64 * library[60]]
library += bytes(-len(library) % 4096) + (b"CCOB" + bytes(4092)) * 256
struct.pack_into("<Q", library, 40, len(library))
for number in range(80):
    write(f"x/{number}.so", bytes(library + table))
wheel.close()
"#;

/// Files that each consist of one compressed bundle, as the loaders of kernel databases read them.
const CODE_OBJECTS: &str = r#"
library = fixture("ccob-v3.so")
start = library.index(b"CCOB")
total, = struct.unpack_from("<Q", library, start + 8)
bundle = library[start:start + total]
for number in range(5000):
    write(f"x/kernels/{number}.co", bundle + number.to_bytes(4, "little") * 2000)
wheel.close()
"#;

fn wheel(place: &Path, members: &str) -> PathBuf {
    let wheel = place.join("x-1.0-py3-none-any.whl");
    run(Command::new("python3").arg("-c").arg([WHEEL, members].concat()).arg(&wheel));
    wheel
}

/// The peak memory, in KiB, of a command that must end with this exit code.
fn peak(code: u8, command: &[&str]) -> u64 {
    let script = "import resource, subprocess, sys
ended = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
assert ended.returncode == int(sys.argv[1]), ended
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let measured = run(Command::new("python3").args(["-c", script, &code.to_string()]).args(command));
    measured.trim().parse().unwrap()
}

#[test]
fn captured_headers_of_bundles_stay_in_the_budget() {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path(), PAGES);
    let program = env!("CARGO_BIN_EXE_kpackfs");
    let inspected = peak(0, &[program, "inspect", "--memory", "16", "--no-cache", input.to_str().unwrap()]);
    assert!(inspected < (16 << 10) + BESIDES, "{inspected} KiB");
}

#[test]
fn code_objects_that_were_read_leave_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path(), CODE_OBJECTS);
    let Some(mut mount) = Mount::new(&input, &["--memory", "64"]) else { return };
    let before = mount.memory("VmRSS");
    let kernels = mount.at("host/x/kernels");
    bounded("reading", move || {
        for entry in fs::read_dir(kernels).unwrap() {
            assert!(fs::read(entry.unwrap().path()).unwrap().len() > 8000);
        }
    });
    let most = mount.memory("VmHWM");
    assert!(most < (64 << 10) + BESIDES, "{most} KiB");
    mount.wait_until("memory is given back", |mount| mount.memory("VmRSS") < before + (16 << 10));
    mount.is_at_rest();
    mount.end();
}

/// A library whose only wrapper points at this bundle.
const LIBRARY: &str = r#"
.section .hip_fatbin,"a",@progbits
.p2align 12
bundle: .incbin "bundle"
.p2align 12
.section .hipFatBinSegment,"aw",@progbits
.p2align 3
.long 0x48495046, 1
.quad bundle
.quad 0
"#;

/// A tree with a library of a few KiB: a compressed bundle (version 3 of CCOB) of code objects of zeros, of the given
/// sizes. zstd makes its frame with a window of `1 << window` bytes.
fn bomb(place: &Path, objects: &[(&str, u64)], window: u32) -> Option<PathBuf> {
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((objects.len() as u64).to_le_bytes());
    let mut end = 4096;
    for (target, size) in objects {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
        for field in [end, *size, id.len() as u64] {
            table.extend(field.to_le_bytes());
        }
        table.extend(id.as_bytes());
        end += size;
    }
    table.resize(4096, 0);
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(window).unwrap();
    encoder.set_pledged_src_size(Some(end)).unwrap();
    encoder.include_contentsize(true).unwrap();
    encoder.write_all(&table).unwrap();
    io::copy(&mut zeros(end - 4096), &mut encoder).unwrap();
    let body = encoder.finish().unwrap();
    let mut bundle = b"CCOB\x03\0\x01\0".to_vec();
    for field in [32 + body.len() as u64, end, 0] {
        bundle.extend(field.to_le_bytes());
    }
    bundle.extend(body);
    fs::write(place.join("bundle"), bundle).unwrap();
    fs::write(place.join("library.s"), LIBRARY).unwrap();
    let tree = place.join("tree");
    fs::create_dir_all(tree.join("lib")).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-nostdlib", "-o", "tree/lib/bomb.so", "library.s"])
        .current_dir(place)
        .output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(tree);
    }
    skipped("cc cannot build a library; decompression bombs were NOT tried");
    None
}

const MIB: u64 = 1 << 20;

/// The bound is the memory, or the largest window plus one compressor.
#[test]
fn bundles_that_decompress_to_more_than_the_memory_are_streamed() {
    for (objects, window, most) in [
        (vec![("gfx942", 400 * MIB)], 21, 16),
        (vec![("gfx906", 20 * MIB), ("gfx90a", 20 * MIB), ("gfx942", 20 * MIB), ("gfx950", 340 * MIB)], 21, 16 + 32),
        (vec![("gfx906", 150 * MIB), ("gfx942", 150 * MIB)], 26, 64 + 8),
    ] {
        let place = tempfile::tempdir().unwrap();
        let Some(tree) = bomb(place.path(), &objects, window) else { return };
        let Some(mount) = Mount::new(&tree, &["--memory", "16", "--jobs", "24", "--no-cache"]) else { return };
        for (target, size) in &objects {
            let archive = mount.at(format!("{target}/.kpack/rocm_{target}.kpack"));
            let length = bounded("reading", move || fs::read(archive).unwrap().len() as u64);
            assert!((size / 40_000..MIB).contains(&length), "{length} bytes for {size}");
        }
        let peak = mount.memory("VmHWM");
        assert!(peak < (most << 10) + BESIDES, "{peak} KiB for {objects:?}");
        mount.end();
    }
}

/// One code object can be larger than the memory, compressed or not.
#[test]
fn code_objects_are_checked_and_written_in_pieces() {
    let place = tempfile::tempdir().unwrap();
    let Some(tree) = bomb(place.path(), &[("gfx942", 200 * MIB)], 21) else { return };
    let (program, at) = (env!("CARGO_BIN_EXE_kpackfs"), |name: &str| place.path().join(name).display().to_string());
    let within = |peak: u64| assert!(peak < (16 << 10) + BESIDES, "{peak} KiB");
    for compression in ["zstd", "none"] {
        let output = at(compression);
        let split = ["split", tree.to_str().unwrap(), "-o", &output, "--compression", compression, "--memory", "16"];
        run(Command::new(program).args(split));
        let archive = format!("{output}/gfx942/.kpack/rocm_gfx942.kpack");
        // Zeros are not a code object, so there is a finding.
        within(peak(1, &[program, "verify", "--memory", "16", &archive]));
        within(peak(0, &[program, "kpack", "extract", &archive, "-o", &at("extracted")]));
        let extracted = place.path().join("extracted/lib/bomb.so.0.gfx942.hsaco");
        assert_eq!(extracted.metadata().unwrap().len(), 200 * MIB);
        fs::remove_file(extracted).unwrap();
    }
    let library = at("tree/lib/bomb.so");
    within(peak(0, &[program, "kpack", "unbundle", &library, "-o", &at("unbundled")]));
    assert_eq!(place.path().join("unbundled/bomb.so.0.gfx942.hsaco").metadata().unwrap().len(), 200 * MIB);
}

#[test]
fn a_directory_of_many_small_files_is_written_in_little_memory() {
    const FILES: u64 = 20_000;
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("data")).unwrap();
    fs::copy("tests/fixtures/plain.so", tree.join("libx.so")).unwrap();
    for number in 0..FILES {
        fs::write(tree.join(format!("data/{number}")), "x").unwrap();
    }
    let output = place.path().join("out");
    let split =
        [env!("CARGO_BIN_EXE_kpackfs"), "split", "--no-cache", "--memory", "16", "-o", output.to_str().unwrap()];
    let peak = peak(0, &[&split[..], &[tree.to_str().unwrap()]].concat());
    assert_eq!(fs::read_dir(output.join("host/data")).unwrap().count() as u64, FILES);
    assert!(peak < (16 << 10) + BESIDES + FILES * 400 / 1024, "{peak} KiB");
}

#[test]
fn a_bundle_that_claims_an_absurd_size_is_named() {
    let inspect = |size: u64| {
        let place = tempfile::tempdir().unwrap();
        let tree = bomb(place.path(), &[("gfx942", size)], 21)?;
        let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).arg("inspect").arg(tree).output().unwrap();
        assert!(output.status.success());
        Some(String::from_utf8(output.stderr).unwrap())
    };
    let Some(said) = inspect(100 * MIB) else { return };
    assert!(said.contains("lib/bomb.so: the offload bundle at 0x"), "{said}");
    assert!(said.contains("claims to become 104861696 bytes out of "), "{said}");
    // Small files of zeros cause no warning.
    assert_eq!(inspect(MIB).unwrap(), "");
}

/// A thread that keeps a bundle in memory must not wait for memory to stream it.
#[test]
fn a_split_of_such_a_bundle_can_be_compared_with_it() {
    let place = tempfile::tempdir().unwrap();
    let Some(tree) = bomb(place.path(), &[("gfx906", 20 * MIB), ("gfx942", 20 * MIB)], 21) else { return };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.args(arguments).args(["--memory", "16"]).current_dir(place.path());
        bounded("comparing", move || command.output().unwrap())
    };
    assert!(run(&["split", tree.to_str().unwrap(), "--output", "split"]).status.success());
    // Zeros are not code objects, which is another kind of finding.
    let verified = run(&["verify", "--json", "split", "--against", tree.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(report["counts"]["compared_code_objects"], 2, "{report}");
    let checks = report["findings"].as_array().unwrap().iter().map(|finding| &finding["check"]);
    assert!(checks.into_iter().all(|check| check == "archive"), "{report}");
}

#[test]
fn a_bundle_with_a_huge_window_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let Some(tree) = bomb(place.path(), &[("gfx942", 200 * MIB)], 28) else { return };
    let Some(mount) = Mount::new(&tree, &["--memory", "16", "--no-cache"]) else { return };
    let log = mount.log();
    assert!(log.contains("lib/bomb.so: not split") && log.contains("209719296 bytes; the limit is 134217728"), "{log}");
    assert_eq!(fs::read(mount.at("host/lib/bomb.so")).unwrap(), fs::read(tree.join("lib/bomb.so")).unwrap());
    assert!(mount.memory("VmHWM") < (16 << 10) + BESIDES);
    mount.end();
}
