//! The statement that `split` writes with its parts for `verify`: the restrictions and the list of parts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::before::Before;
use super::directory::WantedSums;
use super::error::{ExportError, Warn, at, reading};
use super::inputs::Inputs;
use super::output::Output;
use crate::disk::{self, Durability};
use crate::memory::Parser;
use crate::source::EntryPath;
use crate::split::{FileSum, STATEMENT, Statement, statement_of_component};
use crate::view::{MANIFEST_INSIDE, MANIFESTS, REPORTS, TreeManifest};

/// A statement, and parts of an earlier split that are replaced in addition to those with the same names.
#[derive(Default)]
pub(crate) struct StatementChange {
    /// The files that contain it.
    files: Vec<PathBuf>,
    statement: Statement,
    replaced: Vec<PathBuf>,
    /// The parts of earlier splits that exist.
    earlier: Vec<PathBuf>,
    /// The manifests of the parts: the name of the part, the path of the file.
    manifests: Vec<(String, PathBuf, TreeManifest)>,
    /// The files of earlier statements, when they were read.
    before: Before,
}

impl StatementChange {
    /// The statement for `output` after the parts are written. If they are a whole split, and no views that were named, it
    /// replaces the earlier statement; otherwise the parts are added to that. `is_part` says whether a name can be that of a part, since
    /// nothing else may be replaced.
    pub(crate) fn new(
        output: &Path,
        statement: Statement,
        is_part: impl Fn(&EntryPath) -> bool,
        warn: Warn,
    ) -> Result<Self, ExportError> {
        let file = output.join(REPORTS).join(STATEMENT);
        let mut before = Before::default();
        let earlier = read(&file, &mut before, warn)?;
        Ok(Self { files: vec![file], before, ..Self::after(earlier, output, statement, is_part)? })
    }

    /// Like [`StatementChange::new`], for the parts of a component of artifacts. Each part contains the statement: the
    /// directory around them is a build's, whose tools take every directory in it for an artifact.
    pub(crate) fn of_component(
        output: &Path,
        component: &str,
        statement: Statement,
        is_part: impl Fn(&EntryPath) -> bool,
        warn: Warn,
    ) -> Result<Self, ExportError> {
        let statement_of = |part: &Path| part.join(REPORTS).join(STATEMENT);
        // Of kpackfs 0.2.0.
        let old = output.join(REPORTS).join(statement_of_component(component));
        let entries = fs::read_dir(output).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| EntryPath::new(entry.file_name().as_encoded_bytes()).ok());
        let mut places: Vec<_> =
            names.filter(&is_part).map(|name| statement_of(&output.join(name.as_path()))).collect();
        places.sort();
        places.push(old.clone());
        let (mut earlier, mut before) = (None::<Statement>, Before::default());
        for place in &places {
            if let Some(found) = read(place, &mut before, warn)? {
                earlier = Some(earlier.map_or_else(|| found.clone(), |earlier| found.clone().after(earlier)));
            }
        }
        let mut change = Self { before, ..Self::after(earlier, output, statement, is_part)? };
        for part in change.statement.parts().map_err(ExportError::StatedPart)? {
            change.files.push(statement_of(&output.join(part.as_path())));
        }
        if old.exists() {
            let is_last = fs::read_dir(output.join(REPORTS)).is_ok_and(|entries| entries.count() == 1);
            change.replaced.push(if is_last { output.join(REPORTS) } else { old });
        }
        Ok(change)
    }

    /// Also writes these manifests, and removes those of the earlier split that are not replaced: of parts that are removed,
    /// and of parts in `written` that have none now.
    #[must_use]
    pub(crate) fn with_manifests<'p>(
        mut self,
        output: &Path,
        manifests: Vec<(String, TreeManifest)>,
        written: impl Iterator<Item = &'p EntryPath>,
    ) -> Self {
        let place = |part: &Path| output.join(REPORTS).join(MANIFESTS).join(format!("{}.json", part.display()));
        let file = |(part, manifest): (String, _)| (part.clone(), place(part.as_ref()), manifest);
        self.manifests = manifests.into_iter().map(file).collect();
        let removed = self.replaced.iter().filter_map(|part| Some(place(part.strip_prefix(output).ok()?)));
        let is_earlier = |part: &&EntryPath| self.earlier.contains(&output.join(part.as_path()));
        let rewritten = written.filter(is_earlier).map(|part| place(part.as_path()));
        let is_new = |place: &PathBuf| self.manifests.iter().any(|(_, new, _)| new == place);
        let gone: Vec<_> = removed.chain(rewritten).filter(|place| !is_new(place)).collect();
        self.replaced.extend(gone.into_iter().filter(|place| place.symlink_metadata().is_ok()));
        self
    }

    /// Also writes these manifests, each into its part of a component.
    #[must_use]
    pub(crate) fn with_manifests_inside(self, output: &Path, manifests: Vec<(String, TreeManifest)>) -> Self {
        let place = |part: &str| output.join(part).join(REPORTS).join(MANIFEST_INSIDE);
        let file = |(part, manifest): (String, _)| (part.clone(), place(&part), manifest);
        let manifests = manifests.into_iter().map(file).collect();
        Self { manifests, ..self }
    }

    fn after(
        earlier: Option<Statement>,
        output: &Path,
        statement: Statement,
        is_part: impl Fn(&EntryPath) -> bool,
    ) -> Result<Self, ExportError> {
        let mut change = Self { statement, ..Self::default() };
        let Some(earlier) = earlier else { return Ok(change) };
        let mut existing = earlier.parts().map_err(ExportError::StatedPart)?;
        existing.retain(|part| is_part(part) && output.join(part.as_path()).symlink_metadata().is_ok());
        change.earlier = existing.iter().map(|part| output.join(part.as_path())).collect();
        if change.statement.views.is_empty() {
            let new = change.statement.parts().map_err(ExportError::StatedPart)?;
            let is_below = |part: &EntryPath, other: &EntryPath| part != other && part.below(other).is_some();
            let is_gone =
                |part: &EntryPath| new.contains(part) || new.iter().chain(&existing).any(|other| is_below(part, other));
            let replaced = existing.iter().filter(|part| !is_gone(part));
            change.replaced = replaced.map(|part| output.join(part.as_path())).collect();
        } else {
            let earlier = Statement { parts: existing.iter().map(ToString::to_string).collect(), ..earlier };
            change.statement = change.statement.after(earlier);
        }
        Ok(change)
    }

    /// Parts of an earlier split that the new one does not have, and its statement if it was elsewhere.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = PathBuf> {
        self.replaced.iter().cloned()
    }

    /// Everything that an earlier split has written, as its statement proves.
    pub(crate) fn ours(&self) -> impl Iterator<Item = PathBuf> {
        self.earlier.iter().chain(&self.replaced).cloned()
    }

    /// Fails if the statement would be written to an input, where a symlink leads.
    pub(crate) fn check(&self, inputs: &Inputs) -> Result<(), ExportError> {
        let manifests = self.manifests.iter().map(|(_, file, _)| file);
        inputs.check_all(self.files.iter().chain(manifests).map(PathBuf::as_path))
    }

    /// Where writing these views, each to its path, puts the digests that the manifests list.
    pub(crate) fn sums(&self, views: &[(EntryPath, PathBuf)]) -> WantedSums {
        let mut sums = WantedSums::new();
        for (part, _, manifest) in &self.manifests {
            let places = views.iter().filter(|(view, _)| view.as_bytes() == part.as_bytes());
            for (_, place) in places {
                let sum = |(path, sum): (&EntryPath, &Arc<FileSum>)| (place.join(path.as_path()), Arc::clone(sum));
                sums.extend(manifest.sums().map(sum));
            }
        }
        sums
    }

    /// The files that are added to an output, with their sizes.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (PathBuf, u64)> {
        let stated = self.statement.to_json().len() as u64;
        let manifests = self.manifests.iter().map(|(_, file, manifest)| (file.clone(), manifest.text().size()));
        self.files.iter().map(move |file| (file.clone(), stated)).chain(manifests)
    }

    /// Adds the statement and the manifests to an output. Listed files are read unless writing them has put their digests
    /// where [`StatementChange::sums`] says.
    pub(crate) fn write(&self, output: &mut Output) -> Result<(), ExportError> {
        // What it says is true of these files, whatever was there when the output was prepared.
        output.before.0.extend(self.before.0.clone());
        let statement = self.statement.to_json();
        self.files.iter().try_for_each(|file| output.write_file(file, statement.as_bytes(), Durability::Synced))?;
        self.manifests.iter().try_for_each(|(_, file, manifest)| {
            let bytes = manifest.text().to_vec().map_err(reading(file))?;
            // `verify` compares it with the files, which may be lost as well.
            output.write_file(file, &bytes, Durability::Deferred)
        })
    }
}

/// The statement in a file, if there is one. First takes note of the file.
fn read(file: &Path, before: &mut Before, warn: Warn) -> Result<Option<Statement>, ExportError> {
    before.note(file);
    let bytes = match disk::read(file, Parser::Statement) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        read => read.map_err(at(file))?,
    };
    match Statement::parse(&bytes) {
        Ok(statement) => Ok(Some(statement)),
        Err(error) => {
            warn(&format!("{}: {error}; it is replaced", file.display()));
            Ok(None)
        }
    }
}
