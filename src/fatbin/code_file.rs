//! Files that are device code themselves: a code object, a bundle, or a zstd frame with one of these. Programs and
//! libraries open them by name.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use super::bundle::{Bundle, is_bundle};
use super::error::FatbinError;
use super::first_block::code_of_frame;
use super::frames::from_first_frame;
use super::header::{CODE_HEADER, CodeDamage, code_damage, code_target, is_code};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::Content;

/// What headers show of such a file.
#[derive(Debug)]
pub(crate) struct CodeFile {
    /// Whether it may have code for several targets.
    pub(crate) is_bundle: bool,
    /// The targets of its code. None, if a header names no target that is known: there will be more of them.
    pub(crate) targets: BTreeSet<TargetId>,
    /// That of code that is not compressed. Bitcode is also seen in what is.
    pub(crate) damage: CodeDamage,
}

/// Whether a file begins as a code object does, so that no host loads it.
pub(crate) fn begins_code(content: &dyn Content) -> bool {
    content.beginning(CODE_HEADER).is_ok_and(|head| is_code(&head))
}

impl CodeFile {
    /// Reads headers. `None` if the file is no such code.
    pub(crate) fn read(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Result<Option<Self>, FatbinError> {
        Self::after_head(&content.beginning(CODE_HEADER)?, content, resources)
    }

    /// The same for a file whose [`CODE_HEADER`] is known.
    pub(crate) fn after_head(
        head: &[u8],
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, FatbinError> {
        if is_code(head) {
            let target = code_target(head);
            let damage = code_damage(&**content, None).map(|reason| (target.clone(), reason));
            let (targets, damage) = (target.into_iter().collect(), damage.into_iter().collect());
            return Ok(Some(Self { is_bundle: false, targets, damage }));
        }
        if is_bundle(head) {
            let bundle = Bundle::read(content, 0, content.size(), resources)?;
            let of_compressed = || bundle.unlinked(content, resources, &mut 0);
            let damage = if bundle.is_compressed() { of_compressed() } else { bundle.damage(content, resources) };
            return Ok(Some(Self { is_bundle: true, targets: bundle.targets(), damage }));
        }
        let Some(frame) = from_first_frame(content)? else { return Ok(None) };
        Ok(code_of_frame(&*frame)?)
    }

    /// The same for a file that has to be code. An error says why it is none.
    pub(crate) fn expect(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Result<Self, String> {
        match Self::read(content, resources) {
            Ok(Some(code)) => Ok(code),
            Ok(None) if content.size() == 0 => Err("it is empty".to_owned()),
            Ok(None) => Err("it is no code object".to_owned()),
            Err(FatbinError::Read(error)) => Err(error.to_string()),
            Err(error) => Err(format!("it is no whole bundle: {error}")),
        }
    }

    /// Why nothing can load the code that a GPU takes.
    pub(crate) fn damage_for(&self, gpu: &TargetId) -> Option<&str> {
        damage_for(&self.damage, gpu, slice::from_ref(&self.targets))
    }
}

/// Why nothing can load code that a GPU takes, which finds one of these sets of targets at each place. What is no code at all is in
/// none of the sets.
pub(crate) fn damage_for<'a>(damage: &'a CodeDamage, gpu: &TargetId, places: &[BTreeSet<TargetId>]) -> Option<&'a str> {
    let is_taken = |target: &TargetId| {
        places.iter().any(|code| gpu.takes(target, &code.iter().chain([target]).collect::<Vec<_>>()))
    };
    let damage = damage.iter().find(|(target, _)| target.as_ref().is_none_or(is_taken));
    damage.map(|(_, reason)| reason.as_str())
}

/// The damage of a file that is code, as far as targets are known.
pub(crate) fn damage_of_file(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> CodeDamage {
    content.beginning(CODE_HEADER).map(|head| damage_after_head(&head, content, resources)).unwrap_or_default()
}

/// The same for a file whose [`CODE_HEADER`] is known.
pub(crate) fn damage_after_head(head: &[u8], content: &Arc<dyn Content>, resources: &Arc<Resources>) -> CodeDamage {
    let code = CodeFile::after_head(head, content, resources).ok().flatten();
    let mut damage = code.map(|code| code.damage).unwrap_or_default();
    damage.retain(|target, _| target.is_some());
    damage
}
