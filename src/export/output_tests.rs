use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::export::StatementChange;
use crate::split::{PlanOptions, Statement};

fn prepare(output: &Path, names: &[&str], force: bool, input: &Path) -> Result<Output, ExportError> {
    let places: Vec<_> = names.iter().map(|name| output.join(name)).collect();
    let inputs = Inputs::of_files(&[input.to_owned()]);
    Output::prepare(output, &places, &[], &Replace::all(force), &inputs, &FrameStore::default(), |_| ())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes all parts as directories with a file of this name.
fn write(output: &Output, file: &str) {
    for part in &output.parts {
        fs::create_dir_all(&part.staged).unwrap();
        fs::write(part.staged.join(file), "").unwrap();
    }
}

#[test]
fn only_what_would_be_overwritten_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (output, input) = (directory.path().join("out"), directory.path().join("in"));
    fs::create_dir_all(output.join("old")).unwrap();
    let new = prepare(&output, &["host", "deep/gfx942"], false, &input).unwrap();
    write(&new, "file");
    assert_eq!(names(&output).len(), 2, "nothing has its name yet");
    new.publish(Durability::Deferred).unwrap();
    assert_eq!(names(&output), ["deep", "host", "old"]);
    assert_eq!(names(&output.join("deep/gfx942")), ["file"]);
    fs::write(output.join("old/file"), "old").unwrap();
    symlink("nowhere", output.join("link")).unwrap();
    for taken in ["old", "link"] {
        let error = prepare(&output, &["new", taken], false, &input).err().unwrap().to_string();
        assert!(error.contains(taken) && error.contains("--force") && !error.contains("new"), "{error}");
    }
    let all = ["a", "b", "c", "d", "e"];
    for name in all {
        fs::write(output.join(name), "").unwrap();
    }
    let error = prepare(&output, &all, false, &input).err().unwrap().to_string();
    assert!(error.contains("out/c, and 2 more: ") && !error.contains("out/d"), "{error}");
}

/// An output with an old part, which is not writable, and an unrelated file.
fn old() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    fs::create_dir_all(output.join("part")).unwrap();
    fs::write(output.join("part/old"), "").unwrap();
    fs::set_permissions(output.join("part"), Permissions::from_mode(0o555)).unwrap();
    fs::write(output.join("other"), "").unwrap();
    (directory, output)
}

#[test]
fn what_is_replaced_stays_until_the_new_is_complete() {
    let (directory, output) = old();
    let input = directory.path().join("in");
    let new = prepare(&output, &["part"], true, &input).unwrap();
    write(&new, "half");
    assert_eq!(names(&output.join("part")), ["old"]);
    drop(new);
    assert_eq!(names(&output), ["other", "part"]);
    assert_eq!(names(&output.join("part")), ["old"]);
    let new = prepare(&output, &["part"], true, &input).unwrap();
    write(&new, "new");
    fs::set_permissions(&new.parts[0].staged, Permissions::from_mode(0o500)).unwrap();
    new.publish(Durability::Deferred).unwrap();
    assert_eq!(names(&output), ["other", "part"]);
    assert_eq!(names(&output.join("part")), ["new"]);
    assert_eq!(output.join("part").metadata().unwrap().mode() & 0o777, 0o500);
    // A file in place of a directory.
    let new = prepare(&output, &["part"], true, &input).unwrap();
    fs::write(&new.parts[0].staged, "new").unwrap();
    new.publish(Durability::Deferred).unwrap();
    assert_eq!(fs::read(output.join("part")).unwrap(), b"new");
}

#[test]
fn nothing_has_a_new_name_if_one_part_cannot_have_it() {
    let (directory, output) = old();
    let new = prepare(&output, &["part", "new", "last"], true, &directory.path().join("in")).unwrap();
    write(&new, "new");
    // One part was not written.
    fs::remove_dir_all(&new.parts[2].staged).unwrap();
    assert!(new.publish(Durability::Deferred).unwrap_err().to_string().contains("out/last"));
    assert_eq!(names(&output), ["other", "part"]);
    assert_eq!(names(&output.join("part")), ["old"]);
    assert_eq!(output.join("part").metadata().unwrap().mode() & 0o777, 0o555);
    // A run without --force does not replace a part that was created meanwhile.
    let new = prepare(&output, &["new", "late"], false, &directory.path().join("in")).unwrap();
    write(&new, "new");
    fs::create_dir(output.join("late")).unwrap();
    assert!(new.publish(Durability::Deferred).unwrap_err().to_string().contains("out/late: there already"));
    assert_eq!(names(&output), ["late", "other", "part"]);
    assert!(names(&output.join("late")).is_empty());
}

/// Parts of two runs do not belong together, whichever of them was there before.
#[test]
fn of_two_runs_at_once_one_is_written() {
    for there in [&["part"][..], &["a"], &["part", "a", "b"], &[]] {
        let (directory, output) = old();
        let input = directory.path().join("in");
        for name in there.iter().filter(|name| **name != "part") {
            fs::create_dir(output.join(name)).unwrap();
        }
        if !there.contains(&"part") {
            fs::rename(output.join("part"), output.join("former")).unwrap();
        }
        let [one, two] = ["a", "b"].map(|own| prepare(&output, &[own, "part"], true, &input).unwrap());
        write(&one, "one");
        write(&two, "two");
        one.publish(Durability::Deferred).unwrap();
        let error = two.publish(Durability::Deferred).unwrap_err().to_string();
        assert!(
            error.contains("out/part: changed since this run began") && error.ends_with("run this one again"),
            "{error}"
        );
        assert_eq!([names(&output.join("a")), names(&output.join("part"))], [["one"], ["one"]], "{there:?}");
        let late = output.join("b");
        assert!(!late.exists() || there.contains(&"b") && names(&late).is_empty(), "{there:?}");
    }
}

/// Two runs with other parts both replace the statement that they have read. That of the second one would be without the
/// parts of the first.
#[test]
fn a_statement_is_replaced_only_by_a_run_that_has_read_it() {
    for there in [false, true] {
        let (directory, output) = old();
        let (input, file) = (directory.path().join("in"), output.join(".kpackfs/split.json"));
        let of_part = |part: &str| {
            let parts = vec![part.to_owned()];
            Statement { views: parts.clone(), parts, ..Statement::of(&PlanOptions::default()) }
        };
        let prepare = |part| prepare(&output, &[part], true, &input).unwrap();
        let write_all = |mut new: Output, stated: &StatementChange| {
            write(&new, "new");
            stated.write(&mut new).unwrap();
            new
        };
        if there {
            fs::create_dir(output.join(".kpackfs")).unwrap();
            fs::write(&file, of_part("part").to_json()).unwrap();
        }
        let [one, early, late] = ["one", "early", "late"]
            .map(|part| StatementChange::new(&output, of_part(part), |_| true, |text| panic!("{text}")).unwrap());
        let early = write_all(prepare("early"), &early);
        write_all(prepare("one"), &one).publish(Durability::Deferred).unwrap();
        // The other ones have read the statement before. One of them prepares its output afterwards.
        for run in [early, write_all(prepare("late"), &late)] {
            let error = run.publish(Durability::Deferred).unwrap_err().to_string();
            assert!(error.contains("split.json: changed since this run began"), "{error}");
        }
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"one\"") && text.contains("\"part\"") == there, "{text}");
        assert_eq!(names(&output), [".kpackfs", "one", "other", "part"]);
    }
}

/// An index of images is changed by several runs: each has the lock when it reads and writes it.
#[test]
fn what_is_written_with_the_lock_is_not_waited_for() {
    let (directory, output) = old();
    let index = output.join("index");
    let runs = ["one", "two"].map(|text| (prepare(&output, &[], false, &directory.path().join("in")).unwrap(), text));
    for (mut run, text) in runs {
        // Waiting for it once more would fail.
        let lock = run.lock().unwrap();
        run.write_file(&index, text.as_bytes(), Durability::Deferred).unwrap();
        run.publish_locked(lock).unwrap();
        assert_eq!(fs::read_to_string(&index).unwrap(), text);
    }
}

#[test]
fn a_run_fails_if_another_one_keeps_the_lock() {
    let (directory, output) = old();
    let new = prepare(&output, &["new"], false, &directory.path().join("in")).unwrap();
    write(&new, "new");
    let lock = lock_directory(&output).unwrap();
    let error = new.publish(Durability::Deferred).unwrap_err().to_string();
    assert!(error.contains("out: another run of kpackfs is writing there; "), "{error}");
    assert_eq!(names(&output), ["other", "part"]);
    drop(lock);
    let new = prepare(&output, &["new"], false, &directory.path().join("in")).unwrap();
    write(&new, "new");
    new.publish(Durability::Deferred).unwrap();
    assert_eq!(names(&output), ["new", "other", "part"]);
}

#[test]
fn what_killed_processes_have_left_is_deleted_and_what_others_write_is_not() {
    let (directory, output) = old();
    let input = directory.path().join("in");
    fs::create_dir_all(output.join(".kpackfs-partial-x/part")).unwrap();
    let other = prepare(&output, &["b"], false, &input).unwrap();
    write(&other, "new");
    assert!(!output.join(".kpackfs-partial-x").exists());
    drop(prepare(&output, &["a"], false, &input).unwrap());
    other.publish(Durability::Deferred).unwrap();
    assert_eq!(names(&output), ["b", "other", "part"]);
}

#[test]
fn files_beside_the_parts_come_and_go_with_them() {
    let (directory, output) = old();
    let (input, file) = (directory.path().join("in"), output.join(".kpackfs/split.json"));
    let write_all = |text: &str| {
        let mut new = prepare(&output, &["part"], true, &input).unwrap();
        write(&new, "new");
        new.write_file(&file, text.as_bytes(), Durability::Synced).unwrap();
        new
    };
    for text in ["one", "two"] {
        write_all(text).publish(Durability::Deferred).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    drop(write_all("three"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
}

#[test]
fn parts_that_nothing_takes_the_place_of_go_at_the_end() {
    let (directory, output) = old();
    let (input, gone) = (directory.path().join("in"), [output.join("gone"), output.join("deep/gone")]);
    let prepare = |force| {
        for place in &gone {
            fs::create_dir_all(place.join("x")).unwrap();
        }
        let (inputs, replace) = (Inputs::of_files(std::slice::from_ref(&input)), Replace::all(force));
        Output::prepare(&output, &[output.join("part")], &gone, &replace, &inputs, &FrameStore::default(), |_| ())
    };
    assert!(prepare(false).err().unwrap().to_string().contains("part"));
    let failed = prepare(true).unwrap();
    write(&failed, "new");
    drop(failed);
    assert_eq!(names(&output), ["deep", "gone", "other", "part"]);
    let new = prepare(true).unwrap();
    write(&new, "new");
    new.publish(Durability::Deferred).unwrap();
    assert_eq!(names(&output), ["deep", "other", "part"]);
    assert_eq!(names(&output.join("deep")), Vec::<String>::new());
}

/// What another run has written at the place of a part that goes is not deleted, whether it was there before or not.
#[test]
fn parts_of_another_run_do_not_go() {
    for there in [true, false] {
        let (directory, output) = old();
        let (inputs, gone) = (Inputs::of_files(&[directory.path().join("in")]), output.join("gone"));
        if there {
            fs::create_dir(&gone).unwrap();
        }
        let (parts, places, replace) = ([output.join("new")], [gone.clone()], Replace::all(true));
        let new = Output::prepare(&output, &parts, &places, &replace, &inputs, &FrameStore::default(), |_| ()).unwrap();
        write(&new, "new");
        let other = prepare(&output, &["gone"], true, &directory.path().join("in")).unwrap();
        write(&other, "other");
        other.publish(Durability::Deferred).unwrap();
        let error = new.publish(Durability::Deferred).unwrap_err().to_string();
        assert!(error.contains("out/gone: changed since this run began"), "{error}");
        assert_eq!(names(&output), ["gone", "other", "part"], "{there}");
        assert_eq!(names(&gone), ["other"]);
    }
}

#[test]
fn the_input_is_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    fs::create_dir_all(output.join("above/input")).unwrap();
    symlink("out/above/input", directory.path().join("link")).unwrap();
    for input in [output.join("above/input"), directory.path().join("link")] {
        for place in ["above", "above/input"] {
            let error = prepare(&output, &[place], true, &input).err().unwrap().to_string();
            assert!(error.contains("it is the input ") && error.contains("or contains it"), "{error}");
        }
    }
    assert_eq!(names(&output.join("above")), ["input"]);
}

#[test]
fn nothing_is_written_in_the_input() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("in");
    fs::create_dir_all(input.join("lib")).unwrap();
    symlink("in/lib", directory.path().join("link")).unwrap();
    for output in [input.clone(), input.join("new/deep"), input.join("lib/../new"), directory.path().join("link/new")] {
        let error = prepare(&output, &["host"], false, &input).err().unwrap().to_string();
        assert!(error.contains("it is in the input "), "{error}");
    }
    assert_eq!(names(&input), ["lib"]);
    prepare(&input.join("../in2"), &["host"], false, &input).unwrap();
}

#[test]
fn the_rest_of_a_killed_run_stays_if_it_is_the_input() {
    let (_directory, output) = old();
    let input = output.join(".kpackfs-partial-x/host");
    fs::create_dir_all(&input).unwrap();
    drop(prepare(&output, &["a"], true, &input).unwrap());
    assert!(input.exists());
}
