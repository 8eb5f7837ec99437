//! Libraries and programs, loaded from a mount by the real dynamic loader, with a HIP runtime that logs what is
//! registered.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{can_mount, skipped, succeeds};
use crate::mount::mounts::{Mount, fat, has};

/// Writes a line for each wrapper: magic, version, index, and the first bytes that the pointer leads to. It does not
/// use the C library, because programs among the fixtures do not initialise it.
const RUNTIME: &str = r#"
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
static char *hex(char *out, const unsigned char *bytes, int count) {
    for (int at = 0; at < count; at++) {
        *out++ = "0123456789abcdef"[bytes[at] >> 4];
        *out++ = "0123456789abcdef"[bytes[at] & 15];
    }
    *out++ = ' ';
    return out;
}
struct wrapper { unsigned magic, version; const unsigned char *pointer; unsigned long index; };
void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
    char line[256], *out = line;
    out = hex(out, (const unsigned char *)&wrapper->magic, 4);
    out = hex(out, (const unsigned char *)&wrapper->version, 1);
    out = hex(out, (const unsigned char *)&wrapper->index, 1);
    out = hex(out, wrapper->pointer, 13);
    out[-1] = '\n';
    call(1, 2, (long)line, out - line);
    return (void **)wrapper;
}
void __hipUnregisterFatBinary(void **module) { (void)module; }
void __hipRegisterFunction(void) {}
void __hipRegisterVar(void) {}
int hipLaunchKernel(void) { return 0; }
unsigned __hipPushCallConfiguration(void) { return 0; }
unsigned __hipPopCallConfiguration(void) { return 0; }
"#;

/// The stand-in for the HIP runtime; `None` if it cannot be built.
fn runtime(directory: &Path) -> Option<PathBuf> {
    if !can_mount() || !has("cc") || !has("python3") {
        return None;
    }
    if cfg!(not(target_arch = "x86_64")) {
        skipped("the fixtures are for x86-64; NOTHING was loaded or run from a mount");
        return None;
    }
    let source = directory.join("runtime.c");
    fs::write(&source, RUNTIME).unwrap();
    let library = directory.join("libamdhip64.so.6");
    let flags = ["-shared", "-fPIC", "-O1", "-nostdlib", "-fno-stack-protector", "-Wl,-soname,libamdhip64.so.6", "-o"];
    succeeds(Command::new("cc").args(flags).arg(&library).arg(&source));
    Some(library)
}

/// Checks what was registered: every wrapper once, in any order, with the beginning of a marker.
#[track_caller]
fn check(log: &[u8], wrappers: usize) {
    let text = String::from_utf8_lossy(log);
    let mut indices: Vec<_> = text
        .lines()
        .map(|line| {
            let [magic, version, index, marker] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
            assert_eq!((magic, version), ("4849504b", "01"), "{text}");
            // MessagePack: a map of two, whose keys are strings.
            assert!(marker.starts_with("82ab") || marker.starts_with("82b2"), "{text}");
            usize::from_str_radix(index, 16).unwrap()
        })
        .collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..wrappers).collect::<Vec<_>>(), "{text}");
}

#[test]
fn libraries_and_programs_run_from_a_mount() {
    let directory = tempfile::tempdir().unwrap();
    let Some(runtime) = runtime(directory.path()) else { return };
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &["--arch", "gfx1030"]) else { return };
    for view in ["merged/gfx90a", "host"] {
        for (name, wrappers) in [
            ("plain.so", 2),
            ("mixed.so", 2),
            ("features.so", 3),
            ("compressed.so", 2),
            ("relr.so", 2),
            ("noheaders.so", 2),
            ("host-only.so", 0),
        ] {
            let script = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); ctypes.CDLL(sys.argv[2])";
            let mut python = Command::new("python3");
            python.args(["-c", script]).arg(&runtime).arg(mount.at(view).join("lib").join(name));
            check(&succeeds(&mut python).stderr, wrappers);
        }
        for name in ["exe-pie", "exe-nopie"] {
            let mut program = Command::new(mount.at(view).join("bin").join(name));
            check(&succeeds(program.env("LD_LIBRARY_PATH", directory.path())).stderr, 2);
        }
    }
}
