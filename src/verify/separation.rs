//! Checks the separation of parts: code for one architecture must not be in the host part or in another architecture's
//! part.

use std::collections::HashSet;
use std::fmt::Display;

use super::choices::Choices;
use super::context::Context;
use super::manifest_files::ProvenFiles;
use super::parts::{Part, PartFile, Parts};
use super::rules::Rule;
use crate::database::{Handler, named_arch};
use crate::gpu::{BundleKey, SPIRV, TargetId};
use crate::loader::is_archive;
use crate::source::EntryPath;
use crate::split::Packaging;

/// Checks the host part and the device parts.
pub(super) fn check(context: &Context<'_>, listed: &ProvenFiles) {
    let Context { parts, archives, choices, findings, .. } = *context;
    let packaging = parts.packaging();
    for archive in &archives.list {
        if archive.part == 0 {
            if archive.is_reached() {
                let reason = "it is in the host part, and markers lead to it";
                findings.add(Rule::DeviceFileInHost, archive.label.as_str(), reason);
            }
            continue;
        }
        let Some(key) = parts.all.get(archive.part).and_then(|part| key(part, packaging)) else { continue };
        for target in archive.offered() {
            let belongs = packaging.key_of(&target);
            if !fits(&key, &belongs, packaging) {
                findings.add(Rule::WrongPart, archive.label.as_str(), elsewhere(&target, &belongs, &key));
            }
        }
    }
    let packed = packed_files(context);
    // A device wheel may hold more than device code: tuning tables, a package for one GPU.
    let is_held = |file: &PartFile<'_>| {
        let is_of_wheel = packaging == Packaging::Bundles;
        let is_packed = || packed.contains(&(file.part, file.path.clone()));
        is_of_wheel && (context.is_as_listed(listed, file.part, file.path) || is_packed())
    };
    for file in parts.files().filter(|file| !Part::is_metadata(file.path)) {
        if let Some(reason) = misplaced(parts, &file, choices, is_held) {
            let rule = if file.part == 0 { Rule::DeviceFileInHost } else { Rule::WrongPart };
            findings.add(rule, parts.label(file.part, file.path), reason);
        }
    }
}

/// The files that RECORDs of device wheels without a manifest list, by part.
fn packed_files(context: &Context<'_>) -> HashSet<(usize, EntryPath)> {
    let devices = context.distributions.iter().filter(|it| it.number > 0 && it.lists_archives().is_none());
    devices.flat_map(|it| it.recorded_payload().map(|path| (it.number, path))).collect()
}

/// Why a file is in the wrong part. `is_held` says whether a file that is no device code is there on purpose.
fn misplaced(
    parts: &Parts,
    file: &PartFile<'_>,
    choices: &Choices,
    is_held: impl Fn(&PartFile<'_>) -> bool,
) -> Option<String> {
    let packaging = parts.packaging();
    let found = choices.databases.classify(file.path);
    if file.part == 0 {
        let is_known = |handler: Handler| choices.knows_all_handlers || handler.is_of_reference();
        let found = found.filter(|found| is_known(found.handler));
        return found.map(|found| format!("it belongs to the {} database of {}", found.handler, found.arch));
    }
    let part_key = parts.all.get(file.part).and_then(|part| key(part, packaging));
    // Directories with other names are not judged, but device parts of artifacts must not contain host code.
    if part_key.is_none() && packaging == Packaging::Bundles {
        return None;
    }
    let is_listing = || parts.component.is_some() && file.path.name().ends_with(b".kpm");
    let belongs = match found {
        Some(found) => Some((found.arch.to_string(), packaging.key_of_database(&found.arch))),
        None if is_archive(file.path, file.content) || is_listing() || is_held(file) => return None,
        None => {
            let named = named_arch(file.path).filter(|_| packaging == Packaging::Processors);
            named.map(|target| (target.to_string(), packaging.key_of(&target)))
        }
    };
    let Some((arch, belongs)) = belongs else { return Some("it is neither an archive nor of a database".to_owned()) };
    let key = part_key.filter(|key| !fits(key, &belongs, packaging))?;
    Some(elsewhere(&arch, &belongs, &key))
}

/// That code for a target is in the part for another key than its own.
pub(super) fn elsewhere(target: &impl Display, belongs: &BundleKey, key: &BundleKey) -> String {
    format!("it is for {target}, which belongs to {belongs} and not to {key}")
}

/// Whether code for a key may be in the part of another one. A package may be named after a family and contain its
/// processors, or be named after a processor and contain code for its family.
fn fits(part: &BundleKey, key: &BundleKey, packaging: Packaging) -> bool {
    let family = key.family_of_generic();
    let is_related = || family.packaging_chain().contains(part) || part.packaging_chain().contains(&family);
    part == key || packaging == Packaging::Processors && (key.as_str() == SPIRV || is_related())
}

/// The key in the name of a device part, if there is one.
fn key(part: &Part, packaging: Packaging) -> Option<BundleKey> {
    let target: TargetId = part.name.parse().ok()?;
    let is_processor =
        |name: &str| name.strip_prefix("gfx").is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()));
    (is_processor(&part.name) || part.name == SPIRV).then(|| packaging.key_of(&target))
}
