//! Writes files to a bucket under their final names, several at a time: short ones at once, longer ones in parts.
//!
//! An object appears when its last part is there, so there is no incomplete one. An upload stands in the statement
//! before its first part.

use std::sync::{Arc, OnceLock};
use std::thread;

use anyhow::{Context, Error, bail};
use parking_lot::Mutex;

use super::Publication;
use super::client::Condition;
use super::error::is_status;
use super::lock::{BucketStatement, WrittenObject};
use crate::memory::{Budget, Reservation};
use crate::metrics::{MemoryClass, Progress};
use crate::rope::{Content, InPassing, to_usize};
use crate::split::{FileDigest, FileSum, hex};
use crate::threads::ThreadError;

/// The least size of a part, and their greatest number (Amazon S3 User Guide, "Amazon S3 multipart upload limits").
const LEAST_PART: u64 = 5 << 20;
const MOST_PARTS: u64 = 10_000;

/// The size of a part if memory suffices.
const PART: u64 = 16 << 20;

/// The most files that are written at a time.
const MOST_FILES: u64 = 8;

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

/// What became of a file.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) sha256: [u8; 32],
    pub(crate) fate: FileFate,
}

/// Whether a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFate {
    Written,
    /// The bucket had it.
    There,
    /// The store keeps no object with such a name.
    LeftOut,
}

/// The memory of parts: a quarter of all, or one part. Each file that is being written has one.
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
        let number = (quarter / part).clamp(1, MOST_FILES);
        let memory = budget.account(MemoryClass::Spans, part * number);
        budget.reclaim();
        Self { part, number, _memory: memory }
    }
}

impl Publication {
    /// Writes the files that differ from those in the bucket. Returns what became of each, in any order.
    pub(crate) fn write(&self, files: &[BucketFile], progress: &Progress) -> anyhow::Result<Vec<WrittenFile>> {
        let (queue, written, failed) = (Mutex::new(files.iter()), Mutex::new(Vec::new()), OnceLock::new());
        let work = || {
            let next = || queue.lock().next().filter(|_| failed.get().is_none());
            while let Some(file) = next() {
                match self.put(file, progress, || failed.get().is_some()) {
                    Ok(file) => written.lock().extend(file),
                    Err(error) => drop(failed.set(error)),
                }
            }
        };
        thread::scope(|scope| {
            for _ in files.iter().take(to_usize(self.buffers.number)) {
                let thread = thread::Builder::new().name("kpackfs-upload".to_owned());
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    failed.set(Error::from(ThreadError(error)).context(self.client.shown(""))).ok();
                }
            }
        });
        failed.into_inner().map_or(Ok(written.into_inner()), Err)
    }

    /// Writes a file unless the bucket has it. `None` if another one has failed meanwhile. An error names what it is about: the object, the
    /// statement, or what is read.
    fn put(
        &self,
        file: &BucketFile,
        progress: &Progress,
        is_over: impl Fn() -> bool,
    ) -> anyhow::Result<Option<WrittenFile>> {
        let (name, size, sum) = (file.name.clone(), file.content.size(), FileSum::new(FileDigest::Sha256));
        let (_named, shown) = (progress.at(|| file.name.clone()), || self.client.shown(&file.name));
        let before = self.client.head(&name).with_context(shown)?;
        // As long as an object has the tag with which it was written, it has those bytes.
        let is_known = |it: &WrittenObject| before.as_ref().is_some_and(|now| (now.size, &now.tag) == (size, &it.tag));
        if let Some(known) = self.lock.written(&name).filter(|it| it.size == size && is_known(it)) {
            let sha256 = sum_of(&sum, &*file.content)?;
            if hex(&sha256) == known.sha256 {
                progress.advance(size);
                return Ok(Some(WrittenFile { name, size, sha256, fate: FileFate::There }));
            }
        }
        let upload = if size > self.buffers.part { Some(self.begin_parts(file)?) } else { None };
        let mut passing = sum.pass(&*file.content);
        let take = |step: &[u8]| {
            passing.take(step);
            progress.advance(step.len() as u64);
            is_over()
        };
        let Some(tags) = self.send(file, upload.as_deref(), take)? else { return Ok(None) };
        passing.finish();
        let sha256 = sum_of(&sum, &*file.content)?;
        let completed = match &upload {
            Some(id) => self.client.complete(&name, id, &tags),
            None => Ok(()),
        };
        let now = self.client.head(&name).with_context(shown)?;
        match completed {
            // A request that was repeated may have been carried out the first time.
            Err(error) if is_status(&error, 404) && now != before => {}
            completed => completed.with_context(shown)?,
        }
        let fate = match now.filter(|now| now.size == size) {
            None if file.is_of_directory() => FileFate::LeftOut,
            None => bail!("{}: the store has taken it, and does not have it now; run the command again", shown()),
            Some(now) => {
                self.note(&name, WrittenObject { size, sha256: hex(&sha256), tag: now.tag }, upload.as_deref())?;
                FileFate::Written
            }
        };
        Ok(Some(WrittenFile { name, size, sha256, fate }))
    }

    /// Begins an upload in parts. Without parts, an upload that is not in the statement takes no room. Returns its ID.
    fn begin_parts(&self, BucketFile { name, content }: &BucketFile) -> anyhow::Result<String> {
        let (part, shown) = (self.buffers.part, || self.client.shown(name));
        if content.size().div_ceil(part) > MOST_PARTS {
            bail!(
                "{}: it needs more than 10,000 parts of {part} bytes, which are in memory; give more --memory",
                shown()
            );
        }
        let id = self.client.begin(name).with_context(shown)?;
        self.lock.change(|statement| drop(statement.uploads.insert(id.clone(), name.clone())))?;
        Ok(id)
    }

    /// Sends the bytes of a file, which `take` sees first. Returns the entity tags of its parts; `None` if `take` returns that it is over.
    fn send(
        &self,
        BucketFile { name, content }: &BucketFile,
        upload: Option<&str>,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> anyhow::Result<Option<Vec<String>>> {
        let (mut reader, mut left) = (content.reader(0), content.size());
        let (mut tags, mut bytes) = (Vec::new(), Vec::new());
        while tags.is_empty() || left > 0 {
            bytes.resize(to_usize(left.min(self.buffers.part)), 0);
            for step in bytes.chunks_mut(STEP) {
                reader.read(step)?;
                if take(step) {
                    return Ok(None);
                }
            }
            left -= bytes.len() as u64;
            let tag = match upload {
                Some(id) => self.client.put_part(name, id, tags.len() + 1, &bytes),
                None => self.client.put(name, &bytes, Condition::None),
            };
            tags.push(tag.with_context(|| self.client.shown(name))?);
        }
        Ok(Some(tags))
    }

    /// Notes a file that the bucket has, and that its upload is no longer there.
    fn note(&self, name: &str, written: WrittenObject, upload: Option<&str>) -> anyhow::Result<()> {
        let note = |statement: &mut BucketStatement| drop(statement.files.insert(name.to_owned(), written));
        match upload {
            None => {
                self.lock.note(note);
                Ok(())
            }
            Some(id) => self.lock.change(|statement| {
                statement.uploads.remove(id);
                note(statement);
            }),
        }
    }
}

/// A digest as SHA-256.
fn sum_of(sum: &FileSum, content: &dyn Content) -> anyhow::Result<[u8; 32]> {
    sum.of(content)?.first_chunk().copied().context("no SHA-256")
}
