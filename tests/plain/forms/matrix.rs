//! The table of all cells, filled and printed.

use std::fmt::{self, Display, Formatter};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::forms::commands::{Command, Seen, ask};
use crate::forms::expected::{Cell, expected};
use crate::forms::made::Place;
use crate::forms::rows::Row;

/// Rows that are filled at the same time.
const THREADS: usize = 4;

/// A cell as it has to be and as it is. `None` is a column that the row does not have.
type Filled = Vec<Option<(Cell, Seen)>>;

/// The table with its answers.
struct Matrix<'a>(Vec<(&'a Row, Filled)>);

/// Fills some rows of the table.
fn fill<'a>(place: &Place, rows: impl Iterator<Item = &'a Row>) -> Matrix<'a> {
    let wanted = std::env::var("FORMS_ROW").unwrap_or_default();
    let is_wanted = |row: &&Row| row.name.contains(&wanted) && place.can_make(row);
    let rows: Vec<_> = rows.filter(is_wanted).collect();
    assert!(!rows.is_empty(), "no form is called {wanted:?}");
    let (next, filled) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((index, row)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, rows.get(index)?)))
                {
                    let cells = fill_row(place, row);
                    filled.lock().unwrap().push((index, *row, cells));
                }
            });
        }
    });
    let mut filled = filled.into_inner().unwrap();
    filled.sort_by_key(|(index, ..)| *index);
    Matrix(filled.into_iter().map(|(_, row, cells)| (row, cells)).collect())
}

fn fill_row(place: &Place, row: &Row) -> Filled {
    let inputs = place.inputs(row);
    let cell = |command: Command| {
        let scratch = tempfile::tempdir().unwrap();
        let cell = expected(row, command, place)?;
        Some((cell, ask(command, place, &inputs, scratch.path())))
    };
    Command::ALL.map(cell).into_iter().collect()
}

/// What is wrong with a cell.
fn faults(cell: &Cell, seen: &Seen) -> Vec<String> {
    let mut faults = Vec::new();
    if cell.answer != seen.answer {
        faults.push(format!("expected {:?}, it is {:?}", cell.answer, seen.answer));
    }
    let said = seen.said.to_lowercase();
    for words in &cell.says {
        if !words.split('|').any(|word| said.contains(&word.to_lowercase())) {
            faults.push(format!("it does not say {words:?}"));
        }
    }
    if !cell.may_be_empty && said.contains("no device code") {
        faults.push("it says \"no device code\"".to_owned());
    }
    faults
}

impl Matrix<'_> {
    /// All cells that are wrong, with what is wrong.
    fn wrong(&self) -> impl Iterator<Item = (&Row, Command, &Seen, Vec<String>)> {
        let cells = self.0.iter().flat_map(|(row, cells)| {
            Command::ALL.into_iter().zip(cells).filter_map(|(command, cell)| Some((*row, command, cell.as_ref()?)))
        });
        let cells = cells.map(|(row, command, (cell, seen))| (row, command, seen, faults(cell, seen)));
        cells.filter(|(.., faults)| !faults.is_empty())
    }

    /// The number of cells that are wrong.
    fn failures(&self) -> usize {
        self.wrong().count()
    }
}

/// The first messages and sentences of what was printed, which tell a reader why.
fn excerpt(said: &str) -> String {
    let lines = said.lines().filter(|line| line.starts_with("kpackfs: ") || line.contains("\"sentence\""));
    let cut = lines.take(3).map(|line| line.chars().take(300).collect::<String>());
    cut.fold(String::new(), |text, line| text + "\n        " + &line)
}

impl Display for Matrix<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{:<36}", "")?;
        Command::ALL.iter().try_for_each(|command| write!(to, "{:>9}", format!("{command:?}")))?;
        for (row, cells) in &self.0 {
            write!(to, "\n{:<36}", row.name)?;
            for cell in cells {
                let is_right = cell.as_ref().map(|(cell, seen)| faults(cell, seen).is_empty());
                let mark = is_right.map_or("–", |is_right| if is_right { "✓" } else { "✗" });
                write!(to, "{mark:>9}")?;
            }
        }
        writeln!(to, "\n")?;
        for (row, command, seen, faults) in self.wrong() {
            writeln!(to, "✗ {}, {command:?}: {}{}", row.name, faults.join("; "), excerpt(&seen.said))?;
        }
        let cells: usize = self.0.iter().map(|(_, cells)| cells.iter().flatten().count()).sum();
        write!(to, "{} of {cells} cells are wrong", self.failures())
    }
}

/// Fails with the table if a cell is wrong.
pub(crate) fn check<'a>(place: &Place, rows: impl Iterator<Item = &'a Row>) {
    let matrix = fill(place, rows);
    if std::env::var_os("FORMS_MATRIX").is_some() {
        println!("{matrix}");
    }
    assert!(matrix.failures() == 0, "\n{matrix}");
}
