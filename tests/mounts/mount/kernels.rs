//! Tests the whole product: libraries and programs run from a view. Each of their wrappers gets the code object that it
//! had in the fat binary, through the runtime library that a HIP runtime would use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::common::{can_mount, program, skipped, succeeds};
use crate::mount::mounts::{Mount, has};

/// Fixtures that are not loaded: this machine's loader refuses them, they have no wrapper, they stay fat, or they
/// bring their own HIP runtime or need the runtime of a sanitizer.
const LEFT_OUT: [&str; 9] = [
    "aarch64.so",
    "asan.so",
    "debuginfo.so.debug",
    "exe-static",
    "extra-pointer.so",
    "host-only.so",
    "object.o",
    "win.dll",
    "win.exe",
];

/// Loads the given libraries.
const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    for (int at = 1; at < argc; at++)
        if (!dlopen(argv[at], RTLD_NOW | RTLD_LOCAL)) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    return 0;
}
"#;

/// A device: the view to run from, the targets that HIP asks for, and the targets whose code it may get, the best
/// first.
type Device = (&'static str, &'static str, &'static [&'static str]);

const DEVICES: [Device; 8] = [
    ("gfx90a", "gfx90a", &["gfx90a"]),
    ("gfx90a", "gfx90a:xnack+", &["gfx90a:xnack+", "gfx90a"]),
    (
        "gfx90a",
        "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
        &["gfx90a:sramecc+:xnack-", "gfx90a:sramecc+", "gfx90a:xnack-", "gfx90a"],
    ),
    ("gfx90a", "gfx942:sramecc+:xnack-,gfx9-4-generic:sramecc+:xnack-", &[]),
    ("gfx1030", "gfx1030,gfx10-3-generic", &["gfx1030", "gfx10-3-generic"]),
    ("gfx1100", "gfx1100,gfx11-generic", &["gfx1100", "gfx11-generic"]),
    // A device for which nothing was built runs generic code.
    ("gfx1100", "gfx1101,gfx11-generic", &["gfx1101", "gfx11-generic"]),
    ("gfx1100", "gfx90a", &[]),
];

#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) wrappers: Vec<BTreeMap<String, CodeObject>>,
}

#[derive(Deserialize)]
pub(crate) struct CodeObject {
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

/// What was registered with the HIP runtime.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) magic: u64,
    /// The wrapper's address.
    pub(crate) address: u64,
    /// The result of loading its code.
    pub(crate) code: i32,
    /// The name of the file with the code object, which is a number. For a fat binary, the offset of the bundle in it.
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
}

/// The HIP runtime and the program that loads libraries.
pub(crate) struct Programs {
    directory: tempfile::TempDir,
}

impl Programs {
    pub(crate) fn build() -> Option<Self> {
        if !can_mount() || !has("cc") {
            return None;
        }
        if cfg!(not(target_arch = "x86_64")) {
            skipped("the fixtures are for x86-64; NO kernel was looked up from a mount");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // Cargo puts it next to the tests.
        let library = std::env::current_exe().unwrap().with_file_name("librocm_kpack.so");
        symlink(&library, at("librocm_kpack.so.0")).unwrap();
        let flags =
            ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Iruntime/include", "-Wl,-soname,libamdhip64.so.6", "-o"];
        let mut cc = Command::new("cc");
        succeeds(
            cc.args(flags).arg(at("libamdhip64.so.6")).arg("tests/mounts/mount/hip.c").arg(at("librocm_kpack.so.0")),
        );
        fs::write(at("loader.c"), LOADER).unwrap();
        succeeds(Command::new("cc").arg("-o").arg(at("loader")).arg(at("loader.c")).arg("-ldl"));
        Some(Self { directory })
    }

    /// The program that loads libraries.
    pub(crate) fn loader(&self) -> PathBuf {
        self.directory.path().join("loader")
    }

    /// Runs a program. Returns the wrappers that it registers.
    pub(crate) fn registered(&self, program: Command, device: &str) -> Vec<Registered> {
        let output = tempfile::tempdir().unwrap();
        self.run_in(output.path(), program, device)
    }

    fn run_in(&self, output: &Path, mut program: Command, device: &str) -> Vec<Registered> {
        program.env("LD_LIBRARY_PATH", self.directory.path()).env("HIP_OUTPUT", output).env("HIP_DEVICES", device);
        succeeds(&mut program);
        let log = fs::read_to_string(output.join("log")).unwrap();
        let registered = log.lines().map(|line| {
            let fields: Vec<_> = line.splitn(7, ' ').collect();
            let [magic, address, _, of, code, number, path] = fields[..] else { panic!("{line}") };
            assert_eq!(of, device, "{line}");
            let [magic, address] = [magic, address].map(|field| u64::from_str_radix(field, 16).unwrap());
            Registered {
                magic,
                address,
                code: code.parse().unwrap(),
                number: number.parse().unwrap(),
                path: path.into(),
            }
        });
        registered.collect()
    }

    /// Runs a program. Returns what the wrappers of each binary got, in the order of their addresses: code and SHA-256.
    fn run(&self, program: Command, device: &str) -> BTreeMap<String, Vec<(i32, Option<String>)>> {
        let output = tempfile::tempdir().unwrap();
        let mut found: BTreeMap<String, BTreeMap<u64, _>> = BTreeMap::new();
        for registered in self.run_in(output.path(), program, device) {
            assert_eq!(registered.magic, 0x4b50_4948, "{registered:?}");
            let bytes = fs::read(output.path().join(registered.number.to_string())).unwrap_or_default();
            let digest = (!bytes.is_empty()).then(|| format!("{:x}", HexDigest(&bytes)));
            let name = registered.path.file_name().unwrap().to_str().unwrap().to_owned();
            found.entry(name).or_default().insert(registered.address, (registered.code, digest));
        }
        found.into_iter().map(|(name, wrappers)| (name, wrappers.into_values().collect())).collect()
    }

    /// Loads all libraries and runs all programs of a view for a device. Returns how many code objects were compared.
    fn check(&self, view: &Path, device: &Device, expected: &BTreeMap<String, Expected>) -> usize {
        let (_, asked, acceptable) = device;
        let mut loader = Command::new(self.loader());
        loader.args(files(&view.join("lib")));
        let mut found = self.run(loader, asked);
        for program in files(&view.join("bin")) {
            found.append(&mut self.run(Command::new(program), asked));
        }
        let names: BTreeSet<_> = found.keys().collect();
        assert_eq!(names, expected.keys().collect::<BTreeSet<_>>());
        let mut compared = 0;
        for (name, wrappers) in &found {
            let expected = &expected[name].wrappers;
            // With relocatable device code, only the first wrapper is registered for all of them.
            let is_shared = name == "rdc.so" && wrappers.len() == 1;
            assert!(is_shared || wrappers.len() == expected.len(), "{name}: {} wrappers", wrappers.len());
            for (position, ((code, digest), objects)) in wrappers.iter().zip(expected).enumerate() {
                let best = acceptable.iter().find_map(|target| objects.get(*target).filter(|object| object.size > 0));
                let what = format!("{name}, wrapper {position}, {asked}: code {code}");
                assert_eq!(digest.as_deref(), best.map(|object| object.sha256.as_str()), "{what}");
                assert!(if best.is_some() { *code == 0 } else { [0, 5, 13, 14].contains(code) }, "{what}");
                compared += usize::from(best.is_some());
            }
        }
        compared
    }
}

struct HexDigest<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexDigest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Sha256::digest(self.0).iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

/// The entries of `tests/fixtures/expected.json` for the fixtures that can be loaded.
pub(crate) fn expected() -> BTreeMap<String, Expected> {
    let mut expected: BTreeMap<String, Expected> =
        serde_json::from_slice(&fs::read("tests/fixtures/expected.json").unwrap()).unwrap();
    expected.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    expected
}

/// A tree of the fixtures that can be loaded, and their expected content.
pub(crate) fn fat_programs() -> (tempfile::TempDir, BTreeMap<String, Expected>) {
    let expected = expected();
    let fat = tempfile::tempdir().unwrap();
    for directory in ["lib", "bin"] {
        fs::create_dir(fat.path().join(directory)).unwrap();
    }
    for name in expected.keys() {
        let directory = if name.starts_with("exe-") { "bin" } else { "lib" };
        let path = fat.path().join(directory).join(name);
        fs::copy(Path::new("tests/fixtures").join(name), &path).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    (fat, expected)
}

#[test]
fn every_wrapper_gets_its_code_from_a_view() {
    let Some(programs) = Programs::build() else { return };
    let (fat, expected) = fat_programs();
    let check = |place: &Path| {
        DEVICES.iter().map(|device| programs.check(&place.join("merged").join(device.0), device, &expected)).sum()
    };
    for compression in ["zstd", "none"] {
        let Some(mount) = Mount::new(fat.path(), &["--compression", compression]) else { return };
        let compared: usize = check(mount.path());
        assert!(compared > 250, "{compared}");
    }
    // Archives on a disk are mapped; archives in a mount are read.
    let written = tempfile::tempdir().unwrap();
    let mut split = program();
    split.arg("split").arg(fat.path()).arg("--output").arg(written.path());
    succeeds(split.args(["--view", "merged/gfx90a", "--view", "merged/gfx1030", "--view", "merged/gfx1100"]));
    assert!(check(written.path()) > 250);
}
