//! What commands may write: never an input, and existing files only with `--force`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::common::{
    self, Files, can_mount, copy_all, files_and_links_below, fixture, namespaces, program, skipped, succeeds,
    torch_wheel, umount, wait_until,
};
use tempfile::TempDir;

/// The fat wheel. The host wheel has the same name.
const WHEEL: &str = "x-1.0-py3-none-linux_x86_64.whl";

/// The device wheel for one of its targets.
const DEVICE: &str = "amd_x_device_gfx90a-1.0-py3-none-linux_x86_64.whl";

/// A directory with inputs, in which commands run.
struct Place(TempDir);

impl Place {
    /// With an install tree, a fat wheel, a directory of split wheels, artifacts, shards and archives.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.file("tree/lib/libx.so", &fixture("plain.so"));
        place.file("other/lib/libx.so", &fixture("features.so"));
        place.file("artifacts/x_lib_gfx90X/artifact_manifest.txt", b"stage");
        place.file("artifacts/x_lib_gfx90X/stage/lib/libx.so", &fixture("plain.so"));
        place.copy("artifacts/x_lib_gfx90X", "shards/a/x_lib_gfx90X");
        let config =
            r#"{"primary_shard": "a", "architecture_groups": {"all": {"architectures": ["gfx90a", "gfx1030"]}}}"#;
        place.file("shards/packages.json", config.as_bytes());
        place.file("code/x.so", &fixture("plain.so"));
        place.succeeds("kpack create --from-binary code/x.so --target gfx90a -o archives/x.kpack");
        place.succeeds("kpack unbundle code/x.so --target gfx90a -o code");
        place.wheel();
        place.succeeds("split fat/WHEEL -o wheels --format wheel");
        assert!(place.at("wheels").join(WHEEL).exists() && place.at("wheels").join(DEVICE).exists());
        place
    }

    /// Another place with the same inputs.
    fn copied(&self) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        copy_all(self.at("."), place.at("."));
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        common::put(self.at(path), bytes);
    }

    fn copy(&self, from: &str, to: &str) {
        fs::create_dir_all(self.at(to).parent().unwrap()).unwrap();
        copy_all(self.at(from), self.at(to));
    }

    fn wheel(&self) {
        fs::create_dir(self.at("fat")).unwrap();
        let mut zip = zip::ZipWriter::new(fs::File::create(self.at("fat").join(WHEEL)).unwrap());
        for (name, bytes) in [
            ("x/libx.so", fixture("plain.so")),
            ("x-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: x\nVersion: 1.0\n".to_vec()),
            (
                "x-1.0.dist-info/WHEEL",
                b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n".to_vec(),
            ),
            ("x-1.0.dist-info/RECORD", Vec::new()),
        ] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&bytes).unwrap();
        }
        zip.finish().unwrap();
    }

    /// Runs the program with arguments separated by spaces.
    fn run(&self, arguments: &str) -> Output {
        let arguments = arguments.replace("WHEEL", WHEEL).replace("DEVICE", DEVICE);
        program().args(arguments.split(' ')).current_dir(self.0.path()).env("KPACKFS_CACHE_DIR", "").output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, arguments: &str) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Every file and symlink by path, with its bytes or its target.
    fn files(&self, directory: &str) -> Files {
        let root = self.at(directory);
        files_and_links_below(&root).into_iter().map(|(path, bytes)| (root.join(path), bytes)).collect()
    }
}

/// Prepares a place: `mkdir A`, `ln A B` (hard links to all files of a directory), `ln -s TARGET LINK`, `mv A B`,
/// separated by semicolons.
fn prepare(place: &Place, steps: &str) {
    let steps = steps.replace("WHEEL", WHEEL).replace("DEVICE", DEVICE);
    for step in steps.split("; ").filter(|step| !step.is_empty()) {
        match step.split(' ').collect::<Vec<_>>().as_slice() {
            ["mkdir", directory] => fs::create_dir_all(place.at(directory)).unwrap(),
            ["ln", from, to] => drop(succeeds(Command::new("cp").arg("-al").arg(place.at(from)).arg(place.at(to)))),
            ["ln", "-s", target, link] => symlink(target, place.at(link)).unwrap(),
            ["mv", from, to] => fs::rename(place.at(from), place.at(to)).unwrap(),
            step => panic!("{step:?}"),
        }
    }
}

/// Preparations, and a command that would write to an input.
const REFUSED: [(&str, &str); 43] = [
    // One input.
    ("", "split fat/WHEEL -o fat --format wheel --force"),
    ("", "split fat/WHEEL -o ./fat/../fat --format wheel --force"),
    ("ln -s fat link", "split fat/WHEEL -o link --format wheel --force"),
    ("ln -s fat link", "split link/WHEEL -o fat --format wheel --force"),
    ("ln fat hard", "split fat/WHEEL -o hard --format wheel --force"),
    ("mkdir l; ln -s ../fat/WHEEL l/WHEEL", "split l/WHEEL -o fat --format wheel --force"),
    ("mkdir l; ln -s ../fat/WHEEL l/WHEEL", "split l/WHEEL -o l --format wheel --force"),
    // Several.
    ("", "split wheels -o wheels --format wheel --force"),
    ("", "split wheels -o wheels --format directory --force"),
    ("", "split wheels -o wheels --format thin-wheel --force"),
    ("", "split wheels -o wheels --format wheel --view fat --force"),
    ("", "split wheels/WHEEL wheels/DEVICE -o wheels --format wheel --force"),
    ("", "split wheels/DEVICE wheels/WHEEL -o wheels --format wheel --force"),
    ("mkdir o; mv wheels/DEVICE o/DEVICE", "split wheels/WHEEL o/DEVICE -o o --format wheel --force"),
    ("ln -s wheels link", "split link -o wheels --format wheel --force"),
    ("ln -s wheels link", "split wheels -o link --format wheel --force"),
    ("ln wheels hard", "split wheels -o hard --format wheel --force"),
    (
        "mkdir l; ln -s ../wheels/WHEEL l/WHEEL; ln -s ../wheels/DEVICE l/DEVICE",
        "split l/WHEEL l/DEVICE -o wheels --format wheel --force",
    ),
    ("mkdir wheels/o", "split wheels/WHEEL wheels/DEVICE -o wheels/o/.. --format wheel --force"),
    // An input in an output, and an output in an input.
    ("mkdir out; mv tree out/host", "split out/host -o out --force"),
    ("mkdir out/host/deep; mv tree out/host/deep/tree", "split out/host/deep/tree -o out --force"),
    ("mkdir out/host/deep; mv fat out/host/deep/fat", "split out/host/deep/fat/WHEEL -o out --force"),
    ("mkdir out/host/deep; mv tree out/host/deep/tree; ln -s out/host/deep/tree link", "split link -o out --force"),
    ("mkdir out; ln -s ../tree out/host", "split out/host -o out --force"),
    ("mkdir out; ln -s ../tree out/host", "split out/host/lib -o out --force"),
    ("", "split tree -o tree --force"),
    ("", "split tree -o tree/out --force"),
    ("", "split tree -o tree/lib --force"),
    ("ln -s tree/lib link", "split tree -o link --force"),
    ("ln -s tree link", "split link -o tree/out --force"),
    // Artifacts.
    ("", "split artifacts -o artifacts --force"),
    ("mkdir l; ln -s ../artifacts/x_lib_gfx90X l/x_lib_gfx90X", "split l -o artifacts/x_lib_gfx90X --force"),
    ("", "recombine shards/packages.json shards -o shards/a --force"),
    ("mkdir o/x_lib_all; mv shards/packages.json o/x_lib_all/p", "recombine o/x_lib_all/p shards -o o --force"),
    // Pages and logs.
    ("", "inspect fat/WHEEL --html fat/WHEEL"),
    ("", "inspect tree --html tree/lib/libx.so"),
    ("ln tree hard", "inspect tree --html hard/lib/libx.so"),
    ("ln -s tree/lib/libx.so link", "inspect tree --html link"),
    ("ln -s tree/new link", "inspect tree --html link"),
    ("mkdir m", "mount --fake other m --log-file other/lib/libx.so"),
    // Archives.
    ("", "kpack extract archives/x.kpack --binary x.so#0 --target gfx90a -o archives/x.kpack --force"),
    ("", "kpack create code -o code --force"),
    ("", "kpack bundle code/x.so.0.gfx90a.hsaco -o code/x.so.0.gfx90a.hsaco --force"),
];

#[test]
fn no_input_is_ever_replaced_or_added_to() {
    let inputs = Place::new();
    let mut failures = Vec::new();
    for (steps, command) in REFUSED {
        let place = inputs.copied();
        prepare(&place, steps);
        let before = place.files("");
        let output = place.run(command);
        let (is_same, said) = (before == place.files(""), String::from_utf8_lossy(&output.stderr));
        if !is_same || output.status.success() || !said.contains(" the input ") {
            failures.push(format!("{steps}: {command}: unchanged: {is_same}, {}: {said}", output.status));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Preparations, inputs, and a command that writes around them.
const ALLOWED: [(&str, &str, &str); 11] = [
    ("", "tree", "split tree -o tree/../out --force"),
    ("mkdir out; mv tree out/tree", "out/tree", "split out/tree -o out --force"),
    ("mkdir out; mv tree out/tree; ln -s out link", "out/tree", "split link/tree -o link --force"),
    // A part with hard links to files of the input.
    ("mkdir out; ln tree out/host", "tree", "split tree -o out --force"),
    ("mkdir out; ln -s ../tree out/host", "tree", "split other -o out --force"),
    ("", "fat", "split fat/WHEEL -o fat --force"),
    ("", "wheels", "split wheels -o out --format wheel --force"),
    ("", "wheels", "split wheels/DEVICE wheels/WHEEL -o fat --format wheel --force"),
    ("", "artifacts/x_lib_gfx90X", "split artifacts/x_lib_gfx90X -o artifacts --force"),
    ("", "fat/WHEEL", "inspect fat/WHEEL --html fat/page.html"),
    ("", "archives/x.kpack", "kpack extract archives/x.kpack -o archives --force"),
];

#[test]
fn outputs_next_to_an_input_are_replaced() {
    let inputs = Place::new();
    for (steps, input, command) in ALLOWED {
        let place = inputs.copied();
        prepare(&place, steps);
        let files = || {
            let inputs = place.at(&input.replace("WHEEL", WHEEL));
            let mut files = place.files("");
            files.retain(|path, _| path.starts_with(&inputs) && !path.starts_with(place.at("fat/host")));
            files.retain(|path, _| {
                !path.starts_with(place.at("fat/gfx90a")) && !path.starts_with(place.at("fat/gfx1030"))
            });
            files.retain(|path, _| !path.starts_with(place.at("fat/.kpackfs")));
            files
        };
        let before = files();
        assert!(!before.is_empty(), "{command}");
        for _ in 0..2 {
            place.succeeds(command);
            assert!(files() == before, "{command}");
        }
    }
}

/// Mounts, as in [`REFUSED`]: the first is bound to the second.
const BOUND: [(&str, &str, &str, &str); 7] = [
    ("mkdir m", "wheels", "m", "split wheels -o m --format wheel --force"),
    ("mkdir m", "wheels", "m", "split m -o wheels --format wheel --force"),
    (
        "mkdir out/host/deep/in; mkdir m; mv tree out/host/deep/in/tree",
        "out/host/deep",
        "m",
        "split m/in/tree -o out --force",
    ),
    ("mkdir m", "tree/lib", "m", "split tree -o m --force"),
    ("mkdir tree/m; mkdir out/host/deep", "out/host/deep", "tree/m", "split tree -o out --force"),
    ("mkdir tree/m", "other", "tree/m", "split tree -o other/out --force"),
    // Not an input, but what is mounted there would be deleted.
    ("mkdir out/host/m", "code", "out/host/m", "split tree -o out --force"),
];

#[test]
fn bind_mounts_lead_to_inputs() {
    let inputs = Place::new();
    for (steps, from, to, command) in BOUND {
        let place = inputs.copied();
        prepare(&place, steps);
        let before = place.files("");
        let script = r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#;
        let mut bound = Command::new("env");
        bound.args(namespaces::unshare(&[])).args(["sh", "-c", script, "sh", from, to]);
        bound.arg(env!("CARGO_BIN_EXE_kpackfs")).args(command.split(' ')).current_dir(place.at(""));
        let output = bound.env("KPACKFS_CACHE_DIR", "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("unshare") || said.contains("mount: ") {
            return skipped(&format!("bind mounts are not possible here: {said}"));
        }
        assert!(place.files("") == before, "{command}: {said}");
        assert!(said.contains(" the input ") || said.contains("m is a mount point"), "{command}: {said}");
        assert!(!output.status.success(), "{command}");
    }
}

/// Commands that would write into a mount `m` of the fat wheel, and what they say.
const INTO_MOUNT: [(&str, &str); 8] = [
    ("split m -o m/out", "m/out: it is in the input m"),
    ("split m -o m/host --force", "m/host: it is in the input m"),
    ("split fat/WHEEL -o m/out", "m/out: kpackfs shows "),
    ("split fat/WHEEL -o m --force", "m: kpackfs shows "),
    ("collect code/x.so --from m --gpu-targets gfx90a -o m/out", "m/out: it is in the input m"),
    ("inspect tree --html m/page.html", "m/page.html: kpackfs shows "),
    ("mount fat/WHEEL m/host", "m/host: it is in the mount "),
    ("mount m/host m/gfx90a", "m/gfx90a: it is in the mount "),
];

/// Commands that would read the mount or write into it after its daemon was killed.
const INTO_DEAD_MOUNT: [&str; 10] = [
    "inspect m",
    "split m -o out",
    "diff tree m",
    "collect code/x.so --from m --gpu-targets gfx90a",
    "mount m n",
    "why m --target gfx90a",
    "split fat/WHEEL -o m",
    "split fat/WHEEL -o m/out",
    "inspect tree --html m/page.html",
    "mount fat/WHEEL m/host",
];

#[test]
fn nothing_is_written_into_mounts() {
    if !can_mount() {
        return skipped("mounts are not possible here");
    }
    let place = Place::new();
    prepare(&place, "mkdir m; mkdir n");
    let mount = ["mount", "--foreground", &format!("fat/{WHEEL}"), "m"];
    let mut daemon = program().args(mount).current_dir(place.at("")).env("KPACKFS_CACHE_DIR", "").spawn().unwrap();
    wait_until("the mount is ready", || place.at("m/host").exists());
    let mut failures = Vec::new();
    let mut is_refused = |command: &str, wanted: &str| {
        let output = place.run(command);
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !said.contains(wanted) || said.contains("os error") {
            failures.push(format!("{command}: {}: {said}", output.status));
        }
    };
    for (command, wanted) in INTO_MOUNT {
        is_refused(command, wanted);
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    for command in INTO_DEAD_MOUNT {
        is_refused(command, " has ended: unmount it (`kpackfs umount ");
    }
    umount(&place.at("m"));
    assert!(!place.at("out").exists());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What is written, and a command that writes it.
const KPACK: [(&str, &str); 5] = [
    ("out/x.so.0.gfx90a.hsaco", "kpack extract archives/x.kpack -o out"),
    ("out/one.hsaco", "kpack extract archives/x.kpack --binary x.so#0 --target gfx90a -o out/one.hsaco"),
    ("out/x.so_gfx90a.kpack", "kpack create --from-binary code/x.so -o out"),
    ("out/x.hipfb", "kpack bundle code/x.so.0.gfx90a.hsaco -o out/x.hipfb"),
    ("out/x.so.0.gfx90a.hsaco", "kpack unbundle code/x.so -o out"),
];

#[test]
fn existing_files_are_replaced_on_request_only() {
    let inputs = Place::new();
    for (file, command) in KPACK {
        let place = inputs.copied();
        place.succeeds(command);
        let (written, all) = (fs::read(place.at(file)).unwrap(), place.files("out"));
        place.file(file, b"mine");
        let mine = place.files("");
        let output = place.run(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(file) && said.contains("--force"), "{command}: {said}");
        assert!(place.files("") == mine, "{command}");
        place.succeeds(&format!("{command} --force"));
        assert!(fs::read(place.at(file)).unwrap() == written && place.files("out") == all, "{command}");
        if command.contains("--binary") {
            // It writes into a directory of this name.
            continue;
        }
        // A directory is not replaced by a file, and nothing else is written.
        fs::remove_dir_all(place.at("out")).unwrap();
        place.file(&format!("{file}/mine"), b"mine");
        let mine = place.files("");
        let output = place.run(&format!("{command} --force"));
        assert!(!output.status.success() && place.files("") == mine, "{command}");
    }
}

/// A command; a file that it makes, and an unchanged one.
const DATED: [(&str, &str, &str); 10] = [
    ("split tree -o out", "out/host/lib/libx.so", "out/host/share/notes"),
    ("split tree -o out", "out/.kpackfs/split.json", ""),
    ("split tree -o out --view thin/gfx90a", "out/thin/gfx90a/lib/libx.so", "out/thin/gfx90a/share/notes"),
    ("split fat/WHEEL -o out", "out/host/x-1.0.dist-info/RECORD", ""),
    ("split fat/WHEEL -o out --format wheel", "out/WHEEL", ""),
    ("split fat/WHEEL -o out --format thin-wheel", "out/gfx90a/WHEEL", ""),
    ("split fat/WHEEL -o out --format index", "out/simple/x/index.html", ""),
    ("split artifacts -o out", "out/x_lib_gfx90a/stage/.kpack/x_lib_gfx90a.kpack", ""),
    ("recombine shards/packages.json shards -o out --kpm", "out/x_lib_all/artifact_manifest.txt", ""),
    ("kpack create --from-binary code/x.so -o out", "out/x.so_gfx90a.kpack", ""),
];

/// Web servers and rsync take a file of the same second and size for the one that they know.
#[test]
fn what_replaces_a_file_has_a_later_second_and_the_same_bytes() {
    let place = Place::new();
    place.file("tree/share/notes", b"for everybody");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    for file in place.files("").keys().filter(|path| path.is_file()) {
        fs::File::open(file).unwrap().set_modified(old).unwrap();
    }
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for (command, made, unchanged) in DATED {
        let (made, unchanged) = (made.replace("WHEEL", WHEEL), place.at(unchanged));
        let begun = seconds(SystemTime::now());
        let written = || {
            place.succeeds(&format!("{command} --force"));
            let files = place.files("out");
            let time = |path: &PathBuf| seconds(path.metadata().unwrap().modified().unwrap());
            let times: BTreeMap<_, _> = files.keys().map(|path| (path.clone(), time(path))).collect();
            (files, times)
        };
        let (files, before) = written();
        let (again, after) = written();
        let ended = seconds(SystemTime::now());
        assert!(files == again, "{command}");
        let is_new = |path: &PathBuf| after[path] >= begun;
        assert!(is_new(&place.at(&made)), "{command}: {made}: {}", after[&place.at(&made)]);
        for (path, time) in after.iter().filter(|(path, _)| is_new(path)) {
            assert!(before[path] < *time && *time <= ended, "{command}: {}", path.display());
        }
        if unchanged.is_file() {
            assert_eq!((before[&unchanged], after[&unchanged]), (1_600_000_000, 1_600_000_000), "{command}");
        }
        fs::remove_dir_all(place.at("out")).unwrap();
    }
}

/// Ways to make something that is neither a file nor a directory. Only root makes devices.
const NO_FILES: [&[&str]; 4] = [
    &["mkfifo", "special"],
    &["ln", "-s", "/dev/null", "special"],
    &["mknod", "special", "c", "1", "3"],
    &["mkdir", "-p", "special/one.hsaco"],
];

#[test]
fn what_is_no_file_is_not_replaced_by_one() {
    let inputs = Place::new();
    for step in NO_FILES {
        let place = inputs.copied();
        let made = Command::new(step[0]).args(&step[1..]).current_dir(place.at("")).output().unwrap();
        if !made.status.success() {
            skipped(&format!("{step:?}: {}", String::from_utf8_lossy(&made.stderr)));
            continue;
        }
        let output = if step[0] == "mkdir" { "special/one.hsaco" } else { "special" };
        let kind = || place.at(output).symlink_metadata().unwrap().file_type();
        let before = kind();
        let extract = format!("kpack extract archives/x.kpack --binary x.so#0 --target gfx90a -o {output} --force");
        for command in [extract, format!("kpack bundle code/x.so.0.gfx90a.hsaco -o {output} --force")] {
            let is_directory = command.contains("extract") && before.is_dir();
            let ended = place.run(&command);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.success(), is_directory, "{step:?}: {command}: {said}");
            assert!(is_directory || said.contains("it is no regular file"), "{step:?}: {command}: {said}");
            assert_eq!(kind(), before, "{step:?}: {command}");
        }
    }
}

#[test]
fn code_objects_that_would_have_one_file_are_refused_by_name() {
    let place = Place::new();
    for (names, named) in [
        (&["x#0", "x.0"][..], "both x#0 (gfx90a) and x.0 (gfx90a) would be written to it"),
        (&["a", "a.gfx90a.hsaco/b"], "a file for a (gfx90a), and a directory for a.gfx90a.hsaco/b (gfx90a)"),
    ] {
        for name in names {
            place.copy("code/x.so.0.gfx90a.hsaco", &format!("two/{name}"));
        }
        place.succeeds("kpack create two -o two.kpack --target gfx90a");
        let output = place.run("kpack extract two.kpack -o out");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(named), "{said}");
        assert!(!place.at("out").exists());
        for name in names {
            place.succeeds(&format!("kpack extract two.kpack --binary {name} --target gfx90a -o one.hsaco --force"));
        }
        for leftover in ["two", "two.kpack", "one.hsaco"] {
            let path = place.at(leftover);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    }
}

#[test]
fn an_archive_that_cannot_be_read_to_its_end_is_not_extracted() {
    let place = Place::new();
    let code = fs::read(place.at("code/x.so.0.gfx90a.hsaco")).unwrap();
    for (name, end) in [("a", &[][..]), ("b", &[1; 100])] {
        place.file(&format!("two/{name}"), &[&code, end].concat());
    }
    place.succeeds("kpack create two -o two.kpack --target gfx90a");
    let mut archive = fs::read(place.at("two.kpack")).unwrap();
    let frame = archive.windows(4).rposition(|bytes| bytes == [0x28, 0xB5, 0x2F, 0xFD]).unwrap();
    archive[frame + 20..frame + 60].fill(0xFF);
    place.file("two.kpack", &archive);
    for is_there in [false, true] {
        let output = place.run("kpack extract two.kpack -o out --force");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(place.files("out").len(), usize::from(is_there), "{output:?}");
        place.file("out/a.gfx90a.hsaco", b"old");
    }
    assert_eq!(fs::read(place.at("out/a.gfx90a.hsaco")).unwrap(), b"old");
}

/// A command with an output; where its parts are, and what their names end with.
const PARTED: [(&str, &str, &str); 10] = [
    ("split tree -o OUT", "", ""),
    ("split tree -o OUT --compression none", "", ""),
    ("split tree -o OUT --view thin/gfx1030 --view thin/gfx90a", "thin", ""),
    ("split fat/TORCH -o OUT", "", ""),
    ("split fat/TORCH -o OUT --format wheel", "", ".whl"),
    ("split fat/TORCH -o OUT --format wheel --deflate 0", "", ".whl"),
    ("split fat/TORCH -o OUT --format thin-wheel", "*", ".whl"),
    ("split fat/TORCH fat/WHEEL -o OUT --format index", "simple/*", ".whl"),
    ("split wheels -o OUT --format wheel --view fat", "", ".whl"),
    ("split artifacts -o OUT", "", ""),
];

/// The name that scripts/make-torch-wheel gives.
const TORCH: &str = "torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl";

/// The size of each part of an output. A file with several names counts once.
fn part_sizes(output: &Path, place: &str, suffix: &str) -> BTreeMap<PathBuf, u64> {
    let mut places = vec![output.to_owned()];
    for name in place.split('/').filter(|name| !name.is_empty()) {
        let inside = |place: PathBuf| fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
        let is_there = |path: &PathBuf| name == "*" || path.ends_with(name);
        places = places.into_iter().flat_map(inside).filter(|path| path.is_dir() && is_there(path)).collect();
    }
    let parts = places.into_iter().flat_map(|place| fs::read_dir(place).unwrap()).map(|entry| entry.unwrap().path());
    let is_part = |path: &PathBuf| !path.ends_with(".kpackfs") && path.to_str().unwrap().ends_with(suffix);
    parts.filter(is_part).map(|part| (part.clone(), size_of(&part, &mut BTreeSet::new()))).collect()
}

fn size_of(path: &Path, seen: &mut BTreeSet<u64>) -> u64 {
    let metadata = path.symlink_metadata().unwrap();
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| size_of(&entry.unwrap().path(), seen)).sum()
    } else if metadata.is_file() && seen.insert(metadata.ino()) {
        metadata.len()
    } else {
        0
    }
}

/// The place of [`PARTED`], whose largest parts are those of GPUs.
fn parted() -> Place {
    let place = Place::new();
    let noise: Vec<u8> = (0_u32..100_000).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    for (root, gpu) in [("tree", "gfx1030"), ("artifacts/x_lib_gfx90X/stage", "gfx1030")] {
        place.file(&format!("{root}/lib/rocblas/library/TensileLibrary_{gpu}.co"), &noise);
        place.file(&format!("{root}/lib/rocblas/library/TensileLibrary.dat"), b"for all");
    }
    torch_wheel(&place.at("fat").join(TORCH));
    place
}

/// The limit is met exactly where the largest part is, and what is said to fit does.
#[test]
fn no_part_that_exceeds_a_limit_is_written() {
    let place = parted();
    for (number, (command, at, suffix)) in PARTED.iter().enumerate() {
        let command = command.replace("TORCH", TORCH);
        let run = |output: &str, more: &str| place.run(&(command.replace("OUT", output) + more));
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        let (out, limited, refused, followed) = (
            format!("out{number}"),
            format!("limited{number}"),
            format!("refused{number}"),
            format!("followed{number}"),
        );
        assert!(run(&out, "").status.success(), "{command}");
        let largest = *part_sizes(&place.at(&out), at, suffix).values().max().unwrap();
        let passed = run(&limited, &format!(" --max-part {largest}"));
        assert!(passed.status.success(), "{command}: {}", said(&passed));
        let relative = |directory: &str| files_and_links_below(&place.at(directory));
        assert!(relative(&out) == relative(&limited), "{command}");
        let failed = run(&refused, &format!(" --max-part {}", largest - 1));
        let text = said(&failed);
        assert!(failed.status.code() == Some(1) && text.contains("(1 bytes)"), "{command}: {text}");
        assert!(!place.at(&refused).exists() || place.files(&refused).is_empty(), "{command}");
        let advice = text.split("--gpu-targets ").nth(1).and_then(|rest| rest.split(' ').next());
        if let Some(gpus) = advice {
            let advised = run(&followed, &format!(" --max-part {} --gpu-targets {gpus}", largest - 1));
            assert!(advised.status.success(), "{command}: {gpus}: {}", said(&advised));
        }
        let has_advice = !command.contains("--view") && !command.contains("thin-wheel");
        assert!(advice.is_some() || !has_advice || text.contains("no choice of GPUs"), "{command}: {text}");
    }
}

/// What `inspect` says is what `split` does. It measures only where bounds do not decide.
#[test]
fn inspect_decides_as_split_does() {
    let place = parted();
    for (input, format, suffix) in [
        ("tree", "", ""),
        ("fat/TORCH", " --format wheel", ".whl"),
        ("artifacts", "", ""),
        ("wheels", " --format wheel", ".whl"),
    ] {
        let input = input.replace("TORCH", TORCH);
        let out = format!("{}-split", input.replace('/', "-"));
        place.succeeds(&format!("split {input} -o {out}{format}"));
        let largest = *part_sizes(&place.at(&out), "", suffix).values().max().unwrap();
        for (limit, code) in [(largest, 0), (largest - 1, 1), (100 << 20, 0), (0, 1)] {
            let output = place.run(&format!("inspect {input} --json --max-part {limit}"));
            assert_eq!(
                output.status.code(),
                Some(code),
                "{input} {limit}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["limit"]["passed"], code == 0, "{input} {limit}");
            let parts = report["limit"]["parts"].as_array().unwrap();
            let bounds = |part: &serde_json::Value| (part["least"].as_u64().unwrap(), part["most"].as_u64());
            let is_known = parts.iter().map(bounds).all(|(least, most)| most == Some(least));
            // Device code is compressed, and so is the text of a wheel.
            assert!(is_known || limit == 100 << 20 || limit == 0, "{input} {limit}: {report}");
            assert!(!is_known || limit != 100 << 20 || input == "wheels", "{input} {limit}: it was measured");
        }
    }
    let output = place.run("inspect tree/missing --max-part 1");
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn archives_are_read_by_those_who_can_read_their_libraries() {
    for (files, expected) in [
        (&[("lib/a.so", 0o755, 0o755)][..], &[(".kpack/rocm", 0o644)][..]),
        (&[("lib/a.so", 0o444, 0o755)], &[(".kpack/rocm", 0o644)]),
        (&[("lib/a.so", 0o600, 0o755)], &[(".kpack/rocm", 0o600)]),
        (&[("lib/a.so", 0o755, 0o755), ("own/b.so", 0o640, 0o755)], &[(".kpack/rocm", 0o640)]),
        (&[("lib/a.so", 0o755, 0o755), ("own/b.so", 0o644, 0o710)], &[(".kpack/rocm", 0o640)]),
        (
            &[("usr/lib/a/a.so", 0o755, 0o755), ("usr/lib/b/b.so", 0o600, 0o700)],
            &[("usr/lib/a/.kpack/a.so", 0o644), ("usr/lib/b/.kpack/b.so", 0o600)],
        ),
    ] {
        let place = tempfile::tempdir().unwrap();
        let [tree, out] = ["tree", "out"].map(|name| place.path().join(name));
        for (path, mode, directory) in files {
            let path = tree.join(path);
            common::put(&path, fixture("plain.so"));
            fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(*directory)).unwrap();
        }
        succeeds(program().args(["split", "--no-cache", "--quiet", "--output"]).args([&out, &tree]));
        for (stem, mode) in expected {
            let archive = out.join(format!("gfx90a/{stem}_gfx90a.kpack"));
            assert_eq!(archive.metadata().unwrap().mode() & 0o7777, *mode, "{files:?}");
        }
    }
}
