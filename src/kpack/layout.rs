//! An archive as a rope.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rocm_kpack::{Blob, HEADER_SIZE, Toc, TocEntry, VERSION, header};

use super::frame::{Frame, FrameContent};
use super::{Compression, toc_key};
use crate::rope::{Content, Make, ReadError, Rope, Segment};
use crate::target::TargetId;

/// One code object of an archive, under the name by which a loader asks for it.
#[derive(Clone, Debug)]
pub struct ArchiveEntry {
    /// Number of the binary; entries are sorted by it, and then by wrapper.
    pub binary: usize,
    /// The binary's name.
    pub kernel_name: Arc<str>,
    /// The wrapper's index in the binary.
    pub wrapper: usize,
    /// The code object; its own target may be less specific than the archive's.
    pub frame: Arc<Frame>,
}

/// All code objects of a group for one target.
#[derive(Debug)]
pub struct Archive {
    group: String,
    target: TargetId,
    compression: Compression,
    entries: Vec<ArchiveEntry>,
    made: Mutex<Option<Arc<dyn Content>>>,
}

impl Archive {
    /// An archive of these code objects, in this order.
    pub fn new(group: &str, target: TargetId, compression: Compression, entries: Vec<ArchiveEntry>) -> Self {
        Self { group: group.to_owned(), target, compression, entries, made: Mutex::new(None) }
    }

    /// The target that the archive is for.
    pub fn target(&self) -> &TargetId {
        &self.target
    }

    /// The code objects in the order of their ordinals.
    pub fn entries(&self) -> &[ArchiveEntry] {
        &self.entries
    }

    /// How they are stored.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes of the code objects when they are not compressed.
    pub fn original_size(&self) -> u64 {
        self.entries.iter().map(|entry| entry.frame.object.content.size()).sum()
    }

    /// What stands before and behind the code objects when these take `lengths` bytes each: header (with the count of
    /// frames, if there is one) and table of contents.
    pub fn frame_around(&self, lengths: &[u64]) -> (Vec<u8>, Vec<u8>) {
        let mut toc = self.toc();
        let end = match self.compression {
            Compression::None => {
                let mut offset = HEADER_SIZE;
                let blobs = lengths.iter().map(|&size| {
                    offset += size;
                    Blob { offset: offset - size, size }
                });
                toc.blobs = Some(blobs.collect());
                offset
            }
            Compression::Zstd(_) => {
                let size = 4 + lengths.iter().map(|length| 4 + length).sum::<u64>();
                toc.zstd_offset = Some(HEADER_SIZE);
                toc.zstd_size = Some(size);
                HEADER_SIZE + size
            }
        };
        let mut header = header(end);
        if let Compression::Zstd(_) = self.compression {
            header.extend(u32::try_from(lengths.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        (header, toc.encode())
    }

    fn toc(&self) -> Toc {
        let target = self.target.to_string();
        let mut toc = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (ordinal, entry) in self.entries.iter().enumerate() {
            let original_size = entry.frame.object.content.size();
            let described = TocEntry { kind: "hsaco".to_owned(), ordinal: ordinal as u64, original_size };
            let key = toc_key(&entry.kernel_name, entry.wrapper);
            toc.entry(key).or_default().insert(target.clone(), described);
        }
        Toc {
            format_version: VERSION,
            group_name: self.group.clone(),
            gfx_arch_family: target.clone(),
            gfx_arches: vec![target],
            compression_scheme: self.compression.scheme().name().to_owned(),
            zstd_offset: None,
            zstd_size: None,
            blobs: None,
            toc,
        }
    }

    fn rope(&self) -> Result<Rope, ReadError> {
        let lengths = match self.compression {
            Compression::None => self.entries.iter().map(|entry| entry.frame.object.content.size()).collect(),
            Compression::Zstd(_) => self.frame_lengths()?,
        };
        let (header, toc) = self.frame_around(&lengths);
        let mut segments = vec![Segment::literal(header)];
        for (entry, &length) in self.entries.iter().zip(&lengths) {
            if let Compression::None = self.compression {
                segments.push(Segment::whole(Arc::clone(&entry.frame.object.content)));
            } else {
                segments.push(Segment::literal(length_field(length)?));
                segments.push(Segment::whole(Arc::new(FrameContent { frame: Arc::clone(&entry.frame), length })));
            }
        }
        segments.push(Segment::literal(toc));
        Rope::new(segments)
    }

    fn frame_lengths(&self) -> Result<Vec<u64>, ReadError> {
        make_together(&[self], &AtomicU64::new(0))?;
        let unknown = || ReadError::damaged(&Arc::from("archive"), "a frame was not made");
        self.entries.iter().map(|entry| entry.frame.known_length().ok_or_else(unknown)).collect()
    }
}

/// Makes the frames of several archives whose length is not known yet, on all cores: the code objects of one compressed
/// bundle together, so that it is decompressed once, and the largest work first. Adds the bytes that are compressed to
/// `done`.
pub fn make_together(archives: &[&Archive], done: &AtomicU64) -> Result<(), ReadError> {
    let mut work = HashMap::<_, Vec<&Arc<Frame>>>::new();
    let mut seen = HashSet::new();
    let compressed = archives.iter().filter(|archive| archive.compression != Compression::None);
    for (position, entry) in compressed.flat_map(|archive| &archive.entries).enumerate() {
        let frame = &entry.frame;
        if frame.known_length().is_none() && seen.insert(Arc::as_ptr(frame)) {
            let key = frame.object.bundle.as_ref().map_or(Err(position), |bundle| Ok(bundle.id()));
            work.entry(key).or_default().push(frame);
        }
    }
    let cost = |frames: &[&Arc<Frame>]| -> u64 {
        let bundle = frames.first().and_then(|frame| frame.object.bundle.as_ref());
        frames.iter().map(|frame| frame.object.content.size()).sum::<u64>() + bundle.map_or(0, |it| it.size() / 4)
    };
    let mut work: Vec<_> = work.into_values().collect();
    work.sort_by_cached_key(|frames| Reverse(cost(frames)));
    work.par_iter().with_max_len(1).try_for_each(|frames| {
        // Held until all of its code objects are compressed.
        let bundle = frames.first().and_then(|frame| frame.object.bundle.as_ref());
        let _held = bundle.map(|bundle| bundle.decompressed()).transpose()?;
        for frame in frames {
            frame.bytes()?;
            done.fetch_add(frame.object.content.size(), Ordering::Relaxed);
        }
        if let (Some(bundle), true) = (bundle, archives.len() > 1) {
            // Everything that is wanted of it has been made.
            bundle.forget();
        }
        Ok(())
    })
}

/// The length of a frame as it is written before it.
pub fn length_field(length: u64) -> Result<[u8; 4], ReadError> {
    let too_long = |_| ReadError::damaged(&Arc::from("archive"), "a code object takes 4 GiB or more when compressed");
    u32::try_from(length).map(u32::to_le_bytes).map_err(too_long)
}

impl Make for Archive {
    fn made(&self) -> Option<Arc<dyn Content>> {
        // Without compression nothing has to be made.
        match self.compression {
            Compression::None => self.make().ok(),
            Compression::Zstd(_) => match self.made.try_lock() {
                Ok(made) => made.clone(),
                Err(_) => None,
            },
        }
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = &*made {
            return Ok(Arc::clone(content));
        }
        let content: Arc<dyn Content> = Arc::new(self.rope()?);
        *made = Some(Arc::clone(&content));
        Ok(content)
    }
}
