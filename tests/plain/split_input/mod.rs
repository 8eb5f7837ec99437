//! Split binaries with archives as input. Joined again, they have the code of the fat binaries, and splitting them
//! gives the same split.

mod archives;
mod device_wheels;
mod distributions;
mod links;
mod mixed;
mod requirements;
mod shared;
mod threads;
mod wheels;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::binary::FatBinary;
use kpackfs::fatbin::read_bundle;
use kpackfs::gpu::{BundleKey, GpuSet};
use kpackfs::join::{Joined, join};
use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::{EntryKind, EntryPath, Input};
use kpackfs::split::{FatBinaries, Plan, PlanOptions};
use kpackfs::{export, verify, view};
use tempfile::TempDir;

use crate::common::{copy_all, files_below, sha256};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// Fixtures that stay fat, and files that are not fixtures.
pub(crate) const LEFT_OUT: [&str; 5] = ["README.md", "expected.json", "extra-pointer.so", "object.o", "src"];

/// For each wrapper, the digests of the code objects by target.
type Code = Vec<BTreeMap<String, String>>;

/// The code of each fixture.
type All = BTreeMap<String, Code>;

/// The code of the fixtures, as an independent checker found it.
fn expected() -> All {
    let text = fs::read(Path::new(FIXTURES).join("expected.json")).unwrap();
    let json: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&text).unwrap();
    let wrapper = |wrapper: &serde_json::Value| {
        let objects = wrapper.as_object().unwrap().iter();
        objects.map(|(target, object)| (target.clone(), object["sha256"].as_str().unwrap().to_owned())).collect()
    };
    let code = |fixture: &serde_json::Value| fixture["wrappers"].as_array().unwrap().iter().map(wrapper).collect();
    let all = json.iter().map(|(name, fixture)| (name.clone(), code(fixture)));
    all.filter(|(name, code): &(String, Code)| !LEFT_OUT.contains(&name.as_str()) && !code.is_empty()).collect()
}

/// The code in the binaries of a tree.
fn code_of(input: &Input, resources: &Arc<Resources>) -> All {
    let mut all = All::new();
    for entry in &input.entries {
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let Ok(Some(fat)) = FatBinary::scan(content) else { continue };
        let wrapper = |wrapper: kpackfs::binary::Wrapper| {
            let objects = read_bundle(content, wrapper.bundle, wrapper.limit, resources).unwrap();
            objects.iter().map(|it| (it.target.to_string(), sha256(&it.content.to_vec().unwrap()))).collect()
        };
        let name = String::from_utf8(entry.path.name().to_vec()).unwrap();
        all.insert(name, fat.wrappers().into_iter().map(wrapper).collect());
    }
    all
}

fn fill(root: &Path) {
    fs::create_dir_all(root.join("lib")).unwrap();
    for fixture in fs::read_dir(FIXTURES).unwrap().map(Result::unwrap) {
        if !LEFT_OUT.contains(&fixture.file_name().to_str().unwrap()) {
            fs::copy(fixture.path(), root.join("lib").join(fixture.file_name())).unwrap();
        }
    }
    fs::create_dir_all(root.join("lib/rocblas/library")).unwrap();
    fs::write(root.join("lib/rocblas/library/TensileLibrary_gfx90a.dat"), b"\x91\xaafor gfx90a").unwrap();
}

fn options() -> PlanOptions {
    PlanOptions { databases: kpackfs::database::Databases::all(), ..PlanOptions::default() }
}

/// A joined input.
struct Opened {
    input: Input,
    joined: Joined,
    resources: Arc<Resources>,
}

impl Opened {
    fn new(path: &Path) -> Self {
        let resources = Resources::new(64 << 20);
        let mut input = Input::open(path, &resources).unwrap();
        let joined = join(&mut input, &resources, &Progress::default());
        Self { input, joined, resources }
    }

    fn plan(&self) -> Plan {
        self.plan_with(&options())
    }

    fn plan_with(&self, options: &PlanOptions) -> Plan {
        Plan::of_joined(&self.input, &self.joined, options, &BundleJobs::new(&self.resources), &Progress::default())
            .unwrap()
    }

    fn code(&self) -> All {
        code_of(&self.input, &self.resources)
    }
}

/// Fails if a binary has other code than expected, and names it.
#[track_caller]
fn same(found: &All, expected: &All) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, code) in expected {
        assert_eq!(found[name], *code, "{name}");
    }
}

/// Writes the host and device parts.
fn write(opened: &Opened, plan: &Plan, out: &Path) {
    write_views(&opened.input, plan, &[], out);
}

/// Writes the host and device parts, and other views.
pub(crate) fn write_views(input: &Input, plan: &Plan, others: &[&str], out: &Path) {
    let tree = view::lay_out(input, plan, None, &[]).unwrap();
    let names = ["host"].into_iter().chain(plan.keys.iter().map(BundleKey::as_str)).chain(others.iter().copied());
    let views: Vec<_> = names.map(|name| EntryPath::new(name.as_bytes()).unwrap()).collect();
    let views: Vec<_> = views.into_iter().map(|view| (view.clone(), out.join(view.as_path()))).collect();
    export::write(&tree, &views, &Progress::default()).unwrap();
}

/// A fat tree, its split, and the parts of the split in one directory.
struct Trees {
    place: TempDir,
    keys: Vec<String>,
}

impl Trees {
    fn new(options: &PlanOptions) -> Self {
        let place = tempfile::tempdir().unwrap();
        fill(&place.path().join("fat"));
        let fat = Opened::new(&place.path().join("fat"));
        let plan = fat.plan_with(options);
        write(&fat, &plan, &place.path().join("out"));
        let trees = Self { place, keys: plan.keys.iter().map(ToString::to_string).collect() };
        fs::create_dir(trees.at("installed")).unwrap();
        let parts = std::iter::once("host").chain(trees.keys.iter().map(String::as_str));
        parts.for_each(|part| overlay(&trees.at("out").join(part), &trees.at("installed")));
        trees
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }
}

fn overlay(from: &Path, to: &Path) {
    copy_all(from.join("."), to);
}

/// All files below a directory.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    files_below(root).into_iter().map(|(path, bytes)| (path.to_str().unwrap().to_owned(), bytes)).collect()
}

/// The names of the files that differ.
fn differences(one: &Path, other: &Path) -> Vec<String> {
    wheels::differing(&files(one), &files(other))
}

#[test]
fn joined_binaries_have_the_code_of_the_fat_ones() {
    for compression in [kpackfs::kpack::Compression::default(), kpackfs::kpack::Compression::None] {
        let trees = Trees::new(&PlanOptions { compression, ..options() });
        let split = Opened::new(&trees.at("installed"));
        assert_eq!(split.joined.warnings, Vec::<String>::new());
        same(&split.code(), &expected());
        assert!(split.joined.binaries.len() > 40, "{}", split.joined.binaries.len());
        let is_archive = |path: &EntryPath| path.to_text().contains(".kpack");
        assert!(!split.input.entries.iter().any(|entry| is_archive(&entry.path)), "archives are used up");
    }
}

/// Compares the split of a split with that.
fn check_again(split: &Opened, trees: &Trees) {
    let plan = split.plan();
    write(split, &plan, &trees.at("again"));
    assert_eq!(plan.warnings, Vec::<String>::new());
    assert_eq!(differences(&trees.at("out"), &trees.at("again")), Vec::<String>::new());
}

#[test]
fn the_split_of_a_split_is_itself() {
    let trees = Trees::new(&options());
    check_again(&Opened::new(&trees.at("installed")), &trees);
}

#[test]
fn thin_of_a_split_is_thin_of_the_fat_tree() {
    let trees = Trees::new(&options());
    let (fat, split) = (Opened::new(&trees.at("fat")), Opened::new(&trees.at("installed")));
    for gpus in ["gfx90a", "gfx90a:xnack-", "gfx90a:xnack+", "gfx1030", "gfx1151", "gfx1030+gfx90a"] {
        let gpus: GpuSet = gpus.parse().unwrap();
        let code = |opened: &Opened| {
            let binaries = FatBinaries::new(&opened.input, &opened.plan(), &[]);
            let mut input = Input::open(&opened.input.location, &opened.resources).unwrap();
            for entry in &mut input.entries {
                let thin = binaries.thin(&Arc::new(gpus.clone()), &entry.path);
                if let (EntryKind::File { content, .. }, Some(thin)) = (&mut entry.kind, thin) {
                    *content = thin.rewritten().unwrap();
                }
            }
            code_of(&input, &opened.resources)
        };
        same(&code(&split), &code(&fat));
    }
}

fn is_library(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "so")
}

#[test]
fn a_mixed_tree_gets_one_set_of_archives() {
    let trees = Trees::new(&options());
    // Half of the libraries are fat again. Archives have code for them that no split binary asks for.
    for (number, path) in files(&trees.at("fat")).keys().enumerate().filter(|(_, path)| is_library(path)) {
        if number % 2 == 0 {
            fs::copy(trees.at("fat").join(path), trees.at("installed").join(path)).unwrap();
        }
    }
    let mixed = Opened::new(&trees.at("installed"));
    same(&mixed.code(), &expected());
    check_again(&mixed, &trees);
}

#[test]
fn the_split_of_a_mixed_tree_can_be_verified_against_it() {
    let trees = Trees::new(&options());
    // Without section headers, padding cannot be recognised.
    for path in ["lib/plain.so", "lib/features.so", "lib/generic.so", "lib/noheaders.so"] {
        fs::copy(trees.at("fat").join(path), trees.at("installed").join(path)).unwrap();
    }
    let mixed = Opened::new(&trees.at("installed"));
    write(&mixed, &mixed.plan(), &trees.at("again"));
    let verify = |against: &str| {
        let (options, resources) = (verify::VerifyOptions::default(), Resources::new(64 << 20));
        let out = [trees.at("again")];
        crate::verify::try_verify(&out, &[trees.at(against)], &options, &resources).unwrap()
    };
    for against in ["installed", "fat"] {
        let report = verify(against);
        assert!(report.findings.is_empty(), "{against}: {:?}", report.findings);
        assert!(report.counts.code_objects.get() > 100, "{against}");
    }
}

/// Gives an ELF file a section of `count` wrappers, at the end of the file.
fn with_wrappers(elf: &mut Vec<u8>, count: usize) {
    use object::{Object, ObjectSection};
    let (index, old) = {
        let file = object::File::parse(elf.as_slice()).unwrap();
        let section = file.section_by_name(".hipFatBinSegment").unwrap();
        (section.index().0, section.data().unwrap()[..24].to_vec())
    };
    let headers = usize::try_from(u64::from_le_bytes(elf[0x28..0x30].try_into().unwrap())).unwrap();
    let header = headers + index * 64;
    let offset = elf.len() as u64;
    elf[header + 24..header + 32].copy_from_slice(&offset.to_le_bytes());
    elf[header + 32..header + 40].copy_from_slice(&(24 * count as u64).to_le_bytes());
    elf.extend(old.repeat(count));
}

#[test]
fn there_is_a_limit_to_wrappers() {
    let trees = Trees::new(&options());
    let path = trees.at("installed/lib/plain.so");
    let mut elf = fs::read(&path).unwrap();
    with_wrappers(&mut elf, (1 << 16) + 1);
    fs::write(&path, elf).unwrap();
    let Opened { joined, .. } = Opened::new(&trees.at("installed"));
    let said = joined.warnings.iter().find(|warning| warning.starts_with("lib/plain.so: ")).unwrap();
    assert!(said.ends_with("it has more than 65536 wrappers"), "{said}");
}

/// The view `fat/`, written.
fn fat_view(opened: &Opened, out: &Path) -> BTreeMap<String, Vec<u8>> {
    let tree = view::lay_out(&opened.input, &opened.plan(), None, &[]).unwrap();
    export::write(&tree, &[(EntryPath::new(b"fat").unwrap(), out.to_owned())], &Progress::default()).unwrap();
    files(out)
}

#[test]
fn hard_links_that_find_other_archives_are_other_binaries() {
    let trees = Trees::new(&options());
    fs::create_dir_all(trees.at("installed/lib/own/lib")).unwrap();
    fs::create_dir_all(trees.at("installed/lib/own/.kpack")).unwrap();
    fs::hard_link(trees.at("installed/lib/plain.so"), trees.at("installed/lib/own/lib/few.so")).unwrap();
    let archive = ".kpack/rocm_gfx90a.kpack";
    fs::copy(trees.at("installed").join(archive), trees.at("installed/lib/own").join(archive)).unwrap();
    let split = Opened::new(&trees.at("installed"));
    let fat = fat_view(&split, &trees.at("joined"));
    let all = expected()["plain.so"].clone();
    let only_gfx90a = |targets: &BTreeMap<String, String>| {
        targets
            .iter()
            .filter(|(target, _)| *target == "gfx90a")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let few: Code = all.iter().map(only_gfx90a).collect();
    let written = Input::open(&trees.at("joined"), &split.resources).unwrap();
    let code = code_of(&written, &split.resources);
    assert_eq!((&code["plain.so"], &code["few.so"]), (&all, &few));
    assert_ne!(fat["lib/plain.so"], fat["lib/own/lib/few.so"]);
}
