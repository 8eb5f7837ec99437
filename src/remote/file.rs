//! A file on a server as bytes at offsets.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::answers::{OpenAnswer, OpenAnswers};
use super::blocks::KeptBlocks;
use super::client::RangeClient;
use super::error::{RemoteError, RemoteProblem, check, fail};
use super::heads::MemberHeads;
use super::window::{self, BLOCK, BlockUse, FileParts, MemberAccess, WindowFacts};
use crate::memory::Reservation;
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
        let size = client.validators().map_or(0, |it| it.total);
        resources.counters.bytes_read.add(tail.len() as u64);
        let memory = resources.budget.account(MemoryClass::Spans, tail.len() as u64);
        let (blocks, heads) = (KeptBlocks::new(half, &resources.budget), MemberHeads::new(&resources.budget));
        let answers = OpenAnswers::new(window::most_together(blocks.room()));
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
        if let Some(known) = self.client.validators() {
            for field in [&known.tag, &known.modified] {
                identity.add(field.as_deref().unwrap_or_default().as_bytes());
            }
        }
        identity.finish()
    }

    /// States where the members of a wheel end and how they are read, by which requests are planned.
    pub(crate) fn set_members(&self, members: Vec<(u64, MemberAccess)>) {
        self.parts.get_or_init(|| FileParts::of_members(members, window::most_together(self.blocks.room())));
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
            let most = window::most(self.blocks.room());
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
            let read = |answer: &OpenAnswer| answer.read_to(&self.client, number, window::AT_ONCE, take);
            let held = self.answers.read((number, end), || self.blocks.get(number), window, read);
            if let Some(block) = held.map_err(|problem| fail(problem.at(&self.name), &self.resources))?.or(found) {
                return Ok(block);
            }
        }
    }
}
