//! The first bytes of members. Each stage of planning asks for them, as most files are judged by these alone, and the blocks that have
//! them are not kept as long.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::memory::{Budget, Reservation};
use crate::metrics::MemoryClass;
use crate::rope::to_usize;

/// Bytes that are kept of a member: the header of an ELF file.
const HEAD: usize = 64;

/// What one takes in memory, with its place in the table.
const ENTRY: u64 = 96;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MemberHeads(Mutex<HeldHeads>);

#[derive(Debug)]
struct HeldHeads {
    heads: HashMap<u64, [u8; HEAD]>,
    memory: Reservation,
}

impl MemberHeads {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let memory = budget.account(MemoryClass::Spans, 0);
        Self(Mutex::new(HeldHeads { heads: HashMap::new(), memory }))
    }

    /// Fills `buffer` with the first bytes of the member at an offset, which has `size` bytes. `read` reads them the first time.
    pub(crate) fn fill<E>(
        &self,
        (member, size): (u64, u64),
        buffer: &mut [u8],
        read: impl Fn(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let length = HEAD.min(to_usize(size));
        if buffer.len() > length {
            return read(buffer);
        }
        let kept = self.0.lock().heads.get(&member).copied();
        let mut head = kept.unwrap_or([0; HEAD]);
        if kept.is_none() {
            // Damage may begin behind the bytes that are wanted.
            if read(head.get_mut(..length).unwrap_or_default()).is_err() {
                return read(buffer);
            }
            let mut all = self.0.lock();
            all.heads.insert(member, head);
            let bytes = all.heads.len() as u64 * ENTRY;
            all.memory.resize(bytes);
        }
        buffer.iter_mut().zip(head).for_each(|(to, from)| *to = from);
        Ok(())
    }
}
