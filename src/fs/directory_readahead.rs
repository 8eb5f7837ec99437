//! Small files that are read one after the other, as `tar`, `cp` and importers do with a directory: the kernel is given
//! those that come next before it asks for them. A request costs more than the bytes of a small file.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::nodes::Nodes;
use super::requests::Shared;
use crate::view::{Child, NodeId};

/// Bytes of the largest file that is given. Larger ones are left to the kernel's readahead, which asks for 128 KiB at a time
/// once it has come to speed.
const SMALL: u64 = 512 << 10;

/// Files that are given at first; later, twice as many each time.
const FIRST: usize = 8;

/// Files that are given at a time at most; and bytes, but for the last file.
const MOST: usize = 128;
const MOST_BYTES: u64 = 4 << 20;

/// Directories that are remembered: those from which files were read last, and the one that was listed last.
const DIRECTORIES: usize = 8;

/// The directories whose files are being read.
#[derive(Debug, Default)]
pub(super) struct DirectoryReadahead(Mutex<VecDeque<Sequence>>);

/// Reading in the order of one directory.
#[derive(Debug)]
struct Sequence {
    directory: NodeId,
    /// The position of the file that was asked for last; of the first one that is small if none was.
    at: usize,
    /// Whether any was asked for.
    is_begun: bool,
    /// The position behind the last file that was given, or asked for; `at` if none was.
    end: usize,
    /// Files to be given next.
    step: usize,
    /// Whether files are being pushed.
    is_served: bool,
}

impl DirectoryReadahead {
    /// A directory was listed to its end. If something was asked for from the one before it, its reader will probably go on
    /// here: the first files are given in the background, all but the very first, which tells whether that is so.
    pub(super) fn listed(&self, directory: NodeId, shared: &Arc<Shared>) {
        let mut children = shared.nodes.children(directory, 0).take(MOST);
        let is_small = |child: &Child<'_>| small_size(&shared.nodes, shared.nodes.number(child.node)).is_some();
        let Some((first, _)) = children.find(|(_, child)| is_small(child)) else { return };
        let mut runs = self.lock();
        if runs.iter().any(|run| run.directory == directory) {
            return;
        }
        let is_expected = runs.front().is_some_and(|last| last.is_begun);
        // Listing alone must not evict directories that are read.
        runs.retain(|run| run.is_begun);
        let mut run = Sequence { is_begun: false, end: first, ..Sequence::new(directory, first) };
        if is_expected {
            run.serve(shared);
        }
        remember(&mut runs, run);
    }

    /// The beginning of a file was asked for. If the one before it was, too, or if few are left of those that were given,
    /// the next ones are given in the background.
    pub(super) fn record_access(&self, node: NodeId, shared: &Arc<Shared>) {
        let Some((directory, position)) = shared.nodes.place(node) else { return };
        let mut runs = self.lock();
        let Some(run) = runs.iter_mut().find(|run| run.directory == directory) else {
            remember(&mut runs, Sequence::new(directory, position));
            return;
        };
        run.is_begun = true;
        if position == run.at {
            run.end = run.end.max(position + 1);
            return;
        }
        if !(run.at..=run.end).contains(&position) {
            *run = Sequence { is_served: run.is_served, ..Sequence::new(directory, position) };
            return;
        }
        run.at = position;
        if position + run.step / 2 >= run.end {
            run.serve(shared);
        }
    }

    /// Gives the kernel the files at these positions, the last one first: so a reader who is as fast gets the first ones by
    /// asking at the same time, and they meet only once.
    fn push_to_page_cache(&self, directory: NodeId, files: Vec<(usize, NodeId)>, shared: &Shared) {
        for (position, node) in files.into_iter().rev() {
            let is_past = self.lock().iter().any(|run| run.directory == directory && run.at >= position);
            if is_past || !shared.push_to_page_cache(node) {
                break;
            }
        }
        if let Some(run) = self.lock().iter_mut().find(|run| run.directory == directory) {
            run.is_served = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sequence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers one more directory, in the place of the oldest one if there are too many.
fn remember(runs: &mut VecDeque<Sequence>, run: Sequence) {
    runs.truncate(DIRECTORIES - 1);
    runs.push_front(run);
}

/// The size of a file that can be given, in bytes. What is made of more than itself costs more than whoever reads its
/// neighbours may have asked for.
fn small_size(nodes: &Nodes, number: NodeId) -> Option<u64> {
    let size = nodes.original(number)?.size();
    (1..=SMALL).contains(&size).then_some(size)
}

impl Sequence {
    fn new(directory: NodeId, position: usize) -> Self {
        Self { directory, at: position, is_begun: true, end: position + 1, step: FIRST, is_served: false }
    }

    /// Has the next files given.
    fn serve(&mut self, shared: &Arc<Shared>) {
        if self.is_served {
            return;
        }
        let (directory, next) = (self.directory, self.next(&shared.nodes));
        if next.is_empty() {
            return;
        }
        let job = Arc::clone(shared);
        // Never on this thread: the kernel makes the pushing thread wait for requests that this one has to answer.
        self.is_served = shared
            .resources
            .executor
            .run_in_background(move || job.directory_readahead.push_to_page_cache(directory, next, &job));
    }

    /// The files to be given now. One of the last ones is left for the kernel to ask for, which tells how far its reader is;
    /// not if there are no more behind them.
    fn next(&mut self, nodes: &Nodes) -> Vec<(usize, NodeId)> {
        let first = self.end.max(self.at + 1);
        self.end = first + self.step;
        self.step = (2 * self.step).min(MOST);
        let mut bytes = 0;
        let mut files = Vec::new();
        for (position, child) in nodes.children(self.directory, first) {
            let number = nodes.number(child.node);
            let size = small_size(nodes, number);
            // The kernel does not take those that it was not told of.
            if position >= self.end || bytes > MOST_BYTES || (size.is_some() && !nodes.kernel_knows(number)) {
                self.end = position;
                if !files.is_empty() {
                    files.remove(files.len() * 3 / 4);
                }
                break;
            }
            if let Some(size) = size {
                bytes += size;
                files.push((position, number));
            }
        }
        files
    }
}
