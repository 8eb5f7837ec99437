//! Libraries with device code next to collected ones that nothing asks for: plug-ins whose names no table has.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::known::stem;
use super::model::CollectReport;
use super::objects::{LoadedObject, RootedPath};
use super::root::SearchRoot;
use crate::binary::{FatBinary, SplitBinary, Wrapper};
use crate::fatbin::Bundle;
use crate::gpu::TargetId;
use crate::report::table::counted;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath};
use crate::text::some_of;

/// The most libraries that are examined.
const MAX_EXAMINED: usize = 256;

/// A library that is named like a plug-in of a collected one next to it: `libx_device.so` next to `libx.so`.
#[derive(Debug)]
pub struct UnaskedLibrary {
    name: String,
    content: Arc<dyn Content>,
}

/// Those of the trees.
pub(super) fn find(roots: &[SearchRoot], objects: &[LoadedObject]) -> Vec<UnaskedLibrary> {
    let collected: HashSet<_> = objects.iter().map(|object| &object.file).collect();
    let mut directories = BTreeMap::<RootedPath, BTreeSet<&str>>::new();
    for object in objects.iter().filter(|object| object.file.root > 0) {
        let path = object.file.path.parent().unwrap_or_else(EntryPath::root);
        let stems = directories.entry(RootedPath { root: object.file.root, path }).or_default();
        stems.extend(stem(object.file.path.name()));
    }
    let mut found = Vec::new();
    for (directory, stems) in &directories {
        let Some(root) = roots.get(directory.root) else { continue };
        let is_there = |path: &EntryPath| path.parent().unwrap_or_else(EntryPath::root) == directory.path;
        for entry in root.below(&directory.path).iter().filter(|entry| is_there(&entry.path)) {
            let (EntryKind::File { content, .. }, Some(own)) = (&entry.kind, stem(entry.path.name())) else { continue };
            let is_of = |stem: &&str| own.strip_prefix(*stem).is_some_and(|rest| rest.starts_with(['_', '-']));
            let is_collected = || collected.contains(&RootedPath { root: directory.root, path: entry.path.clone() });
            if stems.iter().any(is_of) && !is_collected() && found.len() < MAX_EXAMINED {
                let name = String::from_utf8_lossy(entry.path.name()).into_owned();
                found.push(UnaskedLibrary { name, content: Arc::clone(content) });
            }
        }
    }
    found
}

impl UnaskedLibrary {
    /// Its name, if it has device code for a GPU, or may have some in archives.
    fn named_for(&self, gpu: &TargetId, resources: &Arc<Resources>) -> Option<String> {
        if let Ok(Some(binary)) = FatBinary::scan(&self.content) {
            let has_code = |bundle: Bundle| gpu.served_by(&bundle.targets().iter().collect::<Vec<_>>()).kind.is_some();
            let (places, _) = binary.bundles();
            let read = |place: &Wrapper| Bundle::read(&self.content, place.bundle, place.limit, resources).ok();
            return places.iter().filter_map(read).any(has_code).then(|| self.name.clone());
        }
        let split = SplitBinary::find(&self.content).ok().flatten().filter(|split| !split.wrappers.is_empty())?;
        let wrappers = counted(split.wrappers.len(), "wrapper", "wrappers");
        Some(format!("{} ({wrappers}, archives not read)", self.name))
    }
}

impl CollectReport {
    /// Warns of wanted GPUs for which nothing was collected, and of libraries with code for wanted GPUs that nothing asks for.
    /// Others are not read.
    pub(crate) fn add_unasked(
        &mut self,
        libraries: &[UnaskedLibrary],
        gpus: &[TargetId],
        served: &[TargetId],
        resources: &Arc<Resources>,
    ) {
        for gpu in gpus {
            let is_served = served.contains(gpu);
            let all: BTreeSet<_> = libraries.iter().filter_map(|library| library.named_for(gpu, resources)).collect();
            let names: BTreeSet<_> = all.iter().map(String::as_str).collect();
            let verb = if names.len() == 1 { "has" } else { "have" };
            let nothing =
                format!("nothing that is collected has code for {gpu} that a runtime looks up (data was not searched)");
            let unasked = format!(
                "{} next to collected libraries {verb} code for {gpu}, and nothing asks for it; --include takes one in",
                some_of(&names)
            );
            match (is_served, names.is_empty()) {
                (true, true) => {}
                (false, true) => self.warnings.push(nothing),
                (true, false) => self.warnings.push(unasked),
                (false, false) => self.warnings.push(format!("{nothing}; {unasked}")),
            }
        }
    }
}
