//! The kernel databases of an input: the files of one handler and one kind in one directory.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::WrapperCode;
use super::model::{Cell, CellKind, CoveredDatabase};
use super::question::CoverageInput;
use crate::database::{Arch, Handler, KernelFiles};
use crate::gpu::{BundleKey, Level, TargetId};
use crate::source::EntryPath;
use crate::split::Destination;

/// The databases that `is_judged` wants.
pub(super) fn find(
    examined: &CoverageInput<'_>,
    gpus: &[TargetId],
    is_judged: impl Fn(&EntryPath, &str) -> bool,
) -> Vec<CoveredDatabase> {
    let mut databases = BTreeMap::<(EntryPath, &str, KernelFiles), BTreeSet<Arch>>::new();
    for (entry, place) in examined.input.entries.iter().zip(&examined.plan.places) {
        let (Destination::Device(key, handler) | Destination::Unwanted(key, handler)) = place else { continue };
        let path = &entry.path;
        let Some(kind) = handler.kind(path) else { continue };
        let database = (handler.directory(path), handler.name(), kind);
        let of_generic = examined.plan.generic.get(path).map(|(target, _)| Arch::Target(target.clone()));
        databases.entry(database).or_default().insert(of_generic.unwrap_or_else(|| arch(*handler, path, key)));
    }
    databases.retain(|(path, library, _), _| is_judged(path, library));
    let judged = databases.into_iter().map(|((path, library, files), archs)| CoveredDatabase {
        library,
        path: path.to_string(),
        files,
        targets: archs.iter().map(ToString::to_string).collect(),
        gpus: gpus.iter().map(|gpu| (gpu.to_string(), cell(gpu, &archs))).collect(),
    });
    judged.collect()
}

/// The architecture of a file: that of its name, else that of the part to which its header assigned it.
fn arch(handler: Handler, path: &EntryPath, key: &BundleKey) -> Arch {
    let of_key = || match (key.level(), key.as_str().parse()) {
        (Level::Target, Ok(target)) => Arch::Target(target),
        _ => Arch::Bundle(key.clone()),
    };
    handler.named_arch(path).unwrap_or_else(of_key)
}

fn cell(gpu: &TargetId, archs: &BTreeSet<Arch>) -> Cell {
    let targets: Vec<_> = archs
        .iter()
        .filter_map(|arch| match arch {
            Arch::Target(target) => Some(target),
            Arch::Bundle(_) => None,
        })
        .collect();
    let served = gpu.served_by(&targets);
    let found = served.found.iter().filter_map(|&at| targets.get(at)).map(ToString::to_string).collect();
    let cell = Cell::of(&[WrapperCode { number: 0, found, served }]);
    let chain = BundleKey::of(gpu).packaging_chain();
    let family = archs.iter().find_map(|arch| match arch {
        Arch::Bundle(key) if chain.contains(key) => Some(key.to_string()),
        Arch::Bundle(_) | Arch::Target(_) => None,
    });
    match family {
        Some(key) if matches!(cell.code, CellKind::None | CellKind::Mode) => Cell::of_family(key),
        _ => cell,
    }
}
