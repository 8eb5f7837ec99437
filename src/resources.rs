//! Resources that all work on one input shares: counters, caches and buffers in one byte budget, the index, the frame
//! store, threads.

use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use crate::executor::Executor;
use crate::index::{FrameStore, Index};
use crate::memory::{Budget, ByteCache, Compressors, OpenStream, Pool, Pooled, kept_in_tables};
use crate::metrics::{Counter, Counters, Gauges, MemoryClass, MetricsSource, TransportState};

/// What is computed while something else is, for a command that will need it, and whether that reads URLs. A mount needs none of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkPolicy {
    /// The pass that planning makes over members of a wheel computes their SHA-256.
    pub hash_members: bool,
    /// The pass that splices a member computes the SHA-256 of the result.
    pub hash_spliced: bool,
    /// Each compressed bundle that is opened is decompressed to its end, so that damage behind the code that is needed, and
    /// a wrong checksum, are found.
    pub check_bundles: bool,
    /// Files are searched for all device code when planning scans them, while what was read of them is at hand. The pass that
    /// it makes over deflated members of a wheel keeps the offsets that this finds in their bytes.
    pub find: Option<FindOffsets>,
    /// What becomes of URLs.
    pub urls: UrlAccess,
}

/// What a command does with URLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlAccess {
    /// It refuses them, since it writes, or reads more of an input.
    #[default]
    Refused,
    /// It asks for ranges.
    Ranges,
    /// It asks for all of a file if the server has no ranges (`--download`).
    Whole,
}

/// The offsets in some bytes of things that have at most [`MAX_FOUND`] bytes.
pub type FindOffsets = fn(&[u8]) -> Vec<usize>;

/// Bytes of the longest thing that is looked for in passing.
pub const MAX_FOUND: usize = 24;

/// Resources that all work on one input shares.
#[derive(Debug)]
pub struct Resources {
    /// What is computed in passing.
    #[doc(hidden)]
    pub policy: WorkPolicy,
    /// What the work cost so far.
    #[doc(hidden)]
    pub counters: Counters,
    /// The memory budget that all of the following share.
    #[doc(hidden)]
    pub budget: Arc<Budget>,
    /// Inflated chunks of wheel members, by member number and chunk number.
    #[doc(hidden)]
    pub spans: ByteCache<(usize, usize), Arc<[u8]>>,
    /// Decompressed offload bundles, by the number given by [`Resources::next_id`].
    #[doc(hidden)]
    pub bundles: ByteCache<u64, Arc<Pooled<Vec<u8>>>>,
    /// Compressed code objects for which there is no room on disk, by the number given by [`Resources::next_id`].
    #[doc(hidden)]
    pub frames: ByteCache<u64, Arc<Vec<u8>>>,
    /// Compressed code objects on disk.
    #[doc(hidden)]
    pub store: FrameStore,
    /// What is known about the input from this session and others.
    #[doc(hidden)]
    pub index: Index,
    /// The memory into which bundles are decompressed.
    #[doc(hidden)]
    pub buffers: Pool<Vec<u8>>,
    /// Decoders of bundles that are not decompressed as a whole.
    #[doc(hidden)]
    pub streams: Pool<OpenStream>,
    /// What the readers of all inputs share to inflate members. Its type belongs to `source`, which uses this one.
    #[doc(hidden)]
    pub decoders: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Why bytes of a server are missing, for the first file that lacks some. Its type belongs to `remote`, which uses this one.
    #[doc(hidden)]
    pub lost: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Contexts that compress code objects.
    #[doc(hidden)]
    pub compressors: Compressors,
    /// Threads for work that may block.
    #[doc(hidden)]
    pub executor: Executor,
    /// How requests of a mount travel, once it is mounted.
    #[doc(hidden)]
    pub transport: OnceLock<TransportState>,
    /// Random bytes that distinguish this session from all others.
    #[doc(hidden)]
    pub session: [u8; 16],
    ids: Counter,
}

impl Resources {
    /// Caches and buffers of at most `budget` bytes in all, without an index or frames of other sessions.
    pub fn new(budget: u64) -> Arc<Self> {
        Self::with_policy(budget, WorkPolicy::default())
    }

    /// Like [`Resources::new`], for a command that computes more, or reads URLs.
    #[doc(hidden)]
    pub fn with_policy(budget: u64, policy: WorkPolicy) -> Arc<Self> {
        Self::with_store(budget, Index::default(), FrameStore::default(), policy)
    }

    /// Like [`Resources::new`], with the index of other sessions and without disk space for frames.
    #[doc(hidden)]
    pub fn with_index(budget: u64, index: Index) -> Arc<Self> {
        Self::with_store(budget, index, FrameStore::default(), WorkPolicy::default())
    }

    /// Caches and buffers of at most `budget` bytes in all.
    ///
    /// The kernel keeps what was served in its page cache, so inflated and compressed bytes are seldom requested twice.
    /// These caches therefore stay smaller than the budget allows: inflated content should stay in the processor's
    /// cache until it is read. A program that reads back and forth, as the dynamic loader does, needs larger ones.
    #[doc(hidden)]
    pub fn with_store(budget: u64, index: Index, store: FrameStore, policy: WorkPolicy) -> Arc<Self> {
        let budget = Budget::new(budget);
        Arc::new(Self {
            policy,
            counters: Counters::default(),
            spans: ByteCache::adaptive(&budget, MemoryClass::Spans, budget.capacity() / 16, budget.capacity() / 2),
            bundles: ByteCache::new(&budget, MemoryClass::Bundles),
            frames: ByteCache::bounded(&budget, MemoryClass::Frames, budget.capacity() / 2),
            buffers: Pool::new(&budget, MemoryClass::Bundles),
            streams: Pool::new(&budget, MemoryClass::Bundles),
            decoders: OnceLock::new(),
            lost: OnceLock::new(),
            compressors: Compressors::new(&budget),
            index,
            store,
            executor: Executor::default(),
            transport: OnceLock::new(),
            session: random(),
            ids: Counter::default(),
            budget,
        })
    }

    /// A number that is unique in this session, for use as a cache key.
    #[doc(hidden)]
    pub fn next_id(&self) -> u64 {
        self.next_ids(1)
    }

    /// The first of `count` consecutive numbers like that of [`Resources::next_id`].
    #[doc(hidden)]
    pub fn next_ids(&self, count: u64) -> u64 {
        self.ids.add(count)
    }
}

impl MetricsSource for Resources {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn gauges(&self) -> Gauges {
        Gauges { tables: kept_in_tables(), ..self.budget.gauges() }
    }

    fn threads(&self) -> u64 {
        self.executor.threads() as u64
    }
}

/// Random bytes, from the random keys that std gives each hash map.
fn random() -> [u8; 16] {
    let [one, two] = [(); 2].map(|()| RandomState::new().hash_one(std::process::id()).to_le_bytes());
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&one);
    bytes[8..].copy_from_slice(&two);
    bytes
}
