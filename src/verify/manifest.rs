//! Checks of manifests and split IDs.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use super::context::Context;
use super::distributions::{Distribution, Role};
use super::manifest_files::ProvenFiles;
use super::record::ComparedFiles;
use super::requirements::check_extras;
use super::rules::Rule;
use super::stated::StatedPart;
use crate::report::table::counted;
use crate::source::EntryPath;

impl Context<'_> {
    /// Compares everything with what the parts state, manifests and split IDs. `compared` are the results for RECORDs.
    pub(super) fn check_manifests(&self, stated: &[StatedPart<'_>], compared: &ComparedFiles) -> ProvenFiles {
        self.check_statement(stated);
        self.check_splits(stated);
        check_extras(stated, self.findings);
        self.check_foreign(stated);
        self.note_unproven(stated);
        let as_listed = Mutex::default();
        for part in stated {
            if let Some(manifest) = &part.manifest {
                self.check_listed(part, manifest, compared, &as_listed);
            }
        }
        as_listed.into_inner()
    }

    /// Checks that the statement next to the parts of a split is that of their split.
    fn check_statement(&self, stated: &[StatedPart<'_>]) {
        let Some(located) = self.parts.statement.as_ref().filter(|_| self.parts.kind.is_separate()) else { return };
        let Some(id) = located.statement.split_id.as_deref() else { return };
        // A single part of another split is that part's damage.
        if let Some(first) = stated.first()
            && stated.iter().all(|it| it.split_id.as_deref() != Some(id))
        {
            let reason = format!("it states the ID of another split than {} does", first.label);
            self.findings.add(Rule::OtherSplit, located.path.as_str(), reason);
        }
    }

    /// Checks that parts which belong together are of one split.
    fn check_splits(&self, stated: &[StatedPart<'_>]) {
        let of_tree = |it: &&StatedPart<'_>| it.distribution.is_none();
        if let Some(host) = stated.iter().filter(of_tree).find(|it| it.number == 0) {
            stated.iter().filter(of_tree).filter(|it| it.number > 0).for_each(|it| self.compare_splits(host, it));
        }
        // A host distribution may require another one in its own version, which is of another split.
        let is_device = |it: &&Distribution<'_>| it.role != Role::Host && it.pins().next().is_some();
        for device in self.distributions.iter().filter(is_device) {
            let hosts = || stated.iter().filter(|it| it.distribution.is_some_and(|own| device.belongs_to(own)));
            let own = stated.iter().find(|it| it.is_of(device));
            match own {
                Some(own) if hosts().any(|host| host.split_id == own.split_id) => {}
                Some(own) => hosts().take(1).for_each(|host| self.compare_splits(host, own)),
                None if hosts().next().is_some() && device.is_device() => self.note_without(&device.label()),
                None => {}
            }
            let has_plain_host = self.distributions.iter().any(|host| device.belongs_to(host));
            if let Some(own) = own.filter(|_| hosts().next().is_none() && has_plain_host) {
                self.note_without(&format!("the host part of {}", own.label));
            }
        }
    }

    fn compare_splits(&self, host: &StatedPart<'_>, device: &StatedPart<'_>) {
        if host.split_id != device.split_id {
            let short = |it: &StatedPart<'_>| it.split_id.iter().flat_map(|id| id.chars().take(12)).collect::<String>();
            let cause = if host.input_id().is_some() && host.input_id() == device.input_id() {
                "; both are of one input, split by versions of kpackfs, or with options, that name parts in other ways"
            } else {
                ""
            };
            let reason =
                format!("it is of the split {}, and {} is of {}{cause}", short(device), host.label, short(host));
            self.findings.add(Rule::OtherSplit, device.label.as_str(), reason);
        }
    }

    /// Reports archives of other distributions, in directories where manifests list archives, with code for the same
    /// wrappers: a runtime may find that first.
    fn check_foreign(&self, stated: &[StatedPart<'_>]) {
        let files = |are_of_split: bool| -> HashSet<_> {
            let wanted = self.distributions.iter().filter(|it| it.is_of_split() == are_of_split);
            wanted.flat_map(|it| it.recorded_payload().map(|path| (it.number, path))).collect()
        };
        let (own, others) = (files(true), files(false));
        let listed = stated.iter().flat_map(|it| it.manifest.iter().flat_map(|manifest| &manifest.files));
        let mut by_directory = HashMap::<EntryPath, HashSet<&str>>::new();
        for (file, entries) in listed.filter_map(|file| Some((file, file.entries.as_ref()?))) {
            if let Some(directory) = EntryPath::new(file.path.as_bytes()).ok().and_then(|path| path.parent()) {
                by_directory.entry(directory).or_default().extend(entries.iter().map(|entry| entry.0.as_str()));
            }
        }
        for archive in &self.archives.list {
            let place = (archive.part, archive.path.clone());
            let here = archive.path.parent().and_then(|directory| by_directory.get(&directory));
            let has_code = |listed: &HashSet<&str>| archive.reader.names().any(|name| listed.contains(name));
            if others.contains(&place) && !own.contains(&place) && here.is_some_and(has_code) {
                let reason = "it has code for libraries of a split, and is in no manifest of this split";
                self.findings.add(Rule::Unlisted, archive.label.as_str(), reason);
            }
        }
    }

    /// Notes parts without a manifest whose split stated an ID, and those whose manifest is of an earlier split.
    fn note_unproven(&self, stated: &[StatedPart<'_>]) {
        if let Some(first) = self.distributions.iter().find(|it| self.is_of_input(it)) {
            let of = self.parts.statement.as_ref().map_or("this split", |located| located.path.as_str());
            self.findings.note(format!(
                "{} and others are of an earlier split, so their manifests are not compared: {of} is that of a split of an installation",
                first.label()
            ));
        }
        let mut labels: Vec<_> = stated.iter().filter(|it| it.manifest.is_none()).map(|it| it.label.clone()).collect();
        let has_id = self.parts.statement.as_ref().is_some_and(|it| it.statement.split_id.is_some());
        if has_id && self.parts.kind.is_separate() {
            let is_stated = |number: usize| stated.iter().any(|it| it.number == number);
            let parts = self.parts.all.iter().enumerate().filter(|(number, _)| !is_stated(*number));
            labels.extend(parts.map(|(_, part)| part.label_or_name()));
        }
        if let Some(first) = labels.first() {
            self.findings.note(format!(
                "no manifest is in {}, such as {first}: compared with RECORD only, if there is one",
                counted(labels.len(), "part", "parts")
            ));
        }
    }

    fn note_without(&self, label: &str) {
        self.findings.note(format!(
            "{label}: it has no split ID, as parts of kpackfs 0.2 and of other tools; whether it is of the same split is not known"
        ));
    }
}
