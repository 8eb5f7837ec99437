//! Thin views of a mount: libraries and programs run from them with a HIP runtime that does not know archives. Only
//! device code differs from the input.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kpackfs::fatbin::read_bundle;
use kpackfs::gpu::GpuSet;
use kpackfs::index::{FrameStore, Index};
use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::resources::{Resources, WorkPolicy};
use kpackfs::rope::{Content, Rope, Segment};
use kpackfs::source::{EntryPath, Input};
use kpackfs::split::{FatBinaries, Plan, PlanOptions};
use kpackfs::tree::{NodeKind, ROOT};
use kpackfs::view::{self, ThinViews};
use kpackfs::wheelparts::PlannedInput;

use crate::common::{program, sha256, succeeds};
use crate::mount::kernels::{Expected, Programs, fat_programs, files};
use crate::mount::mounts::{Mount, fat};

/// The views from which code is loaded, and the code that must be found there.
const VIEWS: [(&str, &[&str]); 5] = [
    ("gfx90a", &["gfx90a", "gfx90a:xnack+", "gfx90a:xnack-"]),
    ("gfx90a:xnack-", &["gfx90a", "gfx90a:xnack-"]),
    ("gfx1030", &["gfx1030"]),
    ("gfx1100+gfx1030", &["gfx1100", "gfx1030", "gfx11-generic"]),
    ("gfx1151", &["gfx11-generic"]),
];

/// Loads everything in a view. Returns, by binary, the code objects of its wrappers, which HIP would find in memory.
fn loaded(programs: &Programs, view: &Path) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
    let resources = Resources::new(16 << 20);
    let mut found: BTreeMap<String, BTreeMap<u64, _>> = BTreeMap::new();
    let mut loader = Command::new(programs.loader());
    loader.args(files(&view.join("lib")));
    let all = std::iter::once(loader).chain(files(&view.join("bin")).into_iter().map(Command::new));
    for registered in all.flat_map(|program| programs.registered(program, "gfx90a")) {
        // HIPF: the pointer points at a bundle in the file.
        assert_eq!(registered.magic, 0x4849_5046, "{registered:?}");
        let bytes = fs::read(&registered.path).unwrap();
        let size = bytes.len() as u64;
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
        let objects = read_bundle(&content, registered.number, size, &resources).unwrap();
        let object = |object: &kpackfs::fatbin::CodeObject| {
            (object.target.to_string(), sha256(&object.content.to_vec().unwrap()))
        };
        let name = registered.path.file_name().unwrap().to_str().unwrap().to_owned();
        found.entry(name).or_default().insert(registered.address, objects.iter().map(object).collect());
    }
    found.into_iter().map(|(name, wrappers)| (name, wrappers.into_values().collect())).collect()
}

fn check(programs: &Programs, view: &Path, targets: &[&str], expected: &BTreeMap<String, Expected>) -> usize {
    let found = loaded(programs, view);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    let mut compared = 0;
    for (name, wrappers) in found {
        let all = &expected[&name].wrappers;
        // With relocatable device code, only the first wrapper is registered for all of them.
        assert!(wrappers.len() == all.len() || (name == "rdc.so" && wrappers.len() == 1), "{name}");
        for (objects, all) in wrappers.iter().zip(all) {
            // Generic code is for GPUs without code of their own.
            let is_wanted = |target: &str| {
                let has_native = targets.contains(&"gfx1100") && all.contains_key("gfx1100");
                targets.contains(&target) && !(has_native && target == "gfx11-generic")
            };
            let wanted = all.iter().filter(|(target, _)| is_wanted(target));
            let wanted: BTreeMap<_, _> =
                wanted.map(|(target, object)| (target.clone(), object.sha256.clone())).collect();
            assert_eq!(*objects, wanted, "{name} in {}", view.display());
            compared += wanted.len();
        }
    }
    compared
}

#[test]
fn every_wrapper_has_the_code_of_its_gpu() {
    let Some(programs) = Programs::build() else { return };
    let (fat, expected) = fat_programs();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let compared: usize =
        VIEWS.iter().map(|(view, targets)| check(&programs, &mount.at("thin").join(view), targets, &expected)).sum();
    assert!(compared > 150, "{compared}");
    let written = tempfile::tempdir().unwrap();
    let mut split = program();
    split.args(["split", "--view", "thin/gfx90a", "-o"]).arg(written.path()).arg(fat.path());
    succeeds(&mut split);
    check(&programs, &written.path().join("thin/gfx90a"), VIEWS[0].1, &expected);
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn gpus_are_listed_and_sets_of_them_can_be_looked_up() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let listed = names(&mount.at("thin"));
    for there in ["gfx90a", "gfx1030", "gfx1100"] {
        assert!(listed.iter().any(|name| name == there), "{there}: {listed:?}");
    }
    for there in ["gfx90a:xnack+", "gfx1030+gfx90a", "gfx90a+gfx1030", "gfx90a:xnack++gfx1100"] {
        assert!(mount.at("thin").join(there).join("lib/plain.so").exists(), "{there}");
    }
    for missing in ["gfx906", "gfx90a+gfx906", "gfx90a+gfx90a", "gfx9", "x", "gfx90a:xnack", "GFX90A"] {
        assert!(!mount.at("thin").join(missing).exists(), "{missing}");
    }
    assert_eq!(names(&mount.at("thin")), listed, "what was looked up is not listed");
    let inode = |path: &str| fs::metadata(mount.at(path)).unwrap().ino();
    assert_eq!(inode("thin/gfx90a/lib/plain.so"), inode("thin/gfx90a/lib/twin.so"), "hard links stay hard links");
    assert_ne!(inode("thin/gfx90a/lib/plain.so"), inode("thin/gfx1030/lib/plain.so"));
}

/// A user who looks up many sets does not prevent others from looking up theirs.
#[test]
fn sets_can_be_looked_up_after_many_others() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let thin = mount.at("thin");
    let mut sets = vec![String::new()];
    for gpu in ["gfx1030", "gfx1100", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+", "gfx90a:sramecc-"] {
        // The names of a set in every order.
        sets = sets
            .iter()
            .flat_map(|set| {
                let names: Vec<_> = set.split_inclusive('|').collect();
                (0..=names.len()).map(move |at| format!("{}{gpu}|{}", names[..at].concat(), names[at..].concat()))
            })
            .collect();
    }
    let sets: Vec<_> = sets.iter().map(|set| set.trim_end_matches('|').replace('|', "+")).collect();
    assert!(sets.len() > 256, "{}", sets.len());
    let first = thin.join(&sets[0]);
    let (listed, bytes) = (names(&first.join("lib")), fs::read(first.join("lib/plain.so")).unwrap());
    let open = fs::File::open(first.join("lib/plain.so")).unwrap();
    for set in &sets {
        assert!(thin.join(set).join("lib/plain.so").exists(), "{set}");
    }
    // The kernel remembers the evicted view, and looks it up again.
    assert_eq!(names(&first.join("lib")), listed);
    assert_eq!(fs::read(first.join("lib/plain.so")).unwrap(), bytes);
    // What is open is read from its own view, or is stale.
    let mut again = vec![0; bytes.len()];
    match std::os::unix::fs::FileExt::read_exact_at(&open, &mut again, 0) {
        Ok(()) => assert_eq!(again, bytes),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::StaleNetworkFileHandle),
    }
}

#[test]
fn sets_that_are_named_are_listed() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &["--thin", "gfx90a+gfx1030,gfx90a:xnack-,gfx1100"]) else { return };
    let Some(plain) = Mount::new(fat.path(), &[]) else { return };
    let mut expected = names(&plain.at("thin"));
    expected.extend(["gfx1030+gfx90a", "gfx90a:xnack-"].map(str::to_owned));
    expected.sort();
    assert_eq!(names(&mount.at("thin")), expected);
    let same = |path: &str| fs::read(mount.at(path)).unwrap() == fs::read(plain.at(path)).unwrap();
    assert!(same("thin/gfx1030+gfx90a/lib/plain.so") && same("thin/gfx90a:xnack-/lib/features.so"));
    for (wanted, message) in [
        ("gfx906", "--thin gfx906: the input has nothing for it; there are thin views for gfx1030, gfx1100,"),
        ("gfx9x:y", "--thin gfx9x:y"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let output = program().args(["mount", "--thin", wanted]).arg(fat.path()).arg(place.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(message), "{text}");
    }
}

/// A machine may have GPUs for which the input has no code.
#[test]
fn a_link_leads_to_the_view_for_the_gpus_of_the_machine() {
    let fat = fat();
    let resources = Resources::new(64 << 20);
    let input = Input::open(fat.path(), &resources).unwrap();
    let plan = Plan::make(&input, &PlanOptions::default(), &BundleJobs::new(&resources), &Progress::default()).unwrap();
    let tree = |auto: &str| {
        let views = ThinViews { auto: Some(auto.parse().unwrap()), ..ThinViews::default() };
        view::lay_out_listed(PlannedInput { input: &input, plan: &plan, wheels: None }, &[], &views)
            .map(|(tree, _)| tree)
    };
    let leads_to = |auto: &str| {
        let tree = tree(auto).unwrap();
        let thin = tree.resolve(ROOT, &EntryPath::new(b"thin").unwrap()).unwrap();
        let link = tree.lookup(thin, b"auto").and_then(|link| tree.node(link)).unwrap();
        let NodeKind::Symlink(target) = &link.kind else { panic!("{link:?}") };
        let name = String::from_utf8(target.to_vec()).unwrap();
        assert!(tree.children(thin).unwrap().any(|child| child.name == name.as_bytes()), "{name} is not listed");
        name
    };
    assert_eq!(leads_to("gfx90a"), "gfx90a");
    assert_eq!(leads_to("gfx1100+gfx1030"), "gfx1030+gfx1100");
    assert_eq!(leads_to("gfx1100+gfx906+gfx1030"), "gfx1030+gfx1100");
    assert!(tree("gfx906").is_err());
}

#[test]
fn databases_of_other_gpus_are_gone_and_no_archive_is_there() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let there = |gpu: &str, path: &str| mount.at("thin").join(gpu).join(path).exists();
    for (path, gpus) in [
        ("lib/rocblas/library/TensileLibrary_gfx90a.dat", &["gfx90a"][..]),
        ("lib/rocblas/library/TensileLibrary_gfx1100.dat", &["gfx1100"]),
        ("lib/aotriton.images/amd-gfx11xx/flash/attn_fwd.zip", &["gfx1100"]),
        ("share/miopen/db/gfx90a68.db.txt", &["gfx90a"]),
        ("lib/rocblas/library/common.txt", &["gfx90a", "gfx1100"]),
    ] {
        for gpu in ["gfx90a", "gfx1100"] {
            assert_eq!(there(gpu, path), gpus.contains(&gpu), "{path} for {gpu}");
        }
    }
    assert!(!there("gfx90a", ".kpack"));
    let unchanged = |path: &str| {
        let [before, after] =
            [fat.path().join(path), mount.at("thin/gfx90a").join(path)].map(|path| fs::read(path).unwrap());
        assert!(before == after, "{path}");
    };
    ["share/notes", "lib/host-only.so", "lib/rocblas/library/common.txt"].into_iter().for_each(unchanged);
}

/// For raw bundles nothing is decompressed or compressed, and listing a view reads nothing.
#[test]
fn only_what_is_read_costs_work() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let before = mount.counter("bytes_read");
    let files: Vec<PathBuf> = names(&mount.at("thin/gfx90a/lib")).into_iter().map(PathBuf::from).collect();
    assert!(files.len() > 5);
    assert_eq!(mount.counter("bytes_read"), before);
    fs::read(mount.at("thin/gfx90a/lib/plain.so")).unwrap();
    assert_eq!((mount.counter("bytes_compressed"), mount.counter("frames_made")), (0, 0));
    fs::read(mount.at("thin/gfx90a/lib/compressed.so")).unwrap();
    assert!(mount.counter("bytes_compressed") > 0);
    let made = mount.counter("frames_made");
    fs::read(mount.at("thin/gfx90a/lib/compressed.so")).unwrap();
    assert_eq!(mount.counter("frames_made"), made);
}

/// The first view that is asked for costs its own code. A bundle that is decompressed for the second time is
/// decompressed for all listed views.
#[test]
fn bundles_are_decompressed_at_most_twice_for_all_views() {
    let (fat, cache) = (fat(), tempfile::tempdir().unwrap());
    let store = FrameStore::open(Some(cache.path()), fat.path(), Some(1 << 30));
    // Without memory, no decompressed bundle is kept.
    let resources = Resources::with_store(1, Index::default(), store, WorkPolicy::default());
    let input = Input::open(fat.path(), &resources).unwrap();
    let plan = Plan::make(&input, &PlanOptions::default(), &BundleJobs::new(&resources), &Progress::default()).unwrap();
    let gpus = ["gfx90a", "gfx1100", "gfx1030", "gfx1151"].map(|gpu| gpu.parse::<GpuSet>().unwrap());
    let path = EntryPath::new(b"lib/compressed.so").unwrap();
    let decompressed = |binaries: &FatBinaries, gpus: &GpuSet| {
        let before = resources.counters.bytes_decompressed.get();
        assert!(binaries.thin(&Arc::new(gpus.clone()), &path).unwrap().rewritten().unwrap().size() > 0);
        resources.counters.bytes_decompressed.get() - before
    };
    // A view with all of a library's code contains the library unchanged.
    let tables = decompressed(&FatBinaries::new(&input, &plan, &[]), &"gfx90a+gfx1030".parse().unwrap());
    let binaries = FatBinaries::new(&input, &plan, &gpus);
    let work = gpus.each_ref().map(|gpus| decompressed(&binaries, gpus) - tables);
    // The library has no code for gfx1100. The bundles without code are equal, so one is made for both, and the other
    // bundle, which was decompressed last, is not displaced from memory before gfx1030 is asked for.
    assert!(work[0] > 0 && work[1] == 0 && work[3] == 0, "{work:?}");
    assert_eq!(work[2], work[0] / 2, "one of two bundles of one size: {work:?}");
}
