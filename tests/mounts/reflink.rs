//! Splits of trees on filesystems that share blocks: only new bytes take space, and the output stays right whatever
//! happens to the input.
//!
//! Needs root, loop devices and mkfs. A filesystem that cannot be made is reported, and not tested.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Files, files_below};
use rustix::fs::statvfs;
use tempfile::TempDir;

/// A mounted filesystem in a file.
struct Filesystem {
    place: TempDir,
}

impl Filesystem {
    /// `None`, with a message past the test harness, if it cannot be made on this machine.
    fn make(mkfs: &[&str]) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let (image, root) = (place.path().join("image"), place.path().join("root"));
        fs::create_dir(&root).unwrap();
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let (program, options) = mkfs.split_first().unwrap();
        let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_made = runs(Command::new(program).args(options).arg(&image))
            && runs(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&root));
        if !is_made {
            let message =
                format!("\n*** SKIPPED: {program}: no such filesystem can be made; NOTHING was split there ***\n");
            std::io::stderr().write_all(message.as_bytes()).unwrap();
            return None;
        }
        Some(Self { place })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join("root").join(path)
    }

    /// Bytes in use, after everything is written to the disk.
    fn used(&self) -> u64 {
        assert!(Command::new("sync").arg("-f").arg(self.at("")).status().unwrap().success());
        let found = statvfs(self.at("")).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        Command::new("umount").arg(self.at("")).status().ok();
    }
}

fn noise(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A tree with libraries, one of them large, and other files.
fn fill(tree: &Path) {
    fs::create_dir_all(tree.join("lib")).unwrap();
    for name in ["plain.so", "compressed.so", "shared.so"] {
        fs::copy(Path::new("tests/fixtures").join(name), tree.join("lib").join(name)).unwrap();
    }
    let mut large = fs::read("tests/fixtures/plain.so").unwrap();
    large.resize(large.len().next_multiple_of(4096), 0);
    large.extend(noise(1, 16 << 20));
    fs::write(tree.join("lib/large.so"), large).unwrap();
    fs::write(tree.join("data"), noise(2, (24 << 20) + 77)).unwrap();
    fs::write(tree.join("small"), "text").unwrap();
}

fn split(fat: &Path, out: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kpackfs"))
        .args(["split", "--no-cache"])
        .arg(fat)
        .arg("-o")
        .arg(out)
        .args(options)
        .output()
        .unwrap()
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The bytes of all files, by path. The statement of a split names its input.
fn files(tree: &Path) -> Files {
    let mut files = files_below(tree);
    files.remove(Path::new(".kpackfs/split.json"));
    files
}

fn check(filesystem: &Filesystem) {
    let (fat, out, other) = (filesystem.at("fat"), filesystem.at("out"), filesystem.at("other"));
    fill(&fat);
    let before = filesystem.used();
    succeeds(&split(&fat, &out, &["--reflink", "always"]));
    let shared = filesystem.used() - before;
    succeeds(&split(&fat, &other, &["--reflink", "never"]));
    let copied = filesystem.used() - before - shared;
    // The limit allows for archives, headers, and what the filesystem itself needs.
    assert!(shared < 4 << 20, "{shared} bytes are new");
    assert!(copied > 40 << 20, "{copied} bytes are new if nothing is shared");
    let written = files(&out);
    assert!(written == files(&other));
    // The output is the same as on any other filesystem.
    let elsewhere = tempfile::tempdir().unwrap();
    succeeds(&split(&fat, &elsewhere.path().join("out"), &["--reflink", "auto"]));
    assert!(written == files(&elsewhere.path().join("out")));
    let apart = split(&fat, &elsewhere.path().join("always"), &["--reflink", "always"]);
    let said = String::from_utf8_lossy(&apart.stderr).into_owned();
    assert!(!apart.status.success() && said.contains("cannot share blocks with the input"), "{said}");
    assert!(!elsewhere.path().join("always/host").exists());
    // Thin views consist of ranges of the input, too.
    let before = filesystem.used();
    succeeds(&split(&fat, &filesystem.at("thin"), &["--view", "thin/gfx90a", "--view", "merged/gfx90a"]));
    assert!(filesystem.used() - before < 6 << 20);
    // The input changes, becomes shorter, and is deleted.
    fs::write(fat.join("lib/large.so"), noise(3, 1 << 20)).unwrap();
    let data = fs::File::options().write(true).open(fat.join("data")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&data, &[9; 9000], 5000).unwrap();
    data.set_len(1 << 20).unwrap();
    assert!(written == files(&out));
    fs::remove_dir_all(&fat).unwrap();
    assert!(written == files(&out));
    let verify = Command::new(env!("CARGO_BIN_EXE_kpackfs")).arg("verify").arg(&out).output().unwrap();
    succeeds(&verify);
}

#[test]
fn blocks_are_shared_on_xfs() {
    if let Some(filesystem) = Filesystem::make(&["mkfs.xfs", "-q", "-m", "reflink=1"]) {
        check(&filesystem);
    }
}

#[test]
fn blocks_are_shared_on_btrfs() {
    if let Some(filesystem) = Filesystem::make(&["mkfs.btrfs", "-q"]) {
        check(&filesystem);
    }
}

/// If the filesystem gets full during a split, no file of the split remains, and files that existed before stay.
#[test]
fn a_full_disk_leaves_nothing() {
    for mkfs in [&["mkfs.ext4", "-q", "-m", "0"][..], &["mkfs.xfs", "-q", "-m", "reflink=1"]] {
        let Some(filesystem) = Filesystem::make(mkfs) else { continue };
        let (fat, out) = (filesystem.at("fat"), filesystem.at("out"));
        fill(&fat);
        let room = statvfs(filesystem.at("")).unwrap();
        let left = room.f_bavail * room.f_frsize - (8 << 20);
        let filler = fs::File::create(filesystem.at("filler")).unwrap();
        rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, left).unwrap();
        // Nothing is shared, so the output does not fit.
        let full = split(&fat, &out, &["--reflink", "never"]);
        let said = String::from_utf8_lossy(&full.stderr).into_owned();
        assert!(!full.status.success() && said.contains("No space left"), "{mkfs:?}: {said}");
        assert!(said.contains(".kpackfs-partial") || said.contains("/host/"), "it names the file: {said}");
        let left: Vec<_> = fs::read_dir(&out).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{mkfs:?}");
    }
}
