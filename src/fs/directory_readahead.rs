//! Small files that are read one after the other, as `tar`, `cp` and importers do with a directory: the kernel is given
//! those that come next before it asks for them. A request costs more than the bytes of a small file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::filesystem::Filesystem;
use super::nodes::Nodes;
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
pub(super) struct DirectoryReadahead {
    sequences: Mutex<VecDeque<Sequence>>,
    is_off: AtomicBool,
}

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
    /// Pushes nothing any more: where files are passed through, the kernel has no pages of ours to keep.
    pub(super) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// A directory was listed to its end. If something was asked for from the one before it, its reader will probably go on
    /// here: the first files are given in the background, all but the very first, which shows whether that is so.
    pub(super) fn listed(&self, directory: NodeId, fs: &Arc<Filesystem>) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let mut children = fs.nodes.children(directory, 0).take(MOST);
        let is_small = |child: &Child<'_>| small_size(&fs.nodes, fs.nodes.number(child.node)).is_some();
        let Some((first, _)) = children.find(|(_, child)| is_small(child)) else { return };
        let mut sequences = self.lock();
        if sequences.iter().any(|sequence| sequence.directory == directory) {
            return;
        }
        let is_expected = sequences.front().is_some_and(|last| last.is_begun);
        // Listing alone must not evict directories that are read.
        sequences.retain(|sequence| sequence.is_begun);
        let mut sequence = Sequence { is_begun: false, end: first, ..Sequence::new(directory, first) };
        if is_expected {
            sequence.serve(fs);
        }
        remember(&mut sequences, sequence);
    }

    /// The beginning of a file was asked for. If the one before it was, too, or if few are left of those that were given,
    /// the next ones are given in the background.
    pub(super) fn record_access(&self, node: NodeId, fs: &Arc<Filesystem>) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let Some((directory, position)) = fs.nodes.place(node) else { return };
        let mut sequences = self.lock();
        let Some(sequence) = sequences.iter_mut().find(|sequence| sequence.directory == directory) else {
            remember(&mut sequences, Sequence::new(directory, position));
            return;
        };
        sequence.is_begun = true;
        if position == sequence.at {
            sequence.end = sequence.end.max(position + 1);
            return;
        }
        if !(sequence.at..=sequence.end).contains(&position) {
            *sequence = Sequence { is_served: sequence.is_served, ..Sequence::new(directory, position) };
            return;
        }
        sequence.at = position;
        if position + sequence.step / 2 >= sequence.end {
            sequence.serve(fs);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sequence>> {
        self.sequences.lock()
    }

    /// Whether nothing is being pushed.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.lock().iter().all(|sequence| !sequence.is_served)
    }
}

/// Files that are being pushed. When it is dropped, the next ones can be.
struct Push {
    fs: Arc<Filesystem>,
    directory: NodeId,
    files: Vec<(usize, NodeId)>,
}

impl Push {
    /// Gives the kernel the files, the last one first: so a reader that is as fast gets the first ones by asking at the same
    /// time, and they meet only once.
    fn run(self) {
        for &(position, node) in self.files.iter().rev() {
            let sequences = self.fs.directory_readahead.lock();
            let is_past = sequences.iter().any(|other| other.directory == self.directory && other.at >= position);
            drop(sequences);
            if is_past || !self.fs.push_to_page_cache(node) {
                break;
            }
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        let mut sequences = self.fs.directory_readahead.lock();
        if let Some(sequence) = sequences.iter_mut().find(|sequence| sequence.directory == self.directory) {
            sequence.is_served = false;
        }
    }
}

/// Remembers one more directory, in the place of the oldest one if there are too many.
fn remember(sequences: &mut VecDeque<Sequence>, sequence: Sequence) {
    sequences.truncate(DIRECTORIES - 1);
    sequences.push_front(sequence);
}

/// The size of a file that can be given, in bytes. What is made of more than itself costs more than a reader of its
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
    fn serve(&mut self, fs: &Arc<Filesystem>) {
        if self.is_served {
            return;
        }
        let files = self.next(&fs.nodes);
        if files.is_empty() {
            return;
        }
        let (this, directory) = (Arc::clone(fs), self.directory);
        let push = move || Push { fs: this, directory, files }.run();
        // Never on this thread: the kernel makes the pushing thread wait for requests that this one has to answer.
        self.is_served = fs.resources.executor.run_in_background(push);
    }

    /// The files to be given now. One of the last ones is left for the kernel to ask for, which shows how far its reader is;
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
            // The kernel does not take those that it does not know.
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
