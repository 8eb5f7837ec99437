//! The time from waking a sleeping thread until it runs. Each FUSE request and each answer contains it.

use std::io::{Read, Write, pipe};
use std::thread;
use std::time::Instant;

use serde::Serialize;

/// Round trips.
const TIMES: u32 = 5000;

/// What it takes to wake a thread.
#[derive(Debug, Serialize)]
pub(crate) struct Woken {
    seconds: f64,
}

impl Woken {
    /// Sends a byte back and forth between two threads.
    pub(crate) fn run() -> anyhow::Result<Self> {
        let (mut question, mut ask) = pipe()?;
        let (mut answer, mut reply) = pipe()?;
        let other = thread::spawn(move || -> std::io::Result<()> {
            let mut byte = [0];
            while question.read(&mut byte)? > 0 {
                reply.write_all(&byte)?;
            }
            Ok(())
        });
        let start = Instant::now();
        for _ in 0..TIMES {
            ask.write_all(&[0])?;
            answer.read_exact(&mut [0])?;
        }
        let seconds = start.elapsed().as_secs_f64() / f64::from(2 * TIMES);
        drop(ask);
        other.join().map_err(|_| anyhow::anyhow!("the other thread panicked"))??;
        Ok(Self { seconds })
    }
}
