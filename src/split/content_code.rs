//! All device code in a file, whatever becomes of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::binary_code::{Holder, find};
use crate::binary::FileCode;
use crate::devicecode::{CodeOfForm, CodePiece, CodeTally, DeviceCodePlace, UnpackedFile};
use crate::fatbin::{Bundle, CODE_HEADER, CodeDamage, damage_after_head};
use crate::gpu::TargetId;
use crate::index::RecordKind;
use crate::kpack::ArchiveReader;
use crate::loader::is_archive;
use crate::resources::Resources;
use crate::rope::{Content, Identity};

/// The smallest files of which is remembered that they have no code, in bytes.
const MIN_RECORDED: u64 = 64 << 10;

/// The code in a file that is none of a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ContentCode {
    pub(super) is_fat: bool,
    /// The code behind wrappers.
    pub(super) wrapped: Vec<CodeOfForm>,
    /// The code to which no wrapper leads.
    pub(super) code: FileCode,
    /// What is wrong with it.
    pub(super) damage: CodeDamage,
    /// Whether the file cannot be read. Then nothing is recorded.
    #[serde(skip)]
    pub(super) is_unread: bool,
}

impl ContentCode {
    /// All code of a file, from the index or by searching. `bundles` are those of it to which its wrappers lead, if it has some:
    /// those of a split binary lead to archives.
    pub(super) fn of(content: &Arc<dyn Content>, bundles: Option<&[Bundle]>, resources: &Arc<Resources>) -> Self {
        let is_fat = bundles.is_some();
        let identity = content.identity().map(|identity| {
            let subject = if is_fat { "device code in data" } else { "device code in all sections" };
            Identity::describe(subject).add(&identity.0).finish()
        });
        if let Some(known) = identity.as_ref().and_then(|identity| resources.index.get(RecordKind::Scan, identity)) {
            return known;
        }
        // Of a member of a wheel, a read of the beginning inflates it.
        let head = content.beginning(CODE_HEADER);
        let damage = match (bundles, &head) {
            (Some(bundles), _) => damage_of(bundles, content, resources),
            (None, Ok(head)) => damage_after_head(head, content, resources),
            (None, Err(_)) => CodeDamage::default(),
        };
        let code = head.and_then(|head| FileCode::after_head(&head, content, is_fat, resources));
        let is_finished = code.as_ref().is_ok_and(|code| !code.is_unfinished);
        let is_unread = code.is_err();
        let code = code.unwrap_or_default();
        let wrapped = tally(DeviceCodePlace::Wrapper, bundles.into_iter().flatten().map(CodePiece::of_bundle));
        let found = Self { is_fat, wrapped, code, damage, is_unread };
        // Searching a small file costs less than a record of it.
        let is_worth = content.size() >= MIN_RECORDED || found != Self::default();
        if let Some(identity) = identity.filter(|_| is_finished && is_worth) {
            resources.index.put(RecordKind::Scan, &identity, &found);
        }
        found
    }

    /// The same for a file of which planning found that it has wrappers.
    pub(super) fn of_fat(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Self {
        let wrapped = find(content, Holder::Binary, resources).ok().and_then(|(code, _)| code);
        Self::of(content, wrapped.as_ref().map(|code| &*code.bundles), resources)
    }

    /// `None` if it is that of a file without code, as most are.
    pub(super) fn into_box(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// The code for split libraries in a file of an archive of the input, where it is joined with none.
pub(crate) fn unjoined_code(file: &UnpackedFile) -> Vec<CodeOfForm> {
    let UnpackedFile { path, content, .. } = file;
    let is_unjoined = file.is_in_archive && is_archive(path, content);
    let code = is_unjoined.then(|| archive_code(content));
    tally(DeviceCodePlace::File, code.map(|code| CodePiece::of_kpack(content.size(), code)))
}

/// The targets and sizes of the code in a .kpack archive; what cannot be read may have code for any.
pub(super) fn archive_code(content: &Arc<dyn Content>) -> Vec<(Option<TargetId>, u64)> {
    match ArchiveReader::list(Arc::clone(content)) {
        Ok(reader) => reader.entries().map(|(_, target, entry)| (target.parse().ok(), entry.original_size)).collect(),
        Err(_) => vec![(None, 0)],
    }
}

/// What is wrong with the code behind the wrappers of a binary.
pub(crate) fn wrapped_damage(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> CodeDamage {
    let code = find(content, Holder::Binary, resources).ok().and_then(|(code, _)| code);
    code.map(|code| damage_of(&code.bundles, content, resources)).unwrap_or_default()
}

fn damage_of(bundles: &[Bundle], content: &Arc<dyn Content>, resources: &Arc<Resources>) -> CodeDamage {
    bundles.iter().flat_map(|bundle| bundle.damage(content, resources)).collect()
}

pub(super) fn tally(place: DeviceCodePlace, pieces: impl IntoIterator<Item = CodePiece>) -> Vec<CodeOfForm> {
    let mut tally = CodeTally::default();
    // What has too many targets was refused by planning.
    pieces.into_iter().try_for_each(|piece| tally.add(place, piece)).ok();
    tally.into_found()
}
