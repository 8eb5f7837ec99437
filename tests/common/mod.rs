//! Helpers of all test suites: whether this machine can mount, what is skipped, fixtures, programs that have to succeed, and comparing files.

#![allow(dead_code, reason = "no suite needs all of it")]

pub(crate) mod bucket;
pub(crate) mod links;
pub(crate) mod mounts;
pub(crate) mod namespaces;
pub(crate) mod server;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use kpackfs::mount::Transport;
use kpackfs::split::hex;
use sha2::Digest;

/// What waits longer hangs, also on a machine that does forty other things. A daemon may go on for as long as a script in a mount namespace of
/// its own (`mounts/mounting/sandbox.rs`), where its mount stays.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// Files by their path below a directory.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Whether a mount shows a file whose bytes are not those of an entry of the input.
pub(crate) fn is_made(path: &Path) -> bool {
    let mut kind = vec![0; 100];
    let length = rustix::fs::getxattr(path, "user.kpackfs.kind", &mut kind[..]).unwrap();
    kind.truncate(length);
    !["unchanged", "database"].map(str::as_bytes).contains(&&*kind)
}

/// Reports that something is not tested. It writes past the test harness, which hides the output of tests that pass.
pub(crate) fn skipped(why: &str) {
    io::stderr().write_all(format!("\n*** SKIPPED: {why} ***\n").as_bytes()).unwrap();
}

/// The transport of mounts: that of the environment variable `KPACKFS_TRANSPORT`, which programs under test read, too.
pub(crate) fn transport() -> Transport {
    std::env::var("KPACKFS_TRANSPORT").map_or(Transport::DevFuse, |name| Transport::from_str(&name, false).unwrap())
}

/// Whether `/dev/fuse` can be opened, and the kernel allows the transport that is tested. If not, reports that the test
/// is skipped. With `KPACKFS_REQUIRE_FUSE=1`, which CI sets, the test fails instead, so that a test in CI cannot pass
/// without mounting.
pub(crate) fn can_mount() -> bool {
    let is_required = std::env::var_os("KPACKFS_REQUIRE_FUSE").is_some_and(|value| value == "1");
    let Err(why) = mountable() else { return true };
    assert!(!is_required, "{why}, and KPACKFS_REQUIRE_FUSE=1 demands it");
    skipped(&format!("{why}; NOTHING was mounted or checked"));
    false
}

fn mountable() -> Result<(), String> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.map_err(|error| format!("/dev/fuse cannot be opened ({error})"))?;
    let parameter = "/sys/module/fuse/parameters/enable_uring";
    let is_allowed = || fs::read_to_string(parameter).is_ok_and(|value| value.trim() == "Y");
    if transport() == Transport::Uring && !is_allowed() {
        return Err(format!("KPACKFS_TRANSPORT=uring, and the kernel does not allow it ({parameter})"));
    }
    Ok(())
}

/// A file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// Writes a file, with the directories above it.
pub(crate) fn put(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Writes a file below a directory.
pub(crate) fn put_in(place: &Path, path: &str, bytes: &[u8]) {
    put(place.join(path), bytes);
}

/// Everything below a directory, sorted, by paths relative to it. Symlinks are not followed.
pub(crate) fn paths_below(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            found.push(path.strip_prefix(root).unwrap().to_owned());
            directories.extend((path.is_dir() && !path.is_symlink()).then_some(path));
        }
    }
    found.sort();
    found
}

/// The files below a directory. Symlinks to files are followed.
pub(crate) fn files_below(root: &Path) -> Files {
    let read = |path: PathBuf| {
        let (place, content) = (root.join(&path), fs::read(root.join(&path)).unwrap());
        assert_eq!(content.len() as u64, place.metadata().unwrap().len(), "{}", place.display());
        (path, content)
    };
    paths_below(root).into_iter().filter(|path| root.join(path).is_file()).map(read).collect()
}

/// The files and symlinks below a directory, with the bytes or the target.
pub(crate) fn files_and_links_below(root: &Path) -> Files {
    let entry = |path: PathBuf| {
        let place = root.join(&path);
        let content = match fs::read_link(&place) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) if place.is_dir() => return None,
            Err(_) => fs::read(place).unwrap(),
        };
        Some((path, content))
    };
    paths_below(root).into_iter().filter_map(entry).collect()
}

/// Copies a file or a directory with all attributes; the content of a directory if its path ends with a dot.
#[track_caller]
pub(crate) fn copy_all(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    succeeds(Command::new("cp").arg("-a").arg(from.as_ref()).arg(to.as_ref()));
}

/// The first bytes of code for a GPU, by its number in LLVM's `ELF.h`.
pub(crate) fn code_header(gpu: &str) -> Vec<u8> {
    let machine = match gpu {
        "gfx90a" => 0x3f,
        "gfx942" => 0x4c,
        "gfx1030" => 0x36,
        "gfx1100" => 0x41,
        "gfx10-3-generic" => 0x53,
        other => panic!("{other}"),
    };
    // `e_machine` is EM_AMDGPU, and the lowest byte of `e_flags` is the processor.
    [b"\x7fELF\x02\x01\x01\x40\x02".as_slice(), &[0; 9], &[224], &[0; 29], &[machine], &[0; 79]].concat()
}

/// Bytes as a gzip file.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// So many zeros. The kernel makes them: `io::repeat` writes byte by byte without optimization.
pub(crate) fn zeros(count: u64) -> impl Read {
    fs::File::open("/dev/zero").unwrap().take(count)
}

/// A code object of 4096 bytes for the GPU with this `EF_AMDGPU_MACH`.
pub(crate) fn code_object(mach: u8) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\x40\x02".to_vec();
    bytes.resize(4096, 0);
    bytes[16..20].copy_from_slice(&[3, 0, 224, 0]);
    bytes[40..48].copy_from_slice(&4032_u64.to_le_bytes());
    bytes[48] = mach;
    bytes[58..61].copy_from_slice(&[64, 0, 1]);
    bytes
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&sha2::Sha256::digest(bytes))
}

/// The program under test, without what the environment says about the time of outputs and about proxies.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    command.env_remove("SOURCE_DATE_EPOCH");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_ascii_uppercase());
    }
    command
}

/// Runs the program in a directory, with a cache there. Returns the exit code, and all that it prints.
pub(crate) fn ran(place: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = program();
    let output = command.args(arguments).current_dir(place).env("KPACKFS_CACHE_DIR", place.join("cache")).output();
    let Output { status, stdout, stderr } = output.unwrap();
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// A copy of the program in a directory, for users who may not enter that of the program. Another process writes it: a program that another
/// thread starts inherits what this process has open for writing, and such a file cannot be executed (ETXTBSY).
pub(crate) fn copied_program(directory: &Path) -> PathBuf {
    let (program, copy) = (env!("CARGO_BIN_EXE_kpackfs"), directory.join("kpackfs-program"));
    if !copy.exists() && fs::hard_link(program, &copy).is_err() {
        succeeds(Command::new("cp").arg(program).arg(&copy));
    }
    copy
}

/// Runs a command that has to succeed.
#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Makes a small wheel that is like that of torch.
pub(crate) fn torch_wheel(wheel: &Path) {
    succeeds(Command::new("scripts/make-torch-wheel").arg(wheel).args(["--size", "tiny"]));
}

/// Runs a command that has to succeed; its output.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    String::from_utf8(succeeds(command).stdout).unwrap()
}

/// Unmounts, also what is busy. Nothing happens if nothing is mounted.
pub(crate) fn umount(place: &Path) {
    program().args(["umount", "--lazy"]).arg(place).output().ok();
}

/// The errno of a failure, 0 of a success.
pub(crate) fn errno(result: io::Result<impl Sized>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap())
}

/// Waits for what happens in the background.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < limit, "waited too long until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Fails with the names of what differs, since contents would fill the screen.
#[track_caller]
pub(crate) fn assert_same(left: &Files, right: &Files, what: &str) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right), "{what}");
    let differs = left.iter().filter(|&(path, content)| right[path] != *content);
    assert_eq!(differs.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{what}");
}
