//! MIOpen: tuning databases and models in `miopen/db/`, and libraries of composable kernels.

use super::arch::Arch;
use super::names::PathNames;
use super::reader::{DatabaseReader, EmptyVariable};
use crate::gpu::{arch_at, starts};

/// In the prefix of the library. An empty variable counts as unset.
pub(super) const READER: DatabaseReader = DatabaseReader {
    name: "MIOpen",
    libraries: &["MIOpen"],
    variable: Some("MIOPEN_SYSTEM_DB_PATH"),
    empty: EmptyVariable::Unset,
    searched: &["../share/miopen/db", "../../share/miopen/db", "../share/miopen/db"],
    next_to: None,
    follows_links: true,
    is_optional: true,
    source: "ROCm/rocm-libraries 01e83b64, projects/miopen/src/db_path.cpp.in, GetSystemDbPath",
};

/// Suffixes of binary caches, models, tuning and find databases, and users' own tuning results.
const SUFFIXES: [&str; 6] = [".kdb", ".model", ".db.txt", ".fdb.txt", ".udb.txt", ".ufdb.txt"];

pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    let file = names.file();
    kernel_library(file).or_else(|| {
        names.below(&["miopen", "db"])?;
        if !SUFFIXES.iter().any(|suffix| file.ends_with(suffix)) {
            return None;
        }
        let processor = starts(file).find_map(processor_of_database)?;
        Some(Arch::Target(processor.replace('_', "-").parse().ok()?))
    })
}

/// `libMIOpenCKGroupedConv_gfx942-xnack+.so`, possibly with a version after it, or a DLL.
fn kernel_library(file: &str) -> Option<Arch> {
    let name = file.strip_prefix("lib").unwrap_or(file).strip_prefix("MIOpenCK")?;
    starts(name).find_map(|start| {
        let (arch, rest) = arch_at(start)?;
        let before = name.strip_suffix(start)?.strip_suffix('_').filter(|before| !before.is_empty())?;
        let is_word = before.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_library = rest == ".dll" || rest == ".so" || rest.starts_with(".so.");
        (is_word && is_library).then_some(Arch::Target(arch))
    })
}

/// The processor at the start of the name of a database.
///
/// MIOpen (`GetDbBasename`) appends the number of compute units, as `_` and decimal digits or as bare hexadecimal
/// digits: `gfx1030_36`, `gfx90a6e` (gfx90a, 110 units), `gfx942130` (gfx942, 304 units), `gfx110136` (gfx1101, 54
/// units), `gfx1250-strict100` (gfx1250-strict, 256 units). LLVM's rule for processors separates processor and number:
/// a decimal major version (at most 9, or two digits that begin with 1), a decimal minor version and a hexadecimal
/// stepping, of one digit each.
fn processor_of_database(text: &str) -> Option<&str> {
    let version = text.strip_prefix("gfx")?;
    let length = if version.starts_with('1') { 4 } else { 3 };
    let (version, rest) = version.split_at_checked(length)?;
    let (numbers, stepping) = version.split_at_checked(length - 1)?;
    let is_hexadecimal = |digits: &str| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !numbers.bytes().all(|byte| byte.is_ascii_digit()) || !is_hexadecimal(stepping) {
        return None;
    }
    // `gfx1250-strict` is a target of its own. The number follows it directly, too.
    let rest = rest.strip_prefix("-strict").or_else(|| rest.strip_prefix("_strict")).unwrap_or(rest);
    let units = rest.split(|character: char| !character.is_alphanumeric()).next()?;
    if units.len() > 3 || !is_hexadecimal(units) {
        return None;
    }
    text.strip_suffix(rest)
}
