//! What compresses code objects: zstd contexts with their buffers, as many as there are cores. More would not compress
//! faster, and each takes some MB.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use zstd::bulk::Compressor;

use super::budget::Budget;
use super::gauges::Use;
use super::pool::{Lent, Pool};

/// What a context is thought to take before it has told, in bytes; at level 3 it is less.
const CONTEXT: usize = 5 << 20;

/// Whoever compresses borrows one of these.
pub struct Compressors {
    budget: Arc<Budget>,
    pool: Pool<Tool>,
    /// How many are lent, and a bell for when one comes back.
    lent: Mutex<usize>,
    returned: Condvar,
}

#[derive(Default)]
struct Tool {
    context: Option<(i32, Compressor<'static>)>,
    original: Vec<u8>,
    frame: Vec<u8>,
}

/// A borrowed context and its buffers.
struct Loan<'a> {
    tool: Option<Lent<Tool>>,
    compressors: &'a Compressors,
}

impl Compressors {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            pool: Pool::new(budget, Use::Compression),
            lent: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// The zstd frame of `size` bytes that `fill` provides. The same bytes for the same level whoever makes it. Waits until
    /// a context is free and the budget has room for what it needs.
    pub fn compress<E>(
        &self,
        level: i32,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
        failed: impl FnOnce(io::Error) -> E,
    ) -> Result<Vec<u8>, E> {
        let mut loan = self.borrow(size);
        let Some(tool) = &mut loan.tool else { return Err(failed(io::ErrorKind::OutOfMemory.into())) };
        if tool.original.len() < size {
            tool.original.resize(size, 0);
        }
        fill(tool.original.get_mut(..size).unwrap_or_default())?;
        let frame = tool.compress(level, size).map_err(failed)?;
        let memory = tool.memory();
        tool.account_for(memory);
        Ok(frame)
    }

    /// Bytes that are reserved for whoever compresses `size` bytes.
    pub fn memory_for(&self, size: u64) -> u64 {
        let bound = zstd::zstd_safe::compress_bound(usize::try_from(size).unwrap_or(usize::MAX));
        (CONTEXT as u64).saturating_add(size).saturating_add(bound as u64)
    }

    fn borrow(&self, size: usize) -> Loan<'_> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        while *lent >= rayon::current_num_threads() {
            lent = self.returned.wait(lent).unwrap_or_else(PoisonError::into_inner);
        }
        *lent += 1;
        drop(lent);
        let mut loan = Loan { tool: None, compressors: self };
        let bound = zstd::zstd_safe::compress_bound(size);
        let is_fit = |tool: &Tool| tool.original.capacity() >= size && tool.frame.capacity() >= bound;
        if let Some(idle) = self.pool.idle(is_fit) {
            loan.tool = Some(idle);
            return loan;
        }
        // One that is too small leaves, so that there are never more of them than cores.
        self.pool.discard();
        let bytes = self.memory_for(size as u64);
        let reserved = self.budget.reserve_unless(Use::Compression, bytes, || self.pool.idle(is_fit));
        loan.tool = Some(reserved.map_or_else(
            |idle| idle,
            |reservation| {
                let buffers = Tool { context: None, original: Vec::new(), frame: Vec::with_capacity(bound) };
                self.pool.lend(Tool { original: vec![0; size], ..buffers }, reservation)
            },
        ));
        loan
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.tool = None;
        *self.compressors.lent.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.compressors.returned.notify_one();
    }
}

impl Tool {
    fn compress(&mut self, level: i32, size: usize) -> io::Result<Vec<u8>> {
        if self.context.as_ref().is_none_or(|(other, _)| *other != level) {
            self.context = Some((level, Compressor::new(level)?));
        }
        let (_, context) = self.context.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
        self.frame.clear();
        context.compress_to_buffer(self.original.get(..size).unwrap_or_default(), &mut self.frame)?;
        Ok(self.frame.as_slice().to_vec())
    }

    fn memory(&mut self) -> u64 {
        let context = self.context.as_mut().map_or(0, |(_, context)| context.context_mut().sizeof());
        (context + self.original.capacity() + self.frame.capacity()) as u64
    }
}

impl fmt::Debug for Compressors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Compressors").field(&self.pool).finish()
    }
}
