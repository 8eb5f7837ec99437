//! Databases that Tensile makes: those of rocBLAS, hipBLASLt and hipSPARSELt.
//!
//! The library opens a catalogue for the GPU. A lazy catalogue names further catalogues, each with a code object of its
//! own. All code objects share helper kernels in `Kernels.so-000-<arch>.hsaco`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::catalogue::{check_mapping, check_own_code, names_in};
use super::files::{LibraryFiles, NoListing};
use super::listing::{CodeState, DatabaseListing, code_state};
use super::place::DatabaseSearch;
use super::problem::Problem;
use super::trail::LookupEvidence;
use crate::coverage::cause::CauseKind;
use crate::database::tensile::{CATALOGUES, CODE};
use crate::database::tensile_library::{HELPERS, Lost, catalogues, code_name, files_of_name, helpers, is_for, lost};
use crate::database::{CatalogueCheck, Handler};
use crate::gpu::{FALLBACKS, FallbackState, TargetId};
use crate::report::table::counted;
use crate::text::{first_names, more, quoted};

/// The most names in a reason.
const NAMED: usize = 6;

impl DatabaseSearch<'_> {
    /// Follows the steps of the library. Returns what is wrong.
    pub(super) fn look_up_tensile(&self, evidence: &mut LookupEvidence) -> Result<(), Problem> {
        let base = &self.place.directory;
        DatabaseListing::of(self.files, base).map_err(|error| match error {
            NoListing::Denied => self.denied(base, base),
            _ => self.printing(base, Problem::new(CauseKind::DatabaseMissing, error.absence(base), base)).doubtful(),
        })?;
        let directory = self.directory();
        evidence.directory = Some(directory.display().to_string());
        let listing = DatabaseListing::of(self.files, &directory).map_err(|_| self.denied(&directory, &directory))?;
        let names = catalogues(self.handler, self.device.processor());
        let Some(catalogue) = names.iter().find(|name| listing.has(name)) else {
            return match self.generic_target(&listing) {
                Some(generic) => self.check_generic(generic, &listing, evidence),
                None => Err(self.absent(&listing)),
            };
        };
        let path = listing.path(catalogue);
        if !self.files.is_readable(&path) {
            return Err(self.denied(&path, &directory));
        }
        evidence.trail.saw(format!("{} is the catalogue", path.display()));
        if let (Handler::Hipblaslt, None, true) = (self.handler, self.place.variable, directory != *base) {
            let directory = quoted(&directory);
            evidence.trail.follows(format!(
                "some versions of hipBLASLt do not look in that directory (ROCm/TheRock#7976): for these, run: export \
                 HIPBLASLT_TENSILE_LIBPATH={directory}"
            ));
        }
        self.check(catalogue, &listing, self.device.processor(), evidence)
    }

    /// The directory for the GPU: the first one that is there.
    fn directory(&self) -> PathBuf {
        let (base, processor) = (&self.place.directory, self.device.processor());
        let mode = self.device.features().find(|feature| feature.starts_with("xnack"));
        let below: Vec<_> = match (self.handler, self.place.variable) {
            (Handler::Rocblas, _) => {
                let with_mode = mode.map(|mode| format!("{processor}-{mode}"));
                with_mode.into_iter().chain([processor.to_owned()]).collect()
            }
            // Only the directory that was found near the library is divided.
            (_, None) => vec![processor.to_owned()],
            (_, Some(_)) => Vec::new(),
        };
        let below = below.iter().map(|name| base.join(name)).find(|path| self.files.is_readable(path));
        below.unwrap_or_else(|| base.clone())
    }

    /// What is wrong if there is no catalogue.
    fn absent(&self, listing: &DatabaseListing) -> Problem {
        let (base, directory) = (&self.place.directory, &listing.directory);
        let processor = self.device.processor();
        let names = catalogues(self.handler, processor);
        let has_catalogue = |directory: &Path| {
            DatabaseListing::of(self.files, directory).is_ok_and(|it| names.iter().any(|name| it.has(name)))
        };
        let wanted = directory.join(names.first().map(String::as_str).unwrap_or_default());
        let missing = |problem: Problem| self.printing(directory, problem);
        if directory != base && has_catalogue(base) {
            let reason = format!("{} hides the files for {processor} in {}", directory.display(), base.display());
            let problem = missing(Problem::new(CauseKind::DatabaseHidden, reason, directory));
            let is_empty = listing.names.is_empty();
            return if is_empty { problem.mended_by(format!("rmdir {}", quoted(directory))) } else { problem };
        }
        let below = base.join(processor);
        if let Some(variable) = self.place.variable.filter(|_| directory == base && has_catalogue(&below)) {
            let reason = format!("{variable} leads to {}, and the files for {processor} are below it", base.display());
            let command = format!("export {variable}={}", quoted(&below));
            return missing(Problem::new(CauseKind::DatabaseVariable, reason, base)).mended_by(command);
        }
        if let Some(problem) = self.other_mode(&has_catalogue) {
            return missing(problem);
        }
        if listing.names.iter().any(|name| self.is_own(name)) {
            let reason = format!("{} is missing, the catalogue of the other files for {processor}", wanted.display());
            return missing(Problem::new(CauseKind::DatabaseFileMissing, reason, wanted));
        }
        let others = others(self.files, base);
        let has = if others.is_empty() { "nothing".to_owned() } else { first_names(&others, NAMED, ", ", "") };
        let reason = format!("{} has no files for {processor}; it has {has}", base.display());
        missing(Problem::new(CauseKind::DatabaseMissing, reason, wanted)).doubtful()
    }

    /// Whether a file is for the GPU by its name.
    fn is_own(&self, name: &str) -> bool {
        is_for(name, self.device.processor())
    }

    /// Whether a file is for the GPU in the other XNACK mode by its name, so that it is not opened.
    fn is_of_other_mode(&self, name: &str) -> bool {
        let has = |mode: &str| self.device.features().any(|it| it == mode);
        has("xnack-") && name.contains("-xnack+") || has("xnack+") && name.contains("-xnack-")
    }

    /// The generic target of the GPU, if there is a catalogue for that. rocBLAS reads it with ROCm/rocm-libraries#5243,
    /// without which such a catalogue is not built either.
    fn generic_target(&self, listing: &DatabaseListing) -> Option<&'static str> {
        let merged = FALLBACKS.iter().filter(|row| row.state == FallbackState::Merged);
        let mut own = merged.filter(|row| row.processors.contains(&self.device.processor())).map(|row| row.generic);
        let generic = own.next().filter(|_| self.handler == Handler::Rocblas)?;
        catalogues(self.handler, generic).iter().take(2).any(|name| listing.has(name)).then_some(generic)
    }

    /// Checks files for a generic target: fallback kernels are looked for by the name of the GPU all the same
    /// (`PlaceholderLibrary::getCodeObjectFileName`, ROCm/rocm-libraries#9366).
    fn check_generic(
        &self,
        generic: &str,
        listing: &DatabaseListing,
        evidence: &mut LookupEvidence,
    ) -> Result<(), Problem> {
        let (processor, directory) = (self.device.processor(), quoted(&listing.directory));
        evidence.trail.saw(format!("{} has files for {generic}", listing.directory.display()));
        evidence.trail.follows("a rocBLAS with ROCm/rocm-libraries#5243 reads these; that is open");
        let suffix = format!("_{generic}.hsaco");
        let fallback = listing.names.iter().filter(|name| name.ends_with(&suffix) && name.contains("fallback"));
        let renamed = |name: &String| name.strip_suffix(&suffix).map(|stem| format!("{stem}_{processor}.hsaco"));
        let Some(lost) = fallback.filter_map(renamed).find(|name| !listing.has(name)) else { return Ok(()) };
        let path = listing.path(&lost);
        let reason = format!(
            "{} is missing: the files are for {generic}, but fallback kernels are looked for by the name of the GPU \
             (ROCm/rocm-libraries#9366)",
            path.display()
        );
        let command = format!(
            "(cd {directory} && for it in *fallback{suffix}; do ln -s \"$it\" \"${{it%{suffix}}}_{processor}.hsaco\"; \
             done)"
        );
        Err(Problem::new(CauseKind::DatabaseGeneric, reason, path).mended_by(command))
    }

    /// The problem of a directory for the GPU in the other mode.
    fn other_mode(&self, has_catalogue: &impl Fn(&Path) -> bool) -> Option<Problem> {
        let has = |mode: &str| self.device.features().any(|it| it == mode);
        let (other, state, command) = match (has("xnack-"), has("xnack+")) {
            (true, _) => ("xnack+", "on", "export HSA_XNACK=1"),
            (_, true) => ("xnack-", "off", "unset HSA_XNACK"),
            _ => return None,
        };
        let directory = self.place.directory.join(format!("{}-{other}", self.device.processor()));
        let is_there = self.handler == Handler::Rocblas && has_catalogue(&directory);
        let reason = format!("{} is for XNACK {state} only", directory.display());
        is_there.then(|| Problem::new(CauseKind::DatabaseMode, reason, directory).mended_by(command))
    }

    /// Checks the files that a catalogue leads to.
    fn check(
        &self,
        catalogue: &str,
        listing: &DatabaseListing,
        processor: &str,
        evidence: &mut LookupEvidence,
    ) -> Result<(), Problem> {
        let path = listing.path(catalogue);
        let named = names_in(self.files, &path).map_err(|reason| damaged(&path, &reason))?;
        let own: Vec<_> = listing.ending(&CODE).filter(|name| self.is_own(name)).collect();
        self.check_named(&path, &named, listing)?;
        if own.is_empty() && self.handler == Handler::Rocblas {
            return Err(self.without_code(listing).printing(self.no_match(&listing.directory)));
        }
        let (named_files, code) =
            (counted(named.len(), "catalogue", "catalogues"), counted(own.len(), "code object", "code objects"));
        evidence.trail.saw(format!("it names {named_files}; next to it: {code}"));
        if named.is_empty() {
            check_own_code(self.files, &path, processor, &own, listing)?;
        }
        self.check_helpers(listing, named.is_empty())?;
        let mut opened = own.iter().filter(|name| !self.is_of_other_mode(name));
        opened.try_for_each(|name| self.check_code(&listing.path(name)))?;
        check_mapping(self.files, self.library, listing, processor).map_or(Ok(()), Err)
    }

    /// Checks the files to which a lazy catalogue leads (`PlaceholderLibrary::loadPlaceholderLibrary` and
    /// `getCodeObjectFileName`).
    fn check_named(&self, path: &Path, named: &BTreeSet<String>, listing: &DatabaseListing) -> Result<(), Problem> {
        let processor = self.device.processor();
        if let Some(lost) = lost(named, processor, &listing.names) {
            return Err(self.lost(lost, path, named, listing));
        }
        let file = |name: &String| files_of_name(name).find(|file| listing.has(file));
        let mut files = named.iter().filter_map(file).map(|name| listing.path(&name));
        files.try_for_each(|path| {
            if !self.files.is_readable(&path) {
                return Err(self.denied(&path, &listing.directory));
            }
            let is_compressed = path.extension().is_some_and(|it| it == "zlib");
            let Some(content) = self.files.open(&path) else { return Ok(()) };
            CatalogueCheck::check(&*content, is_compressed).map_err(|reason| damaged(&path, &reason))
        })
    }

    fn lost(&self, lost: Lost<'_>, path: &Path, named: &BTreeSet<String>, listing: &DatabaseListing) -> Problem {
        let processor = self.device.processor();
        let file_missing = |reason, file| Problem::new(CauseKind::DatabaseFileMissing, reason, file);
        match lost {
            Lost::Catalogue(first, others) => {
                let first = listing.path(&format!("{first}.dat"));
                let has_others = listing.ending(&CATALOGUES).any(|name| name.starts_with("TensileLibrary_Type_"));
                if others + 1 == named.len() && has_others {
                    let reason = format!(
                        "{} is of another version than the other files: it names {} catalogues such as {}, and none is there",
                        path.display(),
                        named.len(),
                        first.display()
                    );
                    return Problem::new(CauseKind::DatabaseVersion, reason, path);
                }
                let reason =
                    format!("{} is missing, which {} names{}", first.display(), path.display(), more(others, ","));
                file_missing(reason, first)
            }
            Lost::Code(first, others) => {
                let missing = listing.path(&code_name(first, processor));
                let reason = format!("{} is missing, the code of a catalogue{}", missing.display(), more(others, ","));
                file_missing(reason, listing.path(first))
            }
            Lost::AllCode => self.without_code(listing),
            Lost::Helpers => self.without_helpers(listing),
        }
    }

    fn without_code(&self, listing: &DatabaseListing) -> Problem {
        let reason = format!("{} has no code for {}", listing.directory.display(), self.device.processor());
        Problem::new(CauseKind::DatabaseFileMissing, reason, &listing.directory)
    }

    fn without_helpers(&self, listing: &DatabaseListing) -> Problem {
        let [first, ..] = helpers(self.device.processor());
        let path = listing.path(&first);
        let reason = format!("{} is missing, the helper kernels", path.display());
        let prints = format!("hipModuleLoad failed: {}  error: file not found", path.display());
        Problem::new(CauseKind::DatabaseFileMissing, reason, path).printing(prints)
    }

    /// Checks the helper kernels, of which the first file that can be loaded is taken.
    fn check_helpers(&self, listing: &DatabaseListing, is_whole: bool) -> Result<(), Problem> {
        let files = helpers(self.device.processor());
        let existing: Vec<_> = files.iter().filter(|name| listing.has(name)).collect();
        let path = listing.path(files.first().map(String::as_str).unwrap_or_default());
        if existing.is_empty() {
            // A merged database may have them in one file for all GPUs.
            let is_needed = !is_whole || listing.names.iter().any(|name| name.starts_with(HELPERS));
            return if is_needed { Err(self.without_helpers(listing)) } else { Ok(()) };
        }
        let opposite = if self.device.features().any(|it| it == "xnack+") { "-xnack-.hsaco" } else { "-xnack+.hsaco" };
        let is_opposite = existing.iter().all(|name| name.ends_with(opposite));
        let has_mode = self.device.features().any(|feature| feature.starts_with("xnack"));
        if !is_opposite || !has_mode {
            return Ok(());
        }
        let (reason, command) = if opposite == "-xnack+.hsaco" {
            ("helper kernels need XNACK on, and the GPU has it off", "export HSA_XNACK=1")
        } else {
            ("helper kernels need XNACK off, and the GPU has it on", "unset HSA_XNACK")
        };
        let reason = format!("{}: the {reason}", path.display());
        Err(Problem::new(CauseKind::DatabaseMode, reason, path).mended_by(command))
    }

    /// Checks the header of a code object.
    fn check_code(&self, path: &Path) -> Result<(), Problem> {
        let candidates = self.device.candidates();
        let is_own = |target: &TargetId| {
            candidates.iter().any(|it| it.processor() == target.processor()) && !self.device.contradicts(target)
        };
        let damage = match code_state(self.files, path, self.device, self.resources) {
            CodeState::Denied => return Err(self.denied(path, path.parent().unwrap_or(path))),
            CodeState::Damaged(reason) => format!("is damaged: {reason}"),
            CodeState::For(targets) if targets.is_empty() || targets.iter().any(is_own) => return Ok(()),
            CodeState::For(targets) => format!("has code for {}", first_names(&targets, NAMED, ", ", "")),
        };
        Err(Problem::new(CauseKind::DatabaseDamaged, format!("{} {damage}", path.display()), path))
    }

    /// The problem of a file or a directory that may not be read.
    fn denied(&self, path: &Path, directory: &Path) -> Problem {
        self.printing_error(directory, "Permission denied", self.files.denied(path))
    }

    fn printing(&self, directory: &Path, problem: Problem) -> Problem {
        self.printing_error(directory, "No such file or directory", problem)
    }

    /// What the library prints if it cannot read its catalogue (`TensileHost::initialize` of each library). rocBLAS ends
    /// the process then.
    fn printing_error(&self, directory: &Path, error: &str, problem: Problem) -> Problem {
        let (directory, processor) = (directory.display(), self.device.processor());
        problem.printing(match self.handler {
            Handler::Rocblas => {
                format!("rocBLAS error: Cannot read {directory}/TensileLibrary.dat: {error} for GPU arch : {processor}")
            }
            Handler::Hipblaslt => {
                format!("rocblaslt error: Cannot read \"{directory}/TensileLibrary_lazy_{processor}.dat\": {error}")
            }
            _ => format!("hipsparselt_error: Cannot read {directory}/TensileLibrary_lazy_{processor}.dat: {error}"),
        })
    }

    /// What rocBLAS prints if a database that is not lazy has no code.
    fn no_match(&self, directory: &Path) -> String {
        let (directory, processor) = (directory.display(), self.device.processor());
        format!(
            "rocBLAS warning: No paths matched {directory}/*{processor}*co. Make sure that ROCBLAS_TENSILE_LIBPATH is set \
             correctly."
        )
    }
}

/// The targets of the catalogues in a directory, and in those below it.
fn others(files: &dyn LibraryFiles, base: &Path) -> BTreeSet<String> {
    let Ok(listing) = DatabaseListing::of(files, base) else { return BTreeSet::new() };
    let target = |name: &str| {
        let name = name.strip_suffix(".zlib").unwrap_or(name).strip_suffix(".dat")?;
        let target = name.strip_prefix("TensileLibrary_lazy_").or_else(|| name.strip_prefix("TensileLibrary_"))?;
        target.starts_with("gfx").then(|| target.to_owned())
    };
    let below = listing.names.iter().filter(|name| name.starts_with("gfx"));
    let below = below.filter_map(|name| DatabaseListing::of(files, &base.join(name)).ok());
    let all = std::iter::once(&listing).map(|it| it.names.clone()).chain(below.map(|it| it.names));
    all.flatten().filter_map(|name| target(&name)).collect()
}

/// The problem of a catalogue that cannot be understood.
fn damaged(path: &Path, reason: &str) -> Problem {
    Problem::new(CauseKind::DatabaseDamaged, format!("{} is damaged: {reason}", path.display()), path)
}
