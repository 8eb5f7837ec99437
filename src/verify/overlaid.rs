//! A host part with device parts laid over it, as by `mount --arch`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::distributions::is_same_record;
use super::parts::Part;
use super::report::Findings;
use super::rules::Rule;
use crate::gpu::BundleKey;
use crate::rope::{Content, equal};
use crate::source::{Entry, EntryKind, EntryPath};

/// The device parts that were laid over a host part: those of the targets and of their families.
pub(super) fn overlaid_keys(arch: &[BundleKey]) -> Vec<BundleKey> {
    arch.iter().flat_map(BundleKey::packaging_chain).collect()
}

/// The device parts of which a host part has all files, as in a copy of a mount with `--arch`, which has no statement.
pub(super) fn laid_over(host: &Part, devices: &[&Part], findings: &Findings) -> Vec<BundleKey> {
    let sizes: HashMap<_, _> = host.files().map(|(path, content)| (path, content.size())).collect();
    // A RECORD names other places of scripts and data.
    let is_same = |(path, content): (&EntryPath, &Arc<dyn Content>)| {
        sizes.get(path).is_some_and(|&size| size == content.size() || Part::is_metadata(path))
    };
    let is_laid = |device: &&&Part| {
        let mut files = device.files().peekable();
        files.peek().is_some() && files.all(is_same)
    };
    let laid: Vec<_> = devices.iter().filter(is_laid).collect();
    for device in &laid {
        let (host, device) = (host.label_or_name(), device.label_or_name());
        findings.note(format!("{host}: it has all files of {device}, as in a mount with --arch {device}"));
    }
    laid.into_iter().filter_map(|device| device.name.parse().ok()).collect()
}

/// Removes the overlaid files from the host part.
pub(super) fn take_off(host: &mut Part, devices: &[&Part], overlaid: &[BundleKey], findings: &Findings) {
    let is_overlaid = |device: &&&Part| overlaid.iter().any(|key| key.as_str() == device.name);
    for device in devices.iter().filter(is_overlaid) {
        let files: HashMap<_, _> = device.files().collect();
        let is_of_device = |path: &EntryPath, content: &Arc<dyn Content>| {
            let is_equal = |other: &Arc<dyn Content>| equal(&**content, &**other).unwrap_or(false);
            files.get(path).map(|other| is_equal(other) || is_same_record(path, host, device))
        };
        let differs: Vec<_> =
            host.files().filter(|(path, content)| is_of_device(path, content) == Some(false)).collect();
        for (path, _) in differs {
            let reason = format!("it is not the same as {}", device.label(path));
            findings.add(Rule::OverlayDiffers, host.label(path), reason);
        }
        let mut directories: HashSet<EntryPath> = HashSet::new();
        let own = host.input.entries.iter().filter(|entry| !files.contains_key(&entry.path));
        for entry in own.filter(|entry| !matches!(entry.kind, EntryKind::Directory)) {
            directories.extend(std::iter::successors(entry.path.parent(), EntryPath::parent));
        }
        let is_left = |entry: &Entry| match entry.kind {
            EntryKind::Directory => directories.contains(&entry.path) || device.input.entry(&entry.path).is_none(),
            EntryKind::File { .. } | EntryKind::Symlink(_) => !files.contains_key(&entry.path),
        };
        let left = host.input.entries.iter().filter(|entry| is_left(entry)).cloned().collect();
        host.input.entries = left;
    }
    host.input.recognise();
}
