//! `kpackfs inspect`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use super::artifacts::{PreparedArtifacts, artifacts, print_artifacts};
use super::confinement::Opens;
use super::failure::{TOO_LARGE, printed, unanswered};
use super::gate::{self, RequireOptions};
use super::html::{check_page, write_page};
use super::input::{InputOptions, RemoteOptions, title_of};
use super::json;
use super::limits::{LimitOptions, is_kept, parts_of_input, wheels_of_release};
use super::options::{InspectOptions, SplitOptions};
use super::prepare::{CommandSession, open, save_index};
use super::progress::show_bytes;
use super::table::{Style, Table};
use super::terminal::{complain, stdout, warn};
use crate::coverage::Coverage;
use crate::devicecode::beginnings;
use crate::export::Inputs;
use crate::opened::{Named, NamedPath};
use crate::packages::{InstalledComponent, NothingToSplit};
use crate::page::{Page, ReleasePage};
use crate::remote::check_remote;
use crate::report::{
    CodeSummary, FirstName, InspectReport, Judgement, LayerSummary, LookedAt, ReleaseReport, Sizes, Summary,
    WheelReport, not_searched,
};
use crate::resources::WorkPolicy;
use crate::session::{Prepared, PreparedImage, Release, ReleasedWheel, SessionInputs, Share};
use crate::source::InputKind;
use crate::split::{CodeOfFile, device_code};

/// Report the libraries, targets, databases and sizes of an input
///
/// INPUT may also be the URL of a wheel (https://…), of which only the ranges are read that the answer needs.
///
/// With --require it checks instead whether there is code for some GPUs, and names what lacks it.
///
/// With --max-part it checks whether all parts of a split are small enough: the wheels of a wheel, the directories of a tree.
///
/// Exit codes with --require: 0 all code is there, 1 a library or a kernel database lacks some, or nothing has code,
/// 2 wrong command line, unreadable input, or no output can be written, 5 an input is not there or not understood. --max-part has
/// the same; 1 says that a part is too large.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs inspect torch.whl --require gfx942")]
pub(super) struct Inspect {
    #[command(flatten)]
    source: InputOptions,

    /// Measure sizes by doing the work of a split
    #[arg(long)]
    sizes: bool,

    #[command(flatten)]
    remote: RemoteOptions,

    #[command(flatten)]
    gate: RequireOptions,

    #[command(flatten)]
    limits: LimitOptions,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print tables in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Write an HTML page with pictures and all numbers
    ///
    /// It is self-contained; "-" writes it to stdout. Tables are then printed only if --json or --markdown is given,
    /// too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    options: InspectOptions,
}

impl Inspect {
    pub(super) fn opens(&self) -> Opens {
        self.options.resources.opens(Opens::inputs(self.source.places())).file(self.html.as_deref())
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match self.inspect() {
            Err(error) if self.gate.is_given() || self.limits.max_part.is_some() => Ok(unanswered(&error)),
            result => result,
        }
    }

    fn inspect(&self) -> anyhow::Result<ExitCode> {
        if self.html.as_deref() == Some(Path::new("-")) && (self.json || self.markdown) {
            bail!("--html -: stdout is for the page then, not for --json or --markdown");
        }
        let urls = self.remote.access(&self.source.paths())?;
        let named = &self.source.named()?;
        check_page(self.html.as_deref(), &Inputs::of(named))?;
        let style = if self.markdown { Style::Markdown } else { Style::Text };
        // The sizes are those of what split writes.
        let mut options = self.options.of_split().of_writer();
        // A warning names such an archive, and the quota of temporary files holds.
        options.resources.allow_ratio = true;
        options.policy = WorkPolicy { find: Some(beginnings), urls, ..options.policy };
        if let ([only], true) = (&**named, self.gate.is_given())
            && only.artifacts().is_some()
        {
            return self.inspect_installed(named, &options, style);
        }
        let artifacts = match artifacts(&self.source, named, &options) {
            Err(error) if error.is::<NothingToSplit>() => {
                return self.inspect_installed(named, &options, style);
            }
            artifacts => artifacts?,
        };
        if let Some(artifacts) = artifacts {
            return self.inspect_artifacts(&artifacts, style);
        }
        match self.open(named, &options)? {
            (SessionInputs::One(prepared), layers) => self.inspect_one(&prepared, layers, style),
            (SessionInputs::Several(release), _) => self.inspect_release(&release, style),
        }
    }

    /// Reports what is in one input.
    fn inspect_one(&self, prepared: &Prepared, layers: Vec<LayerSummary>, style: Style) -> anyhow::Result<ExitCode> {
        let planned = prepared.planned();
        let measure = || Ok(show_bytes("Measuring", |progress| Sizes::make(planned.plan, planned.wheels, progress))?);
        if self.sizes {
            measure()?;
        }
        let limit = self.limits.judge(|| parts_of_input(prepared), measure)?;
        let code = search(prepared);
        let coverage = self.gate.judge(prepared, &code, &self.source.paths())?;
        let gates = Gates { coverage: coverage.as_ref(), limit: limit.as_ref() };
        let summaries = Some(CodeSummary::all(&code));
        check_remote(&prepared.resources)?;
        save_index(&prepared.resources);
        let is_tree = matches!(prepared.input.kind, InputKind::Tree);
        let title = is_tree.then(|| title_of(self.source.path()));
        if let Some(file) = &self.html {
            let page = Page::new(planned, summaries.clone(), self.sizes).with(title.clone(), layers.clone());
            write_page(file, &page.html())?;
        }
        if self.html.is_none() || self.json || self.markdown {
            let report = InspectReport { layers, ..InspectReport::of(planned, summaries, self.sizes) };
            let notes = self.notes(prepared, &code);
            let hint = "The sizes of archives and wheels are known after some work, which --sizes does.";
            let hint = (!report.is_complete()).then_some(hint);
            printed(self.print(&report, || report.tables(title.as_deref()), gates, &notes, hint, style))?;
        }
        Ok(self.conclude(gates))
    }

    /// Notes about the wheels of a split, and what was looked at if there is nothing to split, which a gate says on stderr.
    fn notes(&self, prepared: &Prepared, code: &[CodeOfFile]) -> Vec<String> {
        let looked_at = || LookedAt::of([&prepared.input], &prepared.resources).searched(code);
        let nothing = prepared.has_nothing_to_split().then(|| format!("It {}.", looked_at()));
        if let Some(nothing) = nothing.as_ref().filter(|_| self.gate.is_given()) {
            complain(&format_args!("{}: {nothing}", self.source.path().display()));
        }
        let notes = prepared.wheels.as_ref().map(|wheels| wheels.notes.as_slice()).unwrap_or_default();
        notes.iter().cloned().chain(nothing).collect()
    }

    /// Reports what is in artifacts.
    fn inspect_artifacts(&self, artifacts: &PreparedArtifacts, style: Style) -> anyhow::Result<ExitCode> {
        if self.sizes {
            artifacts.make_sizes()?;
        }
        if let Some(file) = &self.html {
            write_page(file, &artifacts.page(self.sizes).html())?;
        }
        let limit = artifacts.judge(self.limits)?;
        if self.html.is_none() || self.json || self.markdown {
            artifacts.inspect(limit.as_ref(), self.json, style)?;
        }
        artifacts.check_any()?;
        Ok(self.conclude(Gates { limit: limit.as_ref(), ..Gates::default() }))
    }

    /// Reports what is in artifacts, each component as it is installed, or whether they have what is required.
    fn inspect_installed(&self, named: &[NamedPath], options: &SplitOptions, style: Style) -> anyhow::Result<ExitCode> {
        if self.html.is_some() || self.sizes || self.limits.max_part.is_some() {
            bail!(
                "of artifacts as they are installed there is no page, and sizes are those of their files; leave out --html, --sizes and \
                 --max-part"
            );
        }
        let opening = CommandSession::new(named, options)?;
        let (session, resources) = (opening.session(), &opening.resources);
        let of_input = |input: &NamedPath| Some(InstalledComponent::all(&input.path, input.artifacts()?));
        let components = named.iter().filter_map(of_input).collect::<Result<Vec<_>, _>>()?;
        let components: Vec<_> = components.into_iter().flatten().collect();
        let plan = |component: &InstalledComponent| -> anyhow::Result<Prepared> {
            session.plan(component.open(resources)?, Share::All)
        };
        if !self.gate.is_given() {
            let planned = components.iter().map(plan).collect::<anyhow::Result<Vec<_>>>()?;
            let artifacts: Vec<_> = planned.iter().map(|prepared| (&prepared.input, &prepared.plan)).collect();
            print_artifacts(&artifacts, None, self.json, style)?;
            save_index(resources);
            return Ok(ExitCode::SUCCESS);
        }
        let mut artifacts = Vec::new();
        let coverage = self.gate.judge_artifacts(&components, |component| {
            let prepared = plan(component)?;
            artifacts.push(Summary::of(&prepared.input, &prepared.plan));
            let code = search(&prepared);
            Ok((prepared, code))
        })?;
        save_index(resources);
        let (mut out, gates) = (stdout(), Gates { coverage: Some(&coverage), limit: None });
        printed(if self.json {
            json::write(&mut out, &JudgedArtifacts { artifacts, coverage: &coverage })
        } else {
            gates.print(style, &mut out).map(drop)
        })?;
        Ok(self.conclude(gates))
    }

    /// Plans the inputs. An image has layers.
    fn open(&self, named: &[NamedPath], options: &SplitOptions) -> anyhow::Result<(SessionInputs, Vec<LayerSummary>)> {
        if let [NamedPath { named: Named::Image(reference), .. }] = named {
            if self.limits.max_part.is_some() {
                bail!(
                    "--max-part: the layers of new images are known when they are made; split --format oci has this option"
                );
            }
            let image = PreparedImage::open(reference, &CommandSession::new(named, options)?.session())?;
            let layers = image.layers()?;
            return Ok((SessionInputs::One(Box::new(image.prepared)), layers));
        }
        Ok((open(named, options)?, Vec::new()))
    }

    /// Reports what is in each of several wheels.
    fn inspect_release(&self, release: &Release, style: Style) -> anyhow::Result<ExitCode> {
        let mut wheels = Vec::with_capacity(release.wheels.len());
        let measure = || {
            let made = release.wheels.iter().map(|wheel| &wheel.prepared).filter(|prepared| prepared.wheels.is_some());
            made.map(|it| show_bytes("Measuring", |progress| Sizes::make(&it.plan, it.wheels.as_ref(), progress)))
                .try_for_each(|made| Ok(made?))
        };
        if self.sizes {
            measure()?;
        }
        let limit = self.limits.judge(|| wheels_of_release(release), measure)?;
        for wheel in &release.wheels {
            let planned = wheel.prepared.planned();
            let report = InspectReport::of(planned, None, self.sizes);
            wheels.push(WheelReport { name: wheel.name()?.to_string(), is_whole: planned.wheels.is_none(), report });
        }
        save_index(&release.resources);
        let coverage = self.gate.judge_release(release, search)?;
        let gates = Gates { coverage: coverage.as_ref(), limit: limit.as_ref() };
        if let Some(file) = &self.html {
            let page = |ReleasedWheel { prepared: it, .. }: &ReleasedWheel| {
                Page::new(it.planned(), Some(CodeSummary::all(&search(it))), self.sizes)
            };
            write_page(file, &ReleasePage(release.wheels.iter().map(page).collect()).html())?;
            if !self.json && !self.markdown {
                return Ok(self.conclude(gates));
            }
        }
        let report = ReleaseReport { wheels };
        let hint = "The sizes of wheels are known after some work, which --sizes does.";
        let hint = (!report.is_complete()).then_some(hint);
        printed(self.print(&report, || report.tables(), gates, &[], hint, style))?;
        Ok(self.conclude(gates))
    }

    /// Prints what gates say, or else tables, notes and a hint, or all of it as JSON.
    fn print<T: IntoIterator<Item = Table>>(
        &self,
        report: &impl Serialize,
        tables: impl FnOnce() -> T,
        gates: Gates<'_>,
        notes: &[String],
        hint: Option<&str>,
        style: Style,
    ) -> anyhow::Result<()> {
        let mut out = stdout();
        if self.json {
            json::write(&mut out, &Inspected { report, gates })?;
        } else if !gates.print(style, &mut out)? {
            for table in tables() {
                table.write(&mut out, style)?;
            }
            for note in notes {
                writeln!(out, "{}\n", style.line(note))?;
            }
            if let Some(hint) = hint {
                writeln!(out, "{hint}")?;
            }
        }
        Ok(out.flush()?)
    }

    /// The exit code, with a sentence on stderr about each gate that is not passed.
    fn conclude(&self, Gates { coverage, limit }: Gates<'_>) -> ExitCode {
        let is_printed = !self.json && (self.html.is_none() || self.markdown);
        let code = gate::conclude(coverage, is_printed);
        if is_kept(limit, is_printed) { code } else { ExitCode::from(TOO_LARGE) }
    }
}

/// What was checked.
#[derive(Clone, Copy, Default, Serialize)]
struct Gates<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<&'a Coverage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a Judgement>,
}

impl Gates<'_> {
    /// Prints what they say. `false` if there is none.
    fn print(self, style: Style, out: &mut impl Write) -> anyhow::Result<bool> {
        let Self { coverage, limit } = self;
        coverage.map_or(Ok(()), |coverage| gate::print_tables(coverage, style, out))?;
        limit.map_or(Ok(()), |limit| limit.table().write(out, style))?;
        coverage.map_or(Ok(()), |coverage| gate::print_verdict(coverage.passed, &coverage.sentence, style, out))?;
        limit.map_or(Ok(()), |limit| gate::print_verdict(limit.passed, &limit.sentence, style, out))?;
        Ok(coverage.is_some() || limit.is_some())
    }
}

/// What `inspect --json` prints: the report of an input, or of several wheels that do not belong together.
#[derive(Serialize)]
struct Inspected<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    #[serde(flatten)]
    gates: Gates<'a>,
}

/// What `inspect --require --json` prints of artifacts.
#[derive(Serialize)]
struct JudgedArtifacts<'a> {
    artifacts: Vec<Summary>,
    coverage: &'a Coverage,
}

/// Searches for device code in all forms.
fn search(prepared: &Prepared) -> Vec<CodeOfFile> {
    let Prepared { input, joined, plan, resources, .. } = prepared;
    let found = show_bytes("Searching", |progress| device_code(input, joined, plan, resources, progress));
    for file in found.iter().filter(|file| file.is_unfinished) {
        let reason = "not searched to the end for device code: it cannot be read, or too much in it looks like some; unpack \
                      it, and inspect that";
        warn(&format!("{}: {reason}", file.path));
    }
    let mut packed = FirstName::default();
    packed.extend(found.iter().filter(|file| file.has_archive).map(|file| &file.path));
    if let Some(warning) = not_searched(&packed) {
        warn(&format!("{}: {warning}", input.location.display()));
    }
    for (file, reason) in found.iter().flat_map(|file| file.damage.values().map(move |reason| (file, reason))) {
        warn(&format!("{}: it cannot be loaded: {reason}", file.path));
    }
    found
}
