//! Which files a library of Tensile kernels opens for a GPU, and what is missing of them.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::Path;

use super::names::PathNames;
use super::tensile::{CATALOGUES, CODE, below};
use super::{Handler, KernelFiles};
use crate::gpu::find_arch;
use crate::source::EntryPath;
use crate::text::more;

/// The beginning of the name of the file with helper kernels (`HipSolutionAdapter::initializeLazyLoading`).
pub const HELPERS: &str = "Kernels.so-000-";

/// How the name of a catalogue begins that names others.
const LAZY: &str = "TensileLibrary_lazy_";

/// Whether a catalogue names others, by its name.
pub fn is_lazy(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(LAZY.as_bytes()))
}

/// The names of the catalogue for a processor, in the order in which the library tries them.
pub fn catalogues(handler: Handler, processor: &str) -> Vec<String> {
    let lazy = format!("{LAZY}{processor}.dat");
    let whole = format!("TensileLibrary_{processor}.dat");
    match handler {
        Handler::Rocblas => vec![lazy, whole, "TensileLibrary.dat".to_owned()],
        _ => vec![lazy.clone(), format!("{lazy}.zlib"), whole.clone(), format!("{whole}.zlib")],
    }
}

/// The files for a name in a lazy catalogue, of which one is there (`PlaceholderLibrary::loadPlaceholderLibrary`).
pub fn files_of_name(name: &str) -> impl Iterator<Item = String> {
    CATALOGUES.iter().map(move |suffix| format!("{name}{suffix}"))
}

/// The processor of a catalogue that names others, by its file name: `gfx942` for `TensileLibrary_lazy_gfx942.dat.zlib`.
pub fn processor_of_lazy(name: &str) -> Option<String> {
    let name = name.strip_prefix(LAZY)?;
    CATALOGUES.iter().find_map(|suffix| name.strip_suffix(suffix)).map(str::to_owned)
}

/// The processor of a file that only a catalogue leads to: `gfx942` for `TensileLibrary_A_gfx942.dat`, and for helper kernels,
/// which are built with a catalogue.
pub fn processor_of_further(name: &str) -> Option<String> {
    if let Some(helpers) = name.strip_prefix(HELPERS) {
        return Some(find_arch(helpers)?.processor().to_owned());
    }
    let stem = CATALOGUES.iter().find_map(|suffix| name.strip_suffix(suffix))?;
    let stem = stem.strip_prefix("TensileLibrary_").filter(|_| !name.starts_with(LAZY))?;
    let processor = find_arch(stem)?.processor().to_owned();
    (stem != processor).then_some(processor)
}

/// What is missing of the files to which a lazy catalogue leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost<'a> {
    /// Files of a name in it, and of this many others.
    Catalogue(&'a str, usize),
    /// The code of a name in it, and of this many others.
    Code(&'a str, usize),
    /// The code of all names in it.
    AllCode,
    /// The helper kernels.
    Helpers,
}

impl Lost<'_> {
    /// What is missing for a processor, in words about the catalogue.
    pub fn sentence(self, processor: &str) -> String {
        match self {
            Self::Catalogue(first, others) => {
                format!("it names what does not exist: {first}.dat{}", more(others, ","))
            }
            Self::Code(first, others) => {
                let first = code_name(first, processor);
                format!("it leads to what does not exist: {first}{}", more(others, ","))
            }
            Self::AllCode => format!("it names catalogues, and there is no code for {processor}"),
            Self::Helpers => format!("there are no helper kernels for {processor}"),
        }
    }
}

/// What is missing of the files to which the lazy catalogue for a processor leads, of those in its directory. Its library
/// takes it only on the GPU that its name says, and has to have these files then. Only what every version of the libraries
/// needs: if another version has all code under other names, nothing is said about these.
pub fn lost<'a>(
    named: &'a BTreeSet<String>,
    processor: &str,
    files: &BTreeSet<impl Borrow<str> + Ord>,
) -> Option<Lost<'a>> {
    if named.is_empty() {
        return None;
    }
    let has = |name: String| files.contains(name.as_str());
    let first = |names: &[&'a str], lost: fn(&'a str, usize) -> Lost<'a>| {
        names.split_first().map(|(name, rest)| lost(name, rest.len()))
    };
    let all = || named.iter().map(String::as_str);
    let catalogues: Vec<_> = all().filter(|name| !files_of_name(name).any(has)).collect();
    if !catalogues.is_empty() {
        return first(&catalogues, Lost::Catalogue);
    }
    let code: Vec<_> = all().filter(|name| !code_of_name(name, processor).any(has)).collect();
    if code.len() < named.len() && !code.is_empty() {
        return first(&code, Lost::Code);
    }
    if code.len() == named.len() {
        let is_catalogue = |name: &str| CATALOGUES.iter().any(|suffix| name.ends_with(suffix));
        let is_code = |name: &str| is_for(name, processor) && !is_catalogue(name) && !name.starts_with(HELPERS);
        return (!files.iter().map(Borrow::borrow).any(is_code)).then_some(Lost::AllCode);
    }
    (!helpers(processor).into_iter().any(has)).then_some(Lost::Helpers)
}

/// The code object for that catalogue, as messages name it.
pub fn code_name(name: &str, processor: &str) -> String {
    let is_fallback = name.contains("fallback") && !name.ends_with(processor);
    if is_fallback { format!("{name}_{processor}.hsaco") } else { format!("{name}.co or .hsaco") }
}

/// Whether a file is for a processor by its name, in any mode.
pub fn is_for(name: &str, processor: &str) -> bool {
    find_arch(name).is_some_and(|target| target.processor() == processor)
}

/// The files with helper kernels for a processor, of which the first that can be loaded is taken.
pub fn helpers(processor: &str) -> [String; 3] {
    ["", "-xnack-", "-xnack+"].map(|mode| format!("{HELPERS}{processor}{mode}.hsaco"))
}

/// The code objects for that catalogue, of which one is there (`PlaceholderLibrary::getCodeObjectFileName`).
fn code_of_name(name: &str, processor: &str) -> impl Iterator<Item = String> {
    let stems = [name.to_owned(), format!("{name}_{processor}")];
    let of_modes = stems.into_iter().flat_map(|stem| ["", "-xnack-", "-xnack+"].map(|mode| format!("{stem}{mode}")));
    of_modes.flat_map(|stem| CODE.map(|suffix| format!("{stem}{suffix}")))
}

/// The kind of a file below the directory of one of these libraries, whether or not its name has a target. `None` for all
/// other files.
pub fn kind(path: &EntryPath) -> Option<KernelFiles> {
    let names = PathNames::new(path)?;
    let mut libraries = [Handler::Rocblas, Handler::Hipblaslt, Handler::Hipsparselt].into_iter();
    let library = libraries.find(|library| below(library.name(), &names).is_some())?;
    library.kind(path)
}
