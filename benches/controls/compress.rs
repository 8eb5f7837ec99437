//! C3: the cost of only decoding bundles and compressing code objects.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use kpackfs::binary::FatBinary;
use kpackfs::resources::Resources;
use kpackfs::rope::Content;
use kpackfs::source::{EntryKind, Input};
use serde::Serialize;
use zstd::bulk::{Compressor, Decompressor};

use crate::clock::timed;

/// Memory for kpackfs, which here only finds the bundles.
const BUDGET: u64 = 64 << 20;

/// The magics of plain and compressed bundles.
const PLAIN: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";

/// The largest size of a bundle's list of code objects, in bytes.
const LIST: usize = 64 << 10;

/// Finds all code objects of an input by kpackfs' own scan, decodes their bundles and compresses them.
#[derive(Debug, Args)]
pub(crate) struct Compress {
    /// A wheel or install tree
    input: PathBuf,
    /// Code objects for this processor only
    #[arg(long)]
    processor: Option<String>,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = kpackfs::kpack::DEFAULT_LEVEL)]
    level: i32,
}

/// What was decoded and compressed, and the CPU time of all threads together.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Compressed {
    objects: u64,
    bytes: u64,
    frame_bytes: u64,
    compress_seconds: f64,
    bundles: u64,
    decoded_bytes: u64,
    decode_seconds: f64,
    /// Wall time, including reading.
    seconds: f64,
}

/// Where a bundle is.
struct Bundle {
    content: Arc<dyn Content>,
    offset: u64,
}

impl Compress {
    pub(crate) fn run(&self) -> anyhow::Result<Compressed> {
        let resources = Resources::new(BUDGET);
        let input = Input::open(&self.input, &resources)?;
        let bundles = bundles(&input)?;
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        let mut total = Compressed::default();
        thread::scope(|scope| {
            let work = || {
                let mut bench = Bench::new(self)?;
                while let Some(bundle) = bundles.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bench.bundle(bundle)?;
                }
                anyhow::Ok(bench.done)
            };
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                total.add(&thread.join().ok().context("a thread panicked")??);
            }
            anyhow::Ok(())
        })?;
        total.seconds = start.elapsed().as_secs_f64();
        Ok(total)
    }
}

/// The bundles of an input, each once.
fn bundles(input: &Input) -> anyhow::Result<Vec<Bundle>> {
    let mut bundles = Vec::new();
    for entry in &input.entries {
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let Some(binary) = FatBinary::scan(content)? else { continue };
        let mut offsets: Vec<_> = binary.wrappers().iter().map(|wrapper| wrapper.bundle).collect();
        offsets.sort_unstable();
        offsets.dedup();
        bundles.extend(offsets.into_iter().map(|offset| Bundle { content: Arc::clone(content), offset }));
    }
    Ok(bundles)
}

/// Buffers and contexts that a thread uses for all of its bundles.
struct Bench<'a> {
    options: &'a Compress,
    compressor: Compressor<'static>,
    decoder: Decompressor<'static>,
    original: Vec<u8>,
    decoded: Vec<u8>,
    frame: Vec<u8>,
    done: Compressed,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Compress) -> anyhow::Result<Self> {
        let mut decoder = Decompressor::new()?;
        decoder.window_log_max(31)?;
        Ok(Self {
            options,
            compressor: Compressor::new(options.level)?,
            decoder,
            original: Vec::new(),
            decoded: Vec::new(),
            frame: Vec::new(),
            done: Compressed::default(),
        })
    }

    fn bundle(&mut self, bundle: &Bundle) -> anyhow::Result<()> {
        let Bundle { content, offset } = bundle;
        let mut head = vec![0; LIST.min(usize::try_from(content.size() - offset)?)];
        content.read_at(*offset, &mut head)?;
        if head.starts_with(COMPRESSED) {
            let frame = frame(&head)?;
            self.original.resize(usize::try_from(frame.length)?, 0);
            content.read_at(offset + frame.start, &mut self.original)?;
            self.decoded.clear();
            self.decoded.reserve(usize::try_from(frame.size)?);
            let (result, time) = timed(|| self.decoder.decompress_to_buffer(&self.original, &mut self.decoded));
            self.done.decoded_bytes += result? as u64;
            self.done.decode_seconds += time.as_secs_f64();
            self.done.bundles += 1;
            let decoded = std::mem::take(&mut self.decoded);
            for object in objects(&decoded)? {
                let end = object.offset + object.size;
                let bytes = decoded.get(usize::try_from(object.offset)?..usize::try_from(end)?).context("object")?;
                self.object(&object.target, bytes)?;
            }
            self.decoded = decoded;
            return Ok(());
        }
        self.done.bundles += 1;
        for object in objects(&head)? {
            let mut original = std::mem::take(&mut self.original);
            original.resize(usize::try_from(object.size)?, 0);
            content.read_at(offset + object.offset, &mut original)?;
            self.object(&object.target, &original)?;
            self.original = original;
        }
        Ok(())
    }

    fn object(&mut self, target: &str, bytes: &[u8]) -> anyhow::Result<()> {
        // Features follow the processor: gfx90a:xnack-
        let processor = target.split(':').next();
        if self.options.processor.is_some() && self.options.processor.as_deref() != processor {
            return Ok(());
        }
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        let (result, time): (_, Duration) = timed(|| self.compressor.compress_to_buffer(bytes, &mut self.frame));
        self.done.frame_bytes += result? as u64;
        self.done.compress_seconds += time.as_secs_f64();
        self.done.bytes += bytes.len() as u64;
        self.done.objects += 1;
        Ok(())
    }
}

impl Compressed {
    fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.frame_bytes += other.frame_bytes;
        self.compress_seconds += other.compress_seconds;
        self.bundles += other.bundles;
        self.decoded_bytes += other.decoded_bytes;
        self.decode_seconds += other.decode_seconds;
    }
}

/// The zstd frame in a compressed bundle. Only the forms that occur in real inputs are supported: versions 2 and 3,
/// zstd.
struct Frame {
    start: u64,
    length: u64,
    size: u64,
}

fn frame(head: &[u8]) -> anyhow::Result<Frame> {
    let version = number::<2>(head, 4)?;
    anyhow::ensure!(number::<2>(head, 6)? == 1, "a bundle is not compressed with zstd");
    let (start, total, size) = match version {
        2 => (24, number::<4>(head, 8)?, number::<4>(head, 12)?),
        3 => (32, number::<8>(head, 8)?, number::<8>(head, 16)?),
        other => anyhow::bail!("a compressed bundle has version {other}"),
    };
    Ok(Frame { start, length: total - start, size })
}

struct Object {
    offset: u64,
    size: u64,
    target: String,
}

/// The code objects that a plain bundle lists: u64 count; for each u64 offset, u64 size, u64 length of a triple, triple.
fn objects(bundle: &[u8]) -> anyhow::Result<Vec<Object>> {
    anyhow::ensure!(bundle.starts_with(PLAIN), "no bundle");
    let count = number::<8>(bundle, PLAIN.len())?;
    let mut at = PLAIN.len() + 8;
    let mut objects = Vec::new();
    for _ in 0..count {
        let (offset, size, length) =
            (number::<8>(bundle, at)?, number::<8>(bundle, at + 8)?, number::<8>(bundle, at + 16)?);
        let end = at + 24 + usize::try_from(length)?;
        let triple = std::str::from_utf8(bundle.get(at + 24..end).context("a bundle's list is too long")?)?;
        // hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-
        let target = triple.rsplit_once("--").map_or(triple, |(_, target)| target);
        if size > 0 && !triple.starts_with("host") {
            objects.push(Object { offset, size, target: target.to_owned() });
        }
        at = end;
    }
    Ok(objects)
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> anyhow::Result<u64> {
    let field: &[u8; BYTES] = bytes.get(at..).and_then(|rest| rest.first_chunk()).context("a header is truncated")?;
    Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
