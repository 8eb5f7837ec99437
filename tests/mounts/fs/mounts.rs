//! A tree with every kind of node, and a mount of it that never outlives its test.

use std::ffi::OsStr;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use kpackfs::fs::PassthroughChoice;
use kpackfs::metrics::RequestKind;
use kpackfs::mount::{MountOptions, Mounted, Served, Transport, mount};
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, ReadError, Rope, Segment};
use kpackfs::source::{Attributes, EntryPath};
use kpackfs::tree::{Body, LiveReport, NodeKind, Origin, OriginKind, ROOT, Tree};
use kpackfs::view::Materialize;

use crate::common::{can_mount, transport};

pub(crate) const DIRECTORY: Attributes =
    Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 1_600_000_000, mtime_nanoseconds: 123_456_789 };
pub(crate) const FILE: Attributes = Attributes { mode: 0o644, ..DIRECTORY };
pub(crate) const MADE_SIZE: usize = 70_000;
pub(crate) const BIG_SIZE: usize = 3_000_001;
pub(crate) const SOURCE: &str = "/in/a,b\\c wheel.whl";

/// What the kernel caches is seen in one of so many tries.
const TRIES: usize = 5;

/// Fails unless `attempt` is true in one of some tries: the kernel may drop pages at any time. `None` ends it.
pub(crate) fn in_one_of_some_tries(attempt: impl Fn() -> Option<bool>) {
    assert!((0..TRIES).any(|_| attempt().unwrap_or(true)));
}

pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

fn rope(bytes: Vec<u8>) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes)]).unwrap())
}

#[derive(Debug, Default)]
pub(crate) struct Kernels {
    made: OnceLock<Arc<dyn Content>>,
    pub(crate) times: AtomicUsize,
}

impl Materialize for Kernels {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.made.get().cloned()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let content = self.made.get_or_init(|| {
            self.times.fetch_add(1, Ordering::SeqCst);
            rope(pattern(MADE_SIZE))
        });
        Ok(Arc::clone(content))
    }
}

#[derive(Debug)]
struct Unmakeable;

impl Materialize for Unmakeable {
    fn made(&self) -> Option<Arc<dyn Content>> {
        None
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        Err(ReadError::damaged(&"lib/bad.so".into(), "truncated"))
    }
}

#[derive(Debug, Default)]
struct Openings(AtomicUsize);

impl LiveReport for Openings {
    fn size(&self) -> u64 {
        8192
    }

    fn text(&self) -> String {
        format!("opened {} times\n", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// Contents that fail or wait.
#[derive(Debug)]
enum Odd {
    Panics,
    Damaged,
    /// Reports that it was asked, then waits for its release.
    Waits(Sender<()>, Mutex<Receiver<()>>),
}

impl Content for Odd {
    fn size(&self) -> u64 {
        4096
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        match self {
            Self::Panics => panic!("on purpose"),
            Self::Damaged => Err(ReadError::damaged(&"lib/x.so".into(), "no such luck")),
            Self::Waits(asked, release) => {
                asked.send(()).ok();
                release.lock().unwrap().recv().ok();
                buffer.fill(b'w');
                Ok(())
            }
        }
    }

    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        !matches!(self, Self::Waits(..))
    }
}

/// A file of unknown size.
impl Materialize for Odd {
    fn made(&self) -> Option<Arc<dyn Content>> {
        None
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.read_at(0, &mut [])?;
        Ok(rope(b"made".to_vec()))
    }
}

/// A mount in a temporary directory.
pub(crate) struct Mount {
    pub(crate) place: tempfile::TempDir,
    pub(crate) mounted: Option<Mounted>,
    pub(crate) asked: Receiver<()>,
    release: Option<Sender<()>>,
    pub(crate) resources: Arc<Resources>,
    kernels: Arc<Kernels>,
}

impl Mount {
    /// `None` if this machine cannot mount.
    pub(crate) fn new() -> Option<Self> {
        let kernels = Arc::new(Kernels::default());
        let (tell, asked) = channel();
        let (release, wait) = channel();
        let waits = Odd::Waits(tell, Mutex::new(wait));
        let resources = Resources::new(1 << 20);
        let mut mount = Self::of(tree(kernels.clone(), waits), &resources)?;
        (mount.asked, mount.release, mount.kernels) = (asked, Some(release), kernels);
        Some(mount)
    }

    /// A mount of another tree.
    pub(crate) fn of(tree: Tree, resources: &Arc<Resources>) -> Option<Self> {
        Self::with(tree, resources, PassthroughChoice::Auto)
    }

    pub(crate) fn with(tree: Tree, resources: &Arc<Resources>, passthrough: PassthroughChoice) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let (tree, resources) = (Arc::new(tree), Arc::clone(resources));
        let place = tempfile::tempdir().unwrap();
        let options = MountOptions {
            mount_point: place.path().to_owned(),
            source: SOURCE.into(),
            allow_other: false,
            no_exec: false,
            passthrough,
            transport: transport(),
        };
        let mounted = mount(&options, Served { tree, resources: resources.clone(), total_bytes: 10_000_000 });
        let mounted = Some(mounted.unwrap());
        assert_eq!(resources.counters.ring_entries.get() > 0, transport() == Transport::Uring);
        Some(Self { place, mounted, asked: channel().1, release: None, resources, kernels: Arc::default() })
    }

    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.place.path().join(name)
    }

    /// How often the file of unknown size was built.
    pub(crate) fn made(&self) -> usize {
        self.kernels.times.load(Ordering::SeqCst)
    }

    /// Lets all reads of `odd/waits` and the making of `odd/unsized` continue.
    pub(crate) fn release(&mut self) {
        self.release = None;
    }

    /// The number of requests of a kind so far.
    pub(crate) fn of_kind(&self, kind: RequestKind) -> u64 {
        self.resources.counters.requests.of(kind)
    }

    /// The fewest requests that `work` causes when it is repeated: the kernel may drop what it has cached at any time.
    pub(crate) fn fewest_requests(&self, work: impl Fn()) -> u64 {
        (0..TRIES).map(|_| self.requests(&work)).min().unwrap()
    }

    /// The number of requests that `work` causes.
    pub(crate) fn requests(&self, work: impl FnOnce()) -> u64 {
        let before = self.resources.counters.requests.get();
        work();
        self.resources.counters.requests.get() - before
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A reader that waits for a mount whose server has exited could not be killed.
        self.release();
        if let Some(mounted) = self.mounted.take() {
            mounted.unmounter.unmount(true).ok();
            mounted.wait().ok();
        }
    }
}

fn tree(kernels: Arc<Kernels>, waits: Odd) -> Tree {
    let mut tree = Tree::new(DIRECTORY);
    let mut add = |name: &[u8], kind| {
        let attributes = if matches!(kind, NodeKind::Directory(_)) { DIRECTORY } else { FILE };
        let path = EntryPath::new(name).unwrap();
        let node = tree.insert(ROOT, &path, attributes, kind).unwrap();
        tree.set_origin(node, Origin::of(OriginKind::Unchanged, &path));
    };
    let file = |body| NodeKind::File { body, link_group: None };
    let ready = |content| file(Body::Ready(content));
    add(b"host", NodeKind::directory());
    add(b"host/none", NodeKind::directory());
    add(b"host/lib", NodeKind::directory());
    add(b"host/lib/small.txt", ready(rope(b"hello".to_vec())));
    add(b"host/lib/big.bin", ready(rope(pattern(BIG_SIZE))));
    add(b"host/lib/empty", ready(rope(Vec::new())));
    add(b"host/lib/link.txt", NodeKind::Symlink(Arc::from(&b"small.txt"[..])));
    let shared = rope(b"shared".to_vec());
    for name in [&b"host/lib/one"[..], b"host/two"] {
        add(name, NodeKind::File { body: Body::Ready(shared.clone()), link_group: Some(1) });
    }
    add(&[b"host/".as_slice(), &[b'n'; 255]].concat(), ready(rope(b"long".to_vec())));
    add(b"host/\xff\xfe", ready(rope(b"odd".to_vec())));
    add(b"gfx942/notes", ready(rope(b"text".to_vec())));
    add(b"gfx942/.kpack/kernels.kpack", file(Body::Made(kernels)));
    add(b"gfx942/.kpack/zz", ready(rope(b"last".to_vec())));
    add(b"odd/panics", ready(Arc::new(Odd::Panics)));
    add(b"odd/damaged", ready(Arc::new(Odd::Damaged)));
    let waits = Arc::new(waits);
    add(b"odd/waits", ready(Arc::<Odd>::clone(&waits)));
    add(b"odd/unsized", file(Body::Made(waits)));
    add(b"odd/made/bad", file(Body::Made(Arc::new(Unmakeable))));
    add(b"many/0000", ready(rope(Vec::new())));
    for number in 1..3000 {
        add(format!("many/{number:04}").as_bytes(), ready(rope(vec![b'x'; number % 7])));
    }
    add(b".kpackfs/status", file(Body::Live(Arc::<Openings>::default())));
    tree.hide(ROOT, b".kpackfs");
    tree
}

/// Runs a program, which must succeed. Returns its output.
pub(crate) fn run<const N: usize>(program: &str, arguments: [&dyn AsRef<OsStr>; N]) -> String {
    let output = output(program, arguments);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn output<const N: usize>(program: &str, arguments: [&dyn AsRef<OsStr>; N]) -> Output {
    Command::new(program).args(arguments.iter().map(AsRef::as_ref)).output().unwrap()
}
