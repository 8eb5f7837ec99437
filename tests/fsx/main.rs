//! A read-only fsx: random operations on the files of a mount, from several threads and processes, whose results are
//! compared with the same files that `kpackfs split` has written to a disk.
//!
//! Variables: `KPACKFS_FSX_OPS` (all operations together), `KPACKFS_FSX_SEED`, `KPACKFS_FSX_INPUTS` (separated by
//! colons), `KPACKFS_FSX_MINUTES` (after which the run counts as hanging). A failure names seed and operation. A run
//! with the same seed does the same operations in each of its threads.

#![allow(missing_docs, clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod operations;
mod random;
mod subject;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use operations::Operations;
use random::Random;
use subject::{Subject, files, fixtures};

const PROCESSES: u64 = 2;
const THREADS: u64 = 2;

/// The arguments of a process that does a part of the operations: seed, number of operations, mount and oracle.
const WORKER: &str = "--worker";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, WORKER, seed, operations, mount, oracle] => {
            work(seed.parse().unwrap(), operations.parse().unwrap(), Path::new(mount), Path::new(oracle));
        }
        // Like libtest with a filter for names of other tests.
        [_, filter, ..] if !filter.starts_with('-') && !"fsx".contains(filter) => {}
        _ => {
            if !common::can_mount() {
                return ExitCode::SUCCESS;
            }
            return every_operation_reads_what_split_writes();
        }
    }
    ExitCode::SUCCESS
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(format!("KPACKFS_FSX_{name}")).ok().map(|text| text.parse().unwrap())
}

fn every_operation_reads_what_split_writes() -> ExitCode {
    let seed = variable("SEED").unwrap_or(1);
    let place = tempfile::tempdir().unwrap();
    let inputs = match std::env::var("KPACKFS_FSX_INPUTS") {
        Ok(names) => names.split(':').map(PathBuf::from).collect(),
        Err(_) => fixtures(place.path()),
    };
    let operations = variable("OPS").unwrap_or(20_000) / inputs.len() as u64;
    let limit = Duration::from_secs(60 * variable("MINUTES").unwrap_or(30));
    eprintln!("fsx: seed {seed}, {operations} operations on each of {} inputs", inputs.len());
    for input in &inputs {
        let start = Instant::now();
        let subject = Subject::new(input);
        let prepared = start.elapsed();
        let children = (0..PROCESSES).map(|process| start_worker(seed + process, operations / PROCESSES, &subject));
        let failed = wait(children.collect(), start + limit);
        if failed > 0 {
            eprintln!("fsx: {failed} processes failed; KPACKFS_FSX_SEED={seed} repeats {}", input.display());
            return ExitCode::FAILURE;
        }
        subject.is_at_rest();
        let (name, elapsed) = (input.file_name().unwrap().display(), start.elapsed());
        eprintln!("fsx: {name}: prepared in {prepared:.1?}, done after {elapsed:.1?}");
    }
    println!("test every_operation_reads_what_split_writes ... ok");
    ExitCode::SUCCESS
}

fn start_worker(seed: u64, operations: u64, subject: &Subject) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([WORKER, &seed.to_string(), &operations.to_string()]);
    command.arg(subject.mount()).arg(subject.oracle()).spawn().unwrap()
}

/// Waits for all processes. Returns how many failed or hang.
fn wait(mut children: Vec<Child>, limit: Instant) -> usize {
    let mut failed = 0;
    while let Some(child) = children.last_mut() {
        match child.try_wait().unwrap() {
            Some(status) => {
                failed += usize::from(!status.success());
                children.pop();
            }
            None if Instant::now() > limit => {
                eprintln!("fsx: hangs");
                child.kill().unwrap();
                failed += 1;
                children.pop();
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
    failed
}

fn work(seed: u64, operations: u64, mount: &Path, oracle: &Path) {
    let files = files(mount, oracle);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let random = Random::new(seed.wrapping_mul(31).wrapping_add(thread));
                let files = &files;
                scope.spawn(move || Operations::new(random, files).run(operations / THREADS))
            })
            .collect();
        let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        assert_eq!(failed, 0, "threads of the process with seed {seed}");
    });
}
