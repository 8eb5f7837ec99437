//! What commands print when they are called with wrong arguments, or have nothing to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use crate::common::{self, copied_program, fixture};
use tempfile::TempDir;

/// A directory with inputs, in which commands run.
struct Place(TempDir);

impl Place {
    /// With an install tree in `fat` that has code for gfx90a and gfx1030, and one in `plain` that has none.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.file("plain/readme.txt", b"text");
        place.file("fat/lib/libx.so", &fixture("plain.so"));
        place
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        common::put(self.0.path().join(path), bytes);
    }

    fn has(&self, path: &str) -> bool {
        self.0.path().join(path).exists()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
        command.args(arguments).current_dir(self.0.path()).env("KPACKFS_CACHE_DIR", self.0.path().join("cache"));
        command
    }

    /// The output of a command, which must end with this exit code.
    #[track_caller]
    fn ends(&self, code: i32, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}: {said}");
        said
    }
}

#[test]
fn a_target_that_nothing_matches_is_an_error() {
    let place = Place::new();
    place.file("m/.keep", b"");
    let unknown = " (no GPU or family of this name is known)";
    for (selection, wanted, doubt) in [
        (["--gpu-targets", "gfx9999"], "--gpu-targets gfx9999", unknown),
        (["--gpu-targets", "gfx90a,gfx942"], "--gpu-targets gfx942", ""),
        (["--exclude-targets", "foo"], "--exclude-targets foo", unknown),
        (["--exclude-targets", "gfx90a,gfx11"], "--exclude-targets gfx11", ""),
    ] {
        let nothing = format!("{wanted}: the input has nothing for it{doubt}");
        let expected = format!("kpackfs: {nothing}; it has code for gfx1030, gfx90a\n");
        for command in [&["split", "fat", "-o", "out"][..], &["mount", "--fake", "fat", "m"]] {
            assert_eq!(place.ends(1, &[command, &selection].concat()), expected);
        }
    }
    let of_nothing = place.ends(1, &["inspect", "plain", "--gpu-targets", "gfx90a"]);
    assert!(of_nothing.ends_with("; `kpackfs inspect` says what code it has\n"), "{of_nothing}");
    assert!(!place.has("out"));
    // Families match through their members, and databases count.
    place.file("fat/share/miopen/db/gfx94268.db.txt", b"");
    place.ends(0, &["split", "fat", "-o", "out", "--gpu-targets", "gfx9,gfx942", "--exclude-targets", "gfx10_3"]);
    assert!(place.has("out/gfx90a") && place.has("out/gfx942") && !place.has("out/gfx1030"));
}

/// As from an empty variable of a script. 0.2.0 ignored it.
#[test]
fn an_empty_list_of_gpus_is_an_error() {
    let place = Place::new();
    place.file("m/.keep", b"");
    for option in ["--arch", "--thin"] {
        for list in ["", " ", ",", ";"] {
            let said = place.ends(1, &["mount", "--fake", "fat", "m", option, list]);
            let expected = "the list is empty; name GPUs such as gfx942, or \"auto\" for those of this machine";
            assert_eq!(said, format!("kpackfs: {option}: {expected}\n"));
        }
    }
}

#[test]
fn nothing_to_split_is_an_error_of_split() {
    let place = Place::new();
    for directory in ["empty", "m"] {
        fs::create_dir(place.0.path().join(directory)).unwrap();
    }
    for input in ["plain", "empty"] {
        let said = place.ends(1, &["split", input, "-o", "out"]);
        let of_plain = "contains no device code for AMD's GPUs and no kernel databases: 1 file, 0 binaries";
        let reason = if input == "empty" { "has no files" } else { of_plain };
        assert!(said.contains(&format!("nothing to split: it {reason}")), "{said}");
        let said = place.ends(0, &["inspect", input]);
        assert!(said.contains(&format!("It {reason}")), "{said}");
        let said = place.ends(0, &["mount", "--fake", input, "m"]);
        assert!(said.contains(&format!("{input}: {reason}")) && said.contains("so host/ is the whole input"), "{said}");
    }
    let said = place.ends(1, &["mount", "--fake", "fat", "none"]);
    assert!(said.ends_with("none: no such directory; create it, and mount again\n"), "{said}");
    let nothing_left = ["--gpu-targets", "gfx90a", "--exclude-targets", "gfx90a"];
    let said = place.ends(1, &[&["split", "fat", "-o", "out"][..], &nothing_left].concat());
    assert!(said.contains("--gpu-targets and --exclude-targets leave nothing of it"), "{said}");
    assert!(!place.has("out"));
}

#[test]
fn a_download_that_is_cut_off_is_named_so() {
    let place = Place::new();
    place.file("x.whl", b"PK\x03\x04 and then some bytes, but no end of the central directory");
    let said = place.ends(1, &["inspect", "x.whl"]);
    assert!(said.contains("x.whl: not a usable wheel: it is truncated or damaged"), "{said}");
    assert!(said.contains("download it again"), "{said}");
    place.file("x.rpm", b"neither");
    let said = place.ends(5, &["inspect", "x.rpm"]);
    assert!(said.contains("x.rpm: a file of no known format"), "{said}");
}

/// The output of a module of Python that compresses.
fn by_python(module: &str, place: &Place, input: &str) -> Vec<u8> {
    let script =
        format!("import sys, {module}; sys.stdout.buffer.write({module}.compress(open(sys.argv[1], 'rb').read()))");
    let output = Command::new("python3").args(["-c", &script, input]).current_dir(place.0.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn what_is_no_input_is_described_whatever_its_name() {
    let place = Place::new();
    let noise: Vec<u8> = (0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let packed = Command::new("tar").args(["--create", "fat"]).current_dir(place.0.path()).output().unwrap().stdout;
    place.file("good.tar", &packed);
    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let mut damaged = packed.clone();
    damaged[1024..1536].copy_from_slice(&noise[..512]);
    for (bytes, code, what) in [
        (Vec::new(), 5, "an empty file"),
        (noise.clone(), 5, "a file of no known format"),
        ([b"BZh9", &noise[..]].concat(), 5, "compressed with bzip2"),
        ([b"!<arch>\n", &noise[..]].concat(), 5, "a static library, which linkers read"),
        (by_python("gzip", &place, "plain/readme.txt"), 5, "a compressed file that is no tar archive"),
        (half(&by_python("gzip", &place, "good.tar")), 1, "it is truncated; get it again"),
        (half(&by_python("lzma", &place, "good.tar")), 1, "it is truncated; get it again"),
        (half(&zstd::encode_all(&*packed, 3).unwrap()), 1, "it is truncated; get it again"),
        (half(&packed), 1, "is truncated; get it again"),
        (damaged, 1, "a damaged header"),
    ] {
        for name in ["x.tar", "x.tgz", "x.tar.bz2", "x.tar.zst", "x.bin"] {
            place.file(name, &bytes);
            let text = place.ends(code, &["inspect", name]);
            assert!(text.contains(what) && text.len() < 500, "{name}, {what}: {text}");
        }
    }
}

#[test]
fn an_unpacked_wheel_in_a_directory_of_a_tar_archive_is_named() {
    let place = Place::new();
    for name in ["METADATA", "WHEEL", "RECORD"] {
        place.file(&format!("x-1/x-1.dist-info/{name}"), b"Name: x\nVersion: 1\n");
    }
    place.file("x-1/x/libx.so", &fixture("plain.so"));
    let mut tar = Command::new("tar");
    assert!(tar.args(["--create", "--file=x.tar", "x-1"]).current_dir(place.0.path()).status().unwrap().success());
    let text = place.ends(0, &["inspect", "x.tar"]);
    assert!(text.contains("an unpacked wheel in \"x-1\""), "{text}");
}

/// A terminal would show the name below as `fatexe.so`.
#[test]
fn characters_that_change_the_direction_of_text_are_escaped() {
    let place = Place::new();
    place.file("fat/lib/fat\u{202e}os.exe", &fixture("plain.so"));
    for (arguments, shown) in [
        (&["inspect", "fat"][..], "fat\\u{202e}os.exe"),
        (&["inspect", "--json", "fat"], "fat\\u202eos.exe"),
        (&["diff", "fat", "plain"], "fat\\u{202e}os.exe"),
        (&["diff", "--json", "fat", "plain"], "fat\\u202eos.exe"),
    ] {
        let said = place.ends(0, arguments);
        assert!(said.contains(shown) && !said.contains('\u{202e}'), "{arguments:?}: {said}");
    }
}

#[test]
fn an_output_that_is_a_file_and_an_empty_date() {
    let place = Place::new();
    place.file("file", b"");
    let text = place.ends(1, &["split", "fat", "-o", "file"]);
    assert!(text.contains("file: is not a directory"), "{text}");
    let mut split = place.command(&["split", "fat", "-o", "out"]);
    assert!(split.env("SOURCE_DATE_EPOCH", "").status().unwrap().success());
}

#[test]
fn warnings_look_like_other_messages() {
    let place = Place::new();
    place.file("shared/.keep", b"");
    fs::set_permissions(place.0.path().join("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    let output =
        place.command(&["split", "fat", "-o", "out", "-q"]).env("KPACKFS_CACHE_DIR", "shared").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.is_empty() && said.lines().all(|line| line.starts_with("kpackfs: warning: ")), "{said}");
}

#[test]
fn recombine_writes_or_mounts() {
    let place = Place::new();
    let said = place.ends(2, &["recombine", "packages.json", "shards", "-o", "out", "--mount", "m"]);
    assert!(said.contains("cannot be used with"), "{said}");
    place.ends(2, &["recombine", "packages.json", "shards"]);
    // One of them is enough. The command then fails because the configuration does not exist.
    for destination in [["-o", "out"], ["--mount", "m"]] {
        let said = place.ends(5, &[&["recombine", "packages.json", "shards"][..], &destination].concat());
        assert!(said.contains("packages.json: No such "), "{said}");
    }
}

#[test]
fn whoever_stops_reading_gets_no_complaint() {
    let place = Place::new();
    place.ends(0, &["index", "fat"]);
    place.ends(0, &["split", "fat", "-o", "out"]);
    let archive = "out/gfx90a/.kpack/rocm_gfx90a.kpack";
    for arguments in [
        &["split", "fat", "-o", "out", "--force", "-q"][..],
        &["inspect", "--json", "fat"],
        &["kpack", "list", archive],
        &["kpack", "list", "--json", archive],
        &["cache", "list"],
        &["cache", "list", "--json"],
        &["index", "fat", "-q"],
        &["cache", "clear", "-q"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let place = Place::new();
    let limited = "ulimit -f 1; exec \"$0\" split fat -o out --no-cache";
    let mut command = Command::new("bash");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_kpackfs")]).current_dir(place.0.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("File too large"), "{output:?}");
    assert!(fs::read_dir(place.0.path().join("out")).map_or(true, |mut left| left.next().is_none()), "{said}");
}

/// A pipe that nobody reads has to leave the answer, and a full disk has to be told from one. Messages change nothing.
#[test]
fn the_output_does_not_change_an_answer() {
    let place = Place::new();
    place.ends(0, &["split", "fat", "-o", "out"]);
    place.file("grown/lib/libx.so", &fixture("plain.so"));
    place.file("grown/text", b"text");
    for (arguments, answer, unwritten) in [
        (&["inspect", "fat", "--require", "gfx1030"][..], 0, 2),
        (&["--help"], 0, 1),
        (&["--version"], 0, 1),
        (&["--version", "--verbose"], 0, 1),
        (&["split", "--help"], 0, 1),
        (&["split", "--no-such-option"], 2, 2),
        (&["inspect", "fat", "--require", "gfx942", "--json"], 1, 2),
        (&["diff", "fat", "grown", "--fail-above", "1e9"], 0, 2),
        (&["diff", "fat", "grown", "--fail-above", "0", "--json"], 1, 2),
        (&["verify", "out"], 0, 2),
        (&["inspect", "nothing"], 5, 5),
        (&["verify", "out/host", "--json"], 1, 2),
        (&["why", "fat", "--target", "gfx90a"], 0, 3),
        (&["why", "fat", "--target", "gfx942", "--json"], 1, 3),
        (&["collect", "fat", "--from", "fat", "--gpu-targets", "gfx942"], 1, 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let messages = [Stdio::from(writer.try_clone().unwrap()), Stdio::from(full.try_clone().unwrap())];
        for messages in messages {
            let found = place.command(arguments).stdout(Stdio::null()).stderr(messages).status().unwrap();
            assert_eq!(found.code(), Some(answer), "{arguments:?}");
        }
        for (output, code) in [(Stdio::from(writer), answer), (Stdio::from(full), unwritten)] {
            let found = place.command(arguments).stdout(output).stderr(Stdio::piped()).output().unwrap();
            assert_eq!(found.status.code(), Some(code), "{arguments:?}: {found:?}");
            let said = String::from_utf8_lossy(&found.stderr);
            assert!(
                code == answer || said.contains("kpackfs: standard output: No space left"),
                "{arguments:?}: {said}"
            );
        }
    }
}

#[test]
fn the_cache_is_named_before_or_behind_what_to_do() {
    let place = Place::new();
    place.ends(0, &["index", "fat", "--cache-dir", "here"]);
    let listed = place.ends(0, &["cache", "list", "--cache-dir", "here"]);
    assert!(listed.contains("fat\n"), "{listed}");
    assert_eq!(place.ends(0, &["cache", "--cache-dir", "here", "list"]), listed);
    assert_eq!(place.ends(0, &["cache", "list", "-q"]), "");
    assert!(place.ends(0, &["cache", "list", "--help"]).contains("--cache-dir"));
    place.ends(0, &["index", "fat", "--cache-dir", "here", "--frame-cache", "10"]);
    let more = place.ends(0, &["cache", "list", "--cache-dir", "here"]);
    assert!(more.contains("fat\n") && more.ends_with(" compressed code objects of 1 input\n"), "{more}");
    assert!(place.ends(0, &["cache", "clear", "--cache-dir", "here"]).starts_with("kpackfs: removed 1 index, "));
    assert!(place.ends(0, &["cache", "list", "--cache-dir", "here"]).starts_with("kpackfs: nothing is kept in "));
    assert!(
        place.ends(0, &["cache", "clear", "--cache-dir", "here"]).starts_with("kpackfs: no index had to be removed")
    );
}

#[test]
fn an_index_of_nothing_is_no_failure() {
    let place = Place::new();
    assert_eq!(place.ends(0, &["index", "plain"]), "kpackfs: plain: there is nothing to keep about it\n");
    let without = place.ends(1, &["index", "--no-cache", "plain"]);
    assert!(without.contains("leave out --no-cache and an empty KPACKFS_CACHE_DIR"), "{without}");
    place.ends(2, &["cache", "--no-cache", "list"]);
}

#[test]
fn only_gpus_that_were_chosen_have_views_and_users() {
    let place = Place::new();
    assert_eq!(place.ends(0, &["ls", "fat", "merged"]), "gfx1030\ngfx90a\n");
    assert_eq!(place.ends(0, &["ls", "fat", "merged", "--gpu-targets", "gfx90a"]), "gfx90a\n");
    assert_eq!(place.ends(0, &["ls", "fat", "merged", "--exclude-targets", "gfx9"]), "gfx1030\n");
    let said = place.ends(0, &["inspect", "fat", "--gpu-targets", "gfx90a"]);
    assert!(said.contains("host + gfx90a") && !said.contains("of its family"), "{said}");
}

/// An option of a split that changes nothing of what a command does is no option of it.
#[test]
fn options_without_effect_are_refused_by_name() {
    let place = Place::new();
    for (command, options) in [
        (&["diff", "fat", "plain"][..], &["--generate-variant-wheel", "--digests", "--requirements", "--group"][..]),
        (&["inspect", "fat"], &["--generate-variant-wheel", "--digests", "--requirements"]),
        (&["mount", "fat", "plain"], &["--generate-variant-wheel"]),
        (&["index", "fat"], &["--generate-variant-wheel"]),
        (
            &["collect", "fat", "--from", "fat"],
            &["--databases", "--deflate", "--device-package-prefix", "--exclude-targets"],
        ),
        (&["recombine", "config.json", "shards", "-o", "out"], &["--overlay-root", "--deflate", "--requirements"]),
        (&["verify", "fat"], &["--compression", "--group", "--cache-dir=x"]),
    ] {
        for option in options {
            let said = place.ends(2, &[command, &[option]].concat());
            let name = option.split('=').next().unwrap();
            assert!(said.contains(&format!("unexpected argument '{name}' found")), "{command:?} {option}: {said}");
        }
    }
    // What an input is, only its recognition says. No wheel is made of a tree.
    let of_wheels = ["--device-package-prefix=x", "--device-requires-dist=x==1", "--requirements=split", "--deflate=0"];
    for option in of_wheels {
        let name = option.split('=').next().unwrap();
        for command in [&["split", "plain", "-o", "out"][..], &["index", "plain"]] {
            let said = place.ends(1, &[command, &[option]].concat());
            assert!(said.contains(&format!("plain: {name} is about wheels")), "{command:?} {option}: {said}");
        }
    }
    let said = place.ends(2, &["diff", "plain", "plain", "--deflate=0"]);
    assert!(said.contains("--deflate: it is about wheels"), "{said}");
    assert!(!place.has("out"));
}

#[test]
fn options_that_make_no_sense_are_errors_of_the_command_line() {
    let place = Place::new();
    let split = ["split", "fat", "-o", "out"];
    for (options, expected) in [
        (&["--device-requires-dist", "a b c !!"][..], "invalid value 'a b c !!' for '--device-requires-dist"),
        (
            &["--generate-variant-wheel", "--variant-label", "null"],
            "invalid value 'null' for '--variant-label <LABEL>': a label",
        ),
        (&["--generate-variant-wheel=null"], "invalid value 'null' for '--generate-variant-wheel"),
        (&["--variant-label", "x"], "--generate-variant-wheel"),
        (&["--compression", "zstd:23"], "level \"23\": it is a number from 1 to 22"),
        (&["--requirements", "divide"], "it is keep, split, or NAME=LIST"),
        (&["--generate-variant-wheel"], "it needs --format wheel"),
        (&["--generate-variant-wheel", "--view", "host"], "it needs --format wheel"),
        (&["--format", "wheel", "--view", "host"], "--view chooses directories"),
    ] {
        let said = place.ends(2, &[&split[..], options].concat());
        assert!(said.contains(expected), "{said}");
    }
    assert!(!place.has("out"));
}

#[test]
fn messages_name_a_file_once() {
    let place = Place::new();
    let said = place.ends(1, &["kpack", "unbundle", "fat", "-o", "out"]);
    assert_eq!(said, "kpackfs: fat: it is a directory, not a regular file\n");
}

#[test]
fn a_misspelt_command_is_named() {
    let place = Place::new();
    for arguments in [
        &["splt", "fat", "-o", "out"][..],
        &["splt", "-o", "out", "fat"],
        &["splt", "fat", "plain", "-o", "out"],
        &["splt", "fat", "-oy"],
        &["splt", "fat", "-o", "out", "--force"],
        &["splt", "-f", "fat", "-o", "rw"],
    ] {
        let said = place.ends(2, arguments);
        assert!(said.contains("unrecognized subcommand 'splt'") && said.contains("'split'"), "{said}");
    }
    // mount.fuse3 calls it in this form, with a path.
    for arguments in [["./splt", "m", "-o", "dev"], ["fat", "splt", "-o", "rw,dev,suid"]] {
        let said = place.ends(32, &arguments);
        assert!(said.starts_with("kpackfs: ") && said.to_lowercase().contains("no such "), "{said}");
    }
    assert_eq!(
        place.ends(1, &["fat", "plain", "-o", "nonsense"]),
        "kpackfs: unknown mount option nonsense; `kpackfs mount --help` lists those of kpackfs\n"
    );
}

#[test]
fn an_input_without_a_command_leads_to_those_that_read_it() {
    let place = Place::new();
    for arguments in [&["fat"][..], &["fat", "nowhere"], &["fat", "fat/lib/libx.so"], &["./fat", "--json"]] {
        let said = place.ends(2, arguments);
        assert!(matches!(*tips(&said), [tip] if tip.contains("'kpackfs mount INPUT DIR'")), "{said}");
    }
    // They exist, and may be misspelt commands.
    for name in ["splt", "test"] {
        place.file(&format!("{name}/file"), b"");
        assert_eq!(tips(&place.ends(2, &[name, "fat"])).len(), 1);
    }
}

/// Tips of a message about the command line.
fn tips(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.trim_start().strip_prefix("tip: ")).collect()
}

#[test]
fn words_of_other_programs_lead_to_those_of_this_one() {
    let place = Place::new();
    for (arguments, wanted) in [
        (&["list", "fat"][..], "kpackfs ls INPUT"),
        (&["info", "fat"], "kpackfs inspect INPUT"),
        (&["help", "list"], "kpackfs ls INPUT"),
        (&["extract", "fat", "x"], "kpackfs cat INPUT PATH"),
        (&["test", "fat"], "kpackfs verify INPUT"),
        (&["unpack", "fat", "-o", "out"], "kpackfs split INPUT -o DIR"),
        (&["completions", "bash"], "kpackfs generate DIR"),
        (&["version"], "kpackfs --version"),
        (&["split", "--version"], "kpackfs --version"),
        (&["-v"], "kpackfs --version"),
        (&["inspect", "fat", "-v"], "RUST_LOG=debug"),
    ] {
        let said = place.ends(2, arguments);
        assert!(matches!(*tips(&said), [tip] if tip.contains(wanted)), "{said}");
    }
    // `kpack` has names of its own.
    assert_eq!(tips(&place.ends(2, &["kpack", "lst"])), ["a similar subcommand exists: 'list'"]);
}

#[test]
fn a_missing_mount_point_is_named() {
    let place = Place::new();
    let said = place.ends(2, &["mount", "fat"]);
    assert!(said.contains("were not provided:\n  <MOUNT_POINT>\n"), "{said}");
    assert!(place.ends(2, &["mount"]).contains("<INPUT>"));
    for command in ["inspect", "index"] {
        let said = place.ends(2, &[command]);
        assert!(said.contains("were not provided:\n  <INPUT>...\n"), "{said}");
    }
    assert!(place.ends(1, &["unmount", "fat"]).contains("not a mount point"));
}

#[test]
fn an_option_for_gpus_of_another_command_leads_to_the_one_of_this_command() {
    let place = Place::new();
    for (command, option) in [
        (&["why", "fat"][..], "target"),
        (&["kpack", "extract", "x.kpack", "-o", "out"], "target"),
        (&["split", "fat", "-o", "out"], "gpu-targets"),
        (&["mount", "fat", "m"], "gpu-targets"),
        (&["inspect", "fat"], "gpu-targets"),
        (&["verify", "fat"], "gpu-targets"),
        (&["diff", "fat", "plain"], "gpu-targets"),
    ] {
        for wrong in ["--gpu", "--gpus", "--gpu-arch", "--targets", "--gpu-targets", "--target", "--arch=gfx942"] {
            let name = wrong.trim_start_matches('-').split('=').next().unwrap();
            if name == option || (command[0] == "mount" && name == "arch") {
                continue;
            }
            let said = place.ends(2, &[command, &[wrong, "gfx942"]].concat());
            assert_eq!(tips(&said), [format!("GPUs are named by '--{option}' here")], "{said}");
        }
    }
}

#[test]
fn a_wrong_command_line_has_one_tip_at_most() {
    let place = Place::new();
    let commands = ["mount", "umount", "status", "inspect", "split", "collect", "recombine", "verify", "why", "diff"];
    let more = ["kpack", "index", "cache", "generate"];
    for command in commands.into_iter().chain(more) {
        for wrong in ["--arch", "--target", "--jason", "--outptu", "--forc", "--zzz", "--cache-dirs", "-y", "--", "lst"]
        {
            let said = place.command(&[command, wrong]).output().unwrap();
            let said = String::from_utf8(said.stderr).unwrap();
            assert!(tips(&said).len() <= 1, "{command} {wrong}: {said}");
        }
    }
    assert_eq!(tips(&place.ends(2, &["why", "fat", "--jason"])), ["a similar argument exists: '--json'"]);
}

#[test]
fn no_directory_is_written_under_the_name_of_a_file() {
    let place = Place::new();
    for name in ["x.zip", "X.WHL", "new/x.tar", "x.tar.gz", "x.tar.zst", "x.tgz", "x.kpack", "-"] {
        for command in [&["split", "fat"][..], &["recombine", "fat", "fat"], &["kpack", "unbundle", "fat/lib/libx.so"]]
        {
            let said = place.ends(2, &[command, &["-o", name]].concat());
            assert!(said.contains(&format!("'{name}'")) && said.contains("name a directory"), "{said}");
        }
    }
    assert!(!place.has("x.zip") && !place.has("new") && !place.has("-"));
    place.ends(2, &["collect", "fat", "--from", "fat", "--gpu-targets", "gfx90a", "-o", "x.tar.gz"]);
    fs::create_dir(place.0.path().join("x.zip")).unwrap();
    for name in ["x.zip", "x.whl/", "./-"] {
        place.ends(0, &["split", "fat", "-o", name]);
        assert!(place.has(&format!("{name}/gfx90a")));
    }
}

/// `inspect` called code objects kernels, of which `diff` counts more.
#[test]
fn code_objects_have_one_name_and_one_number() {
    let place = Place::new();
    let inspected = place.ends(0, &["inspect", "fat"]);
    assert!(inspected.contains("  code objects  ") && !inspected.contains("kernels"), "{inspected}");
    let stdout = |arguments: &[&str]| place.command(arguments).output().unwrap().stdout;
    let json = |arguments: &[&str]| serde_json::from_slice::<serde_json::Value>(&stdout(arguments)).unwrap();
    let of_inspect = &json(&["inspect", "--json", "fat"])["binaries"][0]["code_objects"];
    let of_diff = &json(&["diff", "--json", "fat", "plain"])["code_objects"]["removed"]["count"];
    assert_eq!((of_inspect, of_diff), (&4.into(), &4.into()));
}

/// A signature covers all bytes of a file.
#[test]
fn signed_files_are_named() {
    let place = Place::new();
    let mut signed = fixture("win.dll");
    let headers = u32::from_le_bytes(signed[0x3c..0x40].try_into().unwrap()) as usize;
    // The certificate table is the fifth data directory, which begins 136 bytes behind the signature of the headers.
    let (offset, size) = (u32::try_from(signed.len()).unwrap(), 64_u32);
    signed[headers + 168..headers + 176].copy_from_slice(&[offset.to_le_bytes(), size.to_le_bytes()].concat());
    signed.extend([7; 64]);
    place.file("signed/bin/a.dll", &signed);
    place.file("signed/bin/b.dll", &signed);
    place.file("signed/bin/c.dll", &fixture("win.dll"));
    let sentence =
        "bin/a.dll and bin/b.dll: signed (Authenticode); a signature does not hold for a file with other device code";
    for arguments in [
        &["inspect", "signed"][..],
        &["split", "signed", "-o", "out"],
        &["split", "signed", "-o", "thin", "--view", "thin/gfx90a"],
    ] {
        let said = place.ends(0, arguments);
        assert_eq!(said.matches("Authenticode").count(), 1, "{said}");
        assert!(said.replace('\n', " ").contains(sentence), "{said}");
    }
    assert!(!place.ends(0, &["inspect", "out/gfx90a"]).contains("Authenticode"));
}

/// `verify` finds in a split what the input has, so the split says it first.
#[test]
fn rules_that_the_input_breaks_are_named() {
    let place = Place::new();
    let mut library = fixture("plain.so");
    // The header of a section of zeros (type 8, flags 3) leads out of its segment, as LIEF leaves that of .bss.
    let number = |at: usize| usize::try_from(u64::from_le_bytes(library[at..at + 8].try_into().unwrap())).unwrap();
    let section = (number(40)..).step_by(64).find(|&at| library[at + 4] == 8 && number(at + 8) == 3).unwrap();
    library[section + 16..section + 24].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    place.file("odd/lib/odd.so", &library);
    let said = place.ends(0, &["split", "odd", "-o", "out"]).replace('\n', " ");
    let problem = "section .relro_padding: it is not inside a loaded segment";
    assert!(
        said.contains(&format!("lib/odd.so: the tool that wrote it broke rules of loaders and linkers: {problem}")),
        "{said}"
    );
    assert!(place.ends(1, &["verify", "out"]).contains(&format!("{problem} [binary-form]")));
    place.ends(0, &["verify", "out", "--allow", "binary-form"]);
    assert!(!place.ends(0, &["split", "fat", "-o", "whole"]).contains("broke rules"));
}

/// The exit code and the messages of a command that is run as a user without privileges, so that modes count.
fn as_nobody(place: &Place, arguments: &str) -> (Option<i32>, String) {
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = copied_program(place.0.path());
    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    }
    let Output { status, stderr, .. } =
        command.args(arguments.split(' ')).current_dir(place.0.path()).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_tree_with_a_directory_that_may_not_be_listed_has_no_answer() {
    let place = Place::new();
    place.file("fat/closed/notes", b"text");
    let set = |mode| {
        let closed = place.0.path().join("fat/closed");
        fs::set_permissions(closed, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0);
    for (code, arguments) in [(1, "inspect fat"), (2, "inspect fat --require gfx90a"), (2, "diff fat fat")] {
        let (status, said) = as_nobody(&place, arguments);
        assert!(status == Some(code) && said.contains("closed: Permission denied"), "{arguments}: {status:?} {said}");
    }
    set(0o755);
}

/// Nothing is concluded from what a user may not read.
#[test]
fn a_file_that_may_not_be_read_is_no_finding() {
    let place = Place::new();
    place.ends(0, &["split", "fat", "-o", "out"]);
    for path in ["fat/lib/libx.so", "out/host/lib/libx.so", "out/gfx90a/.kpack/rocm_gfx90a.kpack"] {
        let set = |mode| fs::set_permissions(place.0.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        set(0);
        let commands: &[_] = if path.starts_with("fat") {
            &["inspect fat --require gfx90a", "verify out --against fat"]
        } else {
            &["verify out"]
        };
        for arguments in commands {
            let (status, said) = as_nobody(&place, arguments);
            let denied = format!("/{path}: Permission denied (os error 13)");
            assert!(status == Some(2) && said.contains(&denied), "{arguments}: {status:?} {said}");
        }
        set(0o644);
        let (status, said) = as_nobody(&place, "verify out --against fat");
        assert_eq!(status, Some(0), "{said}");
    }
    // Other files of the tree change no answer, and hide no finding.
    place.file("fat/etc/secret", b"");
    fs::set_permissions(place.0.path().join("fat/etc/secret"), fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(as_nobody(&place, "inspect fat --require gfx90a").0, Some(0));
    fs::remove_file(place.0.path().join("out/gfx90a/.kpack/rocm_gfx90a.kpack")).unwrap();
    let (status, said) = as_nobody(&place, "verify out");
    assert!(status == Some(1), "{said}");
}

#[test]
fn a_deleted_working_directory_is_not_there() {
    let place = Place::new();
    for arguments in
        ["inspect .", "split . -o ../out", "why . --target gfx90a", "verify .", "diff . ../fat", "inspect ./x"]
    {
        let script = format!("mkdir d; cd d; rmdir ../d; exec \"$KPACKFS\" {arguments}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(place.0.path()).env("KPACKFS", env!("CARGO_BIN_EXE_kpackfs"));
        let Output { status, stderr, .. } = shell.output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(
            status.code() == Some(5) && said.contains(": No such file or directory"),
            "{arguments}: {status} {said}"
        );
    }
    assert!(!place.has("out"));
}
