//! Files with device code that later layers hide.

use std::collections::{BTreeMap, HashSet};

use super::ImageError;
use super::layer::LayerMemberKind;
use super::layered::LayeredImage;
use super::root::MemberId;
use crate::kpack::BundleJobs;
use crate::loader::is_archive;
use crate::metrics::Progress;
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind, file_in};
use crate::split::{Destination, FatBinaries, Plan, PlanOptions};

fn is_archive_file(entry: &Entry) -> bool {
    matches!(&entry.kind, EntryKind::File { content, .. } if is_archive(&entry.path, content))
}

/// The files with device code that later layers hide.
pub(super) fn hidden_with_code(
    image: &LayeredImage,
    shown: &HashSet<MemberId>,
    root: &Input,
    plan: &Plan,
    options: &PlanOptions,
) -> Result<Vec<MemberId>, ImageError> {
    let mut hidden = BTreeMap::new();
    for layer in 0..image.layers.len() {
        let files =
            image.members(layer).filter(|(id, member)| member.kind == LayerMemberKind::File && !shown.contains(id));
        for (id, member) in files {
            // There may be several of one path.
            let place = format!("{}/{}", id.layer, id.member);
            let path = EntryPath::root().child(place.as_bytes()).child(member.path.as_bytes());
            hidden.insert(path, id);
        }
    }
    if hidden.is_empty() {
        return Ok(Vec::new());
    }
    let entry = |(path, id): (&EntryPath, &MemberId)| {
        let (layer, member) = image.member(*id)?;
        let attributes = member.attributes;
        Some(file_in(&layer.archive, &member.content).map(|kind| Entry { path: path.clone(), kind, attributes }))
    };
    let entries = hidden.iter().filter_map(entry).collect::<Result<_, _>>();
    let entries = entries.map_err(|reason| ImageError::Hidden { reason })?;
    let input = Input::empty(InputKind::Tree, root.location.join("hidden"), root.root);
    let input = Input { entries, file: root.file.clone(), ..input };
    let jobs = BundleJobs::new(plan.jobs.resources());
    let of_hidden = Plan::make(&input, options, &jobs, &Progress::default());
    let of_hidden = of_hidden.map_err(|error| ImageError::Hidden { reason: error.to_string() })?;
    let binaries = FatBinaries::new(&input, &of_hidden, &[]);
    let has_code = |(entry, place): (&Entry, &Destination)| {
        let is_of_device =
            matches!(place, Destination::Device(..) | Destination::Unwanted(..)) || is_archive_file(entry);
        (is_of_device || binaries.has(&entry.path)).then(|| hidden.get(&entry.path).copied()).flatten()
    };
    Ok(input.entries.iter().zip(&of_hidden.places).filter_map(has_code).collect())
}
