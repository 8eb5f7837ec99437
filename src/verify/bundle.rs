//! Checks the bundle of a wrapper of a thin binary, or of a file of a database.

use std::sync::Arc;

use md5::{Digest, Md5};

use super::report::Tools;
use crate::fatbin::{Bundle, CODE_HEADER, CodeObject, Compressed, FatbinError, loaded_code_problem};
use crate::gpu::TargetId;
use crate::rope::{Content, ReadError, head, read_all};

/// Says what is wrong with a bundle.
pub(super) type SaysReason<'a> = &'a dyn Fn(String);

/// The targets for which the bundle at `start` has code. It has to end at `limit` or before. All of it is read. `judge`
/// returns what is wrong with code for a target.
pub(super) fn check(
    content: &Arc<dyn Content>,
    start: u64,
    limit: u64,
    judge: &dyn Fn(&TargetId) -> Option<String>,
    say: SaysReason<'_>,
    Tools { resources, findings, .. }: Tools<'_>,
) -> Result<Vec<TargetId>, FatbinError> {
    let bundle = Bundle::read(content, start, limit, resources)?;
    for id in bundle.unfound_ids(content, resources) {
        say(format!("it has code with the entry ID {id:?}, which no runtime finds"));
    }
    let objects = bundle.objects(content, resources)?;
    let packed = objects.iter().find_map(|object| object.bundle.clone());
    let packed = packed.or_else(|| bundle.packed(content, resources));
    // Held so that it is decompressed once for all code objects.
    let _held = match &packed {
        Some(packed) if packed.is_decompressed_in_memory() => Some(packed.pin_whole()?),
        Some(_) | None => None,
    };
    if let Some(packed) = &packed
        && !has_own_hash(content, packed)?
    {
        say("its hash is not that of the bundle that it is compressed from".to_owned());
    }
    let mut targets = Vec::new();
    for CodeObject { target, content, .. } in objects {
        if content.size() == 0 {
            continue;
        }
        judge(&target).into_iter().for_each(say);
        let mut beginning = Vec::with_capacity(CODE_HEADER);
        read_all(&*content, |bytes| {
            let missing = CODE_HEADER - beginning.len();
            beginning.extend_from_slice(head(bytes, missing.min(bytes.len())));
        })?;
        findings.counts.code_objects.add(1);
        findings.counts.code_bytes.add(content.size());
        if let Some(problem) = loaded_code_problem(&beginning, &target) {
            say(format!("the code object for {target}: {problem}"));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Whether the hash in the header of a compressed bundle in a file is that of its content: the low half of the MD5
/// (`OffloadBundler.cpp`).
pub(super) fn has_own_hash(content: &Arc<dyn Content>, packed: &Arc<Compressed>) -> Result<bool, ReadError> {
    let mut stated = [0; 8];
    content.read_at(packed.start().saturating_sub(8), &mut stated)?;
    let mut md5 = Md5::new();
    read_all(&*packed.whole(), |bytes| md5.update(bytes))?;
    let made: [u8; 16] = md5.finalize().into();
    Ok(made.starts_with(&stated))
}
