//! What the user named, looked up by its form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::answer::{DatabaseLookup, FoundCause};
use super::assembled::{self, AssembledFiles, GivenWheel};
use super::cause::Cause;
use super::error;
use super::found::{FoundLookups, SeenFiles};
use super::libraries::{self, LibraryFile};
use super::library::{Library, open};
use super::question::Question;
use crate::artifact::FoundArtifacts;
use crate::coverage::{CauseKind, CoveredDatabase, DatabaseAnswer, LibraryCode, Trail};
use crate::database::Handler;
use crate::gpu::TargetId;
use crate::join::WheelsError;
use crate::opened::{Named, SplitDirectory, is_unpacked_wheel, outside, recognise, split_of_parts};
use crate::packages::InstalledComponent;
use crate::source::{EntryPath, open_file};
use crate::wheel::installed_together;

/// The files and directories from which a runtime loads as they are.
fn installed(path: &Path, named: &Named) -> Vec<PathBuf> {
    let own = || std::iter::once(path.to_owned());
    match named {
        Named::Tree | Named::Binary => own().collect(),
        // Libraries of a conda environment are next to its packages for Python.
        Named::Environment(sites) => own().chain(outside(path, sites)).collect(),
        // Tar archives are next to something else.
        Named::Artifacts(artifacts) if !artifacts.has_any() => own().collect(),
        Named::Split(split) => split.sites.iter().map(|site| site.path.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The wheels that are to be installed, for all GPUs.
fn wheels(path: &Path, named: &Named, found: &mut FoundLookups) -> Vec<PathBuf> {
    match named {
        Named::Wheel => vec![path.to_owned()],
        Named::Wheels(directory) => {
            found.unread.extend(directory.warnings.iter().cloned());
            directory.wheels.clone()
        }
        Named::Split(split) if split.has_wheels_only() => split.wheels.clone(),
        _ => Vec::new(),
    }
}

/// Replaces the host part of a split and device parts of it, which were named one by one, by a split that has only these.
fn join_parts(all: &mut Vec<(PathBuf, Named)>) {
    let mut below = BTreeMap::<_, Vec<PathBuf>>::new();
    for (path, _) in all.iter().filter(|(_, named)| matches!(named, Named::Tree)) {
        below
            .entry(path.canonicalize().ok().and_then(|real| Some(real.parent()?.to_owned())))
            .or_default()
            .push(path.clone());
    }
    for parts in below.into_values().filter(|parts| parts.len() > 1) {
        let Ok(Some(split)) = split_of_parts(&parts) else { continue };
        if split.has_host {
            all.retain(|(path, _)| !parts.contains(path));
            all.push((split.path.clone(), Named::Split(Box::new(split))));
        }
    }
}

impl Question {
    /// Looks up all that was named.
    pub(super) fn look_up_named(&self, found: &mut FoundLookups) {
        let mut all = Vec::new();
        for path in &self.paths {
            match recognise(path) {
                Ok(named) => all.push((path.clone(), named)),
                Err(error) => found.fail(&error),
            }
        }
        join_parts(&mut all);
        let gpus = self.all_gpus();
        let mut files: Vec<_> = all.iter().flat_map(|(path, named)| wheels(path, named, found)).collect();
        files.extend(self.unpacked_with(&files, &all));
        let others = all.iter().filter(|(path, _)| !files.contains(path));
        let places: Vec<_> = others.flat_map(|(path, named)| installed(path, named)).collect();
        self.look_up_installed(&places, &gpus, found);
        self.look_up_wheels(&files, &gpus, found);
        for (path, named) in &all {
            if let Err(error) = self.look_up_form(path, named, &gpus, found) {
                found.fail(&error);
            }
        }
    }

    /// The directories that are unpacked wheels, and are installed together with some of these wheels.
    fn unpacked_with(&self, wheels: &[PathBuf], all: &[(PathBuf, Named)]) -> Vec<PathBuf> {
        let read = |path: &PathBuf| GivenWheel::read(path, &self.resources).ok();
        let packed: Vec<_> = wheels.iter().filter_map(read).collect();
        let is_unpacked = |(path, named): &&(PathBuf, Named)| {
            !packed.is_empty() && matches!(named, Named::Tree) && is_unpacked_wheel(path).unwrap_or(false)
        };
        let unpacked: Vec<_> = all.iter().filter(is_unpacked).filter_map(|(path, _)| read(path)).collect();
        let labels: Vec<_> = packed.iter().chain(&unpacked).map(GivenWheel::label).collect();
        let mut sets = installed_together(&labels);
        sets.retain(|set| set.iter().any(|label| packed.iter().any(|wheel| wheel.path == label.path)));
        let is_joined = |wheel: &&GivenWheel| sets.iter().flatten().any(|label| label.path == wheel.path);
        unpacked.iter().filter(is_joined).map(|wheel| wheel.path.clone()).collect()
    }

    /// Looks up what is neither installed nor a wheel.
    fn look_up_form(&self, path: &Path, named: &Named, gpus: &[usize], found: &mut FoundLookups) -> anyhow::Result<()> {
        let resources = &self.resources;
        match named {
            Named::Split(split) => self.look_up_split(split, found),
            Named::Artifacts(artifacts) if artifacts.has_any() => {
                self.look_up_artifacts(path, artifacts, gpus, found)?;
            }
            Named::Image(image) => self.add(assembled::of_image(image, self), gpus, found),
            Named::Tar | Named::Zip => self.add(assembled::of_packed(path, self), gpus, found),
            Named::Remote if self.paths.len() > 1 => named.check_local(path)?,
            Named::Remote => self.add(assembled::of_remote(path, self), gpus, found),
            Named::Archive | Named::Bundle | Named::CodeObject => {
                let content = open_file(path, resources)?;
                let at = EntryPath::root;
                let code = LibraryCode::of_loose(at(), &content, resources).map_err(error::at(path))?;
                // A damaged archive may be known by its name alone.
                let of_archive = || LibraryCode::of_archive(at(), &content, Some(resources)).map_err(error::at(path));
                let code = code.map_or_else(of_archive, Ok)?;
                let file = LibraryFile::at(path.to_owned());
                let lookups = self.look_up_whole(&file, &Library::Held(code, None), gpus, found);
                found.add(lookups);
            }
            Named::Artifacts(_)
            | Named::Tree
            | Named::Binary
            | Named::Environment(_)
            | Named::Wheel
            | Named::Wheels(_) => {}
        }
        Ok(())
    }

    /// Looks up the files and directories from which a runtime loads.
    pub(super) fn look_up_installed(&self, paths: &[PathBuf], gpus: &[usize], found: &mut FoundLookups) {
        let files = libraries::find(paths, &self.resources);
        files.failed.iter().for_each(|error| found.fail(error));
        let of_source =
            |tree: &PathBuf| format!("{} (sources of an editable installation; name that directory)", tree.display());
        found.unjudged.extend(files.unsearched_sources().map(of_source));
        found.seen.add(files.seen);
        let is_wanted = |file: &&LibraryFile| file.paths().any(|path| self.is_wanted(path));
        let mut with_code = Vec::new();
        found.seen.has_wanted |= files.files.iter().any(|file| is_wanted(&file));
        for library in files.files.iter().filter(is_wanted) {
            let has_code = match open(&library.path, &self.resources) {
                Ok(opened) => {
                    let mut lookups = opened.map(|opened| self.look_up_whole(library, &opened, gpus, found));
                    for lookup in lookups.iter_mut().flatten().filter(|it| it.is_in_archives()) {
                        lookup.remark =
                            lookup.target.parse().ok().and_then(|device| self.installed.version(library, &device));
                    }
                    let databases = self.look_up_database(library, lookups.as_deref().unwrap_or_default(), gpus);
                    let has_code = lookups.is_some() || !databases.is_empty();
                    found.databases.extend(databases);
                    if let Some(lookups) = lookups {
                        found.add(lookups);
                    }
                    has_code
                }
                Err(error) => {
                    found.fail(&error);
                    true
                }
            };
            with_code.extend(has_code.then_some(library));
        }
        for directory in paths.iter().filter(|path| path.is_dir()) {
            let real = directory.canonicalize().unwrap_or_else(|_| directory.clone());
            let is_below = |library: &&LibraryFile| library.paths().any(|path| path.starts_with(&real));
            // Without libraries it may be a device part, which has archives.
            if !with_code.iter().any(is_below) {
                let assembled = assembled::of_directory(directory, self);
                self.add(assembled.map(|it| AssembledFiles { seen: SeenFiles::default(), ..it }), gpus, found);
            }
        }
    }

    /// Looks up what would be installed from wheels.
    fn look_up_wheels(&self, paths: &[PathBuf], gpus: &[usize], found: &mut FoundLookups) {
        let (mut wheels, mut unread) = (Vec::new(), Vec::new());
        for path in paths {
            match GivenWheel::read(path, &self.resources) {
                Ok(wheel) => wheels.push(wheel),
                Err(error) => {
                    found.fail(&error);
                    unread.push(path.clone());
                }
            }
        }
        let labels: Vec<_> = wheels.iter().map(GivenWheel::label).collect();
        for set in installed_together(&labels) {
            let set: Vec<_> = set.iter().filter_map(|label| wheels.iter().find(|it| it.path == label.path)).collect();
            match assembled::of_wheels(&set, &unread, self) {
                Err(error) if matches!(error.downcast_ref(), Some(WheelsError::Version { .. })) => {
                    let reason = format!("these wheels cannot be installed together: {error}");
                    let cause = Cause::new(CauseKind::PackageVersion, reason, None);
                    let paths = set.iter().map(|wheel| wheel.path.display().to_string()).collect();
                    found.causes.push(FoundCause { cause, targets: self.names(gpus), paths });
                }
                files => self.add(files, gpus, found),
            }
        }
    }

    /// Looks up the parts of a split that are for each GPU: the host part with its device parts, or a view or a wheel that is
    /// a whole, or device parts alone.
    fn look_up_split(&self, split: &SplitDirectory, found: &mut FoundLookups) {
        split.splits.iter().for_each(|(_, split)| self.look_up_split(split, found));
        if !split.splits.is_empty() || split.has_wheels_only() && !split.wheels.is_empty() {
            return;
        }
        for number in self.all_gpus() {
            let (Some(gpu), gpus) = (self.gpus.get(number), [number]) else { continue };
            let device = self.device_of(gpu);
            let parts = split.parts_for(gpu);
            let (view, wheels) = (split.view_for(&device), split.thin_wheels_for(&device));
            if split.has_host || view.is_none() && wheels.is_empty() && !parts.is_empty() {
                self.add(assembled::of_parts(split, &parts, self), &gpus, found);
            } else if let Some(view) = view {
                self.look_up_installed(&[view], &gpus, found);
            } else if wheels.is_empty() {
                found.causes.push(nothing_for(split, gpu, &device));
            } else {
                self.look_up_wheels(&wheels, &gpus, found);
            }
        }
    }

    /// Looks up artifacts. One that is whole is installed as it is on the disk, as directories without a manifest are.
    fn look_up_artifacts(
        &self,
        path: &Path,
        artifacts: &FoundArtifacts,
        gpus: &[usize],
        found: &mut FoundLookups,
    ) -> anyhow::Result<()> {
        let mut places = match artifacts {
            FoundArtifacts::One => Vec::new(),
            FoundArtifacts::Several { others, .. } => others.iter().map(|name| path.join(name)).collect(),
        };
        for component in InstalledComponent::all(path, artifacts)? {
            match component.directory() {
                Some(directory) => places.push(directory.to_owned()),
                None => self.add(assembled::of_component(path, &component, self), gpus, found),
            }
        }
        self.look_up_installed(&places, gpus, found);
        Ok(())
    }

    /// Looks up what is put together.
    fn add(&self, assembled: anyhow::Result<AssembledFiles>, gpus: &[usize], found: &mut FoundLookups) {
        let assembled = match assembled {
            Ok(assembled) => assembled,
            Err(error) => return found.fail(&error),
        };
        found.seen.add(assembled.seen);
        let mut before = None;
        for (path, database) in &assembled.databases {
            // The first of several kinds of files has the answer; others only add what is wrong with them.
            let is_first = before.replace((path, database.library)) != Some((path, database.library));
            let of_gpu = |gpu: &usize| self.of_database(path, database, self.gpus.get(*gpu)?);
            found.databases.extend(gpus.iter().filter_map(of_gpu).filter(|lookup| is_first || !lookup.found));
        }
        for (path, code) in assembled.files.into_iter().filter(|(path, _)| self.is_wanted(path)) {
            match code {
                Ok(code) => {
                    let library = Library::Held(code, Some(Arc::clone(&assembled.assembly)));
                    let lookups = self.look_up_whole(&LibraryFile::at(path), &library, gpus, found);
                    found.add(lookups);
                }
                Err(error) => found.fail(&error),
            }
        }
    }

    /// What a library finds for a GPU in a database that is not installed. Code objects that are no database of a library
    /// are looked up as files.
    fn of_database(&self, path: &Path, database: &CoveredDatabase, gpu: &TargetId) -> Option<DatabaseLookup> {
        if database.library == Handler::Codeobject.name() || self.binary.is_some() {
            return None;
        }
        let target = self.device_of(gpu).to_string();
        let cause = |reason: &str| Some(Cause::new(CauseKind::DatabaseMissing, reason, None));
        let (mut lacks, mut remark, mut not_built) = (None, None, None);
        match database.answers.get(&target) {
            Some(DatabaseAnswer::Found) => {}
            Some(DatabaseAnswer::Lacks { reason, .. }) => lacks = cause(reason),
            Some(DatabaseAnswer::Remark(reason)) => remark = cause(reason),
            Some(DatabaseAnswer::NotBuilt(reason)) => not_built = cause(reason),
            None => lacks = database.problem(&target).and_then(|reason| cause(&reason)),
        }
        let directory = path.display().to_string();
        Some(DatabaseLookup {
            database: database.library,
            library: directory.clone(),
            directory: Some(directory),
            target,
            found: lacks.is_none() && not_built.is_none(),
            cause: lacks,
            remark,
            not_built,
            evidence: Trail::default(),
        })
    }
}

/// The cause if a split has no part, no view and no wheel for a GPU.
fn nothing_for(split: &SplitDirectory, gpu: &TargetId, device: &TargetId) -> FoundCause {
    let reason = format!(
        "the split has nothing for {gpu}; it has something for {}",
        split.gpus().into_iter().collect::<Vec<_>>().join(", ")
    );
    FoundCause {
        cause: Cause::new(CauseKind::PackageNone, reason, None),
        targets: vec![device.to_string()],
        paths: vec![split.path.display().to_string()],
    }
}
