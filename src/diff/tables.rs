//! The tables of a comparison.

use super::amount::{Amount, Change, Changes, Pair};
use super::model::{Diff, Download, LibraryChange, PackageChange, TargetChange};
use crate::report::table::{Table, counted, known_size, percent, size};

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
        let [added, removed] = [false, true].map(|was| self.targets_with(|is| is.before == was && is.after != was));
        for (names, what) in [(added, "added"), (removed, "removed")] {
            if !names.is_empty() {
                text = format!("{text} Targets {what}: {}.", names.join(", "));
            }
        }
        text
    }

    /// Whether all files and all code are equal.
    fn is_same(&self) -> bool {
        let is_same = |it: &Download| it.before == it.after;
        self.members.all.is_same()
            && self.code_objects.is_same()
            && self.kernels.is_same()
            && self.downloads.values().all(is_same)
    }

    fn targets_with(&self, wanted: impl Fn(Pair<bool>) -> bool) -> Vec<&str> {
        let found = self.targets.iter().filter(|(_, it)| {
            let is_there = |code: Amount, databases: Amount| code.count + databases.count > 0;
            wanted(Pair {
                before: is_there(it.code.before, it.databases.before),
                after: is_there(it.code.after, it.databases.after),
            })
        });
        found.map(|(name, _)| name.as_str()).collect()
    }

    /// The tables, each with at most `most` rows. All but the first have what differs only.
    pub(crate) fn tables(&self, most: usize) -> Vec<Table> {
        let mut tables = vec![self.inputs_table(), self.metadata_table(), self.downloads_table(), self.targets_table()];
        tables.extend([self.libraries_table(), self.databases_table(), self.packages_table()]);
        tables.extend([self.kernels_table(), self.members_table()]);
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

    fn metadata_table(&self) -> Table {
        let mut table = Table::new("Metadata", "field | before | after");
        let Some(metadata) = &self.metadata else { return table };
        let mut row = |field: &str, before: &str, after: &str| {
            table.row([field.to_owned(), before.to_owned(), after.to_owned()]);
        };
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

    fn downloads_table(&self) -> Table {
        let columns = "GPU | before # | after # | change # | note";
        let is_same = |it: &Download| it.before.is_some() && it.before == it.after;
        let changed = self.downloads.iter().filter(|(_, it)| !is_same(it));
        Table::of("What a user downloads", columns, changed, |(name, it)| {
            let is_known = it.before.is_some() || it.after.is_some();
            let note = match it.is_estimate {
                true => "estimate of a thin wheel",
                false if is_known => "",
                false => "known with --sizes",
            };
            let name = if name == "all" { "all (fat)" } else { name };
            let change = it.before.zip(it.after).map(|(old, new)| growth(old, new)).unwrap_or_default();
            [name.to_owned(), known_size(it.before), known_size(it.after), change, note.to_owned()]
        })
    }

    fn targets_table(&self) -> Table {
        let columns = "target | code before # | code after # | change # | databases before # | databases after # | \
            equal objects # | changed objects # | added objects # | removed objects # | \
            equal kernels # | changed kernels # | added kernels # | removed kernels #";
        Table::of("Targets", columns, self.targets.iter().filter(|(_, it)| !it.is_same()), |(name, it)| {
            let [before, after] = [(it.code.before, it.databases.before), (it.code.after, it.databases.after)]
                .map(|(code, databases)| code.size + databases.size);
            let sizes = [it.code.before, it.code.after].map(some_size);
            let databases = [it.databases.before, it.databases.after].map(some_size);
            let head = [vec![name.clone()], sizes.into(), vec![growth(before, after)], databases.into()].concat();
            head.into_iter().chain(counts(&it.code_objects)).chain(counts(&it.kernels))
        })
    }

    fn libraries_table(&self) -> Table {
        let columns = "library | change | host before # | host after # | host change # | code before # | code after # | \
            code change # | equal objects # | equal kernels #";
        let changed = self.libraries.iter().filter(|it| it.change != Change::Same);
        Table::of("Libraries with device code", columns, changed, |library| {
            let Pair { before, after } = library.host_size;
            let code = library.code();
            [
                library.path.clone(),
                library.change.into_str().to_owned(),
                known_size(before),
                known_size(after),
                before.zip(after).map(|(old, new)| growth(old, new)).unwrap_or_default(),
                some_size(code.before),
                some_size(code.after),
                growth(code.before.size, code.after.size),
                library.code_objects.equal().unwrap_or_default(),
                library.kernels.equal().unwrap_or_default(),
            ]
        })
    }

    fn databases_table(&self) -> Table {
        let columns = "database | part | files before # | files after # | before # | after # | change #";
        let parts = self.databases.iter().flat_map(|(library, keys)| keys.iter().map(move |part| (library, part)));
        let changed = parts.filter(|(_, (_, it))| it.before != it.after);
        Table::of("Kernel databases", columns, changed, |(library, (key, Pair { before, after }))| {
            [
                library.clone(),
                key.clone(),
                before.count.to_string(),
                after.count.to_string(),
                size(before.size),
                size(after.size),
                growth(before.size, after.size),
            ]
        })
    }

    fn packages_table(&self) -> Table {
        let columns = "package | host before # | host after # | host change # | code before # | code after # | \
            databases before # | databases after #";
        let is_same = |it: &PackageChange| {
            [it.code, it.databases].iter().all(|it| it.before == it.after) && it.host_size.before == it.host_size.after
        };
        Table::of("Packages", columns, self.packages.iter().filter(|it| !is_same(it)), |it| {
            let host = it.host_size;
            let name = if it.name == "." { "files in no directory" } else { &it.name };
            [
                name.to_owned(),
                size(host.before),
                size(host.after),
                growth(host.before, host.after),
                some_size(it.code.before),
                some_size(it.code.after),
                some_size(it.databases.before),
                some_size(it.databases.after),
            ]
        })
    }

    fn kernels_table(&self) -> Table {
        let columns = "kernel | change | before # | after # | change # | targets # | library";
        let mut table = Table::of("Kernels with the largest changes", columns, &self.changed_kernels, |kernel| {
            [
                shortened(&kernel.name),
                kernel.change.into_str().to_owned(),
                some_size(kernel.before),
                some_size(kernel.after),
                growth(kernel.before.size, kernel.after.size),
                kernel.targets.len().to_string(),
                kernel.library.clone(),
            ]
        });
        table.add_left_out(self.more_changed_kernels);
        table
    }

    fn members_table(&self) -> Table {
        let columns = "file | change | before # | after #";
        let mut table = Table::of("Files that are different", columns, &self.members.list, |it| {
            [it.path.clone(), it.change.into_str().to_owned(), known_size(it.before), known_size(it.after)]
        });
        table.add_left_out(self.members.more);
        table
    }
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

/// Cells for equal, changed, added and removed; empty if zero.
fn counts(changes: &Changes) -> [String; 4] {
    let Changes { same, changed, added, removed } = changes;
    [same.count, changed.after.count, added.count, removed.count]
        .map(|it| if it == 0 { String::new() } else { it.to_string() })
}

fn some_size(amount: Amount) -> String {
    if amount.count == 0 { String::new() } else { size(amount.size) }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME - 1).chain(['…']).collect()
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
