//! The comparison of two inventories.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::amount::{Amount, Change, Changes, Pair};
use super::code::{ComparedObject, KernelNames};
use super::inventory::{Inventory, InventoryLibrary, InventoryMember};
use super::members::compare_members;
use super::metadata::MetadataChange;
use super::model::{Diff, Download, Head, KernelChange, LibraryChange, PackageChange, TargetChange};
use super::side::{Downloads, Side};
use crate::metrics::Progress;
use crate::report::details::{package_name, root};
use crate::source::EntryPath;

/// The most kernels in the list. Further ones are counted.
const MAX_LISTED_KERNELS: usize = 1000;
/// The name of the download of everything.
const ALL: &str = "all";

/// Kernels of a library for a target: their number and bytes.
type Kernels = BTreeMap<u32, Amount>;
/// Kernels that differ, by library and number.
type Different<'a> = HashMap<(&'a str, u32), (BTreeSet<&'a str>, Pair<Amount>)>;

impl Diff {
    /// Reads all code objects of both inputs, and files that may be equal.
    pub(crate) fn of(before: &Side, after: &Side, progress: &Progress) -> anyhow::Result<Self> {
        let names = &KernelNames::default();
        let sides = Pair { before, after };
        // So that the total is known before the first byte is read.
        let (files_before, code_before) = Inventory::list(before, progress);
        let (files_after, code_after) = Inventory::list(after, progress);
        let before = &files_before.read(code_before, before, names, progress)?;
        let after = &files_after.read(code_after, after, names, progress)?;
        let mut targets = BTreeMap::<String, TargetChange>::new();
        let mut databases = BTreeMap::<String, BTreeMap<String, Pair<Amount>>>::new();
        for (inventory, is_after) in [(before, false), (after, true)] {
            for ((library, key), amount) in inventory.databases() {
                let of_library = databases.entry(library.to_owned()).or_default().entry(key.to_owned()).or_default();
                *of_library.side(is_after) = amount;
                let of_target = targets.entry(key.to_owned()).or_default().databases.side(is_after);
                *of_target = of_target.plus(amount);
            }
        }
        let mut different = Different::new();
        let mut libraries = libraries(before, after, &mut targets, &mut different);
        libraries.sort_by_cached_key(|library| (Reverse(library.distance()), library.path.clone()));
        let all = |of: fn(&LibraryChange) -> Changes| libraries.iter().map(of).fold(Changes::default(), Changes::plus);
        let unread = |inventory: &Inventory| {
            let codes = inventory.libraries.values().flat_map(|library| library.code.values().flatten());
            codes.filter(|code| code.kernels.is_none()).count() as u64
        };
        let unread_libraries =
            Pair { before: sides.before.unread_libraries(after), after: sides.after.unread_libraries(before) };
        let (changed_kernels, more_changed_kernels) = listed(different, names);
        let warnings = [&sides.before.warnings, &before.warnings, &sides.after.warnings, &after.warnings];
        Ok(Self {
            inputs: Pair { before: head(sides.before, before), after: head(sides.after, after) },
            metadata: MetadataChange::of(sides.before.metadata().as_ref(), sides.after.metadata().as_ref()),
            downloads: downloads(&sides.before.downloads(), &sides.after.downloads()),
            packages: packages(before, after),
            code_objects: all(|library| library.code_objects),
            kernels: all(|library| library.kernels),
            unread_symbols: Pair { before: unread(before), after: unread(after) },
            members: compare_members(&before.members, &after.members, progress)?,
            targets,
            libraries,
            databases,
            unread_libraries,
            changed_kernels,
            more_changed_kernels,
            gate: None,
            warnings: warnings.into_iter().flatten().cloned().collect(),
        })
    }
}

impl Side {
    /// Its libraries whose code is not known although `other` has some of them.
    fn unread_libraries(&self, other: &Inventory) -> Vec<String> {
        let files = self.parts.iter().flat_map(|part| {
            let files = part.input.entries.iter().zip(&part.paths);
            files.filter(|(entry, _)| part.plan.unsplit.contains(&entry.path)).map(|(_, path)| path.to_string())
        });
        files.filter(|path| other.libraries.get(path).is_some_and(|library| !library.code.is_empty())).collect()
    }
}

impl LibraryChange {
    /// The absolute change in bytes.
    fn distance(&self) -> u64 {
        let host = self.host_size.before.unwrap_or(0).abs_diff(self.host_size.after.unwrap_or(0));
        let code = self.targets.values().map(|pair| pair.before.size.abs_diff(pair.after.size));
        code.fold(host, u64::saturating_add)
    }
}

fn head(side: &Side, inventory: &Inventory) -> Head {
    let members = || inventory.members.values();
    let mut files = Amount::default();
    members().for_each(|member| files.add(1, member.size));
    let databases = inventory.databases().into_values().fold(Amount::default(), Amount::plus);
    Head {
        name: side.name.clone(),
        form: side.form,
        files,
        host_size: members().map(|member| member.host_size).sum(),
        code: inventory.libraries.values().map(InventoryLibrary::amount).fold(Amount::default(), Amount::plus),
        databases,
    }
}

impl InventoryLibrary {
    fn amount(&self) -> Amount {
        self.code.values().map(|codes| amount(codes)).fold(Amount::default(), Amount::plus)
    }
}

fn amount(codes: &[ComparedObject]) -> Amount {
    codes.iter().map(|code| Amount { count: 1, size: code.size }).fold(Amount::default(), Amount::plus)
}

fn libraries<'a>(
    before: &'a Inventory,
    after: &'a Inventory,
    all_targets: &mut BTreeMap<String, TargetChange>,
    different: &mut Different<'a>,
) -> Vec<LibraryChange> {
    let paths: BTreeSet<_> = before.libraries.keys().chain(after.libraries.keys()).collect();
    let mut libraries = Vec::new();
    for path in paths {
        let (old, new) = (before.libraries.get(path), after.libraries.get(path));
        let pair =
            |of: fn(&InventoryLibrary) -> Option<u64>| Pair { before: old.and_then(of), after: new.and_then(of) };
        let mut change = LibraryChange {
            path: path.clone(),
            change: Change::Same,
            size: pair(|library| library.size),
            host_size: pair(|library| library.host_size),
            targets: BTreeMap::new(),
            code_objects: Changes::default(),
            kernels: Changes::default(),
        };
        let names: BTreeSet<&'a String> = old.into_iter().chain(new).flat_map(|library| library.code.keys()).collect();
        for name in names {
            let codes = |library: Option<&'a InventoryLibrary>| library.and_then(|library| library.code.get(name));
            let [old, new] = [old, new].map(|library| codes(library).map_or(&[][..], Vec::as_slice));
            let pair = Pair { before: amount(old), after: amount(new) };
            let code_objects = by_digest(old, new);
            let kernels = by_symbol(&kernels(old), &kernels(new), |number, pair| {
                let (targets, sum) = different.entry((path.as_str(), number)).or_default();
                targets.insert(name.as_str());
                *sum = sum.plus(pair);
            });
            let target = all_targets.entry(name.clone()).or_default();
            target.code = target.code.plus(pair);
            target.code_objects = target.code_objects.plus(code_objects);
            target.kernels = target.kernels.plus(kernels);
            change.targets.insert(name.clone(), pair);
            change.code_objects = change.code_objects.plus(code_objects);
            change.kernels = change.kernels.plus(kernels);
        }
        let is_equal = change.code_objects.is_same() && change.host_size.before == change.host_size.after;
        change.change = Change::of(old.is_some(), new.is_some(), is_equal);
        libraries.push(change);
    }
    libraries
}

/// Compares code objects by digest: first equal ones, whatever their wrappers; then the others in the order of the
/// wrappers.
fn by_digest(before: &[ComparedObject], after: &[ComparedObject]) -> Changes {
    let mut known = HashMap::<_, u64>::new();
    for code in before {
        *known.entry(code.sha256).or_default() += 1;
    }
    let mut changes = Changes::default();
    let mut equal = HashMap::<_, u64>::new();
    let mut new = Vec::new();
    for code in after {
        match known.get_mut(&code.sha256).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                *equal.entry(code.sha256).or_default() += 1;
                changes.same.add(1, code.size);
            }
            None => new.push(code.size),
        }
    }
    let mut old = Vec::new();
    for code in before {
        match equal.get_mut(&code.sha256).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => old.push(code.size),
        }
    }
    let amount = |size: &u64| Amount { count: 1, size: *size };
    for number in 0..old.len().max(new.len()) {
        changes.count(old.get(number).map(amount), new.get(number).map(amount), false);
    }
    changes
}

fn kernels(codes: &[ComparedObject]) -> Kernels {
    let mut kernels = Kernels::new();
    for (number, size) in codes.iter().flat_map(|code| code.kernels.iter().flat_map(|kernels| kernels.iter())) {
        kernels.entry(*number).or_default().add(1, *size);
    }
    kernels
}

/// Compares kernels by name: a name is equal if both sides have the same number of kernels and bytes for it.
fn by_symbol(before: &Kernels, after: &Kernels, mut different: impl FnMut(u32, Pair<Amount>)) -> Changes {
    let mut changes = Changes::default();
    let numbers: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for number in numbers {
        let [old, new] = [before, after].map(|kernels| kernels.get(number).copied());
        if changes.count(old, new, old == new) != Change::Same {
            different(*number, Pair { before: old.unwrap_or_default(), after: new.unwrap_or_default() });
        }
    }
    changes
}

/// The kernels with the largest changes, and the number of the others.
fn listed(different: Different<'_>, names: &KernelNames) -> (Vec<KernelChange>, usize) {
    let mut changes: Vec<_> = different.into_iter().collect();
    let distance = |pair: &Pair<Amount>| pair.before.size.abs_diff(pair.after.size);
    let more = changes.len().saturating_sub(MAX_LISTED_KERNELS);
    changes
        .sort_by_cached_key(|((library, number), (_, pair))| (Reverse(distance(pair)), *library, names.name(*number)));
    changes.truncate(MAX_LISTED_KERNELS);
    let kernels = changes.into_iter().map(|((library, number), (targets, pair))| KernelChange {
        library: library.to_owned(),
        name: names.name(number).to_string(),
        change: Change::of(pair.before.count > 0, pair.after.count > 0, false),
        targets: targets.into_iter().map(str::to_owned).collect(),
        before: pair.before,
        after: pair.after,
    });
    (kernels.collect(), more)
}

fn packages(before: &Inventory, after: &Inventory) -> Vec<PackageChange> {
    let root = root(before.members.keys().chain(after.members.keys()));
    let mut packages = BTreeMap::<String, PackageChange>::new();
    for (inventory, is_after) in [(before, false), (after, true)] {
        let mut package = |path: &EntryPath, add: &dyn Fn(&mut PackageChange)| {
            let name = package_name(path, &root);
            let package = packages.entry(name.clone()).or_insert_with(|| PackageChange { name, ..Default::default() });
            add(package);
        };
        for (path, InventoryMember { size, host_size, database, .. }) in &inventory.members {
            package(path, &|package| {
                package.files.side(is_after).add(1, *size);
                *package.host_size.side(is_after) += host_size;
                if database.is_some() {
                    package.databases.side(is_after).add(1, *size);
                }
            });
        }
        for (path, library) in &inventory.libraries {
            let Ok(path) = EntryPath::new(path.as_bytes()) else { continue };
            let amount = library.amount();
            package(&path, &|package| package.code.side(is_after).add(amount.count, amount.size));
        }
    }
    let mut packages: Vec<_> = packages.into_values().collect();
    let distance = |package: &PackageChange| {
        let PackageChange { host_size, code, databases, .. } = package;
        host_size.before.abs_diff(host_size.after)
            + code.before.size.abs_diff(code.after.size)
            + databases.before.size.abs_diff(databases.after.size)
    };
    packages.sort_by_cached_key(|package| (Reverse(distance(package)), package.name.clone()));
    packages
}

/// The download sizes: exact if they are known on both sides, else estimates if both have one. An exact size is never
/// compared with an estimate.
fn downloads(before: &Downloads, after: &Downloads) -> BTreeMap<String, Download> {
    let mut downloads = BTreeMap::new();
    if before.whole.is_some() || after.whole.is_some() {
        let whole = Download { before: before.whole, after: after.whole, is_estimate: false };
        downloads.insert(ALL.to_owned(), whole);
    }
    let has = |side: &Downloads, gpu: &String| side.split.contains_key(gpu) || side.thin.contains_key(gpu);
    let gpus: BTreeSet<_> =
        [before, after].into_iter().flat_map(|side| side.split.keys().chain(side.thin.keys())).collect();
    for gpu in gpus {
        let sizes = |of: fn(&Downloads) -> &BTreeMap<String, u64>| {
            let [old, new] = [before, after].map(|side| of(side).get(gpu).copied());
            let is_known = (old.is_some() || !has(before, gpu)) && (new.is_some() || !has(after, gpu));
            is_known.then_some((old, new))
        };
        let (exact, thin) = (sizes(|side| &side.split), sizes(|side| &side.thin));
        let (before, after) = exact.or(thin).unwrap_or_default();
        let is_estimate = exact.is_none() && thin.is_some();
        downloads.insert(gpu.clone(), Download { before, after, is_estimate });
    }
    downloads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_size_is_compared_with_no_estimate() {
        let side = |split: &[(&str, u64)], thin: &[(&str, u64)]| {
            let map = |of: &[(&str, u64)]| of.iter().map(|(gpu, size)| ((*gpu).to_owned(), *size)).collect();
            Downloads { whole: None, split: map(split), thin: map(thin) }
        };
        let gpu = "gfx942";
        let [exact, thin, both, none] =
            [side(&[(gpu, 1)], &[]), side(&[], &[(gpu, 2)]), side(&[(gpu, 3)], &[(gpu, 4)]), side(&[], &[])];
        for (before, after, expected) in [
            (&exact, &thin, (None, None, false)),
            (&thin, &exact, (None, None, false)),
            (&both, &thin, (Some(4), Some(2), true)),
            (&exact, &both, (Some(1), Some(3), false)),
            (&none, &thin, (None, Some(2), true)),
            (&exact, &none, (Some(1), None, false)),
        ] {
            let found = downloads(before, after);
            let Download { before, after, is_estimate } = found[gpu];
            assert_eq!((before, after, is_estimate), expected);
        }
    }
}
