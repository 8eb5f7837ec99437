//! What belongs into which part: nothing of one architecture may be in the host part or in another's.

use super::Options;
use super::lookup::{Shelf, is_archive};
use super::report::{Check, Findings};
use super::subject::{Part, Parts};
use crate::target::{BundleKey, TargetId};

/// Checks the host part and the device parts.
pub(super) fn check(parts: &Parts, shelf: &Shelf, options: &Options, findings: &Findings) {
    let say = |path: String, reason: String| findings.add(Check::Separation, path, reason);
    for archive in &shelf.archives {
        if archive.part == 0 {
            if archive.is_reached() {
                say(archive.label.clone(), "it is in the host part, and markers lead to it".to_owned());
            }
            continue;
        }
        let Some(key) = parts.parts.get(archive.part).and_then(key) else { continue };
        for target in archive.reader.toc().gfx_arches.iter().filter_map(|target| target.parse::<TargetId>().ok()) {
            let belongs = BundleKey::of(&target);
            if belongs != key {
                say(archive.label.clone(), format!("it is for {target}, which belongs to {belongs} and not to {key}"));
            }
        }
    }
    for file in parts.files().filter(|file| !Part::is_metadata(file.path)) {
        let found = options.databases.classify(file.path);
        let label = || parts.label(file.part, file.path);
        if file.part == 0 {
            if let Some(found) = found {
                say(label(), format!("it belongs to the {} database of {}", found.handler, found.arch));
            }
            continue;
        }
        let Some(key) = parts.parts.get(file.part).and_then(key) else { continue };
        match found {
            Some(found) if found.arch.key() != key => {
                say(
                    label(),
                    format!("it is for {}, which belongs to {} and not to {key}", found.arch, found.arch.key()),
                );
            }
            Some(_) => {}
            None if is_archive(file.path, file.content) => {}
            None => say(label(), "it is neither an archive nor of a database".to_owned()),
        }
    }
}

/// The key that a device part is named after. Directories with names of their own are not judged.
fn key(part: &Part) -> Option<BundleKey> {
    let is_target = part.name.starts_with("gfx") || part.name == "amdgcnspirv";
    part.name.parse().ok().filter(|_| is_target)
}
