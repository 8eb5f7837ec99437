//! Measures time and memory of opening a large archive, of one load, and of loads by many threads.
//!
//! `cargo bench -p rocm-kpack -- ARCHIVE [ARCHIVE…]`. Without arguments it makes archives of 250 MB of frames of random
//! code objects, and the same uncompressed. Each measurement runs in a process of its own, with a warm page cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

use rocm_kpack::{Archive, ArchiveFile, Error, Scheme, TocEntry};

type File = Archive<ArchiveFile>;

/// Anonymous and file-backed memory of this process, in KiB.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    (field("RssAnon:"), field("RssFile:"))
}

fn open(path: &Path) -> Result<File, Error> {
    Archive::open(ArchiveFile::open(path)?)
}

/// All entries.
fn entries(archive: &File) -> Result<Vec<TocEntry>, Error> {
    let mut entries = Vec::new();
    for name in archive.names()? {
        for target in archive.targets() {
            entries.extend(archive.find(name, target)?);
        }
    }
    Ok(entries)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Opens the archive, and loads its last code object.
fn one(path: &Path) -> Result<(), Error> {
    let before = memory();
    let start = Instant::now();
    let archive = open(path)?;
    let opened = start.elapsed();
    let after_open = memory();
    let name = archive.names()?.last().unwrap_or_default().to_owned();
    let target = archive.targets().first().cloned().unwrap_or_default();
    let start = Instant::now();
    let size = archive.get(&name, &target)?.map_or(0, |code| code.len());
    let loaded = start.elapsed();
    let after_load = memory();
    let start = Instant::now();
    drop(archive.get(&name, &target)?);
    let again = start.elapsed();
    println!(
        "  open {}, {} KiB own and {} KiB mapped; {} names",
        milliseconds(opened),
        after_open.0 - before.0,
        after_open.1 - before.1,
        archive.name_count()
    );
    println!(
        "  first load, of {size} bytes: {}, then {} KiB own and {} KiB mapped; again: {}",
        milliseconds(loaded),
        after_load.0 - before.0,
        after_load.1 - before.1,
        milliseconds(again)
    );
    Ok(())
}

/// How long this thread has run, and how long it has waited for a core (`proc_pid_schedstat`, in nanoseconds).
fn schedule() -> (Duration, Duration) {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|number| Duration::from_nanos(number.parse().unwrap_or(0)));
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

/// What a thread did: the bytes it loaded, and the time that it ran, waited for a core, and waited for anything else.
#[derive(Default)]
struct Work {
    bytes: usize,
    ran: Duration,
    ready: Duration,
    blocked: Duration,
}

/// Loads all code objects once, shared out among this many threads.
fn many(path: &Path, threads: usize) -> Result<(), Error> {
    let archive = open(path)?;
    let entries = entries(&archive)?;
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let work = || {
        let (begin, before) = (Instant::now(), schedule());
        let mut work = Work::default();
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            work.bytes += archive.read(entry)?.len();
        }
        let after = schedule();
        (work.ran, work.ready) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        work.blocked = begin.elapsed().saturating_sub(work.ran + work.ready);
        Ok::<_, Error>(work)
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Ok(Work::default())))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let wall = start.elapsed();
    let total = |of: fn(&Work) -> Duration| milliseconds(all.iter().map(of).sum());
    println!(
        "  {threads} threads: {} loads, {} MB in {}; all threads ran {}, waited for a core {}, for anything else {}",
        entries.len(),
        all.iter().map(|work| work.bytes).sum::<usize>() / 1_000_000,
        milliseconds(wall),
        total(|work| work.ran),
        total(|work| work.ready),
        total(|work| work.blocked),
    );
    Ok(())
}

#[path = "../tests/runtime/archives.rs"]
#[expect(clippy::unwrap_used, reason = "made for tests")]
mod archives;

/// Bytes that zstd makes five times smaller, like real code objects.
fn code(number: u64, size: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut code = Vec::with_capacity(size + 40);
    while code.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        code.extend(state.to_le_bytes());
        code.extend([0; 32]);
    }
    code.truncate(size);
    code
}

fn make(directory: &Path, scheme: Scheme, objects: u64, size: usize) -> std::io::Result<PathBuf> {
    let codes: Vec<_> = (0..objects).map(|number| (format!("lib/libx.so#{number}"), code(number, size))).collect();
    let entries: Vec<_> = codes.iter().map(|(name, code)| (name.as_str(), "gfx942", code.as_slice())).collect();
    let path = directory.join(format!("{}.kpack", scheme.name()));
    fs::write(&path, archives::archive(scheme, &["gfx942"], &entries))?;
    Ok(path)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [what, path] = &arguments[..] {
        match what.strip_prefix("--threads=") {
            Some(threads) => return Ok(many(Path::new(path), threads.parse()?)?),
            None if what == "--one" => return Ok(one(Path::new(path))?),
            None => {}
        }
    }
    let directory = tempfile::tempdir()?;
    let mut paths: Vec<_> = arguments.iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        paths.push(make(directory.path(), Scheme::ZstdPerKernel, 2400, 500_000)?);
        paths.push(make(directory.path(), Scheme::None, 2400, 105_000)?);
    }
    for path in paths {
        println!("{}: {} bytes", path.display(), path.metadata()?.len());
        for what in ["--one", "--threads=1", "--threads=2", "--threads=8"] {
            Command::new(env::current_exe()?).arg(what).arg(&path).status()?;
        }
    }
    Ok(())
}
