//! The tables of a comparison.

use super::amount::{Amount, Change, Changes, Pair};
use super::model::{Diff, Download, LibraryChange, PackageChange, TargetChange};
use crate::report::table::{Table, TableCell, counted, percent, size};
use crate::text::{NAMED, first_names, shortened};

/// The most letters of a kernel's name in a table.
const MAX_NAME: usize = 90;

impl Diff {
    /// A sentence about the result.
    pub(crate) fn sentence(&self) -> String {
        let Pair { before, after } = &self.inputs;
        if self.is_same() {
            let files = counted(self.members.all.same.count, "file", "files");
            let code = counted(self.code_objects.same.count, "code object", "code objects");
            let is_split = self.libraries.iter().any(|library| library.size.before != library.size.after);
            let split = if is_split { " Of libraries that only one has split, the size of the rest was." } else { "" };
            return format!(
                "Equal: all bytes of {files} and {code} were compared.{split} Permissions and times were not."
            );
        }
        let mut parts = vec![
            format!("Host part {}", growth(before.host_size, after.host_size)),
            format!("device code {}", growth(before.code.size, after.code.size)),
        ];
        if before.databases.count + after.databases.count > 0 {
            parts.push(format!("databases {}", growth(before.databases.size, after.databases.size)));
        }
        if let Some(all) = self.downloads.get("all")
            && let (Some(old), Some(new)) = (all.before, all.after)
        {
            parts.push(format!("download {}", growth(old, new)));
        }
        let mut text = parts.join(", ") + ".";
        for (changes, of) in
            [(&self.code_objects, "code objects are equal"), (&self.kernels, "kernels are equal by symbol")]
        {
            if let Some(share) = changes.equal() {
                text = format!("{text} {share} of the {of}.");
            }
        }
        let [added, removed] = [false, true].map(|was| self.targets_of_one(was));
        for (names, what) in [(added, "added"), (removed, "removed")] {
            if !names.is_empty() {
                text = format!("{text} Targets {what}: {}.", names.join(", "));
            }
        }
        match self.unknown() {
            Some(unknown) => format!("{text} {unknown}"),
            None => text,
        }
    }

    /// What is not known although it was compared; `None` if all is.
    pub(crate) fn unknown(&self) -> Option<String> {
        let Pair { before, after } = &self.unread_libraries;
        let (libraries, input) = match (before.as_slice(), after.as_slice()) {
            ([], []) => return None,
            ([], after) => (after, &self.inputs.after),
            (before, _) => (before, &self.inputs.before),
        };
        let named = first_names(libraries.iter().cloned(), NAMED, ", ", ",");
        Some(format!("What code {named} has in {} is not known, since it cannot be read there.", input.name))
    }

    /// Whether all files and all code are equal.
    fn is_same(&self) -> bool {
        let is_same = |it: &Download| it.before == it.after;
        self.members.all.is_same()
            && self.code_objects.is_same()
            && self.kernels.is_same()
            && self.downloads.values().all(is_same)
    }

    /// The targets that only one of the two has: the first one if it is those that were there.
    fn targets_of_one(&self, was: bool) -> Vec<&str> {
        let is_of_one = |it: &TargetChange| it.was_there() == was && it.is_there() != was;
        self.targets.iter().filter(|(_, it)| is_of_one(it)).map(|(name, _)| name.as_str()).collect()
    }

    /// The tables, each with at most `most` rows. All but the first have what differs only.
    pub(crate) fn tables(&self, most: usize) -> Vec<Table> {
        let [metadata, packages] = [self.metadata_table(), self.packages_table(false)];
        let mut tables = vec![self.inputs_table(), metadata, self.downloads_table(false), self.targets_table(false)];
        tables.extend([self.libraries_table(false), self.databases_table(false), packages]);
        tables.extend([self.kernels_table(MAX_NAME), self.members_table()]);
        for table in &mut tables {
            table.shorten(most);
        }
        tables
    }

    fn inputs_table(&self) -> Table {
        let columns = "part | before # | after # | change #";
        let Pair { before, after } = &self.inputs;
        let mut table = Table::new(format!("{} → {}", before.name, after.name), columns);
        let mut row =
            |name: &str, old: u64, new: u64| table.row([name.to_owned(), size(old), size(new), growth(old, new)]);
        row("unpacked", before.files.size, after.files.size);
        row("host part", before.host_size, after.host_size);
        row("device code", before.code.size, after.code.size);
        if before.databases.size + after.databases.size > 0 {
            row("kernel databases", before.databases.size, after.databases.size);
        }
        let mut row = |name: &str, of: [u64; 3], changes: &Changes| {
            let [old, new, equal] = of;
            let equal = if changes.equal().is_some() { format!("{equal} equal") } else { String::new() };
            table.row([name.to_owned(), old.to_string(), new.to_string(), equal]);
        };
        let count = |changes: &Changes| [changes.before().count, changes.after().count, changes.same.count];
        row("files", count(&self.members.all), &self.members.all);
        row("code objects", count(&self.code_objects), &self.code_objects);
        row("kernels", count(&self.kernels), &self.kernels);
        table
    }

    pub(crate) fn metadata_table(&self) -> Table {
        let mut table = Table::new("Metadata", "field | before | after");
        let Some(metadata) = &self.metadata else { return table };
        let mut row = |field: &str, before: &str, after: &str| table.row([field, before, after]);
        for (field, Pair { before, after }) in [("Name", &metadata.name), ("Version", &metadata.version)] {
            if before != after {
                row(field, before, after);
            }
        }
        let Pair { before, after } = &metadata.requires_python;
        if before != after {
            row("Requires-Python", before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
        }
        for (field, removed, added) in [
            ("Requires-Dist", &metadata.requirements_removed, &metadata.requirements_added),
            ("Provides-Extra", &metadata.extras_removed, &metadata.extras_added),
        ] {
            for value in removed {
                row(field, value, "");
            }
            for value in added {
                row(field, "", value);
            }
        }
        table
    }

    /// What a user downloads; of `all` GPUs, or of those for which it differs.
    pub(crate) fn downloads_table(&self, all: bool) -> Table {
        let columns = "GPU | before # | after # | change # | note";
        let is_same = |it: &Download| it.before.is_some() && it.before == it.after;
        let shown = self.downloads.iter().filter(|(_, it)| all || !is_same(it));
        Table::of("What a user downloads", columns, shown, |(name, it)| {
            let is_known = it.before.is_some() || it.after.is_some();
            let note = match it.is_estimate {
                true => "estimate of a thin wheel",
                false if is_known => "",
                false => "known with --sizes",
            };
            let [before, after] = [it.before, it.after].map(TableCell::size);
            [whose(name).into(), before, after, grown(it.before, it.after), note.into()]
        })
    }

    /// The targets; `all`, or those that differ.
    pub(crate) fn targets_table(&self, all: bool) -> Table {
        let columns = "target | code before # | code after # | change # | databases before # | databases after # | \
            equal objects # | changed objects # | added objects # | removed objects # | \
            equal kernels # | changed kernels # | added kernels # | removed kernels #";
        let shown = self.targets.iter().filter(|(_, it)| all || !it.is_same());
        Table::of("Targets", columns, shown, |(name, it)| {
            let [before, after] = [(it.code.before, it.databases.before), (it.code.after, it.databases.after)]
                .map(|(code, databases)| code.size + databases.size);
            let [code, databases] = [it.code, it.databases].map(|it| [some(it.before), some(it.after)]);
            let head = std::iter::once(name.as_str().into()).chain(code);
            let sizes = head.chain([grown(Some(before), Some(after))]).chain(databases);
            sizes.chain(counts(&it.code_objects)).chain(counts(&it.kernels))
        })
    }

    /// The libraries; `all`, or those that differ.
    pub(crate) fn libraries_table(&self, all: bool) -> Table {
        let columns = "library | change | host before # | host after # | host change # | code before # | code after # | \
            code change # | equal objects # | equal kernels # | \
            + objects equal # | + objects changed # | + objects added # | + objects removed # | \
            + kernels equal # | + kernels changed # | + kernels added # | + kernels removed #";
        let shown = self.libraries.iter().filter(|it| all || it.change != Change::Same);
        Table::of("Libraries with device code", columns, shown, |library| {
            let Pair { before, after } = library.host_size;
            let code = library.code();
            let sizes = [
                library.path.as_str().into(),
                changed(library.change),
                TableCell::size(before),
                TableCell::size(after),
                grown(before, after),
                some(code.before),
                some(code.after),
                grown(Some(code.before.size), Some(code.after.size)),
                library.code_objects.equal().unwrap_or_default().into(),
                library.kernels.equal().unwrap_or_default().into(),
            ];
            sizes.into_iter().chain(counts(&library.code_objects)).chain(counts(&library.kernels))
        })
    }

    /// The databases; `all`, or those that differ.
    pub(crate) fn databases_table(&self, all: bool) -> Table {
        let columns = "database | part | files before # | files after # | before # | after # | change #";
        let parts = self.databases.iter().flat_map(|(library, keys)| keys.iter().map(move |part| (library, part)));
        let shown = parts.filter(|(_, (_, it))| all || it.before != it.after);
        Table::of("Kernel databases", columns, shown, |(library, (key, Pair { before, after }))| {
            [
                library.as_str().into(),
                key.as_str().into(),
                TableCell::number(before.count),
                TableCell::number(after.count),
                TableCell::size(Some(before.size)),
                TableCell::size(Some(after.size)),
                grown(Some(before.size), Some(after.size)),
            ]
        })
    }

    /// The top-level directories; `all`, or those that differ.
    pub(crate) fn packages_table(&self, all: bool) -> Table {
        let columns = "package | + files before # | + files after # | host before # | host after # | host change # | \
            code before # | code after # | databases before # | databases after #";
        let is_same = |it: &PackageChange| {
            [it.code, it.databases].iter().all(|it| it.before == it.after) && it.host_size.before == it.host_size.after
        };
        let shown = self.packages.iter().filter(|it| all || !is_same(it));
        Table::of("Packages", columns, shown, |it| {
            let Pair { before, after } = it.host_size;
            let name = if it.name == "." { "files in no directory" } else { &it.name };
            [
                name.into(),
                TableCell::number(it.files.before.count),
                TableCell::number(it.files.after.count),
                TableCell::size(Some(before)),
                TableCell::size(Some(after)),
                grown(Some(before), Some(after)),
                some(it.code.before),
                some(it.code.after),
                some(it.databases.before),
                some(it.databases.after),
            ]
        })
    }

    /// The kernels that differ, with at most so many letters of their names.
    pub(crate) fn kernels_table(&self, letters: usize) -> Table {
        let columns = "kernel | change | before # | after # | size change # | targets # | library";
        let mut table = Table::of("Kernels with the largest changes", columns, &self.changed_kernels, |kernel| {
            [
                shortened(&kernel.name, letters).into(),
                changed(kernel.change),
                some(kernel.before),
                some(kernel.after),
                grown(Some(kernel.before.size), Some(kernel.after.size)),
                TableCell::number(kernel.targets.len()),
                kernel.library.as_str().into(),
            ]
        });
        table.left_out = self.more_changed_kernels;
        table
    }

    pub(crate) fn members_table(&self) -> Table {
        let columns = "file | change | before # | after # | + size change #";
        let mut table = Table::of("Files that are different", columns, &self.members.list, |it| {
            let sizes = [TableCell::size(it.before), TableCell::size(it.after), grown(it.before, it.after)];
            [it.path.as_str().into(), changed(it.change)].into_iter().chain(sizes)
        });
        table.left_out = self.members.more;
        table
    }
}

/// Whose download it is.
pub(crate) fn whose(gpu: &str) -> &str {
    if gpu == "all" { "all (fat)" } else { gpu }
}

impl TargetChange {
    fn is_same(&self) -> bool {
        self.databases.before == self.databases.after && self.code_objects.is_same() && self.kernels.is_same()
    }
}

impl LibraryChange {
    /// All of its code objects.
    pub(crate) fn code(&self) -> Pair<Amount> {
        self.targets.values().copied().fold(Pair::default(), Pair::plus)
    }
}

/// Cells for equal, changed, added and removed.
fn counts(changes: &Changes) -> [TableCell; 4] {
    let Changes { same, changed, added, removed } = changes;
    [same, &changed.after, added, removed].map(|it| TableCell::number(it.count).unless_zero())
}

fn changed(change: Change) -> TableCell {
    let mark = matches!(change, Change::Added | Change::Removed).then(|| change.into_str());
    TableCell { mark, ..TableCell::from(change.into_str()) }
}

/// A size; empty if there is nothing.
fn some(amount: Amount) -> TableCell {
    TableCell::size((amount.count > 0).then_some(amount.size))
}

/// A change of a size; empty if one is unknown.
fn grown(before: Option<u64>, after: Option<u64>) -> TableCell {
    let Some((before, after)) = before.zip(after) else { return String::new().into() };
    TableCell { number: Some(i128::from(after) - i128::from(before)), ..TableCell::from(growth(before, after)) }
}

/// The change of a size: bytes and percent.
pub(crate) fn growth(before: u64, after: u64) -> String {
    let sign = match after.cmp(&before) {
        std::cmp::Ordering::Equal => return "=".to_owned(),
        std::cmp::Ordering::Less => "−",
        std::cmp::Ordering::Greater => "+",
    };
    let distance = after.abs_diff(before);
    match percent(distance, before).as_str() {
        "" => format!("{sign}{}", size(distance)),
        percent => format!("{sign}{} ({sign}{percent})", size(distance)),
    }
}
