//! `kpackfs collect`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use super::collect_output::ResultOptions;
use super::collecting::{Collected, Collecting, warn_of_missing};
use super::confinement::Opens;
use super::failure::{printed, unanswered};
use super::html::{check_page, write_page};
use super::input::{forms, input_word};
use super::interrupt;
use super::json;
use super::options::{CompressionOptions, ResourceOptions, SplitOptions, WantedTargets};
use super::prepare::{CommandSession, place_of, save_index};
use super::said::WrittenOutput;
use super::table::{Style, Table, known_size, size};
use super::terminal::stdout;
use crate::collect::{CollectReport, CollectedCode, CollectedFile, Reason, code_of, form_name};
use crate::export::Inputs;
use crate::gpu::TargetId;
use crate::near::near;
use crate::opened::recognise_all;
use crate::page::Page;
use crate::resources::WorkPolicy;

/// Exit code if something needed is missing.
const MISSING: u8 = 1;

/// Rows of a table.
const MAX_ROWS: usize = 200;

/// Write an application with what it needs of ROCm, for some GPUs
///
/// That is libraries, archives, kernel databases and licences. Libraries are found as a loader finds them: by the names in the files, along their search paths, and in TREE. A table has
/// what libraries load by name. Libraries that every system has are left out.
///
/// Exit codes: 0 all is there, 1 something needed is missing (the rest is written), 2 wrong command line, unreadable input,
/// or the output cannot be written, 5 an input is not there or not understood. If the result exceeds --max-part, nothing is
/// written, and the exit code is 1.
#[derive(Debug, Args)]
#[command(
    override_usage = "kpackfs collect [OPTIONS] <APP>... --from <TREE>... --gpu-targets <LIST>",
    mut_arg("gpu_targets", |it| it.help("The GPUs that the application is for; \"auto\" for those of this machine").long_help(None)),
    after_long_help = "Example:\n  kpackfs collect app --from /opt/rocm --gpu-targets gfx1100 -o app.zip"
)]
pub(super) struct Collect {
    /// Programs and libraries, or directories of them
    #[arg(required = true, value_parser = input_word())]
    app: Vec<PathBuf>,

    #[arg(
        long,
        required = true,
        num_args = 1..,
        value_name = "TREE",
        help_heading = "Collect",
        value_parser = input_word(),
        help = "Where the libraries are: install trees, wheels, …, in the order of search",
        long_help = concat!("Where the libraries are, in the order of search: ", forms!())
    )]
    from: Vec<PathBuf>,

    #[command(flatten)]
    collecting: Collecting,

    #[command(flatten)]
    targets: WantedTargets,

    #[command(flatten)]
    result: ResultOptions,

    /// Print why FILE is in the result
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    explain: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write the page of `inspect --html` about the result
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    compression: CompressionOptions,

    #[command(flatten)]
    resources: ResourceOptions,
}

/// What `collect --json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    gpu_targets: Vec<String>,
    form: &'static str,
    #[serde(flatten)]
    report: &'a CollectReport,
    code: Vec<CollectedCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<&'a WrittenOutput>,
}

impl Collect {
    pub(super) fn opens(&self) -> Opens {
        let inputs = self.app.iter().chain(&self.from).map(|input| place_of(input)).collect();
        let opens = self.resources.opens(Opens::everything(inputs)).file(self.html.as_deref());
        match &self.result.output {
            Some(output) => opens.directory(self.result.directory(output)),
            None => opens,
        }
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.collect().or_else(|error| Ok(unanswered(&error)))
    }

    fn collect(&self) -> anyhow::Result<ExitCode> {
        interrupt::watch()?;
        let named: Vec<_> = self.app.iter().chain(&self.from).cloned().collect();
        let named = recognise_all(&named)?;
        let (inputs, (app, from)) = (Inputs::of(&named), named.split_at(self.app.len()));
        check_page(self.html.as_deref(), &inputs)?;
        self.result.output.iter().try_for_each(|output| inputs.check_outside(output))?;
        let options = SplitOptions {
            targets: self.targets.only(),
            compression: self.compression.clone(),
            resources: self.resources.clone(),
            policy: WorkPolicy { check_bundles: true, ..WorkPolicy::default() },
            ..SplitOptions::default()
        };
        let is_whole = !self.result.shared;
        let mut collected = self.collecting.collect(app, from, &options, is_whole)?;
        let written = match &self.result.output {
            Some(output) => {
                let resources = &collected.prepared.resources;
                let again = |gpus: &[TargetId]| {
                    let (choices, resources) = (options.with_gpus(gpus).choices()?, Arc::clone(resources));
                    let opening = CommandSession { choices, resources, is_quiet: true };
                    self.collecting.collect_for(gpus, app, from, &opening, is_whole)
                };
                Some(self.result.write(&collected, output, &inputs, &again)?)
            }
            None if self.result.limits.max_part.is_some() => {
                bail!("--max-part needs --output, whose format has the size")
            }
            None => None,
        };
        let common = self.result.output.as_deref().map(|output| self.result.common(output));
        collected.measure(common.as_deref().filter(|common| common.is_dir()))?;
        let prepared = &collected.prepared;
        if let Some(file) = &self.html {
            write_page(file, &Page::new(prepared.planned(), None, true).html())?;
        }
        save_index(&prepared.resources);
        printed(self.print(&collected, written.as_ref()))?;
        warn_of_missing(&collected.report);
        written.iter().filter(|_| !self.json).for_each(WrittenOutput::say);
        Ok(if collected.report.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISSING) })
    }

    fn print(&self, collected: &Collected, written: Option<&WrittenOutput>) -> anyhow::Result<()> {
        let mut out = stdout();
        let Collected { prepared, report, gpus, has_archives } = collected;
        let code = code_of(&prepared.input, &prepared.plan, gpus);
        if self.json {
            let form = form_name(*has_archives);
            let gpu_targets = gpus.iter().map(ToString::to_string).collect();
            json::write(&mut out, &Answer { gpu_targets, form, report, code, written })?;
            return Ok(out.flush()?);
        }
        if !self.explain.is_empty() {
            for name in &self.explain {
                if let Some(file) = report.file(name) {
                    explain(report, file, &code, &mut out)?;
                    continue;
                }
                let absence = report.absence(name);
                if absence.is_empty() {
                    let paths = report.files.iter().map(|file| &file.path);
                    let meant = near(name, paths);
                    if report.files.iter().any(|file| file.path.rsplit('/').next() == Some(name)) {
                        bail!("--explain {name}: several files of the result have this name; give the path of one");
                    }
                    bail!("--explain {name}: no file of the result has this path or name{meant}");
                }
                for line in absence {
                    writeln!(out, "{}", Style::Text.line(&line))?;
                }
            }
            return Ok(out.flush()?);
        }
        for table in tables(report, &code, gpus.iter().map(ToString::to_string)) {
            table.write(&mut out, Style::Text)?;
        }
        for note in &report.notes {
            writeln!(out, "note: {}", Style::Text.line(note))?;
        }
        Ok(out.flush()?)
    }
}

/// Prints the chain of files that need a file.
fn explain(
    report: &CollectReport,
    file: &CollectedFile,
    code: &[CollectedCode],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let chain = report.chain(file);
    let names = chain.iter().map(|file| file.path.rsplit('/').next().unwrap_or_default());
    let mut names: Vec<_> = names.map(|name| Style::Text.line(name)).collect();
    let gpus = code.iter().find(|code| code.path == file.path).map(|code| {
        let present = code.gpus.iter().filter(|(_, size)| **size > 0).map(|(gpu, _)| gpu.as_str());
        present.collect::<Vec<_>>().join(", ")
    });
    names.extend(gpus.filter(|gpus| !gpus.is_empty()));
    writeln!(out, "{}", names.join(" → "))?;
    let place = report.origin(file).map(|input| input.path.display().to_string()).unwrap_or_default();
    let rule = file.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
    let reason: &str = file.reason.into();
    writeln!(out, "  {} of {}: {reason}{rule}", Style::Text.line(&file.source), Style::Text.line(&place))?;
    Ok(())
}

/// The report as tables.
fn tables(report: &CollectReport, code: &[CollectedCode], gpus: impl Iterator<Item = String>) -> Vec<Table> {
    let gpus: Vec<_> = gpus.collect();
    let listed = [Reason::Needed, Reason::LoadedByName, Reason::Included];
    let listed = report.files.iter().filter(|file| listed.contains(&file.reason));
    let libraries = Table::of("Libraries", "path | size # | needed by | why", listed, |file| {
        let (by, why) = (file.by.clone().unwrap_or_default(), <&str>::from(file.reason).to_owned());
        [file.path.clone(), known_size(file.size), by, why]
    });
    let mut sizes = Table::new("Device code", "path | shared #");
    for gpu in &gpus {
        sizes.add_column(gpu);
    }
    for row in code {
        let of_gpu =
            |gpu: &String| row.gpus.get(gpu).filter(|bytes| **bytes > 0).map_or("-".to_owned(), |bytes| size(*bytes));
        sizes.row([row.path.clone(), size(row.shared)].into_iter().chain(gpus.iter().map(of_gpu)));
    }
    let [missing, absent] =
        [("Missing", &report.missing), ("Not found, and not always needed", &report.absent)].map(|(title, pieces)| {
            Table::of(title, "name | needed by | reason", pieces, |piece| {
                [piece.name.clone(), piece.by.clone(), piece.reason.clone()]
            })
        });
    let left_out = Table::of("Left out", "name | needed by | rule", &report.left_out, |library| {
        [library.name.clone(), library.by.clone(), library.rule.clone()]
    });
    let suggestions =
        Table::of("Named in strings; --include takes one in", "name | in", &report.suggestions, |suggestion| {
            [suggestion.name.clone(), suggestion.by.clone()]
        });
    let mut tables = vec![libraries, sizes, missing, absent, left_out, suggestions];
    for table in &mut tables {
        table.shorten(MAX_ROWS);
    }
    tables
}
