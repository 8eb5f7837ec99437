//! Several wheels: what is in each, and what users of all of them need.

use std::collections::BTreeMap;

use serde::Serialize;

use super::InspectReport;
use super::table::{Table, TableCell, counted, percent};

/// The report about several wheels.
#[derive(Debug, Serialize)]
pub(crate) struct ReleaseReport {
    /// One for each wheel, or for a host wheel with its device wheels.
    pub wheels: Vec<WheelReport>,
}

/// The report about one of several wheels.
#[derive(Debug, Serialize)]
pub(crate) struct WheelReport {
    /// The file name of the wheel, or of the host wheel.
    pub name: String,
    /// Whether a release has it as it is: there is no device code in it that could be moved.
    pub is_whole: bool,
    /// What is in it.
    #[serde(flatten)]
    pub report: InspectReport,
}

/// What users of a GPU need of all wheels with code for it. A sum is unknown if a part of it is.
struct Needed {
    wheels: usize,
    download: Option<u64>,
    /// The wheels as they were before the split.
    fat: Option<u64>,
    installed: Option<u64>,
}

/// What users of each GPU need of several wheels.
fn needed_of<'a>(reports: impl Iterator<Item = &'a InspectReport>) -> BTreeMap<&'a str, Needed> {
    let mut users = BTreeMap::<&str, Needed>::new();
    for report in reports {
        for (gpu, user) in &report.sizes.users {
            let first = Needed { wheels: 0, download: Some(0), fat: Some(0), installed: Some(0) };
            let needed = users.entry(gpu).or_insert(first);
            let add = |sum: Option<u64>, one: Option<u64>| Some(sum?.saturating_add(one?));
            *needed = Needed {
                wheels: needed.wheels + 1,
                download: add(needed.download, user.download_size),
                fat: add(needed.fat, report.sizes.input_wheel_size),
                installed: add(needed.installed, user.installed_size),
            };
        }
    }
    users
}

impl ReleaseReport {
    /// The tables for people.
    pub(crate) fn tables(&self) -> [Table; 2] {
        [self.list(), needed_table(self.wheels.iter().map(|wheel| &wheel.report))]
    }

    /// Whether all sizes are known.
    pub(crate) fn is_complete(&self) -> bool {
        self.wheels.iter().filter(|wheel| !wheel.is_whole).all(|wheel| wheel.report.is_complete())
    }

    fn list(&self) -> Table {
        let columns = "wheel | size # | binaries # | code objects # | code # | GPUs and families";
        let title = counted(self.wheels.len(), "wheel", "wheels");
        Table::of(title, columns, &self.wheels, |WheelReport { name, report, .. }| {
            let binaries = &report.summary.binaries;
            [
                name.as_str().into(),
                TableCell::size(report.sizes.input_wheel_size),
                TableCell::number(binaries.len()).unless_zero(),
                TableCell::number(binaries.iter().map(|binary| binary.code_objects).sum::<usize>()).unless_zero(),
                TableCell::size(Some(binaries.iter().map(|binary| binary.code_size).sum())).unless_zero(),
                report.summary.device.keys().cloned().collect::<Vec<_>>().join(" ").into(),
            ]
        })
    }
}

/// What users of each GPU need of all these wheels.
pub(crate) fn needed_table<'a>(reports: impl Iterator<Item = &'a InspectReport>) -> Table {
    let columns = "GPU | wheels # | download # | of the fat wheels # | installed #";
    Table::of("What a user of all wheels with code for a GPU needs", columns, needed_of(reports), |(gpu, needed)| {
        [
            gpu.into(),
            TableCell::number(needed.wheels),
            TableCell::size(needed.download),
            percent(needed.download, needed.fat).into(),
            TableCell::size(needed.installed),
        ]
    })
}
