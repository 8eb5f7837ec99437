//! Mounts in the tree that a command is asked about.

use super::sandbox::Sandbox;

/// The daemon is stopped, so that whatever is asked of the mount waits.
#[test]
fn a_mount_in_a_tree_is_left_out_and_not_asked() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        asked() { timeout 300 kpackfs "$@" >"$D/said" 2>&1; echo "$? $(grep -c "$IN/mnt: left out: a mount of kpackfs" "$D/said")"; }
        mkdir "$IN/mnt"; kpackfs mount "$IN" "$IN/mnt"; pid=$(daemon); stop $pid
        asked inspect "$IN" --require gfx90a
        asked why "$IN" --target gfx90a
        asked verify "$IN"
        asked split "$IN" -o "$D/out"
        ls "$D/out/host"
        asked mount "$IN" "$M"
        echo x >"$D/page"; ln "$D/page" "$D/same"
        asked inspect "$IN" --html "$D/page"
        kpackfs umount "$M"; kill -CONT $pid; kpackfs umount "$IN/mnt"
        "#,
    );
    assert_eq!(text, "0 1\n0 1\n2 1\n0 1\nplain.so\n0 1\n0 1\n");
}

#[test]
fn symlinks_into_a_mount_that_is_stopped_are_not_followed() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        asked() { timeout 300 kpackfs "$@" >"$D/said" 2>&1; echo "$1 $? $(grep -c "symlinks into a mount .* $M is stopped" "$D/said")"; }
        kpackfs mount "$IN" "$M"; pid=$(daemon); stop $pid
        mkdir -p "$D/tree/lib" "$D/empty"; cp "$IN/plain.so" "$D/tree/lib"
        ln -s "$M/host" "$D/tree/host"; ln -s "$M/host/plain.so" "$D/tree/lib/x.so"; ln -s "$M/wheels/x.whl" "$D/tree/x.whl"
        asked inspect "$D/tree" --require gfx90a
        asked why "$D/tree" --target gfx90a
        asked verify "$D/tree"
        asked split "$D/tree" -o "$D/out"
        asked inspect "$D/tree/lib/x.so"
        kill -CONT $pid; kpackfs umount "$M"
        "#,
    );
    assert_eq!(text, "inspect 0 1\nwhy 0 1\nverify 2 1\nsplit 0 1\ninspect 5 0\n");
}

/// Such a mount has no statement any more.
#[test]
fn a_mount_of_an_input_that_has_changed_is_named() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        asked() { kpackfs "$@" >/dev/null 2>"$D/said"; echo "$? $(grep -c "m: the input of this mount has changed .*kpackfs umount" "$D/said")"; }
        kpackfs mount "$IN" "$M"; printf x >>"$IN/plain.so"
        asked inspect "$M"; asked why "$M" --target gfx90a; asked verify "$M"; asked diff "$M" "$IN"; asked ls "$M"
        asked split "$M" -o "$D/out"; asked collect "$D/in/plain.so" --from "$M" --gpu-targets gfx90a -o "$D/out"
        kpackfs umount "$M"
        "#,
    );
    assert_eq!(text, "5 1\n".repeat(7));
}

#[test]
fn a_directory_with_files_of_the_input_is_not_mounted_on() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mkdir "$IN/lib" "$IN/empty"; touch "$IN/lib/x"
        kpackfs mount "$IN" "$IN/lib"; echo $?
        kpackfs mount "$IN" "$IN/empty"; echo $?
        cat "$IN/empty/host/plain.so" >/dev/null; kpackfs umount "$IN/empty"
        "#,
    );
    let refused = "kpackfs: $D/in/lib: mounting here would cover the input $D/in/lib/x; name another directory";
    assert_eq!(text, format!("{refused}\n1\n0\n"));
}
