//! The tables of the result.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Cell, CellKind, Coverage, CoverageFailure};
use crate::database::KernelFiles;
use crate::gpu::CodeKind;
use crate::report::table::{Table, known_size};
use crate::text::some_of;

fn table(title: &'static str, failures: &[CoverageFailure]) -> Table {
    Table::of(title, "GPU | in | what is missing", failures, |failure| {
        [failure.target.clone(), failure.path.clone(), failure.reason.clone()]
    })
}

impl Coverage {
    /// The tables. All failures are listed, and of the others at most `most` rows in each table.
    pub(crate) fn tables(&self, most: usize) -> Vec<Table> {
        let of_all = [self.unjudged_table(), self.generic_table(), self.unreachable_table(), self.metadata_table()];
        let mut tables: Vec<_> = self.matrices().into_iter().chain(of_all).collect();
        for table in &mut tables {
            table.shorten(most);
        }
        tables.splice(0..0, [table("Missing code", &self.failures), table("Remarks", &self.remarks)]);
        tables
    }

    fn matrices(&self) -> Vec<Table> {
        if self.distributions.is_empty() {
            return vec![self.matrix("Code for each GPU".to_owned(), "")];
        }
        let names: BTreeSet<_> = self.distributions.iter().collect();
        names.into_iter().map(|name| self.matrix(format!("Code for each GPU in {name}"), &format!("{name}/"))).collect()
    }

    /// What each library and each database at paths with this prefix has for each GPU, those first that lack some.
    fn matrix(&self, title: String, prefix: &str) -> Table {
        let mut table = Table::new(title, "in | kind | wrappers #");
        for gpu in &self.require {
            table.add_column(gpu);
        }
        let mut rows = Vec::new();
        for library in &self.found.libraries {
            let Some(path) = library.path.strip_prefix(prefix) else { continue };
            let cells = self.cells(&library.gpus);
            let (kind, wrappers) = (library.form.into_str().to_owned(), library.wrappers.to_string());
            rows.push((path.to_owned(), kind, wrappers, cells, library.problem.is_some()));
        }
        for database in &self.found.databases {
            let Some(path) = database.path.strip_prefix(prefix) else { continue };
            let kind = format!("{}{}", database.library, files(database.files));
            rows.push((path.to_owned(), kind, String::new(), self.cells(&database.gpus), false));
        }
        rows.sort_by_key(|(_, _, _, cells, _)| std::cmp::Reverse(cells.iter().map(|cell| cell.rank()).max()));
        for (path, kind, wrappers, cells, is_unreadable) in rows {
            let text = |cell: &&Cell| if is_unreadable { "not known".to_owned() } else { cell.text() };
            table.row([path, kind, wrappers].into_iter().chain(cells.iter().map(text)));
        }
        table
    }

    /// The cells in the order of the columns.
    fn cells<'a>(&self, gpus: &'a BTreeMap<String, Cell>) -> Vec<&'a Cell> {
        self.require.iter().filter_map(|gpu| gpus.get(gpu)).collect()
    }

    /// One row for all libraries: JSON has each of them.
    fn generic_table(&self) -> Table {
        let mut all = BTreeMap::<_, (usize, BTreeSet<_>, u64)>::new();
        for code in self.found.libraries.iter().flat_map(|library| &library.generic) {
            let (libraries, targets, size) = all.entry(&code.target).or_default();
            (*libraries, *size) = (*libraries + 1, size.saturating_add(code.code_size));
            targets.extend(&code.targets);
        }
        let columns = "generic code | libraries # | their targets | their code #";
        Table::of("Generic code for several targets", columns, all, |(target, (libraries, targets, size))| {
            [target.clone(), libraries.to_string(), some_of(targets), known_size(Some(size).filter(|size| *size > 0))]
        })
    }

    fn unjudged_table(&self) -> Table {
        Table::of("Not judged", "file | reason", &self.found.not_judged, |code| {
            [code.path.clone(), code.reason.clone()]
        })
    }

    fn unreachable_table(&self) -> Table {
        let columns = "in | target | reason";
        Table::of("Code that is not reached", columns, &self.found.unreachable, |code| {
            [code.path.clone(), code.target.clone().unwrap_or_default(), code.reason.clone()]
        })
    }

    fn metadata_table(&self) -> Table {
        let columns = "in | GPU | contradiction";
        Table::of("Metadata and names against code", columns, &self.found.metadata, |it| {
            [it.path.clone(), it.target.clone(), it.reason.clone()]
        })
    }
}

impl Cell {
    /// Failures have the highest rank.
    fn rank(&self) -> u8 {
        match self.code {
            CellKind::None => 5,
            CellKind::Mode => 4,
            _ if !self.without.is_empty() => 3,
            CellKind::Found(CodeKind::Spirv) => 2,
            CellKind::Found(CodeKind::Generic) => 1,
            CellKind::Found(CodeKind::Native) => 0,
        }
    }

    /// The kind of code, and what it does not apply to.
    fn text(&self) -> String {
        let kind = match self.code {
            CellKind::Found(CodeKind::Native) => "native",
            CellKind::Found(CodeKind::Generic) => "generic",
            CellKind::Found(CodeKind::Spirv) => "SPIR-V",
            CellKind::Mode => return format!("{} only", self.modes.join(", ")),
            CellKind::None => return "none".to_owned(),
        };
        let mut exceptions = Vec::new();
        exceptions.extend(self.modes.iter().map(|mode| format!("not {mode}")));
        if !self.without.is_empty() {
            exceptions.push(format!("not wrapper {}", some_of(&self.without)));
        }
        if exceptions.is_empty() { kind.to_owned() } else { format!("{kind}, {}", exceptions.join(", ")) }
    }
}

fn files(kind: KernelFiles) -> &'static str {
    match kind {
        KernelFiles::Code => ", code",
        KernelFiles::Catalogue => ", catalogues",
        KernelFiles::Any => "",
    }
}
