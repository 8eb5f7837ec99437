//! Writes files to a bucket under their final names: short ones at once, longer ones in parts. One thread reads them in order, and several
//! send what was read.
//!
//! An object appears when its last part is there, so there is no incomplete one. An upload stands in the statement before its first part.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use parking_lot::Mutex;

use super::client::{BucketClient, BucketObject, Condition};
use super::error::{BucketError, BucketProblem};
use super::lock::{BucketLock, BucketStatement, WrittenObject};
use crate::memory::{Budget, Reservation};
use crate::metrics::{MemoryClass, Progress};
use crate::rope::{Content, InPassing, ReadError, to_usize};
use crate::split::{FileDigest, FileSum, PassingSum, hex};
use crate::threads::ThreadError;

/// The least size of a part, and their greatest number (Amazon S3 User Guide, "Amazon S3 multipart upload limits").
const LEAST_PART: u64 = 5 << 20;
const MOST_PARTS: u64 = 10_000;

/// The size of a part if memory suffices.
const PART: u64 = 16 << 20;

/// The most buffers, each with a part that is read or sent.
const MOST_BUFFERS: u64 = 8;

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// A file to write.
#[derive(Clone, Debug)]
pub(crate) struct BucketFile {
    /// The name below the prefix. One that ends with `/` is left out by stores for which it is that of a directory.
    pub(crate) name: String,
    pub(crate) content: Arc<dyn Content>,
}

impl BucketFile {
    /// Whether it has the name of a directory.
    pub(crate) fn is_of_directory(&self) -> bool {
        self.name.ends_with('/')
    }
}

/// What became of files.
#[derive(Debug, Default)]
pub(crate) struct WrittenFiles {
    /// The SHA-256 of each.
    pub(crate) sums: Vec<[u8; 32]>,
    /// How many were written; the bucket had the others.
    pub(crate) written: usize,
    /// How many the store does not keep.
    pub(crate) left_out: usize,
}

/// The buffers of parts: a quarter of the memory, or one.
#[derive(Debug)]
pub(super) struct PartBuffers {
    part: u64,
    number: u64,
    _memory: Reservation,
}

impl PartBuffers {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let quarter = budget.capacity() / 4;
        let part = (quarter / 4).clamp(LEAST_PART, PART);
        let number = (quarter / part).clamp(1, MOST_BUFFERS);
        let memory = budget.account(MemoryClass::Spans, part * number);
        budget.reclaim();
        Self { part, number, _memory: memory }
    }
}

/// What is written, and what it needs.
pub(super) struct Upload<'a> {
    pub(super) client: &'a BucketClient,
    pub(super) lock: &'a BucketLock,
    pub(super) buffers: &'a PartBuffers,
    pub(super) progress: &'a Progress,
}

/// A file that is being written.
struct StartedFile {
    name: String,
    size: u64,
    /// What the bucket had under its name.
    before: Option<BucketObject>,
    /// Known when its last byte was read.
    sha256: OnceLock<[u8; 32]>,
    upload: Option<StartedUpload>,
    /// The pieces that were not sent yet.
    left: AtomicUsize,
}

/// An upload in parts.
struct StartedUpload {
    id: String,
    /// The entity tags of the parts that were sent.
    tags: Mutex<Vec<String>>,
}

/// Bytes to send: all of a file, or a part of it.
struct FilePiece {
    file: Arc<StartedFile>,
    /// From 0 on.
    number: usize,
    bytes: Vec<u8>,
}

/// Nothing more is sent; the reason is in [`Sending::failed`].
struct Stopped;

/// What the threads share.
struct Sending {
    pieces: Mutex<Receiver<FilePiece>>,
    /// Buffers for the next pieces.
    free: Sender<Vec<u8>>,
    failed: Mutex<Option<BucketError>>,
    left_out: AtomicUsize,
}

impl Sending {
    fn fail(&self, error: BucketError) -> Stopped {
        self.failed.lock().get_or_insert(error);
        Stopped
    }
}

/// The side of the thread that reads.
struct Outgoing<'a> {
    pieces: Sender<FilePiece>,
    free: Receiver<Vec<u8>>,
    sending: &'a Sending,
}

impl Upload<'_> {
    /// Writes the files that differ from those in the bucket.
    pub(super) fn write(&self, files: &[BucketFile]) -> Result<WrittenFiles, BucketError> {
        let ((pieces, receiver), (free, freed)) = (channel(), channel());
        for _ in 0..self.buffers.number {
            free.send(Vec::new()).ok();
        }
        let sending =
            Sending { pieces: Mutex::new(receiver), free, failed: Mutex::default(), left_out: AtomicUsize::new(0) };
        let written = thread::scope(|scope| {
            let outgoing = Outgoing { pieces, free: freed, sending: &sending };
            for _ in 0..self.buffers.number {
                let thread = thread::Builder::new().name("kpackfs-upload".to_owned());
                let started = thread.spawn_scoped(scope, || self.send_all(&sending));
                started.map_err(|error| sending.fail(self.named("", ThreadError(error))))?;
            }
            let mut all = WrittenFiles::default();
            for file in files {
                let (sum, is_written) = self.put(file, &outgoing)?;
                all.sums.push(sum);
                all.written += usize::from(is_written);
            }
            Ok(all)
        });
        match (written, sending.failed.into_inner()) {
            (Ok(written), None) => {
                let left_out = sending.left_out.into_inner();
                Ok(WrittenFiles { written: written.written - left_out, left_out, ..written })
            }
            (_, Some(error)) => Err(error),
            (Err(Stopped), None) => Err(self.named("", BucketProblem::NotKept)),
        }
    }

    fn named(&self, name: &str, problem: impl Into<BucketProblem>) -> BucketError {
        problem.into().at(self.client.shown(name))
    }

    /// Writes a file unless the bucket has it.
    fn put(&self, file: &BucketFile, outgoing: &Outgoing<'_>) -> Result<([u8; 32], bool), Stopped> {
        let (name, size, sending) = (&*file.name, file.content.size(), outgoing.sending);
        let failed = |problem| sending.fail(self.named(name, problem));
        let _named = self.progress.at(|| name.to_owned());
        let before = self.client.head(name).map_err(failed)?;
        let known = self.lock.written(name).filter(|it| it.size == size);
        // As long as an object has the tag with which it was written, it has those bytes.
        if let Some(known) =
            known.filter(|it| before.as_ref().is_some_and(|now| (now.size, &now.tag) == (size, &it.tag)))
        {
            let sum = sum_of(&FileSum::new(FileDigest::Sha256), &*file.content).map_err(failed)?;
            if hex(&sum) == known.sha256 {
                self.progress.advance(size);
                return Ok((sum, false));
            }
        }
        let pieces = size.div_ceil(self.buffers.part).max(1);
        if pieces > MOST_PARTS {
            return Err(failed(BucketProblem::TooLarge { part: self.buffers.part }));
        }
        let upload = if pieces == 1 { None } else { Some(self.begin(name).map_err(|error| sending.fail(error))?) };
        let (name, sha256, left) = (name.to_owned(), OnceLock::new(), AtomicUsize::new(to_usize(pieces)));
        let started = Arc::new(StartedFile { name, size, before, sha256, upload, left });
        Ok((self.read(&started, &*file.content, outgoing)?, true))
    }

    /// Begins an upload in parts. Without parts, an upload that is not in the statement takes no room.
    fn begin(&self, name: &str) -> Result<StartedUpload, BucketError> {
        let id = self.client.begin(name).map_err(|problem| self.named(name, problem))?;
        self.lock.change(|statement| drop(statement.uploads.insert(id.clone(), name.to_owned())))?;
        Ok(StartedUpload { id, tags: Mutex::default() })
    }

    /// Reads a file, and hands over its pieces. Returns its SHA-256.
    fn read(
        &self,
        file: &Arc<StartedFile>,
        content: &dyn Content,
        outgoing: &Outgoing<'_>,
    ) -> Result<[u8; 32], Stopped> {
        let failed = |problem: ReadError| outgoing.sending.fail(self.named(&file.name, problem));
        let sum = FileSum::new(FileDigest::Sha256);
        let mut passing = Some(sum.pass(content));
        let mut reader = content.reader(0);
        let mut left = file.size;
        for number in 0.. {
            let mut bytes = outgoing.free.recv().map_err(|_| Stopped)?;
            if outgoing.sending.failed.lock().is_some() {
                return Err(Stopped);
            }
            bytes.resize(to_usize(left.min(self.buffers.part)), 0);
            for step in bytes.chunks_mut(STEP) {
                reader.read(step).map_err(failed)?;
                if let Some(passing) = &mut passing {
                    passing.take(step);
                }
            }
            left -= bytes.len() as u64;
            // Before the last piece is handed over, whose sender makes the object.
            if left == 0 {
                passing.take().into_iter().for_each(PassingSum::finish);
                let sum =
                    sum_of(&sum, content).map_err(|problem| outgoing.sending.fail(self.named(&file.name, problem)))?;
                file.sha256.set(sum).ok();
            }
            outgoing.pieces.send(FilePiece { file: Arc::clone(file), number, bytes }).map_err(|_| Stopped)?;
            if left == 0 {
                break;
            }
        }
        file.sha256.get().copied().ok_or(Stopped)
    }

    /// Sends pieces until there are no more.
    fn send_all(&self, sending: &Sending) {
        loop {
            let next = sending.pieces.lock().recv();
            let Ok(piece) = next else { return };
            if sending.failed.lock().is_none()
                && let Err(error) = self.send(&piece, sending)
            {
                sending.fail(error);
            }
            sending.free.send(piece.bytes).ok();
        }
    }

    /// Sends a piece. After the last one of a file, the bucket has that.
    fn send(&self, FilePiece { file, number, bytes }: &FilePiece, sending: &Sending) -> Result<(), BucketError> {
        let failed = |problem| self.named(&file.name, problem);
        match &file.upload {
            None => drop(self.client.put(&file.name, bytes, Condition::None).map_err(failed)?),
            Some(upload) => {
                let tag = self.client.put_part(&file.name, &upload.id, number + 1, bytes).map_err(failed)?;
                let mut tags = upload.tags.lock();
                let room = tags.len().max(number + 1);
                tags.resize(room, String::new());
                tags.iter_mut().skip(*number).take(1).for_each(|place| place.clone_from(&tag));
            }
        }
        self.progress.advance(bytes.len() as u64);
        if file.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let is_left_out = !self.finish(file)?;
            sending.left_out.fetch_add(usize::from(is_left_out), Ordering::AcqRel);
        }
        Ok(())
    }

    /// Makes an object of the parts of a file, sees that the bucket has it, and notes that. `false` if the store keeps no object with such a
    /// name.
    fn finish(&self, file: &StartedFile) -> Result<bool, BucketError> {
        let failed = |problem| self.named(&file.name, problem);
        let mut gone = None;
        if let Some(upload) = &file.upload {
            let tags = upload.tags.lock().clone();
            match self.client.complete(&file.name, &upload.id, &tags) {
                // A request that was repeated may have been carried out the first time.
                Err(problem) if problem.is_status(404) => gone = Some(problem),
                completed => completed.map_err(failed)?,
            }
        }
        let now = self.client.head(&file.name).map_err(failed)?;
        if let Some(problem) = gone.filter(|_| now == file.before) {
            return Err(failed(problem));
        }
        let Some(now) = now.filter(|now| now.size == file.size) else {
            return if file.name.ends_with('/') { Ok(false) } else { Err(failed(BucketProblem::NotKept)) };
        };
        let sha256 = file.sha256.get().map(|sum| hex(sum)).unwrap_or_default();
        let written = WrittenObject { size: now.size, sha256, tag: now.tag };
        let note = |statement: &mut BucketStatement| drop(statement.files.insert(file.name.clone(), written));
        match &file.upload {
            None => self.lock.note(note),
            Some(upload) => self.lock.change(|statement| {
                statement.uploads.remove(&upload.id);
                note(statement);
            })?,
        }
        Ok(true)
    }
}

/// A digest as SHA-256.
fn sum_of(sum: &FileSum, content: &dyn Content) -> Result<[u8; 32], BucketProblem> {
    sum.of(content)?.first_chunk().copied().ok_or(BucketProblem::NotKept)
}
