//! A process with too few descriptors or too little memory.

use std::fs::{self, File};
use std::io::Read;
use std::thread;

use crate::common::assert_same;
use crate::mounts::{Mount, bounded, noise, of_each_input, tree, wheel};

#[test]
fn few_descriptors_are_enough() {
    let place = tempfile::tempdir().unwrap();
    let input = tree(place.path());
    for number in 0..200 {
        fs::write(input.join(format!("demo/{number}")), noise(5000, number)).unwrap();
    }
    let Some(mut mount) = Mount::limited("ulimit -n 24", &input, &[]) else { return };
    let files = mount.at("host/demo");
    bounded("reading", move || {
        thread::scope(|scope| {
            for first in 0..8 {
                let files = &files;
                scope.spawn(move || {
                    for number in (first..200).step_by(8) {
                        assert!(fs::read(files.join(number.to_string())).unwrap() == noise(5000, number), "{number}");
                    }
                });
            }
        });
    });
    assert!(!mount.survey(&["gfx90a", "wheels"]).is_empty());
    assert!(mount.open_files() <= 24);
    mount.is_at_rest();
    mount.end();
}

#[test]
fn a_small_budget_reads_the_same() {
    of_each_input(|input| {
        let Some(large) = Mount::new(input, &[]) else { return };
        let expected = large.survey(&["host", "gfx90a", "merged/gfx90a"]);
        let mut small = Mount::new(input, &["--memory", "16"]).unwrap();
        assert_same(&small.survey(&["host", "gfx90a", "merged/gfx90a"]), &expected, "survey");
        small.is_at_rest();
        let memory = &small.status()["memory"];
        let held = ["frames", "spans", "streams"].map(|name| memory[name].as_u64().unwrap()).iter().sum::<u64>();
        assert!(held <= memory["capacity"].as_u64().unwrap(), "{memory}");
        small.end();
    });
}

#[test]
fn an_address_space_that_is_limited_reads_the_same() {
    let place = tempfile::tempdir().unwrap();
    let input = wheel(place.path());
    let Some(free) = Mount::new(&input, &[]) else { return };
    let expected = free.survey(&["host", "gfx90a"]);
    // In KiB. If threads cannot get their stacks, the work is done without them.
    let mut mount = Mount::limited("ulimit -v 400000", &input, &["--memory", "16"]).unwrap();
    let (place, whole) = (mount.at("host/demo/deflated.txt"), noise(3_500_000, 1));
    bounded("reading", move || {
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut bytes = Vec::new();
                    File::open(&place).unwrap().read_to_end(&mut bytes).unwrap();
                    assert!(bytes == whole);
                });
            }
        });
    });
    assert_same(&mount.survey(&["host", "gfx90a"]), &expected, "survey");
    mount.is_at_rest();
    mount.end();
}
