//! Every form of an input with every command: one table of what each has to answer, and what it answers.
//!
//! The cells follow from one rule: an input that holds the code of the fat wheel, in whatever form, is answered as the
//! fat wheel is. The numbers come from `reader.rs`, which shares no code with kpackfs. `FORMS_MATRIX=1` with
//! `--nocapture` prints the table also if all cells are right; `FORMS_ROW=text` keeps the rows whose name has that text.
//! `FORMS_PROGRAM=path` asks another build.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "allowed in test functions only, not in their helpers"
)]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod expected;
#[allow(dead_code, reason = "images.rs needs all of it")]
#[path = "../images/layout.rs"]
mod layout;
mod made;
mod matrix;
mod others;
mod reader;
mod rows;

use made::Place;

#[test]
fn each_form_has_its_answer_from_each_command() {
    let place = Place::make();
    let matrix = matrix::fill(&place, rows::ROWS);
    if std::env::var_os("FORMS_MATRIX").is_some() {
        println!("{matrix}");
    }
    assert!(matrix.failures() == 0, "\n{matrix}");
}

/// The reader of this suite agrees with the program that made `tests/fixtures/expected.json`.
#[test]
fn the_reader_finds_what_another_program_found() {
    reader::compare_with_fixtures();
}
