//! Sessions of the library: what a mount would serve.

use std::path::Path;
use std::sync::Arc;

use kpackfs::database::Databases;
use kpackfs::index::{FrameStore, Index};
use kpackfs::join::join;
use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::resources::{Resources, WorkPolicy};
use kpackfs::rope::{Content, ReadError};
use kpackfs::source::{EntryPath, Input};
use kpackfs::split::{Plan, PlanOptions};
use kpackfs::tree::{NodeKind, ROOT, Tree};
use kpackfs::view::{self};

/// How an input is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    pub(crate) has_cache: bool,
}

pub(crate) struct Session {
    pub(crate) resources: Arc<Resources>,
    pub(crate) plan: Plan,
    pub(crate) input: Input,
    tree: Tree,
}

impl Session {
    pub(crate) fn new(input: &Path, cache: &Path, mode: Mode) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(mode.threads).build().unwrap();
        pool.install(|| Self::open(input, cache, mode))
    }

    fn open(place: &Path, cache: &Path, mode: Mode) -> Self {
        let resources = if mode.has_cache {
            let store = FrameStore::open(Some(cache), place, Some(1 << 30));
            Resources::with_store(mode.memory, Index::open(cache, place), store, WorkPolicy::default())
        } else {
            Resources::new(mode.memory)
        };
        let mut input = Input::open(place, &resources).unwrap();
        let joined = join(&mut input, &resources, &Progress::default());
        let options = PlanOptions { databases: Databases::all(), ..PlanOptions::default() };
        let plan =
            Plan::of_joined(&input, &joined, &options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
        let tree = view::lay_out(&input, &plan, None, &[]).unwrap();
        Self { resources, plan, input, tree }
    }

    /// Ends it as a mount ends.
    pub(crate) fn end(self) {
        self.resources.index.save().unwrap();
        self.resources.store.finish();
    }

    /// The archive of a target.
    pub(crate) fn archive(&self, target: &str) -> Result<Vec<u8>, ReadError> {
        let planned = self.plan.archives.iter().find(|planned| planned.key.as_str() == target).unwrap();
        let content = self.content(&format!("{target}/{}", planned.path))?;
        let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
        for (number, piece) in bytes.chunks_mut(100_000).enumerate() {
            content.read_at(number as u64 * 100_000, piece)?;
        }
        Ok(bytes)
    }

    /// The content of a file.
    pub(crate) fn content(&self, path: &str) -> Result<Arc<dyn Content>, ReadError> {
        let node = self.tree.resolve(ROOT, &EntryPath::new(path.as_bytes()).unwrap()).unwrap();
        match &self.tree.node(node).unwrap().kind {
            NodeKind::File { body, .. } => body.content(),
            other => panic!("{path}: {other:?}"),
        }
    }

    pub(crate) fn decompressed(&self) -> u64 {
        self.resources.counters.bytes_decompressed.get()
    }
}
