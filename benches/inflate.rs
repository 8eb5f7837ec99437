//! The cost of reading the largest member of wheels, compared with only inflating it.
//!
//! `cargo bench --bench inflate -- WHEEL…`. Each round measures everything once, so that other load on the machine
//! affects all measurements alike. The table has medians. Ratios are CPU time of a bare inflate over CPU time of the
//! subject, or wall time where the table names it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use flate2::{Decompress, FlushDecompress, Status};
use kpackfs::index::Index;
use kpackfs::resources::Resources;
use kpackfs::rope::Content;
use kpackfs::source::{EntryKind, Input};

const ROUNDS: usize = 5;
const BUDGET: u64 = 256 << 20;
const RANDOM: usize = 400;

/// Seconds of CPU time of all threads, including those that have ended.
fn cpu() -> anyhow::Result<f64> {
    let time = std::time::Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))?;
    Ok(time.as_secs_f64())
}

/// Runs `work`. Returns seconds of wall time and of CPU time.
fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<[f64; 2]> {
    let (wall, before) = (Instant::now(), cpu()?);
    work()?;
    Ok([wall.elapsed().as_secs_f64(), cpu()? - before])
}

/// The control: inflates into the same 1 MiB repeatedly.
fn bare(content: &dyn Content) -> anyhow::Result<()> {
    let packed = content.member().context("not in a zip file")?.packed().bytes;
    let (mut input, mut output) = (vec![0; 64 << 10], vec![0; 1 << 20]);
    let mut decoder = Decompress::new(false);
    let mut at = 0;
    loop {
        let count = usize::try_from(packed.size() - at)?.min(input.len());
        let piece = input.get_mut(..count).context("piece")?;
        packed.read_at(at, piece)?;
        at += count as u64;
        let mut rest = &*piece;
        let mut room = 0;
        while !rest.is_empty() || room == 0 {
            let (consumed, produced) = (decoder.total_in(), decoder.total_out());
            let status = decoder.decompress(rest, &mut output, FlushDecompress::None)?;
            rest = rest.get(usize::try_from(decoder.total_in() - consumed)?..).context("rest")?;
            room = output.len() - usize::try_from(decoder.total_out() - produced)?;
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }
}

fn sequential(content: &dyn Content, step: usize) -> anyhow::Result<()> {
    let mut buffer = vec![0; step];
    let mut at = 0;
    while at < content.size() {
        let count = usize::try_from(content.size() - at)?.min(step);
        content.read_at(at, buffer.get_mut(..count).context("piece")?)?;
        at += count as u64;
    }
    Ok(())
}

/// Seconds of CPU time for each of the random reads of 128 KiB, ascending.
fn random(content: &dyn Content, seed: u64) -> anyhow::Result<Vec<f64>> {
    let mut state = seed | 1;
    let mut buffer = vec![0; 128 << 10];
    let mut times = Vec::new();
    for _ in 0..RANDOM {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let start = cpu()?;
        content.read_at(state % (content.size() - buffer.len() as u64), &mut buffer)?;
        times.push(cpu()? - start);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The largest member.
fn largest(input: &Input) -> anyhow::Result<(String, Arc<dyn Content>)> {
    let files = input.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::File { content, .. } => Some((entry.path.to_string(), Arc::clone(content))),
        _ => None,
    });
    files.max_by_key(|(_, content)| content.size()).context("no file")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn main() -> anyhow::Result<()> {
    // cargo bench adds an option, which is ignored.
    let wheels = std::env::args_os().skip(1).filter(|it| it != "--bench").map(std::path::PathBuf::from);
    println!(
        "member | bare MB/s | joints/bare | first read, wall | again, wall | recalled, wall | random 128 KiB CPU ms: mean \
         p50 p99 max | index, % of wheel"
    );
    for wheel in wheels {
        let cache = std::env::temp_dir().join(format!("kpackfs-bench-{}", std::process::id()));
        let mut columns: [Vec<f64>; 7] = Default::default();
        let (mut times, mut speed, mut name, mut share) = (Vec::new(), Vec::new(), String::new(), 0.0);
        for round in 0..ROUNDS {
            let fresh = || largest(&Input::open(&wheel, &Resources::new(BUDGET))?);
            let (path, content) = fresh()?;
            name = path;
            let control = timed(|| bare(&*content))?;
            speed.push(content.size() as f64 / 1e6 / control[1]);
            let joints = timed(|| Ok(content.member().context("not in a zip file")?.block_boundaries().map(drop)?))?;
            std::fs::create_dir_all(&cache)?;
            let memory = || Index::open(&cache, &wheel);
            let resources = Resources::with_index(BUDGET, memory());
            let (_, content) = largest(&Input::open(&wheel, &resources)?)?;
            let first = timed(|| sequential(&*content, 128 << 10))?;
            let again = timed(|| sequential(&*content, 128 << 10))?;
            resources.index.save()?;
            share = 100.0 * resources.index.file().context("no index")?.metadata()?.len() as f64
                / wheel.metadata()?.len() as f64;
            let resources = Resources::with_index(BUDGET, memory());
            let (_, content) = largest(&Input::open(&wheel, &resources)?)?;
            let recalled = timed(|| sequential(&*content, 128 << 10))?;
            times.extend(random(&*content, 77 + round as u64)?);
            std::fs::remove_dir_all(&cache)?;
            let ratio =
                |subject: [f64; 2], kind: usize| control.get(kind).zip(subject.get(kind)).map_or(0.0, |(a, b)| a / b);
            let row = [
                ratio(joints, 1),
                ratio(first, 1),
                ratio(first, 0),
                ratio(again, 1),
                ratio(again, 0),
                ratio(recalled, 1),
                ratio(recalled, 0),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let [joints, first, first_wall, again, again_wall, recalled, recalled_wall] = columns.map(median);
        times.sort_by(f64::total_cmp);
        let mean = 1e3 * times.iter().sum::<f64>() / times.len() as f64;
        let at = |thousandth: usize| 1e3 * times.get(times.len() * thousandth / 1000).or(times.last()).unwrap_or(&0.0);
        println!(
            "{name} | {:.0} | {joints:.2} | {first:.2}, {first_wall:.2} | {again:.2}, {again_wall:.2} | {recalled:.2}, \
             {recalled_wall:.2} | {mean:.2} {:.2} {:.2} {:.2} | {share:.2}",
            median(speed),
            at(500),
            at(990),
            at(1000),
        );
    }
    Ok(())
}
