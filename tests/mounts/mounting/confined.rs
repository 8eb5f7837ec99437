//! What the daemon of a mount can still do.

use super::sandbox::{Sandbox, has};
use crate::common::skipped;

#[test]
fn a_daemon_that_mounts_by_itself_can_run_nothing_and_mount_nothing_more() {
    let Some(sandbox) = Sandbox::new() else { return };
    let said = sandbox.run(
        r#"
        KPACKFS_PROBE= kpackfs mount "$IN" "$M" 2>"$D/tried" || cat "$D/tried"
        cat "$M/host/plain.so" >/dev/null
        for thread in /proc/$(daemon)/task/*; do grep -E '^(NoNewPrivs|Seccomp_filters):' "$thread/status" | tr '\n\t' '  '; echo; done | sort -u
        kpackfs status "$M" | grep '^Confined'
        kpackfs status --json "$M" | grep -Eo '"(core dumps|capabilities|new privileges|system calls)"|"detail": ?"[^"]*"' | sed 's/": *"/": "/'
        grep -E 'probe: (exec|mount|module|keys|fork|ptrace|code):' "$D/tried"
        kpackfs umount "$M" && mountpoint -q "$M" || echo gone
        "#,
    );
    let refused =
        |names: &[&str]| names.iter().fold(String::new(), |all, name| all + "probe: " + name + ": Some(38)\n");
    let (while_mounting, mounted) = (
        refused(&["exec", "ptrace"]) + "probe: mount: Some(14)\n" + &refused(&["module", "keys", "code", "fork"]),
        refused(&["exec", "ptrace", "mount", "module", "keys", "code", "fork"]),
    );
    let (in_force, tried) = said.split_at(said.find("probe:").unwrap());
    assert_eq!(tried, format!("{while_mounting}{mounted}gone\n"));
    let expected = [
        "NoNewPrivs: 1 Seccomp_filters: 2 ",
        "Confined, except: files (as for every mount: Landlock would forbid mounting and unmounting)",
        "\"core dumps\"",
        "\"detail\": \"refused",
        "\"capabilities\"",
        "\"detail\": \"only CHOWN, DAC_OVERRIDE, ",
        "\"detail\": \"as for every mount: Landlock would forbid mounting and unmounting",
        "\"new privileges\"",
        "\"detail\": \"refused",
        "\"system calls\"",
        "\"detail\": \"seccomp, ",
    ];
    let is = in_force.lines().zip(expected).all(|(line, start)| line.starts_with(start));
    assert!(is && in_force.lines().count() == expected.len(), "{in_force}");
}

/// They are looked for before /sys is out of reach.
#[test]
fn a_confined_command_knows_the_gpus_of_this_machine() {
    let Some(sandbox) = Sandbox::new() else { return };
    let said = sandbox.run(
        r#"
        mount -t tmpfs class /sys/class
        split() { kpackfs split -q "$IN" --gpu-targets "$@" -o "$D/out" --force && (cd "$D/out" && echo *); }
        split auto
        nodes=/sys/class/kfd/kfd/topology/nodes
        mkdir -p $nodes/0 && printf 'simd_count 96\ngfx_target_version 100300\n' >$nodes/0/properties
        split auto
        split gfx90a auto
        split all
        "#,
    );
    let (without, with) = said.split_once("'--help'.\n").unwrap();
    assert!(without.starts_with("error: invalid value 'auto' for '--gpu-targets <LIST>': /sys/class/kfd/"), "{said}");
    let both = "gfx1030 gfx90a host\n";
    assert_eq!(with, format!("gfx1030 host\n{both}{both}"));
}

/// fusermount3 has the rights of root when it unmounts for a user.
#[test]
fn the_daemon_of_a_user_can_still_unmount() {
    let Some(sandbox) = Sandbox::new() else { return };
    if !has("fusermount3") || !has("setpriv") {
        return;
    }
    let said = sandbox.run(
        r#"
        for_users
        as kpackfs mount "$IN" "$M"
        as kpackfs status "$M" | grep -Eo '(new privileges|system calls) [(]fuser'
        pid=$(daemon); kill -TERM $pid; gone $pid
        mountpoint -q "$M" || echo gone
        "#,
    );
    if said == "no\n" {
        return skipped("no devices can be made here");
    }
    assert_eq!(said, "new privileges (fuser\nsystem calls (fuser\ngone\n");
}
