//! All device code in a file, whatever becomes of it.

use std::sync::Arc;

use super::binary_code::{DeviceCode, Holder, find};
use crate::binary::FileCode;
use crate::devicecode::{CodeOfForm, CodePiece, CodeTally, DeviceCodePlace};
use crate::fatbin::{CodeDamage, damage_of_file};
use crate::index::RecordKind;
use crate::resources::Resources;
use crate::rope::{Content, Identity};

/// The smallest files of which is remembered that they have no code, in bytes.
const MIN_RECORDED: u64 = 64 << 10;

/// The code in a file that is none of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ContentCode {
    pub(super) is_fat: bool,
    /// The code behind wrappers.
    pub(super) wrapped: Vec<CodeOfForm>,
    /// The code to which no wrapper leads.
    pub(super) code: FileCode,
    /// What is wrong with it.
    pub(super) damage: CodeDamage,
}

impl ContentCode {
    /// Searches a file. `is_fat` says that planning found wrappers.
    pub(super) fn of(content: &Arc<dyn Content>, is_fat: bool, resources: &Arc<Resources>) -> Self {
        let (wrapped, damage) =
            if is_fat { wrapped(content, resources) } else { (Vec::new(), damage_of_file(content, resources)) };
        Self { is_fat, wrapped, code: searched(content, is_fat, resources), damage }
    }

    /// `None` if it is that of a file without code, as most are.
    pub(super) fn into_box(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// The bundles behind the wrappers of a binary, and what is wrong with their code.
pub(crate) fn wrapped(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> (Vec<CodeOfForm>, CodeDamage) {
    let code = find(content, Holder::Binary, resources).ok().and_then(|(code, _)| code);
    let bundles = || code.iter().flat_map(DeviceCode::bundles);
    let damage = bundles().flat_map(|bundle| bundle.damage(content, resources)).collect();
    (tally(DeviceCodePlace::Wrapper, bundles().map(CodePiece::of_bundle)), damage)
}

pub(super) fn tally(place: DeviceCodePlace, pieces: impl IntoIterator<Item = CodePiece>) -> Vec<CodeOfForm> {
    let mut tally = CodeTally::default();
    // What has too many targets was refused by planning.
    pieces.into_iter().try_for_each(|piece| tally.add(place, piece)).ok();
    tally.into_found()
}

/// What a search of a file finds, from the index or by searching.
pub(super) fn searched(content: &Arc<dyn Content>, has_wrappers: bool, resources: &Arc<Resources>) -> FileCode {
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
