//! Commands whose input is an artifact or a directory of artifacts.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::bail;
use serde::Serialize;

use super::artifact_parts::PreparedParts;
use super::failure::text;
use super::gate::print_verdict;
use super::input::{InputOptions, title_of};
use super::json;
use super::limits::LimitOptions;
use super::options::SplitOptions;
use super::prepare::{resources, save_index};
use super::progress::show_bytes;
use super::said::SaidOptions;
use super::table::{Style, Table, counted, known_size, size};
use super::terminal::{self, stdout};
use crate::artifact::MANIFEST;
use crate::kpack::BundleJobs;
use crate::mount::Served;
use crate::opened::NamedPath;
use crate::packages::{Artifacts, SplitArtifact};
use crate::page::Page;
use crate::report::{Judgement, Sizes, Summary};
use crate::rope::Materialize;
use crate::source::Input;
use crate::split::{Packaging, Plan, Statement};
use crate::text::some_of;

/// Artifacts that have been opened.
pub(super) struct PreparedArtifacts {
    input: PathBuf,
    /// The artifacts that had to be split.
    split: Vec<SplitArtifact>,
    /// The number of artifacts that could not be used.
    failures: usize,
    pub(super) parts: PreparedParts,
}

/// The artifacts, if the input is one or contains some.
pub(super) fn artifacts(
    source: &InputOptions,
    named: &[NamedPath],
    options: &SplitOptions,
) -> anyhow::Result<Option<PreparedArtifacts>> {
    match (source.artifact_directory(), artifacts_of(named, options)?) {
        (Some(directory), None) => bail!("{}: {MANIFEST} not found in it", directory.display()),
        (_, found) => Ok(found),
    }
}

/// The artifacts, if a single input is one or contains some.
pub(super) fn artifacts_of(named: &[NamedPath], options: &SplitOptions) -> anyhow::Result<Option<PreparedArtifacts>> {
    match named {
        [input] => prepare_artifacts(input, options),
        _ => Ok(None),
    }
}

/// Plans all artifacts, and prints warnings. `None` if there are none.
fn prepare_artifacts(named: &NamedPath, options: &SplitOptions) -> anyhow::Result<Option<PreparedArtifacts>> {
    let Some(found) = named.artifacts() else { return Ok(None) };
    let (input, choices) = (&named.path, options.to_options(Packaging::Processors)?);
    if let Some(option) = options.of_wheels().first() {
        bail!("{option}: it is about wheels, and artifacts are none; leave the option out");
    }
    if choices.overlay_roots.is_some() {
        bail!("--overlay-root: the manifest of an artifact says what its overlay roots are");
    }
    let resources = resources(input, options)?;
    let jobs = BundleJobs::new(&resources);
    let artifacts = show_bytes("Planning", |progress| Artifacts::split(input, found, &choices, &jobs, progress))?;
    let Artifacts { parts, split, notes, failures, inputs, .. } = artifacts;
    warn(&notes);
    for error in &failures {
        terminal::warn(&text(error));
    }
    let (statement, made) = (Statement::of(&choices), options.made_time()?);
    let parts = PreparedParts { parts, inputs, statement, made, resources };
    Ok(Some(PreparedArtifacts { input: input.clone(), split, failures: failures.len(), parts }))
}

/// Prints warnings on stderr.
pub(super) fn warn<T: Display>(notes: &[T]) {
    for note in notes {
        terminal::warn(&note.to_string());
    }
}

/// The report that `inspect --json` prints and `report.json` contains.
#[derive(Serialize)]
struct SplitReport<'a> {
    artifacts: Vec<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a Judgement>,
}

impl PreparedArtifacts {
    pub(super) fn served(&self) -> anyhow::Result<Served> {
        let artifacts = self.planned().map(|(input, plan)| Summary::of(input, plan)).collect();
        self.parts.served(&self.input, Some(json::text(&SplitReport { artifacts, limit: None })?))
    }

    /// Leaves out the parts without these names, if there are any.
    pub(super) fn choose(&mut self, views: &[String]) -> anyhow::Result<()> {
        let PreparedParts { parts, statement, .. } = &mut self.parts;
        let names: Vec<_> = parts.iter().map(|part| part.name.to_string()).collect();
        if let Some(view) = views.iter().find(|view| !names.contains(view)) {
            bail!("--view {view}: there is no such part; there are {}", some_of(&names));
        }
        parts.retain(|part| views.is_empty() || views.contains(&part.name.to_string()));
        statement.views = views.to_vec();
        Ok(())
    }

    /// What of them is not split.
    pub(super) fn not_split(&self, said: SaidOptions) -> Option<String> {
        said.not_split(self.planned(), &self.parts.resources)
    }

    fn planned(&self) -> impl Iterator<Item = (&Input, &Plan)> {
        self.split.iter().map(|artifact| (&artifact.input, &artifact.plan))
    }

    /// Fails if some artifacts could not be split.
    pub(super) fn check_all(&self) -> anyhow::Result<()> {
        match self.failures {
            0 => Ok(()),
            failures => bail!("{} could not be split", counted(failures, "artifact", "artifacts")),
        }
    }

    /// Fails if none of them could be used.
    pub(super) fn check_any(&self) -> anyhow::Result<()> {
        match (self.split.as_slice(), self.failures) {
            ([], failures @ 1..) => bail!("{} could not be used", counted(failures, "artifact", "artifacts")),
            _ => Ok(()),
        }
    }

    /// Makes the archives, so that their sizes are known.
    pub(super) fn make_sizes(&self) -> anyhow::Result<()> {
        show_bytes("Measuring", |progress| {
            self.split.iter().try_for_each(|artifact| Sizes::make(&artifact.plan, None, progress))
        })?;
        save_index(&self.parts.resources);
        Ok(())
    }

    /// The HTML page about them.
    pub(super) fn page(&self, has_sizes: bool) -> Page {
        Page::of_artifacts(&title_of(&self.input), &self.split, has_sizes)
    }

    /// Prints the content of the artifacts, or what the limit says about it.
    pub(super) fn inspect(&self, limit: Option<&Judgement>, as_json: bool, style: Style) -> anyhow::Result<()> {
        print_artifacts(&self.planned().collect::<Vec<_>>(), limit, as_json, style)
    }

    /// What the limit says about the parts.
    pub(super) fn judge(&self, limits: LimitOptions) -> anyhow::Result<Option<Judgement>> {
        self.parts.judge(limits, || self.make_sizes())
    }
}

/// Prints the content of artifacts, or what the limit says about it.
pub(super) fn print_artifacts(
    artifacts: &[(&Input, &Plan)],
    limit: Option<&Judgement>,
    as_json: bool,
    style: Style,
) -> anyhow::Result<()> {
    let mut out = stdout();
    if as_json {
        let artifacts = artifacts.iter().map(|(input, plan)| Summary::of(input, plan)).collect();
        return json::write(&mut out, &SplitReport { artifacts, limit });
    }
    if let Some(limit) = limit {
        limit.table().write(&mut out, style)?;
        return print_verdict(limit.passed, &limit.sentence, style, &mut out);
    }
    let columns = "part | binaries # | code objects # | code # | archives # | database files # | database size # | \
        host code #";
    let mut table = Table::new(counted(artifacts.len(), "artifact", "artifacts"), columns);
    for (input, plan) in artifacts {
        add_rows(&mut table, &Summary::of(input, plan), plan);
    }
    Ok(table.write(&mut out, style)?)
}

/// Adds the rows of an artifact.
fn add_rows(table: &mut Table, summary: &Summary, plan: &Plan) {
    let count = |number: usize| if number == 0 { String::new() } else { number.to_string() };
    let [none_1, none_2, none_3, none_4, none_5] = [const { String::new() }; 5];
    let (name, binaries) = (format!("{}_generic", summary.group), count(summary.binaries.len()));
    table.row([name, binaries, none_1, none_2, none_3, none_4, none_5, size(summary.host_size)]);
    for (key, device) in &summary.device {
        let archives = plan.archives.iter().filter(|planned| planned.key.as_str() == key);
        let archive_size = archives.map(|it| it.archive.made().map(|made| made.size())).sum::<Option<u64>>();
        table.row([
            format!("{}_{key}", summary.group),
            String::new(),
            count(device.archives.iter().map(|archive| archive.code_objects).sum()),
            size(device.archives.iter().map(|archive| archive.code_size).sum()),
            known_size(archive_size),
            count(device.database_files),
            if device.database_files > 0 { size(device.database_size) } else { String::new() },
            String::new(),
        ]);
    }
}
