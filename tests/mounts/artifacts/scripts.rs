//! Runs the scripts that test a complete workflow with small artifacts, and the commands of `docs/artifacts.md`.

use std::process::Command;

use crate::artifacts::place::Place;
use crate::common::can_mount;

fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let output =
        command.args(arguments).env("KPACKFS", env!("CARGO_BIN_EXE_kpackfs")).env_remove("CHECKER").output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{program}: {text}");
    text
}

#[test]
fn shards_are_split_shown_recombined_and_verified() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let artifacts = place.at("artifacts").to_str().unwrap().to_owned();
    run("scripts/make-artifacts", &[&artifacts, "--size", "tiny"]);
    assert!(run("scripts/check-artifacts", &[&artifacts]).ends_with("all fine\n"));
}

#[test]
fn the_calls_of_therock_and_pytorch_work() {
    assert!(run("scripts/check-dropin", &[]).ends_with("all fine\n"));
}

#[test]
fn the_tutorial_runs() {
    if can_mount() {
        run("scripts/check-tutorial", &[]);
    }
}
