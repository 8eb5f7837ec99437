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

/// Removes the overlaid files from the host part.
pub(super) fn take_off(host: &mut Part, devices: &[&Part], arch: &[BundleKey], findings: &Findings) {
    let chain = overlaid_keys(arch);
    let is_overlaid = |device: &&&Part| chain.iter().any(|key| key.as_str() == device.name);
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
