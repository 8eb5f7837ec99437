//! Splits a wheel in the layout of AITER: loose code objects with tables, for two targets, and no binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const INFO: &str = "aiter-1.0.dist-info";

/// An unpacked wheel.
struct Wheel(TempDir);

impl Wheel {
    fn new() -> Self {
        let wheel = Self(tempfile::tempdir().unwrap());
        let put = |path: &str, bytes: &[u8]| {
            let path = wheel.input().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("meta/hsa/gfx942/gemm/gemm.co", &code(0x4c));
        put("meta/hsa/gfx942/gemm/gemm.csv", b"name,tiles\n");
        put("meta/hsa/gfx950/gemm/gemm.co", &code(0x4f));
        put("meta/hsa/gfx950/gemm/gemm.csv", b"name,tiles\nother,1\n");
        put("meta/hsa/gfx950/wrong.co", &code(0x4c));
        put("meta/hsa/common.csv", b"for all\n");
        put("configs/aot/M=1/kernel.hsaco", &code(0x4f));
        put(&format!("{INFO}/METADATA"), b"Metadata-Version: 2.1\nName: aiter\nVersion: 1.0\n\n");
        put(&format!("{INFO}/WHEEL"), b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n");
        put(&format!("{INFO}/RECORD"), format!("{INFO}/RECORD,,\n").as_bytes());
        wheel
    }

    fn input(&self) -> PathBuf {
        self.0.path().join("fat")
    }

    fn output(&self) -> PathBuf {
        self.0.path().join("out")
    }

    /// Runs kpackfs, and returns its output.
    fn runs(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).current_dir(&self.0).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }
}

/// A code object of version 4 for the processor with this number in `e_flags`.
fn code(mach: u8) -> Vec<u8> {
    let mut code = b"\x7fELF\x02\x01\x01\x40\x02".to_vec();
    code.resize(4096, mach);
    code.splice(9..64, [0; 55]);
    for (at, byte) in [(18, 224), (48, mach), (49, 5)] {
        code.splice(at..=at, [byte]);
    }
    code
}

/// The files below a directory, sorted, without metadata and statements of splits.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true if !name.ends_with(".dist-info") => directories.push(path),
                true => {}
                false => found.push(name),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn code_objects_and_tables_leave_the_host_part_and_verify_agrees() {
    let wheel = Wheel::new();
    let said = wheel.runs(&["split", "fat", "-o", "out"]);
    assert!(said.contains("meta/hsa/gfx950/wrong.co: its path says gfx950, but its header says gfx942"), "{said}");
    let out = |part: &str| files(&wheel.output().join(part));
    assert_eq!(out("host"), ["configs/aot/M=1/kernel.hsaco", "meta/hsa/common.csv"]);
    assert_eq!(
        out("gfx942"),
        ["meta/hsa/gfx942/gemm/gemm.co", "meta/hsa/gfx942/gemm/gemm.csv", "meta/hsa/gfx950/wrong.co"]
    );
    assert_eq!(out("gfx950"), ["meta/hsa/gfx950/gemm/gemm.co", "meta/hsa/gfx950/gemm/gemm.csv"]);
    assert!(wheel.runs(&["verify", "out"]).contains("0 findings;"));
    assert!(wheel.runs(&["verify", "out", "--against", "fat"]).contains("0 findings;"));
    // A code object in the wrong part is a finding. So is a table without its code objects.
    let back = |from: &str, to: &str| {
        fs::create_dir_all(wheel.output().join(to).parent().unwrap()).unwrap();
        fs::rename(wheel.output().join(from), wheel.output().join(to)).unwrap();
    };
    back("gfx942/meta/hsa/gfx942/gemm/gemm.co", "host/meta/hsa/gfx942/gemm/gemm.co");
    let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(["verify", "out"]).current_dir(&wheel.0).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(said.contains("gemm.co: it belongs to the codeobject database of gfx942"), "{said}");
}

#[test]
fn the_handler_can_be_switched_off() {
    let wheel = Wheel::new();
    let said = wheel.runs(&["inspect", "fat", "--databases", "rocblas,miopen", "--json"]);
    assert!(!said.contains("codeobject"), "{said}");
    assert!(wheel.runs(&["inspect", "fat", "--json"]).contains("\"codeobject\""));
}

#[test]
fn one_target_alone_verifies_too() {
    let wheel = Wheel::new();
    wheel.runs(&["split", "fat", "-o", "out", "--gpu-targets", "gfx950"]);
    assert_eq!(files(&wheel.output().join("gfx950")).len(), 2);
    assert!(!wheel.output().join("gfx942").exists());
    assert!(wheel.runs(&["verify", "out", "--against", "fat"]).contains("0 findings;"));
}

#[test]
fn thin_trees_have_the_code_objects_of_their_target() {
    let wheel = Wheel::new();
    wheel.runs(&["split", "fat", "-o", "out", "--view", "thin/gfx950"]);
    let thin = files(&wheel.output().join("thin/gfx950"));
    assert_eq!(
        thin,
        [
            "configs/aot/M=1/kernel.hsaco",
            "meta/hsa/common.csv",
            "meta/hsa/gfx950/gemm/gemm.co",
            "meta/hsa/gfx950/gemm/gemm.csv"
        ]
    );
    assert!(wheel.runs(&["verify", "out/thin/gfx950", "--thin", "gfx950", "--against", "fat"]).contains("0 findings;"));
}

#[test]
fn wheels_of_loose_code_are_device_wheels() {
    let wheel = Wheel::new();
    wheel.runs(&["split", "fat", "-o", "out", "--format", "wheel"]);
    let names = files(&wheel.output());
    assert!(names.iter().any(|name| name.starts_with("amd_aiter_device_gfx942-1.0")), "{names:?}");
    assert!(wheel.runs(&["verify", "out", "--against", "fat"]).contains("0 findings;"));
}

/// A thin wheel without host code needs no host part.
#[test]
fn thin_wheels_of_loose_code_stand_for_themselves() {
    let wheel = Wheel::new();
    fs::remove_dir_all(wheel.input().join("configs")).unwrap();
    wheel.runs(&["split", "fat", "-o", "out", "--format", "thin-wheel"]);
    let made = fs::read_dir(wheel.output()).unwrap().map(|entry| entry.unwrap().path());
    let wheels: Vec<_> = made.filter(|path| path.is_dir() && !path.ends_with(".kpackfs")).collect();
    assert!(!wheels.is_empty());
    for directory in wheels {
        wheel.runs(&["verify", directory.to_str().unwrap()]);
    }
}
