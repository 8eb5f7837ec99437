//! A file on a server as bytes at offsets, and what of it is kept: first bytes of members, and blocks.
//!
//! Each stage of planning asks for first bytes, as most files are judged by these alone, and the blocks that have them
//! are not kept as long. Each kind of block has its own cache. A long binary has tables at its beginning and at its
//! end, which are read again. What is between them takes no room from the blocks of other members.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::answers::{OpenAnswer, OpenAnswers};
use super::client::RangeClient;
use super::error::{RemoteError, RemoteProblem, check, fail};
use super::window::{self, BLOCK, BlockUse, FileParts, MemberAccess, WindowFacts};
use crate::memory::{Budget, ByteCache, Reservation};
use crate::metrics::MemoryClass;
use crate::resources::{Resources, UrlAccess};
use crate::rope::{Identity, to_usize};

/// Bytes of the first request, which are kept: most central directories are not longer.
const TAIL: u64 = 48 << 10;

/// A file on a server. Blocks of it are kept within the memory budget.
#[derive(derive_more::Debug)]
#[debug("RemoteFile({})", name.display())]
pub(crate) struct RemoteFile {
    name: Box<Path>,
    client: RangeClient,
    size: u64,
    /// The last bytes, or all.
    tail: Vec<u8>,
    /// The memory of these.
    _memory: Reservation,
    blocks: KeptBlocks,
    /// The first bytes of members, by their offsets.
    pub(crate) heads: MemberHeads,
    answers: OpenAnswers,
    /// The members, once they are listed.
    parts: OnceLock<FileParts>,
    resources: Arc<Resources>,
}

impl RemoteFile {
    /// Makes the first request.
    pub(crate) fn open(name: &Path, resources: &Arc<Resources>) -> Result<Self, RemoteError> {
        let urls = resources.policy.urls;
        if urls == UrlAccess::Refused {
            return Err(RemoteProblem::not_taken(name));
        }
        let failed = |problem: RemoteProblem| fail(problem.at(name), resources);
        let client = RangeClient::new(name).map_err(failed)?;
        let half = resources.budget.capacity() / 2;
        let tail = match client.tail(TAIL) {
            Err(RemoteProblem::NoRanges(_)) if urls == UrlAccess::Whole => client.whole(half),
            tail => tail,
        };
        let tail = tail.map_err(failed)?;
        let size = client.validators.get().map_or(0, |it| it.total);
        resources.counters.bytes_read.add(tail.len() as u64);
        let memory = resources.budget.account(MemoryClass::Spans, tail.len() as u64);
        let (blocks, heads) = (KeptBlocks::new(half, size, &resources.budget), MemberHeads::new(&resources.budget));
        let answers = OpenAnswers::new(window::most_together(blocks.room));
        let (parts, resources) = (OnceLock::new(), Arc::clone(resources));
        Ok(Self { name: name.into(), client, size, tail, _memory: memory, blocks, heads, answers, parts, resources })
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The identity of its bytes in this session.
    pub(crate) fn identity(&self) -> Identity {
        let mut identity = Identity::describe("file on a server");
        identity.add(self.name.as_os_str().as_encoded_bytes()).number(self.size);
        if let Some(known) = self.client.validators.get() {
            for field in [&known.tag, &known.modified] {
                identity.add(field.as_deref().unwrap_or_default().as_bytes());
            }
        }
        identity.finish()
    }

    /// States where the members of a wheel end and how they are read, by which requests are planned.
    pub(crate) fn set_members(&self, members: Vec<(u64, MemberAccess)>) {
        self.parts.get_or_init(|| FileParts::of_members(members, window::most_together(self.blocks.room)));
    }

    /// Fills `buffer` with the bytes at `offset`, which are in the file.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), RemoteError> {
        let (mut at, mut rest) = (offset, buffer);
        let kept = self.size - self.tail.len() as u64;
        while !rest.is_empty() {
            let block = if at < kept { Some(self.block(at..at + rest.len() as u64, kept)?) } else { None };
            let (start, bytes) = block.as_deref().map_or((kept, &*self.tail), |block| (at / BLOCK * BLOCK, block));
            let bytes = bytes.get(to_usize(at.saturating_sub(start))..).unwrap_or_default();
            let here = bytes.len().min(rest.len());
            let (piece, after) = rest.split_at_mut(here);
            let bytes = bytes.get(..here).filter(|bytes| !bytes.is_empty());
            let beyond =
                RemoteProblem::OtherRange { asked: format!("byte {at}"), answer: format!("{} bytes", self.size) };
            piece.copy_from_slice(bytes.ok_or_else(|| beyond.at(&self.name))?);
            (at, rest) = (at + here as u64, after);
        }
        Ok(())
    }

    /// The first block of what is read. What lies from `end` on is kept in any case.
    fn block(&self, wanted: Range<u64>, end: u64) -> Result<Arc<[u8]>, RemoteError> {
        let number = wanted.start / BLOCK;
        let window = |is_to_come: &dyn Fn(u64) -> bool| {
            let is_there = |block| is_to_come(block) || self.blocks.contains(block);
            let most = window::most(self.blocks.room);
            WindowFacts { size: end, parts: self.parts.get(), most, is_there: &is_there }.blocks(&wanted)
        };
        loop {
            check(&self.resources)?;
            let mut found = None;
            let take = |at, bytes: Arc<[u8]>| {
                self.resources.counters.bytes_read.add(bytes.len() as u64);
                if at == number {
                    found = Some(Arc::clone(&bytes));
                }
                let block_use = self.parts.get().map_or(BlockUse::Other, |parts| parts.use_of(at));
                self.blocks.keep(at, bytes, block_use);
            };
            let read = |answer: &OpenAnswer| answer.read_to(&self.client, number, window::NEAR, take);
            let held = self.answers.read(number, end, || self.blocks.get(number), window, read);
            if let Some(block) = held.map_err(|problem| fail(problem.at(&self.name), &self.resources))?.or(found) {
                return Ok(block);
            }
        }
    }
}

/// Bytes that are kept of a member: the program headers of a code object are in them, and a block of tar.
const BEGINNING: u64 = 1024;

/// They take at most the budget divided by this: those of the 4,600 members of a wheel of torch have room in `--memory 64`.
const PART: u64 = 8;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MemberHeads(BlockCache);

impl MemberHeads {
    fn new(budget: &Arc<Budget>) -> Self {
        Self(ByteCache::staying(budget, MemoryClass::Spans, budget.capacity() / PART))
    }

    /// Fills `buffer` with the first bytes of the member at an offset, which has `size` bytes. `read` reads them the first time.
    pub(crate) fn fill<E>(
        &self,
        member: u64,
        size: u64,
        buffer: &mut [u8],
        read: impl Fn(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let take = |head: &[u8], buffer: &mut [u8]| head.get(..buffer.len()).map(|head| buffer.copy_from_slice(head));
        if self.0.get(&member).and_then(|head| take(&head, buffer)).is_some() {
            return Ok(());
        }
        let mut head = vec![0; to_usize(size.min(BEGINNING))];
        // Damage may begin behind the bytes that are wanted.
        if buffer.len() > head.len() || read(&mut head).is_err() {
            return read(buffer);
        }
        take(&head, buffer);
        self.0.put(member, head.into());
        Ok(())
    }
}

type BlockCache = ByteCache<u64, Arc<[u8]>>;

/// See the [module](self).
#[derive(Debug)]
struct KeptBlocks {
    tables: BlockCache,
    last: BlockCache,
    /// Those of binaries that are inflated. Readers come back to what was there lately.
    passing: BlockCache,
    /// Bytes of all blocks that can be kept, but for those in passing.
    room: u64,
}

impl KeptBlocks {
    /// In a room of so many bytes, which the blocks in passing may exceed by a quarter. A file that has room stays as a whole.
    fn new(room: u64, size: u64, budget: &Arc<Budget>) -> Self {
        let blocks = |quarters| {
            if size <= room {
                return ByteCache::staying(budget, MemoryClass::Spans, room);
            }
            ByteCache::bounded(budget, MemoryClass::Spans, room / 4 * quarters)
        };
        Self { tables: blocks(1), last: blocks(3), passing: blocks(1), room }
    }

    fn all(&self) -> [&BlockCache; 3] {
        [&self.tables, &self.last, &self.passing]
    }

    fn contains(&self, number: u64) -> bool {
        self.all().iter().any(|blocks| blocks.contains(&number))
    }

    fn get(&self, number: u64) -> Option<Arc<[u8]>> {
        self.all().iter().find_map(|blocks| blocks.get(&number))
    }

    fn keep(&self, number: u64, bytes: Arc<[u8]>, block_use: BlockUse) {
        let blocks = match block_use {
            BlockUse::Tables => &self.tables,
            // What is behind the tables at the beginning, as far as others do not need the room.
            BlockUse::Passing if self.tables.bytes() + BLOCK <= self.tables.capacity() / 2 => &self.tables,
            BlockUse::Passing => &self.passing,
            BlockUse::Other => &self.last,
        };
        blocks.put(number, bytes);
    }
}
