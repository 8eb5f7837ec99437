//! Fat libraries with code for any targets, and what commands say about them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::{copy_all, paths_below};
use kpackfs::binary::FatBinary;
use kpackfs::fatbin::read_bundle;
use kpackfs::gpu::TargetId;
use kpackfs::kpack::{ArchiveReader, toc_key};
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Rope, Segment};
use tempfile::TempDir;

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The offsets of the bundles in plain.so, and the offset of code in them.
const BUNDLES: [usize; 2] = [4096, 20480];
const FIRST_CODE: usize = 4096;
const CODE_SIZE: usize = 128;

/// What is before the target ID in most entry IDs.
pub(crate) const PREFIX: &str = "hipv4-amdgcn-amd-amdhsa--";

/// XNACK in `e_flags`.
pub(crate) const UNSUPPORTED: u32 = 0;
pub(crate) const ANY: u32 = 0x100;
pub(crate) const OFF: u32 = 0x200;
pub(crate) const ON: u32 = 0x300;

/// An entry of a bundle.
#[derive(Clone, Debug)]
pub(crate) struct BundleEntry {
    pub(crate) id: String,
    pub(crate) flags: u32,
}

impl BundleEntry {
    pub(crate) fn new(target: &str, number: u8, xnack: u32) -> Self {
        Self { id: format!("{PREFIX}{target}"), flags: u32::from(number) | xnack }
    }
}

/// The beginning of an AMDGPU ELF file with these flags, code object version 5.
pub(crate) fn code(flags: u32, text: &str) -> Vec<u8> {
    let mut code = vec![0; CODE_SIZE];
    code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x03");
    code[16] = 3;
    code[18] = 224;
    code[20] = 1;
    code[48..52].copy_from_slice(&flags.to_le_bytes());
    code[52] = 64;
    code[64..64 + text.len()].copy_from_slice(text.as_bytes());
    code
}

/// plain.so with other entries in both of its bundles.
pub(crate) fn library(entries: &[BundleEntry]) -> Vec<u8> {
    let mut library = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/plain.so")).unwrap();
    for (unit, bundle) in BUNDLES.into_iter().enumerate() {
        let mut table = MAGIC.to_vec();
        table.extend((entries.len() as u64 + 1).to_le_bytes());
        let mut add = |offset: usize, size: usize, id: &str| {
            for number in [offset, size, id.len()] {
                table.extend((number as u64).to_le_bytes());
            }
            table.extend(id.as_bytes());
        };
        add(FIRST_CODE, 0, "host-x86_64-unknown-linux-gnu-");
        for (number, entry) in entries.iter().enumerate() {
            let offset = FIRST_CODE + number * CODE_SIZE;
            add(offset, CODE_SIZE, &entry.id);
            let code = code(entry.flags, &format!("entry {number} of unit {unit}"));
            library[bundle + offset..][..CODE_SIZE].copy_from_slice(&code);
        }
        assert!(table.len() <= FIRST_CODE);
        library[bundle..][..table.len()].copy_from_slice(&table);
    }
    library
}

/// A directory with `tree/lib/libx.so`, and places for output.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new(entries: &[BundleEntry]) -> Self {
        let place = Self(tempfile::Builder::new().prefix("kpackfs-identity-").tempdir().unwrap());
        fs::create_dir_all(place.at("tree/lib")).unwrap();
        fs::write(place.at("tree/lib/libx.so"), library(entries)).unwrap();
        place
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs kpackfs. Paths are relative to the place.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.current_dir(self.0.path()).env("KPACKFS_CACHE_DIR", "").env_remove("HSA_XNACK");
        command.args(arguments).output().unwrap()
    }

    /// Runs kpackfs, which succeeds, and returns its messages.
    #[track_caller]
    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }

    /// Splits the tree, checks the split, and lays all parts over each other as an installation in `site`.
    pub(crate) fn split(&self) -> String {
        let said = self.succeeds(&["split", "tree", "-o", "out"]);
        self.succeeds(&["verify", "out", "--against", "tree"]);
        self.install();
        said
    }

    /// Lays all parts of the split over each other as an installation in `site`.
    pub(crate) fn install(&self) {
        for part in fs::read_dir(self.at("out")).unwrap() {
            let part = part.unwrap();
            if part.file_name() != ".kpackfs" {
                copy_all(part.path().join("."), self.at("site"));
            }
        }
    }

    /// The targets in the names of the archives below a directory.
    pub(crate) fn archives(&self, path: &str) -> BTreeSet<String> {
        let paths = paths_below(&self.at(path)).into_iter();
        let names = paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let target = |name: String| Some(name.strip_suffix(".kpack")?.split_once('_')?.1.to_owned());
        names.filter_map(target).collect()
    }

    /// The entries of each wrapper's bundle of a fat library: target and code.
    pub(crate) fn entries(&self, path: &str) -> Vec<Vec<(String, Vec<u8>)>> {
        let bytes = fs::read(self.at(path)).unwrap();
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
        let resources = Resources::new(16 << 20);
        let of_wrapper = |wrapper: kpackfs::binary::Wrapper| {
            let objects = read_bundle(&content, wrapper.bundle, wrapper.limit, &resources).unwrap();
            let object = |it: kpackfs::fatbin::CodeObject| (it.target.to_string(), it.content.to_vec().unwrap());
            objects.into_iter().map(object).collect()
        };
        FatBinary::scan(&content).unwrap().unwrap().wrappers().into_iter().map(of_wrapper).collect()
    }

    /// The targets of a fat library.
    pub(crate) fn targets(&self, path: &str) -> BTreeSet<String> {
        self.entries(path).into_iter().flatten().map(|(target, _)| target).collect()
    }

    /// The code that a runtime loads for a device from the first bundle of a fat library.
    pub(crate) fn loaded(&self, path: &str, device: &str) -> Option<Vec<u8>> {
        let entries = self.entries(path).swap_remove(0);
        let targets: Vec<TargetId> = entries.iter().map(|(target, _)| target.parse().unwrap()).collect();
        let at = device.parse::<TargetId>().unwrap().loads(&targets.iter().collect::<Vec<_>>())?;
        Some(entries[at].1.clone())
    }

    /// The code that a loader finds for a device in archives, for the first wrapper.
    pub(crate) fn loaded_from_archives(&self, path: &str, device: &str) -> Option<Vec<u8>> {
        let candidates = device.parse::<TargetId>().unwrap().candidates();
        candidates.iter().map(ToString::to_string).find_map(|target| {
            let content = fs::read(self.at(&format!("{path}/rocm_{target}.kpack"))).ok()?;
            let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(content)]).unwrap());
            ArchiveReader::open(content).unwrap().get(&toc_key("lib/libx.so", 0), &target).unwrap()
        })
    }

    /// The result of `why` for the fat library and for the split one: for each target, whether there is code, and the
    /// whole answer as text.
    pub(crate) fn why(&self, targets: &[&str]) -> [(Vec<bool>, String); 2] {
        ["tree/lib/libx.so", "site/lib/libx.so"].map(|library| {
            let output = self.run(&["why", library, "--json", "--target", &targets.join(";")]);
            let text = String::from_utf8(output.stdout).unwrap();
            let answer: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
            let lookups = answer["lookups"].as_array().unwrap();
            (lookups.iter().map(|it| it["with_code"] == 2).collect(), text)
        })
    }
}
