//! C and C++ programs that are compiled with the installed header and linked to the installed shared library.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocm_kpack::Scheme;
use serde_json::json;

use crate::archives::{archive, around};
use crate::malformed::with_toc;

/// All symbols of the interface.
const SYMBOLS: [&str; 14] = [
    "kpack_cache_create",
    "kpack_cache_destroy",
    "kpack_close",
    "kpack_discover_binary_path",
    "kpack_enumerate_architectures",
    "kpack_free_code_object",
    "kpack_free_kernel",
    "kpack_get_architecture",
    "kpack_get_architecture_count",
    "kpack_get_binary",
    "kpack_get_binary_count",
    "kpack_get_kernel",
    "kpack_load_code_object",
    "kpack_open",
];

/// The shared library, which cargo puts next to the tests.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("librocm_kpack.so")
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("\n*** SKIPPED: there is no {program}; the shared library was NOT tested with it ***\n");
    }
    found
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

#[test]
fn nothing_but_the_interface_is_exported() {
    if !has("nm") || !has("readelf") {
        return;
    }
    let symbols = succeeds(Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(library()));
    assert_eq!(String::from_utf8(symbols.stdout).unwrap().lines().collect::<Vec<_>>(), SYMBOLS);
    let dynamic = succeeds(Command::new("readelf").arg("--dynamic").arg(library())).stdout;
    assert!(String::from_utf8(dynamic).unwrap().contains("soname: [librocm_kpack.so.0]"));
}

/// An archive with the smallest possible header: the table of contents directly after 16 bytes, and the code after
/// that.
fn little() -> Vec<u8> {
    let toc = |offset: usize| {
        let entry = json!({"type": "hsaco", "ordinal": 0, "original_size": 4});
        let blobs = json!([{"offset": offset, "size": 4}]);
        json!({"group_name": "a name of some length", "gfx_arches": ["gfx942"], "blobs": blobs, "toc": {"lib/x.so#0": {"gfx942": entry}}})
    };
    let encoded = |offset: usize| rmp_serde::to_vec_named(&toc(offset)).unwrap();
    // Each number from 128 to 255 takes two bytes.
    let length = encoded(200).len();
    assert!((112..240).contains(&length));
    let header = [&b"KPAK\x01\0\0\0"[..], &16_u64.to_le_bytes()].concat();
    [header, encoded(16 + length), b"code".to_vec()].concat()
}

/// Writes the files that the program expects.
#[expect(unsafe_code, reason = "std makes no FIFO")]
fn fill(directory: &Path) {
    let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
    let good = archive(
        Scheme::ZstdPerKernel,
        &["gfx942", "gfx942:xnack+"],
        &[
            ("lib/x.so#0", "gfx942", b"first unit\n"),
            ("lib/y.so#0", "gfx942:xnack+", b"y"),
            ("lib/z.so#0", "gfx942", b""),
        ],
    );
    write("good.kpack", &good);
    write("changing.kpack", &good);
    write("short", &good[..20]);
    write("empty", b"");
    write("msgpack", &around(b"", &[0xC1]));
    let patched = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0xFF;
        bytes
    };
    write("magic", &patched(0));
    write("version", &patched(4));
    // The first frame follows the header, the count and its length.
    write("damaged.kpack", &patched(72));
    let zeros = vec![0; 64 << 20];
    write("large.kpack", &archive(Scheme::ZstdPerKernel, &["gfx942"], &[("lib/x.so#0", "gfx942", &zeros)]));
    let toc = |ordinal: serde_json::Value, size: u64| {
        let entry = json!({"type": "hsaco", "ordinal": ordinal, "original_size": 4});
        json!({"gfx_arches": ["gfx942"], "blobs": [{"offset": 64, "size": size}], "toc": {"lib/x.so#0": {"gfx942": entry}}})
    };
    write("blob.kpack", &with_toc(b"code", &toc(json!(0), 1 << 60)));
    write("ordinal.kpack", &with_toc(b"code", &toc(json!(-1), 4)));
    write("little.kpack", &little());
    for (name, target, text) in [
        ("t_gfx942.kpack", "gfx942", "t, gfx942"),
        ("t_gfx11-generic.kpack", "gfx11-generic", "t, gfx11-generic"),
        ("other.kpack", "gfx942", "other"),
    ] {
        write(name, &archive(Scheme::None, &[target], &[("lib/x.so#0", target, text.as_bytes())]));
    }
    fs::create_dir(directory.join("lib")).unwrap();
    let fifo = CString::new(directory.join("fifo").as_os_str().as_bytes()).unwrap();
    // SAFETY: a string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
}

/// Compiles and runs the program with pkg-config's options, or with the options that it would give.
fn check(compiler: &str, options: &[&str]) {
    if !has(compiler) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    succeeds(Command::new(root.join("../scripts/install-runtime")).arg(&prefix).arg(library()));
    let flags = if has("pkg-config") {
        let mut command = Command::new("pkg-config");
        let flags =
            command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--cflags", "--libs", "rocm_kpack"]);
        String::from_utf8(succeeds(flags).stdout).unwrap()
    } else {
        format!("-I{0}/include -L{0}/lib -lrocm_kpack", prefix.display())
    };
    let program = directory.path().join("interface");
    succeeds(
        Command::new(compiler)
            .args(options)
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
            .arg(&program)
            .arg(root.join("tests/c/interface.c"))
            .args(["-x", "none"])
            .args(flags.split_whitespace())
            .arg(format!("-Wl,-rpath,{}/lib", prefix.display())),
    );
    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    fill(&files);
    let output = Command::new(&program).arg(&files).output().unwrap();
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text == "all fine\n", "{:?}\n{text}{log}", output.status);
    assert!(log.lines().count() > 3 && log.lines().all(|line| line.starts_with("kpack: ")), "{log}");
}

/// A `CMake` project finds the package, and its program runs without `LD_LIBRARY_PATH`. Versions are told apart.
#[test]
fn cmake_projects_find_the_package() {
    if !has("cmake") || !has("cc") || !has("make") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    succeeds(Command::new(root.join("../scripts/install-runtime")).arg(&prefix).arg(library()));
    let configure = |build: &Path, version: &str| {
        let mut command = Command::new("cmake");
        command.args(["-G", "Unix Makefiles", "-S"]).arg(root.join("tests/cmake")).arg("-B").arg(build);
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())).arg(format!("-DVERSION={version}"));
        command.output().unwrap()
    };
    let major = env!("CARGO_PKG_VERSION_MAJOR").parse::<u32>().unwrap();
    let later = format!("{}.0", major + 1);
    for (version, is_found) in
        [(env!("CARGO_PKG_VERSION"), true), (&format!("{major}.0"), true), ("99", false), (&later, false)]
    {
        let output = configure(&directory.path().join(format!("build-{version}")), version);
        assert_eq!(output.status.success(), is_found, "{version}: {output:?}");
    }
    let build = directory.path().join("build");
    let output = configure(&build, "");
    assert!(output.status.success(), "{output:?}");
    succeeds(Command::new("cmake").arg("--build").arg(&build));
    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    fill(&files);
    let output = succeeds(Command::new(build.join("interface")).arg(&files));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all fine\n");
}

#[test]
fn c_programs_get_every_code() {
    check("cc", &["-std=c99"]);
}

#[test]
fn cxx_programs_get_every_code() {
    check("c++", &["-std=c++11", "-x", "c++"]);
}
