//! Checks RECORDs: each file that one names must exist with that size and digest, and every file of a split must be
//! named.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::context::Context;
use super::distributions::Distribution;
use super::lookup::names_archive;
use super::parts::{Part, PartsKind};
use super::rules::Rule;
use crate::database::named_arch;
use crate::loader::is_archive;
use crate::metrics::Portion;
use crate::report::table::counted;
use crate::rope::{Content, PackedContent, ReadError, Sha256, read_all};
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
    /// What is not compared, by the reason.
    uncompared: BTreeMap<&'static str, BTreeSet<String>>,
}

/// The SHA-256 of a content, and whether it has the CRC-32 that its zip file states. Reading a deflated member compares that.
fn sums(content: &dyn Content, portion: &Portion<'_>) -> Result<([u8; 32], bool), ReadError> {
    let stored = content.member().map(PackedContent::packed).filter(|packed| !packed.deflated);
    let (mut sha256, mut crc32) = (Sha256::default(), crc32fast::Hasher::new());
    read_all(content, |piece| {
        sha256.update(piece);
        if stored.is_some() {
            crc32.update(piece);
        }
        portion.advance(piece.len() as u64);
    })?;
    Ok((sha256.finish(), stored.is_none_or(|stored| stored.crc32 == crc32.finalize())))
}

/// The result for a file.
enum Outcome {
    Equal,
    Wrong(Rule, String),
    Missing,
    /// It is not below what was named, and does not exist.
    Elsewhere,
}

/// A row of a RECORD, with its path if that is one below the packages.
struct CheckedRow<'a> {
    distribution: &'a Distribution<'a>,
    row: &'a [u8],
    stated: Stated,
    path: Option<EntryPath>,
}

impl Context<'_> {
    /// Compares all files that RECORDs name.
    pub(super) fn check_records(&self) -> ComparedFiles {
        let progress = self.progress;
        let results = Mutex::default();
        let mut rows = Vec::new();
        for distribution in self.distributions {
            match &distribution.record {
                Some(record) if self.states_something(distribution) => {
                    rows.extend(record.rows().map(|(row, stated)| (distribution, row, stated)));
                }
                None if distribution.is_of_split() => {
                    let path = distribution.part.label(&distribution.record_path());
                    self.findings.add(Rule::RecordMissing, path, "there is no such file");
                }
                Some(_) | None => {}
            }
        }
        let size = |stated: Stated| stated.claim_of_any_form().map_or(0, |claim| claim.size);
        rows.sort_by_key(|(.., stated)| std::cmp::Reverse(size(*stated)));
        progress.expect(rows.iter().map(|(.., stated)| size(*stated)).fold(0, u64::saturating_add));
        rows.par_iter().with_max_len(1).for_each(|&(distribution, row, stated)| {
            let _named = progress.at(|| String::from_utf8_lossy(row).into_owned());
            let checked = CheckedRow { distribution, row, stated, path: EntryPath::new(row).ok() };
            self.check_row(&checked, &results, &progress.portion(size(stated)));
        });
        self.check_forms();
        self.check_unnamed();
        self.note_below();
        let RecordResults { compared, uncompared } = results.into_inner();
        for (reason, files) in uncompared {
            let (count, first) =
                (counted(files.len(), "file was", "files were"), files.first().map_or("", String::as_str));
            self.findings.note(format!("{count} not compared with RECORD, such as {first}: {reason}"));
        }
        compared
    }

    /// Reports each RECORD of a split that breaks the specification, once ("Recording installed projects").
    fn check_forms(&self) {
        for distribution in self.distributions.iter().filter(|it| it.is_of_split()) {
            let is_hexadecimal = |(_, stated): &(&[u8], Stated)| matches!(stated, Stated::Hexadecimal(_));
            let digests = distribution.rows().filter(is_hexadecimal).count();
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

    fn check_row(&self, checked: &CheckedRow<'_>, results: &Mutex<RecordResults>, portion: &Portion<'_>) {
        let CheckedRow { distribution, row, stated, path } = checked;
        let part = distribution.part;
        let note = |reason: &'static str| {
            self.findings.counts.uncompared_files.add(1);
            let mut results = results.lock();
            results.uncompared.entry(reason).or_default().insert(String::from_utf8_lossy(row).into_owned());
        };
        let outside = || self.parts.in_environment(part, row);
        let label = || match path {
            Some(path) => part.label(path),
            None => outside().map_or_else(|| String::from_utf8_lossy(row).into(), |it| it.display().to_string()),
        };
        if let Some((rule, reason)) = row_problem(checked) {
            return self.findings.add(rule, label(), reason);
        }
        let Some(claim) = stated.claim_of_any_form() else {
            let needs_none = path.as_ref().is_some_and(needs_no_digest);
            match path {
                _ if needs_none => {}
                Some(_) if distribution.is_of_split() => {
                    let reason = format!("{} states no SHA-256 or no size of it", distribution.record_path());
                    self.findings.add(Rule::DigestMissing, label(), reason);
                }
                _ => note("it states no SHA-256 or no size of them"),
            }
            // A member of a wheel has a CRC-32 all the same.
            let content = self.content(checked).ok().flatten();
            if let Some(Err(error)) = content.map(|content| content.check()) {
                self.findings.add(Rule::FileUnreadable, label(), error.to_string());
            }
            return;
        };
        if self.is_older(distribution, path.as_ref()) {
            return note("it is older than the split, which changed or moved them");
        }
        let outcome = self.compare(checked, claim, portion);
        match &outcome {
            Outcome::Elsewhere => return note("they are installed elsewhere"),
            // Several directories of packages may share a directory of scripts.
            Outcome::Wrong(..) | Outcome::Missing if path.is_none() && !distribution.is_of_split() => {
                return note("they are in a directory that other installations write to, and differ or are gone");
            }
            Outcome::Missing if path.as_ref().is_some_and(needs_no_digest) => {
                return note("an installer wrote them for itself, and they were deleted");
            }
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
            if !self.is_output()
                || !distribution.part.is_installed(&distribution.directory) && !self.is_of_input(distribution)
            {
                return false;
            }
            if self.binaries.thin.contains(&path) || names_archive(&path) {
                return true;
            }
        } else if distribution.part.input.dist_info().is_some() && self.parts.kind.is_separate() {
            return false;
        }
        let is_database = || self.choices.databases.classify(&path).is_some() || named_arch(&path).is_some();
        let is_changed =
            self.binaries.split.contains_key(&path) || self.thin.is_whole() && self.binaries.thin.contains(&path);
        is_changed || distribution.part.input.entry(&path).is_none() && is_database()
    }

    fn compare(&self, checked: &CheckedRow<'_>, claim: Claim, portion: &Portion<'_>) -> Outcome {
        let CheckedRow { distribution, row, path, .. } = checked;
        let record = distribution.record_path();
        let content = match self.content(checked) {
            Ok(Some(content)) => content,
            Ok(None) => {
                let is_here = match path {
                    Some(path) => !distribution.part.is_elsewhere(path),
                    None => self.parts.in_environment(distribution.part, row).is_some(),
                };
                return if is_here { Outcome::Missing } else { Outcome::Elsewhere };
            }
            Err(error) => return Outcome::Wrong(Rule::FileUnreadable, error.to_string()),
        };
        if content.size() != claim.size {
            let reason = format!("it has {} bytes, but {record} states {}", content.size(), claim.size);
            return Outcome::Wrong(Rule::FileChanged, reason);
        }
        match sums(&*content, portion) {
            Ok((sha256, _)) if sha256 != claim.sha256 => {
                Outcome::Wrong(Rule::FileChanged, format!("its SHA-256 is not the one that {record} states"))
            }
            Ok((_, false)) => {
                let reason = "its CRC-32 is not the one that the zip file states, so that no installer takes it";
                Outcome::Wrong(Rule::FileUnreadable, reason.to_owned())
            }
            Ok(_) => Outcome::Equal,
            Err(error) => Outcome::Wrong(Rule::FileUnreadable, error.to_string()),
        }
    }

    /// The file that a line names, if it exists.
    fn content(&self, checked: &CheckedRow<'_>) -> Result<Option<Arc<dyn Content>>, SourceError> {
        let CheckedRow { distribution: Distribution { part, .. }, row, path, .. } = checked;
        let installed = path.as_ref().map_or_else(|| script_of_target(row), |path| part.recorded(path));
        let row = String::from_utf8_lossy(row);
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
            let mut of_split = here().filter(|it| it.is_of_split() && it.record.is_some()).peekable();
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
fn row_problem(CheckedRow { distribution, stated, path, .. }: &CheckedRow<'_>) -> Option<(Rule, String)> {
    let (rule, problem) = if path.is_none() && matches!(distribution.part.input.kind, InputKind::Wheel(_)) {
        (Rule::RecordPath, "names it, but a wheel can have no such path")
    } else if *stated == Stated::Several {
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
