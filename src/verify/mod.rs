//! Checks a split from its outputs alone: what a loader, a runtime and a package manager will do with it.
//!
//! It uses nothing from the planner. Archives are found by following wrappers as a runtime does, so it checks splits by
//! kpackfs and by other tools alike.

mod against;
mod against_code;
mod archive;
mod artifacts;
mod binary;
mod distributions;
mod group;
mod input;
mod installed;
mod lookup;
mod overlaid;
mod record;
mod report;
mod said;
mod separation;
mod thin;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::database::Databases;
use crate::gpu::{BundleKey, GpuSet};
use crate::join::{self, join};
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::SourceError;
use crate::split::{Statement, StatementError};
use crate::wheel::{Metadata, normalise};

use against::Comparison;
use binary::Binaries;
use distributions::Distribution;
pub use distributions::{devices as devices_of, key as key_of_device};
use input::{Part, Parts, PartsKind, VerifyInput};
use lookup::OverlaidArchives;
use report::Findings;
pub use report::{Check, Counts, Finding, FindingGroup, VerifyReport};
use said::Said;
use thin::ThinFiles;

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The databases that were split off the host part. If `None`, those in the split's statement, or all.
    pub databases: Option<Databases>,
    /// The targets to which the split was restricted. If `None`, those in the split's statement, or all.
    pub gpu_targets: Option<Vec<BundleKey>>,
    /// Omitted targets, in addition to those in the split's statement.
    pub exclude_targets: Vec<BundleKey>,
    /// The GPUs of a thin tree, if neither its location nor its statement names them.
    pub thin: Option<GpuSet>,
    /// The components of artifacts to compare with `against`; all if empty.
    pub components: Vec<String>,
}

/// The restrictions of a split, from its statement or from the user.
#[derive(Debug)]
struct Choices {
    databases: Databases,
    gpu_targets: Option<Vec<BundleKey>>,
    exclude_targets: Vec<BundleKey>,
}

impl Choices {
    /// Whether the split was restricted to some targets.
    fn is_restricted(&self) -> bool {
        self.gpu_targets.is_some() || !self.exclude_targets.is_empty()
    }

    fn new(options: &VerifyOptions, said: Option<&Said>) -> Result<Self, VerifyError> {
        let nothing = Said::default();
        let said = said.unwrap_or(&nothing);
        Self::with(options, &said.statement).map_err(|error| said.failed(error))
    }

    /// The same restrictions, with the loose code objects in the files of `parts`.
    fn of(self, parts: &Parts, resources: &Arc<Resources>) -> Self {
        let files = parts.files().map(|file| (file.path, file.content));
        Self { databases: self.databases.of(files, resources), ..self }
    }

    /// The options, completed by the split's statement.
    fn with(options: &VerifyOptions, said: &Statement) -> Result<Self, StatementError> {
        Ok(Self {
            databases: options.databases.clone().or(said.databases()?).unwrap_or_else(Databases::all),
            gpu_targets: options.gpu_targets.clone().or(said.gpu_targets()?),
            exclude_targets: [&*options.exclude_targets, &*said.exclude_targets()?].concat(),
        })
    }
}

/// What is checked, and results so far.
struct Context<'a> {
    parts: &'a Parts,
    archives: &'a OverlaidArchives,
    thin: &'a ThinFiles,
    binaries: &'a Binaries,
    distributions: &'a [Distribution<'a>],
    choices: &'a Choices,
    resources: &'a Arc<Resources>,
    findings: &'a Findings,
}

/// Progress of checking, for a progress bar, in bytes of files.
#[derive(Debug, Default)]
pub struct VerifyProgress {
    /// Bytes to check.
    pub total: AtomicU64,
    /// Bytes checked.
    pub done: AtomicU64,
}

impl VerifyProgress {
    fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Why nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A path cannot be listed or opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The beginning of a file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is a file of an unknown kind.
    #[error("{}: neither a directory, a wheel, a binary nor a .kpack archive", .0.display())]
    UnknownKind(PathBuf),
    /// Comparing needs a whole split.
    #[error("{}: only a split or an installation can be compared with what it was made of", .0.display())]
    NotComparable(PathBuf),
    /// The statement of a split cannot be used.
    #[error("{path}: {source}")]
    Statement {
        /// The file.
        path: String,
        /// The reason.
        source: StatementError,
    },
    /// An artifact's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] crate::artifact::ManifestError),
    /// There is nothing to check.
    #[error(
        "{}: there is nothing to verify: no split binary, no .kpack archive, no wheel and no part of a split; \
         expected is what `kpackfs split` writes or `kpackfs mount` shows, or an installation of that",
        .0.display()
    )]
    Nothing(PathBuf),
}

/// Checks everything in `paths`, and compares it with the fat wheel, tree, artifacts or shards `against`.
pub fn verify(
    paths: &[PathBuf],
    against: Option<&Path>,
    options: &VerifyOptions,
    resources: &Arc<Resources>,
    progress: &VerifyProgress,
) -> Result<VerifyReport, VerifyError> {
    let findings = Findings::default();
    let inputs = input::open(paths, resources, &findings)?;
    // A binary without device code cannot be verified, but may be named together with others.
    let mut empty = paths.first();
    let mut is_compared = false;
    for input in &inputs {
        match (input, against) {
            (VerifyInput::Binary(file), None) => {
                if binary::check_file(file, resources, &findings) {
                    empty = None;
                }
            }
            (VerifyInput::Archive(file), None) => {
                archive::check_file(file, &resources.budget, &findings, progress);
                empty = None;
            }
            (VerifyInput::Binary(file) | VerifyInput::Archive(file), Some(_)) => {
                return Err(VerifyError::NotComparable(file.path.clone()));
            }
            (VerifyInput::Parts(parts), against) => {
                is_compared |= check_parts(parts, against, options, resources, &findings, progress)?;
                empty = None;
            }
        }
    }
    if let Some(against) = against {
        if !is_compared {
            findings.add(Check::Against, against.display().to_string(), "nothing that is verified was made of it");
        }
        artifacts::check_components(paths, against, &inputs, options, &findings)?;
    }
    match empty {
        Some(path) if findings.number() == 0 => Err(VerifyError::Nothing(path.clone())),
        _ => Ok(findings.into_report()),
    }
}

/// Checks parts that belong together. Returns whether they were compared with `against`.
fn check_parts(
    parts: &Parts,
    against: Option<&Path>,
    options: &VerifyOptions,
    resources: &Arc<Resources>,
    findings: &Findings,
    progress: &VerifyProgress,
) -> Result<bool, VerifyError> {
    let before = findings.number();
    let said = parts.said()?;
    let choices = &Choices::new(options, said.as_ref())?.of(parts, resources);
    if let Some(said) = said.filter(|said| said.statement.is_restricted()) {
        findings.note(format!("{}: the split was made with {}", said.path, said.statement));
    }
    let distributions = distributions::find(parts, findings);
    let thin = ThinFiles::of(parts, &distributions, options.thin.as_ref());
    let archives = OverlaidArchives::fill(parts, findings);
    let binaries = binary::check_all(parts, &thin, choices, resources, findings, progress);
    let has_binaries = !binaries.is_empty() || findings.counts.thin_binaries.get() > 0;
    let is_nothing = findings.number() == before && !has_binaries && !parts.is_split();
    if is_nothing && against.is_none() {
        let location = parts.all.first().map(|part| part.input.location.clone());
        return Err(VerifyError::Nothing(location.unwrap_or_default()));
    }
    let code = archives.walk(parts, &binaries, choices, findings);
    archive::check_all(&archives, parts.kind, choices, &resources.budget, findings, progress);
    distributions::check(&distributions, findings);
    distributions::check_code(parts, &distributions, &code, findings);
    distributions::check_archives(parts, &distributions, &archives, &choices.databases, findings);
    let (distributions, binaries) = (&*distributions, &binaries);
    let context =
        Context { parts, archives: &archives, thin: &thin, binaries, distributions, choices, resources, findings };
    context.check_records(progress);
    if parts.kind != PartsKind::Installation {
        separation::check(parts, &archives, choices, findings);
    }
    let Some(against) = against else { return Ok(false) };
    if let Some(component) = &parts.component {
        let fats = artifacts::fats(against, component, resources)?;
        Comparison::new(&fats, None, &context).run(progress);
        return Ok(true);
    }
    let mut fat = Part::open(against, String::new(), resources, &Findings::default())?.input;
    let joined = join(&mut fat, resources, &join::JoinProgress::default());
    joined.warnings.into_iter().for_each(|warning| findings.note(warning));
    let name = Metadata::read(&fat).ok().map(|metadata| normalise(&metadata.name));
    // A directory of wheels, or an installation, may contain several splits.
    let mut of_split = distributions.iter().filter(|it| it.is_of_split()).peekable();
    let is_other = |name: &String| of_split.peek().is_some() && !of_split.any(|it| it.is_made_of(name));
    if name.as_ref().is_some_and(is_other) {
        let host = parts.all.first().map_or(Path::new(""), |part| &part.input.location);
        findings.note(format!(
            "{}: not compared with {}, which is another distribution",
            host.display(),
            against.display()
        ));
        return Ok(false);
    }
    Comparison::new(&[fat], name.as_deref(), &context).run(progress);
    Ok(true)
}
