//! Commands whose input is an artifact or a directory of artifacts.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use serde::Serialize;

use super::input::InputOptions;
use super::json;
use super::limits::{self, LimitOptions, measured};
use super::options::SplitOptions;
use super::prepare::{resources, save_index};
use super::progress::show_bytes;
use super::table::{Style, Table, counted, known_size, size};
use super::terminal;
use super::writing::{Writing, clear_set_id, write_views};
use crate::artifact::{ArtifactName, GENERIC, MANIFEST, ManifestError};
use crate::export::{Inputs, Output, Replace, StatementChange};
use crate::kpack::{ArchiveRope, BundleJobs, make_archives};
use crate::mount::Served;
use crate::opened::NamedPath;
use crate::packages::{ArtifactError, ArtifactPart, Artifacts, SplitArtifact, lay_out_artifacts};
use crate::page::Page;
use crate::report::{Judgement, PartChoice, PartGpus, SizedPart, Sizes, Summary};
use crate::resources::Resources;
use crate::rope::{Content, Materialize, SizeBounds};
use crate::source::{EntryPath, Input};
use crate::split::{Packaging, Plan, SplitId, Statement, statement_of_component};
use crate::tree::{Body, ROOT, Tree};
use crate::view::{MANIFESTS, MadeTime, Metrics, Status, TreeManifest, fixed};

/// Artifacts, and the resources for work on them.
pub(super) struct PreparedArtifacts {
    input: PathBuf,
    artifacts: Artifacts,
    /// The restrictions of the split.
    statement: Statement,
    /// What the time of files depends on that a mount makes.
    made: MadeTime,
    resources: Arc<Resources>,
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
    let (of, jobs) = ((&**input, found), BundleJobs::new(&resources));
    let artifacts = show_bytes("Planning", |progress| Artifacts::split(of, &choices, &jobs, progress));
    let artifacts = match artifacts {
        // A tar archive named as an artifact may contain any tree.
        Err(ArtifactError::Manifest(ManifestError::Missing(_))) if input.is_file() => return Ok(None),
        artifacts => artifacts?,
    };
    warn(&artifacts.notes);
    warn(&artifacts.failures);
    let statement = Statement::of(&choices);
    let made = artifacts.inputs.states.iter().fold(options.made_time()?, MadeTime::and_input);
    Ok(Some(PreparedArtifacts { input: input.clone(), artifacts, statement, made, resources }))
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
    fn report(&self) -> SplitReport<'static> {
        let summary = |artifact: &SplitArtifact| Summary::of(&artifact.input, &artifact.plan);
        SplitReport { artifacts: self.artifacts.split.iter().map(summary).collect(), limit: None }
    }

    pub(super) fn served(&self) -> anyhow::Result<Served> {
        let report = json::text(&self.report())?;
        serve(
            &self.artifacts.parts,
            &self.input,
            (&self.artifacts.inputs.witnesses, &self.made),
            Some(report),
            &self.statement,
            &self.resources,
        )
    }

    /// Writes the parts, or those with these names. Returns their places.
    pub(super) fn write(
        &self,
        views: &[String],
        (output, inputs): (&Path, &Inputs),
        keep_set_id: bool,
        force: bool,
        writing: (Writing, LimitOptions),
    ) -> anyhow::Result<Vec<PathBuf>> {
        let is_wanted = |part: &&ArtifactPart| views.is_empty() || views.contains(&part.name.to_string());
        let parts: Vec<_> = self.artifacts.parts.iter().filter(is_wanted).cloned().collect();
        if let Some(view) = views.iter().find(|view| !parts.iter().any(|part| part.name.to_string() == **view)) {
            bail!("--view {view}: there is no such part");
        }
        let statement = self.statement.clone().with_views(views);
        let (writing, limits) = writing;
        write(&parts, (output, writing, limits), keep_set_id, force, inputs, &statement, &self.resources)
    }

    /// Fails if some artifacts could not be split.
    pub(super) fn check_all(&self) -> anyhow::Result<()> {
        match self.artifacts.failures.as_slice() {
            [] => Ok(()),
            failures => bail!("{} could not be split", counted(failures.len(), "artifact", "artifacts")),
        }
    }

    /// Fails if none of them could be used.
    pub(super) fn check_any(&self) -> anyhow::Result<()> {
        match (self.artifacts.split.as_slice(), self.artifacts.failures.len()) {
            ([], failures @ 1..) => bail!("{} could not be used", counted(failures, "artifact", "artifacts")),
            _ => Ok(()),
        }
    }

    /// Makes the archives, so that their sizes are known.
    pub(super) fn make_sizes(&self) -> anyhow::Result<()> {
        show_bytes("Measuring", |progress| {
            self.artifacts.split.iter().try_for_each(|artifact| Sizes::make(&artifact.plan, None, progress))
        })?;
        save_index(&self.resources);
        Ok(())
    }

    /// The HTML page about them.
    pub(super) fn page(&self, has_sizes: bool) -> Page {
        let name = self.input.canonicalize().ok();
        let name = name.as_deref().unwrap_or(&self.input).file_name().unwrap_or(self.input.as_os_str());
        Page::of_artifacts(&name.to_string_lossy(), &self.artifacts.split, has_sizes)
    }

    /// Prints the content of the artifacts, or what the limit says about it.
    pub(super) fn inspect(&self, limit: Option<&Judgement>, as_json: bool, style: Style) -> anyhow::Result<()> {
        let artifacts = self.artifacts.split.iter().map(|artifact| (&artifact.input, &artifact.plan));
        print_artifacts(&artifacts.collect::<Vec<_>>(), limit, as_json, style)
    }

    /// What the limit says about the parts.
    pub(super) fn judge(&self, limits: LimitOptions) -> anyhow::Result<Option<Judgement>> {
        let parts = &self.artifacts.parts;
        let tree = lay_out_artifacts(parts, Vec::new())?;
        let mut inside = BTreeMap::<String, u64>::new();
        for (component, _, statement) in statements(parts, &self.statement) {
            let split_id = split_id(parts, &component).map(SplitId::text).transpose()?;
            let statement = statement.with_split_id(split_id);
            for part in statement.parts()? {
                *inside.entry(part.to_string()).or_default() += statement.to_json().len() as u64;
            }
        }
        for (part, manifest) in manifests(parts, None) {
            *inside.entry(part).or_default() += manifest.text().size();
        }
        let with_added = |part: SizedPart| {
            let added = SizeBounds::exact(inside.get(&part.name).copied().unwrap_or(0));
            SizedPart { size: part.size + added, ..part }
        };
        let sized = || Ok(artifact_parts(parts, &tree).into_iter().map(with_added).collect());
        limits.judge(sized, || self.make_sizes())
    }
}

/// Prints the content of artifacts, or what the limit says about it.
pub(super) fn print_artifacts(
    artifacts: &[(&Input, &Plan)],
    limit: Option<&Judgement>,
    as_json: bool,
    style: Style,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let artifacts = artifacts.iter().map(|(input, plan)| Summary::of(input, plan)).collect();
        return json::write(&mut out, &SplitReport { artifacts, limit });
    }
    if let Some(limit) = limit {
        return limits::print(limit, style, &mut out);
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

/// What a mount of parts serves. Its reports say when one of `witnesses` can no longer be read. `made` has the time of made
/// files.
pub(super) fn serve(
    parts: &[ArtifactPart],
    source: &Path,
    (witnesses, made): (&[Arc<dyn Content>], &MadeTime),
    report: Option<String>,
    statement: &Statement,
    resources: &Arc<Resources>,
) -> anyhow::Result<Served> {
    let archives = parts
        .iter()
        .flat_map(|part| part.archives().map(|(path, archive)| (format!("{}/{path}", part.name), Arc::clone(archive))));
    let status = Status::new(source.to_string_lossy(), resources, archives).watching(witnesses.iter().cloned());
    let mut reports = vec![
        ("status.json", Body::Live(Arc::new(status))),
        ("metrics", Body::Live(Arc::new(Metrics(Arc::clone(resources))))),
    ];
    reports.extend(report.map(|report| ("report.json", fixed(report))));
    let statements = statements(parts, statement);
    let manifests: Vec<_> = manifests(parts, None)
        .into_iter()
        .map(|(part, manifest)| (format!("{MANIFESTS}/{part}.json"), Body::Ready(manifest.text())))
        .collect();
    reports.extend(manifests.iter().map(|(name, text)| (name.as_str(), text.clone())));
    for (component, name, statement) in &statements {
        let body = match split_id(parts, component) {
            Some(split_id) => Body::Ready(Arc::new(statement.to_rope(split_id)?)),
            None => fixed(statement.to_json()),
        };
        reports.push((name, body));
    }
    let total_bytes = parts.iter().map(ArtifactPart::known_size).sum();
    let mut tree = lay_out_artifacts(parts, reports)?;
    tree.date(made.seconds());
    Ok(Served { tree: Arc::new(tree), resources: Arc::clone(resources), total_bytes })
}

/// The statement of each component, and the name of its file.
fn statements(parts: &[ArtifactPart], statement: &Statement) -> Vec<(String, String, Statement)> {
    let mut components = BTreeMap::<&str, Vec<String>>::new();
    for part in parts {
        components.entry(&part.name.component).or_default().push(part.name.to_string());
    }
    let stated = |(component, parts): (&str, Vec<String>)| {
        (component.to_owned(), statement_of_component(component), statement.clone().with_parts(parts))
    };
    components.into_iter().map(stated).collect()
}

/// The ID of the split of a component; `None` if its parts are of several.
fn split_id<'a>(parts: &'a [ArtifactPart], component: &str) -> Option<&'a SplitId> {
    Some(&parts.iter().find(|part| part.name.component == component)?.split.as_ref()?.id)
}

/// The manifests of the parts of a component, or of all components.
fn manifests(parts: &[ArtifactPart], component: Option<&str>) -> Vec<(String, TreeManifest)> {
    let wanted = parts.iter().filter(|part| component.is_none_or(|component| part.name.component == component));
    let manifest = |part: &ArtifactPart| Some((part.name.to_string(), part.split.as_ref()?.manifest.clone()?));
    wanted.filter_map(manifest).collect()
}

/// Writes each part to a directory in `output`. Returns their places.
pub(super) fn write(
    parts: &[ArtifactPart],
    (output, writing, limits): (&Path, Writing, LimitOptions),
    keep_set_id: bool,
    force: bool,
    inputs: &Inputs,
    statement: &Statement,
    resources: &Resources,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut tree = lay_out_artifacts(parts, Vec::new())?;
    if !keep_set_id {
        clear_set_id(&mut tree);
    }
    let place = |part: &ArtifactPart| {
        let name = part.name.to_string();
        (EntryPath::root().child(name.as_bytes()), output.join(name))
    };
    let views: Vec<_> = parts.iter().map(place).collect();
    let is_whole = statement.views.is_empty();
    let stated = statements(parts, statement).into_iter().map(|(component, _, statement)| {
        let is_part =
            |path: &EntryPath| ArtifactName::parse(&path.to_text()).is_some_and(|it| it.component == component);
        let statement = statement.with_split_id(split_id(parts, &component).map(SplitId::text).transpose()?);
        let change = StatementChange::of_component(output, &component, statement, is_whole, is_part, terminal::warn)?;
        Ok(change.with_manifests_inside(output, manifests(parts, Some(&component))))
    });
    let stated = stated.collect::<anyhow::Result<Vec<_>>>()?;
    let places: Vec<_> = views.iter().map(|(_, place)| place.clone()).collect();
    let gone: Vec<_> = stated.iter().flat_map(StatementChange::replaced).collect();
    // A build repeats a split into the same directory when an artifact has changed.
    let ours = stated.iter().flat_map(StatementChange::ours).collect();
    let replace = if force { Replace::Anything } else { Replace::Only(ours) };
    stated.iter().try_for_each(|stated| stated.check(inputs))?;
    let added: Vec<_> = stated.iter().flat_map(StatementChange::sizes).collect();
    let place = output;
    let with_added = |part: SizedPart| {
        let directory = place.join(&part.name);
        let added = added.iter().filter(|(file, _)| file.starts_with(&directory)).map(|(_, size)| size).sum();
        SizedPart { size: part.size + SizeBounds::exact(added), ..part }
    };
    let sized = || artifact_parts(parts, &tree);
    let bounds = || Ok(sized().into_iter().map(with_added).collect());
    limits.check_bounds(bounds, PartChoice::Gpus)?;
    let mut output = Output::prepare(output, &places, &gone, &replace, inputs, &resources.store, terminal::warn)?;
    let archives: Vec<&ArchiveRope> =
        parts.iter().flat_map(|part| part.archives().map(|(_, archive)| &**archive)).collect();
    let views = output.views(&views);
    let sums = stated.iter().flat_map(|stated| stated.sums(&views)).collect();
    let check = |ready: &_| {
        let measured = || Ok(measured(sized(), &output, ready).into_iter().map(with_added).collect());
        limits.check(measured, PartChoice::Gpus)
    };
    let make = |done: &_| make_archives(&archives, done);
    let files = write_views(&tree, &views, (&archives, make), sums, writing, check)?;
    output.add_made(files);
    stated.iter().try_for_each(|stated| stated.write(&mut output))?;
    output.publish(writing.durability())?;
    save_index(resources);
    Ok(places)
}

/// The parts of artifacts, without what is added to them about the split.
fn artifact_parts(parts: &[ArtifactPart], tree: &Tree) -> Vec<SizedPart> {
    let sized = |part: &ArtifactPart| {
        let name = part.name.to_string();
        let node = tree.resolve(ROOT, &EntryPath::root().child(name.as_bytes()))?;
        let key = part.name.family.parse().ok().filter(|_| part.name.family != GENERIC);
        Some(SizedPart::of_node(name, key.map_or(PartGpus::All, PartGpus::Key), (tree, node)))
    };
    parts.iter().filter_map(sized).collect()
}
