//! Kernel databases with real names, damaged in different ways: `why` names each damage, and the command that it prints
//! repairs it. Healthy trees give nothing.
//!
//! Names of files are those of ROCm 6.4 to 7.14 (flat, and a directory for each GPU). Code objects are headers only.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use tempfile::TempDir;

use crate::common::{self, code_header, copied_program};

const ROCBLAS: &str = "lib/rocblas/library";
const HIPBLASLT: &str = "lib/hipblaslt/library";
const MIOPEN: &str = "share/miopen/db";
const IMAGES: &str = "lib/aotriton.images";
const MAPPING: &str = "TensileLiteLibrary_lazy_Mapping.dat";
/// Shapes of matrices in names.
const TYPE: &str = "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk";
const FALLBACK: &str = "TensileLibrary_Type_SS_Contraction_l_Alik_Bljk_Cijk_Dijk_fallback";
const LT: &str = "TensileLibrary_BB_BB_HA_Bias_SAV_UA_Type_BB_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk";

/// An installation below a directory.
struct Tree {
    place: TempDir,
}

/// A lazy catalogue that names these files.
fn lazy(names: &[String]) -> Vec<u8> {
    let rows: Vec<_> =
        names.iter().map(|name| json!({"library": {"type": "Placeholder", "value": name}, "predicate": 1})).collect();
    rmp_serde::to_vec(&json!({"solutions": [], "library": {"type": "Hardware", "rows": rows}, "version": "4.33.0"}))
        .unwrap()
}

impl Tree {
    /// ROCm with rocBLAS, hipBLASLt, MIOpen and AOTriton for gfx90a and gfx1030, all files in one directory.
    fn flat() -> Self {
        let it = Self { place: tempfile::tempdir().unwrap() };
        it.libraries("plain.so");
        for processor in ["gfx90a", "gfx1030"] {
            it.rocblas(ROCBLAS, processor, FALLBACK);
        }
        it.put(&format!("{ROCBLAS}/{FALLBACK}.dat"), b"\x80");
        it.put(&format!("{ROCBLAS}/TensileManifest.txt"), b"");
        it.hipblaslt(HIPBLASLT, "gfx90a");
        it.put(&format!("{HIPBLASLT}/hipblasltExtOpLibrary.dat"), b"\x80");
        it.others();
        it
    }

    /// The same in directories for each GPU, as ROCm has them since 2026.
    fn divided() -> Self {
        let it = Self { place: tempfile::tempdir().unwrap() };
        it.libraries("plain.so");
        for processor in ["gfx90a", "gfx1030"] {
            let directory = format!("{ROCBLAS}/{processor}");
            let fallback = format!("{FALLBACK}_{processor}");
            it.rocblas(&directory, processor, &fallback);
            it.put(&format!("{directory}/{fallback}.dat"), b"\x80");
        }
        it.hipblaslt(&format!("{HIPBLASLT}/gfx90a"), "gfx90a");
        it.others();
        it
    }

    /// rocBLAS for a generic target, as ROCm/rocm-libraries#5243 makes it, with links for fallback kernels.
    fn generic() -> Self {
        let it = Self { place: tempfile::tempdir().unwrap() };
        it.libraries("plain.so");
        it.rocblas(ROCBLAS, "gfx10-3-generic", FALLBACK);
        it.put(&format!("{ROCBLAS}/{FALLBACK}.dat"), b"\x80");
        let generic = format!("{FALLBACK}_gfx10-3-generic.hsaco");
        symlink(generic, it.at(&format!("{ROCBLAS}/{FALLBACK}_gfx1030.hsaco"))).unwrap();
        it
    }

    /// rocBLAS with one catalogue for all GPUs, as Debian 13 has it. It has a row for gfx90a, and none for gfx1030.
    fn merged() -> Self {
        let it = Self { place: tempfile::tempdir().unwrap() };
        it.libraries("plain.so");
        let processor = json!({"type": "Processor", "value": "gfx90a"});
        let rows = json!([{"predicate": {"type": "AMDGPU", "value": processor}}, {"predicate": {"type": "TruePred"}}]);
        let tree =
            json!({"solutions": [{"name": "Cijk_ISA90A_gfx1030"}], "library": {"type": "Hardware", "rows": rows}});
        it.put(&format!("{ROCBLAS}/TensileLibrary.dat"), &rmp_serde::to_vec(&tree).unwrap());
        it.put(&format!("{ROCBLAS}/TensileLibrary_gfx90a.co"), &code_header("gfx90a"));
        for processor in ["gfx90a", "gfx1030"] {
            it.put(&format!("{ROCBLAS}/Kernels.so-000-{processor}.hsaco"), &code_header(processor));
        }
        it
    }

    /// A package that installed these files, and the libraries.
    fn package(&self, files: &[&str]) {
        self.put("demo-1.0.dist-info/INSTALLER", b"uv\n");
        self.put("demo-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n");
        let digest = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
        let row = |path: &&str| format!("{path},sha256={digest},{}\n", self.at(path).metadata().unwrap().len());
        let rows: String = files.iter().map(row).collect();
        self.put("demo-1.0.dist-info/RECORD", format!("{rows}lib/librocblas.so.5.2,,\n").as_bytes());
    }

    fn libraries(&self, name: &str) {
        let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        self.put("lib/librocblas.so.5.2", &fs::read(fixture(name)).unwrap());
        symlink("librocblas.so.5.2", self.at("lib/librocblas.so.5")).unwrap();
        for name in ["libhipblaslt.so.1", "libMIOpen.so.1", "libaotriton_v2.so.0.11.1"] {
            self.put(&format!("lib/{name}"), &fs::read(fixture("host-only.so")).unwrap());
        }
    }

    fn rocblas(&self, directory: &str, processor: &str, fallback: &str) {
        let own = format!("{TYPE}_{processor}");
        self.put(
            &format!("{directory}/TensileLibrary_lazy_{processor}.dat"),
            &lazy(&[own.clone(), fallback.to_owned()]),
        );
        self.put(&format!("{directory}/{own}.dat"), b"\x80");
        self.put(&format!("{directory}/{own}.co"), &code_header(processor));
        let code_of_fallback =
            if fallback.ends_with(processor) { fallback.to_owned() } else { format!("{fallback}_{processor}") };
        self.put(&format!("{directory}/{code_of_fallback}.hsaco"), &code_header(processor));
        let modes: &[&str] = if processor == "gfx90a" { &["-xnack+", "-xnack-"] } else { &[""] };
        for mode in modes {
            self.put(&format!("{directory}/Kernels.so-000-{processor}{mode}.hsaco"), &code_header(processor));
        }
    }

    fn hipblaslt(&self, directory: &str, processor: &str) {
        let own = format!("{LT}_{processor}");
        self.put(&format!("{directory}/TensileLibrary_lazy_{processor}.dat"), &lazy(std::slice::from_ref(&own)));
        self.put(&format!("{directory}/{own}.dat"), b"\x80");
        self.put(&format!("{directory}/{own}.co"), &code_header(processor));
        self.put(&format!("{directory}/extop_{processor}.co"), &code_header(processor));
        self.put(&format!("{directory}/Kernels.so-000-{processor}.hsaco"), &code_header(processor));
    }

    /// rocBLAS of Debian, whose library names the version in the path of its directory, and hipBLASLt with a mapping.
    fn debian() -> Self {
        let it = Self::flat();
        it.rename("lib/rocblas/library", "lib/rocblas/5/library");
        it.put("lib/rocblas/4.4.1/library/TensileLibrary.dat", b"\x80");
        for (library, text) in [("librocblas.so.5.2", "/rocblas/5/library"), ("libhipblaslt.so.1", MAPPING)] {
            let mut content = fs::read(it.at(&format!("lib/{library}"))).unwrap();
            content.extend(text.as_bytes());
            it.put(&format!("lib/{library}"), &content);
        }
        it.put(&format!("{HIPBLASLT}/{MAPPING}"), b"\x81\x00\xa1x");
        it
    }

    fn others(&self) {
        for name in ["gfx90a68.db.txt", "gfx90a68.HIP.fdb.txt", "gfx90a6e.HIP.fdb.txt", "gfx1030_36.HIP.fdb.txt"] {
            self.put(&format!("{MIOPEN}/{name}"), b"key=value\n");
        }
        self.put(&format!("{MIOPEN}/gfx90a.tn.model"), b"{}");
        for kernel in ["attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_preprocess"] {
            self.put(&format!("{IMAGES}/amd-gfx90a/flash/{kernel}.zip"), b"PK\x03\x04 and more");
            self.put(&format!("{IMAGES}/amd-gfx11xx/flash/{kernel}/FONLY__gfx11xx.aks2"), b"AKS2 and more");
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn put(&self, path: &str, content: &[u8]) {
        common::put(self.at(path), content);
    }

    fn remove(&self, path: &str) {
        let path = self.at(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::create_dir_all(self.at(to).parent().unwrap()).unwrap();
        fs::rename(self.at(from), self.at(to)).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The output of `why` for a GPU and other arguments after `before`, in the directory of the tree. The command runs as a
    /// user without privileges, so that modes of files count.
    fn why(&self, before: &str, arguments: &str) -> (Option<i32>, String) {
        fs::set_permissions(self.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = if rustix::process::geteuid().is_root() {
            "setpriv --reuid 65534 --regid 65534 --clear-groups"
        } else {
            ""
        };
        let script = format!("{before}\nexec {user} \"$KPACKFS\" why --target {arguments}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("KPACKFS", copied_program(self.place.path())).current_dir(self.place.path());
        shell.env("UV_INDEX_URL", "https://wheels.example/simple");
        for variable in ["ROCBLAS_TENSILE_LIBPATH", "HIPBLASLT_TENSILE_LIBPATH", "MIOPEN_SYSTEM_DB_PATH"] {
            shell.env_remove(variable);
        }
        let Output { status, stdout, stderr } = shell.output().unwrap();
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }
}

/// A damage: what it is, the tree, what breaks it, the GPU and other arguments, and what the line of the cause contains.
type Damage = (&'static str, fn() -> Tree, fn(&Tree), &'static str, &'static str);

/// A healthy tree: what it is, the tree, what is changed, and GPUs.
type Healthy = (&'static str, fn() -> Tree, fn(&Tree), &'static [&'static str]);

/// Damages for which there is no command.
const NAMED: &[Damage] = &[
    (
        "rocBLAS has no files for the GPU, though it has code (ROCm/TheRock#5179)",
        Tree::flat,
        |it| {
            for entry in fs::read_dir(it.at(ROCBLAS)).unwrap().map(|it| it.unwrap()) {
                if entry.file_name().to_str().unwrap().contains("gfx1030") {
                    fs::remove_file(entry.path()).unwrap();
                }
            }
        },
        "gfx1030 .",
        "rocblas/library has no files for gfx1030; it has gfx90a",
    ),
    (
        "the catalogue is gone",
        Tree::flat,
        |it| it.remove(&format!("{ROCBLAS}/TensileLibrary_lazy_gfx90a.dat")),
        "gfx90a lib/librocblas.so.5",
        "TensileLibrary_lazy_gfx90a.dat is missing, the catalogue of the other files for gfx90a",
    ),
    (
        "a catalogue that it names is gone",
        Tree::divided,
        |it| it.remove(&format!("{ROCBLAS}/gfx1030/{TYPE}_gfx1030.dat")),
        "gfx1030 .",
        "_Dijk_gfx1030.dat is missing, which ",
    ),
    (
        "the fallback for all GPUs is gone (openxla/xla#44993)",
        Tree::flat,
        |it| it.remove(&format!("{ROCBLAS}/{FALLBACK}.dat")),
        "gfx90a .",
        "_fallback.dat is missing, which ",
    ),
    (
        "code of a catalogue is gone",
        Tree::flat,
        |it| it.remove(&format!("{ROCBLAS}/{TYPE}_gfx90a.co")),
        "gfx90a .",
        "_gfx90a.co or .hsaco is missing, the code of a catalogue",
    ),
    (
        "helper kernels are gone",
        Tree::divided,
        |it| it.remove(&format!("{ROCBLAS}/gfx1030/Kernels.so-000-gfx1030.hsaco")),
        "gfx1030 .",
        "Kernels.so-000-gfx1030.hsaco is missing, the helper kernels",
    ),
    (
        "the catalogue is of another version",
        Tree::flat,
        |it| {
            let names =
                ["TensileLibrary_Type_HH_new_gfx90a".to_owned(), "TensileLibrary_Type_SS_new_gfx90a".to_owned()];
            it.put(&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat"), &lazy(&names));
            it.put(&format!("{HIPBLASLT}/{TYPE}_gfx90a.dat"), b"\x80");
        },
        "gfx90a .",
        "is of another version than the other files: it names 2 catalogues",
    ),
    (
        "code is of another GPU",
        Tree::flat,
        |it| it.put(&format!("{ROCBLAS}/{TYPE}_gfx90a.co"), &code_header("gfx942")),
        "gfx90a .",
        "_gfx90a.co has code for gfx942",
    ),
    (
        "code is truncated",
        Tree::divided,
        |it| it.put(&format!("{HIPBLASLT}/gfx90a/{LT}_gfx90a.co"), b"\x7fELF"),
        "gfx90a .",
        "_gfx90a.co is damaged: ",
    ),
    (
        "helper kernels for this mode are damaged",
        Tree::flat,
        |it| it.put(&format!("{ROCBLAS}/Kernels.so-000-gfx90a-xnack+.hsaco"), b""),
        "gfx90a:xnack+ .",
        "-xnack+.hsaco is damaged: ",
    ),
    (
        "the catalogue is empty",
        Tree::flat,
        |it| it.put(&format!("{ROCBLAS}/TensileLibrary_lazy_gfx1030.dat"), b""),
        "gfx1030 .",
        "TensileLibrary_lazy_gfx1030.dat is damaged: it is empty",
    ),
    (
        "an image of attention is gone",
        Tree::flat,
        |it| it.remove(&format!("{IMAGES}/amd-gfx90a/flash/bwd_kernel_dq.zip")),
        "gfx90a .",
        "flash/bwd_kernel_dq is missing, a kernel of attention",
    ),
    (
        "MIOpen's search results are gone",
        Tree::divided,
        |it| it.remove(&format!("{MIOPEN}/gfx90a68.HIP.fdb.txt")),
        "gfx90a .",
        "gfx90a68.HIP.fdb.txt is missing, so MIOpen searches again",
    ),
    (
        "a catalogue is a dangling link",
        Tree::divided,
        |it| {
            it.remove(&format!("{ROCBLAS}/gfx90a/{TYPE}_gfx90a.dat"));
            symlink("../gone", it.at(&format!("{ROCBLAS}/gfx90a/{TYPE}_gfx90a.dat"))).unwrap();
        },
        "gfx90a .",
        "_gfx90a.dat is missing, which ",
    ),
    (
        "a catalogue is an empty file",
        Tree::flat,
        |it| it.put(&format!("{ROCBLAS}/{TYPE}_gfx1030.dat"), b""),
        "gfx1030 .",
        "_gfx1030.dat is damaged: it is empty",
    ),
    (
        "the catalogue is a page of a web server",
        Tree::flat,
        |it| it.put(&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat"), b"<!DOCTYPE html>"),
        "gfx90a .",
        "TensileLibrary_lazy_gfx90a.dat is damaged: it is no msgpack tree",
    ),
    (
        "a compressed catalogue is truncated",
        Tree::flat,
        |it| {
            it.remove(&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat"));
            it.put(&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat.zlib"), b"\x78\x9c\x03");
        },
        "gfx90a .",
        "TensileLibrary_lazy_gfx90a.dat.zlib is damaged: it cannot be decompressed",
    ),
    (
        "all code is gone",
        Tree::divided,
        |it| {
            for name in [
                format!("{TYPE}_gfx1030.co"),
                format!("{FALLBACK}_gfx1030.hsaco"),
                "Kernels.so-000-gfx1030.hsaco".to_owned(),
            ] {
                it.remove(&format!("{ROCBLAS}/gfx1030/{name}"));
            }
        },
        "gfx1030 .",
        "library/gfx1030 has no code for gfx1030",
    ),
    (
        "a database that is not lazy has no code",
        Tree::flat,
        |it| {
            it.remove(ROCBLAS);
            it.put(&format!("{ROCBLAS}/TensileLibrary_gfx90a.dat"), b"\x80");
        },
        "gfx90a . --all",
        "rocBLAS warning: No paths matched ",
    ),
    (
        "code of a database that is not lazy is gone, and helper kernels are left",
        Tree::merged,
        |it| it.remove(&format!("{ROCBLAS}/TensileLibrary_gfx90a.co")),
        "gfx90a .",
        "TensileLibrary_gfx90a.co or TensileLibrary_gfx90a.hsaco is missing: ",
    ),
    (
        "code is text",
        Tree::flat,
        |it| it.put(&format!("{ROCBLAS}/{FALLBACK}_gfx90a.hsaco"), b"version https://git-lfs.github.com/spec/v1"),
        "gfx90a .",
        "_fallback_gfx90a.hsaco is damaged: it is no code object",
    ),
    (
        "hipBLASLt has nothing, and is named",
        Tree::divided,
        |it| it.remove("lib/hipblaslt"),
        "gfx90a lib/libhipblaslt.so.1",
        "hipblaslt/library is not there",
    ),
    (
        "an archive of images is empty",
        Tree::flat,
        |it| it.put(&format!("{IMAGES}/amd-gfx90a/flash/attn_fwd.zip"), b""),
        "gfx90a .",
        "attn_fwd.zip is damaged: it is no archive of images",
    ),
    (
        "the directory of kernels is gone",
        Tree::divided,
        |it| it.remove(&format!("{IMAGES}/amd-gfx90a/flash")),
        "gfx90a .",
        "amd-gfx90a/flash is missing",
    ),
    (
        "MIOpen's results are empty",
        Tree::flat,
        |it| it.put(&format!("{MIOPEN}/gfx90a68.db.txt"), b""),
        "gfx90a .",
        "gfx90a68.db.txt is damaged: it is empty",
    ),
    (
        "compiled kernels are there for another GPU only",
        Tree::flat,
        |it| it.put(&format!("{MIOPEN}/gfx1030_36.kdb"), b"SQLite format 3\0"),
        "gfx90a .",
        "and none for this GPU, so MIOpen compiles them at their first use",
    ),
    (
        "the mapping is gone",
        Tree::debian,
        |it| it.remove(&format!("{HIPBLASLT}/{MAPPING}")),
        "gfx90a .",
        "TensileLiteLibrary_lazy_Mapping.dat is missing, the mapping of solutions to catalogues",
    ),
    (
        "a catalogue is truncated",
        Tree::divided,
        |it| {
            let path = format!("{HIPBLASLT}/gfx90a/TensileLibrary_lazy_gfx90a.dat");
            let content = fs::read(it.at(&path)).unwrap();
            it.put(&path, content.get(..content.len() - 4).unwrap());
        },
        "gfx90a .",
        "TensileLibrary_lazy_gfx90a.dat is damaged: it is no whole msgpack tree",
    ),
    (
        "a bundle of code is truncated",
        Tree::flat,
        |it| it.put(&format!("{ROCBLAS}/{TYPE}_gfx90a.co"), b"CCOB\x02\0\x01\0\xff\xff\0\0"),
        "gfx90a .",
        "_gfx90a.co is damaged: it is no whole bundle",
    ),
    (
        "code lacks its end",
        Tree::flat,
        |it| {
            let mut truncated = code_header("gfx90a");
            // `e_shoff`, `e_shentsize` and `e_shnum`.
            truncated.get_mut(0x28..0x2a).unwrap().copy_from_slice(&[0, 8]);
            truncated.get_mut(0x3a..0x3e).unwrap().copy_from_slice(&[64, 0, 3, 0]);
            it.put(&format!("{ROCBLAS}/{TYPE}_gfx90a.co"), &truncated);
        },
        "gfx90a .",
        "bytes, but its headers need",
    ),
];

/// Damages whose line has a command that repairs them.
const MENDED: &[Damage] = &[
    (
        "helper kernels are for another mode",
        Tree::divided,
        |it| it.remove(&format!("{ROCBLAS}/gfx90a/Kernels.so-000-gfx90a-xnack-.hsaco")),
        "gfx90a .",
        "the helper kernels need XNACK on, and the GPU has it off",
    ),
    (
        "the files are in another directory",
        Tree::flat,
        |it| it.rename("lib/rocblas", "lib64/rocblas"),
        "gfx1030 .",
        "lib64/rocblas/library, where it does not look",
    ),
    (
        "the directory may not be read",
        Tree::flat,
        |it| it.mode(ROCBLAS, 0o700),
        "gfx1030 .",
        "lib/rocblas/library may not be read",
    ),
    (
        "code may not be read",
        Tree::divided,
        |it| it.mode(&format!("{ROCBLAS}/gfx90a/{TYPE}_gfx90a.co"), 0o600),
        "gfx90a .",
        "_gfx90a.co may not be read",
    ),
    (
        "the catalogue may not be read",
        Tree::flat,
        |it| it.mode(&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat"), 0o600),
        "gfx90a .",
        "TensileLibrary_lazy_gfx90a.dat may not be read",
    ),
    (
        "an empty directory hides the files",
        Tree::flat,
        |it| fs::create_dir(it.at(&format!("{ROCBLAS}/gfx1030"))).unwrap(),
        "gfx1030 .",
        "library/gfx1030 hides the files for gfx1030",
    ),
    (
        "AOTriton's images are elsewhere",
        Tree::flat,
        |it| it.rename(IMAGES, "share/aotriton.images"),
        "gfx90a .",
        "share/aotriton.images, where it does not look",
    ),
    (
        "MIOpen's search results may not be read",
        Tree::flat,
        |it| it.mode(&format!("{MIOPEN}/gfx90a6e.HIP.fdb.txt"), 0o600),
        "gfx90a .",
        "note: ",
    ),
    (
        "the directory above may not be entered",
        Tree::flat,
        |it| it.mode("lib/rocblas", 0o700),
        "gfx1030 .",
        "lib/rocblas may not be entered",
    ),
    (
        "a stray directory is found first",
        Tree::flat,
        |it| fs::create_dir_all(it.at("lib/library")).unwrap(),
        "gfx90a . --binary librocblas.so.5",
        "lib/library has no files for gfx90a; it has nothing; there are some in ",
    ),
    (
        "the files are for XNACK on",
        Tree::divided,
        |it| it.rename(&format!("{ROCBLAS}/gfx90a"), &format!("{ROCBLAS}/gfx90a-xnack+")),
        "gfx90a .",
        "gfx90a-xnack+ is for XNACK on only",
    ),
    (
        "fallback kernels of a generic target (ROCm/rocm-libraries#9366)",
        Tree::generic,
        |it| it.remove(&format!("{ROCBLAS}/{FALLBACK}_gfx1030.hsaco")),
        "gfx1030 .",
        "_fallback_gfx1030.hsaco is missing: the files are for gfx10-3-generic",
    ),
    (
        "helper kernels may not be read",
        Tree::divided,
        |it| it.mode(&format!("{HIPBLASLT}/gfx90a/Kernels.so-000-gfx90a.hsaco"), 0o200),
        "gfx90a .",
        "Kernels.so-000-gfx90a.hsaco may not be read",
    ),
    (
        "hipBLASLt's files are in another directory",
        Tree::flat,
        |it| it.rename(HIPBLASLT, "hipblaslt/library"),
        "gfx90a .",
        "hipblaslt/library, where it does not look",
    ),
    (
        "images may not be read",
        Tree::flat,
        |it| it.mode(&format!("{IMAGES}/amd-gfx90a/flash/bwd_preprocess.zip"), 0),
        "gfx90a .",
        "bwd_preprocess.zip may not be read",
    ),
    (
        "MIOpen's directory may not be entered",
        Tree::flat,
        |it| it.mode("share/miopen", 0o700),
        "gfx90a .",
        "share/miopen may not be entered",
    ),
    (
        "MIOpen's directory is elsewhere",
        Tree::divided,
        |it| it.rename("share/miopen", "lib/share/miopen"),
        "gfx90a .",
        "lib/share/miopen/db, where it does not look",
    ),
    (
        "a file of a package is gone",
        Tree::flat,
        |it| {
            it.package(&[&format!("{ROCBLAS}/TensileLibrary_lazy_gfx90a.dat")]);
            it.remove(&format!("{ROCBLAS}/TensileLibrary_lazy_gfx90a.dat"));
        },
        "gfx90a lib/librocblas.so.5",
        "TensileLibrary_lazy_gfx90a.dat of demo==1.0 is gone",
    ),
    (
        "all files of a package for hipBLASLt are gone",
        Tree::flat,
        |it| {
            it.package(&[&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat")]);
            it.remove("lib/hipblaslt");
        },
        "gfx90a .",
        "TensileLibrary_lazy_gfx90a.dat of demo==1.0 is gone",
    ),
    (
        "the directory is that of another version",
        Tree::debian,
        |it| {
            it.remove("lib/rocblas/4.4.1");
            it.rename("lib/rocblas/5", "lib/rocblas/4.4.1");
        },
        "gfx90a .",
        "lib/rocblas/library is not there; there are some in",
    ),
    (
        "the directory with the version may not be entered",
        Tree::debian,
        |it| it.mode("lib/rocblas/5", 0o700),
        "gfx90a .",
        "lib/rocblas/5 may not be entered",
    ),
    (
        "the mapping may not be read",
        Tree::debian,
        |it| it.mode(&format!("{HIPBLASLT}/{MAPPING}"), 0o600),
        "gfx90a .",
        "TensileLiteLibrary_lazy_Mapping.dat may not be read",
    ),
    (
        "a file of a package was replaced",
        Tree::divided,
        |it| {
            let path = format!("{ROCBLAS}/gfx90a/{TYPE}_gfx90a.co");
            it.package(&[&path]);
            it.put(&path, b"");
        },
        "gfx90a .",
        "of demo==1.0 was replaced: its size is another one",
    ),
];

/// A variable that leads elsewhere, in place of what spoils a tree.
type ChangedVariable = (&'static str, fn() -> Tree, &'static str, &'static str, &'static str);

const VARIABLES: &[ChangedVariable] = &[
    (
        "the variable leads elsewhere",
        Tree::flat,
        "ROCBLAS_TENSILE_LIBPATH=/opt/rocm-5.0/lib/rocblas/library",
        "gfx90a .",
        "ROCBLAS_TENSILE_LIBPATH is set, and /opt/rocm-5.0/lib/rocblas/library is not there",
    ),
    (
        "hipBLASLt's variable leads to the directory above (ROCm/TheRock#7976)",
        Tree::divided,
        "HIPBLASLT_TENSILE_LIBPATH=$PWD/lib/hipblaslt/library",
        "gfx90a .",
        "HIPBLASLT_TENSILE_LIBPATH",
    ),
    (
        "MIOpen's variable leads elsewhere",
        Tree::flat,
        "MIOPEN_SYSTEM_DB_PATH=/nowhere",
        "gfx90a .",
        "MIOPEN_SYSTEM_DB_PATH is set, and /nowhere is not there",
    ),
    (
        "an empty variable leads rocBLAS to the root directory",
        Tree::flat,
        "ROCBLAS_TENSILE_LIBPATH=",
        "gfx90a .",
        "ROCBLAS_TENSILE_LIBPATH is set, and / has no files for gfx90a",
    ),
    (
        "an empty variable leads hipBLASLt to the working directory",
        Tree::flat,
        "HIPBLASLT_TENSILE_LIBPATH=",
        "gfx90a lib/libhipblaslt.so.1",
        "HIPBLASLT_TENSILE_LIBPATH is set, and . has no files for gfx90a",
    ),
];

/// Asks about a damaged tree, and runs the command of the line with the cause. Those of packages are not run: nothing is
/// installed here.
fn check(name: &str, tree: &Tree, variable: &str, arguments: &str, expected: &str, mends: bool) {
    let before = if variable.is_empty() { String::new() } else { format!("export {variable}") };
    let (code, said) = tree.why(&before, arguments);
    let lines = || said.lines().filter(|line| line.contains(expected));
    let is_note = lines().any(|line| line.starts_with("note: "));
    let command = lines().find_map(|line| Some(line.split_once("; run: ")?.1));
    // Code may be in a directory that cannot be listed.
    let is_unread = said.lines().any(|line| line.starts_with("not read: "));
    let right = if is_note && is_unread { 3 } else { i32::from(!is_note) };
    assert!(lines().next().is_some() && code == Some(right), "{name}: exit code {code:?}: {said}");
    assert_eq!(command.is_some(), mends, "{name}: {said}");
    if let Some(command) = command.filter(|command| !command.contains("pip install")) {
        let (code, after) = tree.why(&format!("{before}\n{command}"), arguments);
        assert!(code == Some(0) && !after.contains("note: "), "{name}: not mended by {command}: {after}");
    }
}

#[test]
fn each_damage_is_named() {
    for (name, tree, spoil, arguments, expected) in NAMED {
        let tree = tree();
        spoil(&tree);
        check(name, &tree, "", arguments, expected, false);
    }
}

/// `inspect` says of an input what `why` says of the disk.
#[test]
fn catalogues_that_lead_to_nothing_are_missing() {
    for target in ["nothing", "/nonexistent/kpackfs", "../../../../../../../../../../nonexistent/kpackfs"] {
        let tree = Tree::flat();
        let catalogue = format!("{ROCBLAS}/{TYPE}_gfx90a.dat");
        tree.remove(&catalogue);
        symlink(target, tree.at(&catalogue)).unwrap();
        let expected = "_gfx90a.dat is missing, which ";
        let (code, said) = common::ran(tree.place.path(), &["inspect", ".", "--require", "gfx90a"]);
        assert!(code == Some(1) && said.contains(expected), "{target}: {said}");
        check(target, &tree, "", "gfx90a .", expected, false);
    }
}

#[test]
fn the_command_for_a_damage_repairs_it() {
    for (name, tree, spoil, arguments, expected) in MENDED {
        let tree = tree();
        spoil(&tree);
        check(name, &tree, "", arguments, expected, true);
    }
    for (name, tree, variable, arguments, expected) in VARIABLES {
        check(name, &tree(), variable, arguments, expected, true);
    }
}

/// Debian's package of MIOpen: the library works without files, so that there is nothing to find.
#[test]
fn miopen_without_files_has_nothing_for_a_gpu() {
    let it = Tree { place: tempfile::tempdir().unwrap() };
    it.put("lib/libMIOpen.so.1", &common::fixture("host-only.so"));
    for paths in ["gfx90a .", "gfx1030 lib/libMIOpen.so.1"] {
        let (code, said) = it.why("", paths);
        assert!(code == Some(4) && said.contains("nothing there has device code"), "{said}");
    }
    it.put("lib/librocblas.so.5", &common::fixture("plain.so"));
    let (code, said) = it.why("", "gfx90a lib/libMIOpen.so.1");
    assert_eq!(code, Some(4), "{said}");
}

/// MIOpen works without its files, so what is wrong with them is a note, also where it is alone.
#[test]
fn miopen_alone_has_notes_on_its_files() {
    let it = Tree { place: tempfile::tempdir().unwrap() };
    it.put("lib/libMIOpen.so.1", &common::fixture("host-only.so"));
    it.put(&format!("{MIOPEN}/gfx90a68.HIP.fdb.txt"), b"");
    let (code, said) = it.why("", "gfx90a .");
    assert!(code == Some(0) && said.contains("gfx90a68.HIP.fdb.txt is damaged"), "{said}");
    it.put(&format!("{MIOPEN}/gfx90a68.HIP.fdb.txt"), b"key=value");
    it.rename("share/miopen", "opt/miopen");
    let (code, said) = it.why("", "gfx90a .");
    assert!(code == Some(0) && said.contains("where it does not look"), "{said}");
}

#[test]
fn healthy_trees_give_nothing() {
    let healthy: [Healthy; 13] = [
        ("flat", Tree::flat, |_| (), &["gfx90a", "gfx1030", "gfx90a:xnack+", "gfx1030,gfx90a"]),
        ("divided", Tree::divided, |_| (), &["gfx90a", "gfx1030", "gfx90a:xnack+", "gfx1030,gfx90a"]),
        ("generic", Tree::generic, |_| (), &["gfx1030"]),
        ("merged", Tree::merged, |_| (), &["gfx90a", "gfx1030"]),
        (
            "without databases of libraries that need none",
            Tree::flat,
            |it| {
                for directory in ["lib/hipblaslt", "share/miopen", IMAGES] {
                    it.remove(directory);
                }
            },
            &["gfx1030", "gfx90a"],
        ),
        (
            "compressed catalogues",
            Tree::divided,
            |it| {
                let directory = format!("{HIPBLASLT}/gfx90a");
                for stem in ["TensileLibrary_lazy", LT] {
                    let name = format!("{directory}/{stem}_gfx90a.dat");
                    let bytes = fs::read(it.at(&name)).unwrap();
                    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                    std::io::Write::write_all(&mut encoder, &bytes).unwrap();
                    it.put(&format!("{name}.zlib"), &encoder.finish().unwrap());
                    it.remove(&name);
                }
            },
            &["gfx90a"],
        ),
        (
            "a directory for the mode",
            Tree::divided,
            |it| {
                it.rename(&format!("{ROCBLAS}/gfx90a"), &format!("{ROCBLAS}/gfx90a-xnack-"));
            },
            &["gfx90a"],
        ),
        (
            "helper kernels for the other mode are damaged",
            Tree::flat,
            |it| it.put(&format!("{ROCBLAS}/Kernels.so-000-gfx90a-xnack+.hsaco"), b""),
            &["gfx90a", "gfx90a:xnack-"],
        ),
        (
            "one merged catalogue",
            Tree::flat,
            |it| {
                for name in ["gfx90a", "gfx1030"] {
                    it.remove(&format!("{ROCBLAS}/TensileLibrary_lazy_{name}.dat"));
                }
                it.put(&format!("{ROCBLAS}/TensileLibrary.dat"), b"\x80");
            },
            &["gfx90a", "gfx1030"],
        ),
        ("Debian", Tree::debian, |_| (), &["gfx90a", "gfx1030"]),
        (
            "symlinks of an unpacked root",
            Tree::flat,
            |it| {
                for (path, place) in [("lib/rocblas", "store/b"), (HIPBLASLT, "opt/lt"), (MIOPEN, "opt/db")] {
                    it.rename(path, place);
                    symlink(Path::new("/").join(place), it.at(path)).unwrap();
                }
                it.rename("opt/lt/TensileLibrary_lazy_gfx90a.dat", "opt/lazy");
                symlink("/opt/lazy", it.at("opt/lt/TensileLibrary_lazy_gfx90a.dat")).unwrap();
            },
            &["gfx90a", "gfx1030"],
        ),
        (
            "a large merged catalogue, as that of rocBLAS 5.5 with 117 MB",
            Tree::flat,
            |it| {
                it.remove(&format!("{ROCBLAS}/TensileLibrary_lazy_gfx90a.dat"));
                it.put(&format!("{ROCBLAS}/TensileLibrary.dat"), b"\x80");
                let file = fs::File::options().write(true).open(it.at(&format!("{ROCBLAS}/TensileLibrary.dat")));
                file.unwrap().set_len(117_483_686).unwrap();
            },
            &["gfx90a"],
        ),
        (
            "a package as it was installed",
            Tree::flat,
            |it| {
                it.package(&[
                    &format!("{ROCBLAS}/TensileLibrary_lazy_gfx90a.dat"),
                    &format!("{MIOPEN}/gfx90a68.db.txt"),
                ]);
            },
            &["gfx90a"],
        ),
    ];
    for (name, tree, change, targets) in healthy {
        let tree = tree();
        change(&tree);
        for target in targets {
            let (code, said) = tree.why("", &format!("{target} ."));
            assert_eq!(code, Some(0), "{name}: {said}");
            assert!(!said.contains("note: "), "{name}: {said}");
        }
    }
}
