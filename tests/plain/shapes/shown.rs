//! The fixtures, split through the library, and the lookup that a runtime does for a wrapper.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use kpackfs::binary::SplitBinary;
use kpackfs::database::Databases;
use kpackfs::gpu::TargetId;
use kpackfs::kpack::{ArchiveReader, BundleJobs, Compression, toc_key};
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Rope, Segment};
use kpackfs::source::{EntryPath, Input};
use kpackfs::split::{Plan, PlanOptions};
use kpackfs::tree::{NodeKind, ROOT, Tree};
use kpackfs::view;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{LittleEndian as LE, Object, ObjectSection, RelocationTarget};
use rocm_kpack::Marker;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::fixture;

/// Fixtures that have no device code for a loader, or whose device code cannot be moved.
pub(crate) const UNCHANGED: [&str; 4] = ["debuginfo.so.debug", "extra-pointer.so", "host-only.so", "object.o"];

/// The entry of a fixture in `expected.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Expected {
    pub(crate) sha256: String,
    pub(crate) size: u64,
    pub(crate) wrappers: Vec<BTreeMap<String, CodeObject>>,
}

/// The entry of a code object in `expected.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct CodeObject {
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

pub(crate) fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_slice(&fixture("expected.json")).unwrap()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn content(bytes: Vec<u8>) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes)]).unwrap())
}

/// A tree, and the views that a mount of it has.
pub(crate) struct Shown {
    pub(crate) fat: TempDir,
    pub(crate) plan: Plan,
    pub(crate) tree: Tree,
    /// Archives by their path in an installation.
    archives: BTreeMap<String, ArchiveReader>,
}

impl Shown {
    /// Shows fixtures, all of them in `lib/`.
    pub(crate) fn fixtures<'a>(names: impl IntoIterator<Item = &'a str>, compression: Compression) -> Self {
        let fat = tempfile::tempdir().unwrap();
        fs::create_dir(fat.path().join("lib")).unwrap();
        for name in names {
            fs::copy(Path::new("tests/fixtures").join(name), fat.path().join("lib").join(name)).unwrap();
        }
        Self::tree(fat, compression)
    }

    pub(crate) fn one(name: &str) -> Self {
        Self::fixtures([name], Compression::default())
    }

    pub(crate) fn tree(fat: TempDir, compression: Compression) -> Self {
        let resources = Resources::new(64 << 20);
        let input = Input::open(fat.path(), &resources).unwrap();
        let options = PlanOptions { databases: Databases::all(), compression, ..PlanOptions::default() };
        let plan = Plan::make(&input, &options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
        let tree = view::lay_out(&input, &plan, None, &[]).unwrap();
        let mut shown = Self { fat, plan, tree, archives: BTreeMap::new() };
        let archives = shown.plan.archives.iter().map(|planned| {
            let place = format!("{}/{}", planned.key.as_str(), planned.path);
            (planned.path.to_string(), ArchiveReader::open(shown.content(&place)).unwrap())
        });
        shown.archives = archives.collect();
        shown
    }

    /// The content of a file of a view.
    pub(crate) fn content(&self, path: &str) -> Arc<dyn Content> {
        let node = self.tree.resolve(ROOT, &EntryPath::new(path.as_bytes()).unwrap()).expect(path);
        match &self.tree.node(node).unwrap().kind {
            NodeKind::File { body, .. } => body.content().unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    /// The bytes of a fixture in the host part.
    pub(crate) fn host(&self, name: &str) -> Vec<u8> {
        whole(&*self.content(&format!("host/lib/{name}")))
    }

    /// The archives that a runtime opens for a device of `target`, in its order: those that exist and list the name.
    /// Each comes with the name that was asked for.
    pub(crate) fn archives(&self, search_paths: &[String], target: &str) -> Vec<(&ArchiveReader, String)> {
        let target: TargetId = target.parse().unwrap();
        let names = target.candidates().into_iter().map(|name| name.to_string());
        let of_name = |name: String| {
            search_paths.iter().filter_map(move |path| {
                // Every binary is in lib/.
                let path = path.replace("@GFXARCH@", &name);
                let reader = self.archives.get(path.strip_prefix("../").expect("a path below the root"))?;
                reader.toc().gfx_arches.contains(&name).then(|| (reader, name.clone()))
            })
        };
        names.flat_map(of_name).collect()
    }

    /// The code that a runtime finds in the first archive for a device of `target`. It does not search any other
    /// archive.
    pub(crate) fn found(&self, wrapper: &Wrapper, target: &str) -> Option<Vec<u8>> {
        let archives = self.archives(&wrapper.search_paths, target);
        let (reader, name) = archives.first()?;
        reader.get(&wrapper.key, name).unwrap()
    }
}

/// What a wrapper of a split binary asks for.
pub(crate) struct Wrapper {
    pub(crate) search_paths: Vec<String>,
    pub(crate) key: String,
}

/// What the wrappers of a split binary ask for, as a loader sees them.
pub(crate) fn wrappers(bytes: Vec<u8>) -> Vec<Wrapper> {
    let split = SplitBinary::read(&content(bytes)).unwrap().expect("it is split");
    assert_eq!(split.problems, Vec::<String>::new());
    let wrapper = |wrapper: &kpackfs::binary::SplitWrapper| {
        assert_eq!(wrapper.version, 1);
        let marker = Marker::decode(wrapper.marker.as_ref().unwrap()).unwrap();
        Wrapper {
            search_paths: marker.kpack_search_paths,
            key: toc_key(&marker.kernel_name, usize::try_from(wrapper.index).unwrap()),
        }
    };
    split.wrappers.iter().map(wrapper).collect()
}

pub(crate) fn whole(content: &dyn Content) -> Vec<u8> {
    content.to_vec().unwrap()
}

/// The pointers of all wrappers, resolved without kpackfs: from relocations with addends, otherwise in place.
pub(crate) fn pointers(bytes: &[u8]) -> Vec<u64> {
    let elf = ElfFile64::<LE>::parse(bytes).unwrap();
    let section = elf.section_by_name(".hipFatBinSegment").unwrap();
    let data = section.data().unwrap();
    let mut relocated = BTreeMap::new();
    for (place, relocation) in elf.dynamic_relocations().into_iter().flatten() {
        assert!(relocation.target() == RelocationTarget::Absolute || !in_section(&section, place));
        relocated.insert(place, relocation.addend().cast_unsigned());
    }
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let is_wrapper = |at: &usize| data[*at..].starts_with(b"HIPK");
    let pointer =
        |at: usize| relocated.get(&(section.address() + at as u64 + 8)).copied().unwrap_or_else(|| word(at + 8));
    (0..data.len()).step_by(8).filter(is_wrapper).map(pointer).collect()
}

fn in_section<'a>(section: &impl ObjectSection<'a>, place: u64) -> bool {
    (section.address()..section.address() + section.size()).contains(&place)
}

/// Address of a section.
pub(crate) fn address(bytes: &[u8], name: &str) -> u64 {
    ElfFile64::<LE>::parse(bytes).unwrap().section_by_name(name).expect(name).address()
}

/// The number in eight bytes of a header.
pub(crate) fn word(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) is_writable: bool,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) alignment: u64,
}

pub(crate) const LOAD: u32 = 1;
pub(crate) const PHDR: u32 = 6;
pub(crate) const RELRO: u32 = 0x6474_e552;
pub(crate) const STACK: u32 = 0x6474_e551;
/// A kind of program header that no tool knows, in the range for operating systems.
pub(crate) const UNKNOWN: u32 = 0x6abc_de01;

pub(crate) fn program_headers(bytes: &[u8]) -> Vec<Header> {
    let elf = ElfFile64::<LE>::parse(bytes).unwrap();
    let header = |header: &object::elf::ProgramHeader64<LE>| Header {
        kind: header.p_type(LE).0,
        is_writable: header.p_flags(LE).0 & 2 != 0,
        offset: header.p_offset(LE),
        address: header.p_vaddr(LE),
        file_size: header.p_filesz(LE),
        memory_size: header.p_memsz(LE),
        alignment: header.p_align(LE),
    };
    elf.elf_program_headers().iter().map(header).collect()
}

pub(crate) fn loads(bytes: &[u8]) -> Vec<Header> {
    program_headers(bytes).into_iter().filter(|header| header.kind == LOAD).collect()
}

/// Whether a name is an ELF file that gets rewritten.
pub(crate) fn is_rewritten_elf(name: &str) -> bool {
    !UNCHANGED.contains(&name) && !name.starts_with("win.")
}
