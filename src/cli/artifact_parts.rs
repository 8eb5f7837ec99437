//! The parts of artifacts, which are served or written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::LimitOptions;
use super::mount_reports::{live_reports, manifest_reports};
use super::prepare::save_index;
use super::terminal;
use super::writing::{OutputTarget, ViewsToPublish, WorkBefore, clear_set_id};
use crate::artifact::{ArtifactName, GENERIC};
use crate::export::StatementChange;
use crate::kpack::{ArchiveRope, make_archives, unmade_size};
use crate::metrics::Progress;
use crate::mount::Served;
use crate::packages::{ArtifactPart, PartInputs, lay_out_artifacts};
use crate::report::{Judgement, PartChoice, PartGpus, SizedPart};
use crate::resources::Resources;
use crate::rope::SizeBounds;
use crate::source::{Attributes, EntryPath};
use crate::split::{SplitId, Statement, statement_of_component};
use crate::tree::{Body, ROOT, Tree};
use crate::view::{MadeTime, TreeManifest, fixed, show_reports};

/// Parts of artifacts, and the resources for work on them.
pub(super) struct PreparedParts {
    pub(super) parts: Vec<ArtifactPart>,
    pub(super) inputs: PartInputs,
    /// The restrictions of the split.
    pub(super) statement: Statement,
    /// What the time of files that a mount makes depends on in addition to the inputs.
    pub(super) made: MadeTime,
    pub(super) resources: Arc<Resources>,
}

impl PreparedParts {
    /// What a mount of them serves. Its reports say when an input can no longer be read.
    pub(super) fn served(&self, source: &Path, report: Option<String>) -> anyhow::Result<Served> {
        let Self { parts, inputs, made, resources, .. } = self;
        let archives = parts.iter().flat_map(|part| {
            part.archives().map(|(path, archive)| (format!("{}/{path}", part.name), Arc::clone(archive)))
        });
        let mut reports = live_reports(source, resources, archives, inputs.witnesses.iter().cloned());
        let report = report.map(|report| ("report.json".to_owned(), fixed(report)));
        let of_files = report.into_iter().chain(manifest_reports(self.manifests(None))).collect();
        for (component, statement) in self.statements() {
            let body = match self.split_id(&component) {
                Some(split_id) => Body::Ready(Arc::new(statement.to_rope(split_id)?)),
                None => fixed(statement.to_json()),
            };
            reports.push((statement_of_component(&component), body));
        }
        let total_bytes = parts.iter().map(ArtifactPart::known_size).sum();
        let mut tree = lay_out_artifacts(parts, reports)?;
        if let Some(readers) = Attributes::of_all(inputs.readers.iter().copied()) {
            show_reports(&mut tree, &EntryPath::root(), readers, of_files)?;
        }
        tree.date(inputs.states.iter().fold(made.clone(), MadeTime::and_input).seconds());
        Ok(Served { tree: Arc::new(tree), resources: Arc::clone(resources), total_bytes })
    }

    /// What the limit says about them. `measure` makes their sizes known.
    pub(super) fn judge(
        &self,
        limits: LimitOptions,
        measure: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Judgement>> {
        let tree = lay_out_artifacts(&self.parts, Vec::new())?;
        let mut inside = BTreeMap::<String, u64>::new();
        for (_, statement) in self.written_statements()? {
            for part in statement.parts()? {
                *inside.entry(part.to_string()).or_default() += statement.to_json().len() as u64;
            }
        }
        for (part, manifest) in self.manifests(None) {
            *inside.entry(part).or_default() += manifest.text().size();
        }
        let with_added = |part: SizedPart| {
            let added = SizeBounds::exact(inside.get(&part.name).copied().unwrap_or(0));
            SizedPart { size: part.size + added, ..part }
        };
        limits.judge(|| Ok(self.sized(&tree).into_iter().map(with_added).collect()), measure)
    }

    /// Writes each part to a directory. Returns their places.
    pub(super) fn write(&self, to: OutputTarget<'_>, keep_set_id: bool) -> anyhow::Result<Vec<PathBuf>> {
        let (mut tree, output) = (lay_out_artifacts(&self.parts, Vec::new())?, to.directory);
        if !keep_set_id {
            clear_set_id(&mut tree);
        }
        let place = |part: &ArtifactPart| {
            let name = part.name.to_string();
            (EntryPath::root().child(name.as_bytes()), output.join(name))
        };
        let views: Vec<_> = self.parts.iter().map(place).collect();
        let stated = self.written_statements()?.into_iter().map(|(component, statement)| {
            let is_part =
                |path: &EntryPath| ArtifactName::parse(&path.to_text()).is_some_and(|it| it.component == component);
            let change = StatementChange::of_component(output, &component, statement, is_part, terminal::warn)?;
            Ok(change.with_manifests_inside(output, self.manifests(Some(&component))))
        });
        let stated = stated.collect::<anyhow::Result<Vec<_>>>()?;
        // A build repeats a split into the same directory when an artifact has changed.
        let ours = stated.iter().flat_map(StatementChange::ours).collect();
        let archives: Vec<&ArchiveRope> =
            self.parts.iter().flat_map(|part| part.archives().map(|(_, archive)| &**archive)).collect();
        let make = |progress: &Progress| make_archives(&archives, &progress.done);
        let before = WorkBefore { bytes: unmade_size(&archives), make };
        let (tree, views, stated, choice) = (&tree, &*views, &*stated, PartChoice::Gpus);
        let to_publish = ViewsToPublish { tree, views, stated, ours, choice };
        let places = to.publish_views(to_publish, before, || Ok(self.sized(tree)), &self.resources)?;
        save_index(&self.resources);
        Ok(places)
    }

    /// The statement of each component.
    fn statements(&self) -> impl Iterator<Item = (String, Statement)> {
        let mut components = BTreeMap::<&str, Vec<String>>::new();
        for part in &self.parts {
            components.entry(&part.name.component).or_default().push(part.name.to_string());
        }
        let stated =
            |(component, parts): (&str, _)| (component.to_owned(), Statement { parts, ..self.statement.clone() });
        components.into_iter().map(stated)
    }

    /// The same with the IDs of their splits, as they are written.
    fn written_statements(&self) -> anyhow::Result<Vec<(String, Statement)>> {
        let with_id = |(component, statement): (String, Statement)| {
            let split_id = self.split_id(&component).map(SplitId::text).transpose()?;
            Ok((component, Statement { split_id, ..statement }))
        };
        self.statements().map(with_id).collect()
    }

    /// The ID of the split of a component; `None` if its parts are of several.
    fn split_id(&self, component: &str) -> Option<&SplitId> {
        Some(&self.parts.iter().find(|part| part.name.component == component)?.split.as_ref()?.id)
    }

    /// The manifests of the parts of a component, or of all components.
    fn manifests(&self, component: Option<&str>) -> Vec<(String, TreeManifest)> {
        let is_wanted = |part: &&ArtifactPart| component.is_none_or(|component| part.name.component == component);
        let manifest = |part: &ArtifactPart| Some((part.name.to_string(), part.split.as_ref()?.manifest.clone()?));
        self.parts.iter().filter(is_wanted).filter_map(manifest).collect()
    }

    /// The parts without what is added to them about the split.
    fn sized(&self, tree: &Tree) -> Vec<SizedPart> {
        let sized = |part: &ArtifactPart| {
            let name = part.name.to_string();
            let node = tree.resolve(ROOT, &EntryPath::root().child(name.as_bytes()))?;
            let key = part.name.family.parse().ok().filter(|_| part.name.family != GENERIC);
            Some(SizedPart::of_node(name, key.map_or(PartGpus::All, PartGpus::Key), tree, node))
        };
        self.parts.iter().filter_map(sized).collect()
    }
}
