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

/// The same of an ELF file, in which the program headers of a code object are, too.
const BEGINNING: u64 = 1024;

/// What one takes in memory next to its bytes.
const ENTRY: u64 = 64;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MemberHeads(Mutex<HeldHeads>, Arc<Budget>);

#[derive(Debug)]
struct HeldHeads {
    heads: HashMap<u64, Box<[u8]>>,
    memory: Reservation,
}

impl MemberHeads {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let memory = budget.account(MemoryClass::Spans, 0);
        Self(Mutex::new(HeldHeads { heads: HashMap::new(), memory }), Arc::clone(budget))
    }

    /// Fills `buffer` with the first bytes of the member at an offset, which has `size` bytes. `read` reads them the first time.
    pub(crate) fn fill<E>(
        &self,
        (member, size): (u64, u64),
        buffer: &mut [u8],
        read: impl Fn(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let take = |head: &[u8], buffer: &mut [u8]| head.get(..buffer.len()).map(|head| buffer.copy_from_slice(head));
        if self.0.lock().heads.get(&member).and_then(|head| take(head, buffer)).is_some() {
            return Ok(());
        }
        let mut head = vec![0; to_usize(size.min(BEGINNING))];
        // Damage may begin behind the bytes that are wanted.
        if buffer.len() > head.len() || read(&mut head).is_err() {
            return read(buffer);
        }
        take(&head, buffer);
        // Of other files, no more than a header is asked for.
        if !head.starts_with(b"\x7fELF") {
            head.truncate(HEAD);
        }
        let mut state = self.0.lock();
        let bytes = state.memory.bytes() + head.len() as u64 + ENTRY;
        state.memory.resize(bytes);
        state.heads.insert(member, head.into());
        drop(state);
        self.1.reclaim();
        Ok(())
    }
}
