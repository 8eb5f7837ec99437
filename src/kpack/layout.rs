//! An archive as a rope, and bounds of its size before its code objects are compressed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use once_cell::sync::OnceCell;
use rocm_kpack::{Blob, HEADER_SIZE, Toc, TocEntry, VERSION, header};

use super::content::ArchiveBytes;
use super::frame::Frame;
use super::jobs::BundleJobs;
use super::read_ahead::ReadAhead;
use super::{Compression, make_archive, toc_key};
use crate::gpu::TargetId;
use crate::index::RecordKind;
use crate::rope::{Content, Identity, Materialize, ReadError, Rope, Segment, SizeBounds, Xxh3, in_pieces, read_all};

/// One code object of an archive, under the name that a loader looks up.
#[derive(Clone, Debug)]
pub struct ArchiveEntry {
    /// Number of the binary; entries are sorted by it, and then by wrapper.
    pub binary: usize,
    /// The binary's name.
    pub kernel_name: Arc<str>,
    /// The wrapper's index in the binary. `None` for code without a wrapper, which has the bare name.
    pub wrapper: Option<usize>,
    /// The code object; its own target may be less specific than the archive's.
    pub frame: Arc<Frame>,
}

impl ArchiveEntry {
    /// Its name in the table of contents.
    pub fn key(&self) -> String {
        match self.wrapper {
            Some(wrapper) => toc_key(&self.kernel_name, wrapper),
            None => self.kernel_name.to_string(),
        }
    }
}

/// All code objects of a group for one target.
#[derive(Debug)]
pub struct ArchiveRope {
    group: String,
    target: TargetId,
    compression: Compression,
    entries: Vec<ArchiveEntry>,
    /// The ordinal of each entry.
    ordinals: Vec<usize>,
    /// By ordinal.
    pub(crate) objects: Vec<Arc<Frame>>,
    pub(super) jobs: Arc<BundleJobs>,
    made: OnceCell<Arc<dyn Content>>,
    is_being_made: AtomicBool,
    /// The key of the recorded lengths of its frames. Empty until they were looked up.
    lengths_key: OnceLock<Option<Identity>>,
}

impl ArchiveRope {
    /// An archive of these code objects in this order. The jobs make its frames.
    ///
    /// Entries of one binary with the same frame have one ordinal. They are those of wrappers that lead to one bundle: a
    /// join puts these wrappers on one bundle again. Equal bundles have frames of their own, because HIP has a module for
    /// each bundle (`hip_fatbin.cpp` of CLR), and so device variables.
    pub fn new(
        group: &str,
        target: TargetId,
        compression: Compression,
        entries: Vec<ArchiveEntry>,
        jobs: &Arc<BundleJobs>,
    ) -> Self {
        let count = entries.len();
        let (mut objects, mut known) = (Vec::with_capacity(count), HashMap::with_capacity(count));
        let ordinal = |entry: &ArchiveEntry| {
            *known.entry((entry.binary, entry.frame.id())).or_insert_with(|| {
                objects.push(Arc::clone(&entry.frame));
                objects.len() - 1
            })
        };
        let archive = Self {
            group: group.to_owned(),
            target,
            compression,
            ordinals: entries.iter().map(ordinal).collect(),
            objects,
            entries,
            jobs: Arc::clone(jobs),
            made: OnceCell::new(),
            is_being_made: AtomicBool::new(false),
            lengths_key: OnceLock::new(),
        };
        archive.frames().filter(|frame| frame.object.is_packed()).for_each(|frame| jobs.register(frame));
        archive
    }

    /// The target that the archive is for.
    pub fn target(&self) -> &TargetId {
        &self.target
    }

    /// Its names, each with its code object, in the order of the ordinals.
    pub fn entries(&self) -> &[ArchiveEntry] {
        &self.entries
    }

    /// The frames that have to be made before it can be read, in archive order.
    pub(super) fn frames(&self) -> impl Iterator<Item = &Arc<Frame>> {
        let is_compressed = self.compression != Compression::None;
        self.objects.iter().filter(move |_| is_compressed)
    }

    /// The entries whose code objects are compressed.
    pub(super) fn compressed(&self) -> &[ArchiveEntry] {
        if self.compression == Compression::None { &[] } else { &self.entries }
    }

    /// Whether its size needs no work.
    pub fn has_plain_size(&self) -> bool {
        self.compressed().is_empty()
    }

    /// The lengths of its frames in archive order, if all are known. Empty without compression.
    pub fn lengths(&self) -> Option<Vec<u64>> {
        self.frames().map(|frame| frame.known_length()).collect()
    }

    /// Loads the recorded lengths of its frames at the first call. Returns their key in the index.
    pub(super) fn load_lengths(&self) -> Option<&Identity> {
        let load = || {
            self.frames().next()?;
            let mut identity = Identity::describe("frames");
            for frame in self.frames() {
                identity.add(&frame.identity()?.0);
            }
            let identity = identity.finish();
            if let Some(lengths) = self.jobs.resources().index.get::<Vec<u64>>(RecordKind::Frames, &identity) {
                self.restore_lengths(&lengths);
            }
            Some(identity)
        };
        self.lengths_key.get_or_init(load).as_ref()
    }

    /// Records the lengths of its frames, if all are known.
    pub(super) fn save_lengths(&self) {
        let (Some(identity), Some(lengths)) = (self.load_lengths(), self.lengths()) else { return };
        let index = &self.jobs.resources().index;
        if index.get::<Vec<u64>>(RecordKind::Frames, identity).as_ref() != Some(&lengths) {
            index.put(RecordKind::Frames, identity, &lengths);
        }
    }

    /// Sets the lengths that the frames had in an earlier session, so that the archive's size is known before anything
    /// is compressed. `false` if these cannot be its lengths. If a frame turns out to have another length, reading it
    /// fails. The frame store is not asked, since that would read the heads of all its frames.
    pub fn restore_lengths(&self, lengths: &[u64]) -> bool {
        self.frames().count() == lengths.len()
            && self.frames().zip(lengths).all(|(frame, &length)| frame.restore_length(length))
    }

    /// The XXH3-128 of an entry's bytes in the archive: those of its frame, or of the code object without compression.
    pub fn stored_sum(&self, entry: &ArchiveEntry) -> Result<[u8; 16], ReadError> {
        let frame = &entry.frame;
        if let Some(sum) = frame.known_sum() {
            return Ok(sum);
        }
        let mut sum = Xxh3::default();
        if self.compression == Compression::None {
            read_all(&*frame.object.content, |piece| sum.update(piece))?;
            return Ok(frame.set_sum(sum.finish()));
        }
        let length = self.jobs.get(frame)?.length();
        let mut at = 0;
        let read = |piece: &mut [u8]| {
            self.jobs.read_at(frame, length, at, piece)?;
            at += piece.len() as u64;
            Ok::<_, ReadError>(())
        };
        let take = |piece: &[u8]| {
            sum.update(piece);
            Ok(())
        };
        in_pieces(length, read, take)?;
        Ok(frame.set_sum(sum.finish()))
    }

    /// Uncompressed bytes of all code objects.
    pub fn original_size(&self) -> u64 {
        self.objects.iter().map(|frame| frame.size()).sum()
    }

    /// Uncompressed bytes of the code objects that have been compressed. `None` unless the archive is being made.
    pub fn progress(&self) -> Option<u64> {
        if !self.is_being_made.load(Ordering::Relaxed) {
            return None;
        }
        let made = self.objects.iter().filter(|frame| frame.known_length().is_some());
        Some(made.map(|frame| frame.size()).sum())
    }

    /// The bytes before and after the code objects, if these take `lengths` bytes each: the header (with the count of
    /// frames, if compressed) and the table of contents.
    pub(super) fn frame_around(&self, lengths: &[u64]) -> (Vec<u8>, Vec<u8>) {
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
        for (entry, &ordinal) in self.entries.iter().zip(&self.ordinals) {
            let original_size = entry.frame.size();
            let described = TocEntry { kind: "hsaco".to_owned(), ordinal: ordinal as u64, original_size };
            toc.entry(entry.key()).or_default().insert(target.clone(), described);
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
        let Compression::Zstd(_) = self.compression else {
            let lengths: Vec<_> = self.objects.iter().map(|frame| frame.size()).collect();
            let (header, toc) = self.frame_around(&lengths);
            let objects = self.objects.iter().map(|frame| Segment::whole(Arc::clone(&frame.object.content)));
            return Rope::new([Segment::literal(header)].into_iter().chain(objects).chain([Segment::literal(toc)]));
        };
        self.load_lengths();
        if self.lengths().is_none() {
            make_archive(self)?;
        }
        let unknown = || ReadError::damaged(&Arc::from("archive"), "a frame was not made");
        let lengths = self.lengths().ok_or_else(unknown)?;
        let (header, toc) = self.frame_around(&lengths);
        let mut segments = vec![Segment::literal(header)];
        let (frames, jobs) = (self.frames().cloned().collect(), Arc::clone(&self.jobs));
        let ahead = ReadAhead::new(&lengths);
        let frames = Arc::new(FrameSequence { frames, lengths, jobs, ahead });
        for (number, (frame, &length)) in frames.frames.iter().zip(&frames.lengths).enumerate() {
            segments.push(Segment::literal(length_field(length)?));
            let (frames, frame) = (Arc::clone(&frames), Arc::clone(frame));
            segments.push(Segment::whole(Arc::new(FrameContent { frames, number, frame, length })));
        }
        segments.push(Segment::literal(toc));
        Rope::new(segments)
    }
}

/// The length field that precedes a frame.
fn length_field(length: u64) -> Result<[u8; 4], ReadError> {
    let too_long = |_| ReadError::damaged(&Arc::from("archive"), "a code object takes 4 GiB or more when compressed");
    u32::try_from(length).map(u32::to_le_bytes).map_err(too_long)
}

/// The frames of an archive in its order, with their lengths.
#[derive(Debug)]
struct FrameSequence {
    frames: Vec<Arc<Frame>>,
    lengths: Vec<u64>,
    jobs: Arc<BundleJobs>,
    ahead: ReadAhead,
}

impl FrameSequence {
    /// Prefetches the next frames if a sequential reader has reached one that is not made.
    fn read_ahead(&self, number: usize) {
        let Some(frame) = self.frames.get(number) else { return };
        let room = self.jobs.resources().frames.capacity();
        let next = self.ahead.next(number, room, || frame.made().is_some());
        self.jobs.prefetch(self.frames.get(next).unwrap_or_default());
    }
}

/// A frame as a part of an archive. It is created only when the length is known.
#[derive(Debug)]
struct FrameContent {
    frames: Arc<FrameSequence>,
    number: usize,
    frame: Arc<Frame>,
    length: u64,
}

impl Content for FrameContent {
    fn size(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.frames.read_ahead(self.number);
        self.frames.jobs.read_at(&self.frame, self.length, offset, buffer)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.frame.is_nonblocking(offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        self.frame.identity()
    }
}

impl Materialize for ArchiveRope {
    fn bounds(&self) -> SizeBounds {
        self.made().map_or_else(|| bounds_of(self), |content| SizeBounds::exact(content.size()))
    }

    fn made(&self) -> Option<Arc<dyn Content>> {
        if let Some(content) = self.made.get() {
            return Some(Arc::clone(content));
        }
        if self.is_being_made.load(Ordering::Relaxed) {
            return None;
        }
        // If all lengths are known, as they are without compression, building the rope costs no work.
        self.load_lengths();
        self.lengths().and_then(|_| self.make().ok())
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let make = || {
            let _being_made = BeingMade::new(&self.is_being_made);
            let is_compressed = self.compression != Compression::None;
            Ok(Arc::new(ArchiveBytes::new(self.rope()?, self.objects.clone(), is_compressed)) as Arc<dyn Content>)
        };
        self.made.get_or_try_init(make).cloned()
    }
}

/// Sets the flag that an archive is being made, and clears it on drop.
struct BeingMade<'a>(&'a AtomicBool);

impl<'a> BeingMade<'a> {
    fn new(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Relaxed);
        Self(flag)
    }
}

impl Drop for BeingMade<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Bytes before each frame: its length.
pub(super) const LENGTH_FIELD: u64 = 4;

/// What is known of an archive's size without compressing anything: each code object may be as compressible as any input can
/// be, or not at all. All other bytes depend on names and lengths.
fn bounds_of(archive: &ArchiveRope) -> SizeBounds {
    let (least, most): (Vec<_>, Vec<_>) =
        archive.frames().map(|frame| frame.bounds()).map(|length| (length.least, length.most)).unzip();
    let size = |lengths: &[u64]| {
        let (header, toc) = archive.frame_around(lengths);
        let frames = lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(LENGTH_FIELD + length));
        frames.saturating_add((header.len() + toc.len()) as u64)
    };
    SizeBounds { least: size(&least), most: size(&most) }
}
