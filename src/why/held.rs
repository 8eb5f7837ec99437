//! Code that a runtime finds without a search: in a library, an archive or a file that was named, or in wheels before
//! they are installed.

use std::collections::BTreeSet;

use super::assembled::Assembly;
use super::cause::Cause;
use super::device;
use super::lookup::Lookup;
use crate::coverage::{CauseKind, CodePlace, LibraryCode};
use crate::gpu::TargetId;
use crate::text::some_of;

/// Looks up the code for a GPU behind all wrappers, or behind the `wanted` one. `assembly` is where it comes from, if it is
/// not installed.
pub(super) fn look_up(
    code: &LibraryCode,
    assembly: Option<&Assembly>,
    wanted: Option<usize>,
    device: &TargetId,
    lookup: &mut Lookup,
) {
    let is_asked = |number: usize| wanted.is_none_or(|wanted| wanted == number);
    let cell = code.cell(device, is_asked);
    let asked = code.wrappers.iter().enumerate().filter(|(number, _)| is_asked(*number));
    let all: BTreeSet<_> = asked.flat_map(|(_, targets)| targets).collect();
    let targets: Vec<_> = all.iter().map(ToString::to_string).collect();
    let names = if all.is_empty() { "no GPU".to_owned() } else { targets.join(", ") };
    lookup.evidence.saw(match code.form {
        CodePlace::Split => format!("its device code is in archives, for {names}"),
        CodePlace::Archive => format!("it is an archive with {} names and code for {names}", code.wrappers.len()),
        CodePlace::Bundle => format!("it is an offload bundle with code for {names}"),
        CodePlace::CodeObject => format!("it is a code object for {names}, by its header"),
        CodePlace::Object => format!("linkers read it: it has device code for {names}"),
        CodePlace::Fat | CodePlace::Embedded | CodePlace::Unreadable => {
            format!("its device code is in the library, for {names}")
        }
    });
    match code.form {
        CodePlace::Embedded => lookup.evidence.follows("no wrapper leads to it, so a program loads it by address"),
        CodePlace::Object => lookup.evidence.follows("what is linked with it has the code then"),
        _ => {}
    }
    lookup.is_optional = code.form.may_lack(&cell) || code.only_processor().is_some();
    lookup.damage = code.damage_for(device).map(str::to_owned);
    let is_library = matches!(code.form, CodePlace::Split | CodePlace::Fat);
    if cell.is_found() {
        lookup.with_code = cell.with_code;
        if is_library || code.form == CodePlace::Archive {
            let what = if is_library { "bundles" } else { "names" };
            let found = cell.found.into_iter().collect::<Vec<_>>().join(", ");
            lookup.evidence.saw(format!("{} of {} {what} have code: {found}", lookup.with_code, lookup.wrappers));
        }
        lookup.without_code = if is_library { cell.without } else { Vec::new() };
        if code.form == CodePlace::Archive && assembly.is_some_and(|assembly| !assembly.brings_libraries()) {
            let reason =
                "the archive has code for it, and no library there leads to the archive, which can be named alone";
            lookup.fail(Cause::new(CauseKind::ArchiveAlone, reason, None));
        }
        return;
    }
    if let Some(reason) = code.problem.as_ref().or(lookup.damage.as_ref()).filter(|_| code.form == CodePlace::Split) {
        return lookup.fail(Cause::new(CauseKind::ArchiveDamaged, reason.clone(), None));
    }
    if let Some(cause) = device::cause(device, &all) {
        return lookup.fail(cause);
    }
    if let Some(assembly) = assembly.filter(|_| code.form == CodePlace::Split) {
        return assembly.explain(device, &targets, lookup);
    }
    lookup.fail(Cause::new(CauseKind::NoCode, without_code(code.form, &targets), None));
}

/// Why there is no code for a GPU where all is for others.
fn without_code(form: CodePlace, others: &[String]) -> String {
    // The evidence has all of them.
    let names = some_of(others);
    match form {
        _ if others.is_empty() => "it has no code for any GPU".to_owned(),
        CodePlace::Archive => format!("the archive has code for {names} only"),
        CodePlace::Bundle => format!("the bundle has code for {names} only"),
        CodePlace::CodeObject => format!("the file is code for {names}"),
        CodePlace::Object => format!("the object file has code for {names} only"),
        CodePlace::Split | CodePlace::Fat | CodePlace::Embedded | CodePlace::Unreadable => {
            format!("the library holds its code itself, and only for {names}")
        }
    }
}
