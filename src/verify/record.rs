//! Checks RECORDs: each file that one names must exist with that size and digest, and every file of a split must be
//! named.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::context::Context;
use super::distributions::{Distribution, RecordRow};
use super::lookup::names_archive;
use super::parts::{Part, PartsKind};
use super::report::Findings;
use super::rules::Rule;
use crate::database::named_arch;
use crate::loader::is_archive;
use crate::metrics::{Portion, Progress};
use crate::report::table::counted;
use crate::rope::{Content, Sha256};
use crate::source::{EntryPath, InputKind, SourceError};
use crate::wheel::{Claim, Stated};

/// Files of a dist-info directory for which RECORD has no digest, or which it need not name (Recording installed
/// projects; PEP 815).
const WITHOUT_DIGEST: [&[u8]; 6] =
    [b"RECORD", b"RECORD.jws", b"RECORD.p7s", b"INSTALLER", b"REQUESTED", b"direct_url.json"];

/// The files that were compared with a RECORD, by part and path: what it states, and whether that is so.
pub(super) type ComparedFiles = HashMap<(usize, EntryPath), (Claim, bool)>;

/// The results for the files in RECORDs.
#[derive(Default)]
struct RecordResults {
    compared: ComparedFiles,
    uncompared: Uncompared,
}

/// Files in a RECORD that were not compared with it, by reason.
#[derive(Default)]
struct Uncompared {
    /// There is no digest, and the file belongs to no split.
    without_digest: BTreeSet<String>,
    /// The RECORD is older than the split.
    older: BTreeSet<String>,
    /// It is not below the input directory.
    elsewhere: BTreeSet<String>,
    /// It is outside of the input, and belongs to no split.
    shared: BTreeSet<String>,
    /// The installer wrote it for itself, and it was deleted.
    of_installer: BTreeSet<String>,
}

/// The result for a file.
enum Outcome {
    Equal,
    Wrong(Rule, String),
    Missing,
    /// It is not below the input directory, and does not exist.
    Elsewhere,
}

impl Context<'_> {
    /// Compares all files that RECORDs name.
    pub(super) fn check_records(&self, progress: &Progress) -> ComparedFiles {
        let results = Mutex::default();
        let mut rows = Vec::new();
        for distribution in self.distributions {
            match &distribution.rows {
                Some(of_record) if self.states_something(distribution) => {
                    rows.extend(of_record.iter().map(|row| (distribution, row)));
                }
                None if distribution.is_of_split() => {
                    let path = distribution.part.label(&distribution.record_path());
                    self.findings.add(Rule::RecordMissing, path, "there is no such file");
                }
                Some(_) | None => {}
            }
        }
        let size = |row: &RecordRow| row.stated.claim_of_any_form().map_or(0, |claim| claim.size);
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(size(row)));
        progress.expect(rows.iter().map(|(_, row)| size(row)).fold(0, u64::saturating_add));
        rows.par_iter().with_max_len(1).for_each(|(distribution, row)| {
            let _named = progress.at(|| String::from_utf8_lossy(&row.path).into_owned());
            self.check_row(distribution, row, &results, &progress.portion(size(row)));
        });
        self.check_forms();
        self.check_unnamed();
        self.note_below();
        let RecordResults { compared, uncompared } = results.into_inner();
        uncompared.note(self.findings);
        compared
    }

    /// Reports each RECORD of a split that breaks the specification, once ("Recording installed projects").
    fn check_forms(&self) {
        for distribution in self.distributions.iter().filter(|it| it.is_of_split()) {
            let rows = || distribution.rows.iter().flatten();
            let is_hexadecimal = |row: &&RecordRow| matches!(row.stated, Stated::Hexadecimal(_));
            let digests = rows().filter(is_hexadecimal).count();
            if digests > 0 {
                let path = distribution.part.label(&distribution.record_path());
                let reason = format!("{digests} of its SHA-256 have hexadecimal digits instead of urlsafe base64");
                self.findings.add(Rule::RecordForm, path, reason);
            }
        }
    }

    /// Whether a RECORD is usable at all. Some published wheels have a RECORD without digests. A split has to make it
    /// again.
    fn states_something(&self, distribution: &Distribution<'_>) -> bool {
        let states = distribution.states_digests();
        let has_to = distribution.is_of_split()
            || self.parts.kind.is_separate() && distribution.part.input.dist_info().is_some();
        if !states && has_to {
            let path = distribution.part.label(&distribution.record_path());
            self.findings.add(Rule::RecordEmpty, path, "it states SHA-256 and size of no file");
        }
        states || !has_to
    }

    fn check_row(
        &self,
        distribution: &Distribution<'_>,
        row: &RecordRow,
        results: &Mutex<RecordResults>,
        portion: &Portion<'_>,
    ) {
        let part = distribution.part;
        let note = |of: fn(&mut Uncompared) -> &mut BTreeSet<String>| {
            self.findings.counts.uncompared_files.add(1);
            let mut results = results.lock();
            of(&mut results.uncompared).insert(String::from_utf8_lossy(&row.path).into_owned());
        };
        let path = EntryPath::new(&row.path).ok();
        let label =
            || path.as_ref().map_or_else(|| String::from_utf8_lossy(&row.path).into_owned(), |it| part.label(it));
        if let Some((rule, reason)) = row_problem(distribution, row, path.as_ref()) {
            return self.findings.add(rule, label(), reason);
        }
        let Some(claim) = row.stated.claim_of_any_form() else {
            let needs_none = path.as_ref().is_some_and(needs_no_digest);
            match &path {
                _ if needs_none => {}
                Some(_) if distribution.is_of_split() => {
                    let reason = format!("{} states no SHA-256 or no size of it", distribution.record_path());
                    self.findings.add(Rule::DigestMissing, label(), reason);
                }
                _ => note(|it| &mut it.without_digest),
            }
            // A member of a wheel has a CRC-32 all the same.
            let content = self.content(distribution, row, path.as_ref()).ok().flatten();
            if let Some(Err(error)) = content.map(|content| content.check()) {
                self.findings.add(Rule::FileUnreadable, label(), error.to_string());
            }
            return;
        };
        if self.is_older(distribution, path.as_ref()) {
            return note(|it| &mut it.older);
        }
        let outcome = self.compare(distribution, row, path.as_ref(), (claim, portion));
        match &outcome {
            Outcome::Elsewhere => return note(|it| &mut it.elsewhere),
            // Several directories of packages may share a directory of scripts.
            Outcome::Wrong(..) if path.is_none() && !distribution.is_of_split() => return note(|it| &mut it.shared),
            Outcome::Missing if path.as_ref().is_some_and(needs_no_digest) => return note(|it| &mut it.of_installer),
            Outcome::Equal | Outcome::Wrong(..) | Outcome::Missing => {}
        }
        self.findings.counts.recorded_files.add(1);
        if let Some(path) = path.as_ref().and_then(|path| part.recorded(path)) {
            let is_equal = matches!(outcome, Outcome::Equal);
            results.lock().compared.insert((distribution.number, path), (claim, is_equal));
        }
        match outcome {
            Outcome::Wrong(rule, reason) => self.findings.add(rule, label(), reason),
            Outcome::Missing => {
                let reason = format!("{} names it, but there is no such file", distribution.record_path());
                self.findings.add(Rule::FileMissing, label(), reason);
            }
            Outcome::Equal | Outcome::Elsewhere => {}
        }
    }

    /// Whether a RECORD is older than the split. An install tree keeps the RECORDs of what was installed before it was
    /// split. They do not match what the split changed: binaries, archives, and databases in device parts.
    fn is_older(&self, distribution: &Distribution<'_>, path: Option<&EntryPath>) -> bool {
        let Some(path) = path.and_then(|path| distribution.part.recorded(path)) else { return false };
        if distribution.is_of_split() {
            // Installers write INSTALLER, splits never do. So this distribution was installed before it was split again.
            if !self.is_output() || !distribution.is_installed() && !self.is_of_input(distribution) {
                return false;
            }
            if self.binaries.thin.contains(&path) || names_archive(&path) {
                return true;
            }
        } else if distribution.part.input.dist_info().is_some() && self.parts.kind.is_separate() {
            return false;
        }
        let is_database = || self.choices.databases.classify(&path).is_some() || named_arch(&path).is_some();
        self.binaries.split.contains_key(&path) || distribution.part.input.entry(&path).is_none() && is_database()
    }

    fn compare(
        &self,
        distribution: &Distribution<'_>,
        row: &RecordRow,
        path: Option<&EntryPath>,
        (claim, portion): (Claim, &Portion<'_>),
    ) -> Outcome {
        let record = distribution.record_path();
        let content = match self.content(distribution, row, path) {
            Ok(Some(content)) => content,
            Ok(None) => {
                return if path.is_some_and(|it| !distribution.part.is_elsewhere(it)) {
                    Outcome::Missing
                } else {
                    Outcome::Elsewhere
                };
            }
            Err(error) => return Outcome::Wrong(Rule::FileUnreadable, error.to_string()),
        };
        if content.size() != claim.size {
            let reason = format!("it has {} bytes, but {record} states {}", content.size(), claim.size);
            return Outcome::Wrong(Rule::FileChanged, reason);
        }
        match Sha256::of_content_counted(&*content, |bytes| portion.advance(bytes)) {
            Ok(sha256) if sha256 == claim.sha256 => Outcome::Equal,
            Ok(_) => Outcome::Wrong(Rule::FileChanged, format!("its SHA-256 is not the one that {record} states")),
            Err(error) => Outcome::Wrong(Rule::FileUnreadable, error.to_string()),
        }
    }

    /// The file that a line names, if it exists.
    fn content(
        &self,
        distribution: &Distribution<'_>,
        row: &RecordRow,
        path: Option<&EntryPath>,
    ) -> Result<Option<Arc<dyn Content>>, SourceError> {
        let part = distribution.part;
        let installed = path.map_or_else(|| script_of_target(&row.path), |path| part.recorded(path));
        let row = String::from_utf8_lossy(&row.path);
        // Scripts are installed elsewhere.
        let written = match path {
            Some(_) => installed.as_ref().map_or(Path::new(""), EntryPath::as_path),
            None => Path::new(&*row),
        };
        part.file(installed.as_ref(), written, self.resources)
    }

    /// The RECORDs in a prefix that holds a directory of packages.
    pub(super) fn records_below(&self) -> Vec<&EntryPath> {
        if self.parts.kind != PartsKind::Installation || !self.distributions.is_empty() {
            return Vec::new();
        }
        let is_record = |path: &EntryPath| {
            path.name() == b"RECORD" && path.parent().is_some_and(|it| it.name().ends_with(b".dist-info"))
        };
        self.parts.files().map(|file| file.path).filter(|path| is_record(path)).collect()
    }

    /// Notes these RECORDs. The directory is to be named itself.
    fn note_below(&self) {
        let records = self.records_below();
        if let Some(first) = records.first() {
            let first = self.parts.label(0, first);
            self.findings.note(format!(
                "{} not compared with files, such as {first}: name the directory that it is in, of an image that of its unpacked root",
                counted(records.len(), "RECORD was", "RECORDs were")
            ));
        }
    }

    /// Reports files of a split that no RECORD names, so that they were not compared.
    fn check_unnamed(&self) {
        for (number, part) in self.parts.all.iter().enumerate() {
            let here = || self.distributions.iter().filter(|distribution| distribution.number == number);
            let mut of_split = here().filter(|it| it.is_of_split() && it.rows.is_some()).peekable();
            if of_split.peek().is_none() || !of_split.all(Distribution::states_digests) {
                continue;
            }
            let named: BTreeSet<_> = here().flat_map(Distribution::recorded).collect();
            let is_wheel = part.input.dist_info().is_some();
            let first = |path: &EntryPath| path.components().next().unwrap_or_default().to_vec();
            let packages: BTreeSet<_> = here()
                .filter(|it| it.is_of_split())
                .flat_map(Distribution::recorded)
                .filter(|path| path.depth() > 1)
                .map(|path| first(&path))
                .collect();
            let is_about = |path: &EntryPath, content: &Arc<dyn Content>| {
                matches!(part.input.kind, InputKind::Wheel(_)) && !needs_no_line(path)
                    || self.parts.is_checked(number) && self.binaries.split.contains_key(path)
                    || is_archive(path, content)
                    || self.choices.databases.classify(path).is_some()
            };
            for (path, content) in part.files() {
                let is_ours = is_wheel || packages.contains(&first(path));
                if is_ours && !named.contains(path) && is_about(path, content) {
                    self.findings.add(Rule::FileUnnamed, part.label(path), "no RECORD names it");
                }
            }
        }
    }
}

/// What is wrong with a line of a RECORD, whatever the file is.
fn row_problem(distribution: &Distribution<'_>, row: &RecordRow, path: Option<&EntryPath>) -> Option<(Rule, String)> {
    let (rule, problem) = if path.is_none() && matches!(distribution.part.input.kind, InputKind::Wheel(_)) {
        (Rule::RecordPath, "names it, but a wheel can have no such path")
    } else if row.stated == Stated::Several {
        (Rule::RecordTwoDigests, "states two digests of it: one file was installed over another, which is lost")
    } else {
        return None;
    };
    Some((rule, format!("{} {problem}", distribution.record_path())))
}

/// Whether a line of a RECORD needs no digest: that of RECORD itself, of installers' files, and of files that Python
/// compiles.
fn needs_no_digest(path: &EntryPath) -> bool {
    path.name().ends_with(b".pyc") || Part::is_metadata(path) && needs_no_line(path)
}

/// Where `pip install --target` puts a script: it moves the directory after it has written RECORD
/// (`pip/_internal/commands/install.py`, `_handle_target_dir`).
fn script_of_target(row: &[u8]) -> Option<EntryPath> {
    let path = row.strip_prefix(b"../../").filter(|path| path.starts_with(b"bin/"))?;
    EntryPath::new(path).ok()
}

/// Whether RECORD may omit a file of a wheel.
fn needs_no_line(path: &EntryPath) -> bool {
    path.depth() == 2 && WITHOUT_DIGEST.contains(&path.name())
}

impl Uncompared {
    fn note(&self, findings: &Findings) {
        let note = |files: &BTreeSet<String>, reason: &str| {
            if let Some(first) = files.first() {
                let files = counted(files.len(), "file was", "files were");
                findings.note(format!("{files} not compared with RECORD, such as {first}: {reason}"));
            }
        };
        note(&self.without_digest, "it states no SHA-256 or no size of them");
        note(&self.older, "it is older than the split, which changed or moved them");
        note(&self.elsewhere, "they are installed elsewhere");
        note(&self.shared, "they are in a directory that other installations write to, and differ");
        note(&self.of_installer, "an installer wrote them for itself, and they were deleted");
    }
}
