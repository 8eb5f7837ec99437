//! What parts say about their splits: manifests and split IDs in the dist-info of a wheel, or next to the statement of a tree
//! or an artifact.

use std::collections::HashSet;
use std::path::PathBuf;

use super::context::Context;
use super::distributions::Distribution;
use super::parts::Part;
use super::rules::Rule;
use crate::disk;
use crate::memory::{Parser, WholeFile};
use crate::source::EntryPath;
use crate::split::{HOST, PartManifest};
use crate::view::{MANIFEST_INSIDE, MANIFESTS, REPORTS};
use crate::wheel::{PART_MANIFEST, STATEMENT};

/// What a part says about its split.
pub(super) struct StatedPart<'a> {
    /// Its number.
    pub(super) number: usize,
    pub(super) part: &'a Part,
    /// The wheel of the part; `None` for a part of a tree or an artifact.
    pub(super) distribution: Option<&'a Distribution<'a>>,
    /// The name of the part in findings.
    pub(super) label: String,
    /// The name of the manifest in findings.
    pub(super) place: String,
    pub(super) manifest: Option<PartManifest>,
    /// The ID of its split, if it states one.
    pub(super) split_id: Option<String>,
}

impl Context<'_> {
    /// What the parts say about their splits.
    pub(super) fn stated_parts(&self) -> Vec<StatedPart<'_>> {
        let of_wheels = self.distributions.iter().filter_map(|distribution| self.stated_wheel(distribution));
        let numbered = self.parts.all.iter().enumerate();
        let of_trees = numbered.filter(|(_, part)| part.input.dist_info().is_none());
        of_wheels.chain(of_trees.filter_map(|(number, part)| self.stated_tree(number, part))).collect()
    }

    fn stated_wheel<'a>(&'a self, distribution: &'a Distribution<'a>) -> Option<StatedPart<'a>> {
        let Distribution { number, part, directory, .. } = distribution;
        let path = directory.child(PART_MANIFEST.as_bytes());
        let place = part.label(&path);
        let read = part.read(&path, Parser::Manifest).map_err(|error| error.to_string());
        let manifest = self.parsed(&place, read);
        let statement = distribution.statement.as_ref();
        let stated = distribution.split_id();
        let split_id = manifest.as_ref().map(|manifest| manifest.split_id.as_str()).or(stated)?.to_owned();
        if self.is_earlier(part, &split_id) {
            return None;
        }
        let has_statement = part.input.entry(&directory.child(STATEMENT.as_bytes())).is_some();
        if manifest.is_some() && stated.is_none() && (statement.is_some() || !has_statement) {
            let reason = "there is no statement with the ID of the split, but a manifest";
            self.findings.add(Rule::ManifestUnreadable, part.label(&directory.child(STATEMENT.as_bytes())), reason);
        }
        if stated.is_some_and(|stated| stated != split_id) {
            let reason = format!("{STATEMENT} next to it states the ID of another split");
            self.findings.add(Rule::OtherSplit, place.as_str(), reason);
        }
        let parts = statement.and_then(|it| it.part.as_deref()).zip(manifest.as_ref().map(|it| &*it.part));
        if let Some((stated, listed)) = parts.filter(|(stated, listed)| stated != listed) {
            let reason = format!("{STATEMENT} next to it is that of the part {stated}, and this is that of {listed}");
            self.findings.add(Rule::WrongPart, place.as_str(), reason);
        }
        let label = distribution.label();
        Some(StatedPart {
            number: *number,
            part,
            distribution: Some(distribution),
            label,
            place,
            manifest,
            split_id: Some(split_id),
        })
    }

    /// The names of the binaries that the manifests of a split list code of; `None` unless all parts of it have one here.
    pub(super) fn binaries_with_code<'a>(&self, stated: &'a [StatedPart<'_>]) -> Option<HashSet<&'a str>> {
        let manifests = || stated.iter().filter_map(|it| Some((it.number, it.manifest.as_ref()?)));
        let has_manifest = |number: usize| manifests().any(|(it, _)| it == number);
        let is_here = |name: &String| manifests().any(|(_, manifest)| manifest.part == *name);
        let (_, host) = manifests().find(|(number, _)| *number == 0)?;
        let is_whole = (0..self.parts.all.len()).all(has_manifest) && host.parts.iter().all(is_here);
        let entries = manifests().flat_map(|(_, manifest)| &manifest.files).filter_map(|file| file.entries.as_ref());
        let names = entries.flatten().filter_map(|entry| Some(entry.0.rsplit_once('#')?.0));
        is_whole.then(|| names.collect())
    }

    /// Whether the device parts that are here have files of databases only, by their manifests: their GPUs have no code in any
    /// library. The distributions in an image are below its root.
    pub(super) fn have_databases_only(&self, stated: &[StatedPart<'_>]) -> bool {
        let here = stated.iter().filter_map(|it| it.manifest.as_ref()).filter_map(lists_databases_only);
        let mut devices = here.chain(self.databases_only_below()).peekable();
        devices.peek().is_some() && devices.all(|it| it)
    }

    /// The same for each manifest in an image. There may be many long ones, so that one at a time is in memory.
    fn databases_only_below(&self) -> impl Iterator<Item = bool> {
        let is_it = |path: &EntryPath| {
            let directory = path.parent().filter(|_| path.name() == PART_MANIFEST.as_bytes());
            directory.is_some_and(|directory| directory.name().ends_with(b".dist-info"))
        };
        let part = self.parts.all.first().filter(|_| self.distributions.is_empty()).into_iter();
        let files = part.flat_map(|part| part.files()).filter(move |(path, _)| is_it(path));
        files.filter_map(|(_, content)| {
            let bytes = WholeFile::of(Parser::Manifest, &**content).ok();
            let manifest = bytes.and_then(|bytes| PartManifest::parse(&bytes).ok());
            // One that cannot be read may list code.
            manifest.as_ref().map_or(Some(false), lists_databases_only)
        })
    }

    /// Whether a distribution states the ID of an earlier split. If an installation is split, the dist-info of what was
    /// installed there stays as it was.
    pub(super) fn is_of_input(&self, distribution: &Distribution<'_>) -> bool {
        distribution.split_id().is_some_and(|id| self.is_earlier(distribution.part, id))
    }

    /// The same for an ID in a part.
    fn is_earlier(&self, part: &Part, split_id: &str) -> bool {
        let of_directory = self.parts.statement.as_ref();
        let is_of_directory = of_directory.is_some_and(|it| it.statement.split_id.as_deref() == Some(split_id));
        part.input.dist_info().is_none() && self.is_output() && !is_of_directory
    }

    fn stated_tree<'a>(&'a self, number: usize, part: &'a Part) -> Option<StatedPart<'a>> {
        let location = &part.input.location;
        let name = location.file_name()?;
        let inside = self.parts.component.as_ref().map(|_| location.join(REPORTS).join(MANIFEST_INSIDE));
        let beside = location.parent()?.join(REPORTS).join(MANIFESTS).join(format!("{}.json", name.display()));
        let file: PathBuf = inside.into_iter().chain([beside]).find(|file| file.is_file())?;
        let place = file.display().to_string();
        let read = disk::read(&file, Parser::Manifest).map(Some).map_err(|error| error.to_string());
        let manifest = self.parsed(&place, read)?;
        let split_id = Some(manifest.split_id.clone());
        let label = part.label_or_name();
        Some(StatedPart { number, part, distribution: None, label, place, manifest: Some(manifest), split_id })
    }

    /// The manifest in a text, if there is one.
    fn parsed(&self, place: &str, read: Result<Option<WholeFile>, String>) -> Option<PartManifest> {
        let parse = |text: WholeFile| PartManifest::parse(&text).map_err(|error| error.to_string());
        read.and_then(|text| text.map(parse).transpose()).unwrap_or_else(|error| {
            self.findings.add(Rule::ManifestUnreadable, place, error);
            None
        })
    }
}

impl StatedPart<'_> {
    pub(super) fn is_of(&self, distribution: &Distribution<'_>) -> bool {
        self.distribution
            .is_some_and(|own| own.number == distribution.number && own.directory == distribution.directory)
    }

    /// The ID of the input, if the statement of a wheel has it.
    pub(super) fn input_id(&self) -> Option<&str> {
        self.distribution?.statement.as_ref()?.input_id.as_deref()
    }
}

/// Whether the manifest of a device part lists files of databases only; `None` for that of a host part.
fn lists_databases_only(manifest: &PartManifest) -> Option<bool> {
    (manifest.part != HOST).then(|| manifest.files.iter().all(|file| file.entries.is_none()))
}
