//! `kpackfs inspect --require`: whether an input has code for some GPUs.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::gpus::gpus;
use super::table::Style;
use super::terminal::{complain, passed};
use crate::coverage::{Coverage, CoverageInput, InputCoverage, Pattern, Requirement};
use crate::gpu::{GpuSet, TargetId};
use crate::opened::thin_gpus;
use crate::packages::InstalledComponent;
use crate::session::{Prepared, Release};
use crate::split::CodeOfFile;

/// Exit code if code is missing.
const MISSING: u8 = 1;

/// Rows of each table, on a terminal and in the summary of a CI job. All failures are printed.
const MAX_ROWS: usize = 200;
const MAX_ROWS_OF_SUMMARY: usize = 60;

/// The requirement.
#[derive(Clone, Debug, Args)]
pub(super) struct RequireOptions {
    /// Exit with 1 unless all that has code has what these GPUs need
    ///
    /// Each library and each kernel database is judged.
    #[arg(long, value_name = "LIST", value_parser = |list: &str| gpus(list).map(GpuList), help_heading = "Gate")]
    require: Vec<GpuList>,

    /// With --require: check only libraries and databases with such paths
    ///
    /// "*" stands for any characters but "/", and "**" for any. A pattern without "/" is one of names, also of
    /// databases (rocblas). It may be given several times.
    #[arg(long, value_name = "GLOB", requires = "require", help_heading = "Gate", hide_short_help = true)]
    require_in: Vec<Pattern>,

    /// With --require: fail also if code cannot be judged
    ///
    /// For example that of files that UPX packed.
    #[arg(long, requires = "require", help_heading = "Gate")]
    require_judged: bool,
}

/// GPUs in one value of the option.
#[derive(Clone, Debug)]
struct GpuList(Vec<TargetId>);

impl RequireOptions {
    /// Whether GPUs are required.
    pub(super) fn is_given(&self) -> bool {
        !self.require.is_empty()
    }

    fn requirement(&self) -> Requirement {
        let mut gpus: Vec<_> = self.require.iter().flat_map(|list| &list.0).cloned().collect();
        gpus.sort();
        gpus.dedup();
        Requirement { gpus, patterns: self.require_in.clone(), is_all_judged: self.require_judged }
    }

    /// The answer, if GPUs are required.
    pub(super) fn judge(
        &self,
        prepared: &Prepared,
        code: &[CodeOfFile],
        locations: &[PathBuf],
    ) -> anyhow::Result<Option<Coverage>> {
        let requirement = self.requirement();
        let judge = || Ok(Coverage::of(&requirement, vec![judged(prepared, code, None, locations, &requirement)?]));
        self.is_given().then(judge).transpose()
    }

    /// The answer about several wheels that do not belong together, if GPUs are required. `search` finds their device code.
    pub(super) fn judge_release(
        &self,
        release: &Release,
        search: impl Fn(&Prepared) -> Vec<CodeOfFile>,
    ) -> anyhow::Result<Option<Coverage>> {
        if !self.is_given() {
            return Ok(None);
        }
        let requirement = self.requirement();
        let wheels = release.wheels.iter().zip(of_each(release, &requirement));
        let of_wheels = wheels.filter(|(_, own)| !own.gpus.is_empty()).map(|(wheel, own)| {
            let (name, code) = (wheel.name()?.to_string(), search(&wheel.prepared));
            judged(&wheel.prepared, &code, Some(&name), &[], &own)
        });
        let covered = of_wheels.collect::<anyhow::Result<_>>()?;
        let distributions = release.wheels.iter().map(|wheel| Ok(wheel.name()?.to_string()));
        let distributions = distributions.collect::<anyhow::Result<_>>()?;
        Ok(Some(Coverage { distributions, ..Coverage::of(&requirement, covered) }))
    }

    /// The answer about artifacts. `examine` plans one of them, and finds its device code.
    pub(super) fn judge_artifacts(
        &self,
        components: &[InstalledComponent],
        mut examine: impl FnMut(&InstalledComponent) -> anyhow::Result<(Prepared, Vec<CodeOfFile>)>,
    ) -> anyhow::Result<Coverage> {
        let requirement = self.requirement();
        let of_components = components.iter().map(|component| {
            let (prepared, code) = examine(component)?;
            judged(&prepared, &code, component.name.as_deref(), &[], &requirement)
        });
        Ok(Coverage::of(&requirement, of_components.collect::<anyhow::Result<_>>()?))
    }
}

/// The answer about an input with this device code. `within` is what its paths are in, of several inputs.
fn judged(
    prepared: &Prepared,
    code: &[CodeOfFile],
    within: Option<&str>,
    locations: &[PathBuf],
    requirement: &Requirement,
) -> anyhow::Result<InputCoverage> {
    let Prepared { input, joined, plan, resources, .. } = prepared;
    input.check_access()?;
    Ok(InputCoverage::of(&CoverageInput { within, locations, input, joined, plan, code, resources }, requirement))
}

/// The GPUs that are required of each of several wheels: of thin wheels of one distribution, a GPU uses that with its code. What
/// none of them is for is required of all.
fn of_each(release: &Release, requirement: &Requirement) -> Vec<Requirement> {
    let thin: Vec<_> = release.wheels.iter().map(|wheel| thin_gpus(&wheel.prepared.input)).collect();
    let is_for = |set: &GpuSet, gpu: &TargetId| set.targets().iter().any(|it| it.is_same_gpu(gpu));
    let has_own = |gpu: &TargetId| thin.iter().flatten().any(|set| is_for(set, gpu));
    let of_wheel = |set: &Option<GpuSet>| {
        let is_wanted = |gpu: &&TargetId| set.as_ref().is_none_or(|set| is_for(set, gpu) || !has_own(gpu));
        let gpus = requirement.gpus.iter().filter(is_wanted).cloned().collect();
        Requirement { gpus, ..requirement.clone() }
    };
    thin.iter().map(of_wheel).collect()
}

/// Prints the tables of the answer.
pub(super) fn print_tables(coverage: &Coverage, style: Style, out: &mut impl Write) -> anyhow::Result<()> {
    let most = if let Style::Markdown = style { MAX_ROWS_OF_SUMMARY } else { MAX_ROWS };
    for table in coverage.tables(most) {
        table.write(out, style)?;
    }
    Ok(())
}

/// Prints the verdict of a gate, which comes last.
pub(super) fn print_verdict(
    has_passed: bool,
    sentence: &str,
    style: Style,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}: {}", passed(has_passed, style), style.line(sentence))?)
}

/// Prints on stderr why a gate has failed, unless that is on the screen already because the verdict `is_printed`.
pub(super) fn say_failure(sentence: &str, is_printed: bool) {
    if !(is_printed && io::stdout().is_terminal() && io::stderr().is_terminal()) {
        complain(&sentence);
    }
}

/// The exit code, with a sentence on stderr if it is not 0. `is_printed` is about the verdict.
pub(super) fn conclude(coverage: Option<&Coverage>, is_printed: bool) -> ExitCode {
    let Some(coverage) = coverage.filter(|coverage| !coverage.passed) else { return ExitCode::SUCCESS };
    say_failure(&coverage.sentence, is_printed);
    ExitCode::from(MISSING)
}
