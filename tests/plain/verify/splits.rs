//! Splits of the fixtures, and functions that damage them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::kpack::{BundleJobs, Toc};
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::Input;
use kpackfs::split::{self, Plan};
use kpackfs::verify::{Check, Finding, VerifyOptions, VerifyReport};
use object::LittleEndian as LE;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use rocm_kpack::Archive;
use tempfile::TempDir;

use crate::split_input::{LEFT_OUT, write_views};

pub(crate) const PLAIN: &str = "host/lib/plain-bfd.so";
pub(crate) const FEATURES: &str = "host/lib/features.so";
pub(crate) const GFX90A: &str = "gfx90a/.kpack/rocm_gfx90a.kpack";
pub(crate) const GFX1030: &str = "gfx1030/.kpack/rocm_gfx1030.kpack";
pub(crate) const XNACK: &str = "gfx90a/.kpack/rocm_gfx90a:xnack+.kpack";

/// A fat tree and its split.
pub(crate) struct Split {
    fat: Option<TempDir>,
    out: TempDir,
}

/// The planner's options with everything enabled.
pub(crate) fn all() -> split::PlanOptions {
    split::PlanOptions { databases: kpackfs::database::Databases::all(), ..split::PlanOptions::default() }
}

impl Split {
    /// The split, and more views of it.
    pub(crate) fn make(views: &[&str]) -> Self {
        Self::with(&all(), views)
    }

    pub(crate) fn restricted(options: &split::PlanOptions) -> Self {
        Self::with(options, &[])
    }

    fn with(options: &split::PlanOptions, views: &[&str]) -> Self {
        let fat = tempfile::tempdir().unwrap();
        fill(fat.path());
        let out = tempfile::tempdir().unwrap();
        let resources = Resources::new(64 << 20);
        let input = Input::open(fat.path(), &resources).unwrap();
        let plan = Plan::make(&input, options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
        assert_eq!(plan.warnings, Vec::<String>::new());
        write_views(&input, &plan, views, out.path());
        Self { fat: Some(fat), out }
    }

    pub(crate) fn fat(&self) -> PathBuf {
        self.fat.as_ref().expect("only a copy").path().to_owned()
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.out.path().to_owned()
    }

    /// A copy of the split, without the fat tree.
    pub(crate) fn copied(&self) -> Self {
        let out = tempfile::tempdir().unwrap();
        let status = std::process::Command::new("cp").arg("-a").arg(self.out().join(".")).arg(out.path()).status();
        assert!(status.unwrap().success());
        Self { fat: None, out }
    }
}

/// Fixtures, a database, and other files that a tree may have.
fn fill(root: &Path) {
    let library = root.join("lib/rocblas/library");
    fs::create_dir_all(&library).unwrap();
    for fixture in fs::read_dir("tests/fixtures").unwrap() {
        let fixture = fixture.unwrap();
        if !LEFT_OUT.contains(&fixture.file_name().to_str().unwrap()) {
            fs::copy(fixture.path(), root.join("lib").join(fixture.file_name())).unwrap();
        }
    }
    fs::write(library.join("TensileLibrary_gfx90a.dat"), b"\x91\xaafor gfx90a").unwrap();
    fs::write(library.join("TensileLibrary_gfx1030.dat"), b"\x91\xabfor gfx1030").unwrap();
    fs::create_dir(root.join("share")).unwrap();
    fs::write(root.join("share/notes"), "for everybody").unwrap();
    fs::set_permissions(root.join("share/notes"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    symlink("plain.so", root.join("lib/link.so")).unwrap();
}

/// Recognises inputs, and verifies them.
pub(crate) fn try_verify(
    paths: &[PathBuf],
    against: &[PathBuf],
    options: &VerifyOptions,
    resources: &Arc<Resources>,
) -> anyhow::Result<VerifyReport> {
    let named = kpackfs::opened::recognise_all_unproved(paths)?;
    kpackfs::verify::verify(&named, against, options, resources, &Progress::default())
}

/// Verifies without a command line.
pub(crate) fn verify(paths: &[PathBuf], against: Option<&Path>, options: &VerifyOptions) -> VerifyReport {
    try_verify(paths, against.map(Path::to_owned).as_slice(), options, &Resources::new(64 << 20)).unwrap()
}

/// Copies a file to a directory, which is created if it does not exist.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

pub(crate) fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// The offset of some bytes in a file.
pub(crate) fn offset_of(path: &Path, wanted: &[u8]) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.windows(wanted.len()).position(|window| window == wanted).unwrap() as u64
}

/// Rewrites the table of contents of an archive.
pub(crate) fn edit_toc(path: &Path, change: impl FnOnce(&mut Toc)) {
    edit(path, |bytes| {
        let offset = usize::try_from(u64::from_le_bytes(bytes[8..16].try_into().unwrap())).unwrap();
        let mut toc = Archive::open(bytes.as_slice()).unwrap().toc().unwrap();
        change(&mut toc);
        bytes.truncate(offset);
        bytes.extend(toc.encode());
    });
}

/// Where structures are in an ELF file.
pub(crate) struct Elf {
    pub(crate) sections: BTreeMap<String, Section>,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Clone, Copy)]
pub(crate) struct Section {
    /// File offset of its header.
    pub(crate) header: u64,
    pub(crate) offset: u64,
}

pub(crate) struct Segment {
    /// File offset of its header.
    pub(crate) header: u64,
    pub(crate) kind: u32,
    pub(crate) is_load: bool,
    pub(crate) is_writable: bool,
    pub(crate) is_executable: bool,
    pub(crate) offset: u64,
    pub(crate) address: u64,
}

impl Elf {
    pub(crate) fn open(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let elf = ElfFile64::<LE>::parse(&*bytes).unwrap();
        let header = elf.elf_header();
        let table = elf.elf_section_table();
        let sections = (0_u64..).zip(table.iter()).map(|(index, section)| {
            let name = String::from_utf8_lossy(table.section_name(LE, section).unwrap()).into_owned();
            (name, Section { header: header.e_shoff(LE) + index * 64, offset: section.sh_offset(LE) })
        });
        let segments = (0_u64..).zip(elf.elf_program_headers()).map(|(index, segment)| Segment {
            header: header.e_phoff(LE) + index * 56,
            kind: segment.p_type(LE).0,
            is_load: segment.p_type(LE).0 == 1,
            is_writable: segment.p_flags(LE).0 & 2 != 0,
            is_executable: segment.p_flags(LE).0 & 1 != 0,
            offset: segment.p_offset(LE),
            address: segment.p_vaddr(LE),
        });
        Self { sections: sections.collect(), segments: segments.collect() }
    }

    pub(crate) fn section(&self, name: &str) -> Section {
        self.sections[name]
    }
}

/// A change to a split, the file that the finding must name, and a part of its reason.
pub(crate) type Mutation = (&'static str, fn(&Path), &'static str, &'static str);

/// The check that finds each of some changes.
pub(crate) struct FoundBy(pub(crate) Check);

impl FoundBy {
    pub(crate) fn each(self, mutations: &[Mutation]) {
        let split = Split::make(&[]);
        for (name, mutate, path, reason) in mutations {
            let copied = split.copied();
            mutate(&copied.out());
            println!("{name}");
            let fat = (self.0 == Check::Against).then(|| split.fat());
            expect(&copied, fat.as_deref(), self.0, path, reason);
        }
        assert_eq!(verify(&[split.out()], None, &VerifyOptions::default()).findings, []);
    }
}

pub(crate) fn expect(split: &Split, against: Option<&Path>, check: Check, path: &str, reason: &str) -> VerifyReport {
    let report = verify(&[split.out()], against, &VerifyOptions::default());
    let is_it = |finding: &&Finding| finding.check == check && finding.path == path && finding.reason.contains(reason);
    assert!(report.findings.iter().any(|finding| is_it(&finding)), "{path}: {reason}: {:#?}", report.findings);
    report
}

/// Puts the code object of one name under another name, too.
pub(crate) fn replace(toc: &mut Toc, key: &str, other: &str) {
    let other = toc.toc[other].values().next().unwrap().clone();
    *toc.toc.get_mut(key).unwrap().values_mut().next().unwrap() = other;
}
