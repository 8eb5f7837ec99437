//! All device code of an input, and what becomes of it in a split.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use super::scan::{DeviceCode, Holder, find};
use super::{Destination, Plan};
use crate::binary::FileCode;
use crate::devicecode::{
    CodeOfForm, CodePiece, CodeTally, DeviceCodePlace, code_by_name, code_of_file, is_packed_tree,
};
use crate::fatbin::damage_of_file;
use crate::gpu::TargetId;
use crate::index::RecordKind;
use crate::memory::{Parser, ParserMemory};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, Identity};
use crate::source::{Entry, EntryPath, Input};

/// The smallest files of which is remembered that they have no code, in bytes.
const MIN_RECORDED: u64 = 64 << 10;

/// What becomes of device code in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It goes to archives of device parts.
    Split,
    /// Its file goes to a device part.
    Moved,
    /// It stays in the host part.
    Stays,
}

/// The device code of a file.
#[derive(Debug)]
pub struct CodeOfFile {
    /// The path in the input.
    pub path: EntryPath,
    /// The code by place and form, with what becomes of it.
    pub found: Vec<(Fate, CodeOfForm)>,
    /// The archives that a split library names, if they are not in the input.
    pub archives: Vec<String>,
    /// Whether the search stopped early, because too much looks like code.
    pub is_unfinished: bool,
    /// Whether it is an archive, which is not searched.
    pub is_packed_tree: bool,
    /// The targets whose code behind wrappers or in a file nothing can load, and why.
    pub damage: BTreeMap<TargetId, String>,
    /// The memory of its targets.
    _memory: ParserMemory,
}

impl CodeOfFile {
    /// The code that stays in the host part.
    pub fn staying(&self) -> impl Iterator<Item = &CodeOfForm> {
        self.found.iter().filter(|(fate, _)| *fate == Fate::Stays).map(|(_, found)| found)
    }
}

/// The device code of all files of an input, in the order of the input. Reads the data of binaries, and the first block of
/// other files. What cannot be read has none here, and
/// planning has reported it.
pub fn device_code(input: &Input, plan: &Plan, resources: &Arc<Resources>, progress: &Progress) -> Vec<CodeOfFile> {
    progress.expect(input.entries.iter().map(Entry::size).sum());
    let files = input.entries.par_iter().zip(&plan.places).with_max_len(1);
    let found = files.filter_map(|(entry, place)| {
        let _named = progress.at(|| entry.path.to_string());
        let found = of_entry(entry, place, plan, resources);
        progress.advance(entry.size());
        found.filter(|it| !it.found.is_empty() || it.is_unfinished || it.is_packed_tree || !it.damage.is_empty())
    });
    found.collect()
}

fn of_entry(entry: &Entry, place: &Destination, plan: &Plan, resources: &Arc<Resources>) -> Option<CodeOfFile> {
    let content = entry.content()?;
    let mut all = Vec::new();
    let (mut code, mut damage) = (FileCode::default(), BTreeMap::new());
    let is_packed_tree = matches!(place, Destination::Host) && is_packed_tree(entry.path.name());
    match place {
        Destination::Device(..) | Destination::Unwanted(..) | Destination::Held => {
            let found = tally(DeviceCodePlace::File, code_of_file(content, resources));
            all.extend(found.into_iter().map(|found| (Fate::Moved, found)));
        }
        Destination::Rewritten { content, .. } => {
            let is_joined = plan.joined.contains(&entry.path);
            let found = if is_joined { Vec::new() } else { wrapped(content.original(), resources, &mut damage) };
            all.extend(found.into_iter().map(|found| (Fate::Split, found)));
            code = searched(content.original(), true, resources);
        }
        Destination::Host => {
            let is_unsplit = plan.unsplit.contains(&entry.path);
            let found = if is_unsplit { wrapped(content, resources, &mut damage) } else { Vec::new() };
            damage.extend(damage_of_file(content, resources));
            code = searched(content, !found.is_empty(), resources);
            let named = code.found.is_empty().then(|| code_by_name(entry.path.name(), &**content)).flatten();
            let found = found.into_iter().chain(tally(DeviceCodePlace::File, named));
            all.extend(found.map(|found| (Fate::Stays, found)));
        }
    }
    let FileCode { found, archives, is_unfinished } = code;
    all.extend(found.into_iter().map(|found| (Fate::Stays, found)));
    let memory = ParserMemory::new(Parser::DeviceCode);
    let mut targets = all.iter().flat_map(|(_, found)| found.targets.keys());
    let is_kept = targets.try_for_each(|target| memory.add_entry(target.processor().as_bytes())).is_ok();
    let found = if is_kept { all } else { Vec::new() };
    let is_unfinished = is_unfinished || !is_kept;
    let path = entry.path.clone();
    Some(CodeOfFile { path, found, archives, is_unfinished, is_packed_tree, damage, _memory: memory })
}

/// The bundles behind the wrappers of a binary. Adds what is wrong with their code.
fn wrapped(
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
    damage: &mut BTreeMap<TargetId, String>,
) -> Vec<CodeOfForm> {
    let code = find(content, Holder::Binary, resources).ok().and_then(|(code, _)| code);
    let bundles = || code.iter().flat_map(DeviceCode::bundles);
    damage.extend(bundles().flat_map(|bundle| bundle.damage(content, resources)));
    tally(DeviceCodePlace::Wrapper, bundles().map(CodePiece::of_bundle))
}

fn tally(place: DeviceCodePlace, pieces: impl IntoIterator<Item = CodePiece>) -> Vec<CodeOfForm> {
    let mut tally = CodeTally::default();
    // What has too many targets was refused by planning.
    pieces.into_iter().try_for_each(|piece| tally.add(place, piece)).ok();
    tally.into_found()
}

/// What a search of a file finds, from the index or by searching.
fn searched(content: &Arc<dyn Content>, has_wrappers: bool, resources: &Arc<Resources>) -> FileCode {
    let identity = content.identity().map(|identity| {
        let subject = if has_wrappers { "device code in data" } else { "device code in all sections" };
        Identity::describe(subject).add(&identity.0).finish()
    });
    if let Some(known) = identity.as_ref().and_then(|identity| resources.index.get(RecordKind::Scan, identity)) {
        return known;
    }
    let Ok(found) = FileCode::of(content, has_wrappers, resources) else { return FileCode::default() };
    // Searching a small file costs less than a record of it.
    let is_worth = content.size() >= MIN_RECORDED || !found.found.is_empty();
    if let Some(identity) = identity.filter(|_| !found.is_unfinished && is_worth) {
        resources.index.put(RecordKind::Scan, &identity, &found);
    }
    found
}
