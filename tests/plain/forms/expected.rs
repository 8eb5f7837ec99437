//! What each command has to answer, by what an input holds.

use crate::forms::commands::{ABSENT, Command, PRESENT, written};
use crate::forms::made::Place;
use crate::forms::reader::Counts;
use crate::forms::rows::{Holds, Row};

/// What a cell has to be: the short answer, and what the text has to name. `|` stands between alternatives.
pub(crate) struct Cell {
    pub(crate) answer: String,
    pub(crate) says: Vec<String>,
    /// Whether a text may say that there is no device code.
    pub(crate) may_be_empty: bool,
}

impl Cell {
    fn new(answer: impl Into<String>) -> Self {
        Self { answer: answer.into(), says: Vec::new(), may_be_empty: false }
    }

    fn says(mut self, words: &[&str]) -> Self {
        self.says.extend(words.iter().map(|&word| word.to_owned()));
        self
    }
}

/// The exit code for what is not understood or not there.
const NOT_UNDERSTOOD: u8 = 5;

fn require(present: u8, absent: u8) -> Cell {
    Cell::new(format!("{PRESENT}: {present}, {ABSENT}: {absent}"))
}

fn why(present: &str, absent: &str) -> Cell {
    Cell::new(format!("{PRESENT}: {present}, {ABSENT}: {absent}"))
}

fn diff(same: usize, removed: usize) -> Cell {
    Cell::new(format!("0 same={same} changed=0 added=0 removed={removed}"))
}

/// The cell of a row and a command. `None` if the row does not have this column.
pub(crate) fn expected(row: &Row, command: Command, place: &Place) -> Option<Cell> {
    if let Some((_, other)) = row.except.iter().find(|(of, _)| *of == command) {
        return other.map(Cell::new);
    }
    // What it takes from an input depends on the application, so only what it has to refuse is a matter of this table.
    if command == Command::Collect && !matches!(row.holds, Holds::Unknown(_) | Holds::Damaged(_)) {
        return None;
    }
    let (all, libraries) = (place.counts(), place.libraries().len());
    let of = |gpus: &[&str]| -> Counts {
        all.iter().filter(|(gpu, _)| gpus.contains(&&***gpu)).map(|(gpu, count)| (gpu.clone(), *count)).collect()
    };
    Some(match row.holds {
        Holds::All => code(all, libraries, row, command, place),
        Holds::Gpus(gpus) => code(&of(gpus), libraries, row, command, place),
        Holds::Device(gpu) => code(&of(&[gpu]), 0, row, command, place),
        Holds::Library(path) => code(&place.libraries()[path], 1, row, command, place),
        Holds::Objects(objects) => {
            let objects = objects.iter().map(|&(gpu, count)| (gpu.to_owned(), count));
            code(&objects.collect(), 0, row, command, place)
        }
        Holds::Host => host(command, place),
        Holds::Nothing { files, binaries } => nothing(files, binaries, command, place),
        Holds::Damaged(text) => damaged(command).says(&[text]),
        Holds::Unknown(words) => unknown(words, command),
    })
}

/// Libraries or archives with code, as far as the input has it.
fn code(counts: &Counts, libraries: usize, row: &Row, command: Command, place: &Place) -> Cell {
    let (here, all): (usize, usize) = (counts.values().sum(), place.counts().values().sum());
    match command {
        Command::Inspect => Cell::new(format!("0 {}", written(counts))),
        Command::Split | Command::Mount => Cell::new(format!("0 {}, {libraries} hosts", written(counts))),
        Command::Require if counts.contains_key(PRESENT) => require(0, 1),
        Command::Require => require(1, 1),
        Command::Why if counts.contains_key(PRESENT) => why("0 found", "1 no-code"),
        Command::Why => why("1 no-code", "1 no-code"),
        Command::Diff => diff(here, all - here),
        Command::Verify | Command::Against if row.is_split => Cell::new("0 findings=0"),
        Command::Verify | Command::Against => Cell::new("2").says(&["nothing there was split"]),
        Command::Index | Command::Collect => Cell::new("0"),
    }
}

/// The host part of a split alone: it is split, and its archives are not there.
fn host(command: Command, place: &Place) -> Cell {
    let cell = match command {
        Command::Inspect => Cell::new("0 none"),
        Command::Mount => Cell::new(format!("0 none, {} hosts", place.libraries().len())),
        Command::Require => require(1, 1),
        Command::Split => Cell::new("1"),
        Command::Why => why("1 no-code", "1 no-code"),
        Command::Diff => diff(0, place.counts().values().sum()),
        Command::Verify | Command::Against => Cell::new("1 findings=1"),
        Command::Index | Command::Collect => Cell::new("0"),
    };
    cell.says(&["split|host part|host wheel|device wheels", "archive|device wheel|device part|gfx90a"])
}

/// Understood, and without device code.
fn nothing(files: usize, binaries: usize, command: Command, place: &Place) -> Cell {
    let mut cell = match command {
        Command::Inspect => Cell::new("0 none"),
        Command::Mount => Cell::new("0 none, 0 hosts"),
        Command::Require => require(1, 1),
        Command::Split => Cell::new("1"),
        Command::Why => why("4 nothing", "4 nothing"),
        Command::Diff => diff(0, place.counts().values().sum()),
        Command::Verify | Command::Against => Cell::new("2").says(&["nothing there was split"]),
        Command::Index | Command::Collect => Cell::new("0"),
    };
    let counted = |count: usize, one: &str, many: &str| match count {
        0 => format!("0 {many}|no {many}|no {one}|0 are {many}"),
        1 => format!("1 {one}|one {one}|1 are {many}|1 is a {one}"),
        _ => format!("{count} {many}|{count} are {many}"),
    };
    if command != Command::Index {
        cell.says.push(counted(files, "file", "files"));
        // Where there are no files, there are no binaries.
        cell.says.extend((files > 0).then(|| counted(binaries, "binary", "binaries")));
    }
    cell.may_be_empty = true;
    cell
}

/// Damaged, so that there is no answer: 1, unless that is an answer of the command.
fn damaged(command: Command) -> Cell {
    match command {
        Command::Require => require(2, 2),
        Command::Why => why("3 unreadable", "3 unreadable"),
        Command::Diff | Command::Verify | Command::Against | Command::Collect => Cell::new("2"),
        Command::Inspect | Command::Split | Command::Mount | Command::Index => Cell::new("1"),
    }
}

/// Not understood, or not there: the words name the form and the command that unpacks it.
fn unknown(words: &[&str], command: Command) -> Cell {
    let code = NOT_UNDERSTOOD;
    let cell = match command {
        Command::Require => require(code, code),
        Command::Why => why("5", "5"),
        _ => Cell::new(code.to_string()),
    };
    cell.says(words)
}
