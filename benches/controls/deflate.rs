//! C4: the cost of only deflating, each file in one stream.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;

use crate::clock::timed;

/// Bytes per read.
const INPUT: usize = 1 << 20;

/// Deflates files by zlib-rs.
#[derive(Debug, Args)]
pub(crate) struct Deflate {
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[arg(long, default_value_t = 6)]
    level: u32,
}

/// What was deflated, and the CPU time that it took.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Deflated {
    bytes: u64,
    packed_bytes: u64,
    cpu_seconds: f64,
}

/// Counts what is written.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Deflate {
    pub(crate) fn run(&self) -> anyhow::Result<Deflated> {
        let mut buffer = vec![0; INPUT];
        let mut done = Deflated::default();
        for path in &self.files {
            let (packed, time) = timed(|| self.deflate(path, &mut buffer, &mut done.bytes));
            done.packed_bytes += packed.with_context(|| path.display().to_string())?;
            done.cpu_seconds += time.as_secs_f64();
        }
        Ok(done)
    }

    fn deflate(&self, path: &PathBuf, buffer: &mut [u8], bytes: &mut u64) -> io::Result<u64> {
        let mut file = File::open(path)?;
        let mut encoder = DeflateEncoder::new(Counted(0), Compression::new(self.level));
        loop {
            let count = file.read(buffer)?;
            if count == 0 {
                return Ok(encoder.finish()?.0);
            }
            *bytes += count as u64;
            encoder.write_all(buffer.get(..count).unwrap_or_default())?;
        }
    }
}
