//! `kpackfs diff`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::confinement::Opens;
use super::failure::{UNANSWERED, printed, unanswered};
use super::gate::{print_verdict, say_failure};
use super::html::{check_page, write_page};
use super::input::{forms, input_word};
use super::json;
use super::options::DiffOptions;
use super::prepare::{place_of, resources, save_index};
use super::progress::show_bytes;
use super::table::Style;
use super::terminal::{stdout, warn};
use crate::diff::{Diff, Settings, Side};
use crate::export::Inputs;
use crate::memory::{check_tables, limit_tables};
use crate::opened::NamedPath;
use crate::split::Packaging;

/// Exit code if something grew by more than --fail-above allows.
const EXCEEDED: u8 = 1;

/// Rows of each table, on a terminal and in a comment of a pull request.
const MAX_ROWS: usize = 40;
const MAX_ROWS_OF_COMMENT: usize = 15;

/// List what changed between two inputs
///
/// That is sizes, targets, code objects, kernels, files and metadata. The two may be of different forms. Code objects are equal if all of their bytes are. Kernels are equal if names and sizes in
/// the symbol tables are.
///
/// Exit codes: 0 compared, and nothing grew by more than --fail-above allows, 1 something grew by more, 2 wrong command
/// line, unreadable input, or the output cannot be written, 5 an input is not there or not understood.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs diff torch-2.10.whl torch-2.11.whl --fail-above 5")]
pub(super) struct Compare {
    #[arg(value_parser = input_word(), help = "The input before", long_help = concat!("The input before: ", forms!()))]
    before: PathBuf,

    /// The input after, in any of these forms
    #[arg(value_parser = input_word())]
    after: PathBuf,

    /// Exit with 1 if a part or a download grew by more than this
    ///
    /// A part is the host part or a target. New targets have no size to grow from, but count in the download.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,

    /// Measure sizes by doing the work of both splits
    #[arg(long)]
    sizes: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print tables in Markdown, for a comment on a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Write a self-contained HTML page
    ///
    /// "-" writes it to stdout. Tables are then printed only if --json or --markdown is given, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    options: DiffOptions,
}

impl Compare {
    pub(super) fn opens(&self) -> Opens {
        let inputs = [&self.before, &self.after].map(|input| place_of(input));
        self.options.resources.opens(Opens::inputs(inputs.to_vec())).file(self.html.as_deref())
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.html.as_deref() == Some(Path::new("-")) && (self.json || self.markdown) {
            bail!(clap::Error::raw(
                clap::error::ErrorKind::ArgumentConflict,
                "--html -: stdout is for the page then, not for --json or --markdown\n"
            ));
        }
        let diff = match self.compare() {
            Ok(diff) => diff,
            Err(error) => return Ok(unanswered(&error)),
        };
        diff.warnings.iter().for_each(|warning| warn(warning));
        if let Err(error) = printed(self.write(&diff)) {
            return Ok(unanswered(&error));
        }
        if let Some(unknown) = diff.unknown() {
            say_failure(&unknown, !self.json && (self.html.is_none() || self.markdown));
            return Ok(ExitCode::from(UNANSWERED));
        }
        let Some(gate) = diff.gate.filter(|gate| !gate.is_passed()) else { return Ok(ExitCode::SUCCESS) };
        say_failure(&gate.sentence, !self.json && (self.html.is_none() || self.markdown));
        Ok(ExitCode::from(EXCEEDED))
    }

    fn write(&self, diff: &Diff) -> anyhow::Result<()> {
        if let Some(file) = &self.html {
            write_page(file, &diff.html())?;
        }
        if self.html.is_none() || self.json || self.markdown {
            self.print(diff)?;
        }
        Ok(stdout().flush()?)
    }

    fn compare(&self) -> anyhow::Result<Diff> {
        let named = [NamedPath::of(&self.before)?, NamedPath::of(&self.after)?];
        check_page(self.html.as_deref(), &Inputs::of(&named))?;
        // The sizes are those of what split writes.
        let mut options = self.options.of_split().of_writer();
        options.resources.memory = options.resources.memory.halved();
        let settings = Settings {
            options: options.to_options(Packaging::Bundles)?,
            artifacts: options.to_options(Packaging::Processors)?,
            wheels: options.to_wheel_options()?,
        };
        let open = |named: &NamedPath| -> anyhow::Result<Side> {
            let resources = resources(&place_of(&named.path), &options)?;
            // Both inputs are in memory.
            limit_tables(self.options.resources.memory.bytes());
            show_bytes("Planning", |progress| Side::open(named, &settings, &resources, progress))
        };
        let [before, after] = &named;
        let (mut before, mut after) = (open(before)?, open(after)?);
        if let Some(option) = options.of_wheels().first().filter(|_| !before.has_wheels() && !after.has_wheels()) {
            bail!("{option}: it is about wheels, and no wheel is made of these; leave the option out");
        }
        before.compare_with(&after);
        after.compare_with(&before);
        if self.sizes {
            show_bytes("Measuring", |progress| before.make_sizes(progress).and_then(|()| after.make_sizes(progress)))?;
        }
        let mut diff = show_bytes("Comparing", |progress| Diff::of(&before, &after, progress))?;
        check_tables()?;
        for side in [&before, &after] {
            save_index(&side.resources);
        }
        if let Some(percent) = self.fail_above {
            if let Some(name) = diff.without_code() {
                bail!(
                    "{name}: it has no device code, so --fail-above has no sizes to compare; check that it is the right input"
                );
            }
            diff.set_gate(percent);
        }
        Ok(diff)
    }

    fn print(&self, diff: &Diff) -> anyhow::Result<()> {
        let mut out = stdout();
        if self.json {
            return json::write(&mut out, diff);
        }
        let (style, most) =
            if self.markdown { (Style::Markdown, MAX_ROWS_OF_COMMENT) } else { (Style::Text, MAX_ROWS) };
        let mut tables = diff.tables(most).into_iter();
        if let Some(first) = tables.next() {
            first.write(&mut out, style)?;
        }
        writeln!(out, "{}\n", style.line(&diff.sentence()))?;
        for table in tables {
            table.write(&mut out, style)?;
        }
        match &diff.gate {
            Some(gate) => print_verdict(gate.is_passed(), &gate.sentence, style, &mut out),
            None => Ok(()),
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number of percent that is not negative".to_owned()),
    }
}
