//! Inputs, and mounts in separate processes whose log can be read.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use kpackfs::mount::Transport;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Files, PATIENCE, can_mount, files_below, fixture, run, skipped, transport};

/// Runs `work`, and fails if it takes longer than `PATIENCE`.
pub(crate) fn bounded<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    let worker = thread::spawn(move || {
        let result = work();
        tell.send(()).ok();
        result
    });
    match told.recv_timeout(PATIENCE) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what}: hangs"),
        // The worker has panicked; joining it panics here, too.
        _ => worker.join().unwrap(),
    }
}

/// Bytes that do not repeat, and compress only partly.
pub(crate) fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b' ' + (state >> 27).to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// Writes the files of an input: fat libraries, data that is deflated in a wheel, and data that is stored (`.bin`).
pub(crate) fn tree(place: &Path) -> PathBuf {
    static DATA: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [noise(3_500_000, 1), noise(3_000_000, 2)]);
    let tree = place.join("tree");
    let write = |name: &str, bytes: &[u8]| common::put(tree.join(name), bytes);
    for name in ["plain.so", "mixed.so", "compressed.so"] {
        write(&format!("demo/lib/{name}"), &fixture(name));
    }
    write("demo/deflated.txt", &DATA[0]);
    write("demo/stored.bin", &DATA[1]);
    write("demo/small.txt", b"hello");
    write("demo-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n");
    write("demo-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n");
    write("demo-1.0.dist-info/RECORD", b"");
    tree
}

/// The same files as a wheel.
pub(crate) fn wheel(place: &Path) -> PathBuf {
    static WHEEL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let place = tempfile::tempdir().unwrap();
        let wheel = place.path().join("wheel");
        run(Command::new("python3").args(["tests/wheel_oracle.py", "pack"]).arg(tree(place.path())).arg(&wheel));
        fs::read(wheel).unwrap()
    });
    let wheel = place.join("demo-1.0-py3-none-any.whl");
    common::put(&wheel, &*WHEEL);
    wheel
}

/// Calls `work` for both inputs at the same time, because most of it is waiting.
pub(crate) fn of_each_input(work: impl Fn(&Path) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for make in [tree, wheel] {
            scope.spawn(move || {
                let place = tempfile::tempdir().unwrap();
                work(&make(place.path()));
            });
        }
    });
}

/// A tmpfs that is removed with the test. `None` if this process may not mount one.
pub(crate) struct Tmpfs(pub(crate) TempDir);

impl Tmpfs {
    pub(crate) fn new(options: &str) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("mode=700,{options}"), "faults"])
            .arg(place.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(place));
        }
        skipped("no tmpfs can be mounted; NOTHING was checked");
        None
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0.path()).output().ok();
    }
}

/// An ext4 filesystem of 4 MiB in a file; `None` if this process may not mount one.
pub(crate) struct SmallDisk {
    mounted: TempDir,
    _image: TempDir,
}

impl SmallDisk {
    pub(crate) fn new() -> Option<Self> {
        let [mounted, image_place] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let image = image_place.path().join("image");
        File::create(&image).unwrap().set_len(4 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&image).output();
        let mount = || Command::new("mount").args(["-o", "loop"]).arg(&image).arg(mounted.path()).output();
        if made.is_ok_and(|made| made.status.success()) && mount().is_ok_and(|output| output.status.success()) {
            return Some(Self { mounted, _image: image_place });
        }
        skipped("no ext4 in a file can be mounted; a full disk was NOT tried");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.mounted.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.path()).output().ok();
    }
}

/// A mount by a process in the foreground.
pub(crate) struct Mount {
    place: TempDir,
    pub(crate) log: PathBuf,
    _logs: TempDir,
    process: Child,
}

impl Mount {
    /// `None` if this machine cannot mount.
    pub(crate) fn new(input: &Path, options: &[&str]) -> Option<Self> {
        Self::limited("", input, options)
    }

    /// A mount of an input that the index in `cache` knows. Of an unknown input, planning opens every file.
    pub(crate) fn indexed(input: &Path, cache: &Path) -> Option<Self> {
        let options = ["--cache-dir", cache.to_str().unwrap()];
        Self::new(input, &options)?.end();
        Self::new(input, &options)
    }

    /// The same as [`Mount::new`], after a shell command that sets limits.
    pub(crate) fn limited(limits: &str, input: &Path, options: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let (place, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let log = logs.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limits}\nexec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_kpackfs"), "mount", "-f"]);
        command.args(options).arg(input).arg(place.path());
        if transport() == Transport::DevFuse {
            // Also where the kernel allows rings.
            command.env("KPACKFS_TRANSPORT", "dev-fuse");
        }
        let process = command.stdin(Stdio::null()).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut mount = Self { place, log, _logs: logs, process };
        mount.wait_until("it is mounted", |mount| {
            let ended = mount.process.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", mount.log());
            mount.log().contains("mounted on")
        });
        Some(mount)
    }

    pub(crate) fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        let limit = Instant::now() + PATIENCE;
        while !condition(self) {
            assert!(Instant::now() < limit, "{what}: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Everything that was logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        let place = self.at(".kpackfs/status.json");
        bounded("status", move || serde_json::from_slice(&fs::read(place).unwrap()).unwrap())
    }

    /// All files of some views.
    pub(crate) fn survey(&self, views: &[&str]) -> Files {
        let roots: Vec<_> = views.iter().map(|view| self.at(view)).collect();
        let root = self.path().to_owned();
        bounded("reading everything", move || {
            let inside = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_owned();
            let of_root =
                |view: PathBuf| files_below(&view).into_iter().map(move |(path, bytes)| (view.join(path), bytes));
            roots.into_iter().flat_map(of_root).map(|(path, bytes)| (inside(&path), bytes)).collect()
        })
    }

    /// Reads bytes of a file that the kernel has not cached.
    pub(crate) fn read(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let place = self.at(name);
        bounded(name, move || {
            let file = File::open(place)?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        })
    }

    /// Waits until no work is running and all memory for work is returned.
    pub(crate) fn is_at_rest(&mut self) {
        self.wait_until("not given back", |mount| {
            let status = mount.status();
            let memory = ["bundles", "compression"].map(|name| format!("/memory/{name}"));
            let gauges = ["/gauges/requests_waiting".to_owned()].into_iter().chain(memory);
            let rings = ["ring_requests", "ring_replies"].map(|name| format!("/counters/{name}"));
            let [requests, replies] = rings.map(|name| status.pointer(&name).and_then(Value::as_u64));
            assert_eq!(requests > Some(0), transport() == Transport::Uring);
            // No entry of a ring is lost, but that of this request for the status.
            gauges.into_iter().all(|gauge| status.pointer(&gauge).and_then(Value::as_u64) == Some(0))
                && requests.unwrap() <= replies.unwrap() + 1
        });
    }

    /// A size in `/proc/PID/status`, in KiB.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Files that the process has open.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// The ID of the process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Kills the process (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Unmounts. The process must exit with success.
    pub(crate) fn end(mut self) -> String {
        run(Command::new("umount").arg("--lazy").arg(self.path()));
        let mut status = None;
        self.wait_until("it ends", |mount| {
            status = mount.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{status:?}: {}", self.log());
        self.log()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg("--lazy").arg(self.path()).output().ok();
        let limit = Instant::now() + Duration::from_secs(10);
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < limit {
            thread::sleep(Duration::from_millis(10));
        }
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
