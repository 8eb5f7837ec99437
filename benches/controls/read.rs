//! Reads files as programs do, and measures the time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;

/// Reads files front to back, one after the other.
#[derive(Debug, Args)]
pub(crate) struct Sequential {
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Bytes per read
    #[arg(long, default_value_t = 128 << 10)]
    block: usize,
}

/// Reads blocks in random order, each once.
#[derive(Debug, Args)]
pub(crate) struct Random {
    file: PathBuf,
    /// Bytes per read; they start at a multiple of it
    #[arg(long, default_value_t = 4 << 10)]
    block: usize,
    /// The number of reads; fewer if the file has fewer blocks
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The same number gives the same offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Reads files front to back, all at the same time.
#[derive(Debug, Args)]
pub(crate) struct Many {
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Bytes per read
    #[arg(long, default_value_t = 128 << 10)]
    block: usize,
}

/// Bytes that were read, and the time from the first open to the last read.
#[derive(Debug, Serialize)]
pub(crate) struct Throughput {
    bytes: u64,
    seconds: f64,
    /// The slowest single read.
    longest_seconds: f64,
}

/// Times of single reads.
#[derive(Debug, Serialize)]
pub(crate) struct Latencies {
    reads: usize,
    median_seconds: f64,
    mean_seconds: f64,
    p99_seconds: f64,
    longest_seconds: f64,
}

impl Sequential {
    pub(crate) fn run(&self) -> anyhow::Result<Throughput> {
        let start = Instant::now();
        let mut total = Read::default();
        for file in &self.files {
            total.add(&read(file, self.block)?);
        }
        Ok(total.since(start))
    }
}

impl Many {
    pub(crate) fn run(&self) -> anyhow::Result<Throughput> {
        let barrier = Barrier::new(self.files.len());
        let start = Instant::now();
        let mut total = Read::default();
        thread::scope(|scope| {
            let mut readers = Vec::new();
            for file in &self.files {
                readers.push(scope.spawn(|| {
                    barrier.wait();
                    read(file, self.block)
                }));
            }
            for reader in readers {
                total.add(&reader.join().ok().context("a reader panicked")??);
            }
            anyhow::Ok(())
        })?;
        Ok(total.since(start))
    }
}

impl Random {
    pub(crate) fn run(&self) -> anyhow::Result<Latencies> {
        let name = || self.file.display().to_string();
        let file = File::open(&self.file).with_context(name)?;
        // Readahead would make the kernel fetch blocks in advance that are read later.
        fadvise(&file, 0, None, Advice::Random).with_context(name)?;
        let block = u64::try_from(self.block)?;
        let blocks = file.metadata().with_context(name)?.len() / block;
        anyhow::ensure!(blocks > 0, "{}: it is shorter than a block", name());
        let mut buffer = vec![0; self.block];
        let mut times = Vec::new();
        for number in distinct(blocks, self.count, self.seed) {
            let start = Instant::now();
            file.read_exact_at(&mut buffer, number * block).with_context(name)?;
            times.push(start.elapsed());
        }
        Ok(Latencies::of(times))
    }
}

impl Latencies {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times.get((times.len() * share / 100).min(times.len() - 1));
        let seconds = |share: usize| at(share).map_or(0.0, Duration::as_secs_f64);
        let total: Duration = times.iter().sum();
        Self {
            reads: times.len(),
            median_seconds: seconds(50),
            mean_seconds: total.as_secs_f64() / f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX)),
            p99_seconds: seconds(99),
            longest_seconds: seconds(100),
        }
    }
}

/// The result of reading a file.
#[derive(Default)]
struct Read {
    bytes: u64,
    longest: Duration,
}

impl Read {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.longest = self.longest.max(other.longest);
    }

    fn since(&self, start: Instant) -> Throughput {
        let (seconds, longest_seconds) = (start.elapsed().as_secs_f64(), self.longest.as_secs_f64());
        Throughput { bytes: self.bytes, seconds, longest_seconds }
    }
}

fn read(path: &Path, block: usize) -> anyhow::Result<Read> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    let mut buffer = vec![0; block];
    let mut total = Read::default();
    loop {
        let start = Instant::now();
        let count = file.read_at(&mut buffer, total.bytes).with_context(name)?;
        total.longest = total.longest.max(start.elapsed());
        if count == 0 {
            return Ok(total);
        }
        total.bytes += count as u64;
    }
}

/// Up to `count` different numbers below `limit`, in an order that only `seed` decides.
fn distinct(limit: u64, count: u64, seed: u64) -> impl Iterator<Item = u64> {
    // A full cycle through a power of two (Hull and Dobell 1962); numbers that are too large are skipped. Only the
    // upper bits are random, so a bijection moves them down.
    let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
    let mask = 1_u64.checked_shl(bits).map_or(u64::MAX, |power| power - 1);
    let mut state = seed;
    let cycle = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) & mask;
        (state ^ (state >> (bits / 2 + 1))).wrapping_mul(0x9E37_79B9) & mask
    });
    let rounds = usize::try_from(mask).unwrap_or(usize::MAX).saturating_add(1);
    cycle.take(rounds).filter(move |number| *number < limit).take(usize::try_from(count).unwrap_or(usize::MAX))
}
