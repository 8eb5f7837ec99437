//! Splits a wheel in the layout of AITER: loose code objects with tables, for two targets, and no binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::files_below;
use tempfile::TempDir;

const INFO: &str = "aiter-1.0.dist-info";

/// An unpacked wheel.
struct Wheel(TempDir);

impl Wheel {
    fn new() -> Self {
        let wheel = Self(tempfile::tempdir().unwrap());
        let put = |path: &str, bytes: &[u8]| crate::common::put(wheel.input().join(path), bytes);
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
    let files = files_below(directory).into_keys().map(|path| path.to_str().unwrap().to_owned());
    files.filter(|name| !name.contains(".dist-info/")).collect()
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

/// GPUs in another mode cannot load such code (HIP compares target IDs), so it is not there for them.
#[test]
fn code_is_there_for_gpus_in_the_mode_of_its_header() {
    let place = tempfile::tempdir().unwrap();
    let mut without_sramecc = code(0x4c);
    // EF_AMDGPU_FEATURE_SRAMECC_OFF_V4 and EF_AMDGPU_FEATURE_XNACK_OFF_V4 (LLVM, AMDGPUUsage, "AMDGPU ELF Header").
    without_sramecc[49] = 0x0a;
    crate::common::put(place.path().join("aot/gemm_gfx942.co"), &without_sramecc);
    crate::common::put(place.path().join("aot/add_gfx90a.co"), code(0x3f));
    for (gpu, status) in
        [("gfx942:sramecc-:xnack-", 0), ("gfx942:sramecc+:xnack-", 1), ("gfx942:xnack+", 1), ("gfx90a", 0)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        let output = command.args(["inspect", "--require", gpu, "."]).current_dir(&place).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{gpu}: {said}");
    }
}

/// An offload bundle of clang with code for some targets, as `hipcc --genco` writes it.
fn bundle(targets: &[&str]) -> Vec<u8> {
    let ids: Vec<_> = std::iter::once("host-x86_64-unknown-linux-gnu-".to_owned())
        .chain(targets.iter().map(|target| format!("hipv4-amdgcn-amd-amdhsa--{target}")))
        .collect();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((ids.len() as u64).to_le_bytes());
    for (number, id) in ids.iter().enumerate() {
        let (offset, size) = (4096 * number.max(1) as u64, if number == 0 { 0 } else { 4096 });
        for field in [offset, size, id.len() as u64] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(id.as_bytes());
    }
    bytes.resize(4096, 0);
    bytes.extend(targets.iter().flat_map(|_| code(0x4c)));
    bytes
}

/// A place with `fat/`.
fn tree(files: &[(&str, Vec<u8>)]) -> Wheel {
    let tree = Wheel(tempfile::tempdir().unwrap());
    for (path, bytes) in files {
        crate::common::put(tree.input().join(path), bytes);
    }
    tree
}

/// Blender's kernels, rocFFT's caches, rocSHMEM's bitcode and a plug-in for a generic target, next to files that are called
/// so and are none, or are for several GPUs.
#[test]
fn files_of_one_gpu_in_other_containers_are_moved_and_joined_again() {
    let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 19).unwrap();
    // pzstd writes a frame that decoders skip in front of each.
    let pzstd = |bytes: &[u8]| [b"\x50\x2a\x4d\x18\x04\0\0\0\0\x10\0\0", &*zstd(bytes)].concat();
    let sqlite = b"SQLite format 3\0 and pages".to_vec();
    let cycles = "addons/cycles/lib";
    let moved = [
        (format!("{cycles}/kernel_gfx942.fatbin.zst"), "gfx942", zstd(&bundle(&["gfx942"]))),
        (format!("{cycles}/kernel_rt_gfx1100.hipfb.zst"), "gfx1100", zstd(&bundle(&["gfx1100"]))),
        (format!("{cycles}/kernel_rt_gfx942.hipfb.zst"), "gfx942", pzstd(&bundle(&["gfx942"]))),
        (format!("{cycles}/kernel_gfx1030.fatbin.zst"), "gfx1100", zstd(&bundle(&["gfx1100"]))),
        ("lib/rocfft_kernel_cache_gfx942.db".to_owned(), "gfx942", sqlite.clone()),
        ("lib/rocfft/rocfft_kernel_cache_gfx1100.db".to_owned(), "gfx1100", sqlite.clone()),
        ("lib/librocshmem_device_gfx942.bc".to_owned(), "gfx942", b"BC\xc0\xde and more".to_vec()),
        ("lib/libMIOpenCKGroupedConv_gfx12-generic.so".to_owned(), "gfx12_0", b"a library".to_vec()),
    ];
    let stays = [
        (format!("{cycles}/kernel_gfx950.fatbin.zst"), zstd(&bundle(&["gfx942", "gfx950"]))),
        (format!("{cycles}/kernel_compute_75.ptx.zst"), zstd(b"text")),
        (format!("{cycles}/kernel_gfx906.fatbin.xz"), b"\xfd7zXZ\0".to_vec()),
        ("lib/rocfft/rocfft_kernel_cache.db".to_owned(), sqlite),
        ("lib/rocfft_kernel_cache_gfx90a.db".to_owned(), b"no database".to_vec()),
        ("lib/librocshmem_device_gfx90a.bc".to_owned(), b"no bitcode".to_vec()),
    ];
    let all: Vec<_> = moved.iter().map(|(path, _, bytes)| (path.as_str(), bytes.clone())).collect();
    let all = [all, stays.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect()].concat();
    let place = tree(&all);
    let said = place.runs(&["split", "fat", "-o", "out"]);
    for (path, part, bytes) in &moved {
        assert_eq!(&fs::read(place.output().join(part).join(path)).unwrap(), bytes, "{path}");
        assert!(!place.output().join("host").join(path).exists(), "{path}");
    }
    for (path, bytes) in &stays {
        assert_eq!(&fs::read(place.output().join("host").join(path)).unwrap(), bytes, "{path}");
    }
    for (name, reason) in [
        ("kernel_gfx1030.fatbin.zst", "its path says gfx1030, but its header says gfx1100"),
        ("kernel_gfx950.fatbin.zst", "it stays in the host part: it has code for several GPUs"),
        ("kernel_gfx906.fatbin.xz", "it stays in the host part: only zstd frames are looked into"),
        ("rocfft_kernel_cache_gfx90a.db", "but it is no SQLite file"),
        ("librocshmem_device_gfx90a.bc", "but it is none"),
    ] {
        assert!(said.lines().any(|line| line.contains(name) && line.contains(reason)), "{name}: {said}");
    }
    assert!(!said.contains("ptx.zst") && !said.contains("rocfft_kernel_cache.db"), "{said}");
    assert!(place.runs(&["verify", "out"]).contains("0 findings;"));
    assert!(place.runs(&["verify", "out", "--against", "fat"]).contains("0 findings;"));
    // The split is an input, too.
    for view in ["merged/gfx942", "thin/gfx942"] {
        place.runs(&["split", "out", "-o", "views", "--force", "--view", view]);
        let own = moved.iter().filter(|(_, part, _)| *part == "gfx942").map(|(path, ..)| path.clone());
        let mut expected: Vec<_> = own.chain(stays.iter().map(|(path, _)| path.clone())).collect();
        expected.sort();
        let shown = place.0.path().join("views").join(view);
        assert_eq!(files(&shown), expected, "{view}");
        for path in &expected {
            assert_eq!(fs::read(shown.join(path)).unwrap(), fs::read(place.input().join(path)).unwrap(), "{path}");
        }
    }
    // Other splitters leave caches and bitcode in the host part.
    fs::rename(place.output().join("gfx942/lib/librocshmem_device_gfx942.bc"), place.output().join("host/x.bc"))
        .unwrap();
    fs::rename(place.output().join("host/x.bc"), place.output().join("host/lib/librocshmem_device_gfx942.bc")).unwrap();
    let verify = || Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(["verify", "out"]).current_dir(&place.0).output();
    let said = String::from_utf8(verify().unwrap().stdout).unwrap();
    assert!(said.contains("it belongs to the rocshmem database of gfx942"), "{said}");
    fs::remove_dir_all(place.output().join(".kpackfs")).unwrap();
    let said = String::from_utf8(verify().unwrap().stdout).unwrap();
    assert!(!said.contains("rocshmem database"), "{said}");
}

/// The GPUs in `sizes` of a report, with how each is served.
fn users(place: &Wheel, input: &str) -> Vec<(String, String)> {
    let report: serde_json::Value = serde_json::from_str(&place.runs(&["inspect", input, "--json"])).unwrap();
    let users = report.get("users").and_then(serde_json::Value::as_object).unwrap().iter();
    users
        .map(|(gpu, user)| (gpu.clone(), user.get("served_by").and_then(serde_json::Value::as_str).unwrap().to_owned()))
        .collect()
}

/// Code that GPUs share makes each of them a user, if the input has nothing else for one of them.
#[test]
fn code_of_families_and_generic_code_serve_each_of_their_gpus() {
    let image = |name: &str| (format!("lib/aotriton.images/amd-{name}/flash/x.aks2"), b"code".to_vec());
    let generic = ("hsa/gfx9-4-generic/k.co".to_owned(), code(0x5f));
    let gpus = |names: &[&str], how: &str| -> Vec<_> {
        names.iter().map(|name| ((*name).to_owned(), how.to_owned())).collect()
    };
    let rdna3 = ["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"];
    for (files, expected) in [
        (vec![image("gfx11xx")], gpus(&rdna3, "family")),
        (vec![image("gfx120x")], gpus(&["gfx1200", "gfx1201"], "family")),
        (vec![generic.clone()], gpus(&["gfx942", "gfx950"], "generic")),
        (vec![image("gfx11xx"), image("gfx1151")], gpus(&["gfx1151"], "own")),
        (
            vec![("lib/libMIOpenCKGroupedConv_gfx12-generic.so".to_owned(), b"code".to_vec())],
            gpus(&["gfx1200", "gfx1201"], "generic"),
        ),
        (
            vec![image("gfx120x"), generic.clone(), image("gfx942")],
            [gpus(&["gfx1200", "gfx1201"], "family"), gpus(&["gfx942"], "own"), gpus(&["gfx950"], "generic")].concat(),
        ),
    ] {
        let place = tree(&files.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect::<Vec<_>>());
        assert_eq!(users(&place, "fat"), expected, "{files:?}");
        for (gpu, _) in &expected {
            for view in ["merged", "thin"] {
                let (out, part) = (format!("{view}-{gpu}"), format!("{view}/{gpu}"));
                place.runs(&["split", "fat", "-o", &out, "--view", &part]);
                let shown = self::files(&place.0.path().join(out).join(part));
                assert!(
                    shown.iter().all(|path| files.iter().any(|(of, _)| of == path)) && !shown.is_empty(),
                    "{shown:?}"
                );
            }
            // Of several databases, each needs files.
            let is_judged = files.len() == 1;
            assert!(!is_judged || place.runs(&["inspect", "fat", "--require", gpu]).contains("Passed"), "{gpu}");
        }
    }
    let place = tree(&[("lib/aotriton.images/amd-gfx11xx/flash/x.aks2", b"code".to_vec())]);
    assert!(place.runs(&["inspect", "fat"]).contains("host + gfx11 (code of its family)"));
    let place = tree(&[("hsa/gfx9-4-generic/k.co", code(0x5f))]);
    assert!(place.runs(&["inspect", "fat"]).contains("host + gfx9 (generic code)"));
    let output = Command::new(env!("CARGO_BIN_EXE_kpackfs"))
        .args(["inspect", "fat", "--require", "gfx906"])
        .current_dir(&place.0)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "gfx906 runs no code for gfx9-4-generic");
}

/// A wheel whose only code is for a family has a thin wheel for each of its GPUs.
#[test]
fn thin_wheels_of_code_for_a_family() {
    let wheel = Wheel::new();
    fs::remove_dir_all(wheel.input().join("meta")).unwrap();
    fs::remove_dir_all(wheel.input().join("configs")).unwrap();
    crate::common::put(wheel.input().join("pyaotriton/lib/aotriton.images/amd-gfx120x/flash/x.aks2"), b"code");
    wheel.runs(&["split", "fat", "-o", "out", "--format", "thin-wheel"]);
    let made = fs::read_dir(wheel.output()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut gpus: Vec<_> = made.filter(|name| name.starts_with("gfx")).collect();
    gpus.sort();
    assert_eq!(gpus, ["gfx1200", "gfx1201"]);
    wheel.runs(&["verify", "out/gfx1201"]);
    let said = wheel.runs(&["inspect", "out"]);
    let row = said.lines().find(|line| line.trim_start().starts_with("gfx1201 ")).unwrap_or(&said);
    let wheels: Vec<_> = row.split_whitespace().take(2).collect();
    assert_eq!(wheels, ["gfx1201", "1"], "a user needs one of them: {said}");
}
