//! The limit on the size of a part (`--max-part`): which parts exceed it, and which GPUs fit.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::part::{LargestFile, PartGpus, SizedPart};
use super::table::{Table, counted, percent, size};
use crate::gpu::BundleKey;

/// Limits with a name, in bytes.
const NAMED: [(&str, u64); 2] = [
    // "Each file included in a release must be under 2 GiB" (docs.github.com, "About releases").
    ("github-release", (2 << 30) - 1),
    // `MAX_FILESIZE` of PyPI's source (pypi/warehouse, warehouse/constants.py), which is what a project has that did not ask for
    // more (docs.pypi.org, "Storage Limits"). A file of exactly this size is accepted.
    ("pypi-file", 100 << 20),
];

/// Units as those of GNU coreutils: powers of 1024, or of 1000 with `B` and without `i`.
const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("KB", 1000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("TiB", 1 << 40),
];

/// The largest size of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartLimit {
    pub(crate) bytes: u64,
    /// The name by which the user has chosen it.
    name: Option<&'static str>,
}

impl FromStr for PartLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(&(name, bytes)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(Self { bytes, name: Some(name) });
        }
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, unit)| *unit);
        let bytes = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
        let names = || NAMED.map(|(name, _)| name).join(" or ");
        let expected = || {
            format!("bytes such as 1073741824, 500M or 500MiB (1024 x 1024), 2GB (1000 x 1000 x 1000), or {}", names())
        };
        bytes.map(|bytes| Self { bytes, name: None }).ok_or_else(expected)
    }
}

impl fmt::Display for PartLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        match self.name {
            Some(name) => write!(formatter, "{name} ({bytes} bytes)"),
            None => write!(formatter, "{bytes} bytes ({})", size(bytes)),
        }
    }
}

/// What the limit says about a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartVerdict {
    Fits,
    TooLarge,
    /// Its size has to be measured.
    Undecided,
}

impl PartLimit {
    fn verdict(self, part: &SizedPart) -> PartVerdict {
        if part.size.most <= self.bytes {
            PartVerdict::Fits
        } else if part.size.least > self.bytes {
            PartVerdict::TooLarge
        } else {
            PartVerdict::Undecided
        }
    }

    /// Whether the bounds of sizes decide, and which GPUs fit.
    pub(crate) fn is_decided(self, parts: &[SizedPart]) -> bool {
        let is_lost = |part: &SizedPart| part.gpus == PartGpus::All && self.verdict(part) == PartVerdict::TooLarge;
        parts.iter().any(is_lost) || parts.iter().all(|part| self.verdict(part) != PartVerdict::Undecided)
    }

    /// The judgement of parts. `choice` is what the user may choose. A part whose bounds do not decide does not pass.
    pub(crate) fn judge(self, parts: &[SizedPart], choice: PartChoice) -> Judgement {
        let judged = |part: &SizedPart| JudgedPart {
            name: part.name.clone(),
            least: part.size.least,
            most: part.size.known().or_else(|| Some(part.size.most).filter(|most| *most != u64::MAX)),
            excess: Some(part.size.least.saturating_sub(self.bytes)).filter(|excess| *excess > 0),
            largest_files: part.largest.clone(),
        };
        let parts_judged: Vec<_> = parts.iter().map(judged).collect();
        let count = |verdict| parts.iter().filter(|part| self.verdict(part) == verdict).count();
        let (too_large, undecided) = (count(PartVerdict::TooLarge), count(PartVerdict::Undecided));
        let passed = too_large + undecided == 0;
        let (advice, fitting) = if passed { Default::default() } else { self.advice(parts, choice) };
        let judgement = Judgement {
            max_part: self.bytes,
            name: self.name,
            passed,
            parts: parts_judged,
            gpu_targets: Some(fitting).filter(|gpus| !gpus.is_empty()),
            sentence: String::new(),
        };
        let sentence = if passed {
            judgement.passed_sentence(self)
        } else {
            let parts = counted(parts.len(), "part", "parts");
            let verb = if too_large == 1 { "exceeds" } else { "exceed" };
            let least = if undecided > 0 { "at least " } else { "" };
            format!("{least}{too_large} of {parts} {verb} --max-part {self}: {advice}")
        };
        Judgement { sentence, ..judgement }
    }

    /// What would fit in words, and the GPUs of which all parts do.
    fn advice(self, parts: &[SizedPart], choice: PartChoice) -> (String, Vec<String>) {
        let words = |fitting: &[String], none: &str, before: &str, after: &str| {
            if fitting.is_empty() { none.to_owned() } else { format!("{before}{}{after}", fitting.join(",")) }
        };
        let too_large = |part: &&SizedPart| self.verdict(part) == PartVerdict::TooLarge;
        if let Some(part) = parts.iter().filter(too_large).find(|part| part.gpus == PartGpus::All) {
            let words = format!("{} has no code of GPUs, so no choice of GPUs makes it smaller", part.name);
            return (words, Vec::new());
        }
        if choice == PartChoice::Views {
            let fit = parts.iter().filter(|part| self.verdict(part) == PartVerdict::Fits);
            let fit: Vec<_> = fit.map(|part| part.name.clone()).collect();
            return (words(&fit, "none of these views fits", "of these views, ", " fit"), Vec::new());
        }
        let choices = PartGpus::choices(parts);
        let stated = stated(&choices);
        let fits = |part: &SizedPart| part.size.most.saturating_add(stated) <= self.bytes;
        let is_fit = |gpu: &&BundleKey| parts.iter().filter(|part| part.gpus.is_needed_by(gpu)).all(fits);
        let fit: Vec<_> = choices.iter().filter(is_fit).map(ToString::to_string).collect();
        (words(&fit, "the parts of no GPU fit", "with --gpu-targets ", " all parts fit"), fit)
    }
}

/// Bytes that a choice of GPUs adds to each part at most: wheels state it.
fn stated(choice: &BTreeSet<BundleKey>) -> u64 {
    // With indentation, quotes and commas; RECORD has the size of the statement.
    const LINE: usize = 16;
    choice.iter().map(|key| (key.as_str().len() + LINE) as u64).sum::<u64>() + 64
}

/// What a user may choose in order to get smaller parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartChoice {
    /// `--gpu-targets`.
    Gpus,
    /// `--view`, which has chosen the parts.
    Views,
}

/// Which parts exceed a limit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Judgement {
    /// The limit in bytes.
    pub max_part: u64,
    /// Its name, if it was chosen by one.
    pub name: Option<&'static str>,
    /// Whether no part exceeds it.
    pub passed: bool,
    /// The parts.
    pub parts: Vec<JudgedPart>,
    /// The GPUs of which all parts fit, if some parts do not.
    pub gpu_targets: Option<Vec<String>>,
    /// The result as a sentence.
    pub sentence: String,
}

/// A part, and whether it exceeds the limit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JudgedPart {
    /// Its name.
    pub name: String,
    /// Its size is not smaller.
    pub least: u64,
    /// Its size is not larger. `None` if that is not known.
    pub most: Option<u64>,
    /// By how many bytes it exceeds the limit, at least.
    pub excess: Option<u64>,
    /// The largest files in it.
    pub largest_files: Vec<LargestFile>,
}

impl JudgedPart {
    fn size(&self) -> String {
        match self.most {
            Some(most) if most == self.least => size(most),
            _ if self.excess.is_some() => format!("at least {}", size(self.least)),
            Some(most) => format!("at most {}", size(most)),
            None => String::new(),
        }
    }

    fn files(&self) -> String {
        let file = |file: &LargestFile| format!("{} ({})", file.path, size(file.size));
        self.largest_files.iter().map(file).collect::<Vec<_>>().join(", ")
    }
}

impl Judgement {
    /// The same of parts whose fitting GPUs were found by making them.
    #[must_use]
    pub(crate) fn with_gpus(self, limit: PartLimit, gpus: Vec<String>) -> Self {
        let advice = if gpus.is_empty() {
            "for no choice of these GPUs it fits".to_owned()
        } else {
            format!("with --gpu-targets {} it fits", gpus.join(","))
        };
        let gpu_targets = Some(gpus).filter(|gpus| !gpus.is_empty());
        Self { gpu_targets, sentence: format!("it exceeds --max-part {limit}: {advice}"), ..self }
    }

    fn passed_sentence(&self, limit: PartLimit) -> String {
        let largest = self.parts.iter().max_by_key(|part| part.most).map(|part| {
            let (name, size) = (&part.name, part.size());
            format!("; the largest is {name}, {size}")
        });
        let parts = counted(self.parts.len(), "part", "parts");
        format!("{parts} within --max-part {limit}{}", largest.unwrap_or_default())
    }

    /// A line about each part that exceeds the limit.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.parts.iter().filter_map(|part| {
            let excess = part.excess?;
            let files = if part.largest_files.is_empty() {
                String::new()
            } else {
                format!("; its largest files take at most: {}", part.files())
            };
            Some(format!("{}: {}, too large by {} ({excess} bytes){files}", part.name, part.size(), size(excess)))
        })
    }

    /// The parts as a table.
    pub(crate) fn table(&self) -> Table {
        let columns = "part | size # | of the limit # | too large by # | largest files";
        Table::of("Size of parts", columns, &self.parts, |part| {
            let known = part.most.filter(|_| part.excess.is_none()).unwrap_or(part.least);
            [
                part.name.clone(),
                part.size(),
                percent(known, self.max_part),
                part.excess.map(size).unwrap_or_default(),
                part.excess.map(|_| part.files()).unwrap_or_default(),
            ]
        })
    }
}

/// Some parts exceed the limit.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.sentence)]
pub(crate) struct TooLarge(pub(crate) Judgement);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rope::SizeBounds;

    fn part(name: &str, gpus: PartGpus, least: u64, most: u64) -> SizedPart {
        SizedPart { name: name.to_owned(), gpus, size: SizeBounds { least, most }, largest: Vec::new() }
    }

    fn of(key: &str, least: u64, most: u64) -> SizedPart {
        part(key, PartGpus::Key(key.parse().unwrap()), least, most)
    }

    fn limit(bytes: u64) -> PartLimit {
        PartLimit { bytes, name: None }
    }

    #[test]
    fn sizes_have_units_or_names() {
        for (text, bytes) in [
            ("0", 0),
            ("1073741824", 1 << 30),
            ("2GiB", 2 << 30),
            ("2 GB", 2_000_000_000),
            ("100M", 100 << 20),
            ("github-release", (2 << 30) - 1),
            ("pypi-file", 104_857_600),
        ] {
            assert_eq!(text.parse::<PartLimit>().map(|limit| limit.bytes), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "1 parsec", "99999999999GiB", "pypi"] {
            assert!(text.parse::<PartLimit>().unwrap_err().contains("github-release or pypi-file"), "{text}");
        }
    }

    #[test]
    fn bounds_decide_only_outside_of_them() {
        let host = || part("host", PartGpus::All, 10, 10);
        for (parts, at, decided, passed) in [
            (vec![host(), of("gfx1100", 1, 50)], 50, true, true),
            (vec![host(), of("gfx1100", 1, 50)], 49, false, false),
            (vec![host(), of("gfx1100", 20, 50)], 19, true, false),
            // Which of the other GPUs fit is not known yet.
            (vec![host(), of("gfx1100", 20, 50), of("gfx942", 1, 50)], 19, false, false),
            (vec![host(), of("gfx1100", 20, 50)], 9, true, false),
        ] {
            assert_eq!(limit(at).is_decided(&parts), decided, "{at}");
            assert_eq!(limit(at).judge(&parts, PartChoice::Gpus).passed, passed, "{at}");
        }
    }

    #[test]
    fn gpus_fit_whose_families_do() {
        let parts = [
            part("host", PartGpus::All, 10, 10),
            of("gfx11", 2000, 2000),
            of("gfx1100", 10, 10),
            of("gfx942", 1000, 1000),
            of("gfx1030", 10, 10),
            of("gfx90a", 890, 890),
        ];
        let judged = limit(999).judge(&parts, PartChoice::Gpus);
        assert_eq!(judged.gpu_targets, Some(vec!["gfx1030".to_owned()]), "gfx90a has no room for the statement");
        assert_eq!(judged.lines().count(), 2);
        let judged = limit(9).judge(&parts, PartChoice::Gpus);
        assert_eq!(judged.gpu_targets, None);
        assert!(judged.sentence.ends_with("no choice of GPUs makes it smaller"), "{}", judged.sentence);
    }
}
