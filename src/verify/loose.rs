//! Checks the files of databases that are read without a split: code objects and bundles, which a library opens by
//! their paths, and the catalogues in which it finds them.

use std::sync::Arc;

use rayon::prelude::*;

use super::bundle::{self, SaysReason};
use super::context::Context;
use super::manifest_files::ProvenFiles;
use super::parts::PartFile;
use super::report::{Tools, enumerate};
use super::rules::Rule;
use crate::database::{Arch, CODE_SUFFIXES, CatalogueCheck, KernelFiles, tensile_library};
use crate::fatbin::{CODE_HEADER, CodeFile, code_damage, is_bundle, loaded_code_problem};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::EntryPath;

/// A file of a database.
enum LooseFile {
    /// Code, and the target for which it is looked up; `None` if it is looked up for all.
    Code(Option<TargetId>),
    /// A catalogue, which may be compressed.
    Catalogue { is_compressed: bool },
}

impl Context<'_> {
    /// Checks that each is whole, and is for the target for which the library looks it up. Files that are `listed` by
    /// manifests were compared.
    pub(super) fn check_databases(&self, listed: &ProvenFiles) {
        let is_proven = |file: &PartFile<'_>| self.is_as_listed(listed, file.part, file.path);
        let files = self.parts.files().filter_map(|file| Some((file, self.kind_of(file.path)?)));
        let (proven, files): (Vec<_>, Vec<_>) = files.partition(|(file, _)| is_proven(file));
        for (file, kind) in &proven {
            self.note_flaws(file, kind);
        }
        files.par_iter().with_max_len(1).for_each(|(file, kind)| {
            let label = self.parts.label(file.part, file.path);
            let say = |rule, reason: String| self.findings.add(rule, label.as_str(), reason);
            match kind {
                LooseFile::Code(target) => {
                    let say = |reason| say(Rule::DatabaseCode, reason);
                    check_code(file.content, target.as_ref(), &say, self.tools());
                }
                LooseFile::Catalogue { is_compressed } => {
                    if let Err(reason) = CatalogueCheck::check(&**file.content, *is_compressed) {
                        say(Rule::DatabaseCatalogue, reason);
                    }
                }
            }
        });
    }

    /// Says what is wrong with a file that is as the split wrote it, which changes no such file.
    fn note_flaws(&self, file: &PartFile<'_>, kind: &LooseFile) {
        let LooseFile::Code(target) = kind else { return };
        for reason in flaws(file.content, target.as_ref(), self.resources) {
            let label = self.parts.label(file.part, file.path);
            self.findings.note(format!("{label}: {reason}; the input of the split has it so"));
        }
    }

    /// `None` for files that may be in any form.
    fn kind_of(&self, path: &EntryPath) -> Option<LooseFile> {
        match tensile_library::kind(path) {
            Some(KernelFiles::Catalogue) => {
                return Some(LooseFile::Catalogue { is_compressed: path.name().ends_with(b".zlib") });
            }
            Some(KernelFiles::Code) | None if is_code_object(path) => {}
            Some(_) | None => return None,
        }
        match self.choices.databases.classify(path).map(|file| file.arch) {
            Some(Arch::Target(target)) => Some(LooseFile::Code(Some(target))),
            Some(Arch::Bundle(_)) => None,
            None => tensile_library::kind(path).map(|_| LooseFile::Code(None)),
        }
    }
}

/// Names of Tensile's, MIOpen's, AITER's and Blender's files. Other files of databases may be in any form.
fn is_code_object(path: &EntryPath) -> bool {
    CODE_SUFFIXES.iter().any(|end| path.name().ends_with(end.as_bytes()))
}

fn check_code(content: &Arc<dyn Content>, target: Option<&TargetId>, say: SaysReason<'_>, tools: Tools<'_>) {
    let size = content.size();
    let mut beginning = vec![0; CODE_HEADER.min(usize::try_from(size).unwrap_or(CODE_HEADER))];
    if let Err(error) = content.read_at(0, &mut beginning) {
        return say(error.to_string());
    }
    if is_bundle(&beginning) {
        // What a bundle has for further targets is not looked up under this path.
        match bundle::check(content, 0, size, &|_| None, say, tools) {
            Ok(targets) => bundle_problem(&targets, target).into_iter().for_each(say),
            Err(error) => say(error.to_string()),
        }
        return;
    }
    flaw(content, &beginning, target).into_iter().for_each(say);
}

/// What is wrong with a file with this beginning that is to be a code object.
fn flaw(content: &Arc<dyn Content>, beginning: &[u8], target: Option<&TargetId>) -> Option<String> {
    if content.size() == 0 {
        return Some("it is empty".to_owned());
    }
    let problem = target.and_then(|target| loaded_code_problem(beginning, target));
    problem.or_else(|| code_damage(&**content, None))
}

/// What headers show to be wrong with a code object or a bundle.
fn flaws(content: &Arc<dyn Content>, target: Option<&TargetId>, resources: &Arc<Resources>) -> Vec<String> {
    let Ok(beginning) = content.beginning(CODE_HEADER) else { return Vec::new() };
    if !is_bundle(&beginning) {
        return flaw(content, &beginning, target).into_iter().collect();
    }
    match CodeFile::read(content, resources) {
        Ok(code) => code.map_or_else(Vec::new, |CodeFile { targets, damage, .. }| {
            let problem = bundle_problem(&Vec::from_iter(targets), target);
            damage.into_values().chain(problem).collect()
        }),
        Err(error) => vec![error.to_string()],
    }
}

/// What is wrong if a library looks up code for `target` in a bundle with code for these targets.
fn bundle_problem(targets: &[TargetId], target: Option<&TargetId>) -> Option<String> {
    let target = target.filter(|target| !target.is_unknown())?;
    let candidates = target.candidates();
    let serves = |code: &TargetId| {
        target.is_same_gpu(code) || candidates.iter().any(|candidate| candidate.processor() == code.processor())
    };
    if targets.is_empty() {
        return Some("it has no code".to_owned());
    }
    (!targets.iter().any(serves)).then(|| format!("it has code for {}, and none for {target}", enumerate(targets)))
}
