//! The result of `diff`, and the limit on growth (`--fail-above`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::amount::{Amount, Change, Changes, Pair};
use super::members::Members;
use super::metadata::MetadataChange;
use super::side::InputForm;
use crate::report::table::size;
use crate::text::{NAMED, first_names};

/// The result of `diff`. `docs/json.md` describes it as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Diff {
    /// The inputs.
    pub inputs: Pair<Head>,
    /// Name, version, requirements and extras, if both are wheels.
    pub metadata: Option<MetadataChange>,
    /// Downloads: `all`, and for each GPU.
    pub downloads: BTreeMap<String, Download>,
    /// Device code and databases by target.
    pub targets: BTreeMap<String, TargetChange>,
    /// Top-level directories, largest change first.
    pub packages: Vec<PackageChange>,
    /// Libraries with device code, largest change first.
    pub libraries: Vec<LibraryChange>,
    /// Kernel databases by library and key.
    pub databases: BTreeMap<String, BTreeMap<String, Pair<Amount>>>,
    /// Code objects by digest.
    pub code_objects: Changes,
    /// Kernels by symbol.
    pub kernels: Changes,
    /// Code objects whose symbols could not be read.
    pub unread_symbols: Pair<u64>,
    /// Libraries whose code is not known in one input, as they cannot be read there, and is in the other one.
    pub unread_libraries: Pair<Vec<String>>,
    /// Kernels that differ, largest change first.
    pub changed_kernels: Vec<KernelChange>,
    /// Number of those that are not listed.
    pub more_changed_kernels: usize,
    /// Files and symlinks.
    pub members: Members,
    /// The limit on growth, if one was given.
    pub gate: Option<Gate>,
    /// What could not be compared, with reasons.
    pub warnings: Vec<String>,
}

/// An input as a whole.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Head {
    /// Its file name.
    pub name: String,
    /// Its form.
    pub form: InputForm,
    /// Files and symlinks.
    pub files: Amount,
    /// Bytes of the host part.
    pub host_size: u64,
    /// Code objects.
    pub code: Amount,
    /// Files of kernel databases.
    pub databases: Amount,
}

/// The size of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Download {
    /// Bytes in the first input.
    pub before: Option<u64>,
    /// Bytes in the second one.
    pub after: Option<u64>,
    /// Whether the sizes are estimates.
    pub is_estimate: bool,
}

/// A target.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TargetChange {
    /// Code objects for it.
    pub code: Pair<Amount>,
    /// Files of databases for it.
    pub databases: Pair<Amount>,
    /// Its code objects by digest.
    pub code_objects: Changes,
    /// Its kernels by symbol.
    pub kernels: Changes,
}

impl TargetChange {
    /// Whether the first input has anything for it.
    pub(super) fn was_there(&self) -> bool {
        self.code.before.count + self.databases.before.count > 0
    }

    /// Whether the second input has anything for it.
    pub(super) fn is_there(&self) -> bool {
        self.code.after.count + self.databases.after.count > 0
    }
}

/// A top-level directory.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PackageChange {
    /// Its name; `.` for files outside of directories.
    pub name: String,
    /// Files and symlinks.
    pub files: Pair<Amount>,
    /// Bytes in the host part.
    pub host_size: Pair<u64>,
    /// Code objects of its libraries.
    pub code: Pair<Amount>,
    /// Files of databases.
    pub databases: Pair<Amount>,
}

/// A library with device code.
#[derive(Debug, Serialize)]
pub(crate) struct LibraryChange {
    /// Its path.
    pub path: String,
    /// The change.
    pub change: Change,
    /// Bytes of the file.
    pub size: Pair<Option<u64>>,
    /// Bytes in the host part.
    pub host_size: Pair<Option<u64>>,
    /// Its code objects by target.
    pub targets: BTreeMap<String, Pair<Amount>>,
    /// Its code objects by digest.
    pub code_objects: Changes,
    /// Its kernels by symbol.
    pub kernels: Changes,
}

/// A kernel, summed up over the targets for which it differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KernelChange {
    /// The library.
    pub library: String,
    /// Its symbol, without `.kd`.
    pub name: String,
    /// The change.
    pub change: Change,
    /// The targets.
    pub targets: Vec<String>,
    /// Its number and the bytes of its code before.
    pub before: Amount,
    /// Its number and the bytes of its code after.
    pub after: Amount,
}

/// The limit, and what exceeded it.
#[derive(Debug, Serialize)]
pub(crate) struct Gate {
    /// The limit in percent.
    pub percent: f64,
    /// What exceeded it, largest growth first.
    pub exceeded: Vec<Exceeded>,
    /// A sentence about it.
    pub sentence: String,
}

/// Something that grew too much.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Exceeded {
    /// Its kind.
    pub what: Gated,
    /// The target, or the name of the download; empty for the host part.
    pub name: String,
    /// Bytes in the first input.
    pub before: u64,
    /// Bytes in the second one.
    pub after: u64,
    /// Whether both are estimated.
    pub is_estimate: bool,
}

/// The sizes that are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Gated {
    /// The host part.
    Host,
    /// Device code and databases of a target.
    Target,
    /// What a user downloads.
    Download,
}

impl Diff {
    /// The name of an input without device code and databases, if the other one has some.
    pub(crate) fn without_code(&self) -> Option<&str> {
        let was = self.targets.values().any(TargetChange::was_there);
        let is = self.targets.values().any(TargetChange::is_there);
        match (was, is) {
            (false, true) => Some(&self.inputs.before.name),
            (true, false) => Some(&self.inputs.after.name),
            _ => None,
        }
    }

    /// Determines what grew by more than `percent`. A size of 0 before has no growth; new targets count in the
    /// download.
    pub(crate) fn set_gate(&mut self, percent: f64) {
        let inputs = &self.inputs;
        let host = (Gated::Host, "", inputs.before.host_size, inputs.after.host_size, false);
        let targets = self.targets.iter().map(|(name, target)| {
            let [before, after] =
                [(target.code.before, target.databases.before), (target.code.after, target.databases.after)]
                    .map(|(code, databases)| code.size.saturating_add(databases.size));
            (Gated::Target, name.as_str(), before, after, false)
        });
        let downloads = self
            .downloads
            .iter()
            .filter_map(|(name, it)| Some((Gated::Download, name.as_str(), it.before?, it.after?, it.is_estimate)));
        let all = std::iter::once(host).chain(targets).chain(downloads);
        let mut exceeded: Vec<_> = all
            .filter(|(_, _, before, after, _)| *before > 0 && growth(*before, *after) > percent)
            .map(|(what, name, before, after, is_estimate)| Exceeded {
                what,
                name: name.to_owned(),
                before,
                after,
                is_estimate,
            })
            .collect();
        exceeded.sort_by(|a, b| growth(b.before, b.after).total_cmp(&growth(a.before, a.after)));
        let sentence = sentence(percent, &exceeded);
        self.gate = Some(Gate { percent, exceeded, sentence });
    }
}

impl Gate {
    /// Whether nothing exceeded the limit.
    pub(crate) fn is_passed(&self) -> bool {
        self.exceeded.is_empty()
    }
}

fn sentence(percent: f64, exceeded: &[Exceeded]) -> String {
    if exceeded.is_empty() {
        return format!("Nothing grew by more than {percent} %: neither the host part, nor a target, nor a download.");
    }
    let named = first_names(exceeded.iter().map(Exceeded::describe), NAMED, ", ", ",");
    format!("More than {percent} % is too much: {named}.")
}

impl Exceeded {
    fn describe(&self) -> String {
        let what = match (self.what, self.name.as_str()) {
            (Gated::Host, _) => "the host part".to_owned(),
            (Gated::Target, name) => name.to_owned(),
            (Gated::Download, "all") => "the download of all".to_owned(),
            (Gated::Download, name) => format!("the download for {name}"),
        };
        let estimate = if self.is_estimate { ", estimated" } else { "" };
        let (before, after) = (size(self.before), size(self.after));
        format!("{what} grew by {:.1} % ({before} to {after}{estimate})", growth(self.before, self.after))
    }
}

/// The growth in percent.
#[expect(clippy::cast_precision_loss, reason = "a percentage is not that exact")]
fn growth(before: u64, after: u64) -> f64 {
    (after as f64 - before as f64) * 100.0 / before as f64
}
