//! What a command can still do when an input makes it do something else: it tries, and its own work succeeds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::bucket::{BucketServer, ID, SECRET, TOKEN};
use crate::common::server::{Reply, Server};
use crate::common::{self, fixture, program, run, skipped, succeeds};
use crate::common::{mounts, paths_below};
use tempfile::TempDir;

/// Names of errors: what is refused has the first one as a file, and the second one as a system call.
const ACCESS: &str = "Some(13)";
const NONE: &str = "Some(38)";

/// Whether this machine has what confines commands. If not, reports that nothing is tested.
fn is_confined() -> bool {
    let all = run(program().args(["--version", "--verbose"]));
    let is = !all.contains("not restricted");
    if !is {
        skipped(&all);
    }
    is
}

/// A directory with `in/fat.tar`, an install tree, next to a home directory.
fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (path, bytes) in [("tree/lib/libx.so", fixture("plain.so")), ("home/secret", vec![]), ("in/other", vec![])] {
        common::put(place.path().join(path), bytes);
    }
    let [tar, tree] = ["in/fat.tar", "tree"].map(|name| place.path().join(name));
    succeeds(Command::new("tar").arg("-cf").arg(tar).arg("-C").arg(tree).arg("lib"));
    place
}

fn command(place: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(arguments).current_dir(place).env("KPACKFS_CACHE_DIR", place.join("cache"));
    command
}

/// What a command tried, and what became of it.
fn attempts(place: &Path, arguments: &[&str], files: &[&str]) -> (BTreeMap<String, String>, Vec<String>) {
    let output = succeeds(command(place, arguments).env("KPACKFS_PROBE", files.join(":")));
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = said.lines().filter_map(|line| line.strip_prefix("probe: ")?.split_once(": "));
    let (threads, tried): (Vec<_>, Vec<_>) = lines.partition(|(what, _)| *what == "thread");
    let tried = tried.into_iter().map(|(what, outcome)| (what.to_owned(), outcome.to_owned()));
    (tried.collect(), threads.into_iter().map(|(_, status)| status.to_owned()).collect())
}

const FILES: [&str; 6] = ["/etc/shadow", "home", "home/secret", "next=", "in/other=", "cache/../next="];

#[test]
fn a_command_that_is_taken_over_can_do_nothing_but_its_own_work() {
    if !is_confined() {
        return;
    }
    let place = place();
    for arguments in [
        &["split", "in/fat.tar", "-o", "out", "-j", "3"][..],
        &["inspect", "in/fat.tar", "-j", "3"],
        &["ls", "in/fat.tar", "-j", "3"],
        &["cat", "in/fat.tar", "host/lib/libx.so", "-j", "3"],
    ] {
        let (tried, threads) = attempts(place.path(), arguments, &FILES);
        for (what, outcome) in &tried {
            assert_eq!(
                outcome,
                if FILES.contains(&format!("{what}=").as_str()) || FILES.contains(&what.as_str()) {
                    ACCESS
                } else {
                    NONE
                },
                "{what}"
            );
        }
        assert_eq!(tried.len(), FILES.len() + 13);
        let kept = if arguments[0] == "split" { "1f" } else { "04" };
        let kept = if rustix::process::geteuid().is_root() { kept } else { "00" };
        let expected = ["CapEff:", &format!("00000000000000{kept}"), "NoNewPrivs: 1 Seccomp: 2"].join(" ");
        assert!(threads.len() > 3 && threads.iter().all(|status| *status == expected), "{threads:?}");
    }
    assert!(place.path().join("out/host/lib/libx.so").exists() && !place.path().join("next").exists());
}

/// A wheel on a server is read without any file but those by which it is reached.
#[test]
fn a_command_that_reads_from_a_server_can_connect_and_open_no_input() {
    if !is_confined() {
        return;
    }
    let place = place();
    let wheel = mounts::wheel(place.path());
    let server = Server::start(fs::read(wheel).unwrap(), |_| Reply::Right);
    let url = server.url("demo-1.0-py3-none-any.whl");
    fs::write(place.path().join("home/.netrc"), "").unwrap();
    let files = [&FILES[..], &["in", "in/fat.tar", "home/.netrc=", "cache/new="]].concat();
    let mut inspect = command(place.path(), &["inspect", "--allow-http", &url, "-j", "3"]);
    let output = succeeds(inspect.env("HOME", place.path().join("home")).env("KPACKFS_PROBE", files.join(":")));
    let said = String::from_utf8(output.stderr).unwrap();
    let tried: BTreeMap<_, _> =
        said.lines().filter_map(|line| line.strip_prefix("probe: ")?.split_once(": ")).collect();
    let expected = |what: &str| match what {
        // Nothing listens there.
        "connect" => "Some(111)",
        _ if files.iter().any(|file| file.strip_suffix('=').unwrap_or(file) == what) => ACCESS,
        _ => NONE,
    };
    for (what, outcome) in tried.iter().filter(|(what, _)| **what != "thread") {
        assert_eq!(*outcome, if what.starts_with("cache/") { "Some(2)" } else { expected(what) }, "{what}");
    }
    assert!(!place.path().join("cache").exists());
}

/// Otherwise the attempts would fail for another reason.
#[test]
fn without_confinement_nothing_is_refused() {
    let place = place();
    let (tried, threads) = attempts(place.path(), &["inspect", "in/fat.tar", "--no-confinement"], &FILES[1..]);
    // A kernel may have no modules.
    let of_kernel = |name: &str| name == "module";
    let refused = tried.iter().filter(|(name, outcome)| !of_kernel(name) && [ACCESS, NONE].contains(&outcome.as_str()));
    let refused: Vec<_> = refused.collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(threads.iter().all(|status| status.ends_with("NoNewPrivs: 0 Seccomp: 0")), "{threads:?}");
}

/// Installers make such symlinks, and `inspect` says what they lead to.
#[test]
fn an_answer_about_a_directory_follows_its_symlinks() {
    let place = place();
    fs::create_dir(place.path().join("linked")).unwrap();
    symlink(place.path().join("tree/lib"), place.path().join("linked/lib")).unwrap();
    for arguments in [
        &["inspect", "linked", "--json"][..],
        &["why", "linked", "--target", "gfx90a", "--json"],
        &["verify", "linked", "--json"],
        &["collect", "linked", "--from", "tree", "--gpu-targets", "gfx90a", "--json"],
    ] {
        let [confined, free] = [&[][..], &["--no-confinement"]].map(|more| {
            let output = command(place.path(), &[arguments, more].concat()).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
        });
        assert_eq!(confined, free);
    }
}

/// What is refused is not called missing.
#[test]
fn an_error_that_the_confinement_causes_names_the_option_against_it() {
    if !is_confined() {
        return;
    }
    let place = place();
    symlink("../home/page", place.path().join("in/page")).unwrap();
    let arguments = ["inspect", "in/fat.tar", "--html", "in/page"];
    let output = command(place.path(), &arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("Permission denied") && said.contains("--no-confinement"),
        "{said}"
    );
    succeeds(&mut command(place.path(), &[&arguments[..], &["--no-confinement"]].concat()));
}

/// Link counts, whether there are holes, and sizes of all files below a directory. The number of blocks depends on what the disk has free.
fn disk(directory: &Path) -> BTreeMap<PathBuf, (u64, bool, u64)> {
    let disk = |path: PathBuf| {
        let metadata = directory.join(&path).symlink_metadata().unwrap();
        (!metadata.is_dir())
            .then_some((path, (metadata.nlink(), metadata.blocks() * 512 < metadata.size(), metadata.size())))
    };
    paths_below(directory).into_iter().filter_map(disk).collect()
}

#[test]
fn outputs_take_the_same_room_and_replace_what_was_there() {
    let place = place();
    fs::hard_link(place.path().join("tree/lib/libx.so"), place.path().join("tree/lib/liby.so")).unwrap();
    fs::write(place.path().join("tree/large"), vec![7; 300_000]).unwrap();
    let split = |output: &str, more: &[&str]| {
        succeeds(&mut command(place.path(), &[&["split", "tree", "-o", output], more].concat()));
        disk(&place.path().join(output))
    };
    let free = split("free", &["--no-confinement"]);
    assert_eq!(split("confined", &[]), free);
    assert_eq!(split("confined", &["--force", "--sync"]), free);
    assert_eq!(split("in/beside", &[]), free);
    assert!(free.values().any(|(links, ..)| *links == 2), "{free:?}");
}

#[test]
fn no_directory_is_left_where_nothing_is_written() {
    let place = place();
    let output = command(place.path(), &["split", "nothing.whl", "-o", "a/b/out"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let left: Vec<_> = ["a", "cache"].into_iter().filter(|name| place.path().join(name).exists()).collect();
    assert_eq!(left, Vec::<&str>::new());
    // An input is not touched.
    let before = place.path().join("tree").metadata().unwrap().mtime_nsec();
    assert_eq!(command(place.path(), &["split", "tree", "-o", "tree/out"]).output().unwrap().status.code(), Some(1));
    assert_eq!(place.path().join("tree").metadata().unwrap().mtime_nsec(), before);
}

#[test]
fn a_kernel_without_landlock_is_no_error() {
    let place = place();
    let version = run(command(place.path(), &["--version", "--verbose"]).env("KPACKFS_LANDLOCK_ABI", "0"));
    assert!(
        version.contains("Confinement, files: not restricted: this kernel or container has no Landlock\n"),
        "{version}"
    );
    let split = ["split", "tree", "-o", "out", "-q"];
    let output = succeeds(command(place.path(), &split).env("KPACKFS_LANDLOCK_ABI", "0"));
    assert!(output.stderr.is_empty());
}

/// An index is published without writing a file.
#[test]
fn a_command_that_publishes_in_a_bucket_can_connect_and_write_no_file() {
    if !is_confined() {
        return;
    }
    let place = place();
    mounts::wheel(&place.path().join("in"));
    let server = BucketServer::start();
    let files = [&FILES[..], &["in/new=", "cache/new=", "out="]].concat();
    let wheel = "in/demo-1.0-py3-none-any.whl";
    let options = ["--format", "index", "-o", "s3://bucket/a", "--allow-http", "-j", "3"];
    let mut split = command(place.path(), &[&["split", wheel], &options[..]].concat());
    split.env("AWS_ACCESS_KEY_ID", ID).env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_SESSION_TOKEN", TOKEN);
    split.env("AWS_ENDPOINT_URL", server.url()).env("HOME", place.path()).env("KPACKFS_PROBE", files.join(":"));
    let said = String::from_utf8(succeeds(&mut split).stderr).unwrap();
    let tried: BTreeMap<_, _> =
        said.lines().filter_map(|line| line.strip_prefix("probe: ")?.split_once(": ")).collect();
    for (what, outcome) in tried.iter().filter(|(what, _)| **what != "thread") {
        let expected = match *what {
            // Nothing listens there.
            "connect" => "Some(111)",
            _ if what.starts_with("cache/") => "Some(2)",
            _ if files.iter().any(|file| file.strip_suffix('=').unwrap_or(file) == *what) => ACCESS,
            _ => NONE,
        };
        assert_eq!(*outcome, expected, "{what}");
    }
    assert_eq!(tried.keys().filter(|what| **what != "thread").count(), files.len() + 13);
    assert!(!place.path().join("cache").exists() && server.stored().objects.contains_key("a/simple/index.html"));
}
