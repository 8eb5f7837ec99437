//! A process with too few descriptors or too little memory.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;

use crate::common::mounts::{Mount, bounded, noise, of_each_input, tree, wheel};
use crate::common::{assert_same, copied_program, run, skipped};

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

/// All commands, where their user may have few processes: some threads are enough, and without any there is a sentence.
#[test]
fn without_threads_there_is_a_sentence() {
    // RLIMIT_NPROC does not apply to root, and counts all processes of a user.
    let user = (1_000_000 + std::process::id()).to_string();
    let place = tempfile::tempdir().unwrap();
    for directory in [place.path().to_owned(), tree(place.path()), place.path().join("out")] {
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    }
    let program = copied_program(place.path());
    run(Command::new(&program).args(["split", "tree", "-o", "split"]).current_dir(place.path()));
    let limited = |limit: usize, command: &str| {
        let mut limited = Command::new("setpriv");
        limited.args(["--reuid", &user, "--regid", &user, "--clear-groups", "prlimit", &format!("--nproc={limit}")]);
        limited.arg(&program).args(command.split(' ')).current_dir(place.path());
        let output = limited.env("KPACKFS_CACHE_DIR", "").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{command}, {limit}: {said}");
        (output.status.code(), said)
    };
    if limited(100, "--version").0 != Some(0) {
        return skipped("no program of another user can be run; limits on processes were NOT checked");
    }
    for (command, code) in [
        ("inspect tree", 1),
        ("split tree -o out/split --force", 1),
        ("split tree -o out/wheels --format wheel --force", 1),
        ("verify split", 2),
        ("index tree --cache-dir out/cache", 1),
        ("diff tree tree", 2),
        ("why --target gfx90a tree", 3),
        ("collect tree/demo/lib/plain.so --from tree --gpu-targets gfx90a -o out/collected --force", 2),
        ("kpack create --from-binary tree/demo/lib/plain.so -o out/archives --force", 1),
        ("mount --fake tree out", 1),
    ] {
        let (failed, said) = limited(1, command);
        assert_eq!(failed, Some(code), "{command}: {said}");
        assert!(said.contains("cannot start a thread: Resource temporarily unavailable"), "{command}: {said}");
        let (usual, said) = limited(100, command);
        assert!(!said.contains("cannot start a thread"), "{command}: {said}");
        let enough = (2..20).find(|&limit| {
            let (ended, said) = limited(limit, command);
            let is_told = said.contains("cannot start a thread");
            assert!(ended == if is_told { Some(code) } else { usual }, "{command}, {limit}: {ended:?}: {said}");
            !is_told
        });
        assert!(enough.is_some_and(|limit| limit < 5), "{command}: {enough:?}");
    }
}
