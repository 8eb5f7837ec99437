//! Split binaries with archives as input: joined again they have the code that the fat ones had, and a split of them is the same
//! split.

#![expect(clippy::unwrap_used, reason = "clippy allows it in test functions only, not in their helpers")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::binary::FatBinary;
use kpackfs::fatbin::read_bundle;
use kpackfs::gpu::{BundleKey, GpuSet};
use kpackfs::join::{self, Joined, join};
use kpackfs::kpack::Toc;
use kpackfs::resources::Resources;
use kpackfs::rope::Content;
use kpackfs::source::{EntryKind, EntryPath, Input};
use kpackfs::split::{FatBinaries, Options, Plan, Progress};
use kpackfs::{export, verify, view};
use rocm_kpack::{Archive, Blob};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// Fixtures that stay fat, and what is none.
const LEFT_OUT: [&str; 7] = ["README.md", "expected.json", "extra-pointer.so", "object.o", "src", "win.dll", "win.exe"];

/// By wrapper, the digest of each code object.
type Code = Vec<BTreeMap<String, String>>;

/// By fixture.
type All = BTreeMap<String, Code>;

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn read(content: &dyn Content) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content.size()).unwrap()];
    content.read_at(0, &mut bytes).unwrap();
    bytes
}

/// What the fixtures hold, as an independent checker found it.
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

/// What the binaries of a tree hold.
fn code_of(input: &Input, resources: &Arc<Resources>) -> All {
    let mut all = All::new();
    for entry in &input.entries {
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let Ok(Some(fat)) = FatBinary::scan(content) else { continue };
        let wrapper = |wrapper: kpackfs::binary::Wrapper| {
            let objects = read_bundle(content, wrapper.bundle, wrapper.limit, resources).unwrap();
            objects.iter().map(|it| (it.target.to_string(), digest(&read(&*it.content)))).collect()
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
    fs::write(root.join("lib/rocblas/library/TensileLibrary_gfx90a.dat"), "for gfx90a").unwrap();
}

fn options() -> Options {
    Options { databases: kpackfs::database::Databases::all(), ..Options::default() }
}

/// An input, joined.
struct Opened {
    input: Input,
    joined: Joined,
    resources: Arc<Resources>,
}

impl Opened {
    fn new(path: &Path) -> Self {
        let resources = Resources::new(64 << 20);
        let mut input = Input::open(path, &resources).unwrap();
        let joined = join(&mut input, &resources, &join::Progress::default());
        Self { input, joined, resources }
    }

    fn plan(&self) -> Plan {
        self.plan_with(&options())
    }

    fn plan_with(&self, options: &Options) -> Plan {
        Plan::of_joined(&self.input, &self.joined, options, &self.resources, &Progress::default()).unwrap()
    }

    fn code(&self) -> All {
        code_of(&self.input, &self.resources)
    }
}

/// Fails if one has other code than it should; says which.
#[track_caller]
fn same(found: &All, expected: &All) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, code) in expected {
        assert_eq!(found[name], *code, "{name}");
    }
}

/// Writes host and device parts.
fn write(opened: &Opened, plan: &Plan, out: &Path) {
    let tree = view::lay_out(&opened.input, plan, None, &[], Vec::new()).unwrap();
    let names = ["host"].into_iter().chain(plan.keys.iter().map(BundleKey::as_str));
    let views: Vec<_> = names.map(|name| EntryPath::new(name.as_bytes()).unwrap()).collect();
    let views: Vec<_> = views.into_iter().map(|view| (view.clone(), out.join(view.as_path()))).collect();
    export::write(&tree, &views, &export::Progress::default()).unwrap();
}

/// A fat tree, its split, and that laid over each other.
struct Trees {
    place: TempDir,
    keys: Vec<String>,
}

impl Trees {
    fn new(options: &Options) -> Self {
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
    let status = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// All files below a directory.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap());
            }
        }
    }
    found
}

/// The names of files that differ.
fn differences(one: &Path, other: &Path) -> Vec<String> {
    let (one, other) = (files(one), files(other));
    let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

#[test]
fn joined_binaries_have_the_code_of_the_fat_ones() {
    for compression in [kpackfs::kpack::Compression::default(), kpackfs::kpack::Compression::None] {
        let trees = Trees::new(&Options { compression, ..options() });
        let split = Opened::new(&trees.at("installed"));
        assert_eq!(split.joined.warnings, Vec::<String>::new());
        same(&split.code(), &expected());
        assert!(split.joined.binaries.len() > 40, "{}", split.joined.binaries.len());
        let is_archive = |path: &EntryPath| path.to_text().contains(".kpack");
        assert!(!split.input.entries.iter().any(|entry| is_archive(&entry.path)), "archives are used up");
    }
}

#[test]
fn the_split_of_a_split_is_itself() {
    let trees = Trees::new(&options());
    let split = Opened::new(&trees.at("installed"));
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
    assert_eq!(plan.warnings, Vec::<String>::new());
    assert_eq!(differences(&trees.at("out"), &trees.at("again")), Vec::<String>::new());
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
    // Half of the libraries are fat again, and archives have code for them which no split binary asks for.
    for (number, path) in files(&trees.at("fat")).keys().enumerate().filter(|(_, path)| is_library(path)) {
        if number % 2 == 0 {
            fs::copy(trees.at("fat").join(path), trees.at("installed").join(path)).unwrap();
        }
    }
    let mixed = Opened::new(&trees.at("installed"));
    same(&mixed.code(), &expected());
    let plan = mixed.plan();
    write(&mixed, &plan, &trees.at("again"));
    assert_eq!(plan.warnings, Vec::<String>::new());
    assert_eq!(differences(&trees.at("out"), &trees.at("again")), Vec::<String>::new());
}

#[test]
fn the_split_of_a_mixed_tree_can_be_verified_against_it() {
    let trees = Trees::new(&options());
    // Without section headers nothing says what is padding.
    for path in ["lib/plain.so", "lib/features.so", "lib/generic.so", "lib/noheaders.so"] {
        fs::copy(trees.at("fat").join(path), trees.at("installed").join(path)).unwrap();
    }
    let mixed = Opened::new(&trees.at("installed"));
    write(&mixed, &mixed.plan(), &trees.at("again"));
    let verify = |against: &str| {
        let (options, resources) = (verify::Options::default(), Resources::new(64 << 20));
        let out = [trees.at("again")];
        verify::verify(&out, Some(&trees.at(against)), &options, &resources, &verify::Progress::default()).unwrap()
    };
    for against in ["installed", "fat"] {
        let report = verify(against);
        assert!(report.findings.is_empty(), "{against}: {:?}", report.findings);
        assert!(report.counts.code_objects.get() > 100, "{against}");
    }
}

/// What an archive of the device part for gfx1030 has.
fn gfx1030_of(trees: &Trees, place: &str) -> Vec<(String, Vec<u8>)> {
    let archive = fs::read(trees.at(place).join("gfx1030/.kpack/rocm_gfx1030.kpack")).unwrap();
    let archive = Archive::open(archive.as_slice()).unwrap();
    let names = archive.toc().unwrap().toc.into_keys();
    let with_code = |name: String| (name.clone(), archive.get(&name, "gfx1030").unwrap().unwrap());
    names.map(with_code).collect()
}

/// The warning that code for gfx1030 is in no binary.
fn not_joined(keys: &str) -> String {
    format!(
        ".kpack/rocm_gfx1030.kpack: no split binary asks for {keys} in it; the device part has this code, and fat/ and thin/ do not"
    )
}

#[test]
fn what_no_binary_asks_for_stays_in_its_archive() {
    let trees = Trees::new(&options());
    fs::remove_file(trees.at("installed/lib/plain.so")).unwrap();
    let split = Opened::new(&trees.at("installed"));
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
    let (out, again) = (gfx1030_of(&trees, "out"), gfx1030_of(&trees, "again"));
    assert!(out == again);
    assert!(out.iter().any(|(name, _)| name == "lib/plain.so#1"));
    let wrappers = out.iter().filter(|(name, _)| name.starts_with("lib/plain.so#")).count();
    let keys =
        if wrappers > 1 { format!("lib/plain.so#0 and {} others", wrappers - 1) } else { "lib/plain.so#1".to_owned() };
    assert!(plan.warnings.contains(&not_joined(&keys)), "{:?}", plan.warnings);
}

#[test]
fn what_a_split_binary_does_not_ask_for_stays_in_its_archive() {
    let trees = Trees::new(&options());
    let path = trees.at("installed/.kpack/rocm_gfx1030.kpack");
    let bytes = fs::read(&path).unwrap();
    let mut toc = Archive::open(bytes.as_slice()).unwrap().toc().unwrap();
    let code = toc.toc["lib/plain.so#1"].clone();
    toc.toc.insert("lib/plain.so#7".to_owned(), code);
    let offset = usize::try_from(u64::from_le_bytes(bytes[8..16].try_into().unwrap())).unwrap();
    fs::write(&path, [&bytes[..offset], &toc.encode()].concat()).unwrap();
    let split = Opened::new(&trees.at("installed"));
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
    assert_eq!(plan.warnings, [not_joined("lib/plain.so#7")]);
    let (mut out, mut again) = (gfx1030_of(&trees, "out"), gfx1030_of(&trees, "again"));
    let (_, code) = out.iter().find(|(name, _)| name == "lib/plain.so#1").unwrap().clone();
    out.push(("lib/plain.so#7".to_owned(), code));
    out.sort();
    again.sort();
    assert!(out == again);
}

#[test]
fn archives_stay_for_a_binary_that_cannot_be_read() {
    let trees = Trees::new(&options());
    let plain = fs::read(trees.at("installed/lib/plain.so")).unwrap();
    fs::create_dir_all(trees.at("installed/other/.kpack")).unwrap();
    let (archive, other) = (".kpack/rocm_gfx90a.kpack", "other/.kpack/rocm_gfx90a.kpack");
    fs::copy(trees.at("installed").join(archive), trees.at("installed").join(other)).unwrap();
    fs::create_dir(trees.at("installed/other/lib")).unwrap();
    fs::write(trees.at("installed/other/lib/other.so"), &plain).unwrap();
    fs::write(trees.at("installed/lib/plain.so"), &plain[..plain.len() - 1]).unwrap();
    let Opened { input, joined, .. } = Opened::new(&trees.at("installed"));
    let is_there = |path: &str| input.entry(&EntryPath::new(path.as_bytes()).unwrap()).is_some();
    assert!(is_there(archive), "{:?}", joined.warnings);
    assert!(joined.warnings.contains(&format!("{archive}: it stays for lib/plain.so")), "{:?}", joined.warnings);
    assert!(!joined.warnings.iter().any(|warning| warning.starts_with("other/")), "{:?}", joined.warnings);
}

/// Gives an ELF file a section of as many wrappers, at the end of the file.
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
    let tree = view::lay_out(&opened.input, &opened.plan(), None, &[], Vec::new()).unwrap();
    export::write(&tree, &[(EntryPath::new(b"fat").unwrap(), out.to_owned())], &export::Progress::default()).unwrap();
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

/// Writes the archive `to` as other writers do: all code objects of several archives, in the scheme `none`.
fn join_archives(from: &[PathBuf], to: &Path) {
    let mut bytes = vec![0; 64];
    let mut toc: Option<Toc> = None;
    let mut blobs = Vec::new();
    for path in from {
        let archive = fs::read(path).unwrap();
        let archive = Archive::open(archive.as_slice()).unwrap();
        let mut here = archive.toc().unwrap();
        for (key, targets) in &mut here.toc {
            for (target, entry) in targets {
                let code = archive.get(key, target).unwrap().unwrap();
                entry.ordinal = blobs.len() as u64;
                blobs.push(Blob { offset: bytes.len() as u64, size: code.len() as u64 });
                bytes.extend(code);
            }
        }
        let Some(toc) = &mut toc else {
            toc = Some(here);
            continue;
        };
        toc.gfx_arches.extend(here.gfx_arches);
        for (key, targets) in here.toc {
            toc.toc.entry(key).or_default().extend(targets);
        }
    }
    let mut toc = toc.unwrap();
    "none".clone_into(&mut toc.compression_scheme);
    (toc.zstd_offset, toc.zstd_size, toc.blobs) = (None, None, Some(blobs));
    let offset = bytes.len() as u64;
    let header = [b"KPAK".as_slice(), &1_u32.to_le_bytes(), &offset.to_le_bytes()].concat();
    bytes.splice(..header.len(), header);
    bytes.extend(toc.encode());
    fs::write(to, bytes).unwrap();
}

#[test]
fn an_archive_for_several_targets_is_read_as_a_loader_does() {
    let trees = Trees::new(&options());
    let archives = trees.at("installed/.kpack");
    let all: Vec<_> = fs::read_dir(&archives).unwrap().map(|entry| entry.unwrap().path()).collect();
    join_archives(&all, &trees.at("all.kpack"));
    for path in &all {
        // A loader comes to the same file for each target.
        fs::copy(trees.at("all.kpack"), path).unwrap();
    }
    let split = Opened::new(&trees.at("installed"));
    same(&split.code(), &expected());
    // They cannot be made as they are, so binaries get new markers, and nothing is lost.
    let plan = split.plan();
    write(&split, &plan, &trees.at("again"));
}

#[test]
fn damaged_and_foreign_archives_are_named() {
    let trees = Trees::new(&options());
    let archive = |target: &str| trees.at(&format!("installed/.kpack/rocm_{target}.kpack"));
    let (gfx90a, gfx1030) = (fs::read(archive("gfx90a")).unwrap(), fs::read(archive("gfx1030")).unwrap());
    let plain = "lib/plain.so: not joined";
    let check = |reason: &str| {
        let Opened { input, joined, .. } = Opened::new(&trees.at("installed"));
        let said = joined.warnings.iter().find(|warning| warning.starts_with(plain)).cloned().unwrap_or_default();
        assert!(said.contains(reason), "{reason}: {:?}", joined.warnings);
        // It stays as it is, and so do the archives.
        let entry = input.entry(&EntryPath::new(b"lib/plain.so").unwrap()).unwrap();
        let EntryKind::File { content, .. } = &entry.kind else { panic!("no file") };
        assert_eq!(read(&**content), fs::read(trees.at("installed/lib/plain.so")).unwrap());
        assert!(input.entry(&EntryPath::new(b".kpack/rocm_gfx90a.kpack").unwrap()).is_some());
    };
    fs::write(archive("gfx90a"), &gfx90a[..gfx90a.len() / 2]).unwrap();
    check("rocm_gfx90a.kpack: ");
    // Code for another GPU under the name of this one.
    let swap = |bytes: &[u8], from: &str, to: &str| {
        let archive = Archive::open(bytes).unwrap();
        let mut toc = archive.toc().unwrap();
        toc.gfx_arches = vec![to.to_owned()];
        for targets in toc.toc.values_mut() {
            let entry = targets.remove(from).unwrap();
            targets.insert(to.to_owned(), entry);
        }
        let offset = usize::try_from(u64::from_le_bytes(bytes[8..16].try_into().unwrap())).unwrap();
        [&bytes[..offset], &toc.encode()].concat()
    };
    fs::write(archive("gfx90a"), swap(&gfx1030, "gfx1030", "gfx90a")).unwrap();
    check("it is code for gfx1030");
    // A size that the frame contradicts.
    let mut larger = Archive::open(gfx90a.as_slice()).unwrap().toc().unwrap();
    larger.toc.values_mut().flat_map(|targets| targets.values_mut()).for_each(|entry| entry.original_size += 1);
    let offset = usize::try_from(u64::from_le_bytes(gfx90a[8..16].try_into().unwrap())).unwrap();
    fs::write(archive("gfx90a"), [&gfx90a[..offset], &larger.encode()].concat()).unwrap();
    check("the table of contents says");
    fs::write(archive("gfx90a"), &gfx90a).unwrap();
    assert_eq!(Opened::new(&trees.at("installed")).joined.warnings, Vec::<String>::new());
}

/// A wheel with files and METADATA.
fn wheel(place: &Path, name: &str, version: &str, metadata: &str, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let path = place.join(format!("{name}-{version}-py3-none-linux_x86_64.whl"));
    let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let info = format!("{name}-{version}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}\n");
    let wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n";
    let own = [
        (format!("{info}/METADATA"), metadata.into_bytes()),
        (format!("{info}/WHEEL"), wheel.into()),
        (format!("{info}/RECORD"), Vec::new()),
    ];
    let options = zip::write::SimpleFileOptions::default();
    for (path, bytes) in files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).chain(own) {
        zip.start_file(path, options).unwrap();
        std::io::Write::write_all(&mut zip, &bytes).unwrap();
    }
    zip.finish().unwrap();
    path
}

#[test]
fn a_host_wheel_and_its_device_wheels_are_one_tree() {
    let trees = Trees::new(&options());
    let part = |key: &str, path: &str| fs::read(trees.at("out").join(key).join(path)).unwrap();
    let (requires, at) = ("Requires-Dist: x==1\n", trees.place.path());
    let host = [("lib/plain.so", part("host", "lib/plain.so"))];
    let host = wheel(at, "x", "1", "", &host);
    let gfx90a = [("d-1.data/platlib/.kpack/rocm_gfx90a.kpack", part("gfx90a", ".kpack/rocm_gfx90a.kpack"))];
    let gfx90a = wheel(at, "d", "1", requires, &gfx90a);
    let gfx1030 = [(".kpack/rocm_gfx1030.kpack", part("gfx1030", ".kpack/rocm_gfx1030.kpack"))];
    let gfx1030 = wheel(at, "e", "1", requires, &gfx1030);
    let resources = Resources::new(64 << 20);
    let mut input = join::open_wheels(&[host, gfx90a, gfx1030], &resources).unwrap();
    let joined = join(&mut input, &resources, &join::Progress::default());
    assert_eq!(joined.warnings, Vec::<String>::new());
    let expected = All::from([("plain.so".to_owned(), expected()["plain.so"].clone())]);
    same(&code_of(&input, &resources), &expected);
}

#[test]
fn wheels_that_do_not_belong_together_are_named() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let place = place.path().join(name);
        fs::create_dir_all(&place).unwrap();
        place
    };
    let text = |bytes: &str| vec![("x/notes", bytes.as_bytes().to_vec())];
    let host = wheel(&at("a"), "x", "1.0+rocm7", "", &text("one"));
    let device = wheel(&at("a"), "x_device", "1.0+rocm7", "Requires-Dist: x==1.0+rocm7\n", &[]);
    let other = wheel(&at("b"), "x_device", "2.0", "Requires-Dist: x==2.0\n", &[]);
    let stranger = wheel(&at("b"), "y", "1.0", "", &[]);
    let conflict = wheel(&at("c"), "x_device", "1.0+rocm7", "Requires-Dist: x==1.0+rocm7\n", &text("two"));
    let check = |wheels: &[&PathBuf], named: &PathBuf, reason: &str| {
        let wheels: Vec<_> = wheels.iter().map(|path| (*path).clone()).collect();
        let error = join::open_wheels(&wheels, &Resources::new(16 << 20)).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(named.to_str().unwrap()), "{error}");
    };
    assert!(join::open_wheels(&[host.clone(), device.clone()], &Resources::new(16 << 20)).is_ok());
    let prefix = wheel(&at("d"), "x_device", "1", "Requires-Dist: x==1.*\n", &[]);
    assert!(join::open_wheels(&[host.clone(), prefix], &Resources::new(16 << 20)).is_ok());
    check(&[&host, &other], &other, "it requires x 2.0");
    check(&[&host, &device, &stranger], &stranger, "neither requires");
    check(&[&host, &device, &conflict], &conflict, "both are x_device");
    check(&[&host, &conflict], &conflict, "their content differs");
    check(&[&host, &place.path().to_owned()], &place.path().to_owned(), "this is none");
    assert_eq!(join::wheels_in(&at("a")).unwrap(), [host, device]);
    assert_eq!(join::wheels_in(place.path()).unwrap(), Vec::<PathBuf>::new());
}
