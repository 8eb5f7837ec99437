//! What a mount reports about itself: `.kpackfs/status.json` and `kpackfs status`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{program, succeeds};
use crate::mount::mounts::{Mount, fat};

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn status_is_shown_for_people_and_for_programs() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    fs::read(mount.at("gfx90a/.kpack/rocm_gfx90a.kpack")).unwrap();
    let shown = text(&succeeds(program().arg("status").arg(mount.path())));
    for what in [fat.path().to_str().unwrap(), "frames made", "bytes read", "lookup"] {
        assert!(shown.contains(what), "{what:?} in {shown}");
    }
    let json = text(&succeeds(program().args(["status", "--json"]).arg(mount.path())));
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status["input"], fat.path().to_str().unwrap());
    assert!(status["uptime_seconds"].as_f64().unwrap() > 0.0);
    assert!(status["counters"]["frames_made"].as_u64().unwrap() > 0);
    assert!(status["counters"]["requests_by_kind"]["lookup"].as_u64().unwrap() > 2);
    assert!(status["counters"]["longest_request_microseconds"].as_u64().unwrap() > 0);
    assert_eq!(status["making"].as_array().unwrap().len(), 0);

    let lookups = || mount.status()["counters"]["requests_by_kind"]["lookup"].as_u64().unwrap();
    let before = lookups();
    assert!(lookups() > before, "what is read is fresh each time");
}

#[test]
fn watching_ends_with_the_mount() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let mut command = program();
    let mut watcher = command.args(["status", "--watch"]).arg(mount.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("per second")));
    succeeds(program().arg("umount").arg("--lazy").arg(mount.path()));
    assert!(lines.all(|line| line.is_ok()));
    assert!(watcher.wait().unwrap().success());
}

#[test]
fn watching_fits_the_terminal() {
    const CLEAR: &str = "\x1b[H\x1b[J";
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let all = text(&succeeds(program().arg("status").arg(mount.path())));
    // The prompt has a row, too.
    let rows = |line: &str| line.chars().count().div_ceil(80).max(1);
    assert!((13..24).contains(&all.lines().map(rows).sum::<usize>()), "{all}");
    // script(1) gives it a terminal.
    let watch = "stty rows 12 cols 80; exec \"$KPACKFS\" status --watch \"$PLACE\"";
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--flush", "--command", watch, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    terminal.env("KPACKFS", env!("CARGO_BIN_EXE_kpackfs")).env("PLACE", mount.path());
    let mut terminal = terminal.spawn().unwrap();
    let mut out = BufReader::new(terminal.stdout.take().unwrap());
    let (mut shown, mut line) = (String::new(), String::new());
    while shown.matches(CLEAR).count() < 3 && out.read_line(&mut line).unwrap() > 0 {
        shown += &line;
        line.clear();
    }
    succeeds(program().arg("umount").arg("--lazy").arg(mount.path()));
    terminal.wait().unwrap();
    let pages: Vec<_> = shown.split(CLEAR).skip(1).take(2).collect();
    assert_eq!(pages.len(), 2, "{shown}");
    for page in pages {
        // The last row is for the cursor. A long line takes several rows.
        assert!(page.lines().count() <= 11, "{page}");
        assert!(page.trim_end().ends_with("… kpackfs status shows the rest"), "{page}");
    }
}

/// What `status` and `umount` say about paths that are no mount point of kpackfs.
#[test]
fn only_mounts_have_a_status() {
    let place = tempfile::tempdir().unwrap();
    for (path, reason) in [
        (place.path(), "not a mount point; `findmnt -t fuse.kpackfs` lists those of kpackfs"),
        (Path::new("/proc"), "not a kpackfs mount: a proc with the source proc is mounted here"),
        (Path::new("/no"), "not a mount point; `findmnt -t fuse.kpackfs` lists those of kpackfs"),
    ] {
        for command in ["status", "umount"] {
            let output = program().arg(command).arg(path).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{command}");
            assert_eq!(
                String::from_utf8_lossy(&output.stderr),
                format!("kpackfs: {}: {reason}\n", path.canonicalize().unwrap_or(path.to_owned()).display())
            );
        }
    }
    assert!(Path::new("/proc/self").exists());
    let help = text(&succeeds(Command::new(env!("CARGO_BIN_EXE_kpackfs")).arg("--help")));
    assert!(help.contains("status"), "{help}");
}

#[test]
fn a_path_in_a_mount_leads_to_its_mount_point() {
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    let named = mount.path().canonicalize().unwrap();
    for command in ["status", "umount"] {
        let output = program().arg(command).arg(mount.at("host/lib")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected = format!("not a mount point, but in the kpackfs mount {}; name that\n", named.display());
        assert!(said.ends_with(&expected), "{said}");
    }
}
