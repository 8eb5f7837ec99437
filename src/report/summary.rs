//! The content of a split, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::rope::{Content, to_usize};
use crate::source::{EntryKind, Input};
use crate::split::{Destination, Plan, PlannedBinary};

/// Numbers of a split. Sizes are in bytes.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// First part of the archives' names.
    pub group: String,
    /// Number of entries in the input.
    pub entries: usize,
    /// Bytes of all files in the input, unpacked.
    pub input_size: u64,
    /// Bytes of all files in the host part.
    pub host_size: u64,
    /// The binaries with device code.
    pub binaries: Vec<BinarySummary>,
    /// The databases by library.
    pub databases: BTreeMap<String, DatabaseSummary>,
    /// The device parts.
    pub device: BTreeMap<String, DeviceSummary>,
    /// What could not be split, with reasons.
    pub warnings: Vec<String>,
}

/// A binary with device code.
#[derive(Debug, Serialize)]
pub(crate) struct BinarySummary {
    /// Its path in the input.
    pub path: String,
    /// Its name in archives.
    pub kernel_name: String,
    /// Its size in the input.
    pub size: u64,
    /// Its size in the host part.
    pub host_size: u64,
    /// Number of fat binary wrappers.
    pub wrappers: usize,
    /// Number of code objects of all bundles. Wrappers may share a bundle.
    pub code_objects: usize,
    /// Bytes of all code objects, decompressed.
    pub code_size: u64,
    /// The targets of its code.
    pub targets: BTreeSet<String>,
}

/// The database files of one library.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DatabaseSummary {
    /// Number of files.
    pub files: usize,
    /// Bytes of these files.
    pub size: u64,
    /// The keys of the files.
    pub keys: BTreeSet<String>,
}

/// A device part.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DeviceSummary {
    /// Its level: target, sub-family or family.
    pub level: String,
    /// Its archives.
    pub archives: Vec<ArchiveSummary>,
    /// Number of database files.
    pub database_files: usize,
    /// Bytes of database files.
    pub database_size: u64,
}

/// An archive.
#[derive(Debug, Serialize)]
pub(crate) struct ArchiveSummary {
    /// Its path.
    pub path: String,
    /// Number of code objects.
    pub code_objects: usize,
    /// Bytes of the code objects, uncompressed.
    pub code_size: u64,
}

impl Summary {
    /// Counts the content of a plan. Reads no file.
    pub(crate) fn of(input: &Input, plan: &Plan) -> Self {
        let mut summary = Self {
            group: plan.group.clone(),
            entries: input.entries.len(),
            warnings: plan.warnings.clone(),
            ..Self::default()
        };
        for key in &plan.keys {
            let level = <&str>::from(key.level()).to_owned();
            summary.device.insert(key.to_string(), DeviceSummary { level, ..DeviceSummary::default() });
        }
        for (entry, place) in input.entries.iter().zip(&plan.places) {
            if let EntryKind::File { content, .. } = &entry.kind {
                summary.input_size += content.size();
                summary.host_size += match place {
                    Destination::Host => content.size(),
                    Destination::Rewritten { content, .. } => content.size(),
                    Destination::Device(..) | Destination::Held | Destination::Unwanted(..) => 0,
                };
            }
        }
        for ((handler, key), (files, size)) in plan.database_files(input) {
            let database = summary.databases.entry(handler.name().to_owned()).or_default();
            (database.files, database.size) = (database.files + files, database.size + size);
            database.keys.insert(key.to_string());
            let device = summary.device.entry(key.to_string()).or_default();
            device.database_files += files;
            device.database_size += size;
        }
        summary.binaries = plan.binaries.iter().map(BinarySummary::of).collect();
        for planned in &plan.archives {
            let of_key = summary.device.entry(planned.key.to_string()).or_default();
            of_key.archives.push(ArchiveSummary {
                path: planned.path.to_string(),
                code_objects: planned.archive.objects.len(),
                code_size: planned.archive.original_size(),
            });
        }
        summary
    }

    /// The summary of several artifacts together. Paths begin with the artifact's name.
    pub(crate) fn joined(group: String, artifacts: impl IntoIterator<Item = (String, Self)>) -> Self {
        let mut all = Self { group, ..Self::default() };
        for (name, artifact) in artifacts {
            let Self { entries, input_size, host_size, binaries, databases, device, warnings, .. } = artifact;
            let below = |path: &str| format!("{name}/{path}");
            all.entries += entries;
            all.input_size += input_size;
            all.host_size += host_size;
            all.binaries.extend(binaries.into_iter().map(|it| BinarySummary { path: below(&it.path), ..it }));
            all.warnings.extend(warnings.iter().map(|warning| below(warning)));
            for (library, database) in databases {
                let sum = all.databases.entry(library).or_default();
                sum.files += database.files;
                sum.size += database.size;
                sum.keys.extend(database.keys);
            }
            for (key, part) in device {
                let sum = all.device.entry(key).or_default();
                sum.level = part.level;
                sum.archives.extend(part.archives.into_iter().map(|it| ArchiveSummary { path: below(&it.path), ..it }));
                sum.database_files += part.database_files;
                sum.database_size += part.database_size;
            }
        }
        all
    }
}

impl BinarySummary {
    fn of(binary: &PlannedBinary) -> Self {
        Self {
            path: binary.path.to_string(),
            kernel_name: binary.kernel_name.clone(),
            size: binary.size,
            host_size: binary.host_size,
            wrappers: binary.wrappers.len(),
            code_objects: to_usize(binary.code.values().map(|(count, _)| count).sum()),
            code_size: binary.code.values().map(|(_, size)| size).sum(),
            targets: binary.code.keys().map(ToString::to_string).collect(),
        }
    }
}
