//! Findings, and counts of what was checked.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;
use serde::Serialize;

use super::rules::Rule;
use crate::metrics::Counter;

/// The result.
#[derive(Debug, Serialize)]
pub struct VerifyReport {
    /// How much has been checked.
    pub counts: Counts,
    /// Causes of findings, most frequent first.
    pub causes: Vec<FindingGroup>,
    /// All findings, sorted by path.
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

/// The kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Binaries.
    Binary,
    /// Archives.
    Archive,
    /// Look-ups from wrappers to code objects.
    Lookup,
    /// Manifests and names of artifacts.
    Artifact,
    /// RECORDs of wheels.
    Record,
    /// Relations between distributions.
    Distribution,
    /// Files in the wrong part.
    Separation,
    /// Manifests and split IDs.
    Manifest,
    /// The comparison with the fat input.
    Against,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} [{}]", self.path, self.reason, self.rule)
    }
}

/// Collects the findings of all threads.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) counts: Counts,
    found: Mutex<Vec<Finding>>,
    notes: Mutex<Vec<String>>,
}

impl Findings {
    pub(super) fn add(&self, rule: Rule, path: impl Into<String>, reason: impl fmt::Display) {
        let finding = Finding { path: path.into(), check: rule.text().check, rule, reason: reason.to_string() };
        self.found.lock().push(finding);
    }

    /// Adds a note about something that was not checked.
    pub(super) fn note(&self, note: String) {
        self.notes.lock().push(note);
    }

    /// Number of findings.
    pub(super) fn number(&self) -> usize {
        self.found.lock().len()
    }

    /// The report. Its order does not depend on the threads. Findings of allowed rules become notes.
    pub(super) fn into_report(self, allowed: &[Rule]) -> VerifyReport {
        let mut findings = self.found.into_inner();
        findings.sort();
        findings.dedup();
        let mut notes = self.notes.into_inner();
        for rule in allowed {
            let of_rule: Vec<_> = findings.extract_if(.., |finding| finding.rule == *rule).collect();
            if let Some(first) = of_rule.first() {
                notes.push(format!("{} of {rule} allowed, such as {}: {}", of_rule.len(), first.path, first.reason));
            }
        }
        notes.sort();
        notes.dedup();
        VerifyReport { counts: self.counts, causes: causes(&findings), findings, notes }
    }
}

/// The causes of sorted findings.
fn causes(findings: &[Finding]) -> Vec<FindingGroup> {
    let mut causes = Vec::<FindingGroup>::new();
    let mut places = HashMap::new();
    for finding in findings {
        let reason = without_names(&finding.reason);
        let place = *places.entry((finding.rule, reason.clone())).or_insert(causes.len());
        match causes.get_mut(place) {
            Some(cause) => cause.count += 1,
            None => causes.push(FindingGroup {
                check: finding.check,
                rule: finding.rule,
                reason,
                count: 1,
                first: finding.path.clone(),
            }),
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    causes
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
pub(super) fn enumerate<T: fmt::Display>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<_> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    match items.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::Findings;
    use crate::verify::Rule;

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
