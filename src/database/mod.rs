//! Kernel databases: files next to libraries that contain device code or tuning data for one architecture each.
//!
//! Each library has its own naming scheme, so there is one handler for each. Handlers read names only; where other files
//! may be called so, the first bytes confirm what the name says. Loose code objects that no handler claims are recognised
//! by their headers. All other files stay in the host part, which every architecture has.
//!
//! It does not know the split. It returns the architecture of a file, or nothing.

mod aotriton;
mod arch;
mod catalogue;
mod catalogue_check;
mod codeobject;
#[cfg(test)]
mod codeobject_tests;
mod composablekernel;
mod hipkernelprovider;
mod hotswap_cache;
mod miopen;
mod names;
mod reader;
pub mod rocfft;
mod rocshmem;
pub mod tensile;
pub mod tensile_library;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::devicecode::SQLITE;
use crate::fatbin::BITCODE;
use crate::gpu::{self, TargetId};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::EntryPath;

use codeobject::{LooseCode, stays};
use names::PathNames;

pub use arch::Arch;
pub use catalogue::{begins as begins_catalogue, names as catalogue_names};
pub use catalogue_check::CatalogueCheck;
pub use codeobject::{CODE_SUFFIXES, NamedFile};
pub use names::{VERSION, is_version};
pub use reader::{DatabaseReader, EmptyVariable};

/// A library whose databases can be separated by architecture.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownHandler, parse_err_fn = unknown)]
pub enum Handler {
    /// rocBLAS: Tensile kernels.
    Rocblas,
    /// hipBLASLt: Tensile kernels.
    Hipblaslt,
    /// hipSPARSELt: Tensile kernels.
    Hipsparselt,
    /// AOTriton: images of attention kernels.
    Aotriton,
    /// MIOpen: tuning databases, models, and libraries of composable kernels.
    Miopen,
    /// Composable Kernel: static libraries.
    Composablekernel,
    /// The kernel provider of hipDNN.
    Hipkernelprovider,
    /// Translations of the rocjitsu hot-swap cache.
    HotswapCache,
    /// rocFFT: caches of compiled kernels.
    Rocfft,
    /// rocSHMEM: bitcode of device functions.
    Rocshmem,
    /// Loose code objects of any library, with their tables.
    Codeobject,
}

/// A file that belongs to a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFile {
    /// The handler that claimed it.
    pub handler: Handler,
    /// Its architecture.
    pub arch: Arch,
}

/// The kind of a database's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelFiles {
    /// Device code of a Tensile library.
    Code,
    /// The catalogues in which a Tensile library finds its code.
    Catalogue,
    /// Files that are not distinguished.
    Any,
}

/// The handlers of one run, in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Databases {
    /// The handlers in the order in which they are asked.
    pub handlers: Vec<Handler>,
    /// Results that need headers.
    code: Arc<LooseCode>,
    /// Files that begin otherwise than their names promise, each with the reason.
    unconfirmed: Arc<BTreeMap<EntryPath, &'static str>>,
}

/// There is no handler of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown database {name:?}; there are {}", <Handler as VariantNames>::VARIANTS.join(", "))]
pub struct UnknownHandler {
    /// The requested name.
    pub name: String,
}

/// There is no preset of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown wheel type {name:?}; there is {TORCH_FAT}")]
pub struct UnknownPreset {
    /// The requested name.
    pub name: String,
}

/// The prefix of all processor names.
const PROCESSOR: &[u8] = b"gfx";

/// Whether a path may name a processor. Every handler wants that, and so do loose code objects.
fn names_processor(path: &EntryPath) -> bool {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(PROCESSOR));
    FINDER.find(path.as_bytes()).is_some()
}

/// The preset for torch wheels that contain the ROCm libraries.
pub const TORCH_FAT: &str = "torch-fat";

/// The architecture in a file's name, or else in that of the closest directory above it.
pub fn named_arch(path: &EntryPath) -> Option<TargetId> {
    path.components().rev().find_map(|component| gpu::find_arch(std::str::from_utf8(component).ok()?))
}

impl Handler {
    /// Every handler.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The directory whose files are one database with the file at `path`: copies of a library have a database each.
    pub fn directory(self, path: &EntryPath) -> EntryPath {
        let named = |directories: &[&str]| Some(PathNames::new(path)?.below(directories)?.len());
        let below = match self {
            Self::Rocblas | Self::Hipblaslt | Self::Hipsparselt => {
                PathNames::new(path).and_then(|names| Some(tensile::below(self.name(), &names)?.len()))
            }
            Self::Aotriton => named(&["aotriton.images"]),
            Self::Miopen => named(&["miopen", "db"]),
            Self::Hipkernelprovider => {
                named(&["engines", "arch_content"]).or_else(|| named(&["engines", "test_arch_content"]))
            }
            Self::Composablekernel | Self::HotswapCache | Self::Rocfft | Self::Rocshmem => None,
            // A directory that names an architecture is one of several.
            Self::Codeobject => {
                let is_named = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| gpu::find_arch(name).is_some());
                path.components().position(is_named).map(|first| path.depth() - first)
            }
        };
        let above = path.components().take(path.depth().saturating_sub(below.unwrap_or(1)));
        EntryPath::root().child(&above.collect::<Vec<_>>().join(&b'/'))
    }

    /// The kind of a file: libraries open files of different kinds, and need all of them. `None` for a file without which
    /// they find their code, too, such as a manifest or a cache.
    pub fn kind(self, path: &EntryPath) -> Option<KernelFiles> {
        let is = |suffixes: &[&str]| suffixes.iter().any(|suffix| path.name().ends_with(suffix.as_bytes()));
        match self {
            Self::Rocblas | Self::Hipblaslt | Self::Hipsparselt if is(&tensile::CODE) => Some(KernelFiles::Code),
            Self::Rocblas | Self::Hipblaslt | Self::Hipsparselt => {
                is(&tensile::CATALOGUES).then_some(KernelFiles::Catalogue)
            }
            Self::Rocfft | Self::Rocshmem => None,
            _ => Some(KernelFiles::Any),
        }
    }

    /// The architecture in the path of a file that this handler claims by name.
    pub fn named_arch(self, path: &EntryPath) -> Option<Arch> {
        self.detect(&PathNames::new(path)?)
    }

    fn detect(self, names: &PathNames) -> Option<Arch> {
        match self {
            Self::Rocblas | Self::Hipblaslt | Self::Hipsparselt => tensile::detect(self.name(), names),
            Self::Aotriton => aotriton::detect(names),
            Self::Miopen => miopen::detect(names),
            Self::Composablekernel => composablekernel::detect(names),
            Self::Hipkernelprovider => hipkernelprovider::detect(names),
            Self::HotswapCache => hotswap_cache::detect(names),
            Self::Rocfft => rocfft::detect(names),
            Self::Rocshmem => rocshmem::detect(names),
            Self::Codeobject => None,
        }
    }

    /// How its files begin, and what others are not; `None` if their names are enough.
    fn magic(self) -> Option<(&'static [&'static [u8]], &'static str)> {
        match self {
            Self::Rocfft => Some((&[SQLITE], "its name is that of a cache of rocFFT, but it is no SQLite file")),
            Self::Rocshmem => Some((&BITCODE, "its name is that of bitcode, but it is none")),
            _ => None,
        }
    }

    /// Whether rocm-kpack moves its files, too. Splits by others have all other ones in the host part.
    pub fn is_of_reference(self) -> bool {
        !matches!(self, Self::Rocfft | Self::Rocshmem)
    }

    /// The library that reads this handler's files. `None` if none reads them at a place of its own: static libraries
    /// of Composable Kernel are for linkers, bitcode for compilers, and loose code objects have a library each.
    pub fn reader(self) -> Option<&'static DatabaseReader> {
        match self {
            Self::Rocblas => Some(&tensile::ROCBLAS),
            Self::Hipblaslt => Some(&tensile::HIPBLASLT),
            Self::Hipsparselt => Some(&tensile::HIPSPARSELT),
            Self::Aotriton => Some(&aotriton::READER),
            Self::Miopen => Some(&miopen::READER),
            Self::Rocfft => Some(&rocfft::READER),
            Self::Composablekernel
            | Self::Hipkernelprovider
            | Self::HotswapCache
            | Self::Rocshmem
            | Self::Codeobject => None,
        }
    }

    /// Whether the library that reads its files does its work without them, if more slowly.
    pub fn is_optional(self) -> bool {
        self.reader().is_some_and(|reader| reader.is_optional)
    }

    /// The handler whose files a library of this file name reads: `librocblas.so.5`, `rocblas.dll`.
    pub fn read_by(file_name: &str) -> Option<(Self, &'static DatabaseReader)> {
        let stem = file_name.strip_suffix(".dll").or_else(|| {
            let (stem, version) = file_name.strip_prefix("lib")?.split_once(".so")?;
            // An archive of the library may begin with its name.
            let is_version = version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
            (version.is_empty() || version.starts_with('.') && is_version).then_some(stem)
        })?;
        let mut readers = Self::ALL.iter().copied().filter_map(|handler| Some((handler, handler.reader()?)));
        readers.find(|(_, reader)| reader.libraries.contains(&stem))
    }
}

fn unknown(name: &str) -> UnknownHandler {
    UnknownHandler { name: name.to_owned() }
}

/// Why a file is none of a handler's, although it is called so.
fn not_confirmed(handler: Handler, content: &dyn Content) -> Option<&'static str> {
    let (magics, reason) = handler.magic()?;
    let length = magics.iter().map(|magic| magic.len()).max()?;
    let is_of = |bytes: Vec<u8>| magics.iter().any(|magic| bytes.starts_with(magic));
    (!content.beginning(length).is_ok_and(is_of)).then_some(reason)
}

impl Databases {
    fn with_handlers(handlers: Vec<Handler>) -> Self {
        Self { handlers, ..Self::default() }
    }

    /// Every handler.
    pub fn all() -> Self {
        Self::with_handlers(Handler::ALL.to_vec())
    }

    /// The handlers of these names, without duplicates. An empty list gives none.
    pub fn from_names<S: AsRef<str>>(names: &[S]) -> Result<Self, UnknownHandler> {
        let mut handlers = Vec::new();
        for name in names {
            let handler = name.as_ref().parse()?;
            if !handlers.contains(&handler) {
                handlers.push(handler);
            }
        }
        Ok(Self::with_handlers(handlers))
    }

    /// The handlers of a preset, which is named after a type of wheel.
    pub fn preset(name: &str) -> Result<Self, UnknownPreset> {
        use Handler::{Aotriton, Hipblaslt, Hipsparselt, Miopen, Rocblas};
        if name == TORCH_FAT {
            Ok(Self::with_handlers(vec![Rocblas, Hipblaslt, Hipsparselt, Aotriton, Miopen]))
        } else {
            Err(UnknownPreset { name: name.to_owned() })
        }
    }

    /// The same handlers for these files, with the loose code objects among them.
    #[must_use]
    pub fn of<'a>(&self, files: impl IntoIterator<Item = NamedFile<'a>>, resources: &Arc<Resources>) -> Self {
        self.claim(files, resources).0
    }

    /// Like [`Databases::of`]. Also returns what [`Databases::classify`] says of each file.
    pub fn claim<'a>(
        &self,
        files: impl IntoIterator<Item = NamedFile<'a>>,
        resources: &Arc<Resources>,
    ) -> (Self, Vec<Option<DatabaseFile>>) {
        let by_name = Self::with_handlers(self.handlers.clone());
        let (mut unconfirmed, mut unclaimed, mut claims) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (path, content) in files {
            let mut found = by_name.classify(path);
            if let Some(reason) = found.as_ref().and_then(|found| not_confirmed(found.handler, &**content)) {
                unconfirmed.insert(path.clone(), reason);
                found = None;
            } else if found.is_none() && names_processor(path) {
                unclaimed.push((claims.len(), (path, content)));
            }
            claims.push(found);
        }
        let with_code = self.handlers.contains(&Handler::Codeobject);
        let candidates = unclaimed.iter().filter(|_| with_code).map(|(_, file)| *file);
        let code = Arc::new(LooseCode::find(candidates.collect(), resources));
        let databases = Self { code, unconfirmed: Arc::new(unconfirmed), ..by_name };
        for (number, (path, _)) in unclaimed {
            if let Some(claim) = claims.get_mut(number) {
                *claim = databases.classify(path);
            }
        }
        (databases, claims)
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> Vec<String> {
        let unconfirmed = self.unconfirmed.iter().map(|(path, reason)| stays(path, reason));
        self.code.warnings.iter().cloned().chain(unconfirmed).collect()
    }

    /// The handler that claims the file at `path`, and the file's architecture. The first handler that claims it wins.
    /// Paths that are not UTF-8 belong to none.
    pub fn classify(&self, path: &EntryPath) -> Option<DatabaseFile> {
        if self.handlers.is_empty() || !names_processor(path) || self.unconfirmed.contains_key(path) {
            return None;
        }
        let names = PathNames::new(path)?;
        let by_name =
            self.handlers.iter().find_map(|&handler| Some(DatabaseFile { handler, arch: handler.detect(&names)? }));
        by_name.or_else(|| Some(DatabaseFile { handler: Handler::Codeobject, arch: self.code.arch(path)? }))
    }
}
