//! Findings, and counts of what was checked.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::rules::{Check, Rule};
use crate::metrics::{Counter, Progress};
use crate::resources::Resources;
use crate::rope::reason_at;
use crate::text::first_names;

/// The most findings, notes, and causes of a rule in a report. What is beyond is counted.
const MAX_LISTED: usize = 1000;

/// The result.
#[derive(Debug, Serialize)]
pub struct VerifyReport {
    /// How much has been checked.
    pub counts: Counts,
    /// Causes of findings, most frequent first.
    pub causes: Vec<FindingGroup>,
    /// Findings, sorted by path: the first 1,000.
    pub findings: Vec<Finding>,
    /// What was not checked, without being wrong.
    pub notes: Vec<String>,
}

/// Findings whose reasons differ in names and numbers only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingGroup {
    /// The check.
    pub check: Check,
    /// The rule that is broken.
    #[serde(rename = "id")]
    pub rule: Rule,
    /// The reason, with "…" in place of names and numbers.
    pub reason: String,
    /// Number of findings.
    pub count: usize,
    /// The file of the first finding.
    pub first: String,
}

/// Counts of what was checked.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// Findings, also those that are not listed.
    pub findings: Counter,
    /// Files looked at.
    pub files: Counter,
    /// Split binaries among them.
    pub binaries: Counter,
    /// Thin binaries among the files.
    pub thin_binaries: Counter,
    /// Wrappers of both.
    pub wrappers: Counter,
    /// Archives.
    pub archives: Counter,
    /// Code objects read, in archives and in thin binaries.
    pub code_objects: Counter,
    /// Bytes of these code objects.
    pub code_bytes: Counter,
    /// Pairs of wrapper and target that were looked up as in a runtime.
    pub lookups: Counter,
    /// Files compared with what a RECORD states.
    pub recorded_files: Counter,
    /// Files in a RECORD that could not be compared with it. Notes have the reasons.
    pub uncompared_files: Counter,
    /// Files compared with what a manifest lists.
    pub listed_files: Counter,
    /// Code objects compared with those of the fat input.
    pub compared_code_objects: Counter,
    /// Files compared with those of the fat input.
    pub compared_files: Counter,
}

/// A problem.
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[display("{path}: {reason} [{rule}]")]
pub struct Finding {
    /// The file.
    pub path: String,
    /// The check.
    pub check: Check,
    /// The rule that is broken.
    #[serde(rename = "id")]
    pub rule: Rule,
    /// The problem in words.
    pub reason: String,
}

impl Finding {
    pub(super) fn new(rule: Rule, path: impl Into<String>, reason: impl Display) -> Self {
        let path = path.into();
        Self { check: rule.check(), rule, reason: reason_at(&path, reason), path }
    }
}

/// What all checks use.
#[derive(Clone, Copy)]
pub(super) struct Tools<'a> {
    pub(super) resources: &'a Arc<Resources>,
    pub(super) findings: &'a Findings,
    pub(super) progress: &'a Progress,
}

/// Collects the findings of all threads.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) counts: Counts,
    found: Mutex<BTreeMap<Rule, RuleFindings>>,
    notes: Mutex<BTreeSet<String>>,
}

/// The findings of one rule.
#[derive(Debug, Default)]
struct RuleFindings {
    /// A hash of each: a file may be looked at twice.
    known: HashSet<u64>,
    first: BTreeSet<Finding>,
    /// Number and first finding, by reasons without names.
    causes: HashMap<String, (usize, Finding)>,
}

impl RuleFindings {
    fn add(&mut self, finding: Finding) {
        let mut hash = DefaultHasher::new();
        finding.hash(&mut hash);
        if !self.known.insert(hash.finish()) {
            return;
        }
        let reason = without_names(&finding.reason);
        // A crafted input may have names that are not recognised as such.
        let reason = if self.causes.len() < MAX_LISTED { reason } else { "…".to_owned() };
        let (count, first) = self.causes.entry(reason).or_insert_with(|| (0, finding.clone()));
        *count += 1;
        if finding < *first {
            first.clone_from(&finding);
        }
        keep(&mut self.first, finding);
    }
}

/// Adds an item to the first [`MAX_LISTED`].
fn keep<T: Ord>(items: &mut BTreeSet<T>, item: T) {
    items.insert(item);
    if items.len() > MAX_LISTED {
        items.pop_last();
    }
}

impl Findings {
    pub(super) fn add(&self, rule: Rule, path: impl Into<String>, reason: impl Display) {
        self.push(Finding::new(rule, path, reason));
    }

    /// Adds what was found while an input was opened.
    pub(super) fn push(&self, finding: Finding) {
        self.found.lock().entry(finding.rule).or_default().add(finding);
    }

    /// Adds a note about something that was not checked.
    pub(super) fn note(&self, note: String) {
        keep(&mut self.notes.lock(), note);
    }

    /// Number of findings.
    pub(super) fn number(&self) -> usize {
        self.found.lock().values().map(|of_rule| of_rule.known.len()).sum()
    }

    /// The report. Its order does not depend on the threads. Findings of allowed rules become notes.
    pub(super) fn into_report(self, allowed: &[Rule]) -> VerifyReport {
        let mut found = self.found.into_inner();
        let mut notes = self.notes.into_inner();
        for rule in allowed {
            let of_rule = found.remove(rule).unwrap_or_default();
            if let Some(first) = of_rule.first.first() {
                notes.insert(format!(
                    "{} of {rule} allowed, such as {}: {}",
                    of_rule.known.len(),
                    first.path,
                    first.reason
                ));
            }
        }
        self.counts.findings.add(found.values().map(|of_rule| of_rule.known.len() as u64).sum());
        let mut causes = Vec::new();
        let mut findings = BTreeSet::new();
        for of_rule in found.into_values() {
            causes.extend(of_rule.causes);
            of_rule.first.into_iter().for_each(|finding| keep(&mut findings, finding));
        }
        causes.sort_by(|(_, (count, first)), (_, (other, other_first))| other.cmp(count).then(first.cmp(other_first)));
        let causes = causes.into_iter().map(|(reason, (count, first))| {
            let Finding { path, check, rule, .. } = first;
            FindingGroup { check, rule, reason, count, first: path }
        });
        VerifyReport {
            counts: self.counts,
            causes: causes.collect(),
            findings: findings.into_iter().collect(),
            notes: notes.into_iter().collect(),
        }
    }
}

/// A reason with "…" in place of names and numbers: words with digits, slashes, quotes or "==".
fn without_names(reason: &str) -> String {
    const WORDS: [&str; 2] = ["SHA-256", "CRC-32"];
    let is_name = |word: &str| {
        let is_odd = |letter: char| letter.is_ascii_digit() || "/\"_=".contains(letter);
        !WORDS.contains(&word) && word.contains(is_odd)
    };
    let mut words = Vec::new();
    for word in reason.split(' ') {
        let name = word.trim_end_matches([',', ':', ';']);
        if !is_name(name) {
            words.push(word.to_owned());
            continue;
        }
        let end = word.strip_prefix(name).unwrap_or_default();
        // A list of names becomes one "…".
        if words.last().is_some_and(|last| last == "…,") {
            words.pop();
        }
        words.push(format!("…{end}"));
    }
    words.join(" ")
}

/// `0, 1, 2 and 5 more`: a list of limited length.
pub(super) fn enumerate<T: Display>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    first_names(items, SHOWN, ", ", "")
}

#[cfg(test)]
mod tests {
    use super::{Findings, MAX_LISTED};
    use crate::verify::Rule;

    #[test]
    fn what_is_beyond_the_first_thousand_is_counted() {
        let findings = Findings::default();
        for number in (0..3000).rev() {
            findings.add(Rule::FileChanged, format!("{number:04}"), "it differs");
            findings.add(Rule::FileChanged, format!("{number:04}"), "it differs");
            findings.add(Rule::NoCode, format!("{number:04}"), format!("no code {}", "x".repeat(number)));
        }
        assert_eq!(findings.number(), 6000);
        let report = findings.into_report(&[Rule::NoCode]);
        assert_eq!((report.counts.findings.get(), report.findings.len()), (3000, MAX_LISTED));
        assert!(report.findings.iter().enumerate().all(|(number, finding)| finding.path == format!("{number:04}")));
        let causes: Vec<_> = report.causes.iter().map(|it| (it.count, it.first.as_str())).collect();
        assert_eq!(causes, [(3000, "0000")]);
        assert!(report.notes[0].starts_with("3000 of"), "{:?}", report.notes);
    }

    #[test]
    fn findings_of_one_cause_are_counted_together() {
        let findings = Findings::default();
        for number in 0..3 {
            let reason = "its SHA-256 is not the one that fat-1.0.dist-info/RECORD states";
            findings.add(Rule::FileChanged, format!("pkg/{number}.py"), reason);
            findings.add(
                Rule::AgainstCodeLost,
                "lib/x.so",
                format!("wrapper {number}: its code for gfx1030 is not found"),
            );
        }
        findings.add(Rule::NoCode, "lib/x.so", "no archive has code for wrapper 0, 1, 5 and 3 more");
        findings.add(Rule::FileChanged, "pkg/a.py", "its SHA-256 is not the one that other-2.dist-info/RECORD states");
        let causes = findings.into_report(&[]).causes;
        let causes: Vec<_> = causes.iter().map(|it| (it.count, it.reason.as_str(), it.first.as_str())).collect();
        let expected = [
            (4, "its SHA-256 is not the one that … states", "pkg/0.py"),
            (3, "wrapper …: its code for … is not found", "lib/x.so"),
            (1, "no archive has code for wrapper … and … more", "lib/x.so"),
        ];
        assert_eq!(causes, expected);
    }
}
