//! Memory whose size the input decides stays in the budget, and goes when nothing happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Mount, bounded, run};

/// KiB above the budget that a process may take: its code, stacks and tables.
const BESIDES: u64 = 32 << 10;

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

/// Libraries whose section headers are behind 1 MiB of pages that look like the headers of compressed bundles, so that
/// all of it is inflated before the device code is found.
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

/// Files that are a compressed bundle each, as the loaders of kernel databases read them.
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

/// The most memory of a command, in KiB.
fn peak(command: &[&str]) -> u64 {
    let script = "import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    run(Command::new("python3").arg("-c").arg(script).args(command)).trim().parse().unwrap()
}

#[test]
fn captured_headers_of_bundles_stay_in_the_budget() {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path(), PAGES);
    let program = env!("CARGO_BIN_EXE_kpackfs");
    let inspected = peak(&[program, "inspect", "--memory", "16", "--no-cache", input.to_str().unwrap()]);
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
