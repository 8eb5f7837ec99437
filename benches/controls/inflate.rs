//! C2: the cost of only inflating.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use flate2::{Decompress, FlushDecompress, Status};
use serde::Serialize;
use zip::ZipArchive;

use crate::clock::timed;

/// Bytes per read.
const INPUT: usize = 128 << 10;
/// Bytes of the buffer, which all output overwrites.
const OUTPUT: usize = 1 << 20;

/// Inflates members of a wheel, the largest first.
#[derive(Debug, Args)]
pub(crate) struct Inflate {
    wheel: PathBuf,
    #[arg(required = true)]
    members: Vec<String>,
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// What was inflated, and the time that it took.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inflated {
    bytes: u64,
    packed_bytes: u64,
    /// Wall time.
    seconds: f64,
    /// CPU time of all threads together.
    cpu_seconds: f64,
}

struct Member {
    start: u64,
    packed: u64,
    size: u64,
}

impl Inflate {
    pub(crate) fn run(&self) -> anyhow::Result<Inflated> {
        let name = || self.wheel.display().to_string();
        let file = File::open(&self.wheel).with_context(name)?;
        let mut members = self.members(&file)?;
        members.sort_by_key(|member| std::cmp::Reverse(member.packed));
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        let mut total = Inflated::default();
        thread::scope(|scope| {
            let work = || {
                let mut done = Inflated::default();
                while let Some(member) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (bytes, time) = timed(|| inflate(&file, member));
                    done.bytes += bytes?;
                    done.packed_bytes += member.packed;
                    done.cpu_seconds += time.as_secs_f64();
                }
                anyhow::Ok(done)
            };
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                let done = thread.join().ok().context("a thread panicked")??;
                total.bytes += done.bytes;
                total.packed_bytes += done.packed_bytes;
                total.cpu_seconds += done.cpu_seconds;
            }
            anyhow::Ok(())
        })?;
        total.seconds = start.elapsed().as_secs_f64();
        Ok(total)
    }

    fn members(&self, file: &File) -> anyhow::Result<Vec<Member>> {
        let mut archive = ZipArchive::new(file)?;
        let mut members = Vec::new();
        for name in &self.members {
            let number = archive.index_for_name(name).with_context(|| format!("{name}: no such member"))?;
            let found = archive.by_index_raw(number)?;
            let start = found.data_start().with_context(|| format!("{name}: no data"))?;
            members.push(Member { start, packed: found.compressed_size(), size: found.size() });
        }
        Ok(members)
    }
}

fn inflate(file: &File, member: &Member) -> anyhow::Result<u64> {
    let mut decoder = Decompress::new(false);
    let mut input = vec![0; INPUT];
    let mut output = vec![0; OUTPUT];
    loop {
        let at = decoder.total_in();
        let length = usize::try_from(member.packed - at)?.min(INPUT);
        let mut rest = input.get_mut(..length).context("piece")?;
        file.read_exact_at(rest, member.start + at)?;
        loop {
            let (read, made) = (decoder.total_in(), decoder.total_out());
            let status = decoder.decompress(rest, &mut output, FlushDecompress::None)?;
            if status == Status::StreamEnd {
                anyhow::ensure!(decoder.total_out() == member.size, "a member is not as long as it claims to be");
                return Ok(member.size);
            }
            rest = rest.get_mut(usize::try_from(decoder.total_in() - read)?..).context("rest")?;
            // While the output buffer is full, there can be more output although all input is consumed.
            if rest.is_empty() && decoder.total_out() - made < OUTPUT as u64 {
                break;
            }
        }
        anyhow::ensure!(decoder.total_in() < member.packed, "a stream has no end");
    }
}
