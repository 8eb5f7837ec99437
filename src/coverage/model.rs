//! The question and its result as data. `docs/json.md` describes the result as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::code::CodePlace;
use super::pattern::Pattern;
use crate::database::KernelFiles;
use crate::gpu::{CodeKind, TargetId, doubt};
use crate::join::Joined;
use crate::report::table::counted;
use crate::resources::Resources;
use crate::source::Input;
use crate::split::{CodeOfFile, Plan};
use crate::text::{NAMED, first_names};

/// Which code an input has for the required GPUs.
#[derive(Debug, Serialize)]
pub(crate) struct Coverage {
    /// Whether nothing failed.
    pub passed: bool,
    /// The result in a sentence.
    pub sentence: String,
    /// The required GPUs.
    pub require: Vec<String>,
    /// The patterns of what is judged; all if there are none.
    pub require_in: Vec<String>,
    /// What failed.
    pub failures: Vec<CoverageFailure>,
    /// What works, and lacks code that it may do without.
    pub remarks: Vec<CoverageFailure>,
    #[serde(flatten)]
    pub found: InputCoverage,
    /// The distributions that have tables of their own, if there are several. Paths begin with their names.
    #[serde(skip)]
    pub distributions: Vec<String>,
}

/// Something that lacks code.
#[derive(Debug, Serialize)]
pub(crate) struct CoverageFailure {
    /// Its kind.
    pub what: FailureKind,
    /// The path of the library, or the directory of the database.
    pub path: String,
    /// The GPU.
    pub target: String,
    /// What it lacks, in words.
    pub reason: String,
    /// The file of a database without which its library does not work.
    #[serde(skip)]
    pub file: Option<String>,
}

/// What lacks code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FailureKind {
    /// A whole library.
    Library,
    /// One or more wrappers of a library, which is a remark.
    Wrapper,
    /// A kernel database.
    Database,
}

/// A library with device code.
#[derive(Debug, Serialize)]
pub(crate) struct CoveredLibrary {
    /// Its path in the input.
    pub path: String,
    /// Where its code is.
    pub form: CodePlace,
    /// Number of wrappers with code.
    pub wrappers: usize,
    /// The targets of its code.
    pub targets: Vec<String>,
    /// The result for each required GPU.
    pub gpus: BTreeMap<String, Cell>,
    /// Why its code is not known.
    pub problem: Option<String>,
    /// Why nothing can load its code, by GPU.
    #[serde(skip)]
    pub damaged: BTreeMap<String, String>,
    /// Generic targets whose code would answer for several of its targets.
    pub generic: Vec<GenericCode>,
}

/// What there is for a GPU.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    /// The kind of code; the least preferred one if wrappers differ.
    pub code: CellKind,
    /// The targets of the code that a runtime finds.
    pub found: Vec<String>,
    /// With `mode` the modes in which there is code, otherwise those in which there is none.
    pub modes: Vec<String>,
    /// The wrappers without code for this GPU, though others of the library have some.
    pub without: Vec<usize>,
    /// Number of wrappers with code.
    #[serde(skip)]
    pub with_code: usize,
}

impl Cell {
    /// Whether a runtime finds code.
    pub(crate) fn is_found(&self) -> bool {
        matches!(self.code, CellKind::Found(_))
    }
}

/// Whether there is code for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CellKind {
    /// Only for a mode that is not its default one.
    Mode,
    /// None.
    None,
    /// Of this kind.
    #[serde(untagged)]
    Found(CodeKind),
}

/// A generic target that covers several targets of a library.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GenericCode {
    /// The generic target.
    pub target: String,
    /// The targets of the library that run its code.
    pub targets: Vec<String>,
    /// Bytes of their code objects; 0 if they are not known.
    pub code_size: u64,
    /// The same in words.
    pub sentence: String,
}

/// A kernel database.
#[derive(Debug, Serialize)]
pub(crate) struct CoveredDatabase {
    /// The handler.
    pub library: &'static str,
    /// Its directory.
    pub path: String,
    /// The kind of its files.
    pub files: KernelFiles,
    /// The architectures for which it has files.
    pub targets: Vec<String>,
    /// The result for each required GPU.
    pub gpus: BTreeMap<String, Cell>,
    /// What the library that reads it finds, if that is in the input.
    #[serde(skip)]
    pub answers: BTreeMap<String, DatabaseAnswer>,
}

/// The answer of a library that reads a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseAnswer {
    /// It finds what the GPU needs.
    Found,
    /// It works without some of it.
    Remark(String),
    /// It is not built for the GPU.
    NotBuilt(String),
    /// It does not work for the GPU, because of a file or a directory.
    Lacks { file: String, reason: String },
}

/// Code that is not reached.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct UnreachableCode {
    /// The library or the archive.
    pub path: String,
    /// The target, if it is known.
    pub target: Option<String>,
    /// Why it is not reached.
    pub reason: String,
}

/// Code of which nothing says whether a GPU finds what it needs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct UnjudgedCode {
    /// The file.
    pub path: String,
    /// What it is, and why its targets are not known.
    pub reason: String,
}

/// A contradiction between metadata or names, and code.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Contradiction {
    /// The file whose content or name says something.
    pub path: String,
    /// The GPU.
    pub target: String,
    /// The contradiction in words.
    pub reason: String,
}

/// What was found in one input, in one of several artifacts, or in all of them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct InputCoverage {
    /// The libraries with device code.
    pub libraries: Vec<CoveredLibrary>,
    /// The kernel databases.
    pub databases: Vec<CoveredDatabase>,
    /// Code that no GPU reaches, or none of the required ones.
    pub unreachable: Vec<UnreachableCode>,
    /// Contradictions between metadata or names, and code.
    pub metadata: Vec<Contradiction>,
    /// Code that is not judged.
    pub not_judged: Vec<UnjudgedCode>,
}

impl InputCoverage {
    /// All paths.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut String> {
        let (libraries, databases) = (self.libraries.iter_mut(), self.databases.iter_mut());
        let named = libraries.map(|it| &mut it.path).chain(databases.map(|it| &mut it.path));
        let unreachable = self.unreachable.iter_mut().map(|it| &mut it.path);
        let others = self.metadata.iter_mut().map(|it| &mut it.path);
        named.chain(unreachable).chain(others).chain(self.not_judged.iter_mut().map(|it| &mut it.path))
    }
}

impl Coverage {
    /// The result of one input, or of several artifacts.
    pub(crate) fn of(requirement: &Requirement, inputs: Vec<InputCoverage>) -> Self {
        let mut found = InputCoverage::default();
        for input in inputs {
            found.libraries.extend(input.libraries);
            found.databases.extend(input.databases);
            found.unreachable.extend(input.unreachable);
            found.metadata.extend(input.metadata);
            found.not_judged.extend(input.not_judged);
        }
        let InputCoverage { libraries, databases, not_judged, .. } = &found;
        let is_named = !requirement.patterns.is_empty();
        let of_libraries = libraries.iter().flat_map(|library| library.failures(is_named));
        let of_databases = databases.iter().flat_map(CoveredDatabase::failures);
        let mut failures: Vec<_> = of_libraries.chain(of_databases).collect();
        let of_libraries = libraries.iter().flat_map(|library| library.remarks(is_named));
        let remarks = of_libraries.chain(databases.iter().flat_map(CoveredDatabase::remarks));
        // What all may do without is a failure if there is nothing else.
        let has_any = |gpu: &str| {
            let cells = libraries.iter().map(|it| &it.gpus).chain(databases.iter().map(|it| &it.gpus));
            cells.filter_map(|cells| cells.get(gpu)).any(Cell::is_found)
        };
        let (remarks, nothing): (Vec<_>, Vec<_>) = remarks.partition(|it| has_any(&it.target));
        failures.extend(nothing);
        let is_empty = libraries.is_empty() && databases.is_empty();
        let require: Vec<_> = requirement.gpus.iter().map(ToString::to_string).collect();
        let mut sentence = if !is_empty {
            sentence(&require, &failures, &remarks, libraries.len(), databases.len())
        } else if not_judged.is_empty() {
            let within = if requirement.patterns.is_empty() { "" } else { " that --require-in names" };
            format!("Nothing{within} has code for any AMD GPU.")
        } else {
            format!("Whether there is code for {} is not known.", require.join(", "))
        };
        if let Some(first) = not_judged.first() {
            let count = counted(not_judged.len(), "file", "files");
            let not_judged = format!("Not judged: {count}, {}: {}.", first.path, first.reason);
            let is_failure = requirement.is_all_judged && failures.is_empty();
            sentence = if is_failure { format!("{not_judged} {sentence}") } else { format!("{sentence} {not_judged}") };
        }
        let is_judged = not_judged.is_empty() || !requirement.is_all_judged;
        Self {
            passed: failures.is_empty() && !is_empty && is_judged,
            sentence,
            require,
            require_in: requirement.patterns.iter().map(Pattern::to_string).collect(),
            failures,
            remarks,
            found,
            distributions: Vec::new(),
        }
    }
}

/// The first of some failures, and how many more there are.
fn named(failures: &[CoverageFailure]) -> String {
    let failures = failures.iter().map(|failure| match &*failure.path {
        // The input itself is the directory.
        "" => failure.reason.clone(),
        path => format!("{path}: {}", failure.reason),
    });
    first_names(failures, NAMED, "; ", ";")
}

fn sentence(
    gpus: &[String],
    failures: &[CoverageFailure],
    remarks: &[CoverageFailure],
    libraries: usize,
    databases: usize,
) -> String {
    if failures.is_empty() {
        let mut all = Vec::new();
        all.extend((libraries > 0).then(|| counted(libraries, "library", "libraries")));
        all.extend((databases > 0).then(|| counted(databases, "kernel database", "kernel databases")));
        let but = if remarks.is_empty() { String::new() } else { format!("; but {}", named(remarks)) };
        return format!("All code for {} is there: {}{but}.", gpus.join(", "), all.join(" and "));
    }
    let lacking: Vec<_> = gpus.iter().filter(|gpu| failures.iter().any(|it| it.target == **gpu)).collect();
    let lacking: Vec<_> = lacking.iter().map(|gpu| format!("{gpu}{}", doubt(gpu))).collect();
    format!("Code for {} is missing: {}.", lacking.join(", "), named(failures))
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    /// The GPUs.
    pub gpus: Vec<TargetId>,
    /// The libraries and databases that are judged; all if it is empty.
    pub patterns: Vec<Pattern>,
    /// Whether code whose targets are not known is a failure.
    pub is_all_judged: bool,
}

/// What is examined.
pub(crate) struct CoverageInput<'a> {
    /// The artifact, of several. Its name precedes all paths.
    pub within: Option<&'a str>,
    /// The paths that the user named.
    pub locations: &'a [PathBuf],
    /// The input, after it was joined.
    pub input: &'a Input,
    /// Its split binaries.
    pub joined: &'a Joined,
    /// Its plan.
    pub plan: &'a Plan,
    /// All its device code; none if it was not searched.
    pub code: &'a [CodeOfFile],
    /// For reading.
    pub resources: &'a Arc<Resources>,
}
