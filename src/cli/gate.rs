//! `kpackfs inspect --require`: whether an input has code for some GPUs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::failure::text;
use super::gpus::gpu;
use super::lists::pieces;
use super::prepare::Prepared;
use super::table::Style;
use super::terminal::message;
use crate::coverage::{Coverage, CoverageInput, Pattern, Requirement};
use crate::gpu::TargetId;
use crate::source::EntryPath;
use crate::split::Embedded;

/// Exit code if code is missing.
const MISSING: u8 = 1;
/// Exit code if there is no answer.
const UNREADABLE: u8 = 2;

/// Rows of each table, on a terminal and in the summary of a CI job. All failures are printed.
const MAX_ROWS: usize = 200;
const MAX_ROWS_OF_SUMMARY: usize = 60;

/// The requirement.
#[derive(Clone, Debug, Args)]
pub(super) struct RequireOptions {
    /// Exit with 1 unless each library, each wrapper and each kernel database that has code has some for these GPUs
    #[arg(long, value_name = "LIST", value_parser = gpus, help_heading = "Gate")]
    require: Vec<GpuList>,

    /// Check only libraries and directories of databases with such paths; "*" stands for any characters but "/", "**"
    /// for any; a pattern without "/" is one of names, also of databases (rocblas); may be given several times
    #[arg(long, value_name = "GLOB", requires = "require", help_heading = "Gate")]
    require_in: Vec<Pattern>,
}

/// GPUs in one value of the option.
#[derive(Clone, Debug)]
struct GpuList(Vec<TargetId>);

fn gpus(list: &str) -> Result<GpuList, String> {
    match pieces(list).as_slice() {
        [] => Err("it names no GPU".to_owned()),
        names => names.iter().map(|name| gpu(name)).collect::<Result<_, _>>().map(GpuList),
    }
}

impl RequireOptions {
    fn is_closed(&self) -> bool {
        !self.require.is_empty()
    }

    /// The exit code. Errors have one of their own, so that they are not taken for missing code.
    pub(super) fn code(&self, result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
        match result {
            Err(error) if self.is_closed() => {
                eprintln!("kpackfs: {}", message(&text(&error)));
                Ok(ExitCode::from(UNREADABLE))
            }
            result => result,
        }
    }

    /// Fails for artifacts: each has code for some GPUs only, by design.
    pub(super) fn refuse_artifacts(&self) -> anyhow::Result<()> {
        if self.is_closed() {
            bail!("--require: it judges wheels, trees and binaries, and these are artifacts");
        }
        Ok(())
    }

    /// The answer, if one is required.
    pub(super) fn judge(
        &self,
        prepared: &Prepared,
        embedded: &[(EntryPath, Embedded)],
        locations: &[PathBuf],
    ) -> Option<Coverage> {
        let Prepared { input, joined, plan, resources, .. } = prepared;
        let examined = CoverageInput { locations, input, joined, plan, embedded, resources };
        let mut gpus: Vec<_> = self.require.iter().flat_map(|list| &list.0).cloned().collect();
        gpus.sort();
        gpus.dedup();
        let requirement = Requirement { gpus, patterns: self.require_in.clone() };
        self.is_closed().then(|| Coverage::of(&examined, &requirement))
    }
}

/// Prints the answer as text.
pub(super) fn print(coverage: &Coverage, style: Style, out: &mut impl Write) -> anyhow::Result<()> {
    let mark = if coverage.passed { "Passed" } else { "Failed" };
    writeln!(out, "{mark}: {}\n", style.line(&coverage.sentence))?;
    let most = if let Style::Markdown = style { MAX_ROWS_OF_SUMMARY } else { MAX_ROWS };
    for table in coverage.tables(most) {
        table.write(out, style)?;
    }
    Ok(())
}

/// The exit code, with a sentence on stderr if it is not 0.
pub(super) fn conclude(coverage: Option<&Coverage>) -> ExitCode {
    let Some(coverage) = coverage.filter(|coverage| !coverage.passed) else { return ExitCode::SUCCESS };
    eprintln!("kpackfs: {}", message(&coverage.sentence));
    ExitCode::from(MISSING)
}
