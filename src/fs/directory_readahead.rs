//! Readahead in a directory whose small files are read in order, as by `tar`, `cp` and importers. The next files are
//! pushed to the kernel's page cache before it asks for them: a request costs more than the bytes of a small file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::filesystem::Filesystem;
use super::nodes::Nodes;
use crate::tree::{Child, NodeId};

/// Bytes of the largest file that is pushed. Larger ones are left to the kernel's readahead, which soon asks for 128
/// KiB at a time.
const SMALL: u64 = 512 << 10;

/// Files in the first push. Each later push has twice as many.
const FIRST: usize = 8;

/// The most files in a push; and the most bytes, not counting the last file.
const MAX_FILES: usize = 128;
const MAX_BYTES: u64 = 4 << 20;

/// Directories that are tracked: those from which files were read last, and the one that was listed last.
const DIRECTORIES: usize = 8;

/// The directories whose files are being read.
#[derive(Debug, Default)]
pub(super) struct DirectoryReadahead {
    sequences: Mutex<VecDeque<Sequence>>,
    is_off: AtomicBool,
}

/// Sequential access to the files of one directory.
#[derive(Debug)]
struct Sequence {
    directory: NodeId,
    /// The position of the file that was read last. If none was, that of the first small file.
    at: usize,
    /// Whether any file was read.
    is_begun: bool,
    /// The position after the last file that was pushed or read; `at` if none was.
    end: usize,
    /// Number of files in the next push.
    step: usize,
    /// Whether a push is running.
    is_served: bool,
}

impl DirectoryReadahead {
    /// Disables pushing. With passthrough, the kernel does not use pages from the daemon.
    pub(super) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// Records that a directory was listed to its end. If files were read from the directory before it, the reader will
    /// probably continue here. Then the first files are pushed in the background, except the very first one: a read of
    /// it shows whether the reader continues.
    pub(super) fn listed(&self, directory: NodeId, fs: &Arc<Filesystem>) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let mut children = fs.nodes.children(directory, 0).take(MAX_FILES);
        let is_small = |child: &Child<'_>| small_size(&fs.nodes, fs.nodes.number(child.node)).is_some();
        let Some((first, _)) = children.find(|(_, child)| is_small(child)) else { return };
        let mut sequences = self.sequences.lock();
        if sequences.iter().any(|sequence| sequence.directory == directory) {
            return;
        }
        let is_expected = sequences.front().is_some_and(|last| last.is_begun);
        // Listing alone must not replace directories that are being read.
        sequences.retain(|sequence| sequence.is_begun);
        let mut sequence = Sequence { is_begun: false, end: first, ..Sequence::new(directory, first) };
        if is_expected {
            sequence.serve(fs);
        }
        remember(&mut sequences, sequence);
    }

    /// Records that the beginning of a file was read. The next files are pushed in the background if the file before it
    /// was read, too, or if few of the pushed files are left.
    pub(super) fn record_access(&self, node: NodeId, fs: &Arc<Filesystem>) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let Some((directory, position)) = fs.nodes.place(node) else { return };
        let mut sequences = self.sequences.lock();
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

    /// Whether no push is running.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.sequences.lock().iter().all(|sequence| !sequence.is_served)
    }
}

/// A push. The next one can start when it is dropped.
struct Push {
    fs: Arc<Filesystem>,
    directory: NodeId,
    files: Vec<(usize, NodeId)>,
    given: u64,
}

impl Push {
    /// Pushes the files, the last one first. A reader that is equally fast reads the first ones by itself meanwhile, so
    /// both do the same file only once.
    fn run(mut self) {
        for &(position, node) in self.files.iter().rev() {
            let sequences = self.fs.directory_readahead.sequences.lock();
            let is_past = sequences.iter().any(|other| other.directory == self.directory && other.at >= position);
            drop(sequences);
            if is_past || !self.fs.push_to_page_cache(node) {
                break;
            }
            self.given += 1;
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        let mut sequences = self.fs.directory_readahead.sequences.lock();
        if let Some(sequence) = sequences.iter_mut().find(|sequence| sequence.directory == self.directory) {
            sequence.is_served = false;
        }
        // Under the lock, so that a reader that sees the count can have the next files pushed.
        self.fs.resources.counters.files_given.add(self.given);
    }
}

/// Tracks one more directory. Replaces the oldest one if there are too many.
fn remember(sequences: &mut VecDeque<Sequence>, sequence: Sequence) {
    sequences.truncate(DIRECTORIES - 1);
    sequences.push_front(sequence);
}

/// The size in bytes of a file that can be pushed. Files that have to be made are not pushed: that may cost more than
/// the reader asked for.
fn small_size(nodes: &Nodes, number: NodeId) -> Option<u64> {
    let size = nodes.original(number)?.size();
    (1..=SMALL).contains(&size).then_some(size)
}

impl Sequence {
    fn new(directory: NodeId, position: usize) -> Self {
        Self { directory, at: position, is_begun: true, end: position + 1, step: FIRST, is_served: false }
    }

    /// Starts a push of the next files.
    fn serve(&mut self, fs: &Arc<Filesystem>) {
        if self.is_served {
            return;
        }
        let files = self.next(&fs.nodes);
        if files.is_empty() {
            return;
        }
        let (this, directory) = (Arc::clone(fs), self.directory);
        let push = move || Push { fs: this, directory, files, given: 0 }.run();
        // Never on this thread: the kernel makes the pushing thread wait for requests that this one has to answer.
        self.is_served = fs.resources.executor.run_in_background(push);
    }

    /// The files to push now. One of the last ones is left out: the kernel's request for it shows how far the reader
    /// is. Not if no files follow them.
    fn next(&mut self, nodes: &Nodes) -> Vec<(usize, NodeId)> {
        let first = self.end.max(self.at + 1);
        self.end = first + self.step;
        self.step = (2 * self.step).min(MAX_FILES);
        let mut bytes = 0;
        let mut files = Vec::new();
        for (position, child) in nodes.children(self.directory, first) {
            let number = nodes.number(child.node);
            let size = small_size(nodes, number);
            // The kernel does not accept pages of inodes that it does not know.
            if position >= self.end || bytes > MAX_BYTES || (size.is_some() && !nodes.kernel_knows(number)) {
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

#[cfg(test)]
#[path = "directory_readahead_tests.rs"]
mod tests;
