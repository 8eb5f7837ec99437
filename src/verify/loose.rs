//! Checks the code objects that databases have as files of their own: a library opens each by its path.

use std::sync::Arc;

use rayon::prelude::*;

use super::choices::Choices;
use super::parts::{Parts, PartsKind};
use super::report::Findings;
use super::rules::Rule;
use crate::database::Arch;
use crate::fatbin::{CODE_HEADER, code_problem, end_of_tables, is_bundle};
use crate::gpu::TargetId;
use crate::rope::Content;
use crate::source::EntryPath;

/// Checks those of an installation: each is whole, and is for the target for which the library looks it up. Bundles are not
/// opened. The parts of a split have what the input has.
pub(super) fn check(parts: &Parts, choices: &Choices, findings: &Findings) {
    if parts.kind != PartsKind::Installation {
        return;
    }
    let target = |path: &EntryPath| match choices.databases.classify(path)?.arch {
        Arch::Target(target) if is_code_object(path) => Some(target),
        Arch::Target(_) | Arch::Bundle(_) => None,
    };
    let files: Vec<_> = parts.files().filter_map(|file| Some((file, target(file.path)?))).collect();
    files.par_iter().for_each(|(file, target)| {
        if let Some(reason) = problem(file.content, target) {
            findings.add(Rule::DatabaseCode, parts.label(file.part, file.path), reason);
        }
    });
}

/// Names of Tensile's, MIOpen's and AITER's files. Other files of databases may be in any form.
fn is_code_object(path: &EntryPath) -> bool {
    [&b".co"[..], b".hsaco"].iter().any(|end| path.name().ends_with(end))
}

fn problem(content: &Arc<dyn Content>, target: &TargetId) -> Option<String> {
    let size = content.size();
    let mut beginning = vec![0; CODE_HEADER.min(usize::try_from(size).unwrap_or(CODE_HEADER))];
    if let Err(error) = content.read_at(0, &mut beginning) {
        return Some(error.to_string());
    }
    if size == 0 {
        return Some("it is empty".to_owned());
    }
    if is_bundle(&beginning) {
        return None;
    }
    let cut_off = || {
        let end = end_of_tables(&beginning).filter(|end| *end > size)?;
        Some(format!("it has {size} bytes, but its tables end at {end}"))
    };
    code_problem(&beginning, target).or_else(cut_off)
}
