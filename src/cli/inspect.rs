//! `kpackfs inspect`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use super::options::SplitOptions;
use super::prepare::prepare;
use crate::split::Summary;

/// Tell what is in a wheel or install tree: libraries, targets, databases and sizes
#[derive(Debug, Args)]
pub(super) struct Inspect {
    #[command(flatten)]
    options: SplitOptions,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let prepared = prepare(&self.options)?;
        let summary = Summary::of(&prepared.input, &prepared.plan);
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &summary)?;
            writeln!(out)?;
        } else {
            print(&mut out, &summary)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(out: &mut impl Write, summary: &Summary) -> std::io::Result<()> {
    writeln!(out, "group {}: {} entries, {}", summary.group, summary.entries, size(summary.input_size))?;
    writeln!(out, "host part: {}\n", size(summary.host_size))?;
    let binaries = summary.binaries.iter().map(|binary| {
        vec![
            binary.path.clone(),
            size(binary.size),
            size(binary.host_size),
            binary.wrappers.to_string(),
            binary.code_objects.to_string(),
            size(binary.code_size),
            binary.targets.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
        ]
    });
    table(out, &["binary", "size", "host", "wrappers", "objects", "code", "targets"], binaries)?;
    let databases = summary.databases.iter().map(|(name, database)| {
        let keys = database.keys.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        vec![name.clone(), database.files.to_string(), size(database.size), keys]
    });
    table(out, &["database", "files", "size", "keys"], databases)?;
    let device = summary.device.iter().map(|(key, device)| {
        let objects: usize = device.archives.iter().map(|archive| archive.code_objects).sum();
        let code = device.archives.iter().map(|archive| archive.code_size).sum();
        vec![
            key.clone(),
            device.level.clone(),
            device.archives.len().to_string(),
            objects.to_string(),
            size(code),
            device.database_files.to_string(),
            size(device.database_size),
        ]
    });
    table(out, &["key", "level", "archives", "objects", "code", "files", "databases"], device)
}

/// Prints rows in aligned columns; nothing if there are none. Columns but the first and the last are numbers mostly.
fn table(out: &mut impl Write, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> std::io::Result<()> {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let header: Vec<_> = header.iter().map(|&title| title.to_owned()).collect();
    let lines = || std::iter::once(&header).chain(&rows);
    let width = |column: usize| lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    for line in lines() {
        let last = line.len() - 1;
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(out, "{cell:width$}")?,
                _ if column == last => write!(out, "  {cell}")?,
                _ => write!(out, "  {cell:>width$}")?,
            }
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// A size for people, in powers of 1024.
pub(super) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}
