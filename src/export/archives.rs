//! Writes many archives side by side, so that a compressed bundle is decompressed once for all of them and no frame has
//! to be kept.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::{ExportError, Job, Progress, at, copy, create, finish, reading};
use crate::kpack::{Archive, Compression, Frame, length_field};
use crate::rope::{Make, ReadError};

/// Uncompressed bytes that are compressed before anything is written. More would take more memory, less would let cores
/// wait for each other more often.
const BATCH: u64 = 128 << 20;

/// An archive that is being written.
struct Output<'a> {
    job: &'a Job<'a>,
    archive: &'a Archive,
    file: File,
    lengths: Vec<u64>,
}

/// The code objects of one wrapper, and the outputs that want them.
struct Step {
    frames: Vec<(usize, Arc<Frame>)>,
    size: u64,
}

pub(super) fn write(streams: &[(&Job<'_>, &Arc<Archive>)], progress: &Progress) -> Result<(), ExportError> {
    let mut outputs = Vec::new();
    for (job, archive) in streams {
        let mut file = create(&job.path)?;
        if archive.compression() == Compression::None {
            let content = archive.make().map_err(reading(&job.path))?;
            copy(&*content, &mut file, &job.path, progress)?;
            finish(&job.path, &job.attributes)?;
            continue;
        }
        let (placeholder, _) = archive.frame_around(&[]);
        file.write_all(&placeholder).map_err(at(&job.path))?;
        outputs.push(Output { job, archive, file, lengths: Vec::new() });
    }
    let mut batch = Vec::new();
    let mut size = 0;
    for step in steps(&outputs) {
        size += step.size;
        batch.push(step);
        if size >= BATCH {
            write_batch(&mut outputs, &std::mem::take(&mut batch), progress)?;
            size = 0;
        }
    }
    write_batch(&mut outputs, &batch, progress)?;
    outputs.into_iter().try_for_each(Output::finish)
}

/// Every archive lists its code objects by binary and wrapper in the same order, so going through them in that order
/// appends to each archive in its own.
fn steps(outputs: &[Output<'_>]) -> Vec<Step> {
    let mut steps = BTreeMap::new();
    for (number, output) in outputs.iter().enumerate() {
        for entry in output.archive.entries() {
            let step = steps.entry((entry.binary, entry.wrapper)).or_insert(Step { frames: Vec::new(), size: 0 });
            step.size += entry.frame.object.content.size();
            step.frames.push((number, Arc::clone(&entry.frame)));
        }
    }
    steps.into_values().collect()
}

fn write_batch(outputs: &mut [Output<'_>], batch: &[Step], progress: &Progress) -> Result<(), ExportError> {
    let compress = |step: &Step| {
        // Held until all of its code objects are compressed.
        let bundles = step.frames.iter().filter_map(|(_, frame)| frame.object.bundle.as_ref());
        let _held: Vec<_> = bundles.map(|bundle| bundle.decompressed()).collect::<Result<_, _>>()?;
        let frames = step.frames.iter().map(|(_, frame)| {
            let bytes = frame.bytes();
            progress.done.fetch_add(frame.object.content.size(), Ordering::Relaxed);
            bytes
        });
        let frames = frames.collect::<Result<Vec<_>, ReadError>>();
        // Unless wrappers share a bundle, nobody asks for any of this again.
        for (_, frame) in &step.frames {
            frame.forget();
        }
        frames
    };
    let made: Vec<_> = batch.par_iter().with_max_len(1).map(compress).collect();
    for (step, frames) in batch.iter().zip(made) {
        let first = step.frames.first().and_then(|&(number, _)| outputs.get(number));
        let path = first.map_or(Path::new(""), |output| &output.job.path);
        let frames = frames.map_err(reading(path))?;
        for ((number, _), frame) in step.frames.iter().zip(frames) {
            if let Some(output) = outputs.get_mut(*number) {
                output.append(&frame)?;
            }
        }
    }
    Ok(())
}

impl Output<'_> {
    fn append(&mut self, frame: &[u8]) -> Result<(), ExportError> {
        let path = &self.job.path;
        let field = length_field(frame.len() as u64).map_err(reading(path))?;
        self.file.write_all(&field).and_then(|()| self.file.write_all(frame)).map_err(at(path))?;
        self.lengths.push(frame.len() as u64);
        Ok(())
    }

    /// Writes the table of contents, and the header that says where it is.
    fn finish(mut self) -> Result<(), ExportError> {
        let (header, toc) = self.archive.frame_around(&self.lengths);
        let path = &self.job.path;
        self.file.write_all(&toc).and_then(|()| self.file.write_all_at(&header, 0)).map_err(at(path))?;
        drop(self.file);
        finish(path, &self.job.attributes)
    }
}
