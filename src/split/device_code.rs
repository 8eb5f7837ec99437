//! All device code of an input, and what becomes of it in a split.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use super::content_code::{ContentCode, searched, tally, wrapped};
use super::{Destination, Plan};
use crate::binary::FileCode;
use crate::devicecode::{CodeOfForm, DeviceCodePlace, code_by_name, code_of_file, is_packed_tree};
use crate::fatbin::damage_of_file;
use crate::gpu::TargetId;
use crate::memory::{Parser, ParserMemory};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryPath, Input};

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
    let files = input.entries.par_iter().zip(&plan.places).enumerate().with_max_len(1);
    let found = files.filter_map(|(position, (entry, place))| {
        let _named = progress.at(|| entry.path.to_string());
        let found = of_entry((position, entry), place, plan, resources);
        progress.advance(entry.size());
        found.filter(|it| !it.found.is_empty() || it.is_unfinished || it.is_packed_tree || !it.damage.is_empty())
    });
    found.collect()
}

fn of_entry(
    (position, entry): (usize, &Entry),
    place: &Destination,
    plan: &Plan,
    resources: &Arc<Resources>,
) -> Option<CodeOfFile> {
    let content = entry.content()?;
    let known = |is_fat: bool, content: &Arc<dyn Content>| {
        let known = plan.searched.get(&position).map(|known| known.as_deref().cloned().unwrap_or_default());
        known.filter(|it| it.is_fat == is_fat).unwrap_or_else(|| ContentCode::of(content, is_fat, resources))
    };
    let mut all = Vec::new();
    let (mut code, mut damage) = (FileCode::default(), BTreeMap::new());
    let is_packed_tree = matches!(place, Destination::Host) && is_packed_tree(entry.path.name());
    match place {
        Destination::Device(..) | Destination::Unwanted(..) | Destination::Held => {
            let found = tally(DeviceCodePlace::File, code_of_file(content, resources));
            all.extend(found.into_iter().map(|found| (Fate::Moved, found)));
        }
        Destination::Rewritten { content, .. } if plan.joined.contains(&entry.path) => {
            code = searched(content.original(), true, resources);
        }
        Destination::Rewritten { content, .. } => {
            let known = known(true, content.original());
            all.extend(known.wrapped.into_iter().map(|found| (Fate::Split, found)));
            (code, damage) = (known.code, known.damage);
        }
        Destination::Host => {
            let is_unsplit = plan.unsplit.contains(&entry.path);
            let found = if is_unsplit { wrapped(content, resources, &mut damage) } else { Vec::new() };
            if found.is_empty() {
                let known = known(false, content);
                damage.extend(known.damage);
                code = known.code;
            } else {
                damage.extend(damage_of_file(content, resources));
                code = searched(content, true, resources);
            }
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
