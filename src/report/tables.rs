//! The tables of a report.

use super::table::{Table, TableCell, counted, known_size, percent};
use super::{CodeSummary, InspectReport, LayerSummary, PartSize};

impl InspectReport {
    /// The report as tables. The title is what was split, or else the name of its archives.
    pub(crate) fn tables(&self, title: Option<&str>) -> [Table; 7] {
        [
            self.parts(title),
            LayerSummary::table(&self.layers),
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

    fn parts(&self, title: Option<&str>) -> Table {
        let Self { summary, sizes, .. } = self;
        let columns = "part | unpacked # | wheel # | name";
        let entries = counted(summary.entries, "entry", "entries");
        let mut table = Table::new(format!("Split of {}: {entries}", title.unwrap_or(&summary.group)), columns);
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

    pub(crate) fn binaries(&self) -> Table {
        let columns =
            "fat binary | original # | stripped # | saved # | % # | wrappers # | code objects # | code # | targets";
        Table::of("Fat binaries", columns, &self.summary.binaries, |binary| {
            let saved = binary.size.saturating_sub(binary.host_size);
            [
                binary.path.as_str().into(),
                TableCell::size(Some(binary.size)),
                TableCell::size(Some(binary.host_size)),
                TableCell::size(Some(saved)),
                percent(saved, binary.size).into(),
                TableCell::number(binary.wrappers),
                TableCell::number(binary.code_objects),
                TableCell::size(Some(binary.code_size)),
                binary.targets.iter().map(String::as_str).collect::<Vec<_>>().join(" ").into(),
            ]
        })
    }

    pub(crate) fn databases(&self) -> Table {
        let columns = "database | files # | size # | targets";
        Table::of("Kernel databases", columns, &self.summary.databases, |(name, database)| {
            let keys = database.keys.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            [name.as_str().into(), TableCell::number(database.files), TableCell::size(Some(database.size)), keys.into()]
        })
    }

    pub(crate) fn keys(&self) -> Table {
        let columns = "key | level | archives # | code objects # | code # | archive size # | database files # | \
            database size # | wheel size #";
        Table::of("Bundle keys", columns, &self.summary.device, |(key, device)| {
            let sizes = self.sizes.parts.get(key);
            let objects: usize = device.archives.iter().map(|archive| archive.code_objects).sum();
            [
                key.as_str().into(),
                device.level.as_str().into(),
                TableCell::number(device.archives.len()),
                TableCell::number(objects),
                TableCell::size(Some(device.archives.iter().map(|archive| archive.code_size).sum())),
                TableCell::size(sizes.and_then(|part| part.archive_size)),
                TableCell::number(device.database_files).unless_zero(),
                TableCell::size(Some(device.database_size)).unless_zero(),
                TableCell::size(sizes.and_then(|part| part.wheel.as_ref()?.size)),
            ]
        })
    }

    fn users(&self) -> Table {
        let columns = "GPU | download # | of the fat wheel # | installed # | of the input # | parts";
        Table::of("What a user needs", columns, &self.sizes.users, |(key, user)| {
            [
                key.clone(),
                known_size(user.download_size),
                percent(user.download_size, self.sizes.input_wheel_size),
                known_size(user.installed_size),
                percent(user.installed_size, self.summary.input_size),
                user.parts(),
            ]
        })
    }
}
