//! The tables of a report.

use super::layers;
use super::table::{Table, counted, known_size, percent, size};
use super::{CodeSummary, InspectReport, PartSize};

impl InspectReport {
    /// The report as tables.
    pub(crate) fn tables(&self) -> [Table; 7] {
        [
            self.parts(),
            layers::table(&self.layers),
            self.binaries(),
            CodeSummary::table(self.device_code.as_deref().unwrap_or_default()),
            self.databases(),
            self.keys(),
            self.users(),
        ]
    }

    /// Whether all sizes are known.
    pub(crate) fn is_complete(&self) -> bool {
        let is_complete = |part: &PartSize| {
            part.archive_size.is_some() && part.wheel.as_ref().is_none_or(|wheel| wheel.size.is_some())
        };
        self.sizes.parts.values().all(is_complete) && self.sizes.host_wheels.iter().all(|wheel| wheel.size.is_some())
    }

    fn parts(&self) -> Table {
        let Self { summary, sizes, .. } = self;
        let columns = "part | unpacked # | wheel # | name";
        let entries = counted(summary.entries, "entry", "entries");
        let mut table = Table::new(format!("Split of {}: {entries}", summary.group), columns);
        if summary.entries == 0 {
            return table;
        }
        let mut row = |part: &str, files: Option<u64>, wheel: Option<u64>, name: &str| {
            table.row([part.to_owned(), known_size(files), known_size(wheel), name.to_owned()]);
        };
        row("input", Some(summary.input_size), sizes.input_wheel_size, "");
        for (number, wheel) in sizes.host_wheels.iter().enumerate() {
            let part = if number == 0 { "host" } else { "variant" };
            row(part, Some(summary.host_size), wheel.size, &wheel.name);
        }
        if sizes.host_wheels.is_empty() {
            row("host", Some(summary.host_size), None, "");
        }
        let archives: Option<u64> = sizes.parts.values().map(|part| part.archive_size).sum();
        let databases: u64 = summary.device.values().map(|device| device.database_size).sum();
        let wheels: Option<u64> = sizes.parts.values().map(|part| part.wheel.as_ref()?.size).sum();
        let wheels = wheels.filter(|_| !sizes.host_wheels.is_empty());
        if archives.is_some() && !sizes.parts.is_empty() {
            row("device, all", archives.map(|archives| archives + databases), wheels, "");
        }
        table
    }

    fn binaries(&self) -> Table {
        let columns =
            "fat binary | original # | stripped # | saved # | % # | wrappers # | code objects # | code # | targets";
        Table::of("Fat binaries", columns, &self.summary.binaries, |binary| {
            let saved = binary.size.saturating_sub(binary.host_size);
            [
                binary.path.clone(),
                size(binary.size),
                size(binary.host_size),
                size(saved),
                percent(saved, binary.size),
                binary.wrappers.to_string(),
                binary.code_objects.to_string(),
                size(binary.code_size),
                binary.targets.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
            ]
        })
    }

    fn databases(&self) -> Table {
        let columns = "database | files # | size # | targets";
        Table::of("Kernel databases", columns, &self.summary.databases, |(name, database)| {
            let keys = database.keys.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            [name.clone(), database.files.to_string(), size(database.size), keys]
        })
    }

    fn keys(&self) -> Table {
        let columns = "key | level | archives # | code objects # | code # | archive size # | database files # | \
            database size # | wheel size #";
        Table::of("Bundle keys", columns, &self.summary.device, |(key, device)| {
            let sizes = self.sizes.parts.get(key);
            let objects: usize = device.archives.iter().map(|archive| archive.code_objects).sum();
            [
                key.clone(),
                device.level.clone(),
                device.archives.len().to_string(),
                objects.to_string(),
                size(device.archives.iter().map(|archive| archive.code_size).sum()),
                known_size(sizes.and_then(|part| part.archive_size)),
                some(device.database_files).map(|files| files.to_string()).unwrap_or_default(),
                known_size(some(device.database_size)),
                known_size(sizes.and_then(|part| part.wheel.as_ref()?.size)),
            ]
        })
    }

    fn users(&self) -> Table {
        let columns = "GPU | download # | of the fat wheel # | installed # | of the input # | parts";
        let share = |size: Option<u64>, whole: Option<u64>| match (size, whole) {
            (Some(size), Some(whole)) => percent(size, whole),
            _ => String::new(),
        };
        Table::of("What a user needs", columns, &self.sizes.users, |(key, user)| {
            [
                key.clone(),
                known_size(user.download_size),
                share(user.download_size, self.sizes.input_wheel_size),
                known_size(user.installed_size),
                share(user.installed_size, Some(self.summary.input_size)),
                user.parts(),
            ]
        })
    }
}

/// The number; `None` if it is zero.
fn some<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}
