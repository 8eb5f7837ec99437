//! A host part with device parts laid over it, as by `mount --arch`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::distributions::is_same_record;
use super::parts::Part;
use super::report::{Finding, Findings};
use super::rules::Rule;
use crate::gpu::BundleKey;
use crate::rope::{Content, equal};
use crate::source::{Entry, EntryKind, EntryPath};

/// The device parts that were laid over a host part: those of the targets and of their families.
pub(super) fn overlaid_keys(arch: &[BundleKey]) -> Vec<BundleKey> {
    arch.iter().flat_map(BundleKey::packaging_chain).collect()
}

/// The device parts that were laid over a host part without a statement, as in a copy of a mount with `--arch`: the host part
/// has all of their files. `is_copy` tells whether other views of a mount are next to it. Otherwise only a part with its own
/// dist-info counts, since a tree may also have been unpacked into its host part by mistake.
pub(super) fn laid_over(host: &Part, devices: &[&Part], is_copy: bool, findings: &Findings) -> Vec<BundleKey> {
    let sizes: HashMap<_, _> = host.files().map(|(path, content)| (path, content.size())).collect();
    let mut laid = Vec::new();
    for device in devices.iter().filter(|device| is_copy || device.input.dist_info().is_some()) {
        // The sizes of metadata may differ: RECORD names the places of files where this part has them.
        let is_same = |(path, content): (&EntryPath, &Arc<dyn Content>)| {
            let is_metadata = Part::is_metadata(path);
            sizes.get(path).is_some_and(|&size| is_metadata || size == content.size())
                && (is_metadata || device.is_device_file(path, content))
        };
        let key = device.name.parse().ok().filter(|key: &BundleKey| key.is_known() && key.as_str() == device.name);
        let has_files = device.files().any(|(path, _)| !Part::is_metadata(path));
        if let Some(key) = key.filter(|_| has_files && device.files().all(is_same)) {
            let host = host.label_or_name();
            findings
                .note(format!("{host}: it has all files of the device part for {key}, as in a mount with `--arch`"));
            laid.push(key);
        }
    }
    laid
}

/// Removes the overlaid files from the host part. Those that differ from the files of device parts are oddities.
pub(super) fn take_off(host: &mut Part, devices: &[&Part], overlaid: &[BundleKey]) {
    let is_overlaid = |device: &&&Part| overlaid.iter().any(|key| key.as_str() == device.name);
    for device in devices.iter().filter(is_overlaid) {
        let files: HashMap<_, _> = device.files().collect();
        let is_of_device = |path: &EntryPath, content: &Arc<dyn Content>| {
            let is_equal = |other: &Arc<dyn Content>| equal(&**content, &**other).unwrap_or(false);
            files.get(path).map(|other| is_equal(other) || is_same_record(path, host, device))
        };
        let differs: Vec<_> =
            host.files().filter(|(path, content)| is_of_device(path, content) == Some(false)).collect();
        let odd = |(path, _): (&EntryPath, _)| {
            let reason = format!("it is not the same as {}", device.label(path));
            Finding::new(Rule::OverlayDiffers, host.label(path), reason)
        };
        let odd: Vec<_> = differs.into_iter().map(odd).collect();
        host.oddities.extend(odd);
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
