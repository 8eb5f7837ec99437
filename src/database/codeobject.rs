//! Loose code objects: AMDGPU ELF files and offload bundles that a library opens by their paths, such as AITER's
//! `hsa/gfx942/**/*.co` and hipDNN's `asm_kernels/<arch>/`.
//!
//! Blender's Cycles has such bundles in zstd frames: `cycles/lib/kernel_gfx1100.fatbin.zst`, `kernel_rt_gfx1100.hipfb.zst`
//! (blender/blender 774bb44d, `intern/cycles/device/hip/device_impl.cpp` and `hiprt/device_impl.cpp`, `compile_kernel`). The
//! first block of a frame shows what it holds.
//!
//! The header decides the target of a code object, since file names are sometimes wrong. A file is moved only if its
//! path names a target or a family, too. What a library opens under one path for all GPUs stays in the host part. In a
//! directory that is named after a target, tables between the code objects are moved as well, unless the directory also
//! has host code.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;

use super::arch::Arch;
use crate::devicecode::is_for_linker;
use crate::fatbin::{CODE_HEADER, CodeFile, from_first_frame};
use crate::gpu::{BundleKey, Processor, TargetId, archs, whole_arch};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, is_head_of_binary};

/// A file with its path.
pub type NamedFile<'a> = (&'a EntryPath, &'a Arc<dyn Content>);

/// Suffixes of files that are code objects or offload bundles (`hipcc --genco`, Tensile, Triton, Blender).
pub const CODE_SUFFIXES: [&str; 4] = [".hsaco", ".co", ".fatbin", ".hipfb"];

/// Suffixes of compressed files. Only zstd is read.
const PACKED: [&str; 3] = [".zst", ".gz", ".xz"];

/// The file that makes a directory a Python package.
const PACKAGE: &[u8] = b"__init__.py";

/// The loose code objects among some files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LooseCode {
    files: HashMap<EntryPath, Arch>,
    /// Warnings about code objects whose headers contradict their paths, and about files that are called code for a GPU
    /// and are not moved.
    pub(super) warnings: Vec<String>,
}

/// What the first bytes of a file show.
enum Magic {
    /// Code for a target, and what is wrong with it.
    Code(TargetId, Option<String>),
    /// Host code, which every GPU needs, or what a linker reads.
    Host,
    /// Why a file that is called compressed code is not known to be code for one GPU.
    Unknown(&'static str),
    Other,
}

impl LooseCode {
    /// Reads the first bytes of files whose paths name a target or a family.
    pub(super) fn find(files: Vec<NamedFile<'_>>, resources: &Arc<Resources>) -> Self {
        let named: Vec<_> = files
            .into_iter()
            .filter_map(|(path, content)| Some((path, content, named_targets(path))).filter(|it| !it.2.is_empty()))
            .collect();
        let beginnings: Vec<_> =
            named.par_iter().map(|(path, content, _)| Magic::of(path, content, resources)).collect();
        let mut found = Self::default();
        for ((path, _, names), beginning) in named.iter().zip(&beginnings) {
            let Magic::Code(target, problem) = beginning else { continue };
            found.files.insert((*path).clone(), Arch::Target(target.clone()));
            found.warnings.extend(problem.iter().map(|problem| format!("{path}: it cannot be loaded: {problem}")));
            if let (false, Some(name)) = (names.iter().any(|name| fits(name, target)), names.last()) {
                found
                    .warnings
                    .push(format!("{path}: its path says {name}, but its header says {target}, which it is taken for"));
            }
        }
        let directories = own_directories(named.iter().map(|it| it.0).zip(&beginnings));
        for ((path, ..), beginning) in named.iter().zip(&beginnings) {
            let of_directory = || ancestors(path).find_map(|directory| directories.get(&directory)?.clone());
            match (beginning, of_directory()) {
                (Magic::Other | Magic::Unknown(_), Some(target)) => {
                    found.files.insert((*path).clone(), Arch::Target(target));
                }
                (Magic::Unknown(reason), None) => found.warnings.push(stays(path, reason)),
                _ => {}
            }
        }
        found
    }

    /// The architecture of the file at `path`, if it is one of these.
    pub(super) fn arch(&self, path: &EntryPath) -> Option<Arch> {
        self.files.get(path).cloned()
    }
}

impl Magic {
    /// Unreadable files are ignored here. Scanning reports them.
    fn of(path: &EntryPath, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Self {
        // A compiler needs its libraries on machines with other GPUs, too (Debian's gcc-14-offload-amdgcn).
        let head = content.beginning(CODE_HEADER).unwrap_or_default();
        if path.name() == PACKAGE || is_for_linker(&head) {
            return Self::Host;
        }
        let Some(code) = CodeFile::after_head(&head, content, resources).ok().flatten() else {
            return if is_head_of_binary(&head) { Self::Host } else { Self::of_packed(path, content) };
        };
        let has_several = code.targets.len() > 1;
        match only_processor(code.targets) {
            Some(target) => Self::Code(target, code.damage.into_values().next()),
            None if has_several && is_packed_code(path) => Self::Unknown("it has code for several GPUs"),
            None => Self::of_packed(path, content),
        }
    }

    /// The same for a file whose beginning shows no code for a GPU. It may be called compressed code.
    fn of_packed(path: &EntryPath, content: &Arc<dyn Content>) -> Self {
        if !is_packed_code(path) {
            return Self::Other;
        }
        match from_first_frame(content) {
            Ok(Some(_)) => Self::Unknown("its first block shows no code for a GPU"),
            _ if path.name().ends_with(b".zst") => Self::Unknown("it is no zstd frame"),
            _ => Self::Unknown("only zstd frames are looked into"),
        }
    }
}

/// Whether a file is called code that is compressed: `kernel_gfx1100.fatbin.zst`.
fn is_packed_code(path: &EntryPath) -> bool {
    let inner = PACKED.iter().find_map(|suffix| path.name().strip_suffix(suffix.as_bytes()));
    inner.is_some_and(|inner| CODE_SUFFIXES.iter().any(|suffix| inner.ends_with(suffix.as_bytes())))
}

/// A warning about a file that is not moved although its name says that it is code for one GPU.
pub(super) fn stays(path: &EntryPath, reason: &str) -> String {
    format!("{path}: it stays in the host part: {reason}")
}

/// The target of code for these, if it is one. Variants of one processor count as that processor.
fn only_processor(mut others: BTreeSet<TargetId>) -> Option<TargetId> {
    let first = others.pop_first()?;
    let is_alike = others.iter().all(|target| target.processor() == first.processor());
    // A bundle's table may contain any name, and a part is named after the target, so the target has to be known.
    (is_alike && is_known(&first)).then(|| if others.is_empty() { first.clone() } else { first.without_features() })
}

/// The targets and families that the components of a path name, topmost first.
fn named_targets(path: &EntryPath) -> Vec<TargetId> {
    let texts = path.components().filter_map(|component| std::str::from_utf8(component).ok());
    texts.flat_map(archs).filter(|name| is_known(name) || BundleKey::of(name).is_known()).collect()
}

/// Whether there is a processor of this name.
fn is_known(target: &TargetId) -> bool {
    Processor::named(target.processor()).is_some()
}

/// Whether code for `target` may be below this name: that of its processor, of its family, or of a processor that runs
/// it.
fn fits(name: &TargetId, target: &TargetId) -> bool {
    let runs_it = || name.candidates().iter().any(|candidate| candidate.processor() == target.processor());
    let is_above = || !name.is_generic() && BundleKey::of(target).packaging_chain().contains(&BundleKey::of(name));
    (runs_it() || is_above()) && !target.contradicts(name)
}

/// The directories that belong to the target they are named after: they contain code for it, and no host code.
fn own_directories<'a>(
    files: impl Iterator<Item = (&'a EntryPath, &'a Magic)>,
) -> BTreeMap<EntryPath, Option<TargetId>> {
    let mut with_code = BTreeMap::<EntryPath, bool>::new();
    for (path, beginning) in files {
        for directory in ancestors(path) {
            let Some(name) = target_of_directory(&directory) else { continue };
            let has_code = || matches!(beginning, Magic::Code(of, _) if BundleKey::of(of) == BundleKey::of(&name));
            if matches!(beginning, Magic::Host) {
                with_code.insert(directory, false);
            } else if has_code() {
                with_code.entry(directory).or_insert(true);
            }
        }
    }
    let own = |(directory, is_own): (EntryPath, bool)| {
        let target = target_of_directory(&directory).filter(|_| is_own);
        (directory, target)
    };
    with_code.into_iter().map(own).collect()
}

/// The target that a directory is named after. Families do not count.
fn target_of_directory(directory: &EntryPath) -> Option<TargetId> {
    let name = whole_arch(std::str::from_utf8(directory.name()).ok()?)?;
    is_known(&name).then_some(name)
}

/// The directories above a path, the closest first.
fn ancestors(path: &EntryPath) -> impl Iterator<Item = EntryPath> {
    std::iter::successors(path.parent(), EntryPath::parent).filter(|directory| !directory.is_root())
}
