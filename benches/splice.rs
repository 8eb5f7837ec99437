//! Splices the fat members of wheels, and compares the cost with that of deflating the same bytes again.
//!
//! `cargo bench --bench splice -- [-o DIR] WHEEL…`; `-o` writes the streams and what they must inflate to,
//! for `tests/splice_inflaters.py`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use kpackfs::binary::FatBinary;
use kpackfs::deflate::{DeflateLevel, splice};
use kpackfs::metrics::Counters;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, edited};
use kpackfs::source::{EntryKind, Input};

/// The number of splices per measurement, because a single one is shorter than the scheduler's ticks.
const ROUNDS: u32 = 20;

/// Seconds of CPU time of this thread (`proc_pid_schedstat`: the first number is nanoseconds).
fn seconds() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split(' ').next().context("schedstat")?;
    Ok(std::time::Duration::from_nanos(first.parse()?).as_secs_f64())
}

/// Counts the bytes that are written.
#[derive(Default)]
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Copies a content in pieces.
fn copy(content: &dyn Content, to: &mut dyn Write) -> anyhow::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < content.size() {
        let count = usize::try_from(content.size() - at)?.min(buffer.len());
        let piece = buffer.get_mut(..count).context("piece")?;
        content.read_at(at, piece)?;
        to.write_all(piece)?;
        at += count as u64;
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // cargo bench adds an option, which is ignored.
    let mut arguments: Vec<_> = std::env::args_os().skip(1).filter(|it| it != "--bench").map(PathBuf::from).collect();
    let mut output = None;
    if let [option, directory, ..] = arguments.as_slice()
        && option.as_os_str() == "-o"
    {
        output = Some(directory.clone());
        arguments.drain(..2);
    }
    println!(
        "member | new size | was packed | spliced | joints | encoded anew | verbatim | index s | splice s | copy s | level 6 s, size"
    );
    let mut number = 0;
    for wheel in arguments {
        let resources = Resources::new(1 << 28);
        let input = Input::open(&wheel, &resources)?;
        for entry in &input.entries {
            let EntryKind::File { content, .. } = &entry.kind else { continue };
            let Ok(Some(binary)) = FatBinary::scan(content) else { continue };
            let edits = binary.edits(&[b'm'; 200])?;
            // The scan has inflated the member already. So the pass is timed with a fresh one.
            let fresh = Input::open(&wheel, &Resources::new(1 << 28))?;
            let Some(EntryKind::File { content: unread, .. }) = fresh.entry(&entry.path).map(|entry| &entry.kind)
            else {
                continue;
            };
            let start = seconds()?;
            let joints = unread.member().context("not a member")?.block_boundaries()?.context("not deflated")?.len();
            let index = seconds()? - start;
            let start = seconds()?;
            for _ in 1..ROUNDS {
                splice(content, &edits, DeflateLevel::default(), None, &Counters::default())?;
            }
            let counters = Counters::default();
            let spliced = splice(content, &edits, DeflateLevel::default(), None, &counters)?.context("no splice")?;
            let cost = (seconds()? - start) / f64::from(ROUNDS);
            let start = seconds()?;
            let mut count = Count::default();
            copy(&spliced.stream, &mut count)?;
            let copying = seconds()? - start;
            let whole: Arc<dyn Content> = Arc::new(edited(content, edits)?);
            let mut bytes = Vec::new();
            copy(&*whole, &mut bytes)?;
            let start = seconds()?;
            let mut encoder = DeflateEncoder::new(Count::default(), Compression::new(6));
            encoder.write_all(&bytes)?;
            let anew = encoder.finish()?.0;
            let reference = seconds()? - start;
            let deflated = counters.bytes_deflated.get();
            #[expect(clippy::cast_precision_loss, reason = "for display")]
            let verbatim = 100.0 * (1.0 - deflated as f64 / spliced.size as f64);
            let packed = content.member().context("not packed")?.packed().bytes.size();
            println!(
                "{} | {} | {packed} | {} | {joints} | {deflated} | {verbatim:.2} % | {index:.3} | {cost:.4} | \
                 {copying:.4} | {reference:.3}, {anew}",
                entry.path, spliced.size, count.0
            );
            anyhow::ensure!(crc32fast::hash(&bytes) == spliced.crc32, "wrong CRC-32");
            if let Some(directory) = &output {
                std::fs::write(directory.join(format!("{number}.content")), bytes)?;
                let mut file = std::fs::File::create(directory.join(format!("{number}.deflate")))?;
                copy(&spliced.stream, &mut file)?;
            }
            number += 1;
        }
    }
    Ok(())
}
