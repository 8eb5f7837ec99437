//! The statement in a result: what was collected from which input.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::model::{CollectReport, CollectedFile, Reason};
use super::origin::CollectedInput;
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::memory::{Parser, WholeFile};
use crate::rope::{ReadError, Rope, Segment};
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input};
use crate::split::{Destination, ListItem, Plan, bounded};
use crate::view::{COLLECTED, JSON_VERSION, REPORTS};

#[derive(Serialize)]
struct CollectStatement<'a> {
    json_version: u32,
    gpu_targets: Vec<String>,
    form: &'static str,
    apps: Vec<CollectedInput>,
    trees: Vec<CollectedInput>,
    files: &'a [CollectedFile],
    /// The archives that were made, of a result in one piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    archives: Option<Vec<String>>,
}

/// What other commands read of a statement.
#[derive(Deserialize)]
struct StatedCollection {
    #[serde(deserialize_with = "bounded")]
    gpu_targets: Vec<String>,
    form: String,
}

/// The files of a statement, of which nothing else is read.
#[derive(Deserialize)]
struct StatedFiles {
    #[serde(deserialize_with = "bounded")]
    gpu_targets: Vec<String>,
    #[serde(deserialize_with = "bounded")]
    files: Vec<CollectedPath>,
    #[serde(default, deserialize_with = "some_names")]
    archives: Option<Vec<CollectedArchive>>,
}

/// The path of an archive.
#[derive(Deserialize)]
#[serde(transparent)]
struct CollectedArchive(String);

/// Names in a field that earlier versions do not write.
fn some_names<'de, D: Deserializer<'de>>(names: D) -> Result<Option<Vec<CollectedArchive>>, D::Error> {
    bounded(names).map(Some)
}

#[derive(Deserialize)]
struct CollectedPath {
    path: String,
    reason: Reason,
}

impl ListItem for CollectedPath {
    const NAME: &'static str = "files";
    // All of ROCm has about 30,000.
    const MOST: usize = 1 << 18;
}

impl ListItem for CollectedArchive {
    const NAME: &'static str = "archives";
    // One for each library and GPU.
    const MOST: usize = CollectedPath::MOST;
}

/// The files that a result has by its statement. Of pieces for several GPUs, there may be the archives and data of one. An error says
/// where the statement is, and why it cannot be read.
pub fn collected_files(result: &Input) -> Result<Vec<EntryPath>, (EntryPath, String)> {
    let place = place().1;
    let Some(content) = result.content(&place) else { return Ok(Vec::new()) };
    let bytes = WholeFile::of(Parser::Collection, &**content).map_err(|error| error.to_string());
    let stated = bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    let StatedFiles { gpu_targets, files, archives } = stated.map_err(|error| (place, error))?;
    let has_all = archives.is_some() || gpu_targets.len() < 2;
    let is_here = |file: &&CollectedPath| has_all || !matches!(file.reason, Reason::Archive | Reason::Data);
    let files = files.iter().filter(is_here).map(|file| &file.path);
    let archives = archives.iter().flatten().map(|archive| &archive.0);
    Ok(files.chain(archives).filter_map(|path| EntryPath::new(path.as_bytes()).ok()).collect())
}

/// Whether an input is a result.
pub fn is_collected(input: &Input) -> bool {
    input.entry(&place().1).is_some()
}

/// The GPUs of a result whose libraries have the code of some GPUs only, by its statement; `None` for anything else.
pub fn collected_gpus(result: &Input) -> Option<GpuSet> {
    stated_gpus(&WholeFile::of(Parser::Collection, &**result.content(&place().1)?).ok()?)
}

/// The same of the bytes of a statement.
pub fn stated_gpus(bytes: &[u8]) -> Option<GpuSet> {
    let stated: StatedCollection = serde_json::from_slice(bytes).ok()?;
    let gpus = stated.gpu_targets.iter().map(|gpu| gpu.parse().ok()).collect::<Option<Vec<_>>>()?;
    // A set of others has no name that can be read again.
    let are_gpus = gpus.iter().all(|gpu: &TargetId| gpu.processor().starts_with("gfx"));
    GpuSet::new(gpus).filter(|_| are_gpus && stated.form == form_name(false))
}

/// The name of a form of device code.
pub fn form_name(has_archives: bool) -> &'static str {
    if has_archives { "archives" } else { "thin" }
}

/// Adds the place of the statement to a result, so that a plan has it. [`CollectReport::state_in`] fills it.
pub(super) fn reserve(input: &mut Input) {
    let (directory, path) = place();
    let kind = EntryKind::File { content: Arc::new(Rope::default()), link_group: None };
    let attributes = Attributes { mode: 0o644, ..input.root };
    input.entries.retain(|entry| entry.path != path);
    if input.entry(&directory).is_none() {
        input.entries.push(Entry { path: directory, kind: EntryKind::Directory, attributes: input.root });
    }
    input.entries.push(Entry { path, kind, attributes });
    input.entries.sort_by(|a, b| a.path.cmp(&b.path));
}

/// The directory of reports, and the statement.
fn place() -> (EntryPath, EntryPath) {
    let directory = EntryPath::root().child(REPORTS.as_bytes());
    let path = directory.child(COLLECTED.as_bytes());
    (directory, path)
}

/// The archives that a result has for these GPUs.
pub fn archives_for(plan: &Plan, gpus: &[TargetId]) -> Vec<String> {
    let keys = keys_of(gpus);
    let own = plan.archives.iter().filter(|archive| keys.contains(&archive.key));
    own.map(|archive| archive.path.to_string()).collect()
}

fn keys_of(gpus: &[TargetId]) -> BTreeSet<BundleKey> {
    gpus.iter().flat_map(|gpu| BundleKey::of(gpu).packaging_chain()).collect()
}

impl CollectReport {
    /// Drops the files that the planned result does not have: databases of other GPUs, and archives whose code is in the
    /// libraries.
    pub fn keep_planned(&mut self, input: &Input, plan: &Plan, gpus: &[TargetId]) {
        let keys = keys_of(gpus);
        let archives: BTreeSet<_> = plan.archives.iter().map(|archive| archive.path.to_string()).collect();
        let places = input.entries.iter().zip(&plan.places);
        let written = places.filter(|(_, place)| match place {
            Destination::Host | Destination::Rewritten { .. } | Destination::Held => true,
            Destination::Device(key, _) => keys.contains(key),
            Destination::Unwanted(..) => false,
        });
        let written: BTreeSet<_> = written.map(|(entry, _)| entry.path.to_string()).collect();
        self.files.retain(|file| written.contains(&file.path) || archives.contains(&file.path));
    }

    /// Writes the statement into the result.
    pub fn state_in(
        &self,
        input: &mut Input,
        plan: &mut Plan,
        gpus: &[TargetId],
        has_archives: bool,
        archives: Option<Vec<String>>,
    ) -> Result<(), ReadError> {
        let statement = CollectStatement {
            json_version: JSON_VERSION,
            gpu_targets: gpus.iter().map(ToString::to_string).collect(),
            form: form_name(has_archives),
            apps: self.apps.iter().map(CollectedInput::named).collect(),
            trees: self.trees.iter().map(CollectedInput::named).collect(),
            files: &self.files,
            archives,
        };
        let text = serde_json::to_string_pretty(&statement).unwrap_or_default() + "\n";
        let rope = Arc::new(Rope::new([Segment::literal(text.into_bytes())])?);
        let (_, path) = place();
        for entry in input.entries.iter_mut().filter(|entry| entry.path == path) {
            entry.kind = EntryKind::File { content: Arc::<Rope>::clone(&rope), link_group: None };
            plan.made.insert(entry.path.clone());
        }
        Ok(())
    }
}
