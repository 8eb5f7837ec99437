//! Every form of an input with every command: one table of what each has to answer, and what it answers.
//!
//! The cells follow from one rule: an input that holds the code of the fat wheel, in whatever form, is answered as the
//! fat wheel is. The numbers come from `reader.rs`, which shares no code with kpackfs. `FORMS_MATRIX=1` with
//! `--nocapture` prints the table also if all cells are right; `FORMS_ROW=text` keeps the rows whose name has that text.
//! `FORMS_PROGRAM=path` asks another build.

mod commands;
mod expected;
pub(crate) mod made;
mod matrix;
mod others;
mod reader;
mod rows;
mod situations;

use std::path::PathBuf;

use crate::common::skipped;
use made::Place;
use rows::ROWS;

#[test]
fn each_form_has_its_answer_from_each_command() {
    matrix::check(&Place::make(), ROWS.iter());
}

/// The first table again, with a wheel that others made.
#[test]
fn a_real_wheel_has_the_same_answers() {
    const WHEEL: &str = "jax_rocm7_plugin-0.12.0-cp312-cp312-manylinux_2_27_x86_64.whl";
    let cache = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/kpackfs-corpus"));
    let corpus = std::env::var_os("KPACKFS_CORPUS").map(PathBuf::from).or_else(cache).unwrap_or_default();
    let Ok(wheel) = std::fs::read(corpus.join(WHEEL)) else {
        skipped(&format!("{} has no {WHEEL}; scripts/fetch-corpus fetches it", corpus.display()));
        return;
    };
    matrix::check(&Place::of_wheel(WHEEL, &wheel), ROWS.iter().filter(|row| row.is_real));
}

/// The reader of this suite agrees with the program that made `tests/fixtures/expected.json`.
#[test]
fn the_reader_finds_what_another_program_found() {
    reader::compare_with_fixtures();
}
