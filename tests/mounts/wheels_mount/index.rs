//! The index of an input spares the next mount the work, and never takes precedence over the input.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{Files, assert_same, files_below, fixture, run};
use crate::wheels_mount::wheels::{Mount, small, split, torch, wheel};

/// An argument that names the directory of indexes.
fn cache(directory: &Path) -> String {
    format!("--cache-dir={}", directory.display())
}

fn kpackfs(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).output().unwrap()
}

fn index(input: &Path, directory: &Path) -> PathBuf {
    run(Command::new(env!("CARGO_BIN_EXE_kpackfs")).arg("index").arg(input).arg(cache(directory)));
    // Next to the index are compressed code objects, and the mark of a cache directory.
    let is_index = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "index");
    let mut found = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).filter(is_index);
    let index = found.next().unwrap();
    assert!(found.next().is_none());
    index
}

/// Everything that a mount shows, with sizes, except thin views: those of compressed bundles are not indexed.
fn listing(mount: &Mount) -> String {
    run(Command::new("ls").args(["-lR", "--ignore=*thin*"]).arg(mount.at("")))
}

fn written(input: &Path, arguments: &[&str]) -> Files {
    files_below(split(input, arguments).path())
}

#[test]
fn an_indexed_input_is_listed_without_work_and_gives_the_same_bytes() {
    for make in [torch as fn(&TempDir) -> PathBuf, small] {
        let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let input = make(&place);
        let index = index(&input, kept.path());
        let Some(mount) = Mount::new(&input, &[&cache(kept.path())]) else { return };
        let listed = listing(&mount);
        for (name, work) in mount.work() {
            // The dist-info is read each time.
            assert!(work == 0 || name == "bytes_inflated" && work < 100_000, "{name} is {work}");
        }
        assert_eq!(mount.counter("bytes_hashed"), 0);
        let Some(fresh) = Mount::new(&input, &["--no-cache"]) else { return };
        let strip = |listing: &str, mount: &Mount| listing.replace(mount.at("").to_str().unwrap(), "");
        assert_eq!(strip(&listed, &mount), strip(&listing(&fresh), &fresh));
        assert_same(&files_below(&mount.at("")), &files_below(&fresh.at("")), "with an index and without");
        let sizes = [fs::metadata(&index), fs::metadata(&input)].map(|file| file.unwrap().len());
        assert!(sizes[0] < 20_000 + sizes[1] / 10, "{sizes:?}");
    }
}

#[test]
fn a_mount_learns_for_the_next_one() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = small(&place);
    let Some(first) = Mount::new(&input, &[&cache(kept.path())]) else { return };
    let everything = files_below(&first.at(""));
    let work = first.work();
    assert!(work["bytes_compressed"] > 0 && work["bytes_inflated"] > 1 << 20);
    // The daemon saves before it ends, and `umount` waits for it.
    drop(first);
    let Some(second) = Mount::new(&input, &[&cache(kept.path())]) else { return };
    listing(&second);
    assert_eq!(second.work()["bytes_compressed"], 0);
    assert_same(&everything, &files_below(&second.at("")), "the second time");
}

#[test]
fn other_options_are_no_mistake() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = small(&place);
    index(&input, kept.path());
    for options in
        [&["--compression=none"][..], &["--group=other"], &["--gpu-targets=gfx1100"], &["--overlay-root=small"]]
    {
        let cache = cache(kept.path());
        let with = [options, &[&cache]].concat();
        let without = [options, &["--no-cache"]].concat();
        assert_same(&written(&input, &with), &written(&input, &without), &format!("{options:?}"));
    }
}

#[test]
fn an_index_that_is_damaged_or_of_another_input_is_not_used() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = small(&place);
    let index = index(&input, kept.path());
    let expected = written(&input, &["--no-cache"]);
    let good = fs::read(&index).unwrap();
    let middle = good.len() / 2;
    for bad in [&good[..middle], &[&good[..middle], &[good[middle] ^ 1], &good[middle + 1..]].concat(), b"", b"text"] {
        fs::write(&index, bad).unwrap();
        assert_same(&written(&input, &[&cache(kept.path())]), &expected, "with a damaged index");
        assert_eq!(fs::read(&index).unwrap()[..8], good[..8], "it was made anew");
    }
    // Another file replaces the first.
    let changed = tempfile::tempdir().unwrap();
    let other = small(&changed);
    fs::copy(&other, &input).unwrap();
    assert_same(&written(&input, &[&cache(kept.path())]), &expected, "the input was copied over");
    fs::File::options().write(true).open(&input).unwrap().write_all_at(b"Q", 0).unwrap();
    let output = kpackfs(&["inspect", input.to_str().unwrap(), &cache(kept.path())]);
    let fresh = kpackfs(&["inspect", input.to_str().unwrap(), "--no-cache"]);
    assert_eq!(output, fresh, "the first member of the input is damaged now");
}

#[test]
fn a_folder_that_cannot_be_used_costs_a_warning_only() {
    let place = tempfile::tempdir().unwrap();
    let input = small(&place);
    let below_a_file = input.join("cache");
    let out = place.path().join("out");
    let output = kpackfs(&["split", input.to_str().unwrap(), "-o", out.to_str().unwrap(), &cache(&below_a_file)]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot be saved") && text.contains("cache"), "{text}");
    let output = kpackfs(&["index", input.to_str().unwrap(), &cache(&below_a_file)]);
    assert_eq!(output.status.code(), Some(1));
    let output = kpackfs(&["index", input.to_str().unwrap(), "--no-cache"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("--cache-dir"));
}

#[test]
fn indexes_are_listed_pruned_and_cleared() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = small(&place);
    let index = index(&input, kept.path());
    assert_eq!(fs::metadata(&index).unwrap().permissions().mode() & 0o777, 0o600);
    let cache_command = |command: &str| {
        let output = kpackfs(&["cache", &cache(kept.path()), command]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(cache_command("list").contains(input.to_str().unwrap()));
    assert!(cache_command("prune").starts_with("kpackfs: no index had to be removed"));
    fs::remove_file(&input).unwrap();
    assert!(cache_command("list").contains("(the input is gone, or its content or metadata has changed)"));
    assert!(cache_command("prune").starts_with("kpackfs: removed 1"));
    assert!(!index.exists());
    assert!(cache_command("clear").starts_with("kpackfs: no index had to be removed"));
}

#[test]
fn code_objects_are_compressed_once_for_all_sessions() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = small(&place);
    let arguments: [&str; 1] = [&cache(kept.path())];
    let read = || {
        let mount = Mount::new(&input, &arguments)?;
        Some((files_below(&mount.at("gfx1100")), mount.counter("frames_made")))
    };
    let (Some((first, made)), Some((second, made_again))) = (read(), read()) else { return };
    assert_same(&first, &second, "the second time");
    assert!(made > 0);
    assert_eq!(made_again, 0);
    let output = kpackfs(&["cache", &cache(kept.path()), "clear"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("compressed code objects"));
    assert!(!kept.path().join("frames").exists());
}

#[test]
fn a_library_without_device_code_is_not_inflated_to_its_end() {
    let place = tempfile::tempdir().unwrap();
    // 4 MB between the loaded bytes and the section headers, like debug information.
    let lengthened = |name: &str| {
        let mut library = fixture(name);
        let field = |library: &[u8], at: usize| u64::from_le_bytes(library[at..at + 8].try_into().unwrap());
        let start = usize::try_from(field(&library, 40)).unwrap();
        let count = usize::from(library[60]);
        let table = library[start..start + 64 * count].to_vec();
        let mut state = 1_u32;
        let next = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0] >> 2
        });
        library.extend(next.take(4 << 20));
        library.resize(library.len().next_multiple_of(8), 0);
        let end = library.len() as u64;
        library[40..48].copy_from_slice(&end.to_le_bytes());
        library.extend(table);
        library
    };
    let payload = |name: &str| vec![("x/lib.so", lengthened(name)), ("x/fat.so", fixture("plain.so"))];
    let inflated = |name: &str| {
        let wheel = wheel(&place, &name.replace(['-', '.'], "_"), &payload(name));
        Some(Mount::new(&wheel, &[])?.counter("bytes_inflated"))
    };
    let (Some(host_only), Some(fat)) = (inflated("host-only.so"), inflated("features.so")) else { return };
    assert!(host_only < 1 << 20, "{host_only}");
    assert!((4 << 20..9 << 20).contains(&fat), "{fat}");
}
